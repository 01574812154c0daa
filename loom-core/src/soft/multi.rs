//! Multi-receives: one posted receive takes one message after the other, until little is left of its memory.

#![allow(unsafe_code, reason = "moves on in memory that was lent with a receive")]

use super::cell::MessageCell;
use super::endpoint_state::LocalState;
use super::list::NIL;
use super::network::Net;
use super::receive::{Receive, RecvBuffer, kind_of};
use crate::engine::tag_matcher::Want;
use crate::transport::{Event, Refusal};
use crate::vocabulary::CompletionFlags;

/// The least that is left of a multi-receive that goes on, unless the endpoint's option says something else.
pub(super) const MIN_LEFT: usize = 64;

/// What a message is to a multi-receive that takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nth {
    /// The last, whose event the place is for that was kept when the receive was posted.
    Last,
    /// Another; its event has a place of its own.
    NotLast,
}

impl Net {
    /// Posts a multi-receive: it takes the unexpected messages that it accepts, and waits for others.
    ///
    /// # Safety
    /// `room` is valid for writes until the event that says that it is over, or until the endpoint is closed.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn post_multi_receive(
        &self,
        own: &LocalState,
        want: Want,
        room: RecvBuffer,
    ) -> Result<(), Refusal> {
        if !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        let place = own.receives.get();
        if place == NIL {
            own.rx().release();
            return Err(Refusal::Again);
        }
        let receive = own.receive(place);
        own.receives.set(receive.next.get());
        receive.set_room(room);

        let kind = kind_of(CompletionFlags::MSG);
        let unexpected = &own.unexpected[kind];
        while let Some(at) = unexpected.find(&want) {
            let head = self.cell(at);
            let Some(nth) = Self::admit(own, head, receive) else {
                // The queue is full. What is here already would not be looked at again: the buffer goes back early.
                own.tell(Event::success(room.context, CompletionFlags::MULTI_RECV, 0));
                own.free_receive(place);
                return Ok(());
            };
            unexpected.remove(at);
            // SAFETY: the caller's promise.
            if unsafe { self.hand_on(own, head, receive, nth) } {
                own.free_receive(place);
                return Ok(());
            }
        }
        // What is left of the room by now.
        own.wait(place, kind, want, receive.room());
        Ok(())
    }

    /// What a message will be to a multi-receive; `None` if it has to wait, because the queue has no place for its event.
    pub(super) fn admit(own: &LocalState, head: &MessageCell, receive: &Receive) -> Option<Nth> {
        let room = receive.room();
        let left = room.len.saturating_sub(head.message.len.get());
        if left < room.min_left {
            return Some(Nth::Last);
        }
        own.rx().reserve().then_some(Nth::NotLast)
    }

    /// Gives a message that was admitted to a multi-receive; `true` if that is over now.
    ///
    /// # Safety
    /// What the receive wants is valid for writes.
    pub(super) unsafe fn hand_on(&self, own: &LocalState, head: &MessageCell, receive: &Receive, nth: Nth) -> bool {
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
        // SAFETY: the caller's promise.
        if !unsafe { self.hand_over(own, head, &room, end) } {
            // It was revoked.
            if nth == Nth::NotLast {
                own.rx().release();
            }
            return false;
        }
        // SAFETY: within what was lent, or at its end.
        let ptr = unsafe { room.ptr.add(len) };
        receive.set_room(RecvBuffer { ptr, len: room.len - len, ..room });
        nth == Nth::Last
    }
}
