#![allow(unsafe_code, reason = "hands messages to receives")]

use super::lane_requests::answer;
use super::receive::{admit, hand_on, hand_over};
use super::send::return_cell;
use crate::engine::tag_matcher::Envelope;
use crate::soft::network::Net;
use crate::soft::network::endpoint_state::LocalState;
use crate::soft::network::matching_memory::kind_of;
use crate::soft::shared::cell::{LANE_NEWS, MessageCell, State};
use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, FabricAddr, ImmediateData, Tag};

/// Returns `false` if a peer's event has to wait for a free slot in the queue.
#[inline(always)]
pub(crate) fn deliver(net: &Net, own: &LocalState, head: &MessageCell) -> bool {
    let flags = head.message.flags();
    if flags.intersects(CompletionFlags::REMOTE_WRITE.union(LANE_NEWS)) {
        return deliver_news(net, own, head);
    }
    let kind = kind_of(flags);
    let posted = &own.posted[kind];
    let envelope = Envelope { tag: Tag(head.message.tag.get()), source: FabricAddr(head.message.from.get()) };
    if let Some(at) = posted.find(envelope) {
        let room = own.receive(at).room();
        if room.min_left != 0 {
            return deliver_to(net, own, head, kind, at);
        }
        // SAFETY: the receive is posted, so its memory is still lent.
        if unsafe { hand_over(net, own, head, &room, |event| own.end_receive(event)) } {
            posted.remove(at);
            own.free_receive(at);
        }
        return true;
    }
    if head.is(State::Revoked) {
        return_cell(net, head);
    } else {
        own.unexpected[kind].keep(head.number, envelope);
    }
    true
}

#[cold]
#[inline(never)]
fn deliver_to(net: &Net, own: &LocalState, head: &MessageCell, kind: usize, at: u32) -> bool {
    let (receive, room) = (own.receive(at), own.receive(at).room());
    let over = if room.is_multi() {
        let Some(nth) = admit(own, head, receive) else { return false };
        // SAFETY: the receive is posted, so its memory is still lent.
        unsafe { hand_on(net, own, head, receive, nth) }
    } else {
        // SAFETY: the receive is posted, so its memory is still lent.
        unsafe { hand_over(net, own, head, &room, |event| own.end_receive(event)) }
    };
    if over {
        own.unpost(kind, at);
    }
    true
}

#[inline(never)]
fn deliver_news(net: &Net, own: &LocalState, head: &MessageCell) -> bool {
    if head.message.flags().contains(LANE_NEWS) {
        answer(net, own, head);
        return true;
    }
    if own.attended.get() {
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

#[cold]
#[inline(never)]
fn report_written_attended(net: &Net, own: &LocalState, head: &MessageCell) -> bool {
    if own.modes.get().consumes_receives() {
        return use_receive_up(net, own, head);
    }
    if !own.rx().reserve() {
        return false;
    }
    own.report_received(written(head, 0));
    return_cell(net, head);
    true
}

fn use_receive_up(net: &Net, own: &LocalState, head: &MessageCell) -> bool {
    let kind = kind_of(CompletionFlags::MSG);
    let waiting = own.receives_used().filter(|(_, used)| used.kind() == Some(kind));
    let Some((at, _)) = waiting.min_by_key(|(at, _)| own.posted[kind].age(*at)) else { return false };
    let context = own.receive(at).context.get();
    own.unpost(kind, at);
    own.end_receive(written(head, context));
    return_cell(net, head);
    true
}

#[inline(always)]
fn written(head: &MessageCell, context: u64) -> Event {
    let message = &head.message;
    let mut event = Event::success(context, message.flags(), message.len.get());
    event.data = ImmediateData(message.data.get());
    event.source = FabricAddr(message.from.get());
    event
}
