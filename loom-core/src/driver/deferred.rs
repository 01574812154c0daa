//! [`DeferredDriver`]: starts deferred work and wakes its waiters.

#![allow(unsafe_code, reason = "projects pins")]

use core::alloc::Layout;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll, Waker};

use allocator_api2::alloc::Allocator;

use super::wait::Wait;
use super::wait_list::{WaitList, Waiter};
use super::{CqDriver, Drive, Sleepable, Unclaimed};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::cq::CqError;
use crate::deferred::{Deferred, DeferredEvent, WorkAt, WorkKey};
use crate::endpoint::{Connectionless, Receives, Transmits};
use crate::engine::op_table::Done;
use crate::error::{OpenError, Rejected};
use crate::storage::handle::{Ended, Handle, HandleBlock, Head, Object, Plan, Unfilled};
use crate::transport::Transport;
use crate::vocabulary::Errno;

const LOOKS: usize = 16;

/// Starts deferred work when its counter reaches the threshold, and wakes its waiters.
///
/// The operations complete where their queue is driven: drive `(queue, deferred)` as one. The
/// executor cannot sleep while work waits, because no descriptor signals counters. A counted
/// handle, also of the [`Deferred`] and of the queue's driver.
///
/// ```
/// use loom_core::deferred::{Deferred, Work};
/// use loom_core::driver::{CqDriver, DeferredDriver, Drive, Unclaimed};
/// use loom_core::{Av, Binding, Counted, Counter, CounterAttr, Cq, Domain, Source};
///
/// # fixture::domain!(network, domain);
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let received = Counter::open(&domain, CounterAttr::default())?;
/// # let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received))?;
/// # let alice = cq.endpoint(&av)?;
/// # let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// let deferred = DeferredDriver::open(&Deferred::open(&cq, 8)?, &driver)?;
/// let task = async {
///     // When bob has received one message, he sends one.
///     let answer = deferred.deferred().post((&received, 1), &bob, Work::send(to_alice), b"here".to_vec())?;
///     driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
///     let answered = driver.post(vec![0; 4], |room| alice.recv(Source::Any, room)).await?;
///     driver.retry(|| alice.inject(to_bob, b"hello")).await?;
///     deferred.finish(answer).await?.expect("its completion was not taken").result()?;
///     assert_eq!(driver.finish(answered).await?.into_buf(), b"here");
///     Ok::<_, loom_core::Error>(())
/// };
/// // An executor polls the task, and drives the two as one.
/// let drivers = (&driver, &deferred);
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
pub struct DeferredDriver<'m, T: Transport, B: Buffer, K = Connectionless<'m, T>>
where
    K: Transmits<T> + Receives<T>,
{
    body: Handle<'m, DeferredDriverInner<'m, T, B, K>>,
}

struct DeferredDriverInner<'m, T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> {
    deferred: Deferred<'m, T, B, K>,
    driver: CqDriver<'m, T, B>,
    waiting: WaitList,
}

impl<T, B, K> DeferredDriverInner<'_, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn look_at_ended(&self, most: usize) -> bool {
        let mut counted = false;
        if self.deferred.is_empty() {
            return counted;
        }
        for _ in 0..self.deferred.capacity().min(most) {
            let (has_counted, abandoned) = self.deferred.look_at_ended();
            counted |= has_counted;
            if let Some(op) = abandoned {
                self.driver.body.give_up(op);
            }
        }
        counted
    }
}

/// Reason for which deferred work has no completion.
///
/// ```
/// use loom_core::error::{PostError, Rejected};
/// use loom_core::deferred::{Deferred, Work};
/// use loom_core::driver::{CqDriver, DeferredDriver, Drive, Unclaimed, WorkError};
/// use loom_core::{Av, Counter, CounterAttr, Cq, Domain, Errno};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// # let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// # let deferred = DeferredDriver::open(&Deferred::open(&cq, 8)?, &driver)?;
/// # let counter = Counter::open(&domain, CounterAttr::default())?;
/// let task = async {
///     let work = deferred.deferred().post((&counter, 1), &alice, Work::send(to_bob), b"hello".to_vec())?;
///     deferred.deferred().cancel(work)?;
///     match deferred.finish(work).await {
///         Err(WorkError::Returned(Rejected { buf, error })) => {
///             assert_eq!((buf, error), (b"hello".to_vec(), PostError::Errno(Errno::ECANCELED)));
///         }
///         other => panic!("it was posted: {other:?}"),
///     }
///     Ok::<_, loom_core::Error>(())
/// };
/// # let drivers = (&driver, &deferred);
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
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkError<B> {
    /// Work that was not posted, with its buffer.
    Returned(Rejected<B>),
    /// A counter was not changed.
    NotCounted(Errno),
    /// The queue failed with the work in flight.
    Queue(CqError),
}

impl<B> fmt::Display for WorkError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkError::Returned(rejected) => rejected.error.fmt(f),
            WorkError::NotCounted(errno) => write!(f, "the counter was not changed: {errno}"),
            WorkError::Queue(error) => error.fmt(f),
        }
    }
}

impl<B: fmt::Debug> core::error::Error for WorkError<B> {}

impl<'m, T, B, K> DeferredDriver<'m, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    /// Opens the driver of deferred work, with memory from `alloc`. `driver` is the driver of its
    /// queue.
    ///
    /// # Errors
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Errno`] with `EINVAL` if `driver` belongs to another queue
    pub fn open_in<A: Allocator + Send + 'm>(
        deferred: &Deferred<'m, T, B, K>,
        driver: &CqDriver<'m, T, B>,
        alloc: A,
    ) -> Result<Self, OpenError> {
        if deferred.cq() != driver.cq() {
            return Err(Errno::EINVAL.into());
        }
        let block = Unfilled::new(Plan::of::<DeferredDriverInner<'m, T, B, K>, A>()?, alloc)?;
        let inner =
            DeferredDriverInner { deferred: deferred.clone(), driver: driver.clone(), waiting: WaitList::new() };
        Ok(DeferredDriver { body: block.fill(inner) })
    }

    /// [`DeferredDriver::open_in`] with the global allocator.
    ///
    /// # Errors
    /// Those of [`DeferredDriver::open_in`].
    #[cfg(feature = "std")]
    pub fn open(deferred: &Deferred<'m, T, B, K>, driver: &CqDriver<'m, T, B>) -> Result<Self, OpenError> {
        Self::open_in(deferred, driver, allocator_api2::alloc::Global)
    }

    /// Layout of the block that a driver takes from an `A`.
    ///
    /// # Errors
    /// [`OpenError::Size`] if the block exceeds the address space.
    pub fn layout<A: Allocator>() -> Result<Layout, OpenError> {
        Ok(Plan::of::<DeferredDriverInner<'m, T, B, K>, A>()?.layout())
    }

    /// Returns the deferred work.
    #[must_use]
    pub fn deferred(&self) -> &Deferred<'m, T, B, K> {
        &self.body.deferred
    }

    /// Waits for deferred work. Returns the completion of an operation, or `None` for a change of a
    /// counter or a completion that was already taken. Of several futures for one operation, one
    /// receives the completion, and the others return [`CqError::Awaited`].
    ///
    /// # Errors
    /// [`WorkError`]
    #[doc(alias = "fi_trigger")]
    pub fn finish(&self, work: WorkKey) -> FinishWork<'m, T, B, K> {
        FinishWork { driver: self.clone(), work, op: None, waiter: Waiter::new(), over: false }
    }
}

impl<T, B, K> Drive for DeferredDriver<'_, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn turn(&self, _: usize) -> usize {
        let inner = &*self.body;
        inner.look_at_ended(LOOKS);
        let busy = inner.deferred.start_due();
        if inner.driver.body.unclaimed() == Unclaimed::Drop {
            // Runs user code, so it comes last.
            while let Some(returned) = inner.deferred.take_returned_abandoned() {
                drop(returned);
            }
        }
        inner.waiting.tell_where(|work| !inner.deferred.waits(WorkKey::from_word(work)));
        usize::from(busy)
    }
}

// SAFETY: it has no descriptors.
unsafe impl<T, B, K> Sleepable for DeferredDriver<'_, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn wait_fds(&self, _: &mut dyn FnMut(core::ffi::c_int)) -> Result<(), CqError> {
        Ok(())
    }

    fn may_sleep(&self, _: &Waker) -> Result<bool, CqError> {
        // A turn checks only some of the work. Waiters of a counter that this raises run before the
        // executor sleeps.
        let counted = self.body.look_at_ended(usize::MAX);
        Ok(!counted && !self.body.deferred.has_waiting())
    }
}

/// Waits for deferred work: [`DeferredDriver::finish`].
///
/// Dropping it cancels work that has not started, and otherwise gives the operation up
/// ([`Unclaimed`]). A kept buffer of cancelled work is returned by [`Deferred::poll`].
///
/// ```
/// use loom_core::deferred::{Deferred, DeferredEvent, Work};
/// use loom_core::driver::{CqDriver, DeferredDriver, Unclaimed};
/// use loom_core::{Av, Counter, CounterAttr, Cq, Domain};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let counter = Counter::open(&domain, CounterAttr::default())?;
/// let deferred = Deferred::open(&cq, 8)?;
/// // With `Unclaimed::Drop` the buffer would be dropped with the future.
/// let driver = DeferredDriver::open(&deferred, &CqDriver::open(&cq, Unclaimed::Keep)?)?;
/// let work = deferred.post((&counter, 1), &alice, Work::send(to_bob), b"hello".to_vec())?;
/// // The counter has not reached 1 when the future is dropped: the work is cancelled.
/// drop(driver.finish(work));
/// let Some(DeferredEvent::Returned(returned, refused)) = deferred.poll()? else { panic!("it was posted") };
/// assert!(returned == work);
/// assert_eq!(refused.buf, b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct FinishWork<'m, T: Transport, B, K>
where
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    driver: DeferredDriver<'m, T, B, K>,
    work: WorkKey,
    op: Option<Wait>,
    waiter: Waiter,
    over: bool,
}

impl<T, B, K> Future for FinishWork<'_, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    type Output = Result<Option<Done<B>>, WorkError<B>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the waiter, the only pinned field, is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        let inner = &*this.driver.body;
        if this.op.is_none() {
            inner.deferred.is_waited_for(this.work);
            match inner.deferred.at(this.work) {
                WorkAt::Waits => {
                    // SAFETY: the waiter is a field of the pinned future.
                    let waiter = unsafe { Pin::new_unchecked(&this.waiter) };
                    // SAFETY: the future's handle keeps the driver's block with the list.
                    unsafe { waiter.wait_in(&inner.waiting, this.work.word(), cx.waker()) };
                    return Poll::Pending;
                }
                WorkAt::Started(op) => this.op = Some(Wait::new(op)),
                WorkAt::Returned => {
                    this.over = true;
                    return Poll::Ready(match inner.deferred.take_returned_of(this.work) {
                        Some(DeferredEvent::Returned(_, rejected)) => Err(WorkError::Returned(rejected)),
                        Some(DeferredEvent::NotCounted(_, errno)) => Err(WorkError::NotCounted(errno)),
                        _ => Ok(None),
                    });
                }
                WorkAt::Over => {
                    this.over = true;
                    return Poll::Ready(Ok(None));
                }
            }
            this.waiter.leave();
        }
        let Some(op) = &mut this.op else { return Poll::Pending };
        let ended = match op.take(&inner.driver.body) {
            Some(done) => Ok(done),
            None => match op.poll_done(&inner.driver.body, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(ended) => ended,
            },
        };
        this.over = true;
        Poll::Ready(match ended {
            Ok(done) => {
                let _: Option<WorkKey> = inner.deferred.note_end(done.key(), done.result().is_ok());
                Ok(Some(done))
            }
            Err(CqError::UnknownKey) => Ok(None),
            Err(error) => Err(WorkError::Queue(error)),
        })
    }
}

impl<T, B, K> Drop for FinishWork<'_, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let inner = &*self.driver.body;
        self.waiter.leave();
        if let Some(op) = &mut self.op {
            op.release(&inner.driver.body);
            return inner.deferred.abandon(self.work);
        }
        let at = inner.deferred.at(self.work);
        let others_wait = inner.waiting.has(self.work.word())
            || matches!(at, WorkAt::Started(op) if inner.driver.body.is_awaited(op));
        if others_wait {
            return;
        }
        if matches!(at, WorkAt::Returned) || inner.deferred.cancel_waiting(self.work) {
            if inner.driver.body.unclaimed() == Unclaimed::Drop {
                // Runs user code, so it comes last.
                drop(inner.deferred.take_returned_of(self.work));
            }
        } else {
            inner.deferred.abandon(self.work);
        }
    }
}

// SAFETY: a place begins with its head.
unsafe impl<T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> Object for DeferredDriverInner<'_, T, B, K> {
    const ONE_THREAD: bool = true;

    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>> {
        head.cast()
    }

    unsafe fn end(_: NonNull<Self>, _: bool) -> Ended {
        Ended::Free
    }
}

impl<T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> Clone for DeferredDriver<'_, T, B, K> {
    fn clone(&self) -> Self {
        DeferredDriver { body: self.body.clone() }
    }
}

impl<T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> fmt::Debug for DeferredDriver<'_, T, B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredDriver").field("deferred", &self.body.deferred).finish_non_exhaustive()
    }
}

impl<T, B, K> fmt::Debug for FinishWork<'_, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinishWork").field("work", &self.work).finish_non_exhaustive()
    }
}
