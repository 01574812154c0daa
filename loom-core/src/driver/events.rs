#![allow(unsafe_code, reason = "projects pins")]

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::CqDriver;
use super::wait_list::{WaitList, Waiter};
use crate::buffer::Buffer;
use crate::cq::{Completion, CqError};
use crate::engine::op_table::Done;
use crate::transport::Transport;
use crate::util::debug::debug_struct;

/// Waits for the next item that no other future waits for: [`NextEvent`] or [`NextUnclaimed`].
///
/// ```
/// use loom_core::{Buffer, CqError, Transport, driver::Next};
///
/// /// Next event or unclaimed operation, by the future.
/// async fn item<T: Transport, B: Buffer, V>(next: Next<'_, T, B, V>) -> Result<V, CqError> {
///     next.await
/// }
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Next<'m, T: Transport, B: Buffer, V> {
    driver: CqDriver<'m, T, B>,
    waiter: Waiter,
    list: for<'d> fn(&'d CqDriver<'m, T, B>) -> &'d WaitList,
    take: fn(&CqDriver<'m, T, B>) -> Option<V>,
}

impl<T: Transport, B: Buffer, V> Future for Next<'_, T, B, V> {
    type Output = Result<V, CqError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.into_ref();
        let list = (this.list)(&this.driver);
        // SAFETY: a field of the pinned future, never moved out of it.
        let waiter = unsafe { this.map_unchecked(|next| &next.waiter) };
        // Beginning to wait runs user code that may deliver an item.
        for waits in [false, true] {
            if let Some(taken) = (this.take)(&this.driver) {
                waiter.leave();
                return Poll::Ready(Ok(taken));
            }
            if let Some(error @ (CqError::Queue(_) | CqError::OtherProcess)) = this.driver.body.failed.get() {
                waiter.leave();
                return Poll::Ready(Err(error));
            }
            if !waits {
                // SAFETY: the future's handle keeps the driver's block with the list.
                unsafe { waiter.wait_in(list, 0, cx.waker()) };
            }
        }
        Poll::Pending
    }
}

impl<T: Transport, B: Buffer, V> Drop for Next<'_, T, B, V> {
    fn drop(&mut self) {
        if self.waiter.leave() {
            (self.list)(&self.driver).notify_one();
        }
    }
}

/// Future of [`CqDriver::next_event`]. Dropping it loses no event.
///
/// ```
/// use core::task::{Context, Waker};
/// use loom_core::{Access, Completion, Forever, ImmediateData, Mr};
///
/// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
/// let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE)?;
/// let mut next = Box::pin(driver.next_event());
/// assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
/// cq.post(vec![1; 8], Forever, |bytes| alice.write_data(to_bob, &region.remote(), 0, ImmediateData(7), bytes))?;
/// // The next future takes the event of a dropped one.
/// drop(next);
/// # fixture::drive!(driver, async {
/// let event = driver.next_event().await?;
/// assert!(matches!(event, Completion::Remote(event) if event.data() == Some(ImmediateData(7))));
/// # Ok::<_, loom_core::Error>(())
/// # })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
pub type NextEvent<'m, T, B> = Next<'m, T, B, Completion<'m, B>>;

/// Future of [`CqDriver::next_unclaimed`]. Dropping it loses no completion.
///
/// ```
/// use loom_core::{CqDriver, Errno, Source, Unclaimed};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let driver = CqDriver::open(&cq, Unclaimed::Keep)?;
/// # fixture::drive!(driver, async {
/// // The program gives two receives up, and gets both buffers back.
/// for _ in 0..2 {
///     drop(driver.finish(bob.recv(Source::Any, vec![0; 4096])?).cancel(&bob));
/// }
/// for _ in 0..2 {
///     let (room, result) = driver.next_unclaimed().await?.into_parts();
///     assert_eq!((room.len(), result.map_err(|error| error.errno).err()), (4096, Some(Errno::ECANCELED)));
/// }
/// # Ok::<_, loom_core::Error>(())
/// # })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
pub type NextUnclaimed<'m, T, B> = Next<'m, T, B, Done<B>>;

impl<'m, T: Transport, B: Buffer> CqDriver<'m, T, B> {
    fn next<V>(&self, list: for<'d> fn(&'d Self) -> &'d WaitList, take: fn(&Self) -> Option<V>) -> Next<'m, T, B, V> {
        Next { driver: self.clone(), waiter: Waiter::new(), list, take }
    }

    /// Takes the oldest event other than a completed operation.
    pub fn take_event(&self) -> Option<Completion<'m, B>> {
        let inner = &*self.body;
        let event = inner.cq.take_unmatched()?;
        inner.goes_on();
        Some(event)
    }

    /// Waits for an event other than a completed operation:
    /// - [`Completion::Remote`]: a peer's write with immediate data
    /// - [`Completion::Piece`]: a message in the buffer of a multi-receive
    /// - [`Completion::Peek`]: the answer to a peek after its future was dropped
    /// - [`Completion::Unclaimed`]: the failure of an operation without a key
    ///
    /// A queue keeps [`PEER_EVENTS`](crate::cq::PEER_EVENTS) of them. If more arrive and no future
    /// waits for them, other futures fail with [`CqError::PeerEvents`].
    ///
    /// ```
    /// use loom_core::{Access, Completion, ImmediateData, Mr};
    ///
    /// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
    /// let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE)?;
    /// # fixture::drive!(driver, async {
    /// let write = |bytes| alice.write_data(to_bob, &region.remote(), 0, ImmediateData(7), bytes);
    /// driver.run(vec![1; 8], write).await?.result()?;
    /// let Completion::Remote(event) = driver.next_event().await? else { panic!("another event") };
    /// assert_eq!(event.data(), Some(ImmediateData(7)));
    /// # Ok::<_, loom_core::Error>(())
    /// # })?;
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CqError::Queue`].
    #[doc(alias = "FI_REMOTE_CQ_DATA")]
    pub fn next_event(&self) -> NextEvent<'m, T, B> {
        self.next(|driver| &driver.body.events, Self::take_event)
    }

    /// Waits for a completed operation after its future was dropped. Never completes with
    /// [`Unclaimed::Drop`](super::Unclaimed::Drop).
    ///
    /// ```
    /// use loom_core::{CqDriver, Source, Unclaimed};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let driver = CqDriver::open(&cq, Unclaimed::Keep)?;
    /// # fixture::drive!(driver, async {
    /// let received = driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
    /// // A timeout, for example, drops the future.
    /// drop(driver.finish(received));
    /// driver.retry(|| alice.inject(to_bob, b"hello")).await?;
    /// let done = driver.next_unclaimed().await?;
    /// assert_eq!(done.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// # })?;
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CqError::Queue`].
    pub fn next_unclaimed(&self) -> NextUnclaimed<'m, T, B> {
        self.next(|driver| &driver.body.claimants, Self::take_unclaimed)
    }
}

debug_struct!([T: Transport, B: Buffer, V] Next['_, T, B, V], |it| waiter: it.waiter);
