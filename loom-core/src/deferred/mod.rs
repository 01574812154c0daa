//! [`Deferred`]: operations posted when a counter reaches a threshold, as in `man fi_trigger`.
//!
//! A [`Deferred`] holds work with its buffer until a counter reaches a threshold.
//! [`poll`](Deferred::poll) then posts it like any operation, over every transport.
//!
//! A receive completes, and the answer is sent automatically:
//!
//! ```
//! use loom_core::deferred::{Deferred, DeferredEvent, Work};
//! use loom_core::{av::Av, counter::Counter, cq::Cq, deadline::Forever, domain::Domain};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Binding, Counted, CounterAttr, Source};
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
//! // It counts what bob has received.
//! let received = Counter::open(&domain, CounterAttr::default())?;
//! let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received))?;
//! let alice = cq.endpoint(&av)?;
//! let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
//!
//! // When bob has received one message, he sends one.
//! let deferred = Deferred::open(&cq, 8)?;
//! let answer = deferred.post((&received, 1), &bob, Work::send(to_alice), b"it is here".to_vec())?;
//!
//! let answered = cq.post(vec![0; 10], Forever, |room| alice.recv(Source::Any, room))?;
//! cq.post(vec![0; 5], Forever, |room| bob.recv(Source::Any, room))?;
//! cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
//! loop {
//!     match deferred.poll()? {
//!         Some(DeferredEvent::Done(key, done)) => assert!(key == answer && done.result().is_ok()),
//!         Some(DeferredEvent::Other(loom_core::Completion::Op(done))) if done.key() == answered => {
//!             assert_eq!(done.into_buf(), b"it is here");
//!             break;
//!         }
//!         _ => {}
//!     }
//! }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # What it promises
//! - **Order.** Work of one counter starts in the order of thresholds, then of posting. After a
//!   transient error ([`PostError::is_transient`]) the next poll retries it before other work of
//!   the counter.
//! - **Thresholds include failures.** Work starts when the sum of successful and failed operations
//!   reaches the threshold, as in `fi_trigger`, so that a chain does not hang. To end a chain,
//!   [flush](Deferred::flush).
//! - **Each buffer is returned once.** The [`Deferred`] drops buffers of waiting work with itself.
//!   Cancelled, flushed or refused work is [returned](DeferredEvent::Returned). Started work is a
//!   normal operation of the queue ([`engine::op_table`](crate::engine::op_table)), which returns
//!   its buffer.
//! - **Chains.** Counters of endpoints ([`Binding::counter`](crate::endpoint::Binding::counter))
//!   count deferred work too. [`Deferred::post_then`] adds a counter for one piece of work.
//! - **Bounded.** A poll starts at most the work that exists when it begins, and does not allocate.
//!
//! # References
//! - `man fi_trigger`, section *Deferred Work Queues*; `man fi_cntr`

#![allow(unsafe_code, reason = "lays the table out in the block of the object")]

mod run;
mod work;

use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use self::run::{Job, Task};
pub use self::work::{AnyAtomic, Work};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::counter::Counter;
use crate::cq::{Completion, Cq, CqError};
use crate::endpoint::{Connectionless, Endpoint, Receives, Transmits};
use crate::engine::op_table::{Done, OpKey};
pub use crate::engine::work_table::WorkKey;
use crate::engine::work_table::{Phase, Place, WorkTable};
use crate::error::{OpenError, PostError, Rejected};
use crate::storage::block_slice::{BlockSlice, Part};
use crate::storage::handle::{Ended, Handle, HandleBlock, Head, Object, Plan, Unfilled};
use crate::transport::Transport;
use crate::vocabulary::Errno;

/// Work that waits for counters, for endpoints of one queue. See the [module](self).
///
/// A counted handle, also of its queue and of the work's endpoints and counters. Dropping the last
/// clone drops waiting work.
///
/// ```
/// use loom_core::deferred::{Deferred, DeferredEvent, Work};
/// use loom_core::{Av, Counter, CounterAttr, Cq, Domain, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let start = Counter::open(&domain, CounterAttr::default())?;
/// let deferred = Deferred::open(&cq, 8)?;
/// # bob.recv(Source::Any, vec![0; 5])?;
/// let sent = deferred.post((&start, 1), &alice, Work::send(to_bob), b"hello".to_vec())?;
/// assert!(deferred.poll()?.is_none(), "the work waits for its counter");
/// start.add(1)?;
/// loop {
///     // `poll` reports the end of the work, and every other completion of the queue.
///     if let Some(DeferredEvent::Done(key, done)) = deferred.poll()? {
///         done.result()?;
///         assert_eq!(key, sent);
///         break;
///     }
/// }
/// assert!(deferred.is_empty());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_QUEUE_WORK")]
#[doc(alias = "fi_deferred_work")]
pub struct Deferred<'m, T: Transport, B: Buffer, K = Connectionless<'m, T>>
where
    K: Transmits<T> + Receives<T>,
{
    body: Handle<'m, DeferredInner<'m, T, B, K>>,
}

type Places<'m, T, B, K> = BlockSlice<Place<Counter<'m, T>, Task<'m, T, B, K>>>;

struct DeferredInner<'m, T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> {
    /// Not borrowed while user code runs.
    table: RefCell<WorkTable<Places<'m, T, B, K>>>,
    by_op: BlockSlice<Cell<u32>>,
    look: Cell<u32>,
    cq: Cq<'m, T, B>,
}

pub(crate) enum WorkAt {
    Waits,
    Started(OpKey),
    Returned,
    Over,
}

/// Event that [`Deferred::poll`] reports.
///
/// ```
/// use loom_core::error::{PostError, Rejected};
/// use loom_core::deferred::{Deferred, DeferredEvent, Work};
/// use loom_core::{Av, Counter, CounterAttr, Cq, Domain, Errno};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let (deferred, counter) = (Deferred::open(&cq, 8)?, Counter::open(&domain, CounterAttr::default())?);
/// let work = deferred.post((&counter, 1), &alice, Work::send(to_bob), b"hello".to_vec())?;
/// deferred.cancel(work)?;
/// match deferred.poll()? {
///     Some(DeferredEvent::Returned(key, Rejected { buf, error })) => {
///         assert!(key == work && buf == b"hello");
///         assert_eq!(error, PostError::Errno(Errno::ECANCELED));
///     }
///     other => panic!("the work has started: {other:?}"),
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "it may hold a buffer"]
#[non_exhaustive]
pub enum DeferredEvent<'m, B> {
    /// Work was posted, and its operation completed.
    Done(WorkKey, Done<B>),
    /// Work was not posted: refused, [cancelled](Deferred::cancel) or [flushed](Deferred::flush)
    /// (`PostError::Errno(ECANCELED)`).
    Returned(WorkKey, Rejected<B>),
    /// A counter was not changed: refused, or cancelled or flushed (`ECANCELED`).
    NotCounted(WorkKey, Errno),
    /// A completion of the queue that was not deferred.
    Other(Completion<'m, B>),
}

impl<'m, T, B, K> Deferred<'m, T, B, K>
where
    T: Transport,
    B: Buffer,
    K: Transmits<T> + Receives<T>,
{
    /// Opens a `Deferred` for endpoints of a queue, with room for `capacity` pieces of work,
    /// waiting or in flight.
    ///
    /// # Errors
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Size`] if the capacity is zero, or does not fit into memory
    pub fn open_in<A: Allocator + Send + 'm>(cq: &Cq<'m, T, B>, capacity: usize, alloc: A) -> Result<Self, OpenError> {
        let (plan, places, by_op) = Self::plan::<A>(capacity, cq.capacity())?;
        let block = Unfilled::new(plan, alloc)?;
        // SAFETY: the part was planned for these places. The slice is dropped before its block.
        let places = unsafe { BlockSlice::new(&block, places, |number| Place::free(number, capacity)) };
        // SAFETY: the part was planned for these cells. The slice is dropped before its block.
        let by_op = unsafe { BlockSlice::new(&block, by_op, |_| Cell::new(u32::MAX)) };
        let table = RefCell::new(WorkTable::new(places));
        let inner = DeferredInner { table, by_op, look: Cell::new(0), cq: cq.clone() };
        Ok(Deferred { body: block.fill(inner) })
    }

    /// [`Deferred::open_in`] with the global allocator.
    ///
    /// # Errors
    /// Those of [`Deferred::open_in`].
    #[cfg(feature = "std")]
    pub fn open(cq: &Cq<'m, T, B>, capacity: usize) -> Result<Self, OpenError> {
        Self::open_in(cq, capacity, allocator_api2::alloc::Global)
    }

    fn plan<A: Allocator>(capacity: usize, depth: usize) -> Result<(Plan, Part, Part), OpenError> {
        if capacity == 0 || !u32::try_from(capacity).is_ok_and(|capacity| capacity < u32::MAX) {
            return Err(OpenError::Size);
        }
        let mut plan = Plan::of::<DeferredInner<'m, T, B, K>, A>()?;
        let places = Part::of::<Place<Counter<'m, T>, Task<'m, T, B, K>>>(&mut plan, capacity)?;
        let by_op = Part::of::<Cell<u32>>(&mut plan, depth)?;
        Ok((plan, places, by_op))
    }

    /// Layout of the block that a `Deferred` takes from an `A`, for a queue of this depth
    /// ([`Cq::capacity`]).
    ///
    /// # Errors
    /// [`OpenError::Size`] if the capacity is zero, or does not fit into memory.
    pub fn layout<A: Allocator>(capacity: usize, depth: usize) -> Result<Layout, OpenError> {
        Ok(Self::plan::<A>(capacity, depth)?.0.layout())
    }

    /// Number of pieces of work that wait, are in flight, or are not yet reported as returned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.body.table.borrow().len()
    }

    /// Returns `true` if it holds no work.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Maximum number of pieces of work.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.body.table.borrow().capacity()
    }

    /// Returns the queue that the work completes into.
    #[must_use]
    pub fn cq(&self) -> &Cq<'m, T, B> {
        &self.body.cq
    }
}

impl<'m, T, B, K> Deferred<'m, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    /// Posts an operation when a counter reaches a threshold: `(&counter, threshold)`. If it
    /// already has, the next poll posts.
    ///
    /// ```
    /// use loom_core::deferred::{Deferred, DeferredEvent, Work};
    /// use loom_core::{Av, Counter, CounterAttr, Cq, Domain, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let (deferred, ready) = (Deferred::open(&cq, 8)?, Counter::open(&domain, CounterAttr::default())?);
    /// bob.recv(Source::Any, vec![0; 5])?;
    /// // When two parts of the message are ready, it is sent.
    /// let work = deferred.post((&ready, 2), &alice, Work::send(to_bob), b"hello".to_vec())?;
    /// for _part in 0..2 {
    ///     ready.add(1)?;
    /// }
    /// while !matches!(deferred.poll()?, Some(DeferredEvent::Done(key, _)) if key == work) {}
    /// assert!(deferred.is_empty());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// With the buffer:
    /// - [`PostError::Full`] if the maximum number of pieces of work is reached
    /// - [`PostError::ForeignObject`] if the endpoint belongs to another queue, or a counter to
    ///   another domain
    ///
    /// Other errors occur when the operation is posted, and [return](DeferredEvent::Returned) it.
    pub fn post(
        &self,
        when: (&Counter<'m, T>, u64),
        endpoint: &Endpoint<'m, T, B, K>,
        work: Work<K::To, K::From>,
        buf: B,
    ) -> Result<WorkKey, Rejected<B>> {
        self.defer(when, (endpoint, work, None), buf)
    }

    /// [`post`](Self::post), and counts the completed operation in another counter: as a success,
    /// or as a failure if it failed or was refused. Cancelled work is not counted while it waits.
    ///
    /// ```
    /// use loom_core::deferred::{Deferred, Work};
    /// use loom_core::{Av, Counter, CounterAttr, Cq, Domain, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let counter = || Counter::open(&domain, CounterAttr::default());
    /// let (start, sent) = (counter()?, counter()?);
    /// # let deferred = Deferred::open(&cq, 8)?;
    /// # let got = [bob.recv(Source::Any, vec![0; 5])?, bob.recv(Source::Any, vec![0; 5])?];
    /// // The second send starts when the first one has completed.
    /// deferred.post_then((&start, 1), &alice, Work::send(to_bob), &sent, b"first".to_vec())?;
    /// deferred.post((&sent, 1), &alice, Work::send(to_bob), b"later".to_vec())?;
    /// start.add(1)?;
    /// while !deferred.is_empty() {
    ///     let _event = deferred.poll()?;
    /// }
    /// assert_eq!(sent.read(), 1);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    #[doc(alias = "completion_cntr")]
    pub fn post_then(
        &self,
        when: (&Counter<'m, T>, u64),
        endpoint: &Endpoint<'m, T, B, K>,
        work: Work<K::To, K::From>,
        then: &Counter<'m, T>,
        buf: B,
    ) -> Result<WorkKey, Rejected<B>> {
        self.defer(when, (endpoint, work, Some(then)), buf)
    }

    #[expect(clippy::type_complexity, reason = "of one private function")]
    fn defer(
        &self,
        when: (&Counter<'m, T>, u64),
        (endpoint, work, then): (&Endpoint<'m, T, B, K>, Work<K::To, K::From>, Option<&Counter<'m, T>>),
        buf: B,
    ) -> Result<WorkKey, Rejected<B>> {
        let counters = core::iter::once(when.0).chain(then);
        if endpoint.cq() != self.cq() || !self.are_of_domain(counters) {
            return Err(Rejected { buf, error: PostError::ForeignObject });
        }
        let mut table = self.body.table.borrow_mut();
        let Some(vacant) = table.vacant() else { return Err(Rejected { buf, error: PostError::Full }) };
        let job = Job::Post { endpoint: endpoint.clone(), work, then: then.cloned(), op: None };
        let task = Task { job, buf: Some(buf), refused: None };
        let key = vacant.add((when.0.clone(), when.1), |a, b| a == b, task);
        drop(table);
        self.wants_driver();
        Ok(key)
    }

    fn are_of_domain<'c>(&self, counters: impl IntoIterator<Item = &'c Counter<'m, T>>) -> bool
    where
        'm: 'c,
        T: 'c,
    {
        counters.into_iter().all(|counter| counter.is_of(self.cq().domain()))
    }

    /// Adds `value` to a counter when another counter reaches a threshold.
    ///
    /// ```
    /// use loom_core::deferred::Deferred;
    /// use loom_core::soft::Soft;
    /// use loom_core::{Counter, CounterAttr, Cq, Domain};
    ///
    /// # fixture::domain!(network, domain);
    /// # let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
    /// let counter = || Counter::open(&domain, CounterAttr::default());
    /// let (parts, wholes) = (counter()?, counter()?);
    /// let deferred = Deferred::<Soft<'_>, Vec<u8>>::open(&cq, 8)?;
    /// // When `parts` has reached 8, one is added to `wholes`.
    /// deferred.add((&parts, 8), &wholes, 1)?;
    /// parts.add(7)?;
    /// deferred.progress()?;
    /// assert_eq!(wholes.read(), 0);
    /// parts.add(1)?;
    /// deferred.progress()?;
    /// assert_eq!(wholes.read(), 1);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    #[doc(alias = "FI_OP_CNTR_ADD")]
    pub fn add(&self, when: (&Counter<'m, T>, u64), to: &Counter<'m, T>, value: u64) -> Result<WorkKey, PostError> {
        self.count(when, to, |counter| Job::Add { counter, value })
    }

    /// Sets a counter to `value` when another counter reaches a threshold.
    ///
    /// ```
    /// use loom_core::deferred::Deferred;
    /// use loom_core::soft::Soft;
    /// use loom_core::{Counter, CounterAttr, Cq, Domain};
    ///
    /// # fixture::domain!(network, domain);
    /// # let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
    /// let counter = || Counter::open(&domain, CounterAttr::default());
    /// let (rounds, parts) = (counter()?, counter()?);
    /// let deferred = Deferred::<Soft<'_>, Vec<u8>>::open(&cq, 8)?;
    /// // When a round is over, its parts are counted from zero again.
    /// deferred.set((&rounds, 1), &parts, 0)?;
    /// parts.add(8)?;
    /// rounds.add(1)?;
    /// deferred.progress()?;
    /// assert_eq!(parts.read(), 0);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    #[doc(alias = "FI_OP_CNTR_SET")]
    pub fn set(&self, when: (&Counter<'m, T>, u64), of: &Counter<'m, T>, value: u64) -> Result<WorkKey, PostError> {
        self.count(when, of, |counter| Job::Set { counter, value })
    }

    fn count(
        &self,
        when: (&Counter<'m, T>, u64),
        of: &Counter<'m, T>,
        job: impl FnOnce(Counter<'m, T>) -> Job<'m, T, B, K>,
    ) -> Result<WorkKey, PostError> {
        if !self.are_of_domain([when.0, of]) {
            return Err(PostError::ForeignObject);
        }
        let mut table = self.body.table.borrow_mut();
        let vacant = table.vacant().ok_or(PostError::Full)?;
        let task = Task { job: job(of.clone()), buf: None, refused: None };
        let key = vacant.add((when.0.clone(), when.1), |a, b| a == b, task);
        drop(table);
        self.wants_driver();
        Ok(key)
    }

    /// Requests that work ends early. The next poll [returns](DeferredEvent::Returned) waiting
    /// work. A started operation is [cancelled](Endpoint::cancel), and still completes.
    ///
    /// ```
    /// use loom_core::error::PostError;
    /// use loom_core::deferred::{Deferred, DeferredEvent, Work};
    /// use loom_core::{Av, Counter, CounterAttr, Cq, Domain, Errno};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// # let counter = Counter::open(&domain, CounterAttr::default())?;
    /// # let deferred = Deferred::open(&cq, 8)?;
    /// let work = deferred.post((&counter, 1), &alice, Work::send(to_bob), b"hello".to_vec())?;
    /// deferred.cancel(work)?;
    /// let Some(DeferredEvent::Returned(key, rejected)) = deferred.poll()? else { panic!("another event") };
    /// assert_eq!((key, rejected.error), (work, PostError::Errno(Errno::ECANCELED)));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ENOENT` if the work has ended or was already returned, `EBUSY` if it is being posted, or
    /// the provider's error.
    #[doc(alias = "FI_CANCEL_WORK")]
    pub fn cancel(&self, key: WorkKey) -> Result<(), Errno> {
        let mut table = self.body.table.borrow_mut();
        match table.cancel(key, Task::cancelled) {
            Ok(counter) => {
                // Runs user code, if it drops the counter's last handle.
                drop(table);
                drop(counter);
                self.wants_driver();
                Ok(())
            }
            Err(Some(Phase::Started)) => {
                let job = table.value(key).map(|task| &task.job);
                let Some(Job::Post { endpoint, op: Some(op), .. }) = job else { return Err(Errno::ENOENT) };
                let (endpoint, op) = (endpoint.clone(), *op);
                // Cancelling wakes the driver, which runs user code.
                drop(table);
                endpoint.cancel(op)
            }
            Err(Some(Phase::TakenOut)) => Err(Errno::EBUSY),
            Err(_) => Err(Errno::ENOENT),
        }
    }

    /// Cancels all waiting work, or that of one counter, for polls to return. Returns the number of
    /// pieces. Started work continues.
    ///
    /// ```
    /// use loom_core::error::PostError;
    /// use loom_core::deferred::{Deferred, DeferredEvent, Work};
    /// use loom_core::{Av, Counter, CounterAttr, Cq, Domain, Errno};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// # let counter = Counter::open(&domain, CounterAttr::default())?;
    /// # let deferred = Deferred::open(&cq, 8)?;
    /// for threshold in 1..=3 {
    ///     deferred.post((&counter, threshold), &alice, Work::send(to_bob), b"hello".to_vec())?;
    /// }
    /// assert_eq!(deferred.flush(Some(&counter)), 3);
    /// // Each poll gives a buffer back.
    /// for _ in 0..3 {
    ///     let Some(DeferredEvent::Returned(_, rejected)) = deferred.poll()? else { panic!("work that was flushed") };
    ///     assert_eq!((rejected.error, &rejected.buf[..]), (PostError::Errno(Errno::ECANCELED), &b"hello"[..]));
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "FI_FLUSH_WORK")]
    pub fn flush(&self, counter: Option<&Counter<'m, T>>) -> usize {
        let is_meant = |known: &Counter<'m, T>| counter.is_none_or(|counter| counter == known);
        let mut count = 0;
        loop {
            let flushed = self.body.table.borrow_mut().flush(is_meant, Task::cancelled);
            let Some((_, last)) = flushed else {
                self.wants_driver();
                return count;
            };
            count += 1;
            drop(last);
        }
    }

    /// Starts due work, and returns the next event: work that was not started, or the next
    /// completion of the [queue](Cq::poll). Drives progress.
    ///
    /// Poll here instead of the queue. Otherwise no work starts, and a completion that was taken
    /// from the queue itself ends its work, as a success, only some polls later.
    ///
    /// # Errors
    /// Those of [`Cq::poll`]: with a driver, [`CqError::Driven`] unless work is returned.
    pub fn poll(&self) -> Result<Option<DeferredEvent<'m, B>>, CqError> {
        self.run();
        if let Some(returned) = self.take_returned() {
            return Ok(Some(returned));
        }
        let Some(completion) = self.cq().poll()? else { return Ok(None) };
        Ok(Some(match completion {
            Completion::Op(done) => match self.ended(done.key(), done.result().is_ok()) {
                Some(key) => DeferredEvent::Done(key, done),
                None => DeferredEvent::Other(Completion::Op(done)),
            },
            other => DeferredEvent::Other(other),
        }))
    }

    fn wants_driver(&self) {
        self.cq().body.wants_driver();
    }

    pub(crate) fn cancel_waiting(&self, work: WorkKey) -> bool {
        self.waits(work) && self.cancel(work).is_ok()
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.body.table.borrow().lists() > 0
    }

    /// On completion the operation goes to the driver ([`look_at_ended`](Self::look_at_ended)).
    pub(crate) fn abandon(&self, work: WorkKey) {
        self.body.table.borrow_mut().set_abandoned(work, true);
    }

    pub(crate) fn is_waited_for(&self, work: WorkKey) {
        self.body.table.borrow_mut().set_abandoned(work, false);
    }

    pub(crate) fn take_returned_abandoned(&self) -> Option<DeferredEvent<'m, B>> {
        let work = self.body.table.borrow_mut().abandoned_returned()?;
        self.take_returned_of(work)
    }

    pub(crate) fn start_due(&self) -> bool {
        self.run()
    }

    pub(crate) fn note_end(&self, op: OpKey, succeeded: bool) -> Option<WorkKey> {
        self.ended(op, succeeded)
    }

    pub(crate) fn at(&self, work: WorkKey) -> WorkAt {
        let table = self.body.table.borrow();
        match table.phase(work) {
            Some(Phase::Waiting | Phase::TakenOut) => WorkAt::Waits,
            Some(Phase::Returned) => WorkAt::Returned,
            Some(Phase::Started) => match table.value(work).map(|task| &task.job) {
                Some(Job::Post { op: Some(op), .. }) => WorkAt::Started(*op),
                _ => WorkAt::Over,
            },
            None => WorkAt::Over,
        }
    }

    pub(crate) fn waits(&self, work: WorkKey) -> bool {
        matches!(self.at(work), WorkAt::Waits)
    }

    pub(crate) fn take_returned_of(&self, work: WorkKey) -> Option<DeferredEvent<'m, B>> {
        let task = self.body.table.borrow_mut().take_returned_of(work)?;
        Some(Self::returned(work, task))
    }

    /// Starts due work, drives progress, and keeps completions for [`poll`](Self::poll), like
    /// [`Cq::progress`]. Returns `true` if work started or an event was processed.
    ///
    /// # Errors
    /// Those of [`Cq::progress`].
    pub fn progress(&self) -> Result<bool, CqError> {
        Ok(self.run() | self.cq().progress()?)
    }
}

// SAFETY: a place begins with its head.
unsafe impl<T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> Object for DeferredInner<'_, T, B, K> {
    const ONE_THREAD: bool = true;

    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>> {
        head.cast()
    }

    unsafe fn end(_: NonNull<Self>, _: bool) -> Ended {
        Ended::Free
    }
}

impl<T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> Clone for Deferred<'_, T, B, K> {
    fn clone(&self) -> Self {
        Deferred { body: self.body.clone() }
    }
}

impl<T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> fmt::Debug for Deferred<'_, T, B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").field("len", &self.len()).finish_non_exhaustive()
    }
}
