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
//!    recognised exactly. Where the provider asks for scratch space (`FI_CONTEXT`, `FI_CONTEXT2`), a context points
//!    into its slot; an event's context becomes an index by address arithmetic and a range check, and is never cast
//!    back to a pointer.
//! 4. A slot is reused only after its event. When an endpoint closes, its operations end without one: with numbers
//!    as contexts their slots are free at once (rule 3 recognises what comes late); with pointers, after as many
//!    further events as the queue can hold.
//! 5. Operations in flight, and those of closed endpoints whose events may still lie in the queue, never exceed the
//!    number of slots. Queues are opened for that number and a reserve for events that peers cause.
//! 6. User code (`lend`, dropping a buffer) runs only while the table is consistent: it may panic, post and poll.
//! 7. Every post asks for a completion.

#![allow(unsafe_code, reason = "buffers in slots: rules 1 to 7")]

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};

use crate::buffer::{Buffer, Lent};
use crate::completion::Done;
use crate::error::{PostError, Rejected};
use crate::transport::{Context, Event};
use crate::vocabulary::{CompletionFlags, Errno};

/// The name of a posted operation.
///
/// Plain data: forgetting it loses nothing. Meaningful for the queue that the operation was posted through, until
/// its completion was taken; afterwards it is recognised as unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpKey {
    index: u32,
    generation: u32,
}

impl OpKey {
    const fn word(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
    const fn from_word(word: u64) -> Self {
        OpKey { index: word as u32, generation: (word >> 32) as u32 }
    }
}

impl fmt::Display for OpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

/// Which side of a transfer an operation is, and so which provider queue reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Sends, reads and writes.
    Transmit,
    /// Receives.
    Receive,
}

impl Direction {
    const fn list(self) -> usize {
        match self {
            Direction::Transmit => 0,
            Direction::Receive => 1,
        }
    }
}

/// What an operation does, as far as the table has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A send or a write: the buffer is read.
    Send,
    /// A read: a transmit whose buffer is written.
    Read,
    /// A receive: the buffer is written.
    Receive,
}

impl Kind {
    /// The queue that reports it.
    #[inline]
    #[must_use]
    pub const fn direction(self) -> Direction {
        match self {
            Kind::Send | Kind::Read => Direction::Transmit,
            Kind::Receive => Direction::Receive,
        }
    }

    /// How its completion is flagged where no provider does it.
    const fn flags(self) -> CompletionFlags {
        match self {
            Kind::Send => CompletionFlags::SEND,
            Kind::Read => CompletionFlags::READ,
            Kind::Receive => CompletionFlags::RECV,
        }
    }
}

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// What it does.
    pub kind: Kind,
    /// Bytes that it was lent.
    pub len: usize,
    /// What names it to the provider.
    pub context: Context,
}

/// What the context of an operation is; rule 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextKind {
    /// A number: the provider leaves it alone.
    Word,
    /// The address of scratch space for the provider (`FI_CONTEXT`, `FI_CONTEXT2`).
    Space,
}

/// What [`OpTable::complete`] made of an event.
#[derive(Debug)]
pub enum Resolution<B> {
    /// An operation is over.
    Done(Done<B>),
    /// The event belongs to an operation that is over already.
    Stale,
    /// The event belongs to no operation of this table.
    Foreign,
}

/// What [`OpTable::take`] found.
#[derive(Debug)]
pub enum Taken<B> {
    /// The operation is over.
    Done(Done<B>),
    /// It is still in flight.
    InFlight,
    /// The key is not, or no more, one of this table.
    Unknown,
}

const NONE: u32 = u32::MAX;

/// One operation: its buffer, and what is known of it.
#[repr(C)]
pub struct Slot<B> {
    buffer: UnsafeCell<MaybeUninit<B>>,
    lent: Cell<usize>,
    generation: Cell<u32>,
    state: Cell<State>,
    room: UnsafeCell<Room>,
}

impl<B> Slot<B> {
    const fn free(next: u32) -> Self {
        Slot {
            buffer: UnsafeCell::new(MaybeUninit::uninit()),
            lent: Cell::new(0),
            generation: Cell::new(0),
            state: Cell::new(State::Free { next }),
            room: UnsafeCell::new(Room { space: [0; 8] }),
        }
    }

    /// Moves a buffer in, and lets it say what it lends.
    ///
    /// # Safety
    /// Rule 2: the slot is `Held`, so nobody else refers to its buffer.
    #[inline]
    unsafe fn fill(&self, buf: B) -> Lent
    where
        B: Buffer,
    {
        // SAFETY: the caller's promise.
        let cell = unsafe { &mut *self.buffer.get() };
        // Rule 1: the pointer is taken from the buffer in its slot.
        cell.write(buf).lend()
    }

    /// Moves the buffer out.
    ///
    /// # Safety
    /// Rule 2: a buffer is in the slot and lent to nobody. It is taken once.
    #[inline]
    unsafe fn empty(&self) -> B {
        // SAFETY: the caller's promise.
        let cell = unsafe { &*self.buffer.get() };
        // SAFETY: as above.
        unsafe { cell.assume_init_read() }
    }
}

/// The provider's scratch space while the operation is posted, its event once that has arrived.
#[derive(Clone, Copy)]
union Room {
    space: [u64; 8],
    event: Event,
}

const _: () = assert!(size_of::<Room>() == 64, "fi_context2 is 64 bytes, and an event is not larger");

#[derive(Clone, Copy, Debug)]
enum State {
    /// No buffer.
    Free { next: u32 },
    /// The buffer is in the slot and user code runs: not yet lent.
    Held,
    /// Lent.
    Posted { endpoint: u16, kind: Kind },
    /// Over, waiting to be taken; `owed` if its event may still come (rule 4).
    Done { prev: u32, next: u32, direction: Direction, owed: bool },
    /// Taken, but its event may still come (rule 4).
    Orphan { next: u32, since: u32 },
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

impl List {
    const EMPTY: List = List { head: NONE, tail: NONE };
}

/// A fixed number of slots, and who is in them.
///
/// `S` is `[Slot<B>; N]` for the owner and `[Slot<B>]` for everybody else.
pub struct OpTable<B, S: ?Sized = [Slot<B>]> {
    kind: ContextKind,
    /// How many events the queue can hold: the horizon of rule 4.
    horizon: u32,
    free: Cell<u32>,
    posted: Cell<u32>,
    /// Operations of closed endpoints whose events may still lie in the queue, by direction; rule 5.
    ghosts: [Cell<u32>; 2],
    /// Events seen, modulo 2^32; rule 4.
    events: Cell<u32>,
    /// Events that belonged to no operation in flight.
    strays: Cell<u64>,
    /// Completions waiting to be taken, oldest first, by direction.
    parked: [Cell<List>; 2],
    orphans: Cell<List>,
    marker: PhantomData<B>,
    slots: S,
}

impl<B, const N: usize> OpTable<B, [Slot<B>; N]> {
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
        set!(posted, Cell::new(0));
        set!(ghosts, [Cell::new(0), Cell::new(0)]);
        set!(events, Cell::new(0));
        set!(strays, Cell::new(0));
        set!(parked, [Cell::new(List::EMPTY), Cell::new(List::EMPTY)]);
        set!(orphans, Cell::new(List::EMPTY));
        set!(marker, PhantomData);
        // SAFETY: as above.
        let slots = unsafe { &raw mut (*this).slots }.cast::<Slot<B>>();
        #[expect(clippy::cast_possible_truncation, reason = "N < u32::MAX, asserted above")]
        for index in 0..N as u32 {
            let next = if index as usize + 1 == N { NONE } else { index + 1 };
            // SAFETY: index < N.
            let slot = unsafe { slots.add(index as usize) };
            // SAFETY: as above.
            unsafe { slot.write(Slot::free(next)) };
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
        self.posted.get() as usize
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

    /// Moves `buf` into a slot, lends it, and hands what it lends to `submit`.
    ///
    /// # Errors
    /// [`PostError::Full`] when no slot is free, or what `submit` returned; the buffer comes back.
    #[inline]
    pub fn post(
        &self,
        endpoint: u16,
        kind: Kind,
        buf: B,
        submit: impl FnOnce(&Lent, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: Buffer,
    {
        let Some((index, slot)) = self.reserve() else {
            return Err(Rejected { buf, error: PostError::Full });
        };
        let held = Held { table: self, index };
        // SAFETY: rule 2: `reserve` gave the slot to this call. `lend` is user code; `held` cleans up after it.
        let lent = unsafe { slot.fill(buf) };
        let _ = ManuallyDrop::new(held);

        slot.lent.set(lent.len());
        slot.state.set(State::Posted { endpoint, kind });
        match submit(&lent, self.context(slot, index)) {
            Ok(()) => Ok(OpKey { index, generation: slot.generation.get() }),
            Err(error) => {
                self.posted.set(self.posted.get() - 1);
                // SAFETY: rule 2: the buffer was written above and the refused post lent nothing.
                let buf = unsafe { slot.empty() };
                self.release(index, slot);
                Err(Rejected { buf, error })
            }
        }
    }

    #[inline]
    fn context(&self, slot: &Slot<B>, index: u32) -> Context {
        match self.kind {
            ContextKind::Word => Context::word(OpKey { index, generation: slot.generation.get() }.word()),
            ContextKind::Space => Context::space(slot.room.get().cast()),
        }
    }

    /// Takes a slot from the free list; it is then `Held` and has a new generation.
    #[inline]
    fn reserve(&self) -> Option<(u32, &Slot<B>)> {
        let [transmits, receives] = &self.ghosts;
        if self.posted.get() as usize + transmits.get() as usize + receives.get() as usize >= self.capacity() {
            return None;
        }
        let index = match self.free.get() {
            NONE => self.reclaim_orphan()?,
            index => index,
        };
        let slot = self.own(index);
        if let State::Free { next } = slot.state.get() {
            self.free.set(next);
        }
        // Never zero, so that no operation has the context of `Context::NONE`.
        slot.generation.set(match slot.generation.get().wrapping_add(1) {
            0 => 1,
            generation => generation,
        });
        slot.state.set(State::Held);
        // Rule 5 counts it from here on: `lend` may post.
        self.posted.set(self.posted.get() + 1);
        Some((index, slot))
    }

    /// Puts a slot without a buffer back on the free list.
    #[inline]
    fn release(&self, index: u32, slot: &Slot<B>) {
        slot.state.set(State::Free { next: self.free.get() });
        self.free.set(index);
    }

    /// Takes the oldest orphan, if as many events as the queue can hold have gone by since; rule 4.
    #[cold]
    fn reclaim_orphan(&self) -> Option<u32> {
        let list = self.orphans.get();
        let State::Orphan { next, since } = self.slot(list.head)?.state.get() else { return None };
        if self.events.get().wrapping_sub(since) < self.horizon {
            return None;
        }
        self.orphans.set(if next == NONE { List::EMPTY } else { List { head: next, tail: list.tail } });
        Some(list.head)
    }

    /// The slot that an event's context names; rule 3.
    #[inline]
    fn find(&self, context: u64) -> Option<u32> {
        match self.kind {
            ContextKind::Word => {
                let key = OpKey::from_word(context);
                (key.index < self.slots.len().try_into().ok()?).then_some(key.index)
            }
            ContextKind::Space => {
                let base = self.slots.as_ptr().addr() + core::mem::offset_of!(Slot<B>, room);
                let offset = usize::try_from(context).ok()?.checked_sub(base)?;
                let index = offset / size_of::<Slot<B>>();
                let exact = offset % size_of::<Slot<B>>() == 0 && index < self.slots.len();
                if exact { index.try_into().ok() } else { None }
            }
        }
    }

    /// Finds the posted operation of an event; accounts for the event if there is none.
    #[inline]
    fn posted_by(&self, event: &Event) -> Result<(u32, &Slot<B>, Direction), Resolution<B>> {
        if self.kind == ContextKind::Space {
            self.events.set(self.events.get().wrapping_add(1));
        }
        let Some(index) = self.find(event.context) else {
            self.strays.set(self.strays.get() + 1);
            return Err(Resolution::Foreign);
        };
        let slot = self.own(index);
        let current =
            self.kind == ContextKind::Space || OpKey::from_word(event.context).generation == slot.generation.get();
        match slot.state.get() {
            State::Posted { kind, .. } if current => Ok((index, slot, kind.direction())),
            state => Err(self.stray(index, slot, state, event)),
        }
    }

    /// An event of an operation that is over: its endpoint was closed before it came, or it came twice.
    #[cold]
    fn stray(&self, index: u32, slot: &Slot<B>, state: State, event: &Event) -> Resolution<B> {
        self.strays.set(self.strays.get() + 1);
        if self.kind == ContextKind::Word {
            if OpKey::from_word(event.context).generation == 0 {
                // No operation has such a word: `Context::NONE`, for one, of an injected message that failed.
                return Resolution::Foreign;
            }
            // Not every provider flags the events of what was cut off: any ghost will do.
            let [transmits, receives] = &self.ghosts;
            let of_receive = event.flags.contains(CompletionFlags::RECV);
            let ghosts = if (of_receive && receives.get() > 0) || transmits.get() == 0 { receives } else { transmits };
            ghosts.set(ghosts.get().saturating_sub(1));
            return Resolution::Stale;
        }
        match state {
            State::Done { prev, next, direction, owed: true } => {
                slot.state.set(State::Done { prev, next, direction, owed: false });
            }
            State::Orphan { .. } => {
                self.unlink_orphan(index);
                self.release(index, slot);
            }
            _ => {}
        }
        Resolution::Stale
    }

    /// The transport's queue was read empty: with numbers as contexts, no event of a closed endpoint is left in it.
    #[inline]
    pub fn drained(&self) {
        self.drained_of(Direction::Transmit);
        self.drained_of(Direction::Receive);
    }

    /// As [`drained`](Self::drained), for a queue that reports one direction alone.
    #[inline]
    pub fn drained_of(&self, direction: Direction) {
        self.ghosts[direction.list()].set(0);
    }

    /// Ends the operation that an event belongs to.
    ///
    /// # Safety
    /// A transport has reported the event for a context of this table, or the context belongs to no operation of it: the
    /// operation that it names is over, and what was received lies in the first `len` bytes of its buffer.
    #[inline(always)]
    pub unsafe fn complete(&self, event: &Event) -> Resolution<B> {
        match self.posted_by(event) {
            Ok((index, slot, direction)) => {
                let lent = slot.lent.get();
                let key = OpKey { index, generation: slot.generation.get() };
                self.posted.set(self.posted.get() - 1);
                // SAFETY: rule 2: the slot is `Posted`, and its event says that nobody uses the buffer any more.
                let buf = unsafe { slot.empty() };
                self.release(index, slot);
                Resolution::Done(Done::new(key, buf, checked(event, direction, lent)))
            }
            Err(resolution) => resolution,
        }
    }

    /// Ends the operation that an event belongs to, and keeps its completion until it is taken.
    ///
    /// Returns `Stale` or `Foreign` as [`complete`](Self::complete) does, else `None`.
    ///
    /// # Safety
    /// As for [`complete`](Self::complete).
    pub unsafe fn park(&self, event: &Event) -> Option<Resolution<B>> {
        match self.posted_by(event) {
            Ok((index, slot, direction)) => {
                let event = checked(event, direction, slot.lent.get());
                self.park_at(index, direction, &event, false);
                None
            }
            Err(resolution) => Some(resolution),
        }
    }

    /// Turns a posted operation into a parked completion.
    fn park_at(&self, index: u32, direction: Direction, event: &Event, owed: bool) {
        let slot = self.own(index);
        // SAFETY: rule 2: the operation is over, so the provider does not use its scratch space any more.
        unsafe { slot.room.get().write(Room { event: *event }) };
        let parked = &self.parked[direction.list()];
        let list = parked.get();
        slot.state.set(State::Done { prev: list.tail, next: NONE, direction, owed });
        if let Some(tail) = self.slot(list.tail)
            && let State::Done { prev, direction, owed, .. } = tail.state.get()
        {
            tail.state.set(State::Done { prev, next: index, direction, owed });
        }
        parked.set(List { head: if list.head == NONE { index } else { list.head }, tail: index });
        self.posted.set(self.posted.get() - 1);
    }

    /// Takes the oldest completion of this direction that [`park`](Self::park) kept.
    pub fn take_parked(&self, direction: Direction) -> Option<Done<B>> {
        let head = self.parked[direction.list()].get().head;
        (head != NONE).then(|| self.take_at(head))
    }

    /// Takes the completion of one operation, if it is over.
    pub fn take(&self, key: OpKey) -> Taken<B> {
        match self.slot(key.index) {
            Some(slot) if slot.generation.get() == key.generation => match slot.state.get() {
                State::Done { .. } => Taken::Done(self.take_at(key.index)),
                State::Posted { .. } | State::Held => Taken::InFlight,
                State::Free { .. } | State::Orphan { .. } => Taken::Unknown,
            },
            _ => Taken::Unknown,
        }
    }

    /// The context of an operation in flight, for cancelling it.
    #[must_use]
    pub fn context_of(&self, key: OpKey, endpoint: u16) -> Option<Context> {
        let slot = self.slot(key.index).filter(|slot| slot.generation.get() == key.generation)?;
        match slot.state.get() {
            State::Posted { endpoint: posted, .. } if posted == endpoint => Some(self.context(slot, key.index)),
            _ => None,
        }
    }

    /// Everything that is in flight on an endpoint. Linear in the capacity.
    pub fn posted_on(&self, endpoint: u16) -> impl Iterator<Item = Posted> + '_ {
        (0u32..).zip(&self.slots).filter_map(move |(index, slot)| match slot.state.get() {
            State::Posted { endpoint: posted, kind } if posted == endpoint => {
                Some(Posted { kind, len: slot.lent.get(), context: self.context(slot, index) })
            }
            _ => None,
        })
    }

    /// Takes the completion in a slot that is `Done`.
    fn take_at(&self, index: u32) -> Done<B> {
        let slot = self.own(index);
        let key = OpKey { index, generation: slot.generation.get() };
        // SAFETY: rule 2: the slot is `Done`, so nobody else uses its room.
        let room = unsafe { slot.room.get().read() };
        // SAFETY: it holds the event since `park_at`.
        let event = unsafe { room.event };
        // SAFETY: as above, and its buffer is there and nobody uses it.
        let buf = unsafe { slot.empty() };
        if let State::Done { prev, next, direction, owed } = slot.state.get() {
            self.unlink_parked(prev, next, direction);
            if owed {
                self.orphan(index);
            } else {
                self.release(index, slot);
            }
        }
        Done::new(key, buf, event)
    }

    fn unlink_parked(&self, before: u32, after: u32, direction: Direction) {
        let parked = &self.parked[direction.list()];
        let mut list = parked.get();
        match self.slot(before).map(|slot| (slot, slot.state.get())) {
            Some((slot, State::Done { prev, direction, owed, .. })) => {
                slot.state.set(State::Done { prev, next: after, direction, owed });
            }
            _ => list.head = after,
        }
        match self.slot(after).map(|slot| (slot, slot.state.get())) {
            Some((slot, State::Done { next, direction, owed, .. })) => {
                slot.state.set(State::Done { prev: before, next, direction, owed });
            }
            _ => list.tail = before,
        }
        parked.set(list);
    }

    fn orphan(&self, index: u32) {
        let list = self.orphans.get();
        self.own(index).state.set(State::Orphan { next: NONE, since: self.events.get() });
        if let Some(tail) = self.slot(list.tail)
            && let State::Orphan { since, .. } = tail.state.get()
        {
            tail.state.set(State::Orphan { next: index, since });
        }
        self.orphans.set(List { head: if list.head == NONE { index } else { list.head }, tail: index });
    }

    /// Removes an orphan from the middle of the list. Linear: orphans exist only after an endpoint closed.
    fn unlink_orphan(&self, index: u32) {
        let mut list = self.orphans.get();
        let (mut before, mut at) = (NONE, list.head);
        while let Some(State::Orphan { next, .. }) = self.slot(at).map(|slot| slot.state.get()) {
            if at == index {
                match self.slot(before).map(|slot| (slot, slot.state.get())) {
                    Some((slot, State::Orphan { since, .. })) => slot.state.set(State::Orphan { next, since }),
                    _ => list.head = next,
                }
                if next == NONE {
                    list.tail = before;
                }
                self.orphans.set(list);
                return;
            }
            (before, at) = (at, next);
        }
    }

    /// Ends every operation in flight of an endpoint that has been closed: each becomes a completion with
    /// `ECANCELED`, so that its buffer comes back through the queue like any other.
    ///
    /// # Safety
    /// The endpoint is closed: nobody touches what its operations lent, or their scratch space.
    pub unsafe fn abandon(&self, endpoint: u16) {
        #[expect(clippy::cast_possible_truncation, reason = "the capacity is below u32::MAX")]
        for index in 0..self.slots.len() as u32 {
            let State::Posted { endpoint: posted, kind } = self.own(index).state.get() else { continue };
            if posted != endpoint {
                continue;
            }
            let direction = kind.direction();
            let event = Event::failure(0, kind.flags(), Errno::ECANCELED);
            self.park_at(index, direction, &event, self.kind == ContextKind::Space);
            if self.kind == ContextKind::Word {
                let ghosts = &self.ghosts[direction.list()];
                ghosts.set(ghosts.get() + 1);
            }
        }
    }

    /// Drops every buffer that is still in a slot.
    ///
    /// A buffer's destructor may panic: the others are dropped all the same.
    ///
    /// # Safety
    /// Every endpoint that posted is closed.
    pub unsafe fn drop_buffers(&self) {
        DropFrom { table: self, index: 0 }.run();
    }
}

/// Drops the buffers from `index` on, also when one of the destructors unwinds.
struct DropFrom<'a, B> {
    table: &'a OpTable<B>,
    index: usize,
}

impl<B> DropFrom<'_, B> {
    fn run(&mut self) {
        while let Some(slot) = self.table.slots.get(self.index) {
            self.index += 1;
            match slot.state.get() {
                State::Posted { .. } => self.table.posted.set(self.table.posted.get() - 1),
                State::Done { prev, next, direction, .. } => self.table.unlink_parked(prev, next, direction),
                _ => continue,
            }
            // Rule 6: neither found nor freed again, also by the destructor.
            slot.state.set(State::Orphan { next: NONE, since: 0 });
            // SAFETY: rule 2: the slot held a buffer, and `drop_buffers` was told that nobody uses it.
            drop(unsafe { slot.empty() });
        }
    }
}

impl<B> Drop for DropFrom<'_, B> {
    fn drop(&mut self) {
        self.run();
    }
}

/// Frees a slot whose buffer's `lend` unwound, and drops the buffer.
struct Held<'a, B> {
    table: &'a OpTable<B>,
    index: u32,
}

impl<B> Drop for Held<'_, B> {
    fn drop(&mut self) {
        let slot = self.table.own(self.index);
        // SAFETY: rule 2: the slot is `Held`, its buffer was written and never lent.
        let buf = unsafe { slot.empty() };
        self.table.posted.set(self.table.posted.get() - 1);
        self.table.release(self.index, slot);
        drop(buf);
    }
}

/// An event, with its length made good.
///
/// Providers set `len` for receives only (`man fi_cq`); for everything else a success moved all that was lent. A
/// receive that claims more than was lent is not believed.
#[inline(always)]
fn checked(event: &Event, direction: Direction, lent: usize) -> Event {
    let mut event = *event;
    if event.is_error() {
        event.len = event.len.min(lent);
    } else if direction == Direction::Transmit {
        event.len = lent;
    } else if event.len > lent {
        overrun(&mut event, lent);
    }
    event
}

#[cold]
fn overrun(event: &mut Event, lent: usize) {
    event.overflow = event.len - lent;
    event.len = 0;
    event.errno = Errno::EOTHER;
}

impl<B, S: ?Sized> fmt::Debug for OpTable<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpTable")
            .field("kind", &self.kind)
            .field("in_flight", &self.posted.get())
            .field("strays", &self.strays.get())
            .finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for Slot<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("generation", &self.generation.get())
            .field("state", &self.state.get())
            .finish_non_exhaustive()
    }
}
