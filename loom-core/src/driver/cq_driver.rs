#![allow(unsafe_code, reason = "lays entries out in the block of the driver")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::Drive;
use super::entry::{Entry, Interest};
use super::wait_list::WaitList;
use crate::buffer::Buffer;
use crate::cq::{Cq, CqError, KeptEvent, Next};
use crate::engine::op_table::{Direction, Done, OpKey, OpTable, Taken};
use crate::error::OpenError;
use crate::storage::Part;
use crate::storage::block_slice::BlockSlice;
use crate::storage::handle::{Ended, Handle, Object, Plan, Unfilled};
use crate::transport::Transport;
use crate::util::debug::debug_struct;
use crate::util::on_drop::for_each;
use crate::vocabulary::Errno;

/// Goal of a waiting post that takes no slot, but needs the provider.
pub(super) const FOR_PROVIDER: u64 = 0;

/// Goal of a waiting post that takes a slot.
pub(super) const FOR_SLOT: u64 = 1;

const NONE: u32 = u32::MAX;

/// Turns between two tries of a post that waits behind others.
const OTHERS_TURN: u32 = 16;

/// Maximum number of operations that complete at their first poll between two turns, for the sake
/// of other tasks.
const AT_ONCE: u32 = 128;

/// Number of turns before untaken events fail the futures that they block.
const UNTAKEN: u32 = 1024;

enum Waiting<'d> {
    Entry(&'d Entry),
    List(&'d WaitList),
}

/// Policy for the buffer of an operation that completes after its future was dropped.
///
/// ```
/// use loom_core::{CqDriver, Forever, Source, Unclaimed, driver::Drive};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let driver = CqDriver::open(&cq, Unclaimed::Keep)?;
/// let received = cq.post(vec![0; 5], Forever, |room| bob.recv(Source::Any, room))?;
/// // Dropping the future does not end the receive.
/// drop(driver.finish(received));
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// let done = loop {
///     driver.turn(16);
///     if let Some(done) = driver.take_unclaimed() { break done; }
/// };
/// assert_eq!((done.key(), done.into_buf()), (received, b"hello".to_vec()));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclaimed {
    /// The buffer is dropped, whatever the result.
    Drop,
    /// The completion holds its slot until [`CqDriver::take_unclaimed`] or
    /// [`CqDriver::next_unclaimed`] takes it.
    Keep,
}

/// Polls a completion queue, and wakes the waiters of its operations.
///
/// A counted handle, also of its queue. Dropping the last one returns the queue to [`Cq::poll`].
///
/// ```
/// use loom_core::{Source, cq::CqError};
///
/// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
/// assert_eq!(cq.poll().err(), Some(CqError::Driven), "the driver alone polls");
/// # fixture::drive!(driver, async {
/// let received = driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
/// driver.run(b"hello".to_vec(), |message| alice.send(to_bob, message)).await?.result()?;
/// assert_eq!(driver.finish(received).await?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// # })?;
/// drop(driver);
/// assert!(cq.poll()?.is_none(), "the program polls again");
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct CqDriver<'m, T: Transport, B: Buffer> {
    pub(super) body: Handle<'m, CqDriverInner<'m, T, B>>,
}

pub(super) struct CqDriverInner<'m, T: Transport, B: Buffer> {
    pub(super) cq: Cq<'m, T, B>,
    unclaimed: Unclaimed,
    /// By slot.
    entries: BlockSlice<Entry>,
    notified_ends: Cell<u32>,
    pub(super) failed: Cell<Option<CqError>>,
    untaken: Cell<u32>,
    receives_first: Cell<bool>,
    turns: Cell<u32>,
    at_once: Cell<u32>,
    /// First and last of the operations to take back, oldest first.
    given_up: Cell<(u32, u32)>,
    pub(super) draining: Cell<u32>,
    /// Posts after transient errors.
    pub(super) room: WaitList,
    pub(super) events: WaitList,
    pub(super) claimants: WaitList,
}

impl<'m, T: Transport, B: Buffer> CqDriver<'m, T, B> {
    /// Opens the driver of a queue in memory of `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::OutOfMemory`]
    /// - [`OpenError::Errno`] with `EBUSY` if the queue already has a driver
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
        // SAFETY: the part was planned for these entries. The slice is dropped before its block.
        let entries = unsafe { BlockSlice::new(&block, &entries, |_| Entry::new()) };
        let inner = CqDriverInner {
            notified_ends: Cell::new(cq.ops().ends().0),
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
    #[cfg(feature = "std")]
    pub fn open(cq: &Cq<'m, T, B>, unclaimed: Unclaimed) -> Result<Self, OpenError> {
        Self::open_in(cq, unclaimed, allocator_api2::alloc::Global)
    }

    fn plan<A: Allocator>(depth: usize) -> Result<(Plan, Part<Entry>), OpenError> {
        let mut plan = Plan::of::<CqDriverInner<'m, T, B>, A>()?;
        let entries = Part::of(&mut plan.layout, depth)?;
        Ok((plan, entries))
    }

    /// Layout of a driver's block in an `A`, for a queue of this depth ([`Cq::capacity`]).
    ///
    /// # Errors
    /// [`OpenError::Size`].
    pub fn layout<A: Allocator>(depth: usize) -> Result<Layout, OpenError> {
        Ok(Self::plan::<A>(depth)?.0.layout())
    }

    /// Polled queue.
    #[must_use]
    pub fn cq(&self) -> &Cq<'m, T, B> {
        &self.body.cq
    }

    /// Policy for operations of dropped futures.
    #[must_use]
    pub fn unclaimed(&self) -> Unclaimed {
        self.body.unclaimed
    }

    /// Takes the oldest completed operation whose future was dropped.
    pub fn take_unclaimed(&self) -> Option<Done<B>> {
        let inner = &*self.body;
        loop {
            let (first, last) = inner.given_up.get();
            let entry = inner.entries.get(first as usize)?;
            inner.given_up.set((entry.after.get(), last));
            if let Interest::Unclaimed(key) = entry.interest.get() {
                entry.interest.set(Interest::None);
                if let Taken::Done(done) = inner.ops().take(key) {
                    inner.has_room();
                    return Some(done);
                }
            }
        }
    }
}

impl<T: Transport, B: Buffer> Drive for CqDriver<'_, T, B> {
    fn turn(&self, budget: usize) -> usize {
        let inner = &*self.body;
        let queue = &*inner.cq.body;
        inner.at_once.set(0);
        if inner.has_work() && !inner.prepare() {
            return 0;
        }
        let (mut events, mut empty) = (0, 0);
        let receives_first = inner.receives_first.get();
        for number in 0..queue.queues() {
            while events < budget {
                match queue.keep_one(receives_first != (number == 1)) {
                    Ok(KeptEvent::Nothing) => {
                        empty += 1;
                        break;
                    }
                    Ok(kept) => inner.notify_of(kept),
                    Err(error) => {
                        inner.cannot_go_on(error);
                        return events;
                    }
                }
                events += 1;
            }
        }
        if empty == queue.queues() {
            inner.ops().drained(Direction::BOTH);
        }
        if !inner.room.is_empty() && (events > 0 || !inner.has_room_by_events_alone()) {
            inner.room.notify_first(events + 1);
            // The first post may wait for an unresponsive peer. While events arrive, others are
            // seldom tried, to keep the order.
            let turns = inner.turns.get();
            inner.turns.set(turns.wrapping_add(1));
            if events == 0 || turns.is_multiple_of(OTHERS_TURN) {
                inner.room.notify_next_in_turn();
            }
        }
        events
    }
}

impl<'m, T: Transport, B: Buffer> CqDriverInner<'m, T, B> {
    #[inline]
    pub(super) fn ops(&self) -> &OpTable<B> {
        self.cq.ops()
    }

    #[inline]
    pub(super) fn entry(&self, key: OpKey) -> Option<&Entry> {
        self.entries.get(key.index() as usize)
    }

    #[inline]
    pub(super) fn is_wanted(&self) {
        self.ops().wake_driver();
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.failed.get().is_some() || self.is_behind() || self.cq.body.always_slow
    }

    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.notified_ends.get() != self.ops().ends().0 || self.ops().has_used_up()
    }

    #[cold]
    fn prepare(&self) -> bool {
        if matches!(self.failed.get(), Some(CqError::Queue(_) | CqError::OtherProcess)) {
            return false;
        }
        self.notify_of_others();
        self.receives_first.set(!self.receives_first.get());
        self.cq.body.post_used_up_again();
        true
    }

    /// Polls once, unless [`AT_ONCE`] is reached.
    #[inline(always)]
    pub(super) fn look_for(&self, key: OpKey) -> Option<Done<B>> {
        let at_once = self.at_once.get();
        if at_once == AT_ONCE || self.has_work() {
            return None;
        }
        match self.cq.body.take_or_keep(Some(key)) {
            Next::Taken(done) => {
                self.at_once.set(at_once + 1);
                self.is_wanted();
                return Some(done);
            }
            Next::Kept(Ok(KeptEvent::Nothing)) => {}
            Next::Kept(Ok(kept)) => self.notify_of(kept),
            Next::Kept(Err(error)) => self.cannot_go_on(error),
        }
        None
    }

    #[inline]
    fn notify_of(&self, kept: KeptEvent) {
        if matches!(kept, KeptEvent::Nothing | KeptEvent::Silent) {
            return;
        }
        // Increments, because user code may have kept further events.
        self.notified_ends.set(self.notified_ends.get().wrapping_add(1));
        match kept {
            KeptEvent::Completion(index) => self.is_over(index),
            KeptEvent::Peek(key) => match self.entry(key).map(|entry| (entry, entry.interest.get())) {
                Some((entry, Interest::Awaited(awaited))) if awaited == key => entry.wake(),
                Some((entry, Interest::GivenUp(given_up))) if given_up == key => {
                    entry.interest.set(Interest::None);
                    self.give_up_answer(key);
                }
                _ => {}
            },
            KeptEvent::Unmatched => self.events.notify_one(),
            KeptEvent::Nothing | KeptEvent::Silent => {}
        }
    }

    /// A kept answer becomes an event, because it may hold a claimed message.
    #[cold]
    pub(super) fn give_up_answer(&self, key: OpKey) {
        if self.cq.give_up_answer(key) {
            self.events.notify_one();
        }
    }

    #[cold]
    pub(super) fn is_of_another(&self, entry: &Entry) {
        match entry.interest.get() {
            Interest::Awaited(_) => entry.wake(),
            Interest::GivenUp(key) => self.give_up_answer(key),
            Interest::None | Interest::Unclaimed(_) => {}
        }
    }

    #[inline]
    fn is_over(&self, index: u32) {
        let Some(entry) = self.entries.get(index as usize) else { return };
        match entry.interest.get() {
            Interest::Awaited(_) => entry.wake(),
            Interest::GivenUp(key) => self.give_back(entry, key),
            Interest::None | Interest::Unclaimed(_) => {}
        }
    }

    fn notify_of_others(&self) {
        let (ends, _) = self.ops().ends();
        if self.notified_ends.replace(ends) == ends {
            return;
        }
        let notified = self.entries.iter().map(Waiting::Entry).chain([Waiting::List(&self.events)]);
        for_each(notified, |notified| match notified {
            Waiting::Entry(entry) => match entry.interest.get() {
                Interest::Awaited(key) if !self.ops().is_unfinished(key) => entry.wake(),
                Interest::GivenUp(key) if !self.ops().is_unfinished(key) => self.give_back(entry, key),
                _ => {}
            },
            Waiting::List(events) if self.cq.body.has_unmatched() => events.notify_all(),
            Waiting::List(_) => {}
        });
    }

    #[cold]
    pub(super) fn give_back(&self, entry: &Entry, key: OpKey) {
        if self.ops().parked_at(key.index()) != Some(key) {
            entry.interest.set(Interest::None);
            self.give_up_answer(key);
            return;
        }
        if self.unclaimed == Unclaimed::Drop || self.ops().is_value(key) {
            entry.interest.set(Interest::None);
            // Runs user code, so it comes last.
            drop((self.ops().take(key), self.ops().take_value(key)));
            return;
        }
        entry.interest.set(Interest::Unclaimed(key));
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
        self.claimants.notify_one();
    }

    /// Linear time.
    #[cold]
    pub(super) fn claim(&self, entry: &Entry, key: OpKey) {
        entry.interest.set(Interest::None);
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

    /// Returns `true` if all slots have operations in flight, and every waiting post requires a
    /// slot.
    pub(super) fn has_room_by_events_alone(&self) -> bool {
        self.room.is_empty() || self.ops().is_full() && !self.room.has(FOR_PROVIDER)
    }

    #[inline]
    pub(super) fn has_room(&self) {
        if !self.room.is_empty() {
            self.room.notify_first(1);
        }
    }

    #[cold]
    fn cannot_go_on(&self, error: CqError) {
        // Waiters for events, and notified waiters for an answer, are about to take them, unless
        // they are never polled.
        let is_about_to_be_taken = || !self.events.is_empty() || self.cq.body.keeps_answer(|key| self.is_awaited(key));
        if error == CqError::PeerEvents && self.untaken.get() < UNTAKEN && is_about_to_be_taken() {
            self.untaken.set(self.untaken.get() + 1);
            self.events.notify_one();
            return;
        }
        self.failed.set(Some(error));
        let lists = [&self.room, &self.events, &self.claimants];
        let notified = self.entries.iter().map(Waiting::Entry).chain(lists.into_iter().map(Waiting::List));
        for_each(notified, |notified| match notified {
            Waiting::Entry(entry) => entry.wake(),
            Waiting::List(list) => list.notify_all(),
        });
    }

    fn is_awaited(&self, key: OpKey) -> bool {
        self.entry(key).is_some_and(|entry| entry.interest.get() == Interest::Awaited(key))
    }

    pub(super) fn goes_on(&self) {
        self.untaken.set(0);
        if self.failed.get() == Some(CqError::PeerEvents) {
            self.failed.set(None);
            self.is_wanted();
        }
    }
}

impl<T: Transport, B: Buffer> Object for CqDriverInner<'_, T, B> {
    const ONE_THREAD: bool = true;

    unsafe fn end(this: NonNull<Self>, _: bool) -> Ended {
        // SAFETY: the caller guarantees a valid object.
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

debug_struct!([T: Transport, B: Buffer] CqDriver['_, T, B], |it| cq: it.body.cq, failed: it.body.failed.get());
