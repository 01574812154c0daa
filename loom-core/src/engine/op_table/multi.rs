//! Multi-receives: one buffer for many messages; rule 8.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::slot::{Cancelled, Phase};
use super::{OpError, Transfer};
use super::{OpKey, OpTable, Slot};
use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, Errno};

/// A message in the buffer of a multi-receive, as the table counts it: one piece of the buffer is out. It is not copied, so that
/// it comes back once.
#[derive(Debug)]
#[must_use = "the buffer waits for it to come back"]
pub(crate) struct Message {
    key: OpKey,
    /// A success only with `len` bytes that lie within what was lent.
    event: Event,
}

/// What has become of a multi-receive with an event.
pub(super) enum Filled<'t, B> {
    /// A piece is out.
    Message(Message),
    /// It is not over, or pieces are out: there is nothing to tell.
    NotOver,
    /// It is over and no piece is out: the buffer can be had, with this event.
    Over(OpKey, &'t Slot<B>, Event),
}

impl<B> OpTable<B> {
    /// An operation is being cancelled. If it is a multi-receive, and the transport does not flag its end then, that is its next
    /// event with `ECANCELED`. Without this, such an event is that of a message.
    pub fn cancelling(&self, key: OpKey, end_is_flagged: bool) {
        let filling = |slot: &&Slot<B>| slot.key.get() == key && slot.phase.get() == Phase::Filling;
        if let Some(slot) = self.slot(key.index()).filter(filling) {
            slot.set_cancelled(if end_is_flagged { Cancelled::EndIsFlagged } else { Cancelled::EndIsNext });
        }
    }

    /// What the event of a multi-receive says; `None` if it belongs to none that is being filled.
    ///
    /// # Safety
    /// As for [`complete`](Self::complete).
    pub(super) unsafe fn fill(&self, event: &Event) -> Option<Filled<'_, B>> {
        let (key, slot) = self.by_context(event.context, Phase::Filling)?;
        // One that was cancelled in the middle of a message goes on until that is there, and then says that it is over. If
        // it was not cancelled, this is a message whose sender is gone.
        let flagged = event.flags.contains(CompletionFlags::MULTI_RECV);
        let cancelled = event.errno == Errno::ECANCELED && (flagged || slot.cancelled() != Cancelled::No);
        let over = flagged || cancelled && slot.cancelled() == Cancelled::EndIsNext;
        // An event that says nothing but that the buffer is released has no message.
        let message = !cancelled && (event.is_error() || event.flags.contains(CompletionFlags::RECV));
        if message {
            slot.pieces.set(slot.pieces.get() + 1);
        }
        if over {
            let end = if cancelled { *event } else { Event::success(event.context, CompletionFlags::MULTI_RECV, 0) };
            if slot.pieces.get() == 0 {
                return Some(Filled::Over(key, slot, Event { len: 0, ..end }));
            }
            // SAFETY: the caller's promise: the event says that the operation is over.
            unsafe { self.drain(slot, Event { len: 0, ..end }) };
        }
        Some(match message {
            true => Filled::Message(Message { key, event: within(event, slot) }),
            false => Filled::NotOver,
        })
    }

    /// Ends a multi-receive of which pieces are out.
    ///
    /// # Safety
    /// The operation is over: the provider uses neither its buffer nor its scratch space any more.
    pub(super) unsafe fn drain(&self, slot: &Slot<B>, end: Event) {
        // SAFETY: the caller's promise.
        unsafe { slot.keep(end) };
        slot.phase.set(Phase::Draining);
        self.make_room();
    }

    /// A piece has come back. If it was the last of an operation that is over, the completion can be taken now.
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

    /// The piece of a message that this table has reported.
    pub(crate) const fn piece(&self, message: Message) -> Piece<'_, B> {
        Piece { table: NonNull::from_ref(self), message, borrowed: PhantomData }
    }
}

/// An event whose message lies within what its slot has lent, or else one that says that it does not.
fn within<B>(event: &Event, slot: &Slot<B>) -> Event {
    let mut event = *event;
    let lent = slot.lent.get();
    if event.is_error() {
        event.len = event.len.min(lent);
        return event;
    }
    let offset = event.overflow_or_place.checked_sub(slot.start.get().addr().get());
    // Where no bytes are is of no interest, and not told by every provider.
    let fits =
        event.len == 0 || offset.and_then(|offset| lent.checked_sub(offset)).is_some_and(|room| event.len <= room);
    if !fits {
        event = Event { errno: Errno::EOTHER, overflow_or_place: event.len, len: 0, ..event };
    }
    event
}

/// A message in the buffer of a multi-receive. The buffer comes back when the provider has released it and every piece of
/// it was dropped.
///
/// Forgetting one is safe: the buffer then stays in its queue, until that is closed.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::{Av, Completion, Cq, Domain, Forever, Source};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// // Some providers do not keep to the buffer: multi-receives are refused there.
/// if let Ok(key) = bob.multi_recv(Source::Any, vec![0; 1000]) {
///     for message in [&b"hello"[..], b"again"] {
///         cq.retry(Forever, || alice.inject(to_bob, message))?;
///         let piece = loop {
///             if let Some(Completion::Piece(piece)) = cq.poll()? {
///                 break piece;
///             }
///         };
///         // The message is read where it lies in the buffer of the multi-receive.
///         assert_eq!((piece.key(), piece.bytes()), (key, message));
///     }
/// }
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "it holds a message"]
pub struct Piece<'t, B> {
    table: NonNull<OpTable<B>>,
    message: Message,
    borrowed: PhantomData<&'t ()>,
}

impl<B> Piece<'_, B> {
    /// Its table, and its key, for [giving it back](OpTable::give_back) without its drop.
    #[inline]
    pub(crate) const fn place(&self) -> (NonNull<OpTable<B>>, OpKey) {
        (self.table, self.message.key)
    }

    #[inline]
    fn table(&self) -> &OpTable<B> {
        // SAFETY: borrowed, or kept by the caller of `extended`.
        unsafe { self.table.as_ref() }
    }

    /// The piece, for longer than its table is borrowed here.
    ///
    /// # Safety
    /// The table is there, and in its place, until the piece is dropped.
    pub(crate) unsafe fn extended<'l>(self) -> Piece<'l, B> {
        let table = self.table;
        Piece { table, message: self.into_message(), borrowed: PhantomData }
    }

    /// The message without its table, to be [made a piece of](OpTable::piece) again.
    pub(crate) fn into_message(self) -> Message {
        let Message { key, event } = &ManuallyDrop::new(self).message;
        Message { key: *key, event: *event }
    }

    /// The key of the multi-receive.
    #[must_use]
    pub const fn key(&self) -> OpKey {
        self.message.key
    }

    /// What became of the message.
    ///
    /// # Errors
    /// It did not arrive: it was longer than what was left of the buffer, or its sender is gone.
    pub fn result(&self) -> Result<Transfer, OpError> {
        let event = &self.message.event;
        if event.is_error() { Err(OpError::of(event)) } else { Ok(Transfer::of(event)) }
    }

    /// The message; nothing if it has failed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let event = &self.message.event;
        if event.is_error() || event.len == 0 {
            return &[];
        }
        let start = self.table().own(self.message.key.index()).start.get();
        let offset = event.overflow_or_place - start.addr().get();
        // SAFETY: the message lies within what was lent (`within`).
        let first = unsafe { start.add(offset) };
        // SAFETY: rule 8: the buffer is in its slot as long as this piece is out, and not referenced (rule 2). The transport
        // has initialised these bytes and does not touch them any more.
        unsafe { core::slice::from_raw_parts(first.as_ptr(), event.len) }
    }
}

impl<B> Drop for Piece<'_, B> {
    // Always, and with the key by value: where a completion is never a piece its address is then not taken, and most of it
    // never written to memory.
    #[inline(always)]
    fn drop(&mut self) {
        self.table().give_back(self.message.key);
    }
}

impl<B> fmt::Debug for Piece<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece").field("key", &self.key()).field("result", &self.result()).finish_non_exhaustive()
    }
}
