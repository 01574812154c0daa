//! Looking at unexpected messages, claiming and discarding them.

#![allow(unsafe_code, reason = "copies into memory that was lent with a claim's fetch")]

use super::cell::{MessageCell, State};
use super::endpoint_state::{EndpointState, LocalState};
use super::list::NIL;
use super::network::Net;
use super::receive::{RecvBuffer, RecvKind, kind_of};
use crate::engine::tag_matcher::Want;
use crate::transport::{Event, Refusal};
use crate::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, OpFlags, Tag};

/// What every answer is of.
const RECEIVED: CompletionFlags = CompletionFlags::TAGGED.union(CompletionFlags::RECV);

/// The answer if there is no such message.
const fn none(context: u64) -> Event {
    Event::failure(context, RECEIVED, Errno::ENOMSG)
}

/// The answer that tells of a message.
fn found(context: u64, head: &MessageCell) -> Event {
    let message = &head.message;
    Event {
        tag: Tag(message.tag.get()),
        data: ImmediateData(message.data.get()),
        source: FabricAddr(message.from.get()),
        ..Event::success(context, message.flags.get(), message.len.get())
    }
}

impl Net {
    /// Answers a look at the tagged messages that have arrived: the oldest that is wanted, of which nothing is copied.
    pub(super) fn peek(&self, port: &EndpointState, want: &Want, context: u64, flags: OpFlags) -> Result<(), Refusal> {
        let own = port.own();
        self.take_in(port);
        let place = own.receives.get();
        let claims = flags.contains(OpFlags::CLAIM);
        if claims && place == NIL || !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        let unexpected = &own.unexpected[kind_of(CompletionFlags::TAGGED)];
        let mut answer = none(context);
        while let Some(at) = unexpected.find(want) {
            let head = self.cell(at);
            if head.is(State::Revoked) {
                unexpected.remove(at);
                self.return_cell(head);
                continue;
            }
            answer = found(context, head);
            if claims {
                unexpected.remove(at);
                own.receives.set(own.receive(place).next.get());
                // A claim is kept in the place of a receive.
                own.use_place(place, RecvKind::Claimed, RecvBuffer { len: at as usize, context, ..RecvBuffer::NONE });
            } else if flags.contains(OpFlags::DISCARD) {
                unexpected.remove(at);
                if !self.discard(head) {
                    // It was revoked: on to the next one.
                    answer = none(context);
                    continue;
                }
            }
            break;
        }
        // Not a receive, and not counted as one.
        own.tell(answer);
        Ok(())
    }

    /// Ends a message unread, as if it had been received. `false` if its sender had revoked it; the cell is returned all the
    /// same.
    fn discard(&self, head: &MessageCell) -> bool {
        if !head.is(State::Eager) {
            if !head.claim(State::Copying) {
                self.return_cell(head);
                return false;
            }
            head.finish();
        }
        self.return_cell(head);
        true
    }

    /// Takes a claim, by the context of the peek that made it.
    fn take_claim(&self, own: &LocalState, context: u64) -> Option<&MessageCell> {
        let (at, _) = own.find_place(context, |used| used == RecvKind::Claimed)?;
        let head = self.claimed_cell(own, at);
        own.free_receive(at);
        Some(head)
    }

    /// The message of the claim in a place.
    pub(super) fn claimed_cell(&self, own: &LocalState, at: u32) -> &MessageCell {
        #[expect(clippy::cast_possible_truncation, reason = "a cell's number, as it was put there")]
        self.cell(own.receive(at).room().len as u32)
    }

    /// Receives a claimed message.
    ///
    /// # Safety
    /// `room` is valid for writes.
    pub(super) unsafe fn fetch_claimed(&self, port: &EndpointState, room: &RecvBuffer) -> Result<(), Refusal> {
        let own = port.own();
        if !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        let Some(head) = self.take_claim(own, room.context) else {
            own.rx().release();
            return Err(Refusal::Errno(Errno::ENOMSG));
        };
        // SAFETY: the caller's promise.
        if !unsafe { self.hand_over(own, head, room, |event| own.end_receive(event)) } {
            // Its sender has revoked it.
            own.end_receive(none(room.context));
        }
        Ok(())
    }

    /// Discards a claimed message.
    pub(super) fn discard_claimed(&self, port: &EndpointState, context: u64) -> Result<(), Refusal> {
        let own = port.own();
        if !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        let Some(head) = self.take_claim(own, context) else {
            own.rx().release();
            return Err(Refusal::Errno(Errno::ENOMSG));
        };
        let told = found(context, head);
        own.tell(if self.discard(head) { told } else { none(context) });
        Ok(())
    }
}
