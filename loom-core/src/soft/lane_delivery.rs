//! Delivering what comes by lanes, in the order of the numbers that messages have on both ways.

#![allow(unsafe_code, reason = "hands messages from slots to receives")]

use super::cell::{LANE_NEWS, MessageCell, State, number_in_pair};
use super::copy::copy_message;
use super::deliver::deliver;
use super::endpoint_state::LocalState;
use super::lane::{Facts, Slot};
use super::lane_arrivals::Arriving;
use super::network::Net;
use super::queue::Queue;
use super::receive::truncated;
use crate::engine::tag_matcher::Envelope;
use crate::transport::Event;
use crate::vocabulary::{FabricAddr, ImmediateData, Tag};

/// Delivers what has come by lanes until the queue has an event.
#[inline(never)]
pub(super) fn deliver_from_lanes(net: &Net, own: &LocalState, queue: &Queue) {
    for arriving in own.arrivals.lanes() {
        while queue.is_empty() && deliver_next(net, own, arriving) {}
    }
}

/// Delivers whatever has come by lanes.
pub(super) fn take_in_lanes(net: &Net, own: &LocalState) {
    for arriving in own.arrivals.lanes() {
        while deliver_next(net, own, arriving) {}
    }
}

/// Delivers the next message of a sender, if it has come by the lane. `false` if it has not, or has to wait.
#[inline(always)]
pub(super) fn deliver_next(net: &Net, own: &LocalState, arriving: &Arriving) -> bool {
    let (lane, next) = (arriving.lane(), arriving.next.get());
    let Some((slot, facts)) = lane.arrived(next) else { return false };
    lane.prefetch(next);
    if !deliver_slot(net, own, (lane.cell(next), arriving.from.get()), slot, facts) {
        return false;
    }
    arriving.advance();
    true
}

/// Gives the message of a slot to a posted receive, or has it wait in its cell.
#[inline(always)]
fn deliver_slot(net: &Net, own: &LocalState, (cell, from): (&MessageCell, u64), slot: &Slot, facts: Facts) -> bool {
    if facts.is_written() {
        return deliver_written(net, own, (cell, from), slot);
    }
    let kind = usize::from(facts.is_tagged());
    let posted = &own.posted[kind];
    let envelope = Envelope { tag: Tag(slot.tag.get()), source: FabricAddr(from) };
    let at = posted.find(envelope).filter(|at| own.receive(*at).room().min_left == 0);
    let Some(at) = at else { return deliver_by_cell(net, own, (cell, from), slot, facts) };
    let room = own.receive(at).room();
    let len = facts.len().min(room.len);
    // SAFETY: the slot has the bytes, and the sender leaves them until the receiver says that it is done; the receive is posted, so
    // that its memory is still lent.
    unsafe { copy_message(slot.room(), room.ptr, len) };
    let mut event = Event::success(room.context, facts.received(), len);
    event.tag = envelope.tag;
    event.data = ImmediateData(slot.data.get());
    event.source = envelope.source;
    if facts.len() > room.len {
        own.end_receive(truncated(event, facts.len() - room.len));
    } else {
        own.end_receive(event);
    }
    posted.remove(at);
    own.free_receive(at);
    true
}

/// Puts a message into its cell and delivers it from there: where it waits for a receive, or where one takes it that is more than one
/// buffer. `false` if it has to wait for the queue.
#[cold]
#[inline(never)]
fn deliver_by_cell(net: &Net, own: &LocalState, (cell, from): (&MessageCell, u64), slot: &Slot, facts: Facts) -> bool {
    let message = &cell.message;
    message.set_flags(facts.received());
    message.set_number(None);
    message.from.set(from);
    message.tag.set(slot.tag.get());
    message.data.set(slot.data.get());
    message.len.set(facts.len());
    let room = net.eager_room(cell);
    message.bytes.set(room);
    // SAFETY: the slot has the bytes, and a lane's cell has as much room as a slot; it is the receiver's, with the slot.
    unsafe { copy_message(slot.room(), room, facts.len()) };
    cell.set(State::Eager);
    let delivered = deliver(net, own, cell);
    if !delivered {
        // The message is in its slot as before.
        cell.set(State::Home);
    }
    delivered
}

/// Puts the news that memory was written into a cell and delivers them from there.
#[inline(never)]
fn deliver_written(net: &Net, own: &LocalState, (cell, from): (&MessageCell, u64), slot: &Slot) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "a length, as it was put there")]
    let len = slot.tag.get() as usize;
    cell.message.tell_written(from, len, slot.data.get());
    cell.set(State::Eager);
    let delivered = deliver(net, own, cell);
    if !delivered {
        cell.set(State::Home);
    }
    delivered
}

/// When a message of the inbox is delivered.
pub(super) enum Turn<'a> {
    /// Now; where it is numbered, the next one of its lane's sender has its turn then.
    Now(Option<&'a Arriving>),
    /// When one before it can be.
    Later,
    /// It was none, and has been seen to.
    Over,
}

/// Whether it is the turn of a message of the inbox: those of its sender that are before it have come by the lane, and are delivered.
#[inline(always)]
pub(super) fn turn_of<'a>(net: &Net, own: &'a LocalState, head: &MessageCell) -> Turn<'a> {
    if head.message.in_pair() == 0 { Turn::Now(None) } else { turn_of_numbered(net, own, head) }
}

#[inline(never)]
fn turn_of_numbered<'a>(net: &Net, own: &'a LocalState, head: &MessageCell) -> Turn<'a> {
    let Some(arriving) = own.arrivals.from(head.message.from.get()) else {
        debug_assert!(false, "messages are numbered on the way to an endpoint that has accepted a lane");
        return Turn::Now(None);
    };
    if number_in_pair(arriving.next.get()) != head.message.in_pair() && !catch_up(net, own, arriving, head) {
        return Turn::Later;
    }
    if head.message.flags().contains(LANE_NEWS) {
        // It was the last: the lane is the sender's again.
        own.arrivals.leave(arriving);
        head.come_home();
        return Turn::Over;
    }
    Turn::Now(Some(arriving))
}

/// Delivers the messages of a lane before this one. `false` if one of them has to wait.
#[inline(never)]
fn catch_up(net: &Net, own: &LocalState, arriving: &Arriving, head: &MessageCell) -> bool {
    while number_in_pair(arriving.next.get()) != head.message.in_pair() {
        // In the lane: of the inbox's, this one is the first.
        if !deliver_next(net, own, arriving) {
            return false;
        }
    }
    true
}
