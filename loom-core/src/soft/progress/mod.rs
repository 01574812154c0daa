#![allow(unsafe_code, reason = "implements the unsafe trait `CompletionQueues`")]

pub(crate) mod sleep;

use core::alloc::Layout;
use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::NonNull;

use super::collective::membership::report_collectives;
use super::delivery::inbox::deliver;
use super::delivery::lane::{Turn, deliver_from_lanes, deliver_next, take_in_lanes, turn_of};
use super::delivery::send::{harvest, return_cell};
use super::handles::SoftCq;
use super::lane::arrivals::Arriving;
use super::network::Net;
use super::network::endpoint_state::{EndpointState, LocalState};
use super::progress::sleep::falls_asleep;
use super::rma::delayed::do_late;
use super::shared::address::NO_PORT;
use super::shared::cell::{MessageCell, State};
use super::shared::list::NIL;
use super::shared::queue::Queue;
use super::shared::sleeper::{Sleeper, Sleeps};
use super::shared::waker::Left;
use super::transport::Soft;
use crate::transport::{CompletionQueues, Event};
use crate::util::sync::Ordering;
use crate::vocabulary::{Errno, WaitObj};

#[inline]
pub(super) fn advance(net: &Net, queue: &Queue) {
    let first = queue.turn.get();
    if first == NO_PORT {
        return queue.report_overrun();
    }
    let mut port = net.port(first);
    loop {
        if let Some(arriving) = port.own().arrivals.first_to_deliver() {
            return advance_by_lane(net, queue, port, arriving);
        }
        if port.is_busy() {
            return advance_from(net, queue, port, first);
        }
        let next = port.own().next_on(queue).get();
        if next == first {
            return;
        }
        port = net.port(next);
    }
}

#[inline(never)]
fn advance_by_lane(net: &Net, queue: &Queue, port: &EndpointState, arriving: &Arriving) {
    let own = port.own();
    let others_first = queue.is_overrun() || port.is_busy() && own.arrivals.is_inboxs_turn();
    if others_first || !deliver_next(net, own, arriving) || queue.is_empty() {
        return advance_from(net, queue, port, own.index);
    }
    count_turn(queue, own);
}

#[inline(always)]
fn count_turn(queue: &Queue, own: &LocalState) {
    if queue.had_its_turn(own.index) {
        queue.turn.set(own.next_on(queue).get());
        own.arrivals.pass_turn();
    }
}

#[inline(never)]
fn advance_from<'n>(net: &'n Net, queue: &Queue, mut port: &'n EndpointState, first: u16) {
    if queue.is_overrun() {
        return queue.report_overrun();
    }
    loop {
        advance_port(net, queue, port);
        if !queue.is_empty() {
            return count_turn(queue, port.own());
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
        if own.faults().late.get() > 0 {
            do_late(net, port);
        }
    }
    if port.revocations.take() {
        take_notices(net, port);
    }
    if own.backlog.get() != NIL && queue.is_empty() {
        deliver_backlog(net, own, queue);
    }
    if own.backlog.get() == NIL && queue.is_empty() {
        deliver_from_inbox(net, port, queue);
    }
    if !own.arrivals.is_empty() && queue.is_empty() {
        deliver_from_lanes(net, own, queue);
    }
}

#[inline(always)]
fn deliver_from_inbox(net: &Net, port: &EndpointState, queue: &Queue) {
    let own = port.own();
    let newest = port.inbox.take(own.generation());
    if newest != NIL {
        own.backlog.set(deliver_from(net, net.oldest_first(newest), own, queue));
    }
}

#[cold]
#[inline(never)]
fn deliver_backlog(net: &Net, own: &LocalState, queue: &Queue) {
    own.backlog.set(deliver_from(net, own.backlog.get(), own, queue));
}

#[inline(always)]
fn deliver_from(net: &Net, mut cell: u32, own: &LocalState, queue: &Queue) -> u32 {
    loop {
        let head = net.cell(cell);
        let next = head.link.load(Ordering::Relaxed);
        if !deliver_in_turn(net, own, head) {
            return cell;
        }
        if next == NIL || !queue.is_empty() {
            return next;
        }
        cell = next;
    }
}

#[cold]
#[inline(never)]
pub(super) fn take_in(net: &Net, port: &EndpointState) {
    let own = port.own();
    if port.revocations.take() {
        take_notices(net, port);
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
            if !deliver_in_turn(net, own, head) {
                own.backlog.set(cell);
                return;
            }
            cell = next;
        }
    }
    take_in_lanes(net, own);
}

#[inline(always)]
fn deliver_in_turn(net: &Net, own: &LocalState, head: &MessageCell) -> bool {
    let arriving = match turn_of(net, own, head) {
        Turn::Now(arriving) => arriving,
        Turn::Later => return false,
        Turn::Over => return true,
    };
    let delivered = deliver(net, own, head);
    if delivered && let Some(arriving) = arriving {
        arriving.advance();
    }
    delivered
}

#[cold]
#[inline(never)]
fn take_notices(net: &Net, port: &EndpointState) {
    return_revoked(net, port);
    unload(net, port);
    report_collectives(net, port);
}

fn return_revoked(net: &Net, port: &EndpointState) {
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

fn unload(net: &Net, port: &EndpointState) {
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
        let waits = left > 0 || holds_of(net, own.faults().held.get(), head.message.from.get());
        append(net, if waits { &own.faults().held } else { &own.backlog }, cell);
        cell = next;
    }
    if own.faults().held.get() != NIL {
        port.notify();
    }
}

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

// SAFETY: see the implementation of `Transport`.
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
        let sleeper = match wait {
            WaitObj::NONE => None,
            wait if domain.net.can_sleep(wait) => Some(Sleeper::new(wait)?),
            _ => return Err(Errno::ENOSYS),
        };
        // SAFETY: the memory has the layout of `depth`, and stays while the queue is used (M1).
        let queue = unsafe { Queue::build(memory, depth, sleeper) }.ok_or(Errno::EINVAL)?;
        Ok(SoftCq { net: domain.net, queue })
    }

    unsafe fn cq_close(cq: &Self::Cq) -> Result<(), Errno> {
        // SAFETY: `cq_open` has built the queue. It is closed once (H3), after its endpoints (H2),
        // so their peers use it no more.
        unsafe { Queue::close(cq.queue) };
        Ok(())
    }

    #[inline(always)]
    unsafe fn cq_poll(cq: &Self::Cq) -> Result<Option<&Event>, Errno> {
        let queue = cq.queue();
        if queue.is_empty() {
            advance(&cq.net, queue);
        }
        Ok(queue.pop())
    }

    unsafe fn cq_sleep(cq: &Self::Cq, milliseconds: i32) -> Result<(), Errno> {
        let queue = cq.queue();
        let sleeper = queue.sleeper().ok_or(Errno::ENOSYS)?;
        let left = Left::milliseconds(milliseconds);
        while queue.is_empty() && falls_asleep(&cq.net, queue, sleeper, Sleeps::InCall) {
            let woken = sleeper.sleep(&left);
            sleeper.set_awake();
            if !woken {
                break;
            }
            advance(&cq.net, queue);
        }
        Ok(())
    }

    unsafe fn cq_wait_fd(cq: &Self::Cq) -> Result<c_int, Errno> {
        cq.queue().sleeper().ok_or(Errno::ENOSYS)?.descriptor()
    }

    unsafe fn cq_may_sleep(_: &Self::Domain, cq: &Self::Cq) -> Result<bool, Errno> {
        let queue = cq.queue();
        let sleeper = queue.sleeper().ok_or(Errno::ENOSYS)?;
        sleeper.descriptor()?;
        if queue.is_empty() {
            advance(&cq.net, queue);
        }
        Ok(queue.is_empty() && falls_asleep(&cq.net, queue, sleeper, Sleeps::OnDescriptor))
    }

    unsafe fn cq_read_error(_: &Self::Cq) -> Result<Option<Event>, Errno> {
        Ok(None)
    }

    unsafe fn cq_error_text(_: &Self::Cq, provider_errno: i32, out: &mut [u8]) -> usize {
        let text = Errno::from_raw(provider_errno).text().as_bytes();
        out.iter_mut().zip(text).map(|(to, from)| *to = *from).count()
    }
}
