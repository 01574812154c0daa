#![allow(unsafe_code, reason = "projects pins")]

use core::alloc::Layout;
use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use allocator_api2::alloc::Allocator;

use super::Drive;
use super::wait_list::{WaitList, Waiter, store};
use crate::counter::Counter;
use crate::error::{CqError, OpenError};
use crate::storage::handle::{Handle, Object, Plan, Unfilled};
use crate::transport::Transport;
use crate::util::clone::clone_struct;
use crate::util::debug::debug_struct;

/// Reads a counter while futures wait for it, and wakes those with reached thresholds.
///
/// Counted operations make progress where their queue is driven: drive `(queue, counter)` as one. A
/// counted handle.
///
/// ```
/// use loom_core::{Binding, Counted, Counter, CounterAttr, Source, driver::CounterDriver};
///
/// # fixture::queue!(network, domain, av, cq);
/// # let driver = loom_core::CqDriver::open(&cq, loom_core::Unclaimed::Drop)?;
/// # let alice = cq.endpoint(&av)?;
/// let received = Counter::open(&domain, CounterAttr::default())?;
/// let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received))?;
/// # let to_bob = av.insert(&bob.address()?)?;
/// let counter = CounterDriver::open(&received)?;
/// # fixture::drive!((&driver, &counter), async {
/// for _ in 0..3 {
///     driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
///     driver.retry(|| alice.inject(to_bob, b"hello")).await?;
/// }
/// // One wait for three receives, while an executor drives `(&driver, &counter)`.
/// assert_eq!(counter.reached(3).await?, 3);
/// # Ok::<_, loom_core::Error>(())
/// # })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct CounterDriver<'m, T: Transport> {
    body: Handle<'m, CounterDriverInner<'m, T>>,
}

struct CounterDriverInner<'m, T: Transport> {
    counter: Counter<'m, T>,
    waiting: WaitList,
    /// Counts at the last read, or `None` after a new wait.
    last: Cell<Option<(u64, u64)>>,
    idle: Cell<Option<Waker>>,
}

impl<'m, T: Transport> CounterDriver<'m, T> {
    /// Opens the driver of a counter, with memory from `alloc`.
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`].
    pub fn open_in<A: Allocator + Send + 'm>(counter: &Counter<'m, T>, alloc: A) -> Result<Self, OpenError> {
        let block = Unfilled::new(Plan::of::<CounterDriverInner<'m, T>, A>()?, alloc)?;
        let last = Cell::new(None);
        let inner =
            CounterDriverInner { counter: counter.clone(), waiting: WaitList::new(), last, idle: Cell::new(None) };
        Ok(CounterDriver { body: block.fill(inner) })
    }

    /// [`CounterDriver::open_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn open(counter: &Counter<'m, T>) -> Result<Self, OpenError> {
        Self::open_in(counter, allocator_api2::alloc::Global)
    }

    /// Layout of a driver's block in an `A`.
    ///
    /// # Errors
    /// [`OpenError::Size`].
    pub fn layout<A: Allocator>() -> Result<Layout, OpenError> {
        Ok(Plan::of::<CounterDriverInner<'m, T>, A>()?.layout())
    }

    #[must_use]
    pub(crate) fn counter(&self) -> &Counter<'m, T> {
        &self.body.counter
    }

    pub(super) fn store_waker(&self, waker: &Waker) {
        store(&self.body.idle, waker);
    }

    /// Waits until the counter reaches `threshold`. Returns the number of successful operations.
    ///
    /// # Errors
    /// [`CqError::CountedFailure`] if a counted operation fails after the first poll.
    #[doc(alias = "fi_cntr_wait")]
    pub fn reached(&self, threshold: u64) -> Reached<'m, T> {
        Reached { driver: self.clone(), waiter: Waiter::new(), threshold, errors: None }
    }
}

impl<T: Transport> Drive for CounterDriver<'_, T> {
    fn turn(&self, _: usize) -> usize {
        let inner = &*self.body;
        if inner.waiting.is_empty() {
            return 0;
        }
        let now = (inner.counter.read(), inner.counter.read_error());
        let before = inner.last.replace(Some(now));
        if before == Some(now) {
            return 0;
        }
        if before.is_some_and(|before| before.1 == now.1) {
            inner.waiting.notify_where(|threshold| threshold <= now.0);
        } else {
            inner.waiting.notify_all();
        }
        1
    }
}

/// Future of [`CounterDriver::reached`].
///
/// ```
/// use core::{pin::pin, task::{Context, Waker}};
/// use loom_core::{Binding, Counted, Counter, CounterAttr, CqError, Source, driver::CounterDriver};
///
/// # fixture::queue!(network, domain, av, cq);
/// # let driver = loom_core::CqDriver::open(&cq, loom_core::Unclaimed::Drop)?;
/// let received = Counter::open(&domain, CounterAttr::default())?;
/// let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received))?;
/// let counter = CounterDriver::open(&received)?;
/// let receive = bob.recv(Source::Any, vec![0; 5])?;
/// let mut reached = pin!(counter.reached(1));
/// assert!(reached.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
/// // The receive fails, and so does the future, which would otherwise wait forever.
/// bob.cancel(receive)?;
/// # fixture::drive!((&driver, &counter), async {
/// assert_eq!(reached.await, Err(CqError::CountedFailure));
/// # });
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Reached<'m, T: Transport> {
    driver: CounterDriver<'m, T>,
    waiter: Waiter,
    threshold: u64,
    /// Failed operations at the first poll.
    errors: Option<u64>,
}

impl<T: Transport> Future for Reached<'_, T> {
    type Output = Result<u64, CqError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the waiter, the only pinned field, is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the waiter is a field of the pinned future.
        let waiter = unsafe { Pin::new_unchecked(&this.waiter) };
        let inner = &*this.driver.body;
        // Registering runs user code that may change the counter.
        for is_registered in [false, true] {
            let now = (inner.counter.read(), inner.counter.read_error());
            if now.0 >= this.threshold {
                waiter.leave();
                return Poll::Ready(Ok(now.0));
            }
            if now.1 != *this.errors.get_or_insert(now.1) {
                waiter.leave();
                return Poll::Ready(Err(CqError::CountedFailure));
            }
            if !is_registered {
                let is_new = !waiter.is_in_a_list();
                // SAFETY: the future's handle keeps the driver's block with the list.
                unsafe { waiter.wait_in(&inner.waiting, this.threshold, cx.waker()) };
                if is_new {
                    inner.last.set(None);
                    if let Some(waker) = inner.idle.take() {
                        waker.wake();
                    }
                }
            }
        }
        Poll::Pending
    }
}

impl<T: Transport> Object for CounterDriverInner<'_, T> {
    const ONE_THREAD: bool = true;
}

clone_struct!([T: Transport] CounterDriver['_, T], body);

debug_struct!([T: Transport] CounterDriver['_, T], |it| waiting: it.body.waiting);

debug_struct!([T: Transport] Reached['_, T], |it| threshold: it.threshold);
