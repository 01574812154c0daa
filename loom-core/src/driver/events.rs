//! [`NextEvent`] and [`NextUnclaimed`]: futures of events that no other future waits for.

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

/// Place among the waiters for the next item.
struct Place<'m, T: Transport, B: Buffer> {
    driver: CqDriver<'m, T, B>,
    waiter: Waiter,
    list: for<'d> fn(&'d CqDriver<'m, T, B>) -> &'d WaitList,
}

impl<'m, T: Transport, B: Buffer> Place<'m, T, B> {
    fn new(driver: &CqDriver<'m, T, B>, list: for<'d> fn(&'d CqDriver<'m, T, B>) -> &'d WaitList) -> Self {
        Place { driver: driver.clone(), waiter: Waiter::new(), list }
    }

    fn poll<V>(
        self: Pin<&Self>,
        cx: &Context<'_>,
        take: impl Fn(&CqDriver<'m, T, B>) -> Option<V>,
    ) -> Poll<Result<V, CqError>> {
        let list = (self.list)(&self.driver);
        // SAFETY: a field of the pinned place, never moved out of it.
        let waiter = unsafe { self.map_unchecked(|place| &place.waiter) };
        // Checks twice, because beginning to wait runs user code that may deliver an item.
        for waits in [false, true] {
            if let Some(taken) = take(&self.driver) {
                waiter.leave();
                return Poll::Ready(Ok(taken));
            }
            if let Some(error @ (CqError::Queue(_) | CqError::OtherProcess)) = self.driver.body.failed.get() {
                waiter.leave();
                return Poll::Ready(Err(error));
            }
            if !waits {
                // SAFETY: the place's handle keeps the driver's block with the list.
                unsafe { waiter.wait_in(list, 0, cx.waker()) };
            }
        }
        Poll::Pending
    }
}

impl<T: Transport, B: Buffer> Drop for Place<'_, T, B> {
    fn drop(&mut self) {
        if self.waiter.leave() {
            (self.list)(&self.driver).tell_one();
        }
    }
}

/// Waits for an event other than a completed operation: [`CqDriver::next_event`]. Dropping it loses
/// no event.
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
#[must_use = "futures do nothing unless they are polled"]
pub struct NextEvent<'m, T: Transport, B: Buffer>(Place<'m, T, B>);

impl<'m, T: Transport, B: Buffer> Future for NextEvent<'m, T, B> {
    type Output = Result<Completion<'m, B>, CqError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the place is a field of the pinned future.
        let place = unsafe { self.as_ref().map_unchecked(|next| &next.0) };
        place.poll(cx, CqDriver::take_event)
    }
}

/// Waits for an operation after its future was dropped: [`CqDriver::next_unclaimed`]. Dropping it
/// loses no completion.
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
#[must_use = "futures do nothing unless they are polled"]
pub struct NextUnclaimed<'m, T: Transport, B: Buffer>(Place<'m, T, B>);

impl<T: Transport, B: Buffer> Future for NextUnclaimed<'_, T, B> {
    type Output = Result<Done<B>, CqError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the place is a field of the pinned future.
        let place = unsafe { self.as_ref().map_unchecked(|next| &next.0) };
        place.poll(cx, CqDriver::take_unclaimed)
    }
}

impl<'m, T: Transport, B: Buffer> CqDriver<'m, T, B> {
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
    /// [`CqError::Queue`] if the provider queue failed.
    #[doc(alias = "FI_REMOTE_CQ_DATA")]
    pub fn next_event(&self) -> NextEvent<'m, T, B> {
        NextEvent(Place::new(self, |driver| &driver.body.events))
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
    /// [`CqError::Queue`] if the provider queue failed.
    pub fn next_unclaimed(&self) -> NextUnclaimed<'m, T, B> {
        NextUnclaimed(Place::new(self, |driver| &driver.body.claimants))
    }
}

debug_struct!([T: Transport, B: Buffer] NextEvent['_, T, B], |it| place: it.0.waiter);

debug_struct!([T: Transport, B: Buffer] NextUnclaimed['_, T, B], |it| place: it.0.waiter);
