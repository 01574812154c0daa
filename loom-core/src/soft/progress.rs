//! Progress: what a poll does for the endpoints of its queue when it has no event at hand.

#![allow(unsafe_code, reason = "hands messages to receives, and implements the unsafe trait `CompletionQueues`")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::NonNull;

use super::address::NO_PORT;
use super::cell::{MessageCell, State};
use super::endpoint_state::{EndpointState, LocalState};
use super::handles::SoftCq;
use super::late::do_late;
use super::list::NIL;
use super::matching::kind_of;
use super::network::Net;
use super::queue::Queue;
use super::receive::{admit, hand_on, hand_over};
use super::send::{harvest, return_cell};
use super::transport::Soft;
use crate::engine::tag_matcher::Envelope;
use crate::sync::Ordering;
use crate::transport::{CompletionQueues, Event};
use crate::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag, WaitObj};

/// Moves what can be moved by the endpoints of an empty queue, until it has an event.
#[inline]
pub(super) fn advance(net: &Net, queue: &Queue) {
    // Mostly there is nothing: what finds that out calls nothing, and is cheap.
    let first = queue.turn.get();
    if first == NO_PORT {
        return;
    }
    let mut port = net.port(first);
    while !port.is_busy() {
        let next = port.own().next_on(queue).get();
        if next == first {
            return;
        }
        port = net.port(next);
    }
    advance_from(net, queue, port, first);
}

/// From this port on, until the circle is back at the first one.
#[inline(never)]
fn advance_from<'n>(net: &'n Net, queue: &Queue, mut port: &'n EndpointState, first: u16) {
    if queue.is_overrun() {
        return queue.tell_overrun();
    }
    loop {
        advance_port(net, queue, port);
        if !queue.is_empty() {
            if queue.had_its_turn(port.own().index) {
                queue.turn.set(port.own().next_on(queue).get());
            }
            return;
        }
        let next = port.own().next_on(queue).get();
        if next == first {
            return;
        }
        port = net.port(next);
    }
}

#[inline]
fn advance_port(net: &Net, queue: &Queue, port: &EndpointState) {
    let own = port.own();
    if own.offers.get() != 0 {
        harvest(net, port);
        if own.faults().are_late() {
            do_late(net, port);
        }
    }
    if port.revocations.take() {
        return_revoked(net, port);
        unload(net, port);
    }
    if own.backlog.get() != NIL && queue.is_empty() {
        deliver_backlog(net, own, queue);
    }
    // Messages stay in order: those in the inbox are younger.
    if own.backlog.get() == NIL && queue.is_empty() {
        let newest = port.inbox.take(own.generation());
        if newest != NIL {
            own.backlog.set(deliver_from(net, net.oldest_first(newest), own, queue));
        }
    }
}

#[cold]
#[inline(never)]
fn deliver_backlog(net: &Net, own: &LocalState, queue: &Queue) {
    own.backlog.set(deliver_from(net, own.backlog.get(), own, queue));
}

/// Delivers messages to an endpoint of an empty queue, until that has an event; returns the first that is left.
#[inline(always)]
fn deliver_from(net: &Net, mut cell: u32, own: &LocalState, queue: &Queue) -> u32 {
    loop {
        let head = net.cell(cell);
        let next = head.link.load(Ordering::Relaxed);
        if !deliver(net, own, head) {
            return cell;
        }
        if next == NIL || !queue.is_empty() {
            return next;
        }
        cell = next;
    }
}

/// Delivers whatever has come, however much there is in the queue already: for a look at what nobody has received.
#[cold]
#[inline(never)]
pub(super) fn take_in(net: &Net, port: &EndpointState) {
    let own = port.own();
    if port.revocations.take() {
        return_revoked(net, port);
        unload(net, port);
    }
    for of_inbox in [false, true] {
        let mut cell = if of_inbox {
            match port.inbox.take(own.generation()) {
                NIL => NIL,
                newest => net.oldest_first(newest),
            }
        } else {
            own.backlog.replace(NIL)
        };
        while cell != NIL {
            let head = net.cell(cell);
            let next = head.link.load(Ordering::Relaxed);
            if !deliver(net, own, head) {
                // Those in the inbox are younger, and wait behind it.
                own.backlog.set(cell);
                return;
            }
            cell = next;
        }
    }
}

/// Looks at a cell from the backlog: gives it to a posted receive, or keeps it. `false` if it has to wait,
/// because the queue has no place for an event of a peer.
#[inline(always)]
pub(super) fn deliver(net: &Net, own: &LocalState, head: &MessageCell) -> bool {
    let flags = head.message.flags.get();
    if flags.contains(CompletionFlags::REMOTE_WRITE) {
        return report_written(net, own, head);
    }
    let kind = kind_of(flags);
    let posted = &own.posted[kind];
    let envelope = Envelope { tag: Tag(head.message.tag.get()), source: FabricAddr(head.message.from.get()) };
    if let Some(at) = posted.find(&envelope) {
        let room = own.receive(at).room();
        if room.min_left != 0 {
            return deliver_to(net, own, head, kind, at);
        }
        // SAFETY: the receive is posted, so its memory is still lent.
        if unsafe { hand_over(net, own, head, &room, |event| own.end_receive(event)) } {
            posted.remove(at);
            own.free_receive(at);
        }
        // Else the message was revoked, and the receive waits on.
        return true;
    }
    if head.is(State::Revoked) {
        // The word of it may have been read before the cell came here, and nobody would look again.
        return_cell(net, head);
    } else {
        own.unexpected[kind].keep(head.number, envelope);
    }
    true
}

/// [`deliver`] to the posted receive in a place, which is a multi-receive, or has several buffers or a prefix.
#[cold]
#[inline(never)]
fn deliver_to(net: &Net, own: &LocalState, head: &MessageCell, kind: usize, at: u32) -> bool {
    let receive = own.receive(at);
    let room = receive.room();
    let over = if room.is_multi() {
        let Some(nth) = admit(own, head, receive) else { return false };
        // SAFETY: the receive is posted, so its memory is still lent.
        unsafe { hand_on(net, own, head, receive, nth) }
    } else {
        // SAFETY: as above.
        unsafe { hand_over(net, own, head, &room, |event| own.end_receive(event)) }
    };
    // From here on the cell is its sender's again.
    if over {
        own.posted[kind].remove(at);
        own.free_pieces(room);
        own.free_receive(at);
    }
    true
}

/// Returns the unexpected messages that their senders have revoked.
#[cold]
#[inline(never)]
pub(super) fn return_revoked(net: &Net, port: &EndpointState) {
    for unexpected in &port.own().unexpected {
        let mut next = unexpected.first();
        while let Some(at) = next {
            next = unexpected.after(at);
            let head = net.cell(at);
            if head.is(State::Revoked) {
                unexpected.remove(at);
                return_cell(net, head);
            }
        }
    }
}

/// Reports that a peer has written to memory of this side.
#[inline(never)]
fn report_written(net: &Net, own: &LocalState, head: &MessageCell) -> bool {
    if own.is_attended() {
        return report_written_attended(net, own, head);
    }
    let queue = own.rx();
    if !queue.reserve() {
        return false;
    }
    let _ = queue.push(written(head, 0));
    return_cell(net, head);
    true
}

/// [`report_written`], where the domain may require modes, or a plan may strike.
#[cold]
#[inline(never)]
fn report_written_attended(net: &Net, own: &LocalState, head: &MessageCell) -> bool {
    if own.modes.get().consumes_receives() {
        return use_receive_up(net, own, head);
    }
    if !own.rx().reserve() {
        return false;
    }
    own.tell(written(head, 0));
    return_cell(net, head);
    true
}

/// [`report_written`], with the event of the oldest receive. `false` if there is none.
fn use_receive_up(net: &Net, own: &LocalState, head: &MessageCell) -> bool {
    let kind = kind_of(CompletionFlags::MSG);
    let waiting = own.receives_used().filter(|(_, used)| used.kind() == Some(kind));
    let Some((at, _)) = waiting.min_by_key(|(at, _)| own.posted[kind].age(*at)) else { return false };
    let room = own.receive(at).room();
    own.posted[kind].remove(at);
    own.free_pieces(room);
    own.free_receive(at);
    own.end_receive(written(head, room.context));
    return_cell(net, head);
    true
}

/// The event of a peer's write.
#[inline(always)]
fn written(head: &MessageCell, context: u64) -> Event {
    let message = &head.message;
    let mut event = Event::success(context, message.flags.get(), message.len.get());
    event.data = ImmediateData(message.data.get());
    event.source = FabricAddr(message.from.get());
    event
}

/// A receiver looks at what is on its way to it, and takes what has arrived: behind what waits to be delivered.
#[cold]
#[inline(never)]
pub(super) fn unload(net: &Net, port: &EndpointState) {
    let own = port.own();
    let newest = port.wire.take(own.generation());
    if newest != NIL {
        append(net, &own.faults().held, net.oldest_first(newest));
    }
    let mut cell = own.faults().held.replace(NIL);
    while cell != NIL {
        let head = net.cell(cell);
        let next = head.link.load(Ordering::Relaxed);
        head.link.store(NIL, Ordering::Relaxed);
        let left = head.looks.get();
        head.looks.set(left.saturating_sub(1));
        // None overtakes another of its sender.
        let waits = left > 0 || holds_of(net, own.faults().held.get(), head.message.from.get());
        append(net, if waits { &own.faults().held } else { &own.backlog }, cell);
        cell = next;
    }
    if own.faults().held.get() != NIL {
        // The next poll looks again.
        port.revocations.tell();
    }
}

/// Whether one of these is a sender's.
fn holds_of(net: &Net, mut cell: u32, from: u64) -> bool {
    while cell != NIL {
        let head = net.cell(cell);
        if head.message.from.get() == from {
            return true;
        }
        cell = head.link.load(Ordering::Relaxed);
    }
    false
}

/// Appends cells that are linked to others that are.
fn append(net: &Net, list: &Cell<u32>, cells: u32) {
    if list.get() == NIL {
        return list.set(cells);
    }
    let mut last = net.cell(list.get());
    loop {
        match last.link.load(Ordering::Relaxed) {
            NIL => return last.link.store(cells, Ordering::Relaxed),
            next => last = net.cell(next),
        }
    }
}

// SAFETY: as `Transport`.
unsafe impl<'n> CompletionQueues for Soft<'n> {
    type Cq = SoftCq<'n>;
    type Polled<'q>
        = &'q Event
    where
        'n: 'q;

    fn cq_layout(depth: usize) -> Layout {
        Queue::layout(depth)
    }

    unsafe fn cq_open(
        domain: &Self::Domain,
        depth: usize,
        _: bool,
        wait: WaitObj,
        memory: NonNull<u8>,
    ) -> Result<Self::Cq, Errno> {
        if wait != WaitObj::NONE {
            // There is nobody to wake one up: no operating system is needed.
            return Err(Errno::ENOSYS);
        }
        // SAFETY: the memory has the layout of the depth, and stays as long as the queue is used (C16).
        let queue = unsafe { Queue::build(memory, depth) }.ok_or(Errno::EINVAL)?;
        Ok(SoftCq { net: domain.net, queue })
    }

    unsafe fn cq_close(_: &Self::Cq) -> Result<(), Errno> {
        Ok(())
    }

    // Always: a completion is built in place then, instead of being copied from one return value to the next.
    #[inline(always)]
    unsafe fn cq_poll(cq: &Self::Cq) -> Result<Option<&Event>, Errno> {
        // SAFETY: built by `cq_open`, in memory that stays until the queue is closed (C16); and it is open (C1).
        let queue = unsafe { cq.queue.as_ref() };
        if queue.is_empty() {
            advance(&cq.net, queue);
        }
        Ok(queue.pop())
    }

    unsafe fn cq_sleep(_: &Self::Cq, _: i32) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn cq_wait_fd(_: &Self::Cq) -> Result<c_int, Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn cq_may_sleep(_: &Self::Domain, _: &Self::Cq) -> Result<bool, Errno> {
        Err(Errno::ENOSYS)
    }

    /// Failed operations are events like all others, and so is a queue that was overrun.
    unsafe fn cq_read_error(_: &Self::Cq) -> Result<Option<Event>, Errno> {
        Ok(None)
    }

    unsafe fn cq_error_text(_: &Self::Cq, provider_errno: i32, out: &mut [u8]) -> usize {
        let text = Errno::from_raw(provider_errno).text().as_bytes();
        out.iter_mut().zip(text).map(|(to, from)| *to = *from).count()
    }
}
