use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::CqDriver;
use super::wait::{Look, Wait};
use crate::buffer::Buffer;
use crate::cq::CqError;
use crate::endpoint::Endpoint;
use crate::engine::op_table::{Done, Fetched, OpKey, Peek};
use crate::transport::Transport;
use crate::util::debug::debug_struct;
use crate::vocabulary::Errno;

/// Data to post a request later. Its buffer is in the outcome.
struct Waiting<'m, T: Transport, B: Buffer> {
    driver: CqDriver<'m, T, B>,
    wait: Wait,
}

impl<T: Transport, B: Buffer> Drop for Waiting<'_, T, B> {
    #[inline]
    fn drop(&mut self) {
        self.wait.end(&self.driver.body);
    }
}

/// Future of [`CqDriver::finish`]. Dropping it gives the operation up
/// ([`Unclaimed`](super::Unclaimed)).
///
/// ```
/// use core::{pin::Pin, task::{Context, Waker}};
/// use loom_core::{Forever, Source, driver::Drive};
///
/// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
/// let mut received = driver.finish(bob.recv(Source::Any, vec![0; 5])?);
/// driver.turn(16);
/// assert!(Pin::new(&mut received).poll(&mut Context::from_waker(Waker::noop())).is_pending());
/// // The program waits without the driver from here on, and the receive goes on.
/// let key = received.into_key();
/// drop(driver);
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(key, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Finish<'m, T: Transport, B: Buffer>(Waiting<'m, T, B>);

impl<'m, T: Transport, B: Buffer> Finish<'m, T, B> {
    /// Key of the operation.
    #[must_use]
    pub fn key(&self) -> OpKey {
        self.0.wait.key()
    }

    /// Ends the future but not the operation.
    #[must_use = "the key is all that is left of the operation"]
    pub fn into_key(mut self) -> OpKey {
        self.0.wait.release(&self.0.driver.body);
        self.0.wait.key()
    }

    /// Cancels the operation ([`Endpoint::cancel`]). The future then waits for the outcome: a
    /// success, or [`ECANCELED`](Errno::ECANCELED).
    ///
    /// ```
    /// # use core::{pin::pin, task::{Context, Poll, Waker}};
    /// # use loom_core::{CqDriver, Errno, Source, Unclaimed, driver::Drive};
    /// # fixture::queue!(network, domain, av, cq);
    /// # let bob = cq.endpoint(&av)?;
    /// # let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
    /// # let task = async {
    /// let received = driver.finish(bob.recv(Source::Any, vec![0; 5])?);
    /// let done = received.cancel(&bob).await?;
    /// assert_eq!(done.result().expect_err("no message came").errno, Errno::ECANCELED);
    /// # Ok::<_, loom_core::Error>(())
    /// # };
    /// # let mut task = pin!(task);
    /// # loop {
    /// #     match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
    /// #         Poll::Ready(result) => break result?,
    /// #         Poll::Pending => driver.turn(16),
    /// #     };
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_cancel")]
    pub fn cancel<K>(self, endpoint: &Endpoint<'_, T, B, K>) -> Self {
        let _: Result<(), Errno> = endpoint.cancel(self.key());
        self
    }
}

impl<T: Transport, B: Buffer> Future for Finish<'_, T, B> {
    type Output = Result<Done<B>, CqError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Waiting { driver, wait } = &mut self.0;
        if let Some(done) = wait.take(&driver.body) {
            return Poll::Ready(Ok(done));
        }
        wait.poll_done(&driver.body, cx)
    }
}

/// Future of [`CqDriver::finish_value`]. If it is dropped, the operation continues, and its result
/// is dropped.
///
/// ```
/// use loom_core::{Access, Caps, Mr, atomic::FetchOp};
///
/// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob; Caps::MSG | Caps::RMA | Caps::ATOMIC);
/// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
/// let aligned = region.window().as_ptr().align_offset(8) as u64;
/// let add = domain.query_atomic(FetchOp::<u64>::SUM)?;
/// # fixture::drive!(driver, async {
/// for expected in [0, 3] {
///     let added = driver.retry(|| alice.fetch_value(to_bob, &region.remote(), aligned, add, 3)).await?;
///     assert_eq!(driver.finish_value(added).await?.value::<u64>()?, Some(expected));
/// }
/// # Ok::<_, loom_core::Error>(())
/// # })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct FinishValue<'m, T: Transport, B: Buffer>(Waiting<'m, T, B>);

impl<T: Transport, B: Buffer> Future for FinishValue<'_, T, B> {
    type Output = Result<Fetched, CqError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Waiting { driver, wait } = &mut self.0;
        wait.poll(&driver.body, cx, |inner, key| {
            if inner.ops().is_valued(key) {
                return Look::UnderWay;
            }
            inner.ops().take_value(key).map_or(Look::Unknown, Look::Over)
        })
    }
}

/// Future of [`CqDriver::finish_peek`]. If it is dropped, the answer becomes an
/// [event](CqDriver::next_event), because it may have claimed a message.
///
/// ```
/// use loom_core::{Cq, Source, Tag, TagMatch};
///
/// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
/// # let cq: Cq<'_, _, Vec<u8>> = cq;
/// # fixture::drive!(driver, async {
/// driver.retry(|| alice.tagged_inject(to_bob, Tag(7), b"hello")).await?;
/// let peek = driver.retry(|| bob.tagged_peek(Source::Any, TagMatch::ANY)).await?;
/// let found = driver.finish_peek(peek).await?.message()?.expect("a message waits for a receive");
/// // The program knows the length before it has a buffer.
/// let received = driver.run(vec![0; found.len], |room| bob.tagged_recv(Source::Any, Tag(7), room)).await?;
/// assert_eq!(received.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// # })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct FinishPeek<'m, T: Transport, B: Buffer>(Waiting<'m, T, B>);

impl<T: Transport, B: Buffer> Future for FinishPeek<'_, T, B> {
    type Output = Result<Peek, CqError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Waiting { driver, wait } = &mut self.0;
        wait.poll(&driver.body, cx, |inner, key| match inner.cq.take_peek(key) {
            Some(peek) => {
                inner.goes_on();
                Look::Over(peek)
            }
            None if inner.ops().is_peeking(key) => Look::UnderWay,
            None => Look::Unknown,
        })
    }
}

impl<'m, T: Transport, B: Buffer> CqDriver<'m, T, B> {
    #[inline(always)]
    fn wait(&self, key: OpKey) -> Waiting<'m, T, B> {
        Waiting { driver: self.clone(), wait: Wait::new(key) }
    }

    /// Waits for an operation with a buffer of an endpoint of the queue.
    ///
    /// # Errors
    /// The future cannot wait. The operation still exists, and can be waited for again:
    /// - [`CqError::UnknownKey`] if the completion was already taken, or the operation has no
    ///   buffer
    /// - [`CqError::Awaited`]
    /// - [`CqError::PeerEvents`]
    /// - [`CqError::Queue`]
    #[doc(alias = "fi_cq_read")]
    #[inline(always)]
    pub fn finish(&self, key: OpKey) -> Finish<'m, T, B> {
        Finish(self.wait(key))
    }

    /// Waits for an operation on a value: a collective, or an atomic operation such as
    /// [`Endpoint::fetch_value`].
    ///
    /// # Errors
    /// See [`finish`](Self::finish).
    #[inline(always)]
    pub fn finish_value(&self, key: OpKey) -> FinishValue<'m, T, B> {
        FinishValue(self.wait(key))
    }

    /// Waits for the answer to a peek, for example [`Endpoint::tagged_peek`].
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish). [`CqError::UnknownKey`] also if the endpoint was closed.
    #[doc(alias = "FI_PEEK")]
    pub fn finish_peek(&self, key: OpKey) -> FinishPeek<'m, T, B> {
        FinishPeek(self.wait(key))
    }
}

debug_struct!([T: Transport, B: Buffer] Finish['_, T, B], |it| wait: it.0.wait);
debug_struct!([T: Transport, B: Buffer] FinishValue['_, T, B], |it| wait: it.0.wait);
debug_struct!([T: Transport, B: Buffer] FinishPeek['_, T, B], |it| wait: it.0.wait);
