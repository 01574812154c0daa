use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::task::Waker;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::completion::Completion;
use loom_core::counter::Counter;
use loom_core::cq::{Cq, CqError};
use loom_core::endpoint::{Connectionless, Endpoint, Receives, Transmits};
use loom_core::engine::op_table::{Done, OpKey};
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::storage::Array;
use loom_core::transport::Transport;
use loom_core::vocabulary::Errno;

use crate::run::{Job, Task};
use crate::work::Work;
use crate::work_table::{Interest, Phase, Place, WorkKey, WorkTable};

/// Work that waits for counters, for endpoints of one queue. See the [crate documentation](crate).
///
/// Dropping it drops waiting work, and leaves started work to the queue.
///
/// ```
/// use loom_deferred::{Deferred, DeferredEvent, Work};
/// use loom_core::{Av, Counter, CounterAttr, Cq, Domain, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let start = Counter::open(&domain, CounterAttr::default())?;
/// let deferred = Deferred::open(&cq, 8)?;
/// # bob.recv(Source::Any, vec![0; 5])?;
/// let sent = deferred.post((&start, 1), &alice, Work::send(to_bob), b"hello".to_vec())?;
/// assert!(deferred.poll()?.is_none(), "the work waits for its counter");
/// start.add(1)?;
/// # loop {
/// // `poll` reports the end of the work, and every other completion of the queue.
/// if let Some(DeferredEvent::Done(key, done)) = deferred.poll()? {
///     done.result()?;
///     assert_eq!(key, sent);
/// #   break;
/// }
/// # }
/// assert!(deferred.is_empty());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_QUEUE_WORK")]
#[doc(alias = "fi_deferred_work")]
pub struct Deferred<'m, T: Transport, B: Buffer, A: Allocator, K = Connectionless<'m, T>>
where
    K: Transmits<T> + Receives<T>,
{
    /// Not borrowed while user code runs.
    pub(crate) table: RefCell<WorkTable<Places<'m, T, B, A, K>>>,
    /// Last work of each slot of the queue.
    pub(crate) by_op: Array<Cell<u32>, A>,
    pub(crate) next: Cell<u32>,
    executor: Cell<Option<Waker>>,
    cq: Cq<'m, T, B>,
}

type Places<'m, T, B, A, K> = Array<Place<Counter<'m, T>, Task<'m, T, B, K>>, A>;

#[derive(Clone, Copy)]
pub(crate) enum State {
    Waiting,
    Started(OpKey),
    Returned,
    Ended,
}

/// Event of [`Deferred::poll`].
///
/// ```
/// use loom_core::error::{PostError, Rejected};
/// use loom_deferred::{Deferred, DeferredEvent, Work};
/// use loom_core::{Av, Counter, CounterAttr, Cq, Domain, Errno};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let (deferred, counter) = (Deferred::open(&cq, 8)?, Counter::open(&domain, CounterAttr::default())?);
/// let work = deferred.post((&counter, 1), &alice, Work::send(to_bob), b"hello".to_vec())?;
/// deferred.cancel(work)?;
/// match deferred.poll()? {
///     Some(DeferredEvent::Returned(key, Rejected { value: buf, error })) => {
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
    /// Posted work has completed.
    Done(WorkKey, Done<B>),
    /// Work was refused, [cancelled](Deferred::cancel) or [flushed](Deferred::flush)
    /// (`PostError::Errno(ECANCELED)`).
    Returned(WorkKey, Rejected<B>),
    /// A counter was not changed: refused, or cancelled or flushed (`ECANCELED`).
    NotCounted(WorkKey, Errno),
    /// Completion without deferred work.
    Other(Completion<'m, B>),
}

impl<'m, T, B, A, K> Deferred<'m, T, B, A, K>
where
    T: Transport,
    B: Buffer,
    A: Allocator,
    K: Transmits<T> + Receives<T>,
{
    /// Opens a `Deferred` with room for `capacity` pieces of work until their ends, in two blocks
    /// ([`layouts`](Self::layouts)).
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`], and [`OpenError::Size`].
    pub fn open_in(cq: &Cq<'m, T, B>, capacity: usize, alloc: A) -> Result<Self, OpenError>
    where
        A: Clone,
    {
        Self::layouts(capacity, cq.capacity())?;
        let places = Array::new_in(capacity, alloc.clone(), |number| Place::free(number, capacity))?;
        Ok(Deferred {
            table: RefCell::new(WorkTable::new(places)),
            by_op: Array::new_in(cq.capacity(), alloc, |_| Cell::new(u32::MAX))?,
            next: Cell::new(0),
            executor: Cell::new(None),
            cq: cq.clone(),
        })
    }

    /// Layouts of the blocks for a queue of this depth ([`Cq::capacity`]).
    ///
    /// # Errors
    /// [`OpenError::Size`].
    pub fn layouts(capacity: usize, depth: usize) -> Result<[Layout; 2], OpenError> {
        if capacity == 0 || !u32::try_from(capacity).is_ok_and(|capacity| capacity < u32::MAX) {
            return Err(OpenError::Size);
        }
        let places = Layout::array::<Place<Counter<'m, T>, Task<'m, T, B, K>>>(capacity);
        let by_op = Layout::array::<Cell<u32>>(depth);
        Ok([places.map_err(|_| OpenError::Size)?, by_op.map_err(|_| OpenError::Size)?])
    }

    /// Pieces of work that wait, are in flight, or are not yet returned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.borrow().len()
    }

    /// Returns `true` if it holds no work.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Maximum number of pieces of work.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.borrow().capacity()
    }

    /// Queue.
    #[must_use]
    pub fn cq(&self) -> &Cq<'m, T, B> {
        &self.cq
    }
}

#[cfg(feature = "std")]
impl<'m, T, B, K> Deferred<'m, T, B, allocator_api2::alloc::Global, K>
where
    T: Transport,
    B: Buffer,
    K: Transmits<T> + Receives<T>,
{
    /// [`Deferred::open_in`] with the global allocator.
    pub fn open(cq: &Cq<'m, T, B>, capacity: usize) -> Result<Self, OpenError> {
        Self::open_in(cq, capacity, allocator_api2::alloc::Global)
    }
}

impl<'m, T, B, A, K> Deferred<'m, T, B, A, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    A: Allocator,
    K: Transmits<T> + Receives<T> + Clone,
{
    /// Posts an operation once a counter has reached a threshold: `(&counter, threshold)`.
    ///
    /// ```
    /// use loom_deferred::{Deferred, DeferredEvent, Work};
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
    /// - [`PostError::Full`] at the maximum pieces of work
    /// - [`PostError::ForeignObject`] for an endpoint of another queue, or a counter of another
    ///   domain
    ///
    /// Other errors occur on posting, and [return](DeferredEvent::Returned) the work.
    pub fn post(
        &self,
        when: (&Counter<'m, T>, u64),
        endpoint: &Endpoint<'m, T, B, K>,
        work: Work<K::To, K::From>,
        buf: B,
    ) -> Result<WorkKey, Rejected<B>> {
        self.defer(when, (endpoint, work, None), buf)
    }

    /// [`post`](Self::post), and counts the operation in another counter: refused work as failed,
    /// cancelled waiting work not at all.
    ///
    /// ```
    /// use loom_deferred::{Deferred, Work};
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
        if endpoint.cq() != &self.cq || !self.are_of_domain(when.0, then) {
            return Err(Rejected { value: buf, error: PostError::ForeignObject });
        }
        let mut table = self.table.borrow_mut();
        let Some(vacant) = table.vacant() else { return Err(Rejected { value: buf, error: PostError::Full }) };
        let job = Job::Post { endpoint: endpoint.clone(), work, then: then.cloned(), op: None };
        let task = Task { job, buf: Some(buf), refused: None };
        let key = vacant.add((when.0.clone(), when.1), |a, b| a == b, task);
        drop(table);
        self.wake_executor();
        Ok(key)
    }

    fn are_of_domain(&self, when: &Counter<'m, T>, other: Option<&Counter<'m, T>>) -> bool {
        self.cq.shares_domain(when) && other.is_none_or(|other| self.cq.shares_domain(other))
    }

    /// Adds `value` to a counter when another counter reaches a threshold.
    ///
    /// ```
    /// use loom_deferred::Deferred;
    /// use loom_core::soft::Soft;
    /// use loom_core::{Counter, CounterAttr, Cq, Domain};
    ///
    /// # fixture::domain!(network, domain);
    /// # let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
    /// let counter = || Counter::open(&domain, CounterAttr::default());
    /// let (parts, wholes) = (counter()?, counter()?);
    /// let deferred = Deferred::<Soft<'_>, Vec<u8>, _>::open(&cq, 8)?;
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
    /// See [`post`](Self::post).
    #[doc(alias = "FI_OP_CNTR_ADD")]
    pub fn add(&self, when: (&Counter<'m, T>, u64), to: &Counter<'m, T>, value: u64) -> Result<WorkKey, PostError> {
        self.count(when, to, |counter| Job::Add { counter, value })
    }

    /// Sets a counter to `value` when another counter reaches a threshold.
    ///
    /// ```
    /// use loom_deferred::Deferred;
    /// use loom_core::soft::Soft;
    /// use loom_core::{Counter, CounterAttr, Cq, Domain};
    ///
    /// # fixture::domain!(network, domain);
    /// # let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
    /// let counter = || Counter::open(&domain, CounterAttr::default());
    /// let (rounds, parts) = (counter()?, counter()?);
    /// let deferred = Deferred::<Soft<'_>, Vec<u8>, _>::open(&cq, 8)?;
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
    /// See [`post`](Self::post).
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
        if !self.are_of_domain(when.0, Some(of)) {
            return Err(PostError::ForeignObject);
        }
        let mut table = self.table.borrow_mut();
        let vacant = table.vacant().ok_or(PostError::Full)?;
        let task = Task { job: job(of.clone()), buf: None, refused: None };
        let key = vacant.add((when.0.clone(), when.1), |a, b| a == b, task);
        drop(table);
        self.wake_executor();
        Ok(key)
    }

    /// Ends work early: the next poll [returns](DeferredEvent::Returned) waiting work. A started
    /// operation is [cancelled](Endpoint::cancel), and still completes.
    ///
    /// ```
    /// use loom_core::error::PostError;
    /// use loom_deferred::{Deferred, DeferredEvent, Work};
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
    /// `ENOENT` if the work has ended or was returned, `EBUSY` if it is being posted, or the
    /// provider's.
    #[doc(alias = "FI_CANCEL_WORK")]
    pub fn cancel(&self, key: WorkKey) -> Result<(), Errno> {
        let mut table = self.table.borrow_mut();
        match table.cancel(key, Task::cancelled) {
            Ok(counter) => {
                drop(table);
                self.wake_future(key);
                // Runs user code with the counter's last handle.
                drop(counter);
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
    /// pieces.
    ///
    /// ```
    /// use loom_core::error::PostError;
    /// use loom_deferred::{Deferred, DeferredEvent, Work};
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
    ///     assert_eq!((rejected.error, &rejected.value[..]), (PostError::Errno(Errno::ECANCELED), &b"hello"[..]));
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "FI_FLUSH_WORK")]
    pub fn flush(&self, counter: Option<&Counter<'m, T>>) -> usize {
        let is_meant = |known: &Counter<'m, T>| counter.is_none_or(|counter| counter == known);
        let mut count = 0;
        loop {
            let flushed = self.table.borrow_mut().flush(is_meant, Task::cancelled);
            let Some((key, last)) = flushed else { return count };
            count += 1;
            self.wake_future(key);
            drop(last);
        }
    }

    /// Starts due work, drives progress, and returns the next event: work that was not started, or
    /// the next completion of the [queue](Cq::poll).
    ///
    /// Poll here instead of the queue: otherwise no work starts.
    ///
    /// # Errors
    /// See [`Cq::poll`]: with a driver, [`CqError::Driven`] unless work is returned.
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

    /// [`Cq::progress`] that also starts due work. Returns `true` if work started or an event was
    /// processed.
    ///
    /// # Errors
    /// See [`Cq::progress`].
    pub fn progress(&self) -> Result<bool, CqError> {
        Ok(self.run() | self.cq().progress()?)
    }
}

impl<T, B, A, K> Deferred<'_, T, B, A, K>
where
    T: Transport,
    B: Buffer,
    A: Allocator,
    K: Transmits<T> + Receives<T>,
{
    pub(crate) fn has_waiting(&self) -> bool {
        self.table.borrow().lists() > 0
    }

    pub(crate) fn interest(&self, work: WorkKey) -> Interest {
        self.table.borrow().interest(work)
    }

    pub(crate) fn set_interest(&self, work: WorkKey, interest: Interest) {
        self.table.borrow_mut().set_interest(work, interest);
    }

    /// Gives up work that goes on. The executor hands it over, which may sleep.
    pub(crate) fn abandon(&self, work: WorkKey) {
        self.set_interest(work, Interest::Abandoned);
        self.wake_executor();
    }

    pub(crate) fn state(&self, work: WorkKey) -> State {
        let table = self.table.borrow();
        match table.phase(work) {
            Some(Phase::Waiting | Phase::TakenOut) => State::Waiting,
            Some(Phase::Started) => match table.value(work).map(|task| &task.job) {
                Some(Job::Post { op: Some(op), .. }) => State::Started(*op),
                _ => State::Ended,
            },
            Some(Phase::Returned) => State::Returned,
            None => State::Ended,
        }
    }

    /// Runs user code, which may start or end the work, and then wakes this waker: check the state
    /// before.
    pub(crate) fn store_waker(&self, work: WorkKey, waker: &Waker) {
        let waker = waker.clone();
        let former = self.table.borrow_mut().replace_waker(work, Some(waker));
        drop(former);
    }

    pub(crate) fn take_waker(&self, work: WorkKey) -> Option<Waker> {
        self.table.borrow_mut().replace_waker(work, None)
    }

    /// Runs user code.
    pub(crate) fn wake_future(&self, work: WorkKey) {
        if let Some(waker) = self.take_waker(work) {
            waker.wake();
        }
    }

    /// Runs user code, which may add work: check for work after this.
    pub(crate) fn store_executor(&self, waker: &Waker) {
        let waker = waker.clone();
        drop(self.executor.replace(Some(waker)));
    }

    fn wake_executor(&self) {
        if let Some(waker) = self.executor.take() {
            waker.wake();
        }
    }
}

impl<T, B, A, K> fmt::Debug for Deferred<'_, T, B, A, K>
where
    T: Transport,
    B: Buffer,
    A: Allocator,
    K: Transmits<T> + Receives<T>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").field("len", &self.len()).finish_non_exhaustive()
    }
}
