use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use allocator_api2::alloc::Allocator;
#[cfg(feature = "std")]
use allocator_api2::alloc::Global;

use super::wait_list::store;
use crate::engine::arrivals::{ArrivalKey, Arrivals};
use crate::error::{CqError, OpenError};
use crate::storage::Array;
use crate::util::debug::debug_struct;
use crate::util::on_drop::for_each;

/// Counts arrivals of immediate data ([`Arrivals`]), and wakes their waiters.
///
/// Any number of futures can wait for one value. One task counts the
/// [events](super::CqDriver::next_event) of a queue, and others wait:
///
/// ```
/// use loom_core::{Access, Completion, ImmediateData, Mr, driver::AwaitedArrivals};
///
/// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
/// let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE)?;
/// // For the values below 8, and for 4 waits at the same time.
/// let arrivals = AwaitedArrivals::open(8, 4)?;
/// # fixture::drive!(driver, async {
/// let write = |buf| alice.write_data(to_bob, &region.remote(), 0, ImmediateData(3), buf);
/// driver.run(vec![7; 8], write).await?.result()?;
/// let Completion::Remote(event) = driver.next_event().await? else { panic!("another event") };
/// arrivals.count(event.data().expect("the write has data").0)?;
/// assert_eq!(arrivals.reached(3, 1).await, Ok(1));
/// # Ok::<_, loom_core::Error>(())
/// # })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct AwaitedArrivals<A: Allocator> {
    arrivals: Arrivals<A>,
    /// By the numbers of the waiters' places.
    wakers: Array<Cell<Option<Waker>>, A>,
}

#[cfg(feature = "std")]
impl AwaitedArrivals<Global> {
    /// [`open_in`](Self::open_in) with the global allocator.
    pub fn open(values: usize, waiters: usize) -> Result<Self, OpenError> {
        Self::open_in(values, waiters, Global)
    }
}

impl<A: Allocator> AwaitedArrivals<A> {
    /// Opens a table of the values below `values`, for `waiters` simultaneous waiters. Takes 16
    /// bytes per waiter, besides [`Arrivals::open_in`].
    ///
    /// # Errors
    /// See [`Arrivals::open_in`].
    pub fn open_in(values: usize, waiters: usize, alloc: A) -> Result<Self, OpenError>
    where
        A: Clone,
    {
        let arrivals = Arrivals::open_in(values, waiters, alloc.clone())?;
        Ok(AwaitedArrivals { arrivals, wakers: Array::new_in(waiters, alloc, |_| Cell::new(None))? })
    }

    /// Counts an arrival, and wakes the waiters that have reached their totals.
    ///
    /// # Errors
    /// [`CqError::NoSuchValue`] without counting it.
    pub fn count(&self, value: u64) -> Result<(), CqError> {
        self.arrivals.count(value)?;
        for_each(core::iter::from_fn(|| self.arrivals.poll()), |arrived| {
            if let Some(waker) = self.waker(arrived.key).and_then(Cell::take) {
                waker.wake();
            }
        });
        Ok(())
    }

    /// Number of arrivals of a value.
    ///
    /// # Errors
    /// [`CqError::NoSuchValue`]
    pub fn total(&self, value: u64) -> Result<u64, CqError> {
        self.arrivals.total(value)
    }

    /// Waits until a value has arrived `threshold` times since the table was opened.
    ///
    /// # Errors
    /// [`CqError::NoSuchValue`], and [`CqError::TooManyWaits`] if all waiters' places are in
    /// use.
    pub const fn reached(&self, value: u64, threshold: u64) -> ReachedArrivals<'_, A> {
        ReachedArrivals { table: self, value, threshold, key: None }
    }

    fn waker(&self, key: ArrivalKey) -> Option<&Cell<Option<Waker>>> {
        self.wakers.get(key.index() as usize)
    }
}

/// Waits for arrivals: [`AwaitedArrivals::reached`]. Dropping it loses no arrivals.
///
/// ```
/// use core::{pin::pin, task::{Context, Poll, Waker}};
/// use loom_core::driver::AwaitedArrivals;
///
/// # fn main() -> Result<(), Box<dyn core::error::Error>> {
/// let arrivals = AwaitedArrivals::open(8, 4)?;
/// let mut cx = Context::from_waker(Waker::noop());
/// let mut reached = pin!(arrivals.reached(3, 2));
/// for counted in 1..=2 {
///     assert!(reached.as_mut().poll(&mut cx).is_pending());
///     arrivals.count(3)?;
///     assert_eq!(arrivals.total(3), Ok(counted));
/// }
/// assert_eq!(reached.as_mut().poll(&mut cx), Poll::Ready(Ok(2)));
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct ReachedArrivals<'a, A: Allocator> {
    table: &'a AwaitedArrivals<A>,
    value: u64,
    threshold: u64,
    key: Option<ArrivalKey>,
}

impl<A: Allocator> ReachedArrivals<'_, A> {
    fn leave(&mut self) {
        if let Some(key) = self.key.take()
            && self.table.arrivals.give_up(key).is_ok()
        {
            // Otherwise the place belongs to another waiter.
            drop(self.table.waker(key).and_then(Cell::take));
        }
    }
}

impl<A: Allocator> Future for ReachedArrivals<'_, A> {
    type Output = Result<u64, CqError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Registering runs user code that may count arrivals.
        for is_registered in [false, true] {
            let total = self.table.total(self.value)?;
            if total >= self.threshold {
                self.leave();
                return Poll::Ready(Ok(total));
            }
            if !is_registered {
                let key = match self.key {
                    Some(key) => key,
                    None => self.table.arrivals.wait_for(self.value, self.threshold)?,
                };
                self.key = Some(key);
                if let Some(place) = self.table.waker(key) {
                    store(place, cx.waker());
                }
            }
        }
        Poll::Pending
    }
}

impl<A: Allocator> Drop for ReachedArrivals<'_, A> {
    fn drop(&mut self) {
        self.leave();
    }
}

debug_struct!([A: Allocator] AwaitedArrivals[A], |it| waiters: it.wakers.len());

debug_struct!([A: Allocator] ReachedArrivals['_, A], |it| value: it.value, threshold: it.threshold);
