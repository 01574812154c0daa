//! [`Wait`]: what each future of an operation knows of it.

use core::task::{Context, Poll};

use super::cq_driver::CqDriverInner;
use super::entry::Interest;
use crate::buffer::Buffer;
use crate::cq::CqError;
use crate::engine::op_table::{Done, OpKey, Taken};
use crate::transport::Transport;

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

/// What waits for the end of an operation. If it is [ended](Self::end) before that, the operation is given up: it goes on, and then the driver
/// has its buffer.
///
/// The driver is that of the future around it, which ends it when it is dropped.
#[derive(Debug)]
pub(super) struct Wait {
    key: OpKey,
    progress: Progress,
}

/// What a look at an operation has found.
pub(super) enum Look<V> {
    Over(V),
    UnderWay,
    /// The operation is a multi-receive that waits for its pieces.
    Draining,
    Unknown,
}

impl Wait {
    #[inline]
    pub(super) const fn new(key: OpKey) -> Self {
        Wait { key, progress: Progress::New }
    }

    pub(super) const fn key(&self) -> OpKey {
        self.key
    }

    /// Takes the completion of an operation with a buffer, if it is over as most are.
    // Always, and with nothing but that way through it: the completion is built where the future's caller wants it.
    #[inline(always)]
    pub(super) fn take<T: Transport, B: Buffer>(&mut self, inner: &CqDriverInner<'_, T, B>) -> Option<Done<B>> {
        let key = self.key;
        let is_new = self.progress == Progress::New;
        if is_new && !inner.entry(key).is_some_and(|entry| entry.interest() == Interest::None) {
            return None;
        }
        if let Some(done) = inner.ops().take_done(key) {
            self.over(inner);
            return Some(done);
        }
        if is_new && let Some(done) = inner.look_for(key) {
            self.over(inner);
            return Some(done);
        }
        None
    }

    /// Takes the completion of an operation with a buffer, or waits for it.
    #[inline(never)]
    pub(super) fn poll_done<T: Transport, B: Buffer>(
        &mut self,
        inner: &CqDriverInner<'_, T, B>,
        cx: &Context<'_>,
    ) -> Poll<Result<Done<B>, CqError>> {
        self.poll(inner, cx, |inner, key| match inner.ops().take(key) {
            Taken::Done(done) => Look::Over(done),
            Taken::InFlight if inner.ops().is_peeking(key) => Look::Unknown,
            Taken::InFlight => Look::UnderWay,
            Taken::Draining => Look::Draining,
            Taken::Unknown => Look::Unknown,
        })
    }

    /// Takes what `look` finds, or waits for it.
    #[inline(never)]
    pub(super) fn poll<T: Transport, B: Buffer, V>(
        &mut self,
        inner: &CqDriverInner<'_, T, B>,
        cx: &Context<'_>,
        look: impl Fn(&CqDriverInner<'_, T, B>, OpKey) -> Look<V>,
    ) -> Poll<Result<V, CqError>> {
        let key = self.key;
        let Some(entry) = inner.entry(key) else { return self.fails(inner, CqError::UnknownKey) };
        let mut unclaimed = false;
        if self.progress == Progress::New {
            match entry.interest() {
                Interest::Awaited(awaited) if awaited == key => return self.fails(inner, CqError::Awaited),
                Interest::Unclaimed(of) => unclaimed = of == key,
                _ => {}
            }
        }
        // A second time when it is registered: that runs user code, by which the operation may end.
        for is_registered in [false, true] {
            let draining = match look(inner, key) {
                Look::Over(value) => {
                    // Not before: a future of another kind cannot have it.
                    if unclaimed {
                        inner.claim(entry, key);
                    } else if entry.interest() == Interest::GivenUp(key) {
                        entry.set(Interest::None);
                    }
                    self.over(inner);
                    return Poll::Ready(Ok(value));
                }
                Look::Unknown => return self.fails(inner, CqError::UnknownKey),
                Look::UnderWay => false,
                Look::Draining => true,
            };
            if let Some(error) = inner.failure() {
                return self.fails(inner, error);
            }
            if draining && self.progress == Progress::Waiting {
                inner.draining.set(inner.draining.get() + 1);
                self.progress = Progress::Draining;
            }
            if is_registered {
                break;
            }
            if self.progress == Progress::New {
                if entry.interest() != Interest::GivenUp(key) {
                    // Not before: only an operation that is under way is known to have the slot, and a key may be an old one.
                    inner.is_of_another(entry);
                }
                entry.set(Interest::Awaited(key));
                self.progress = Progress::Waiting;
                inner.is_wanted();
            }
            entry.store(cx.waker());
        }
        Poll::Pending
    }

    /// It ends with an error, which says nothing about the operation: that is not given up.
    #[cold]
    fn fails<T: Transport, B: Buffer, V>(
        &mut self,
        inner: &CqDriverInner<'_, T, B>,
        error: CqError,
    ) -> Poll<Result<V, CqError>> {
        self.release(inner);
        Poll::Ready(Err(error))
    }

    /// The operation is over, and was taken.
    #[inline]
    fn over<T: Transport, B: Buffer>(&mut self, inner: &CqDriverInner<'_, T, B>) {
        self.release(inner);
        inner.has_room();
    }

    /// Waits no more, and leaves the operation to who knows its key.
    #[inline]
    pub(super) fn release<T: Transport, B: Buffer>(&mut self, inner: &CqDriverInner<'_, T, B>) {
        let before = core::mem::replace(&mut self.progress, Progress::Over);
        // A peek that is answered has no slot any more: the entry may be about another operation, which has it now.
        if matches!(before, Progress::Waiting | Progress::Draining)
            && let Some(entry) = inner.entry(self.key)
            && matches!(entry.interest(), Interest::Awaited(awaited) if awaited == self.key)
        {
            entry.set(Interest::None);
            entry.clear();
        }
        if before == Progress::Draining {
            inner.draining.set(inner.draining.get() - 1);
        }
    }

    /// The future is dropped.
    #[inline]
    pub(super) fn end<T: Transport, B: Buffer>(&mut self, inner: &CqDriverInner<'_, T, B>) {
        if self.progress != Progress::Over {
            self.give_up(inner);
        }
    }

    #[cold]
    fn give_up<T: Transport, B: Buffer>(&mut self, inner: &CqDriverInner<'_, T, B>) {
        let key = self.key;
        let is_new = self.progress == Progress::New;
        self.release(inner);
        let Some(entry) = inner.entry(key) else { return };
        let of_another =
            |interest| matches!(interest, Interest::Awaited(other) | Interest::Unclaimed(other) if other == key);
        if is_new && of_another(entry.interest()) {
            return;
        }
        if !inner.ops().knows(key) {
            return inner.give_up_answer(key);
        }
        if !matches!(entry.interest(), Interest::GivenUp(given_up) if given_up == key) {
            inner.is_of_another(entry);
        }
        entry.set(Interest::GivenUp(key));
        if !inner.ops().is_under_way(key) {
            inner.give_back(entry, key);
        }
    }
}
