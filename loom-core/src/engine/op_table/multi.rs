//! Multi-receives: one buffer for many messages (rule 8).

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::slot::{Cancelled, Phase};
use super::{OpError, OpKey, OpTable, Resolution, Slot, Transfer, Uncommon};
use crate::transport::Event;
use crate::util::debug::debug_struct;
use crate::vocabulary::{CompletionFlags, Errno};

/// Message in the buffer of a multi-receive: a piece that is out. Not `Copy`, so it returns once.
#[derive(Debug)]
#[must_use = "the buffer waits for it to come back"]
pub(crate) struct Message {
    key: OpKey,
    /// A success only if its `len` bytes lie within the lent memory.
    event: Event,
}

impl<B> OpTable<B> {
    /// Records a cancellation. If the transport does not flag a multi-receive's end, its next event
    /// with `ECANCELED` is the end.
    pub fn cancelling(&self, key: OpKey, end_is_flagged: bool) {
        if let Some(slot) = self.named(key).filter(|slot| slot.phase.get() == Phase::Filling) {
            slot.set_cancelled(if end_is_flagged { Cancelled::EndIsFlagged } else { Cancelled::EndIsNext });
        }
    }

    /// Returns `None` for other events.
    ///
    /// # Safety
    /// The requirements of [`complete`](Self::complete).
    pub(super) unsafe fn fill(&self, event: &Event) -> Option<Uncommon<'_, B>> {
        let (key, slot) = self.by_context(event.context, Phase::Filling)?;
        // A multi-receive cancelled in the middle of a message continues until that message has
        // arrived, and then reports its end.
        let flagged = event.flags.contains(CompletionFlags::MULTI_RECV);
        let cancelled = event.errno == Errno::ECANCELED && (flagged || slot.cancelled() != Cancelled::No);
        let over = flagged || cancelled && slot.cancelled() == Cancelled::EndIsNext;
        let message = !cancelled && (event.is_error() || event.flags.contains(CompletionFlags::RECV));
        if message {
            slot.pieces.set(slot.pieces.get() + 1);
        }
        if over {
            let end = if cancelled { *event } else { Event::success(event.context, CompletionFlags::MULTI_RECV, 0) };
            if slot.pieces.get() == 0 {
                return Some(Uncommon::Completed(key, slot, Event { len: 0, ..end }));
            }
            // SAFETY: the caller guarantees that an event with this end completes the operation.
            unsafe { self.drain(slot, Event { len: 0, ..end }) };
        }
        let message = message.then(|| self.piece(Message { key, event: within(event, slot) }));
        Some(Uncommon::Resolved(message.map_or(Resolution::Continues, Resolution::Piece)))
    }

    /// # Safety
    /// The provider no longer uses the operation's buffer or scratch space.
    pub(super) unsafe fn drain(&self, slot: &Slot<B>, end: Event) {
        // SAFETY: the caller guarantees that the provider no longer uses the scratch space.
        unsafe { slot.store_event(end) };
        slot.phase.set(Phase::Draining);
        self.make_room();
    }

    /// After the last piece of a completed multi-receive, its completion can be taken.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_back(&self, key: OpKey) {
        let index = key.index();
        let slot = self.own(index);
        let left = slot.pieces.get() - 1;
        slot.pieces.set(left);
        let phase = match slot.phase.get() {
            Phase::Draining => Phase::Done,
            Phase::DrainingOwed => Phase::Owed,
            _ => return,
        };
        if left > 0 {
            return;
        }
        slot.phase.set(phase);
        self.push_parked(index, slot);
    }

    pub(crate) const fn piece(&self, message: Message) -> Piece<'_, B> {
        Piece { table: NonNull::from_ref(self), message, borrowed: PhantomData }
    }
}

fn within<B>(event: &Event, slot: &Slot<B>) -> Event {
    let mut event = *event;
    let lent = slot.lent.get();
    if event.is_error() {
        event.len = event.len.min(lent);
        return event;
    }
    let offset = event.overflow_or_place.checked_sub(slot.start.get().addr().get());
    // Not every provider reports the place of an empty message.
    let fits =
        event.len == 0 || offset.and_then(|offset| lent.checked_sub(offset)).is_some_and(|room| event.len <= room);
    if !fits {
        event = Event { errno: Errno::EOTHER, overflow_or_place: event.len, len: 0, ..event };
    }
    event
}

/// Message in the buffer of a multi-receive. The buffer returns when the provider has released it
/// and every piece was dropped.
///
/// ```
/// use loom_core::{Completion, Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// // Some providers exceed the buffer: multi-receives are refused there.
/// if let Ok(key) = bob.multi_recv(Source::Any, vec![0; 1000]) {
///     cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
///     let piece = loop {
///         if let Some(Completion::Piece(piece)) = cq.poll()? { break piece; }
///     };
///     // The message stays in the buffer of the multi-receive.
///     assert_eq!((piece.key(), piece.bytes()), (key, &b"hello"[..]));
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "it holds a message"]
pub struct Piece<'t, B> {
    table: NonNull<OpTable<B>>,
    message: Message,
    borrowed: PhantomData<&'t ()>,
}

impl<B> Piece<'_, B> {
    #[inline]
    pub(crate) const fn place(&self) -> (NonNull<OpTable<B>>, OpKey) {
        (self.table, self.message.key)
    }

    #[inline]
    fn table(&self) -> &OpTable<B> {
        // SAFETY: the table is borrowed, or the caller of `extended` keeps it alive.
        unsafe { self.table.as_ref() }
    }

    /// # Safety
    /// The table stays alive, at the same address, until the piece is dropped.
    pub(crate) unsafe fn extended<'l>(self) -> Piece<'l, B> {
        let table = self.table;
        Piece { table, message: self.into_message(), borrowed: PhantomData }
    }

    pub(crate) fn into_message(self) -> Message {
        let Message { key, event } = &ManuallyDrop::new(self).message;
        Message { key: *key, event: *event }
    }

    /// Key of the multi-receive.
    #[must_use]
    pub const fn key(&self) -> OpKey {
        self.message.key
    }

    /// Result of the message.
    ///
    /// # Errors
    /// The message did not arrive: it was longer than the rest of the buffer, or its sender is
    /// gone.
    pub fn result(&self) -> Result<Transfer, OpError> {
        let event = &self.message.event;
        if event.is_error() { Err(OpError::of(event)) } else { Ok(Transfer::of(event)) }
    }

    /// Message, or no bytes if it failed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let event = &self.message.event;
        if event.is_error() || event.len == 0 {
            return &[];
        }
        let start = self.table().own(self.message.key.index()).start.get();
        let offset = event.overflow_or_place - start.addr().get();
        // SAFETY: `within` checked that the message lies within the lent memory.
        let first = unsafe { start.add(offset) };
        // SAFETY: the buffer stays in its slot while this piece is out (rule 8), unreferenced (rule
        // 2). The transport has initialised these bytes and no longer writes them.
        unsafe { core::slice::from_raw_parts(first.as_ptr(), event.len) }
    }
}

impl<B> Drop for Piece<'_, B> {
    // Inlined, which keeps most completions out of memory.
    #[inline(always)]
    fn drop(&mut self) {
        self.table().give_back(self.message.key);
    }
}

debug_struct!([B] Piece['_, B], |it| key: it.key(), result: it.result());
