//! Multi-receives: one posted receive takes one message after the other, until little is left of its memory.

#![allow(unsafe_code, reason = "moves on in memory that was lent with a receive")]

use super::cell::MessageCell;
use super::list::NIL;
use super::network::Net;
use super::port::Own;
use super::receive::{Receive, Want, list_of};
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
    /// `want` is valid for writes until the event that says that it is over, or until the endpoint is closed.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn post_multi_receive(&self, own: &Own, want: Want) -> Result<(), Refusal> {
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
        receive.want.set(want);

        let list = list_of(CompletionFlags::MSG);
        let unexpected = &own.unexpected[list];
        let (mut before, mut at) = (NIL, unexpected.first());
        while at != NIL {
            let head = self.cell(at);
            let next = head.next.get();
            if receive.want.get().accepts(&head.message) {
                let Some(nth) = Self::admit(own, head, receive) else {
                    // The queue is full. What is here already would not be looked at again: the buffer goes back early.
                    let _ = own.rx().push(Event::success(want.context, CompletionFlags::MULTI_RECV, 0));
                    own.free_receive(place);
                    return Ok(());
                };
                unexpected.remove(before, at, |at| &self.cell(at).next);
                // SAFETY: the caller's promise.
                if unsafe { self.hand_on(own, head, receive, nth) } {
                    own.free_receive(place);
                    return Ok(());
                }
            } else {
                before = at;
            }
            at = next;
        }
        own.posted[list].append(place, |at| &own.receive(at).next);
        Ok(())
    }

    /// What a message will be to a multi-receive; `None` if it has to wait, because the queue has no place for its event.
    pub(super) fn admit(own: &Own, head: &MessageCell, receive: &Receive) -> Option<Nth> {
        let want = receive.want.get();
        let left = want.len.saturating_sub(head.message.len.get());
        if left < want.min_left {
            return Some(Nth::Last);
        }
        own.rx().reserve().then_some(Nth::NotLast)
    }

    /// Gives a message that was admitted to a multi-receive; `true` if that is over now.
    ///
    /// # Safety
    /// What the receive wants is valid for writes.
    pub(super) unsafe fn hand_on(&self, own: &Own, head: &MessageCell, receive: &Receive, nth: Nth) -> bool {
        let want = receive.want.get();
        let len = head.message.len.get().min(want.len);
        let end = |mut event: Event| {
            if !event.is_error() {
                event.overflow_or_place = want.ptr.addr();
            }
            if nth == Nth::Last {
                event.flags |= CompletionFlags::MULTI_RECV;
            }
            own.end_receive(event);
        };
        // SAFETY: the caller's promise.
        if !unsafe { self.hand_over(own, head, &want, end) } {
            // It was revoked.
            if nth == Nth::NotLast {
                own.rx().release();
            }
            return false;
        }
        // SAFETY: within what was lent, or at its end.
        let ptr = unsafe { want.ptr.add(len) };
        receive.want.set(Want { ptr, len: want.len - len, ..want });
        nth == Nth::Last
    }
}
