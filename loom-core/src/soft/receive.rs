//! Receiving: posted receives, unexpected messages, and which go together.
//!
//! The oldest receive that accepts a message takes it, and a receive takes the oldest message that it accepts.

#![allow(unsafe_code, reason = "copies into memory that was lent with a receive")]

use core::cell::Cell;
use core::ptr;

use super::cell::{MessageCell, State};
use super::copy::copy_message;
use super::endpoint_state::{EndpointState, LocalState};
use super::list::NIL;
use super::network::Net;
use crate::buffer::Lent;
use crate::engine::tag_matcher::{Envelope, Want};
use crate::transport::{Context, Event, Refusal};
use crate::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};

/// Where a receive puts its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecvBuffer {
    pub(super) ptr: *mut u8,
    pub(super) len: usize,
    pub(super) context: u64,
    /// Zero for one message into one buffer. Of a multi-receive: the bytes that are left at least, if it goes on. Of a receive
    /// into several buffers: `SCATTERED`, and the place of the first.
    pub(super) min_left: usize,
}

/// The mark of a receive into several buffers.
const SCATTERED: usize = 1 << (usize::BITS - 1);

impl RecvBuffer {
    /// No room.
    pub(super) const NONE: RecvBuffer = RecvBuffer { ptr: ptr::null_mut(), len: 0, context: 0, min_left: 0 };

    /// One buffer for one message.
    #[inline]
    pub(super) fn of(lent: &Lent, context: Context) -> Self {
        RecvBuffer { ptr: lent.ptr().as_ptr(), len: lent.len(), context: context.addr(), min_left: 0 }
    }

    /// The most that multi-receives can have left.
    pub(super) const MOST_LEFT: usize = SCATTERED - 1;

    /// Whether it takes one message after the other.
    #[inline]
    pub(super) const fn is_multi(&self) -> bool {
        self.min_left != 0 && !self.is_scattered()
    }

    /// Whether it has several buffers.
    #[inline]
    pub(super) const fn is_scattered(&self) -> bool {
        self.min_left & SCATTERED != 0
    }

    /// The same, into the buffers of the places from this one on.
    pub(super) const fn scattered_over(self, first: u32) -> Self {
        RecvBuffer { min_left: SCATTERED | first as usize, ..self }
    }

    /// The place of its first buffer, if it has several.
    #[expect(clippy::cast_possible_truncation, reason = "the number of a place, as it was put there")]
    pub(super) const fn first_piece(&self) -> u32 {
        if self.is_scattered() { (self.min_left & !SCATTERED) as u32 } else { NIL }
    }
}

/// What a place for a receive is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecvKind {
    /// Nothing, or the piece of another.
    Other,
    /// A posted receive without tag.
    Plain,
    /// One with tag.
    Tagged,
    /// A claimed message: `len` is the number of its cell.
    Claimed,
}

impl RecvKind {
    /// That of a posted receive of one of the [`KINDS`], by its number.
    #[inline]
    const fn posted(kind: usize) -> Self {
        if kind == 0 { RecvKind::Plain } else { RecvKind::Tagged }
    }

    /// The number of the kind, of a posted receive.
    pub(super) const fn kind(self) -> Option<usize> {
        match self {
            RecvKind::Plain => Some(0),
            RecvKind::Tagged => Some(1),
            RecvKind::Other | RecvKind::Claimed => None,
        }
    }
}

/// A place for one posted receive.
#[derive(Debug)]
pub(super) struct Receive {
    // Its room, word by word: a store of two words at once would wait for the stores of each.
    ptr: Cell<*mut u8>,
    len: Cell<usize>,
    context: Cell<u64>,
    min_left: Cell<usize>,
    /// The next of those that are free, or of the pieces of one receive.
    pub(super) next: Cell<u32>,
    pub(super) used: Cell<RecvKind>,
}

impl Receive {
    /// A free one, before another, if there are so many.
    pub(super) fn before(next: u32, places: u32) -> Self {
        let next = if next == places { NIL } else { next };
        let RecvBuffer { ptr, len, context, min_left } = RecvBuffer::NONE;
        Receive {
            ptr: Cell::new(ptr),
            len: Cell::new(len),
            context: Cell::new(context),
            min_left: Cell::new(min_left),
            next: Cell::new(next),
            used: Cell::new(RecvKind::Other),
        }
    }

    #[inline]
    pub(super) fn room(&self) -> RecvBuffer {
        let (ptr, len) = (self.ptr.get(), self.len.get());
        RecvBuffer { ptr, len, context: self.context.get(), min_left: self.min_left.get() }
    }

    #[inline(always)]
    pub(super) fn set_room(&self, room: RecvBuffer) {
        self.ptr.set(room.ptr);
        self.len.set(room.len);
        self.context.set(room.context);
        self.min_left.set(room.min_left);
    }
}

/// The kinds of messages, each of which is matched by itself: without and with tag.
pub(super) const KINDS: [CompletionFlags; 2] = [CompletionFlags::MSG, CompletionFlags::TAGGED];

/// Which of the kinds a message or receive with such flags is of.
#[inline]
pub(super) const fn kind_of(flags: CompletionFlags) -> usize {
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
    /// `room` is valid for writes until the event of its context, or until the endpoint is closed.
    // Always: the kind is known where it is called, and mostly what is wanted.
    #[inline(always)]
    pub(super) unsafe fn post_receive(
        &self,
        port: &EndpointState,
        kind: CompletionFlags,
        want: Want,
        room: RecvBuffer,
    ) -> Result<(), Refusal> {
        let own = port.own();
        if !own.rx().reserve() {
            return Err(Refusal::Again);
        }
        // SAFETY: the caller's promise.
        if unsafe { self.place_receive(own, kind, want, room) } {
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
    pub(super) unsafe fn place_receive(
        &self,
        own: &LocalState,
        kind: CompletionFlags,
        want: Want,
        room: RecvBuffer,
    ) -> bool {
        let kind = kind_of(kind);
        // SAFETY: the caller's promise.
        if !own.unexpected[kind].is_empty() && unsafe { self.take_unexpected(own, kind, want, room) } {
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

    /// Gives a receive the oldest unexpected message that it accepts; `false` if there is none.
    ///
    /// # Safety
    /// `room` is valid for writes.
    #[inline(never)]
    unsafe fn take_unexpected(&self, own: &LocalState, kind: usize, want: Want, room: RecvBuffer) -> bool {
        let unexpected = &own.unexpected[kind];
        while let Some(at) = unexpected.find(&want) {
            unexpected.remove(at);
            // SAFETY: the caller's promise.
            if unsafe { self.hand_over(own, self.cell(at), &room, |event| own.end_receive(event)) } {
                own.free_pieces(room);
                return true;
            }
            // It was revoked.
        }
        false
    }

    /// Looks at a cell from the backlog: gives it to a posted receive, or keeps it. `false` if it has to wait,
    /// because the queue has no place for an event of a peer.
    #[inline(always)]
    pub(super) fn deliver(&self, own: &LocalState, head: &MessageCell) -> bool {
        let flags = head.message.flags.get();
        if flags.contains(CompletionFlags::REMOTE_WRITE) {
            return self.report_written(own, head);
        }
        let kind = kind_of(flags);
        let posted = &own.posted[kind];
        let envelope = Envelope { tag: Tag(head.message.tag.get()), source: FabricAddr(head.message.from.get()) };
        if let Some(at) = posted.find(&envelope) {
            let room = own.receive(at).room();
            if room.min_left != 0 {
                return self.deliver_to(own, head, kind, at);
            }
            // SAFETY: the receive is posted, so its memory is still lent.
            if unsafe { self.hand_over(own, head, &room, |event| own.end_receive(event)) } {
                posted.remove(at);
                own.free_receive(at);
            }
            // Else the message was revoked, and the receive waits on.
            return true;
        }
        if head.is(State::Revoked) {
            // The word of it may have been read before the cell came here, and nobody would look again.
            self.return_cell(head);
        } else {
            own.unexpected[kind].keep(head.number, envelope);
        }
        true
    }

    /// [`deliver`](Self::deliver) to the posted receive in a place, which is a multi-receive, or has several buffers or a prefix.
    #[cold]
    #[inline(never)]
    fn deliver_to(&self, own: &LocalState, head: &MessageCell, kind: usize, at: u32) -> bool {
        let receive = own.receive(at);
        let room = receive.room();
        let over = if room.is_multi() {
            let Some(nth) = Self::admit(own, head, receive) else { return false };
            // SAFETY: the receive is posted, so its memory is still lent.
            unsafe { self.hand_on(own, head, receive, nth) }
        } else {
            // SAFETY: as above.
            unsafe { self.hand_over(own, head, &room, |event| own.end_receive(event)) }
        };
        // From here on the cell is its sender's again.
        if over {
            own.posted[kind].remove(at);
            own.free_pieces(room);
            own.free_receive(at);
        }
        true
    }

    /// Returns the unexpected messages that their senders have revoked.
    #[cold]
    #[inline(never)]
    pub(super) fn return_revoked(&self, port: &EndpointState) {
        for unexpected in &port.own().unexpected {
            let mut next = unexpected.first();
            while let Some(at) = next {
                next = unexpected.after(at);
                let head = self.cell(at);
                if head.is(State::Revoked) {
                    unexpected.remove(at);
                    self.return_cell(head);
                }
            }
        }
    }

    /// Copies a message to where a receive wants it, reports its event to `end` and returns the cell. `false` if its sender
    /// had revoked it; the cell is returned all the same.
    ///
    /// # Safety
    /// `room` is valid for writes.
    #[inline(always)]
    pub(super) unsafe fn hand_over(
        &self,
        own: &LocalState,
        head: &MessageCell,
        room: &RecvBuffer,
        end: impl FnOnce(Event),
    ) -> bool {
        let offered = !head.is(State::Eager);
        if offered && !head.claim(State::Copying) {
            self.return_cell(head);
            return false;
        }
        let message = &head.message;
        let len = message.len.get().min(room.len);
        let list = offered && self.is_list(head);
        if list || room.is_scattered() {
            // SAFETY: as below, for each of the ranges.
            unsafe { self.copy_pieces(own, message, room, list) };
        } else {
            // SAFETY: the bytes are in the cell, which is the receiver's, or in the sender's buffer, which stays lent while
            // the state is `Copying`; the caller promises the other side, and that nobody else has it.
            unsafe { copy_message(message.bytes.get(), room.ptr, len) };
        }

        let mut event = Event::success(room.context, message.flags.get(), len);
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
            self.owner_of(head).returns.0.push(head.number, &head.link);
        } else {
            head.come_home();
        }
        true
    }

    /// Reports that a peer has written to memory of this side.
    #[inline(never)]
    fn report_written(&self, own: &LocalState, head: &MessageCell) -> bool {
        if own.is_attended() {
            return self.report_written_attended(own, head);
        }
        let queue = own.rx();
        if !queue.reserve() {
            return false;
        }
        let _ = queue.push(written(head, 0));
        self.return_cell(head);
        true
    }

    /// [`report_written`](Self::report_written), where there may be demands, or something goes wrong.
    #[cold]
    #[inline(never)]
    fn report_written_attended(&self, own: &LocalState, head: &MessageCell) -> bool {
        if own.modes.get().consumes_receives() {
            return self.use_receive_up(own, head);
        }
        if !own.rx().reserve() {
            return false;
        }
        own.tell(written(head, 0));
        self.return_cell(head);
        true
    }

    /// [`report_written`](Self::report_written), with the event of the oldest receive. `false` if there is none.
    fn use_receive_up(&self, own: &LocalState, head: &MessageCell) -> bool {
        let kind = kind_of(CompletionFlags::MSG);
        let waiting = own.receives_used().filter(|(_, used)| used.kind() == Some(kind));
        let Some((at, _)) = waiting.min_by_key(|(at, _)| own.posted[kind].age(*at)) else { return false };
        let room = own.receive(at).room();
        own.posted[kind].remove(at);
        own.free_pieces(room);
        own.free_receive(at);
        own.end_receive(written(head, room.context));
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

impl LocalState {
    /// Lets a receive wait in a place that was taken for it.
    #[inline(always)]
    pub(super) fn wait(&self, at: u32, kind: usize, want: Want, room: RecvBuffer) {
        self.use_place(at, RecvKind::posted(kind), room);
        self.posted[kind].post(at, want);
    }

    #[inline(always)]
    pub(super) fn use_place(&self, at: u32, used: RecvKind, room: RecvBuffer) {
        let receive = self.receive(at);
        receive.set_room(room);
        receive.used.set(used);
        self.by_context(room.context).set(at);
    }

    #[inline]
    pub(super) fn free_receive(&self, at: u32) {
        let receive = self.receive(at);
        receive.used.set(RecvKind::Other);
        receive.next.set(self.receives.replace(at));
    }

    /// Every place for a receive that is used for something.
    pub(super) fn receives_used(&self) -> impl Iterator<Item = (u32, RecvKind)> {
        (0..self.places.len()).map(|at| (at, self.receive(at).used.get())).filter(|(_, used)| *used != RecvKind::Other)
    }

    /// The place of a posted receive or of a claim, by its context: mostly the first that is looked at.
    pub(super) fn find_place(&self, context: u64, is: impl Fn(RecvKind) -> bool) -> Option<(u32, RecvKind)> {
        let holds = |(at, used): &(u32, RecvKind)| is(*used) && self.receive(*at).context.get() == context;
        let hinted = self.by_context(context).get();
        let hinted = Some((hinted, self.receive(hinted).used.get())).filter(holds);
        hinted.or_else(|| self.receives_used().find(holds))
    }

    /// Where it is noted which place was last taken for such a context. Contexts are numbers of slots, or addresses of slots that are 128
    /// bytes apart: either way those of a queue that is no longer than there are places have notes of their own. Of a longer one, some are
    /// forgotten, and looked for.
    #[inline]
    fn by_context(&self, context: u64) -> &Cell<u32> {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are as good as any")]
        let number = (context ^ context >> 7) as u32;
        self.by_context.at(number & (self.by_context.len() - 1))
    }
}
