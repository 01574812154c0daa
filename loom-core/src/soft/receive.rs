//! Receiving: posted receives, unexpected messages, and which go together.
//!
//! The oldest receive that accepts a message takes it, and a receive takes the oldest message that it accepts.

#![allow(unsafe_code, reason = "copies into memory that was lent with a receive")]

use core::cell::Cell;
use core::ptr;

use super::cell::{Message, MessageCell, State};
use super::chain::Chain;
use super::copy::copy_message;
use super::list::NIL;
use super::network::Net;
use super::port::{Own, Port};
use crate::transport::{Event, Refusal};
use crate::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag, TagMatch};

/// What a posted receive takes, and where it puts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    /// A fabric address, or `FabricAddr::UNSPEC`.
    pub(super) from: u64,
    pub(super) tag: TagMatch,
    pub(super) ptr: *mut u8,
    pub(super) len: usize,
    pub(super) context: u64,
    /// Zero for one message into one buffer. Of a multi-receive: the bytes that are left at least, if it goes on. Of a receive
    /// into several buffers: `SCATTERED`, and the place of the first. `PREFIXED` besides, if there is a prefix before the (first)
    /// buffer.
    pub(super) min_left: usize,
}

/// The mark of a receive into several buffers.
const SCATTERED: usize = 1 << (usize::BITS - 1);

/// The mark of a receive with a prefix.
const PREFIXED: usize = 1 << (usize::BITS - 2);

impl Want {
    /// The most that multi-receives can have left.
    pub(super) const MOST_LEFT: usize = PREFIXED - 1;

    /// What `min_left` begins with, for a prefix of so many bytes.
    pub(super) const fn marked(prefix: usize) -> usize {
        if prefix > 0 { PREFIXED } else { 0 }
    }

    /// Whether it has several buffers or a prefix.
    #[inline]
    pub(super) const fn is_special(&self) -> bool {
        self.min_left >= PREFIXED
    }

    /// Whether it has a prefix.
    pub(super) const fn is_prefixed(&self) -> bool {
        self.min_left & PREFIXED != 0
    }

    /// Whether it takes one message after the other.
    #[inline]
    pub(super) const fn is_multi(&self) -> bool {
        self.min_left != 0 && !self.is_special()
    }

    /// Whether it has several buffers.
    #[inline]
    pub(super) const fn is_scattered(&self) -> bool {
        self.min_left & SCATTERED != 0
    }

    /// The same, into the buffers of the places from this one on.
    pub(super) const fn scattered_over(self, first: u32) -> Self {
        Want { min_left: SCATTERED | (self.min_left & PREFIXED) | first as usize, ..self }
    }

    /// The place of its first buffer, if it has several.
    #[expect(clippy::cast_possible_truncation, reason = "the number of a place, as it was put there")]
    pub(super) const fn first_piece(&self) -> u32 {
        if self.is_scattered() { (self.min_left & !(SCATTERED | PREFIXED)) as u32 } else { NIL }
    }

    #[inline]
    pub(super) fn accepts(&self, message: &Message) -> bool {
        self.tag.accepts(Tag(message.tag.get()))
            && (self.from == FabricAddr::UNSPEC.0 || self.from == message.from.get())
    }
}

/// A place for one posted receive.
#[derive(Debug)]
pub(super) struct Receive {
    pub(super) want: Cell<Want>,
    /// The next in the chain of posted or of free receives.
    pub(super) next: Cell<u32>,
}

impl Receive {
    pub(super) fn new(next: u32) -> Self {
        let want = Want { from: 0, tag: TagMatch::any(), ptr: ptr::null_mut(), len: 0, context: 0, min_left: 0 };
        Receive { want: Cell::new(want), next: Cell::new(next) }
    }
}

/// The kinds of messages, each with lists of its own: without and with tag.
pub(super) const KINDS: [CompletionFlags; 2] = [CompletionFlags::MSG, CompletionFlags::TAGGED];

/// Which of the lists is that of a message or receive with such flags.
#[inline]
pub(super) const fn list_of(flags: CompletionFlags) -> usize {
    flags.contains(CompletionFlags::TAGGED) as usize
}

/// The event of a receive whose buffer was shorter than the message.
#[cold]
fn truncated(mut event: Event, overflow: usize) -> Event {
    event.errno = Errno::ETRUNC;
    event.provider_errno = Errno::ETRUNC.as_raw();
    event.overflow_or_place = overflow;
    event
}

impl Net {
    /// Posts a receive of one of the [`KINDS`], not a multi-receive: it takes the oldest unexpected message that it accepts, or waits for one.
    ///
    /// # Safety
    /// `want` is valid for writes until the event of its context, or until the endpoint is closed.
    #[inline]
    pub(super) unsafe fn post_receive(&self, port: &Port, kind: CompletionFlags, want: Want) -> Result<(), Refusal> {
        let own = port.own();
        if !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        // SAFETY: the caller's promise.
        if unsafe { self.place_receive(own, kind, want) } {
            return Ok(());
        }
        own.rx().release();
        Err(Refusal::Again)
    }

    /// Lets a receive, whose event has a place, take an unexpected message or wait. `false` if there is no place for it.
    ///
    /// # Safety
    /// As [`post_receive`](Self::post_receive).
    #[inline(always)]
    pub(super) unsafe fn place_receive(&self, own: &Own, kind: CompletionFlags, want: Want) -> bool {
        // SAFETY: the caller's promise.
        if own.unexpected[list_of(kind)].first() != NIL && unsafe { self.take_unexpected(own, kind, want) } {
            own.free_pieces(&want);
            return true;
        }
        let at = own.receives.get();
        if at == NIL {
            return false;
        }
        let receive = own.receive(at);
        own.receives.set(receive.next.get());
        receive.want.set(want);
        own.posted[list_of(kind)].append(at, |at| &own.receive(at).next);
        true
    }

    /// Gives a receive the oldest unexpected message that it accepts; `false` if there is none.
    ///
    /// # Safety
    /// `want` is valid for writes.
    #[inline(never)]
    unsafe fn take_unexpected(&self, own: &Own, kind: CompletionFlags, want: Want) -> bool {
        let unexpected = &own.unexpected[list_of(kind)];
        let (mut before, mut at) = (NIL, unexpected.first());
        while at != NIL {
            let head = self.cell(at);
            let next = head.next.get();
            if want.accepts(&head.message) {
                unexpected.remove(before, at, |at| &self.cell(at).next);
                // SAFETY: the caller's promise.
                if unsafe { self.hand_over(own, head, &want, |event| own.end_receive(event)) } {
                    return true;
                }
            } else {
                before = at;
            }
            at = next;
        }
        false
    }

    /// Looks at a cell from the backlog: gives it to a posted receive, or keeps it. `false` if it has to wait,
    /// because the queue has no place for an event of a peer.
    #[inline(always)]
    pub(super) fn deliver(&self, own: &Own, head: &MessageCell) -> bool {
        let flags = head.message.flags.get();
        if flags.contains(CompletionFlags::REMOTE_WRITE) {
            return self.report_written(own, head);
        }
        let posted = &own.posted[list_of(flags)];
        let (mut before, mut at) = (NIL, posted.first());
        while at != NIL {
            let receive = own.receive(at);
            let want = receive.want.get();
            if want.accepts(&head.message) {
                if want.min_left != 0 {
                    return self.deliver_to(own, head, posted, (before, at));
                }
                // SAFETY: the receive is posted, so its memory is still lent.
                if unsafe { self.hand_over(own, head, &want, |event| own.end_receive(event)) } {
                    posted.remove(before, at, |at| &own.receive(at).next);
                    own.free_receive(at);
                }
                // Else the message was revoked, and the receive waits on.
                return true;
            }
            (before, at) = (at, receive.next.get());
        }
        if head.is(State::Revoked) {
            // The word of it may have been read before the cell came here, and nobody would look again.
            self.return_cell(head);
        } else {
            own.unexpected[list_of(flags)].append(head.number, |at| &self.cell(at).next);
        }
        true
    }

    /// [`deliver`](Self::deliver) to the posted receive in a place of its list, which is a multi-receive, or has several buffers or
    /// a prefix.
    #[cold]
    #[inline(never)]
    fn deliver_to(&self, own: &Own, head: &MessageCell, posted: &Chain, (before, at): (u32, u32)) -> bool {
        let receive = own.receive(at);
        let want = receive.want.get();
        let over = if want.is_multi() {
            let Some(nth) = Self::admit(own, head, receive) else { return false };
            // SAFETY: the receive is posted, so its memory is still lent.
            unsafe { self.hand_on(own, head, receive, nth) }
        } else {
            // SAFETY: as above.
            unsafe { self.hand_over(own, head, &want, |event| own.end_receive(event)) }
        };
        // From here on the cell is its sender's again.
        if over {
            posted.remove(before, at, |at| &own.receive(at).next);
            own.free_pieces(&want);
            own.free_receive(at);
        }
        true
    }

    /// Returns the unexpected messages that their senders have revoked.
    #[cold]
    #[inline(never)]
    pub(super) fn return_revoked(&self, port: &Port) {
        for unexpected in &port.own().unexpected {
            let (mut before, mut at) = (NIL, unexpected.first());
            while at != NIL {
                let head = self.cell(at);
                let next = head.next.get();
                if head.is(State::Revoked) {
                    unexpected.remove(before, at, |at| &self.cell(at).next);
                    self.return_cell(head);
                } else {
                    before = at;
                }
                at = next;
            }
        }
    }

    /// Copies a message to where a receive wants it, reports its event to `end` and returns the cell. `false` if its sender
    /// had revoked it; the cell is returned all the same.
    ///
    /// # Safety
    /// `want` is valid for writes.
    #[inline(always)]
    pub(super) unsafe fn hand_over(&self, own: &Own, head: &MessageCell, want: &Want, end: impl FnOnce(Event)) -> bool {
        let offered = !head.is(State::Eager);
        if offered && !head.claim(State::Copying) {
            self.return_cell(head);
            return false;
        }
        let message = &head.message;
        let len = message.len.get().min(want.len);
        let list = offered && self.is_list(head);
        if list || want.is_special() {
            // SAFETY: as below, for each of the ranges.
            unsafe { self.copy_pieces(own, message, want, list) };
        } else {
            // SAFETY: the bytes are in the cell, which is the receiver's, or in the sender's buffer, which stays lent while
            // the state is `Copying`; the caller promises the other side, and that nobody else has it.
            unsafe { copy_message(message.bytes.get(), want.ptr, len) };
        }

        let mut event = Event::success(want.context, message.flags.get(), len);
        event.tag = Tag(message.tag.get());
        event.data = ImmediateData(message.data.get());
        event.source = FabricAddr(message.from.get());
        if message.len.get() > want.len {
            end(truncated(event, message.len.get() - want.len));
        } else {
            end(event);
        }
        if offered {
            head.finish();
            self.owner_of(head).returns.0.push(head.number, &head.link);
        } else {
            head.come_home();
        }
        true
    }

    /// Reports that a peer has written to memory of this side.
    #[inline(never)]
    fn report_written(&self, own: &Own, head: &MessageCell) -> bool {
        if own.asks.get().consumes_receives() {
            return self.use_receive_up(own, head);
        }
        let queue = own.rx();
        if !queue.reserve() {
            return false;
        }
        let _ = queue.push(written(head, 0));
        self.return_cell(head);
        true
    }

    /// [`report_written`](Self::report_written), with the event of the oldest receive. `false` if there is none.
    #[cold]
    #[inline(never)]
    fn use_receive_up(&self, own: &Own, head: &MessageCell) -> bool {
        let posted = &own.posted[list_of(CompletionFlags::MSG)];
        let at = posted.first();
        if at == NIL {
            return false;
        }
        let receive = own.receive(at);
        let want = receive.want.get();
        posted.remove(NIL, at, |at| &own.receive(at).next);
        own.free_pieces(&want);
        own.free_receive(at);
        own.end_receive(written(head, want.context));
        self.return_cell(head);
        true
    }
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

impl Own {
    #[inline]
    pub(super) fn free_receive(&self, at: u32) {
        self.receive(at).next.set(self.receives.replace(at));
    }
}
