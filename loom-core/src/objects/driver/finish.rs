//! [`Finish`] and its like: futures that wait for the end of one operation.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::CqDriver;
use super::entry::Interest;
use crate::buffer::Buffer;
use crate::engine::op_table::{Done, Fetched, OpKey, Peek, Taken};
use crate::objects::cq::CqError;
use crate::objects::endpoint::Endpoint;
use crate::transport::Transport;
use crate::vocabulary::Errno;

/// How far a future is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It was not polled.
    New,
    /// It waits.
    Waiting,
    /// As `Waiting`, and the operation is a multi-receive that waits for its pieces.
    Draining,
    /// It has told what there was to tell, or is not to.
    Over,
}

/// What waits for the end of an operation. If it is dropped before that, the operation is given up: it goes on, and then the driver has its
/// buffer.
struct Wait<'m, T: Transport, B: Buffer> {
    driver: CqDriver<'m, T, B>,
    key: OpKey,
    progress: Progress,
}

/// What a look at an operation has found.
enum Look<V> {
    Over(V),
    UnderWay,
    /// The operation is a multi-receive that waits for its pieces.
    Draining,
    Unknown,
}

impl<T: Transport, B: Buffer> Wait<'_, T, B> {
    /// Takes what `look` finds, or waits for it.
    #[inline]
    fn poll<V>(
        &mut self,
        cx: &Context<'_>,
        look: impl FnOnce(&CqDriver<'_, T, B>, OpKey) -> Look<V>,
    ) -> Poll<Result<V, CqError>> {
        let (inner, key) = (&*self.driver.body, self.key);
        let Some(entry) = inner.entry(key) else { return self.fails(CqError::UnknownKey) };
        if self.progress == Progress::New {
            match entry.interest() {
                Interest::Awaited(awaited) if awaited == key => return self.fails(CqError::Awaited),
                Interest::Unclaimed(unclaimed) if unclaimed == key => inner.claim(entry, key),
                _ => {}
            }
        }
        let draining = match look(&self.driver, key) {
            Look::Over(value) => {
                entry.set(Interest::None);
                inner.has_room();
                self.is_over();
                return Poll::Ready(Ok(value));
            }
            Look::Unknown => return self.fails(CqError::UnknownKey),
            Look::UnderWay => false,
            Look::Draining => true,
        };
        if let Some(error) = inner.failure() {
            return self.fails(error);
        }
        entry.store(cx.waker());
        if self.progress == Progress::New {
            entry.set(Interest::Awaited(key));
            self.progress = Progress::Waiting;
            inner.is_wanted();
        }
        if draining && self.progress == Progress::Waiting {
            inner.draining.set(inner.draining.get() + 1);
            self.progress = Progress::Draining;
        }
        Poll::Pending
    }

    /// It ends with an error, which says nothing about the operation: that is not given up.
    #[cold]
    fn fails<V>(&mut self, error: CqError) -> Poll<Result<V, CqError>> {
        self.release();
        Poll::Ready(Err(error))
    }

    /// Waits no more, and leaves the operation to who knows its key.
    fn release(&mut self) {
        if matches!(self.progress, Progress::Waiting | Progress::Draining)
            && let Some(entry) = self.driver.body.entry(self.key)
        {
            entry.set(Interest::None);
            entry.clear();
        }
        self.is_over();
    }

    #[inline]
    fn is_over(&mut self) {
        if self.progress == Progress::Draining {
            let draining = &self.driver.body.draining;
            draining.set(draining.get() - 1);
        }
        self.progress = Progress::Over;
    }

    #[cold]
    fn give_up(&mut self) {
        let inner = &*self.driver.body;
        if let Some(entry) = inner.entry(self.key) {
            let key = self.key;
            let of_another = self.progress == Progress::New
                && matches!(entry.interest(), Interest::Awaited(other) | Interest::Unclaimed(other) if other == key);
            if !of_another && inner.ops().knows(key) {
                entry.clear();
                entry.set(Interest::GivenUp(key));
                if !inner.ops().is_under_way(key) {
                    inner.give_back(entry, key);
                }
            }
        }
        self.is_over();
    }
}

impl<T: Transport, B: Buffer> Drop for Wait<'_, T, B> {
    #[inline]
    fn drop(&mut self) {
        if self.progress != Progress::Over {
            self.give_up();
        }
    }
}

/// Waits for an operation with a buffer: [`CqDriver::finish`].
///
/// If it is dropped, the operation goes on, and [`Unclaimed`](super::Unclaimed) says what becomes of its buffer.
#[must_use = "futures do nothing unless they are polled"]
pub struct Finish<'m, T: Transport, B: Buffer>(Wait<'m, T, B>);

impl<'m, T: Transport, B: Buffer> Finish<'m, T, B> {
    /// The operation.
    #[must_use]
    pub fn key(&self) -> OpKey {
        self.0.key
    }

    /// Ends the future and not the operation, which is left to who knows its key: for [`CqDriver::finish`], later.
    #[must_use = "the key is all that is left of the operation"]
    pub fn into_key(mut self) -> OpKey {
        self.0.release();
        self.0.key
    }

    /// Cancels the operation ([`Endpoint::cancel`]), and waits for what has become of it: a success that came first, or
    /// [`ECANCELED`](Errno::ECANCELED).
    ///
    /// # Errors
    /// As [`CqDriver::finish`]. That the provider does not cancel it is none: the operation is waited for then.
    #[doc(alias = "fi_cancel")]
    pub async fn cancel<K>(self, endpoint: &Endpoint<'_, T, B, K>) -> Result<Done<B>, CqError> {
        // Whatever the provider says: the outcome tells.
        let _: Result<(), Errno> = endpoint.cancel(self.key());
        self.await
    }
}

impl<T: Transport, B: Buffer> Future for Finish<'_, T, B> {
    type Output = Result<Done<B>, CqError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx, |driver, key| match driver.body.ops().take(key) {
            Taken::Done(done) => Look::Over(done),
            Taken::InFlight if driver.body.ops().is_peeking(key) => Look::Unknown,
            Taken::InFlight => Look::UnderWay,
            Taken::Draining => Look::Draining,
            Taken::Unknown => Look::Unknown,
        })
    }
}

/// Waits for an operation on a value: [`CqDriver::finish_value`].
///
/// If it is dropped, the operation goes on, and its result is dropped.
#[must_use = "futures do nothing unless they are polled"]
pub struct FinishValue<'m, T: Transport, B: Buffer>(Wait<'m, T, B>);

impl<T: Transport, B: Buffer> Future for FinishValue<'_, T, B> {
    type Output = Result<Fetched, CqError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx, |driver, key| {
            if driver.body.ops().is_valued(key) {
                return Look::UnderWay;
            }
            driver.body.ops().take_value(key).map_or(Look::Unknown, Look::Over)
        })
    }
}

/// Waits for the answer to a peek: [`CqDriver::finish_peek`].
///
/// If it is dropped, the answer comes as an [event](CqDriver::next_event): it may have claimed a message.
#[must_use = "futures do nothing unless they are polled"]
pub struct FinishPeek<'m, T: Transport, B: Buffer>(Wait<'m, T, B>);

impl<T: Transport, B: Buffer> Future for FinishPeek<'_, T, B> {
    type Output = Result<Peek, CqError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx, |driver, key| match driver.body.cq().take_answer(key) {
            Some(peek) => Look::Over(peek),
            None if driver.body.ops().is_peeking(key) => Look::UnderWay,
            None => Look::Unknown,
        })
    }
}

impl<'m, T: Transport, B: Buffer> CqDriver<'m, T, B> {
    fn wait(&self, key: OpKey) -> Wait<'m, T, B> {
        Wait { driver: self.clone(), key, progress: Progress::New }
    }

    /// Waits for the end of an operation with a buffer that an endpoint of the queue has posted.
    ///
    /// The future is for this operation alone, and gives it up when it is dropped; [`Finish::into_key`] keeps it.
    ///
    /// # Errors
    /// The future ends with an error if it cannot wait. The operation is still there then, and can be waited for again:
    /// - [`CqError::UnknownKey`] if the operation is over and its completion was taken, or is not one with a buffer
    /// - [`CqError::Awaited`] if another future waits for it
    /// - [`CqError::PeerEvents`] if as many events of peers came as are kept, and nobody waits for them: take them with
    ///   [`next_event`](Self::next_event)
    /// - [`CqError::Queue`] if the provider's queue failed
    #[doc(alias = "fi_cq_read")]
    pub fn finish(&self, key: OpKey) -> Finish<'m, T, B> {
        Finish(self.wait(key))
    }

    /// Waits for the end of an operation on a value: an atomic one ([`Endpoint::fetch_value`] and its like) or a collective.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_value(&self, key: OpKey) -> FinishValue<'m, T, B> {
        FinishValue(self.wait(key))
    }

    /// Waits for the answer to a peek ([`Endpoint::tagged_peek`] and its like).
    ///
    /// # Errors
    /// As [`finish`](Self::finish); [`CqError::UnknownKey`] also if its endpoint was closed.
    #[doc(alias = "FI_PEEK")]
    pub fn finish_peek(&self, key: OpKey) -> FinishPeek<'m, T, B> {
        FinishPeek(self.wait(key))
    }
}

/// Implements `Debug` for futures of one operation.
macro_rules! debug_futures {
    ($($name:ident)*) => {$(
        impl<T: Transport, B: Buffer> fmt::Debug for $name<'_, T, B> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Wait { key, progress, .. } = &self.0;
                f.debug_struct(stringify!($name)).field("key", key).field("progress", progress).finish_non_exhaustive()
            }
        }
    )*};
}

debug_futures! { Finish FinishValue FinishPeek }
