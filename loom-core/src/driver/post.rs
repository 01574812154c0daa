#![allow(unsafe_code, reason = "projects pins")]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::CqDriver;
use super::cq_driver::{FOR_PROVIDER, FOR_SLOT};
use super::wait::Wait;
use super::wait_list::Waiter;
use crate::any_error::Error;
use crate::buffer::Buffer;
use crate::cq::CqError;
use crate::engine::op_table::{Done, OpKey};
use crate::error::{PostError, Rejected};
use crate::transport::Transport;
use crate::util::debug::debug_struct;

/// Place among the waiters for room: [`FOR_SLOT`] or [`FOR_PROVIDER`].
struct Place<'m, T: Transport, B: Buffer, const FOR: u64> {
    driver: CqDriver<'m, T, B>,
    /// Created at the first refusal, because futures move until they are polled.
    waiter: Option<Waiter>,
}

impl<T: Transport, B: Buffer, const FOR: u64> Place<'_, T, B, FOR> {
    #[inline]
    fn may_try(self: Pin<&mut Self>, cx: &Context<'_>) -> bool {
        let inner = &*self.driver.body;
        (self.waiter.is_none() && inner.room.is_empty()) || self.may_try_again(cx)
    }

    #[cold]
    fn may_try_again(self: Pin<&mut Self>, cx: &Context<'_>) -> bool {
        if self.driver.body.failed.get().is_some() {
            return true;
        }
        match &self.waiter {
            None => !self.is_refused(cx),
            Some(waiter) if waiter.still_waits() => {
                waiter.store(cx.waker());
                false
            }
            Some(_) => true,
        }
    }

    #[cold]
    fn is_refused(self: Pin<&mut Self>, cx: &Context<'_>) -> bool {
        // SAFETY: the waiter, the only pinned field, is created in place.
        let Place { driver, waiter } = unsafe { self.get_unchecked_mut() };
        let inner = &*driver.body;
        if inner.failed.get().is_some() {
            return false;
        }
        let waiter = &*waiter.get_or_insert_with(Waiter::new);
        // SAFETY: a field of the pinned place, never moved out of it.
        let waiter = unsafe { Pin::new_unchecked(waiter) };
        // SAFETY: the place's handle keeps the driver's block with the list.
        unsafe { waiter.wait_in(&inner.room, FOR, cx.waker()) };
        inner.is_wanted();
        true
    }

    #[inline]
    fn leaves(&self) {
        if let Some(waiter) = &self.waiter {
            waiter.leave();
            self.driver.body.has_room();
        }
    }
}

/// Future of [`CqDriver::post`]. Dropping it before the post drops the buffer.
///
/// ```
/// use core::{pin::pin, task::{Context, Waker}};
/// use loom_core::{Av, Cq, CqDriver, Source, Unclaimed};
///
/// # fixture::domain!(network, domain);
/// # let av = Av::open(&domain, 2)?;
/// // The queue has room for one operation.
/// let cq = Cq::open(&domain, 1)?;
/// let bob = cq.endpoint(&av)?;
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// let mut posts = [vec![0; 5], vec![0; 5]].map(|room| Box::pin(driver.post(room, |room| bob.recv(Source::Any, room))));
/// let ready = posts.each_mut().map(|post| post.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
/// assert_eq!(ready, [true, false], "the second waits for room");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Post<'m, T: Transport, B: Buffer, P> {
    place: Place<'m, T, B, FOR_SLOT>,
    buf: Option<B>,
    post: P,
}

impl<T: Transport, B: Buffer, P> Post<'_, T, B, P>
where
    P: FnMut(B) -> Result<OpKey, Rejected<B>>,
{
    #[inline]
    fn poll_post(self: Pin<&mut Self>, cx: &Context<'_>) -> Poll<Result<OpKey, Rejected<B>>> {
        // SAFETY: the place, the only pinned field, is not moved.
        let Post { place, buf, post } = unsafe { self.get_unchecked_mut() };
        // SAFETY: the place is a field of the pinned future.
        let mut place = unsafe { Pin::new_unchecked(place) };
        if !place.as_mut().may_try(cx) {
            return Poll::Pending;
        }
        let Some(taken) = buf.take() else { return Poll::Pending };
        match post(taken) {
            Err(refused) if refused.error.is_transient() && place.as_mut().is_refused(cx) => {
                *buf = Some(refused.value);
                Poll::Pending
            }
            posted => {
                place.leaves();
                Poll::Ready(posted)
            }
        }
    }
}

impl<T: Transport, B: Buffer, P> Future for Post<'_, T, B, P>
where
    P: FnMut(B) -> Result<OpKey, Rejected<B>>,
{
    type Output = Result<OpKey, Rejected<B>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let posted = self.as_mut().poll_post(cx);
        if posted.is_ready() {
            // A posted operation requires progress even if no task waits for it.
            self.place.driver.body.is_wanted();
        }
        posted
    }
}

/// Future of [`CqDriver::retry`].
///
/// ```
/// use core::{pin::pin, task::{Context, Poll, Waker}};
/// use loom_core::{CqDriver, PostError, Unclaimed};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let driver = CqDriver::<_, Vec<u8>>::open(&cq, Unclaimed::Drop)?;
/// let too_long = vec![0; alice.inject_size() + 1];
/// let mut injected = pin!(driver.retry(|| alice.inject(to_bob, &too_long)));
/// // No turn makes room for this message: the future does not wait, and ends with the refusal.
/// let ended = injected.as_mut().poll(&mut Context::from_waker(Waker::noop()));
/// assert!(matches!(ended, Poll::Ready(Err(PostError::TooLong { .. }))));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Retry<'m, T: Transport, B: Buffer, P> {
    place: Place<'m, T, B, FOR_PROVIDER>,
    post: P,
    over: bool,
}

impl<T: Transport, B: Buffer, V, P> Future for Retry<'_, T, B, P>
where
    P: FnMut() -> Result<V, PostError>,
{
    type Output = Result<V, PostError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the place, the only pinned field, is not moved.
        let Retry { place, post, over } = unsafe { self.get_unchecked_mut() };
        // SAFETY: the place is a field of the pinned future.
        let mut place = unsafe { Pin::new_unchecked(place) };
        if *over || !place.as_mut().may_try(cx) {
            return Poll::Pending;
        }
        match post() {
            Err(error) if error.is_transient() && place.as_mut().is_refused(cx) => Poll::Pending,
            posted => {
                *over = true;
                place.leaves();
                place.driver.body.is_wanted();
                Poll::Ready(posted)
            }
        }
    }
}

/// Reason for which [`CqDriver::run`] has no completion.
///
/// ```
/// use loom_core::{CqDriver, PostError, Rejected, RunError, Unclaimed};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// av.remove(to_bob);
/// # fixture::drive!(driver, async {
/// match driver.run(b"hello".to_vec(), |message| alice.send(to_bob, message)).await {
///     Err(RunError::Rejected(Rejected { value, error })) => {
///         assert_eq!((value, error), (b"hello".to_vec(), PostError::UnknownPeer));
///     }
///     other => panic!("it was posted: {other:?}"),
/// }
/// # Ok::<_, loom_core::Error>(())
/// # })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
pub enum RunError<B> {
    /// The operation was not posted, and returns its buffer.
    Rejected(Rejected<B>),
    /// The queue failed. The operation can be [waited for](CqDriver::finish) again.
    Queue {
        /// Key of the operation.
        key: OpKey,
        /// Error of the queue.
        error: CqError,
    },
}

impl<B> From<RunError<B>> for Error {
    fn from(error: RunError<B>) -> Self {
        match error {
            RunError::Rejected(rejected) => rejected.into(),
            RunError::Queue { error, .. } => error.into(),
        }
    }
}

impl<B> fmt::Display for RunError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Rejected(rejected) => rejected.fmt(f),
            RunError::Queue { error, .. } => error.fmt(f),
        }
    }
}

impl<B: fmt::Debug> core::error::Error for RunError<B> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            RunError::Rejected(rejected) => rejected.error.source(),
            RunError::Queue { error, .. } => error.source(),
        }
    }
}

/// Future of [`CqDriver::run`].
///
/// Dropping it before the post drops the buffer. After that, the operation is given up
/// ([`Unclaimed`](super::Unclaimed)).
///
/// ```
/// use core::{pin::pin, task::{Context, Waker}};
/// use loom_core::{Errno, Source};
///
/// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
/// let mut received = pin!(driver.run(vec![0; 5], |room| bob.recv(Source::Any, room)));
/// assert!(received.key().is_none(), "nothing is posted before the first poll");
/// assert!(received.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
/// // The key of the receive cancels it.
/// bob.cancel(received.key().expect("it was posted"))?;
/// # fixture::drive!(driver, async {
/// let error = received.await?.into_result().expect_err("no message came");
/// assert_eq!(error.errno, Errno::ECANCELED);
/// # Ok::<_, loom_core::Error>(())
/// # })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Run<'m, T: Transport, B: Buffer, P> {
    post: Post<'m, T, B, P>,
    wait: Option<Wait>,
}

impl<'m, T: Transport, B: Buffer, P> Run<'m, T, B, P> {
    /// Key, if the operation has been posted.
    #[must_use]
    pub fn key(&self) -> Option<OpKey> {
        self.wait.as_ref().map(Wait::key)
    }
}

impl<T: Transport, B: Buffer, P> Future for Run<'_, T, B, P>
where
    P: FnMut(B) -> Result<OpKey, Rejected<B>>,
{
    type Output = Result<Done<B>, RunError<B>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the post, the only pinned field, is not moved.
        let Run { post, wait } = unsafe { self.get_unchecked_mut() };
        if wait.is_none() {
            // SAFETY: the post is a field of the pinned future.
            let mut post = unsafe { Pin::new_unchecked(&mut *post) };
            match post.as_mut().poll_post(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(rejected)) => return Poll::Ready(Err(RunError::Rejected(rejected))),
                Poll::Ready(Ok(key)) => *wait = Some(Wait::new(key)),
            }
        }
        let Some(wait) = wait else { return Poll::Pending };
        if let Some(done) = wait.take(&post.place.driver.body) {
            return Poll::Ready(Ok(done));
        }
        let key = wait.key();
        wait.poll_done(&post.place.driver.body, cx).map_err(|error| RunError::Queue { key, error })
    }
}

impl<T: Transport, B: Buffer, P> Drop for Run<'_, T, B, P> {
    #[inline]
    fn drop(&mut self) {
        if let Some(wait) = &mut self.wait {
            wait.end(&self.post.place.driver.body);
        }
    }
}

impl<'m, T: Transport, B: Buffer> CqDriver<'m, T, B> {
    #[inline(always)]
    fn place<const FOR: u64>(&self) -> Place<'m, T, B, FOR> {
        Place { driver: self.clone(), waiter: None }
    }

    /// Posts a buffer through an endpoint of the queue once it is accepted. After a transient error
    /// ([`PostError::is_transient`]) it waits for its turn.
    ///
    /// ```
    /// use loom_core::Source;
    ///
    /// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
    /// # fixture::drive!(driver, async {
    /// // The task posts two receives before it waits for one.
    /// let first = driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
    /// let second = driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
    /// for message in [b"hello", b"again"] {
    ///     driver.run(message.to_vec(), |message| alice.send(to_bob, message)).await?.result()?;
    /// }
    /// assert_eq!(driver.finish(first).await?.into_buf(), b"hello");
    /// assert_eq!(driver.finish(second).await?.into_buf(), b"again");
    /// # Ok::<_, loom_core::Error>(())
    /// # })?;
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The last refusal, with the buffer: a permanent error, or a transient error if the queue has
    /// failed.
    #[doc(alias = "FI_EAGAIN")]
    #[inline(always)]
    pub fn post<P>(&self, buf: B, post: P) -> Post<'m, T, B, P>
    where
        P: FnMut(B) -> Result<OpKey, Rejected<B>>,
    {
        Post { place: self.place(), buf: Some(buf), post }
    }

    /// [`post`](Self::post) for operations without a buffer.
    ///
    /// ```
    /// use loom_core::Source;
    ///
    /// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
    /// # fixture::drive!(driver, async {
    /// let received = driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
    /// // The bytes are copied: there is no completion to wait for.
    /// driver.retry(|| alice.inject(to_bob, b"hello")).await?;
    /// assert_eq!(driver.finish(received).await?.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// # })?;
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[inline(always)]
    pub fn retry<V, P>(&self, post: P) -> Retry<'m, T, B, P>
    where
        P: FnMut() -> Result<V, PostError>,
    {
        Retry { place: self.place(), post, over: false }
    }

    /// Posts a buffer through an endpoint of the queue once it is accepted, and waits for the
    /// completion with its [result](Done::result).
    ///
    /// ```
    /// use loom_core::{Access, Mr};
    ///
    /// # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
    /// let region = Mr::open(&domain, (0..64).collect::<Vec<u8>>(), Access::REMOTE_READ)?;
    /// # fixture::drive!(driver, async {
    /// let done = driver.run(vec![0; 4], |room| alice.read(to_bob, &region.remote(), 16, room)).await?;
    /// let (bytes, result) = done.into_parts();
    /// assert_eq!((result?.len, bytes), (4, vec![16, 17, 18, 19]));
    /// # Ok::<_, loom_core::Error>(())
    /// # })?;
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError::Rejected`] with the errors of [`post`](Self::post), [`RunError::Queue`] with
    /// those of [`finish`](Self::finish).
    #[inline(always)]
    pub fn run<P>(&self, buf: B, post: P) -> Run<'m, T, B, P>
    where
        P: FnMut(B) -> Result<OpKey, Rejected<B>>,
    {
        Run { post: self.post(buf, post), wait: None }
    }
}

debug_struct!([T: Transport, B: Buffer, P] Post['_, T, B, P], |it| place: it.place.waiter);

debug_struct!([T: Transport, B: Buffer, P] Retry['_, T, B, P], |it| place: it.place.waiter);

debug_struct!([T: Transport, B: Buffer, P] Run['_, T, B, P], |it| key: it.key());
