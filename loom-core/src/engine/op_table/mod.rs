//! The op table: where buffers live while somebody outside of the type system uses them.
//!
//! A table has a fixed number of slots. [`post`](OpTable::post) moves a buffer into one and gives out an [`OpKey`];
//! [`complete`](OpTable::complete) finds the slot of a transport's event and moves the buffer out again. What the
//! user keeps is plain data: losing it loses nothing.
//!
//! # Rules
//!
//! Cited by number in safety comments.
//!
//! 1. The pointer that is lent is taken after the buffer has reached its slot.
//! 2. A buffer lives in `UnsafeCell<MaybeUninit<B>>` and is not referenced while it is posted.
//! 3. A context is `generation << 32 | index` where the provider leaves the context alone, so that a stale event is
//!    recognised exactly (until the slot has been used 2^31 times more). Where the provider asks for scratch space
//!    (`FI_CONTEXT`, `FI_CONTEXT2`), a context points into its slot; an event's context becomes an index by address
//!    arithmetic and a range check, and is never cast back to a pointer.
//! 4. A slot is reused only after its event. When an endpoint closes, its operations end without one: with numbers
//!    as contexts their slots are free at once (rule 3 recognises what comes late); with pointers, after as many
//!    further events as the queue can hold.
//! 5. Operations in flight, and those of closed endpoints whose events may still lie in the queue, never exceed the
//!    number of slots. Queues are opened for that number and a reserve for events that peers cause.
//! 6. User code (`lend`, dropping a buffer) runs only while the table is consistent: it may panic, post and poll.
//! 7. Every post asks for a completion.
//! 8. A multi-receive has an event for each message, and is over with the one that says so (`FI_MULTI_RECV`), or, when it
//!    was [cancelled](OpTable::cancelling), with `ECANCELED` where the transport does not flag that. Its buffer stays in
//!    the slot until then and until every [piece](Piece) of it has come back.
//! 9. A peek has a slot and a context, and no buffer. If it has claimed a message, the slot is that message's until it is
//!    fetched or discarded, which is done under the same context, or until the endpoint is closed.
//! 10. A receive that a peer's write has used up (`FI_RX_CQ_DATA`) is over for the provider and not for its user: it keeps its slot,
//!     and waits there, unlent, until it is posted again under the same context. Receives of the table's own have a slot and no
//!     buffer, and have no completion.
//! 11. An atomic operation on a value has no buffer. Its operand, what that is compared with, and its result lie in the scratch space of
//!     its slot where contexts are numbers; where the provider writes there, in that of a second slot, which is taken and given back
//!     with it.

#![allow(unsafe_code, reason = "buffers in slots: rules 1 to 11")]

mod closing;
mod done;
mod inline_atomic;
mod list;
mod multi;
mod operation;
mod peek;
mod post;
mod rx_cq_data;
mod slot;

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::task::Waker;

pub use self::done::{Done, OpError, Received, Transfer};
pub use self::inline_atomic::{Fetched, LentValues};
use self::list::{List, NONE};
use self::multi::Filled;
pub(crate) use self::multi::Message;
pub use self::multi::Piece;
pub use self::operation::{ContextKind, Direction, Kind, OpKey, Posted};
pub use self::peek::{Claim, Found, Peek};
use self::slot::Phase;
pub use self::slot::Slot;
use crate::transport::{Context, Event};
use crate::vocabulary::{CompletionFlags, Errno};

/// The index of no slot.
pub(crate) const NO_SLOT: u32 = NONE;

/// What [`OpTable::complete`] made of an event.
#[derive(Debug)]
pub enum Resolution<'t, B> {
    /// An operation is over.
    Done(Done<B>),
    /// A message has come into the buffer of a multi-receive.
    Piece(Piece<'t, B>),
    /// A multi-receive goes on, or waits for its pieces.
    NotOver,
    /// A peek is answered.
    Peek(Peek),
    /// An atomic operation on a value is over.
    Value(Fetched),
    /// A message came to an endpoint that takes none: it is lost.
    Unwanted(OpError),
    /// The event belongs to an operation that is over already.
    Stale,
    /// The event belongs to no operation of this table.
    Foreign,
}

/// What an event says that is not the only one of an operation with a buffer.
enum Other<'t, B> {
    /// An operation is over: its buffer can be had, with this event.
    Over(OpKey, &'t Slot<B>, Event),
    /// An atomic operation on a value is over, with this event.
    Value(OpKey, &'t Slot<B>, Event),
    /// This is all that there is to say.
    Resolved(Resolution<'t, B>),
}

/// What [`OpTable::take`] found.
#[derive(Debug)]
pub enum Taken<B> {
    /// The operation is over.
    Done(Done<B>),
    /// It is still in flight.
    InFlight,
    /// It is a multi-receive that is over, and waits for its pieces.
    Draining,
    /// The key is not, or no more, one of this table.
    Unknown,
}

/// A completion that was kept.
#[derive(Debug)]
pub enum ParkedCompletion<B> {
    /// Of an operation with a buffer.
    Done(Done<B>),
    /// Of an atomic operation on a value.
    Value(Fetched),
}

impl<B> ParkedCompletion<B> {
    /// That of an operation with a buffer.
    pub fn done(self) -> Option<Done<B>> {
        match self {
            ParkedCompletion::Done(done) => Some(done),
            ParkedCompletion::Value(_) => None,
        }
    }
}

/// A fixed number of slots, and who is in them.
///
/// `S` is `[Slot<B>; N]` for the owner and `[Slot<B>]` for everybody else.
///
/// ```
/// # #![allow(unsafe_code)]
/// # #[cfg(feature = "std")] {
/// use loom_core::engine::op_table::{ContextKind, Kind, OpTable, Resolution, Slot};
/// use loom_core::transport::Event;
/// use loom_core::vocabulary::CompletionFlags;
///
/// let mut table = Box::<OpTable<Vec<u8>, [Slot<_>; 4]>>::new_uninit();
/// // SAFETY: the box has room for the table.
/// unsafe { OpTable::init(table.as_mut_ptr(), ContextKind::Word, 8) };
/// // SAFETY: `init` has written the table.
/// let table: Box<OpTable<Vec<u8>>> = unsafe { table.assume_init() };
/// let mut context = 0;
/// // A transport would take what is lent, and keep the context.
/// let submit = |_: &_, named: loom_core::transport::Context| Ok(context = named.addr());
/// let key = table.post(0, Kind::Receive, vec![0; 64], submit)?;
/// let event = Event::success(context, CompletionFlags::RECV, 5);
/// // SAFETY: no transport has the buffer.
/// let Resolution::Done(done) = (unsafe { table.complete(&event) }) else { panic!("it is over") };
/// assert_eq!((done.key(), done.result()?.len(), done.into_buf().len()), (key, 5, 64));
/// // SAFETY: as above. The table recognises an event that comes twice.
/// assert!(matches!(unsafe { table.complete(&event) }, Resolution::Stale));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct OpTable<B, S: ?Sized = [Slot<B>]> {
    kind: ContextKind,
    /// How many events the queue can hold: the horizon of rule 4.
    horizon: u32,
    free: Cell<u32>,
    /// How many more operations rule 5 admits.
    room: Cell<u32>,
    /// Operations of closed endpoints whose events may still lie in the queue, by direction; rule 5.
    ghosts: [Cell<u32>; 2],
    /// Events seen, modulo 2^32; rule 4.
    events: Cell<u32>,
    /// Events that belonged to no operation in flight.
    strays: Cell<u64>,
    /// Completions waiting to be taken, oldest first, by direction.
    parked: [List; 2],
    orphans: List,
    /// Receives that were used up, oldest first; rule 10.
    used_up: List,
    kept: Cell<bool>,
    /// How many operations have ended, modulo 2^32, whose ends were not told at once; and where the last one is.
    ends: Cell<(u32, u32)>,
    /// Woken when there is something to do for who drives the queue, of which no descriptor tells.
    wanted: Cell<Option<Waker>>,
    /// Bytes in front of messages that events of receives count.
    prefix: Cell<usize>,
    marker: PhantomData<B>,
    slots: S,
}

impl<B, const N: usize> OpTable<B, [Slot<B>; N]> {
    /// How far behind its begin a table has its slots.
    pub(crate) const SLOTS_AT: usize = core::mem::offset_of!(Self, slots);

    /// Builds a table in place, without a copy on the stack.
    ///
    /// `horizon` is how many events the queue can hold.
    ///
    /// # Safety
    /// `this` is valid for writes and aligned.
    pub unsafe fn init(this: *mut Self, kind: ContextKind, horizon: u32) {
        const {
            assert!(N > 0, "a table needs a slot");
            assert!(N < NONE as usize, "slots are numbered with 32 bits");
        }
        // SAFETY: the caller's promise, and the assertions.
        unsafe { OpTable::init_slots(this, kind, horizon) };
    }
}

impl<B> OpTable<B> {
    /// [`init`](OpTable::init) of as many slots as the pointer says.
    ///
    /// # Safety
    /// `this` is valid for writes and aligned. There is a slot, and there are fewer than `u32::MAX`.
    pub(crate) unsafe fn init_slots(this: *mut Self, kind: ContextKind, horizon: u32) {
        /// Writes a field of `*this`.
        macro_rules! set {
            ($field:ident, $value:expr) => {
                // SAFETY: the caller gives room for the whole table.
                unsafe { (&raw mut (*this).$field).write($value) }
            };
        }
        set!(kind, kind);
        set!(horizon, horizon);
        set!(free, Cell::new(0));
        // SAFETY: as above.
        let slots = unsafe { &raw mut (*this).slots };
        #[expect(clippy::cast_possible_truncation, reason = "fewer than u32::MAX, says the caller")]
        let capacity = slots.len() as u32;
        set!(room, Cell::new(capacity));
        set!(ghosts, [Cell::new(0), Cell::new(0)]);
        set!(events, Cell::new(0));
        set!(strays, Cell::new(0));
        set!(parked, [List::new(), List::new()]);
        set!(orphans, List::new());
        set!(used_up, List::new());
        set!(kept, Cell::new(false));
        set!(ends, Cell::new((0, 0)));
        set!(wanted, Cell::new(None));
        set!(prefix, Cell::new(0));
        set!(marker, PhantomData);
        let slots = slots.cast::<Slot<B>>();
        for index in 0..capacity {
            let next = if index + 1 == capacity { NONE } else { index + 1 };
            // SAFETY: the index is one of the slots'.
            let slot = unsafe { slots.add(index as usize) };
            // SAFETY: as above.
            unsafe { slot.write(Slot::free(index, next)) };
        }
    }
}

impl<B> OpTable<B> {
    /// How many operations can be in flight.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// How many operations are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let [transmits, receives] = &self.ghosts;
        self.capacity() - (self.room.get() + transmits.get() + receives.get()) as usize
    }

    /// Number of operations that can be posted now. Linear in the capacity.
    #[must_use]
    pub fn free_slots(&self) -> usize {
        let free = self.slots.iter().filter(|slot| slot.phase.get() == Phase::Free).count();
        free.min(self.room.get() as usize)
    }

    /// Whether no operation is admitted before one of those in flight is over, by rule 5.
    pub(crate) fn is_full(&self) -> bool {
        self.room.get() == 0 && !self.has_ghosts()
    }

    /// How many events belonged to no operation in flight: late ones of closed endpoints, and providers' oddities.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.strays.get()
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot<B>> {
        self.slots.get(index as usize)
    }

    /// A slot whose index came from one of the table's own lists or from `find`.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "own indices; a wrong one must not go unnoticed")]
    fn own(&self, index: u32) -> &Slot<B> {
        &self.slots[index as usize]
    }

    /// Finds the operation of an event, if it is in this phase, by rule 3.
    #[inline(always)]
    fn by_context(&self, context: u64, phase: Phase) -> Option<(OpKey, &Slot<B>)> {
        let (_, slot) = self.named_by(context)?;
        let key = slot.key.get();
        let current = self.kind == ContextKind::Space || key.word() == context;
        (current && slot.phase.get() == phase).then_some((key, slot))
    }

    /// Rule 4 counts events, where contexts are pointers.
    #[inline(always)]
    fn count_event(&self) {
        if self.kind == ContextKind::Space {
            self.events.set(self.events.get().wrapping_add(1));
        }
    }

    /// The slot that a context names, if it names one.
    #[inline(always)]
    fn named_by(&self, context: u64) -> Option<(u32, &Slot<B>)> {
        match self.kind {
            ContextKind::Word => {
                let index = OpKey::from_word(context).index();
                Some((index, self.slot(index)?))
            }
            ContextKind::Space => self.by_address(context),
        }
    }

    /// The slot whose scratch space has this address.
    fn by_address(&self, address: u64) -> Option<(u32, &Slot<B>)> {
        let base = self.slots.as_ptr().addr() + Slot::<B>::SPACE;
        let offset = usize::try_from(address).ok()?.checked_sub(base)?;
        let index = u32::try_from(offset / size_of::<Slot<B>>()).ok()?;
        let slot = self.slot(index)?;
        (offset % size_of::<Slot<B>>() == 0).then_some((index, slot))
    }

    /// Ends the operation that an event belongs to.
    ///
    /// # Safety
    /// A transport has reported the event for a context of this table, or the context belongs to no operation of it: the
    /// operation that it names is over, and what was received lies in the first `len` bytes of its buffer. For a
    /// multi-receive: it is over if the event says so (`MULTI_RECV`), and the `len` bytes of a message lie where the event
    /// says.
    #[inline]
    pub unsafe fn complete(&self, event: &Event) -> Resolution<'_, B> {
        self.count_event();
        match self.by_context(event.context, Phase::Posted) {
            Some((key, slot)) => {
                let event = self.checked(event, slot);
                // SAFETY: the caller's promise.
                Resolution::Done(unsafe { self.end(key, slot, event) })
            }
            // SAFETY: as above.
            None => match unsafe { self.other(event) } {
                Other::Resolved(resolution) => resolution,
                // SAFETY: as above.
                Other::Over(key, slot, event) => Resolution::Done(unsafe { self.end(key, slot, event) }),
                Other::Value(key, slot, event) => Resolution::Value(self.end_value(key, slot, event)),
            },
        }
    }

    /// What an event says that does not end an operation with its first one.
    ///
    /// # Safety
    /// As for [`complete`](Self::complete).
    #[cold]
    #[inline(never)]
    unsafe fn other(&self, event: &Event) -> Other<'_, B> {
        // SAFETY: the caller's promise.
        match unsafe { self.fill(event) } {
            Some(Filled::Over(key, slot, event)) => return Other::Over(key, slot, event),
            Some(Filled::Message(message)) => return Other::Resolved(Resolution::Piece(self.piece(message))),
            Some(Filled::NotOver) => return Other::Resolved(Resolution::NotOver),
            None => {}
        }
        // SAFETY: the caller's promise.
        if let Some((key, slot, event)) = unsafe { self.valued(event) } {
            return Other::Value(key, slot, event);
        }
        Other::Resolved(if let Some(peek) = self.peeked(event) {
            Resolution::Peek(peek)
        } else if let Some(unwanted) = self.unwanted(event) {
            unwanted.map_or(Resolution::NotOver, Resolution::Unwanted)
        } else {
            self.stray(event.context, event.flags)
        })
    }

    /// Ends the operation that an event belongs to, if it is in flight and has succeeded. `None` says nothing about the
    /// event: it is to be given to [`complete`](Self::complete).
    ///
    /// # Safety
    /// As for [`complete`](Self::complete); and there is no [prefix](Self::set_prefix).
    #[inline(always)]
    pub unsafe fn succeed(&self, event: &Event) -> Option<Done<B>> {
        if event.is_error() {
            return None;
        }
        let (slot, success) = self.success_of(event)?;
        // SAFETY: the caller's promise.
        Some(unsafe { self.end(slot.key.get(), slot, success) })
    }

    /// The operation that has succeeded with this event, and what is to be said of that.
    #[inline(always)]
    fn success_of(&self, event: &Event) -> Option<(&Slot<B>, Event)> {
        // One look at the kind for all that depends on it.
        let (slot, len) = match self.kind {
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

    /// Keeps the completion of the operation that an event belongs to, if it is in flight and has succeeded, and returns its index. `None` says
    /// nothing about the event: it is to be given to [`park`](Self::park).
    ///
    /// # Safety
    /// As for [`succeed`](Self::succeed).
    #[inline(always)]
    pub(crate) unsafe fn park_success(&self, event: &Event) -> Option<u32> {
        if event.is_error() {
            return None;
        }
        let (slot, success) = self.success_of(event)?;
        let index = slot.key.get().index();
        // SAFETY: the caller's promise: the operation is over.
        unsafe { self.park_at(index, slot, success) };
        Some(index)
    }

    /// [`take`](Self::take) of an operation with a buffer that is over as usual. `None` says nothing about it.
    #[inline(always)]
    pub(crate) fn take_done(&self, key: OpKey) -> Option<Done<B>> {
        let slot = self.slot(key.index())?;
        if slot.key.get() != key || slot.phase.get() != Phase::Done || slot.kind.get() == Kind::Value {
            return None;
        }
        // SAFETY: the slot has a completion: its event was kept.
        let event = unsafe { slot.kept() };
        // SAFETY: rule 2: a parked operation has its buffer in the slot, unlent.
        let buf = unsafe { slot.empty() };
        self.parked_like(slot).unlink(&self.slots, key.index());
        self.release(key.index(), slot);
        Some(Done::new(key, buf, event))
    }

    /// [`succeed`](Self::succeed), if the event belongs to this operation.
    ///
    /// # Safety
    /// As for [`succeed`](Self::succeed).
    #[inline(always)]
    pub unsafe fn succeed_as(&self, key: OpKey, event: &Event) -> Option<Done<B>> {
        let names_it = match self.kind {
            ContextKind::Word => event.context == key.word(),
            ContextKind::Space => self.by_address(event.context).is_some_and(|(_, slot)| slot.key.get() == key),
        };
        // SAFETY: the caller's promise.
        if names_it { unsafe { self.succeed(event) } } else { None }
    }

    /// Receives are lent this number of bytes more than what their buffers say, in front of it, and their events count these: the table
    /// does not. Not for multi-receives. To be said before there are operations.
    pub fn set_prefix(&self, bytes: usize) {
        self.prefix.set(bytes);
    }

    /// The event of an operation without prefix, and with its length made good.
    #[inline(always)]
    fn checked(&self, event: &Event, slot: &Slot<B>) -> Event {
        let (kind, prefix) = (slot.kind.get(), self.prefix.get());
        if kind.direction() == Direction::Receive && prefix > 0 {
            // A provider's own packet may be shorter.
            let len = event.len.saturating_sub(prefix);
            return checked(&Event { len, ..*event }, kind, slot.lent.get());
        }
        checked(event, kind, slot.lent.get())
    }

    /// Moves the buffer of an operation that is over out of its slot.
    ///
    /// # Safety
    /// The slot is `Posted`, and a transport has said that its operation is over.
    #[inline(always)]
    unsafe fn end(&self, key: OpKey, slot: &Slot<B>, event: Event) -> Done<B> {
        self.make_room();
        // SAFETY: rule 2: the slot is `Posted`, and its event says that the provider is done with the buffer.
        let buf = unsafe { slot.empty() };
        self.release(key.index(), slot);
        Done::new(key, buf, event)
    }

    /// Ends the operation that an event belongs to, and keeps its completion until it is taken.
    ///
    /// Returns what [`complete`](Self::complete) does where that is no `Done`, else `None`.
    ///
    /// # Safety
    /// As for [`complete`](Self::complete).
    pub unsafe fn park(&self, event: &Event) -> Option<Resolution<'_, B>> {
        self.count_event();
        let (key, slot, event) = match self.by_context(event.context, Phase::Posted) {
            Some((key, slot)) => (key, slot, self.checked(event, slot)),
            // SAFETY: the caller's promise.
            None => match unsafe { self.other(event) } {
                Other::Resolved(resolution) => return Some(resolution),
                Other::Over(key, slot, event) | Other::Value(key, slot, event) => (key, slot, event),
            },
        };
        // SAFETY: the caller's promise: the operation is over.
        unsafe { self.park_at(key.index(), slot, event) };
        None
    }

    /// Turns a posted operation into a parked completion.
    ///
    /// # Safety
    /// The operation is over: the provider uses neither its buffer nor its scratch space any more.
    #[inline]
    unsafe fn park_at(&self, index: u32, slot: &Slot<B>, event: Event) {
        // SAFETY: the caller's promise.
        unsafe { slot.keep(event) };
        slot.phase.set(Phase::Done);
        self.push_parked(index, slot);
        self.make_room();
    }

    /// The list of the completions which the queue of a slot's operation reports.
    fn parked_like(&self, slot: &Slot<B>) -> &List {
        &self.parked[slot.kind.get().direction().list()]
    }

    fn push_parked(&self, index: u32, slot: &Slot<B>) {
        self.parked_like(slot).push(&self.slots, index);
        self.kept.set(true);
        self.note_end(index);
    }

    #[inline(always)]
    fn note_end(&self, index: u32) {
        self.ends.set((self.ends.get().0.wrapping_add(1), index));
    }

    /// Where the executor of who drives the queue leaves its waker while it sleeps.
    pub(crate) const fn wanted(&self) -> &Cell<Option<Waker>> {
        &self.wanted
    }

    /// There is something to do for who drives the queue. User code: rule 6.
    #[inline]
    pub(crate) fn wants_driver(&self) {
        if let Some(waker) = self.wanted.take() {
            waker.wake();
        }
    }

    /// Counts an event that the queue above keeps, and that belongs to no slot.
    pub(crate) fn note_news(&self) {
        self.note_end(NO_SLOT);
    }

    /// How many operations have ended, modulo 2<sup>32</sup>, whose ends were not told at once: completions were parked, or peeks ended with
    /// their endpoint; and [news](Self::note_news) with them. And the index of the last one, or [`NO_SLOT`].
    pub(crate) const fn ends(&self) -> (u32, u32) {
        self.ends.get()
    }

    /// The key of the completion that is parked in a slot, if one is.
    pub(crate) fn parked_at(&self, index: u32) -> Option<OpKey> {
        let slot = self.slot(index)?;
        matches!(slot.phase.get(), Phase::Done | Phase::Owed).then(|| slot.key.get())
    }

    /// Whether a completion may be kept here, or events of closed endpoints may be left in the queue: set where that is so, also by a
    /// [`Piece`] that comes back, until the queue above says otherwise, which may keep things of its own.
    #[inline(always)]
    pub fn is_kept(&self) -> bool {
        self.kept.get()
    }

    /// Sets what [`is_kept`](Self::is_kept) says until the next completion is parked.
    pub fn set_kept(&self, kept: bool) {
        self.kept.set(kept);
    }

    /// Takes the oldest completion of this direction that [`park`](Self::park) kept.
    pub fn take_parked(&self, direction: Direction) -> Option<ParkedCompletion<B>> {
        self.parked[direction.list()].first().map(|index| self.take_at(index))
    }

    /// Takes the completion of one operation, if it is over.
    pub fn take(&self, key: OpKey) -> Taken<B> {
        match self.slot(key.index()) {
            Some(slot) if slot.key.get() == key => match slot.phase.get() {
                Phase::Done | Phase::Owed => match slot.kind.get() {
                    Kind::Value => Taken::Unknown,
                    _ => self.take_at(key.index()).done().map_or(Taken::Unknown, Taken::Done),
                },
                Phase::Draining | Phase::DrainingOwed => Taken::Draining,
                Phase::Posted | Phase::Held | Phase::Filling | Phase::Peeking | Phase::UsedUp | Phase::HeldAgain => {
                    Taken::InFlight
                }
                Phase::Free
                | Phase::Orphan
                | Phase::Dropped
                | Phase::Claimed
                | Phase::Spare
                | Phase::SpareUsedUp
                | Phase::PostedValue
                | Phase::Holds => Taken::Unknown,
            },
            _ => Taken::Unknown,
        }
    }

    /// What contexts are here.
    #[inline]
    #[must_use]
    pub const fn context_kind(&self) -> ContextKind {
        self.kind
    }

    /// The context of an operation in flight, for cancelling it.
    #[must_use]
    pub fn context_of(&self, key: OpKey, endpoint: u16) -> Option<Context> {
        let slot = self.slot(key.index()).filter(|slot| slot.key.get() == key)?;
        (slot.is_lent() && slot.endpoint.get() == endpoint).then(|| self.context(slot, key))
    }

    /// Whether an operation is in flight, or its completion is still to be taken.
    #[must_use]
    pub fn knows(&self, key: OpKey) -> bool {
        let is_there = |slot: &Slot<B>| !matches!(slot.phase.get(), Phase::Free | Phase::Orphan | Phase::Dropped);
        self.slot(key.index()).is_some_and(|slot| slot.key.get() == key && is_there(slot))
    }

    /// Whether an operation has succeeded whose completion is parked.
    pub(crate) fn parked_success(&self, key: OpKey) -> Option<bool> {
        let slot = self.slot(key.index()).filter(|slot| slot.key.get() == key)?;
        if !matches!(slot.phase.get(), Phase::Done | Phase::Owed) {
            return None;
        }
        // SAFETY: the slot has a completion: its event was kept.
        Some(!unsafe { slot.kept() }.is_error())
    }

    /// Whether an operation is in flight, or waits for its pieces.
    pub(crate) fn is_under_way(&self, key: OpKey) -> bool {
        let under_way = |slot: &Slot<B>| {
            !matches!(
                slot.phase.get(),
                Phase::Free
                    | Phase::Done
                    | Phase::Owed
                    | Phase::Orphan
                    | Phase::Dropped
                    | Phase::Claimed
                    | Phase::Holds
                    | Phase::Spare
                    | Phase::SpareUsedUp
            )
        };
        self.slot(key.index()).is_some_and(|slot| slot.key.get() == key && under_way(slot))
    }

    /// Whether the operation that a slot was last used for is an atomic one on a value.
    pub(crate) fn is_value(&self, key: OpKey) -> bool {
        self.slot(key.index()).is_some_and(|slot| slot.key.get() == key && slot.kind.get() == Kind::Value)
    }

    /// Through which endpoint an operation in flight was posted, by its context.
    #[must_use]
    pub fn endpoint_of(&self, context: u64) -> Option<u16> {
        let of = |phase| self.by_context(context, phase).map(|(_, slot)| slot.endpoint.get());
        [Phase::Posted, Phase::Filling, Phase::Spare].into_iter().find_map(of)
    }

    /// Everything that is in flight on an endpoint. Linear in the capacity.
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

    /// Takes the completion in a slot that is `Done` or `Owed`.
    fn take_at(&self, index: u32) -> ParkedCompletion<B> {
        let slot = self.own(index);
        let key = slot.key.get();
        // SAFETY: the slot has a completion: its event was kept.
        let event = unsafe { slot.kept() };
        let parked = match slot.kind.get() {
            Kind::Value => ParkedCompletion::Value(Self::fetched(slot, event)),
            // SAFETY: rule 2: a parked operation has its buffer in the slot, unlent.
            _ => ParkedCompletion::Done(Done::new(key, unsafe { slot.empty() }, event)),
        };
        self.parked_like(slot).unlink(&self.slots, index);
        if slot.phase.get() == Phase::Owed {
            self.orphan(index);
        } else {
            self.release(index, slot);
        }
        parked
    }
}

/// An event, with its length made good.
///
/// Providers set `len` for receives only (`man fi_cq`); for everything else a success moved all that was lent. A receive of more than was lent is
/// one of a truncated message (P5).
#[inline(always)]
fn checked(event: &Event, kind: Kind, lent: usize) -> Event {
    let mut event = *event;
    if event.is_error() {
        if event.errno == Errno::ETRUNC && event.len > lent && kind.direction() == Direction::Receive {
            // The length of the message: no more is in the buffer than was lent.
            event.overflow_or_place = event.len - lent;
        }
        event.len = event.len.min(lent);
        // Transports add it where they do not know what was cancelled.
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

impl<B, S: ?Sized> fmt::Debug for OpTable<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpTable")
            .field("kind", &self.kind)
            .field("room", &self.room.get())
            .field("strays", &self.strays.get())
            .finish_non_exhaustive()
    }
}
