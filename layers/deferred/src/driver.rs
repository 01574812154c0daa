#![allow(unsafe_code, reason = "promises that descriptors are open")]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use allocator_api2::alloc::Allocator;
use loom_core::Error;
use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::cq::CqError;
use loom_core::driver::{CqDriver, Drive, Finish, Sleepable, Unclaimed};
use loom_core::endpoint::{Connectionless, Receives, Transmits};
use loom_core::engine::op_table::Done;
use loom_core::error::{OpenError, Rejected};
use loom_core::transport::Transport;
use loom_core::vocabulary::Errno;

use crate::deferred::{Deferred, DeferredEvent, State};
use crate::work_table::{Interest, WorkKey};

/// Pieces of work examined in a turn.
const EXAMINED: usize = 16;

/// Starts deferred work, for which its futures wait.
///
/// Drive `(queue, deferred)` as one. The executor cannot sleep while work waits, because no
/// descriptor signals counters.
///
/// ```
/// use loom_core::driver::{CqDriver, Drive, Unclaimed};
/// use loom_core::{Av, Binding, Counted, Counter, CounterAttr, Cq, Domain, Source};
/// use loom_deferred::{Deferred, DeferredDriver, Work};
///
/// # fixture::domain!(network, domain);
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let received = Counter::open(&domain, CounterAttr::default())?;
/// # let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received))?;
/// # let alice = cq.endpoint(&av)?;
/// # let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
/// let (driver, deferred) = (CqDriver::open(&cq, Unclaimed::Drop)?, Deferred::open(&cq, 8)?);
/// let works = DeferredDriver::new(&deferred, &driver)?;
/// let task = async {
///     // When bob has received one message, he sends one.
///     let answer = deferred.post((&received, 1), &bob, Work::send(to_alice), b"here".to_vec())?;
///     driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
///     let answered = driver.post(vec![0; 4], |room| alice.recv(Source::Any, room)).await?;
///     driver.retry(|| alice.inject(to_bob, b"hello")).await?;
///     works.finish(answer).await?.expect("its completion was not taken").result()?;
///     assert_eq!(driver.finish(answered).await?.into_buf(), b"here");
///     Ok::<_, loom_core::Error>(())
/// };
/// // An executor polls the task, and drives the two as one.
/// let drivers = (&driver, works);
/// # use core::task::{Context, Poll, Waker};
/// # let mut task = core::pin::pin!(task);
/// # loop {
/// #     if let Poll::Ready(ended) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
/// #         break ended?;
/// #     }
/// #     drivers.turn(16);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct DeferredDriver<'d, 'm, T: Transport, B: Buffer, A: Allocator, K = Connectionless<'m, T>>
where
    K: Transmits<T> + Receives<T>,
{
    deferred: &'d Deferred<'m, T, B, A, K>,
    driver: &'d CqDriver<'m, T, B>,
}

impl<'d, 'm, T, B, A, K> DeferredDriver<'d, 'm, T, B, A, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    A: Allocator,
    K: Transmits<T> + Receives<T> + Clone,
{
    /// Creates the driver with that of the queue.
    ///
    /// # Errors
    /// [`OpenError::Errno`] with `EINVAL` if `driver` belongs to another queue.
    pub fn new(deferred: &'d Deferred<'m, T, B, A, K>, driver: &'d CqDriver<'m, T, B>) -> Result<Self, OpenError> {
        if deferred.cq() != driver.cq() {
            return Err(Errno::EINVAL.into());
        }
        Ok(DeferredDriver { deferred, driver })
    }

    /// Waits for deferred work. Returns the completion, or `None` for a change of a counter or a
    /// taken completion.
    ///
    /// ```
    /// use loom_core::driver::{CqDriver, Drive, Unclaimed};
    /// use loom_core::error::{PostError, Rejected};
    /// use loom_core::{Av, Counter, CounterAttr, Cq, Domain, Errno, Error};
    /// use loom_deferred::{Deferred, DeferredDriver, Work};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// # let (driver, deferred) = (CqDriver::open(&cq, Unclaimed::Drop)?, Deferred::open(&cq, 8)?);
    /// # let works = DeferredDriver::new(&deferred, &driver)?;
    /// # let counter = Counter::open(&domain, CounterAttr::default())?;
    /// let task = async {
    ///     let work = deferred.post((&counter, 1), &alice, Work::send(to_bob), b"hello".to_vec())?;
    ///     deferred.cancel(work)?;
    ///     match works.finish(work).await {
    ///         Err(Rejected { value, error }) => {
    ///             assert_eq!(value, Some(b"hello".to_vec()));
    ///             assert_eq!(error, Error::Post(PostError::Errno(Errno::ECANCELED)));
    ///         }
    ///         other => panic!("it was posted: {other:?}"),
    ///     }
    ///     Ok::<_, Error>(())
    /// };
    /// # let drivers = (&driver, works);
    /// # use core::task::{Context, Poll, Waker};
    /// # let mut task = core::pin::pin!(task);
    /// # loop {
    /// #     if let Poll::Ready(ended) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
    /// #         break ended?;
    /// #     }
    /// #     drivers.turn(16);
    /// # }
    /// # Ok::<_, Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::Post`], with the buffer, if the work was not posted
    /// - [`Error::Provider`] if a counter was not changed
    /// - [`Error::Queue`] if the queue failed, or another future waits ([`CqError::Awaited`])
    #[doc(alias = "fi_trigger")]
    pub fn finish(&self, work: WorkKey) -> FinishWork<'d, 'm, T, B, A, K> {
        FinishWork { driver: *self, work, claims: false, finish: None, over: false }
    }

    fn examine(&self, most: usize) -> bool {
        let mut counted = false;
        if self.deferred.is_empty() {
            return counted;
        }
        for _ in 0..self.deferred.capacity().min(most) {
            let (has_counted, abandoned) = self.deferred.examine_next();
            counted |= has_counted;
            if let Some(op) = abandoned {
                // A dropped future gives its operation up.
                drop(self.driver.finish(op));
            }
        }
        counted
    }

    fn drops_unclaimed(&self) -> bool {
        self.driver.unclaimed() == Unclaimed::Drop
    }
}

impl<T, B, A, K> Drive for DeferredDriver<'_, '_, T, B, A, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    A: Allocator,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn turn(&self, _: usize) -> usize {
        self.examine(EXAMINED);
        let busy = self.deferred.run();
        if self.drops_unclaimed() {
            // Runs user code, so it comes last.
            while let Some(returned) = self.deferred.take_returned_abandoned() {
                drop(returned);
            }
        }
        usize::from(busy)
    }
}

// SAFETY: it has no descriptors.
unsafe impl<T, B, A, K> Sleepable for DeferredDriver<'_, '_, T, B, A, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    A: Allocator,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn wait_fds(&self, _: &mut dyn FnMut(core::ffi::c_int)) -> Result<(), CqError> {
        Ok(())
    }

    fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError> {
        self.deferred.store_executor(waker);
        // A turn examines only some work. Waiters of a counter raised here run before the executor
        // sleeps.
        let counted = self.examine(usize::MAX);
        Ok(!counted && !self.deferred.has_waiting())
    }
}

type Finished<B> = Result<Option<Done<B>>, Rejected<Option<B>, Error>>;

const fn without_buf<B>(error: Error) -> Rejected<Option<B>, Error> {
    Rejected { value: None, error }
}

/// Future of [`DeferredDriver::finish`].
///
/// Dropping it cancels work that has not started, and otherwise gives the operation up
/// ([`Unclaimed`]). [`Deferred::poll`] returns a kept buffer of cancelled work. A forgotten
/// future keeps its claim until the drivers are dropped.
///
/// ```
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Av, Counter, CounterAttr, Cq, Domain};
/// use loom_deferred::{Deferred, DeferredDriver, DeferredEvent, Work};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let counter = Counter::open(&domain, CounterAttr::default())?;
/// // With `Unclaimed::Drop` the buffer would be dropped with the future.
/// let (driver, deferred) = (CqDriver::open(&cq, Unclaimed::Keep)?, Deferred::open(&cq, 8)?);
/// let works = DeferredDriver::new(&deferred, &driver)?;
/// let work = deferred.post((&counter, 1), &alice, Work::send(to_bob), b"hello".to_vec())?;
/// // The counter has not reached 1 when the future is dropped: the work is cancelled.
/// drop(works.finish(work));
/// let Some(DeferredEvent::Returned(returned, refused)) = deferred.poll()? else { panic!("it was posted") };
/// assert!(returned == work);
/// assert_eq!(refused.value, b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct FinishWork<'d, 'm, T: Transport, B, A: Allocator, K>
where
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    driver: DeferredDriver<'d, 'm, T, B, A, K>,
    work: WorkKey,
    claims: bool,
    finish: Option<Finish<'m, T, B>>,
    over: bool,
}

impl<T, B, A, K> FinishWork<'_, '_, T, B, A, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    A: Allocator,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn result(&mut self, cx: &mut Context<'_>) -> Poll<Finished<B>> {
        let DeferredDriver { deferred, driver } = self.driver;
        if !self.claims {
            if deferred.interest(self.work) == Interest::Awaited {
                return Poll::Ready(Err(without_buf(CqError::Awaited.into())));
            }
            deferred.set_interest(self.work, Interest::Awaited);
            self.claims = true;
        }
        let finish = match &mut self.finish {
            Some(finish) => finish,
            none => {
                deferred.store_waker(self.work, cx.waker());
                let state = deferred.state(self.work);
                if !matches!(state, State::Waiting) {
                    drop(deferred.take_waker(self.work));
                }
                match state {
                    State::Waiting => return Poll::Pending,
                    State::Started(op) => none.insert(driver.finish(op)),
                    State::Returned => {
                        return Poll::Ready(match deferred.take_returned_of(self.work) {
                            Some(DeferredEvent::Returned(_, Rejected { value, error })) => {
                                Err(Rejected { value: Some(value), error: error.into() })
                            }
                            Some(DeferredEvent::NotCounted(_, errno)) => Err(without_buf(errno.into())),
                            _ => Ok(None),
                        });
                    }
                    State::Ended => return Poll::Ready(Ok(None)),
                }
            }
        };
        Pin::new(finish).poll(cx).map(|ended| match ended {
            Ok(done) => {
                let _: Option<WorkKey> = deferred.ended(done.key(), done.result().is_ok());
                Ok(Some(done))
            }
            Err(CqError::UnknownKey) => Ok(None),
            Err(error) => Err(without_buf(error.into())),
        })
    }
}

impl<T, B, A, K> Future for FinishWork<'_, '_, T, B, A, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    A: Allocator,
    K: Transmits<T> + Receives<T> + Clone,
{
    type Output = Finished<B>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.result(cx);
        self.over = result.is_ready();
        result
    }
}

impl<T, B, A, K> Drop for FinishWork<'_, '_, T, B, A, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    A: Allocator,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn drop(&mut self) {
        let (deferred, work) = (self.driver.deferred, self.work);
        // `examine_next` counts the operation before it is given up.
        let _: Option<_> = self.finish.take().map(Finish::into_key);
        if self.claims {
            deferred.set_interest(work, Interest::None);
            drop(deferred.take_waker(work));
        }
        if self.over || deferred.interest(work) == Interest::Awaited {
            return;
        }
        match deferred.state(work) {
            State::Ended => {}
            State::Started(_) => deferred.abandon(work),
            State::Waiting if deferred.cancel(work).is_err() => deferred.abandon(work),
            State::Waiting | State::Returned => {
                if self.driver.drops_unclaimed() {
                    drop(deferred.take_returned_of(work));
                }
            }
        }
    }
}

impl<T: Transport, B: Buffer, A: Allocator, K: Transmits<T> + Receives<T>> Copy for DeferredDriver<'_, '_, T, B, A, K> {}

impl<T: Transport, B: Buffer, A: Allocator, K: Transmits<T> + Receives<T>> Clone
    for DeferredDriver<'_, '_, T, B, A, K>
{
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Transport, B: Buffer, A: Allocator, K: Transmits<T> + Receives<T>> fmt::Debug
    for DeferredDriver<'_, '_, T, B, A, K>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredDriver").field("deferred", self.deferred).finish_non_exhaustive()
    }
}

impl<T, B, A, K> fmt::Debug for FinishWork<'_, '_, T, B, A, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    A: Allocator,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinishWork").field("work", &self.work).finish_non_exhaustive()
    }
}
