//! Looking at unexpected messages, claiming and discarding them.

#![allow(unsafe_code, reason = "copies into memory that was lent with a claim's fetch")]

use super::cell::{MessageCell, State};
use super::list::NIL;
use super::network::Net;
use super::port::{Own, Port};
use super::receive::{Want, list_of};
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
    pub(super) fn peek(&self, port: &Port, want: &Want, flags: OpFlags) -> Result<(), Refusal> {
        let own = port.own();
        self.take_in(port);
        let place = own.receives.get();
        let claims = flags.contains(OpFlags::CLAIM);
        if claims && place == NIL || !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        let unexpected = &own.unexpected[list_of(CompletionFlags::TAGGED)];
        let (mut before, mut at) = (NIL, unexpected.first());
        let mut answer = none(want.context);
        while at != NIL {
            let head = self.cell(at);
            let next = head.next.get();
            if want.accepts(&head.message) && !head.is(State::Revoked) {
                answer = found(want.context, head);
                if claims {
                    unexpected.remove(before, at, |at| &self.cell(at).next);
                    let receive = own.receive(place);
                    own.receives.set(receive.next.get());
                    // A claim is kept as a receive that has its message.
                    receive.want.set(Want { len: at as usize, ..*want });
                    own.claimed.append(place, |place| &own.receive(place).next);
                    break;
                }
                if !flags.contains(OpFlags::DISCARD) {
                    break;
                }
                unexpected.remove(before, at, |at| &self.cell(at).next);
                if self.discard(head) {
                    break;
                }
                // It was revoked: on to the next one.
                answer = none(want.context);
            } else {
                before = at;
            }
            at = next;
        }
        // Not a receive, and not counted as one.
        let _ = own.rx().push(answer);
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
    fn take_claim(&self, own: &Own, context: u64) -> Option<&MessageCell> {
        let (mut before, mut at) = (NIL, own.claimed.first());
        while at != NIL {
            let receive = own.receive(at);
            let want = receive.want.get();
            if want.context == context {
                own.claimed.remove(before, at, |at| &own.receive(at).next);
                own.free_receive(at);
                return Some(self.claimed_cell(&want));
            }
            (before, at) = (at, receive.next.get());
        }
        None
    }

    /// The message of a claim.
    pub(super) fn claimed_cell(&self, want: &Want) -> &MessageCell {
        #[expect(clippy::cast_possible_truncation, reason = "a cell's number, as it was put there")]
        self.cell(want.len as u32)
    }

    /// Receives a claimed message.
    ///
    /// # Safety
    /// `want` is valid for writes.
    pub(super) unsafe fn fetch_claimed(&self, port: &Port, want: &Want) -> Result<(), Refusal> {
        let own = port.own();
        if !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        let Some(head) = self.take_claim(own, want.context) else {
            own.rx().release();
            return Err(Refusal::Errno(Errno::ENOMSG));
        };
        // SAFETY: the caller's promise.
        if !unsafe { self.hand_over(own, head, want, |event| own.end_receive(event)) } {
            // Its sender has revoked it.
            own.end_receive(none(want.context));
        }
        Ok(())
    }

    /// Discards a claimed message.
    pub(super) fn discard_claimed(&self, port: &Port, context: u64) -> Result<(), Refusal> {
        let own = port.own();
        if !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        let Some(head) = self.take_claim(own, context) else {
            own.rx().release();
            return Err(Refusal::Errno(Errno::ENOMSG));
        };
        let told = found(context, head);
        let _ = own.rx().push(if self.discard(head) { told } else { none(context) });
        Ok(())
    }
}
