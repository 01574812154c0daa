#![allow(unsafe_code, reason = "copies into memory that was lent with a receive")]

use core::ptr;

use super::send::return_cell;
use crate::engine::tag_matcher::Want;
use crate::soft::network::Net;
use crate::soft::network::endpoint_state::{EndpointState, LocalState};
use crate::soft::network::matching_memory::{Receive, RecvBuffer, RecvKind, kind_of};
use crate::soft::shared::cell::{Message, MessageCell, State};
use crate::soft::shared::copy::{
    LIMIT, List, NOTHING, at_most, copy_message, copy_ranges, ranges, receive_limit, send_limit, total,
};
use crate::soft::shared::list::NIL;
use crate::transport::{Event, Msg, Refusal};
use crate::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, OpFlags, Tag};

/// # Safety
/// `room` is valid for writes until the event of its context, or until the endpoint is closed.
#[inline(always)]
pub(crate) unsafe fn post_receive(
    net: &Net,
    port: &EndpointState,
    kind: CompletionFlags,
    want: Want,
    room: RecvBuffer,
) -> Result<(), Refusal> {
    let own = port.own();
    own.reserve_receive()?;
    // SAFETY: the caller guarantees `room`.
    if unsafe { place_receive(net, own, kind, want, room) } {
        return Ok(());
    }
    own.rx().release();
    Err(Refusal::Again)
}

/// # Safety
/// See [`post_receive`].
#[inline(always)]
unsafe fn place_receive(net: &Net, own: &LocalState, kind: CompletionFlags, want: Want, room: RecvBuffer) -> bool {
    let kind = kind_of(kind);
    // SAFETY: the caller guarantees `room`.
    if !own.unexpected[kind].is_empty() && unsafe { take_unexpected(net, own, kind, want, room) } {
        return true;
    }
    let at = own.receives.get();
    if at == NIL {
        return false;
    }
    own.receives.set(own.receive(at).next.get());
    own.wait(at, kind, want, room);
    true
}

/// Returns `false` if no message matches.
///
/// # Safety
/// `room` is valid for writes.
#[inline(never)]
unsafe fn take_unexpected(net: &Net, own: &LocalState, kind: usize, want: Want, room: RecvBuffer) -> bool {
    let unexpected = &own.unexpected[kind];
    while let Some(at) = unexpected.find(&want) {
        unexpected.remove(at);
        // SAFETY: the caller guarantees `room`.
        if unsafe { hand_over(net, own, net.cell(at), &room, |event| own.end_receive(event)) } {
            own.free_pieces(room);
            return true;
        }
    }
    false
}

/// Returns `false` for a revoked message.
///
/// # Safety
/// `room` is valid for writes.
#[inline(always)]
pub(crate) unsafe fn hand_over(
    net: &Net,
    own: &LocalState,
    head: &MessageCell,
    room: &RecvBuffer,
    end: impl FnOnce(Event),
) -> bool {
    let offered = !head.is(State::Eager);
    if offered && !head.claim(State::Copying) {
        return_cell(net, head);
        return false;
    }
    let message = &head.message;
    let len = message.len.get().min(room.len);
    let list = offered && is_list(net, head);
    if list || room.is_scattered() {
        // SAFETY: the message lies in the receiver's cell, or in buffers that stay lent while the
        // state is `Copying`. The caller guarantees that the buffers are writable and exclusive.
        unsafe { copy_pieces(own, message, (room.ptr, room.len), room.first_piece(), list) };
    } else {
        // SAFETY: the message lies in the receiver's cell, or in a buffer that stays lent while the
        // state is `Copying`. The caller guarantees that `room` is writable and exclusive.
        unsafe { copy_message(message.bytes.get(), room.ptr, len) };
    }

    let mut event = Event::success(room.context, message.flags(), len);
    event.tag = Tag(message.tag.get());
    event.data = ImmediateData(message.data.get());
    event.source = FabricAddr(message.from.get());
    if message.len.get() > room.len {
        end(truncated(event, message.len.get() - room.len));
    } else {
        end(event);
    }
    if offered {
        head.finish();
        net.owner_of(head).give_back(head);
    } else {
        head.come_home();
    }
    true
}

#[cold]
pub(crate) fn truncated(mut event: Event, overflow: usize) -> Event {
    event.errno = Errno::ETRUNC;
    event.provider_errno = Errno::ETRUNC.as_raw();
    event.overflow_or_place = overflow;
    event
}

/// # Safety
/// See [`hand_over`]. The message must be readable.
#[cold]
#[inline(never)]
unsafe fn copy_pieces(own: &LocalState, message: &Message, one: (*mut u8, usize), first_piece: u32, list: bool) {
    let bytes = message.bytes.get();
    let mut from: List = [NOTHING; LIMIT];
    if list {
        // SAFETY: the sender has written a list there, and leaves it during the copy.
        from = unsafe { bytes.cast::<List>().read() };
    } else {
        from[0] = (bytes.cast_mut(), message.len.get());
    }
    let one = (first_piece == NIL).then_some(one);
    let several = own.chain_from(first_piece).map(|at| own.receive(at).room()).map(|room| (room.ptr, room.len));
    let into = one.into_iter().chain(several);
    // SAFETY: the caller guarantees both sides. Unused ranges have no bytes.
    unsafe { copy_ranges(from.into_iter(), into) };
}

#[inline]
fn is_list(net: &Net, head: &MessageCell) -> bool {
    send_limit(net.eager_size) > 1
        && head.message.len.get() > 0
        && ptr::eq(head.message.bytes.get(), net.eager_room(head))
}

/// # Safety
/// See [`post_receive`], for each buffer.
#[inline(never)]
unsafe fn post_scattered(
    net: &Net,
    own: &LocalState,
    kind: CompletionFlags,
    (want, room): (Want, RecvBuffer),
    msg: &Msg<'_>,
) -> Result<(), Refusal> {
    own.reserve_receive()?;
    let Some(first) = own.take_places(msg.pieces.len()) else {
        own.rx().release();
        return Err(Refusal::Again);
    };
    for (place, (ptr, len)) in own.chain_from(first).zip(ranges(msg)) {
        own.receive(place).set_room(RecvBuffer { ptr, len, ..room });
    }
    let room = RecvBuffer { len: total(msg), ..room.scattered_over(first) };
    // SAFETY: the caller guarantees the buffers, and the places are written above.
    if unsafe { place_receive(net, own, kind, want, room) } {
        return Ok(());
    }
    own.free_pieces(room);
    own.rx().release();
    Err(Refusal::Again)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nth {
    /// Its event uses the slot of the post.
    Last,
    /// Its event has a slot of its own.
    NotLast,
}

/// # Safety
/// `room` is valid for writes until the multi-receive's last event, or until the endpoint is
/// closed.
#[cold]
#[inline(never)]
unsafe fn post_multi_receive(
    net: &Net,
    own: &LocalState,
    kind: CompletionFlags,
    want: Want,
    room: RecvBuffer,
) -> Result<(), Refusal> {
    own.reserve_receive()?;
    let place = own.receives.get();
    if place == NIL {
        own.rx().release();
        return Err(Refusal::Again);
    }
    let receive = own.receive(place);
    own.receives.set(receive.next.get());
    receive.set_room(room);

    let kind = kind_of(kind);
    let unexpected = &own.unexpected[kind];
    while let Some(at) = unexpected.find(&want) {
        let head = net.cell(at);
        let Some(nth) = admit(own, head, receive) else {
            own.report_received(Event::success(room.context, CompletionFlags::MULTI_RECV, 0));
            own.free_receive(place);
            return Ok(());
        };
        unexpected.remove(at);
        // SAFETY: the caller guarantees `room`.
        if unsafe { hand_on(net, own, head, receive, nth) } {
            own.free_receive(place);
            return Ok(());
        }
    }
    own.wait(place, kind, want, receive.room());
    Ok(())
}

/// `None` if it has to wait for a slot for its event.
pub(crate) fn admit(own: &LocalState, head: &MessageCell, receive: &Receive) -> Option<Nth> {
    let room = receive.room();
    let left = room.len.saturating_sub(head.message.len.get());
    if left < room.min_left {
        return Some(Nth::Last);
    }
    own.rx().reserve().then_some(Nth::NotLast)
}

/// Returns `true` if this ends the multi-receive.
///
/// # Safety
/// The room of the receive is valid for writes.
pub(crate) unsafe fn hand_on(net: &Net, own: &LocalState, head: &MessageCell, receive: &Receive, nth: Nth) -> bool {
    let room = receive.room();
    let len = head.message.len.get().min(room.len);
    let end = |mut event: Event| {
        if !event.is_error() {
            event.overflow_or_place = room.ptr.addr();
        }
        if nth == Nth::Last {
            event.flags |= CompletionFlags::MULTI_RECV;
        }
        own.end_receive(event);
    };
    // SAFETY: the caller guarantees the room.
    if !unsafe { hand_over(net, own, head, &room, end) } {
        if nth == Nth::NotLast {
            own.rx().release();
        }
        return false;
    }
    // SAFETY: `len` is at most `room.len`, so `ptr` is within the lent buffer or at its end.
    let ptr = unsafe { room.ptr.add(len) };
    receive.set_room(RecvBuffer { ptr, len: room.len - len, ..room });
    nth == Nth::Last
}

/// # Safety
/// See [`post_receive`], for each buffer.
pub(crate) unsafe fn receive_msg(
    net: &Net,
    port: &EndpointState,
    kind: CompletionFlags,
    msg: &Msg<'_>,
    want: Want,
    min_left: usize,
) -> Result<(), Refusal> {
    at_most(receive_limit(net.attr.rx_depth), msg.pieces)?;
    let room = RecvBuffer::first_of(msg, min_left);
    if msg.pieces.len() > 1 {
        // SAFETY: the caller guarantees the buffers.
        return unsafe { post_scattered(net, port.own(), kind, (want, room), msg) };
    }
    if room.is_multi() {
        // SAFETY: the caller guarantees the buffer.
        return unsafe { post_multi_receive(net, port.own(), kind, want, room) };
    }
    // SAFETY: the caller guarantees the buffer.
    unsafe { post_receive(net, port, kind, want, room) }
}

const RECEIVED: CompletionFlags = CompletionFlags::TAGGED.union(CompletionFlags::RECV);

const fn none(context: u64) -> Event {
    Event::failure(context, RECEIVED, Errno::ENOMSG)
}

fn found(context: u64, head: &MessageCell) -> Event {
    let message = &head.message;
    Event {
        tag: Tag(message.tag.get()),
        data: ImmediateData(message.data.get()),
        source: FabricAddr(message.from.get()),
        ..Event::success(context, message.flags(), message.len.get())
    }
}

pub(crate) fn peek(net: &Net, port: &EndpointState, want: &Want, context: u64, flags: OpFlags) -> Result<(), Refusal> {
    let own = port.own();
    let place = own.receives.get();
    let claims = flags.contains(OpFlags::CLAIM);
    if claims && place == NIL {
        return Err(Refusal::Again);
    }
    own.reserve_receive()?;
    let unexpected = &own.unexpected[kind_of(CompletionFlags::TAGGED)];
    let mut answer = none(context);
    while let Some(at) = unexpected.find(want) {
        let head = net.cell(at);
        if head.is(State::Revoked) {
            unexpected.remove(at);
            return_cell(net, head);
            continue;
        }
        answer = found(context, head);
        if claims {
            unexpected.remove(at);
            own.receives.set(own.receive(place).next.get());
            own.use_place(place, RecvKind::Claimed, RecvBuffer { len: at as usize, context, ..RecvBuffer::NONE });
        } else if flags.contains(OpFlags::DISCARD) {
            unexpected.remove(at);
            if !discard(net, head) {
                answer = none(context);
                continue;
            }
        }
        break;
    }
    own.report_received(answer);
    Ok(())
}

fn discard(net: &Net, head: &MessageCell) -> bool {
    if !head.is(State::Eager) {
        if !head.claim(State::Copying) {
            return_cell(net, head);
            return false;
        }
        head.finish();
    }
    return_cell(net, head);
    true
}

fn take_claim<'n>(net: &'n Net, own: &LocalState, context: u64) -> Result<&'n MessageCell, Refusal> {
    own.reserve_receive()?;
    let Some((at, _)) = own.find_place(context, |used| used == RecvKind::Claimed) else {
        own.rx().release();
        return Err(Refusal::Errno(Errno::ENOMSG));
    };
    let head = claimed_cell(net, own, at);
    own.free_receive(at);
    Ok(head)
}

pub(crate) fn claimed_cell<'n>(net: &'n Net, own: &LocalState, at: u32) -> &'n MessageCell {
    #[expect(clippy::cast_possible_truncation, reason = "a cell's number, as it was put there")]
    net.cell(own.receive(at).room().len as u32)
}

/// # Safety
/// `room` is valid for writes.
pub(crate) unsafe fn fetch_claimed(net: &Net, port: &EndpointState, room: &RecvBuffer) -> Result<(), Refusal> {
    let own = port.own();
    let head = take_claim(net, own, room.context)?;
    // SAFETY: the caller guarantees `room`.
    if !unsafe { hand_over(net, own, head, room, |event| own.end_receive(event)) } {
        own.end_receive(none(room.context));
    }
    Ok(())
}

pub(crate) fn discard_claimed(net: &Net, port: &EndpointState, context: u64) -> Result<(), Refusal> {
    let own = port.own();
    let head = take_claim(net, own, context)?;
    let found_message = found(context, head);
    own.report_received(if discard(net, head) { found_message } else { none(context) });
    Ok(())
}
