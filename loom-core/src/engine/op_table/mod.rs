//! Table of operations in flight that owns their buffers.
//!
//! [`post`](OpTable::post) moves a buffer into one of a fixed number of slots and returns an
//! [`OpKey`]. [`complete`](OpTable::complete) finds the slot of an event and moves the buffer out.
//!
//! # Rules
//!
//! 1. A lent pointer is taken after its buffer has moved into the slot.
//! 2. A buffer lives in `UnsafeCell<MaybeUninit<B>>` and is not referenced while it is posted.
//! 3. If the provider leaves contexts alone, a context is `generation << 32 | index`, and a stale
//!    event is recognised exactly until its slot has been used 2^31 more times. If it requires
//!    scratch space (`FI_CONTEXT`, `FI_CONTEXT2`), a context points into its slot. Address
//!    arithmetic and a range check turn an event's context into an index. It is never cast back to
//!    a pointer.
//! 4. A slot is reused only after its event. Closing an endpoint ends its operations without
//!    events. If contexts are numbers, the slots are free at once, because rule 3 recognises late
//!    events. If contexts are pointers, the slots are free after as many further events as the
//!    queue can hold.
//! 5. Operations in flight, plus those of closed endpoints with events that may still lie in the
//!    queue, never exceed the number of slots. Queues are opened for that number and a reserve for
//!    events that peers cause.
//! 6. User code (`lend`, dropping a buffer) runs only while the table is consistent: it may panic,
//!    post and poll.
//! 7. Every post requests a completion.
//! 8. A multi-receive reports an event for each message. It completes with the event flagged
//!    `FI_MULTI_RECV` or, if it was [cancelled](OpTable::cancelling) and the transport does not
//!    flag its end, with `ECANCELED`. Its buffer stays in the slot until then and until every
//!    [piece](Piece) has returned.
//! 9. A peek has a slot and a context, but no buffer. If it claims a message, the slot belongs to
//!    the message until a fetch or discard under the same context, or until the endpoint is closed.
//! 10. A receive used up by a peer's write (`FI_RX_CQ_DATA`) has completed for the provider but not
//!     for the user. It keeps its slot, unlent, until it is posted again under the same context.
//!     The table's own receives have a slot, but neither buffer nor completion.
//! 11. An atomic operation on a value has no buffer. Its operand, comparand and result lie in the
//!     scratch space of its slot if contexts are numbers. If the provider writes to that space, the
//!     values lie in a second slot's scratch space, reserved and released with the first.

#![allow(unsafe_code, reason = "buffers in slots: rules 1 to 11")]

mod abandon;
mod done;
mod inline_atomic;
mod lending;
mod multi;
mod operation;
mod parked;
mod peek;
mod rx_cq_data;
mod slot;

use core::cell::Cell;
use core::marker::PhantomData;
use core::task::Waker;

pub use self::done::{Done, OpError, Received, Transfer};
pub use self::inline_atomic::{Fetched, LentValues};
pub(crate) use self::lending::Lending;
pub(crate) use self::multi::Message;
pub use self::multi::Piece;
pub use self::operation::{ContextKind, Direction, Kind, OpKey, Posted};
pub use self::parked::{ParkedCompletion, Taken};
pub use self::peek::{Claim, Found, Peek};
use self::slot::Phase;
pub use self::slot::Slot;
use crate::transport::{Context, Event};
use crate::util::debug::debug_struct;
use crate::util::index_list::{List, NONE};
use crate::vocabulary::{CompletionFlags, Errno};

pub(crate) const NO_SLOT: u32 = NONE;

/// Outcome of [`OpTable::complete`].
#[derive(Debug)]
pub enum Resolution<'t, B> {
    /// Completed operation.
    Done(Done<B>),
    /// A message in the buffer of a multi-receive.
    Piece(Piece<'t, B>),
    /// A multi-receive that continues, or waits for its pieces.
    Continues,
    /// A completed peek.
    Peek(Peek),
    /// A completed atomic operation on a value.
    Value(Fetched),
    /// An endpoint that takes no messages has lost one.
    Unwanted(OpError),
    /// The event's operation has already completed.
    Stale,
    /// The event belongs to no operation of this table.
    Foreign,
}

/// Outcome of an event that is not the success or failure of a `Posted` slot.
enum Uncommon<'t, B> {
    /// A completed multi-receive without pieces out.
    Completed(OpKey, &'t Slot<B>, Event),
    Value(OpKey, &'t Slot<B>, Event),
    Resolved(Resolution<'t, B>),
}

/// Slots and their operations.
///
/// `S` is `[Slot<B>; N]` for the owner and `[Slot<B>]` everywhere else.
///
/// ```
/// # #![allow(unsafe_code)]
/// use loom_core::engine::op_table::{ContextKind, Kind, OpTable, Resolution, Slot};
/// # use loom_core::{transport::{Context, Event}, vocabulary::CompletionFlags};
///
/// let mut table = Box::<OpTable<Vec<u8>, [Slot<_>; 4]>>::new_uninit();
/// // SAFETY: the box has room for the table.
/// unsafe { OpTable::init(table.as_mut_ptr(), ContextKind::Word, 8, 0) };
/// // SAFETY: `init` has written the table.
/// let table: Box<OpTable<Vec<u8>>> = unsafe { table.assume_init() };
/// let mut context = 0;
/// let key = table.post(0, Kind::Receive, vec![0; 64], |_: &_, named: Context| Ok(context = named.addr()))?;
/// // SAFETY: the receive has completed, and its 64 bytes are initialised.
/// let resolution = unsafe { table.complete(&Event::success(context, CompletionFlags::RECV, 5)) };
/// assert!(matches!(resolution, Resolution::Done(done) if (done.key(), done.result()?.len) == (key, 5)));
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct OpTable<B, S: ?Sized = [Slot<B>]> {
    contexts: ContextKind,
    /// Maximum number of events in the queue (rule 4).
    horizon: u32,
    free: Cell<u32>,
    /// Number of further operations that rule 5 admits.
    room: Cell<u32>,
    /// Operations of closed endpoints with events maybe still queued, by direction (rule 5).
    ghosts: [Cell<u32>; 2],
    /// Events seen, modulo 2^32 (rule 4).
    events: Cell<u32>,
    strays: Cell<u64>,
    /// Completions to take, oldest first, by direction.
    parked: [List; 2],
    /// Slots that wait for the events of taken completions (rule 4).
    orphans: List,
    /// Used-up receives, oldest first (rule 10).
    used_up: List,
    slow_poll: Cell<bool>,
    ends: Cell<(u32, u32)>,
    /// Driver waker for work that the wait descriptor does not signal.
    wanted: Cell<Option<Waker>>,
    /// Bytes in front of a message, counted by events of receives.
    prefix: usize,
    /// `B` occurs otherwise only in `S`.
    marker: PhantomData<B>,
    slots: S,
}

impl<B, const N: usize> OpTable<B, [Slot<B>; N]> {
    pub(crate) const SLOTS_AT: usize = core::mem::offset_of!(Self, slots);

    /// Builds a table in place, without a copy on the stack.
    ///
    /// `horizon` is the number of events that the queue can hold, `prefix` that of the bytes before
    /// the buffers of receives, except multi-receives.
    ///
    /// # Safety
    /// `this` is valid for writes and aligned.
    pub unsafe fn init(this: *mut Self, kind: ContextKind, horizon: u32, prefix: usize) {
        const {
            assert!(N > 0, "a table needs a slot");
            assert!(N < NONE as usize, "slots are numbered with 31 bits");
        }
        // SAFETY: the caller guarantees room, the assertions check `N`.
        unsafe { OpTable::init_slots(this, kind, horizon, prefix) };
    }
}

impl<B> OpTable<B> {
    /// # Safety
    /// `this` is valid for writes and aligned, with at least one slot and fewer than [`NO_SLOT`].
    pub(crate) unsafe fn init_slots(this: *mut Self, kind: ContextKind, horizon: u32, prefix: usize) {
        macro_rules! set {
            ($field:ident, $value:expr) => {
                // SAFETY: the caller guarantees that `this` is valid for writes.
                unsafe { (&raw mut (*this).$field).write($value) }
            };
        }
        set!(contexts, kind);
        set!(horizon, horizon);
        set!(free, Cell::new(0));
        // SAFETY: the caller guarantees room for the table.
        let slots = unsafe { &raw mut (*this).slots };
        #[expect(clippy::cast_possible_truncation, reason = "the caller guarantees fewer than `NO_SLOT`")]
        let capacity = slots.len() as u32;
        set!(room, Cell::new(capacity));
        set!(ghosts, [Cell::new(0), Cell::new(0)]);
        set!(events, Cell::new(0));
        set!(strays, Cell::new(0));
        set!(parked, [List::new(), List::new()]);
        set!(orphans, List::new());
        set!(used_up, List::new());
        set!(slow_poll, Cell::new(false));
        set!(ends, Cell::new((0, 0)));
        set!(wanted, Cell::new(None));
        set!(prefix, prefix);
        set!(marker, PhantomData);
        let slots = slots.cast::<Slot<B>>();
        for index in 0..capacity {
            let next = if index + 1 == capacity { NONE } else { index + 1 };
            // SAFETY: `index` is below the number of slots.
            let slot = unsafe { slots.add(index as usize) };
            // SAFETY: the slot lies within `this`, which is valid for writes.
            unsafe { slot.write(Slot::free(index, next)) };
        }
    }
}

impl<B> OpTable<B> {
    /// Number of operations that can be in flight.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Number of operations in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let [transmits, receives] = &self.ghosts;
        self.capacity() - (self.room.get() + transmits.get() + receives.get()) as usize
    }

    /// Number of operations that can be posted now.
    #[must_use]
    pub fn free_slots(&self) -> usize {
        let free = self.slots.iter().filter(|slot| slot.phase.get() == Phase::Free).count();
        free.min(self.room.get() as usize)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room.get() == 0 && !self.has_ghosts()
    }

    /// Number of events without an operation in flight.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.strays.get()
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot<B>> {
        self.slots.get(index as usize)
    }

    #[inline]
    fn named(&self, key: OpKey) -> Option<&Slot<B>> {
        self.slot(key.index()).filter(|slot| slot.key.get() == key)
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "own indices; a wrong one must not go unnoticed")]
    fn own(&self, index: u32) -> &Slot<B> {
        &self.slots[index as usize]
    }

    #[inline(always)]
    fn by_context(&self, context: u64, phase: Phase) -> Option<(OpKey, &Slot<B>)> {
        let (_, slot) = self.named_by(context)?;
        let key = slot.key.get();
        let current = self.contexts == ContextKind::Space || key.word() == context;
        (current && slot.phase.get() == phase).then_some((key, slot))
    }

    #[inline(always)]
    fn count_event(&self) {
        if self.contexts == ContextKind::Space {
            self.events.set(self.events.get().wrapping_add(1));
        }
    }

    #[inline(always)]
    fn named_by(&self, context: u64) -> Option<(u32, &Slot<B>)> {
        match self.contexts {
            ContextKind::Word => {
                let index = OpKey::from_word(context).index();
                Some((index, self.slot(index)?))
            }
            ContextKind::Space => self.by_address(context),
        }
    }

    fn by_address(&self, address: u64) -> Option<(u32, &Slot<B>)> {
        let base = self.slots.as_ptr().addr() + Slot::<B>::SPACE;
        let offset = usize::try_from(address).ok()?.checked_sub(base)?;
        let index = u32::try_from(offset / size_of::<Slot<B>>()).ok()?;
        let slot = self.slot(index)?;
        (offset % size_of::<Slot<B>>() == 0).then_some((index, slot))
    }

    /// Completes the operation of an event.
    ///
    /// # Safety
    /// A transport has reported the event for a context of this table, or the context names no
    /// operation of it. The named operation has completed, and received data fills the first `len`
    /// bytes of its buffer. A multi-receive has completed only if the event has `MULTI_RECV`, and
    /// its message is the `len` bytes at the event's address.
    #[inline]
    pub unsafe fn complete(&self, event: &Event) -> Resolution<'_, B> {
        self.count_event();
        match self.by_context(event.context, Phase::Posted) {
            Some((key, slot)) => {
                let event = self.checked(event, slot);
                // SAFETY: the slot is `Posted`, and the caller guarantees completion.
                Resolution::Done(unsafe { self.end(key, slot, event) })
            }
            // SAFETY: the caller keeps the requirements of `complete`.
            None => match unsafe { self.complete_uncommon(event) } {
                Uncommon::Resolved(resolution) => resolution,
                // SAFETY: the slot holds its buffer, and its multi-receive has completed.
                Uncommon::Completed(key, slot, event) => Resolution::Done(unsafe { self.end(key, slot, event) }),
                Uncommon::Value(key, slot, event) => Resolution::Value(self.end_value(key, slot, event)),
            },
        }
    }

    /// # Safety
    /// The requirements of [`complete`](Self::complete).
    #[cold]
    #[inline(never)]
    unsafe fn complete_uncommon(&self, event: &Event) -> Uncommon<'_, B> {
        // SAFETY: the caller keeps the requirements of `complete`.
        if let Some(filled) = unsafe { self.fill(event) } {
            return filled;
        }
        if let Some((key, slot)) = self.by_context(event.context, Phase::PostedValue)
            // SAFETY: the caller keeps the requirements of `complete`.
            && let Some(event) = unsafe { self.value_of(slot, event) }
        {
            return Uncommon::Value(key, slot, event);
        }
        Uncommon::Resolved(if let Some(peek) = self.peeked(event) {
            Resolution::Peek(peek)
        } else if let Some(unwanted) = self.unwanted(event) {
            unwanted.map_or(Resolution::Continues, Resolution::Unwanted)
        } else {
            self.stray(event.context, event.flags)
        })
    }

    /// Completes the operation of an event, if it is in flight and has succeeded. On `None`, pass
    /// the event to [`complete`](Self::complete).
    ///
    /// # Safety
    /// The requirements of [`complete`](Self::complete), and the table has no [prefix](Self::init).
    #[inline(always)]
    pub unsafe fn succeed(&self, event: &Event) -> Option<Done<B>> {
        if event.is_error() {
            return None;
        }
        let (slot, success) = self.success_of(event)?;
        // SAFETY: the slot is `Posted`, and the caller guarantees completion.
        Some(unsafe { self.end(slot.key.get(), slot, success) })
    }

    #[inline(always)]
    fn success_of(&self, event: &Event) -> Option<(&Slot<B>, Event)> {
        let (slot, len) = match self.contexts {
            ContextKind::Word => {
                let slot = self.slot(OpKey::from_word(event.context).index())?;
                if slot.key.get().word() != event.context {
                    return None;
                }
                (slot, slot.succeeds_with(event)?)
            }
            ContextKind::Space => {
                let (_, slot) = self.by_address(event.context)?;
                let len = slot.succeeds_with(event)?;
                self.count_event();
                (slot, len)
            }
        };
        let success = Event {
            tag: event.tag,
            data: event.data,
            source: event.source,
            ..Event::success(event.context, event.flags, len)
        };
        Some((slot, success))
    }

    /// Runs [`succeed`](Self::succeed) if the event belongs to this operation.
    ///
    /// # Safety
    /// The requirements of [`succeed`](Self::succeed).
    #[inline(always)]
    pub unsafe fn succeed_as(&self, key: OpKey, event: &Event) -> Option<Done<B>> {
        let names_it = match self.contexts {
            ContextKind::Word => event.context == key.word(),
            ContextKind::Space => self.by_address(event.context).is_some_and(|(_, slot)| slot.key.get() == key),
        };
        // SAFETY: the caller keeps the requirements of `succeed`.
        if names_it { unsafe { self.succeed(event) } } else { None }
    }

    #[inline(always)]
    fn checked(&self, event: &Event, slot: &Slot<B>) -> Event {
        let (kind, prefix) = (slot.kind.get(), self.prefix);
        if kind.direction() == Direction::Receive && prefix > 0 {
            let len = event.len.saturating_sub(prefix);
            return clamp_len(&Event { len, ..*event }, kind, slot.lent.get());
        }
        clamp_len(event, kind, slot.lent.get())
    }

    /// # Safety
    /// The slot holds the buffer, and a transport has reported completion.
    #[inline(always)]
    unsafe fn end(&self, key: OpKey, slot: &Slot<B>, event: Event) -> Done<B> {
        self.make_room();
        // SAFETY: rule 2: the buffer is in the slot, and the caller guarantees completion.
        let buf = unsafe { slot.empty() };
        self.release(key.index(), slot);
        Done::new(key, buf, event)
    }

    pub(crate) const fn wanted(&self) -> &Cell<Option<Waker>> {
        &self.wanted
    }

    #[inline]
    pub(crate) fn wake_driver(&self) {
        if let Some(waker) = self.wanted.take() {
            waker.wake();
        }
    }

    pub(crate) fn note_news(&self) {
        self.note_end(NO_SLOT);
    }

    /// Number of completions not returned at once, modulo 2<sup>32</sup>, and the index of the last
    /// one or [`NO_SLOT`].
    pub(crate) const fn ends(&self) -> (u32, u32) {
        self.ends.get()
    }

    #[inline]
    pub(crate) const fn context_kind(&self) -> ContextKind {
        self.contexts
    }

    /// Context of an operation in flight, for cancellation.
    #[must_use]
    pub fn context_of(&self, key: OpKey, endpoint: u16) -> Option<Context> {
        let slot = self.named(key)?;
        (slot.is_lent() && slot.endpoint.get() == endpoint).then(|| self.context(slot, key))
    }

    /// Returns `true` if an operation is in flight or its completion has not been taken.
    pub(crate) fn contains(&self, key: OpKey) -> bool {
        self.named(key).is_some_and(|slot| !matches!(slot.phase.get(), Phase::Free | Phase::Orphan | Phase::Dropped))
    }

    /// Returns `true` if an operation is in flight or has pieces out.
    pub(crate) fn is_unfinished(&self, key: OpKey) -> bool {
        self.named(key).is_some_and(|slot| slot.phase.get().is_unfinished())
    }

    pub(crate) fn is_value(&self, key: OpKey) -> bool {
        self.named(key).is_some_and(|slot| slot.kind.get() == Kind::Value)
    }

    pub(crate) fn endpoint_of(&self, context: u64) -> Option<u16> {
        let of = |phase| self.by_context(context, phase).map(|(_, slot)| slot.endpoint.get());
        [Phase::Posted, Phase::Filling, Phase::Spare].into_iter().find_map(of)
    }

    /// Returns every operation in flight on an endpoint. Linear in the capacity.
    pub fn posted_on(&self, endpoint: u16) -> impl Iterator<Item = Posted> + '_ {
        let posted = move |slot: &Slot<B>| {
            (slot.is_lent() || slot.phase.get() == Phase::Spare) && slot.endpoint.get() == endpoint
        };
        self.slots.iter().filter(move |slot| posted(slot)).map(|slot| Posted {
            key: slot.key.get(),
            kind: slot.kind.get(),
            len: if slot.is_lent() { slot.lent.get() } else { 0 },
            context: self.context(slot, slot.key.get()),
        })
    }
}

/// Limits an event to the lent bytes.
///
/// Providers set `len` for receives only (`man fi_cq`). A receive longer than the lent bytes was
/// truncated (P5).
#[inline(always)]
fn clamp_len(event: &Event, kind: Kind, lent: usize) -> Event {
    let mut event = *event;
    if event.is_error() {
        if event.errno == Errno::ETRUNC && event.len > lent && kind.direction() == Direction::Receive {
            event.overflow_or_place = event.len - lent;
        }
        event.len = event.len.min(lent);
        event.flags.remove(CompletionFlags::MULTI_RECV);
    } else if kind.direction() != Direction::Receive {
        event.len = lent;
    } else if event.len > lent {
        event.overflow_or_place = event.len - lent;
        event.len = lent;
        event.errno = Errno::ETRUNC;
        event.provider_errno = Errno::ETRUNC.as_raw();
    }
    event
}

debug_struct!(
    [B, S: ?Sized] OpTable[B, S],
    |it| contexts: it.contexts, room: it.room.get(), strays: it.strays.get()
);
