//! [`CqDriver`]: polls a completion queue and wakes those who wait for its operations.

#![allow(unsafe_code, reason = "lays entries out in the block of the driver")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::Drive;
use super::entry::{Entry, Interest};
use super::wait_list::{WaitList, for_each};
use crate::block_slice::{BlockSlice, Part};
use crate::buffer::Buffer;
use crate::cq::{Cq, CqError, Kept, Next};
use crate::engine::op_table::{Done, OpKey, OpTable, Taken};
use crate::error::OpenError;
use crate::handle::{Ended, Handle, HandleBlock, Head, Object, Plan, Unfilled};
use crate::transport::Transport;
use crate::vocabulary::Errno;

/// What a post waits for that takes no slot of the queue: the provider alone.
pub(super) const FOR_PROVIDER: u64 = 0;

/// What a post waits for that takes a slot of the queue.
pub(super) const FOR_SLOT: u64 = 1;

/// The end of the list of what can be taken back.
const NONE: u32 = u32::MAX;

/// After how many turns one of the posts is tried that wait behind others.
const OTHERS_TURN: u32 = 16;

/// How many operations a task may find over at once between two turns: what comes after them waits, so that other tasks, timers and sockets have their
/// turn beside a task whose operations all end as they begin.
const AT_ONCE: u32 = 128;

/// How many turns a future has to take events that others wait behind. One that is held and not polled does not take them.
const UNTAKEN: u32 = 1024;

/// What has those who wait.
enum Told<'d> {
    Entry(&'d Entry),
    List(&'d WaitList),
}

/// What becomes of the buffer of an operation whose future was dropped, when the operation is over.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::driver::{CqDriver, Drive, Unclaimed};
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Keep)?;
/// let received = cq.post(vec![0; 5], Forever, |room| bob.recv(Source::Any, room))?;
/// // Dropping the future does not end the receive.
/// drop(driver.finish(received));
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// let done = loop {
///     driver.turn(16);
///     if let Some(done) = driver.take_unclaimed() {
///         break done;
///     }
/// };
/// assert_eq!((done.key(), done.into_buf()), (received, b"hello".to_vec()));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclaimed {
    /// It is dropped, whatever the operation has come to.
    Drop,
    /// It stays in its slot, and is for [`CqDriver::take_unclaimed`] or [`CqDriver::next_unclaimed`]. Until it is taken, the queue has room for one
    /// operation less.
    Keep,
}

/// Polls a completion queue, and wakes those who wait for its operations. The [module](super) says what can be awaited.
///
/// A counted handle, and one of its queue: futures have it, too. The last one gives the queue back to [`Cq::poll`]; operations whose futures
/// were dropped are completions like all others then.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::cq::CqError;
/// use loom_core::driver::{CqDriver, Drive, Unclaimed};
/// use loom_core::{Av, Cq, Domain, Source};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// assert_eq!(cq.poll().err(), Some(CqError::Driven), "the driver alone polls");
/// let task = async {
///     let received = driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
///     driver.run(b"hello".to_vec(), |message| alice.send(to_bob, message)).await?.result()?;
///     assert_eq!(driver.finish(received).await?.into_buf(), b"hello");
///     Ok::<_, loom_core::Error>(())
/// };
/// // An executor polls the task, and takes a turn of the driver in between.
/// # {
/// # use core::task::{Context, Poll, Waker};
/// # let mut task = core::pin::pin!(task);
/// # loop {
/// #     if let Poll::Ready(ended) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
/// #         break ended?;
/// #     }
/// #     driver.turn(16);
/// # }
/// # }
/// drop(driver);
/// assert!(cq.poll()?.is_none(), "the program polls again");
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct CqDriver<'m, T: Transport, B: Buffer> {
    pub(super) body: Handle<'m, CqDriverInner<'m, T, B>>,
}

/// What there is one of, however many handles there are.
pub(super) struct CqDriverInner<'m, T: Transport, B: Buffer> {
    cq: Cq<'m, T, B>,
    unclaimed: Unclaimed,
    /// Of which slot each is.
    entries: BlockSlice<Entry>,
    /// How many completions, and events of no operation, the queue had kept when those who wait were last told.
    told_of: Cell<u32>,
    /// Why the queue cannot go on.
    failed: Cell<Option<CqError>>,
    /// How many turns have met events that were still to be taken.
    untaken: Cell<u32>,
    /// The provider queue to look at first.
    receives_first: Cell<bool>,
    /// How many turns there were in which posts waited.
    turns: Cell<u32>,
    /// How many operations were found over at once since the last turn.
    at_once: Cell<u32>,
    /// Operations to take back, oldest first: the first and the last of the list.
    given_up: Cell<(u32, u32)>,
    /// Futures of multi-receives that wait for pieces.
    pub(super) draining: Cell<u32>,
    /// Posts that were refused for the moment.
    pub(super) room: WaitList,
    /// Who waits for events that belong to no operation.
    pub(super) events: WaitList,
    /// Who waits for what can be taken back.
    pub(super) claimants: WaitList,
}

impl<'m, T: Transport, B: Buffer> CqDriver<'m, T, B> {
    /// Opens the driver of a queue, with memory of `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Errno`] with `EBUSY` if the queue has a driver
    pub fn open_in<A: Allocator + Send + 'm>(
        cq: &Cq<'m, T, B>,
        unclaimed: Unclaimed,
        alloc: A,
    ) -> Result<Self, OpenError> {
        let (plan, entries) = Self::plan::<A>(cq.capacity())?;
        let block = Unfilled::new(plan, alloc)?;
        if !cq.body.begin_driving() {
            return Err(Errno::EBUSY.into());
        }
        // SAFETY: planned for this, and a field of the object in the block, which is dropped before that is given back.
        let entries = unsafe { BlockSlice::new(&block, entries, |_| Entry::new()) };
        let inner = CqDriverInner {
            // What is kept already was kept for those who know its keys.
            told_of: Cell::new(cq.ops().ends().0),
            cq: cq.clone(),
            unclaimed,
            entries,
            failed: Cell::new(None),
            untaken: Cell::new(0),
            receives_first: Cell::new(false),
            turns: Cell::new(0),
            at_once: Cell::new(0),
            given_up: Cell::new((NONE, NONE)),
            draining: Cell::new(0),
            room: WaitList::new(),
            events: WaitList::new(),
            claimants: WaitList::new(),
        };
        Ok(CqDriver { body: block.fill(inner) })
    }

    /// [`CqDriver::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`CqDriver::open_in`].
    #[cfg(feature = "std")]
    pub fn open(cq: &Cq<'m, T, B>, unclaimed: Unclaimed) -> Result<Self, OpenError> {
        Self::open_in(cq, unclaimed, allocator_api2::alloc::Global)
    }

    fn plan<A: Allocator>(depth: usize) -> Result<(Plan, Part), OpenError> {
        let mut plan = Plan::of::<CqDriverInner<'m, T, B>, A>()?;
        let entries = Part::of::<Entry>(&mut plan, depth)?;
        Ok((plan, entries))
    }

    /// The memory that a driver takes from an allocator of type `A`, in one block, for a queue of this depth ([`Cq::capacity`]).
    ///
    /// # Errors
    /// [`OpenError::Size`] if it is more than an address space holds.
    pub fn layout<A: Allocator>(depth: usize) -> Result<Layout, OpenError> {
        Ok(Self::plan::<A>(depth)?.0.layout())
    }

    /// The queue that it polls.
    #[must_use]
    pub fn cq(&self) -> &Cq<'m, T, B> {
        &self.body.cq
    }

    /// Takes back the buffer of an operation whose future was dropped, if one is over, the oldest first.
    ///
    /// There are none where the driver was opened with [`Unclaimed::Drop`].
    pub fn take_unclaimed(&self) -> Option<Done<B>> {
        self.body.take_unclaimed()
    }
}

impl<T: Transport, B: Buffer> Drive for CqDriver<'_, T, B> {
    fn turn(&self, budget: usize) -> usize {
        self.body.turn(budget)
    }
}

impl<'m, T: Transport, B: Buffer> CqDriverInner<'m, T, B> {
    #[inline]
    pub(super) fn ops(&self) -> &OpTable<B> {
        self.cq.ops()
    }

    pub(super) const fn cq(&self) -> &Cq<'m, T, B> {
        &self.cq
    }

    pub(super) const fn unclaimed(&self) -> Unclaimed {
        self.unclaimed
    }

    /// The entry of an operation's slot. A key of another queue may name none.
    #[inline]
    pub(super) fn entry(&self, key: OpKey) -> Option<&Entry> {
        self.entries.get(key.index() as usize)
    }

    /// Why futures of the queue cannot go on.
    #[inline]
    pub(super) const fn failure(&self) -> Option<CqError> {
        self.failed.get()
    }

    /// There is something new to look for.
    #[inline]
    pub(super) fn is_wanted(&self) {
        self.cq.body.wants_driver();
    }

    fn turn(&self, budget: usize) -> usize {
        let queue = &*self.cq.body;
        self.at_once.set(0);
        if self.has_to_do() && !self.prepare() {
            return 0;
        }
        let (mut events, mut empty) = (0, 0);
        let receives_first = self.receives_first.get();
        for number in 0..queue.queues() {
            while events < budget {
                match queue.keep_one(receives_first != (number == 1)) {
                    Ok(Kept::Nothing) => {
                        empty += 1;
                        break;
                    }
                    Ok(kept) => self.tell_of(kept),
                    Err(error) => {
                        self.cannot_go_on(error);
                        return events;
                    }
                }
                events += 1;
            }
        }
        if empty == queue.queues() {
            queue.found_empty();
        }
        if !self.room.is_empty() && (events > 0 || !self.has_room_by_events_alone()) {
            self.room.tell_first(events + 1);
            // The first may wait for a peer that takes nothing. While there are events, that is tried now and then: those who wait are to be
            // taken in order.
            let turns = self.turns.get();
            self.turns.set(turns.wrapping_add(1));
            if events == 0 || turns.is_multiple_of(OTHERS_TURN) {
                self.room.tell_next_in_turn();
            }
        }
        events
    }

    /// Whether something is to be done before the next event.
    #[inline]
    fn has_to_do(&self) -> bool {
        self.failed.get().is_some() || self.is_behind() || self.cq.body.makes_detours()
    }

    /// Whether operations have ended that no future has seen yet, or receives are to be posted again.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.told_of.get() != self.ops().ends().0 || self.cq.body.has_used_up()
    }

    /// Does what is to be done before the next event; `false` if there will be none.
    #[cold]
    fn prepare(&self) -> bool {
        if matches!(self.failed.get(), Some(CqError::Queue(_) | CqError::OtherProcess)) {
            return false;
        }
        self.tell_of_others();
        self.receives_first.set(!self.receives_first.get());
        self.cq.body.post_used_up();
        true
    }

    /// Looks for the end of an operation that has just begun, once: many are over by then, and no task needs to be woken. After [`AT_ONCE`] of
    /// them the next one waits for a turn.
    #[inline(always)]
    pub(super) fn look_for(&self, key: OpKey) -> Option<Done<B>> {
        let at_once = self.at_once.get();
        if at_once == AT_ONCE || self.has_to_do() {
            return None;
        }
        match self.cq.body.take_one(key) {
            Next::Taken(done) => {
                self.at_once.set(at_once + 1);
                // The transport may have handed over more, of which the descriptor does not tell any more.
                self.is_wanted();
                return Some(done);
            }
            Next::Kept(Ok(Kept::Nothing)) => {}
            Next::Kept(Ok(kept)) => self.tell_of(kept),
            Next::Kept(Err(error)) => self.cannot_go_on(error),
        }
        None
    }

    /// Tells who is meant of what has just been kept.
    #[inline]
    fn tell_of(&self, kept: Kept) {
        if matches!(kept, Kept::Nothing | Kept::Silent) {
            return;
        }
        // User code may have kept others meanwhile.
        self.told_of.set(self.told_of.get().wrapping_add(1));
        match kept {
            Kept::Completion(index) => self.is_over(index),
            Kept::Peek(key) => match self.entry(key).map(|entry| (entry, entry.interest())) {
                Some((entry, Interest::Awaited(awaited))) if awaited == key => entry.wake(),
                Some((entry, Interest::GivenUp(given_up))) if given_up == key => {
                    entry.set(Interest::None);
                    self.give_up_answer(key);
                }
                _ => {}
            },
            Kept::Unmatched => self.events.tell_one(),
            Kept::Nothing | Kept::Silent => {}
        }
    }

    /// No future waits for a peek any more. Its answer may have claimed a message, which is not to be lost: if it is kept, it is an event.
    #[cold]
    pub(super) fn give_up_answer(&self, key: OpKey) {
        if self.cq.give_up_answer(key) {
            self.events.tell_one();
        }
    }

    /// Another operation has the slot of what an entry is about: a peek that was answered, or whose endpoint was closed, outside of a turn.
    /// A future that waits for that looks itself.
    #[cold]
    pub(super) fn is_of_another(&self, entry: &Entry) {
        match entry.interest() {
            Interest::Awaited(_) => entry.wake(),
            Interest::GivenUp(key) => self.give_up_answer(key),
            Interest::None | Interest::Unclaimed(_) => {}
        }
    }

    /// Tells who waits for the operation in a slot that it is over.
    #[inline]
    fn is_over(&self, index: u32) {
        let Some(entry) = self.entries.get(index as usize) else { return };
        match entry.interest() {
            Interest::Awaited(_) => entry.wake(),
            Interest::GivenUp(key) => self.give_back(entry, key),
            Interest::None | Interest::Unclaimed(_) => {}
        }
    }

    /// Tells of what has come outside of turns: completions and events of an endpoint that was closed, the end of a multi-receive whose last
    /// piece was dropped, what a blocking call has kept that drove progress.
    fn tell_of_others(&self) {
        let (ends, _) = self.ops().ends();
        if self.told_of.replace(ends) == ends {
            return;
        }
        let told = self.entries.iter().map(Told::Entry).chain([Told::List(&self.events)]);
        for_each(told, |told| match told {
            Told::Entry(entry) => match entry.interest() {
                Interest::Awaited(key) if !self.ops().is_under_way(key) => entry.wake(),
                Interest::GivenUp(key) if !self.ops().is_under_way(key) => self.give_back(entry, key),
                _ => {}
            },
            Told::List(events) if self.cq.body.has_unmatched() => events.tell_all(),
            Told::List(_) => {}
        });
    }

    /// An operation is over whose future was dropped.
    #[cold]
    pub(super) fn give_back(&self, entry: &Entry, key: OpKey) {
        if self.ops().parked_at(key.index()) != Some(key) {
            // It was a peek, or the slot is another operation's by now.
            entry.set(Interest::None);
            self.give_up_answer(key);
            return;
        }
        if self.unclaimed == Unclaimed::Drop || self.ops().is_value(key) {
            entry.set(Interest::None);
            // User code, at the end.
            drop(self.take_any(key));
            return;
        }
        entry.set(Interest::Unclaimed(key));
        entry.after.set(NONE);
        let index = key.index();
        match self.given_up.get() {
            (NONE, _) => self.given_up.set((index, index)),
            (first, last) => {
                if let Some(last) = self.entries.get(last as usize) {
                    last.after.set(index);
                }
                self.given_up.set((first, index));
            }
        }
        self.claimants.tell_one();
    }

    /// No future waits for an operation any more.
    pub(super) fn give_up(&self, key: OpKey) {
        let Some(entry) = self.entry(key).filter(|_| self.ops().knows(key)) else { return };
        entry.set(Interest::GivenUp(key));
        if !self.ops().is_under_way(key) {
            self.give_back(entry, key);
        }
    }

    /// Takes a completion, of whatever kind.
    fn take_any(&self, key: OpKey) -> Option<Done<B>> {
        match self.ops().take(key) {
            Taken::Done(done) => Some(done),
            _ => {
                let _ = self.ops().take_value(key);
                None
            }
        }
    }

    /// Takes an operation off the list of those that can be taken back, which is walked.
    #[cold]
    pub(super) fn claim(&self, entry: &Entry, key: OpKey) {
        entry.set(Interest::None);
        let (first, last) = self.given_up.get();
        let (mut before, mut at) = (NONE, first);
        while at != key.index() {
            let Some(walked) = self.entries.get(at as usize) else { return };
            (before, at) = (at, walked.after.get());
        }
        let after = entry.after.get();
        match self.entries.get(before as usize) {
            Some(before) => before.after.set(after),
            None => self.given_up.set((after, last)),
        }
        if after == NONE {
            self.given_up.set((self.given_up.get().0, before));
        }
    }

    fn take_unclaimed(&self) -> Option<Done<B>> {
        loop {
            let (first, last) = self.given_up.get();
            let entry = self.entries.get(first as usize)?;
            self.given_up.set((entry.after.get(), last));
            if let Interest::Unclaimed(key) = entry.interest() {
                entry.set(Interest::None);
                if let Taken::Done(done) = self.ops().take(key) {
                    self.has_room();
                    return Some(done);
                }
            }
        }
    }

    /// Whether an event comes before there is room for any post that waits: the queue has as many operations in flight as it can, and no post waits
    /// that is none of these.
    pub(super) fn has_room_by_events_alone(&self) -> bool {
        self.room.is_empty() || self.ops().is_full() && !self.room.has(FOR_PROVIDER)
    }

    /// A slot is free again.
    #[inline]
    pub(super) fn has_room(&self) {
        if !self.room.is_empty() {
            self.room.tell_first(1);
        }
    }

    /// All futures learn that the queue cannot go on.
    #[cold]
    fn cannot_go_on(&self, error: CqError) {
        // Who waits for events is about to take them, and so is who waits for an answer and was told: unless it is not polled.
        let is_about_to_be_taken = || !self.events.is_empty() || self.cq.body.keeps_answer(|key| self.is_awaited(key));
        if error == CqError::PeerEvents && self.untaken.get() < UNTAKEN && is_about_to_be_taken() {
            self.untaken.set(self.untaken.get() + 1);
            self.events.tell_one();
            return;
        }
        self.failed.set(Some(error));
        let lists = [&self.room, &self.events, &self.claimants];
        let told = self.entries.iter().map(Told::Entry).chain(lists.into_iter().map(Told::List));
        for_each(told, |told| match told {
            Told::Entry(entry) => entry.wake(),
            Told::List(list) => list.tell_all(),
        });
    }

    /// Whether a future waits for an operation.
    pub(super) fn is_awaited(&self, key: OpKey) -> bool {
        self.entry(key).is_some_and(|entry| entry.interest() == Interest::Awaited(key))
    }

    /// Events of peers were taken: there is room for others.
    pub(super) fn goes_on(&self) {
        self.untaken.set(0);
        if self.failed.get() == Some(CqError::PeerEvents) {
            self.failed.set(None);
            self.is_wanted();
        }
    }
}

// SAFETY: a place begins with its head.
unsafe impl<T: Transport, B: Buffer> Object for CqDriverInner<'_, T, B> {
    const ONE_THREAD: bool = true;

    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>> {
        head.cast()
    }

    unsafe fn end(this: NonNull<Self>, _: bool) -> Ended {
        // SAFETY: the caller's promise.
        let this = unsafe { this.as_ref() };
        this.cq.body.end_driving();
        Ended::Free
    }
}

impl<T: Transport, B: Buffer> Clone for CqDriver<'_, T, B> {
    #[inline(always)]
    fn clone(&self) -> Self {
        CqDriver { body: self.body.clone() }
    }
}

impl<T: Transport, B: Buffer> fmt::Debug for CqDriver<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.body;
        f.debug_struct("CqDriver").field("cq", &inner.cq).field("failed", &inner.failed.get()).finish_non_exhaustive()
    }
}
