#![allow(unsafe_code, reason = "hands messages from slots to receives")]

use super::inbox::deliver;
use super::receive::truncated;
use crate::engine::tag_matcher::Envelope;
use crate::soft::lane::arrivals::Arriving;
use crate::soft::lane::{Slot, SlotWord};
use crate::soft::network::Net;
use crate::soft::network::endpoint_state::LocalState;
use crate::soft::shared::cell::{LANE_NEWS, MessageCell, State, number_in_pair};
use crate::soft::shared::copy::copy_message;
use crate::soft::shared::queue::Queue;
use crate::transport::Event;
use crate::vocabulary::{FabricAddr, ImmediateData, Tag};

#[inline(never)]
pub(crate) fn deliver_from_lanes(net: &Net, own: &LocalState, queue: &Queue) {
    for arriving in own.arrivals.lanes() {
        while queue.is_empty() && deliver_next(net, own, arriving) {}
    }
}

pub(crate) fn take_in_lanes(net: &Net, own: &LocalState) {
    for arriving in own.arrivals.lanes() {
        while deliver_next(net, own, arriving) {}
    }
}

#[inline(always)]
pub(crate) fn deliver_next(net: &Net, own: &LocalState, arriving: &Arriving) -> bool {
    let (lane, next) = (arriving.lane(), arriving.next.get());
    let Some((slot, word)) = lane.arrived(next) else { return false };
    lane.prefetch(next);
    if !deliver_slot(net, own, (lane.cell(next), arriving.from.get()), slot, word) {
        return false;
    }
    arriving.advance();
    true
}

#[inline(always)]
fn deliver_slot(net: &Net, own: &LocalState, (cell, from): (&MessageCell, u64), slot: &Slot, word: SlotWord) -> bool {
    if word.is_rma_notice() {
        return deliver_written(net, own, (cell, from), slot);
    }
    let kind = usize::from(word.is_tagged());
    let posted = &own.posted[kind];
    let envelope = Envelope { tag: Tag(slot.tag.get()), source: FabricAddr(from) };
    let at = posted.find(envelope).filter(|at| own.receive(*at).room().min_left == 0);
    let Some(at) = at else { return deliver_by_cell(net, own, (cell, from), slot, word) };
    let room = own.receive(at).room();
    let len = word.len().min(room.len);
    // SAFETY: the slot has the bytes, and the sender keeps them until the receiver reports the slot
    // as done. The receive is posted, so its memory is still lent.
    unsafe { copy_message(slot.room(), room.ptr, len) };
    let mut event = Event::success(room.context, word.received(), len);
    event.tag = envelope.tag;
    event.data = ImmediateData(slot.data.get());
    event.source = envelope.source;
    if word.len() > room.len {
        own.end_receive(truncated(event, word.len() - room.len));
    } else {
        own.end_receive(event);
    }
    posted.remove(at);
    own.free_receive(at);
    true
}

/// Returns `false` if it has to wait for the queue.
#[cold]
#[inline(never)]
fn deliver_by_cell(
    net: &Net,
    own: &LocalState,
    (cell, from): (&MessageCell, u64),
    slot: &Slot,
    word: SlotWord,
) -> bool {
    let message = &cell.message;
    message.set_flags(word.received());
    message.set_number(None);
    message.from.set(from);
    message.tag.set(slot.tag.get());
    message.data.set(slot.data.get());
    message.len.set(word.len());
    let room = net.eager_room(cell);
    message.bytes.set(room);
    // SAFETY: the slot has the bytes, its cell has as much room, and the receiver has both.
    unsafe { copy_message(slot.room(), room, word.len()) };
    deliver_cell(net, own, cell)
}

#[inline(never)]
fn deliver_written(net: &Net, own: &LocalState, (cell, from): (&MessageCell, u64), slot: &Slot) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "a length, as it was put there")]
    let len = slot.tag.get() as usize;
    cell.message.set_written(from, len, slot.data.get());
    deliver_cell(net, own, cell)
}

#[inline(always)]
fn deliver_cell(net: &Net, own: &LocalState, cell: &MessageCell) -> bool {
    cell.set(State::Eager);
    let delivered = deliver(net, own, cell);
    if !delivered {
        cell.set(State::Home);
    }
    delivered
}

pub(crate) enum Turn<'a> {
    /// Deliver now. A numbered message advances its sender's lane.
    Now(Option<&'a Arriving>),
    /// Wait for earlier messages.
    Later,
    /// Not a message, and handled.
    Over,
}

#[inline(always)]
pub(crate) fn turn_of<'a>(net: &Net, own: &'a LocalState, head: &MessageCell) -> Turn<'a> {
    if head.message.in_pair.get() == 0 { Turn::Now(None) } else { turn_of_numbered(net, own, head) }
}

#[inline(never)]
fn turn_of_numbered<'a>(net: &Net, own: &'a LocalState, head: &MessageCell) -> Turn<'a> {
    let Some(arriving) = own.arrivals.from(head.message.from.get()) else {
        debug_assert!(false, "messages are numbered on the way to an endpoint that has accepted a lane");
        return Turn::Now(None);
    };
    if number_in_pair(arriving.next.get()) != head.message.in_pair.get() && !catch_up(net, own, arriving, head) {
        return Turn::Later;
    }
    if head.message.flags().contains(LANE_NEWS) {
        own.arrivals.leave(arriving);
        head.come_home();
        return Turn::Over;
    }
    Turn::Now(Some(arriving))
}

/// Returns `false` if one has to wait.
#[inline(never)]
fn catch_up(net: &Net, own: &LocalState, arriving: &Arriving, head: &MessageCell) -> bool {
    while number_in_pair(arriving.next.get()) != head.message.in_pair.get() {
        if !deliver_next(net, own, arriving) {
            return false;
        }
    }
    true
}
