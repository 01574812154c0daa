//! [`Wait`]: the state of an operation's future.

use core::task::{Context, Poll};

use super::cq_driver::CqDriverInner;
use super::entry::Interest;
use crate::buffer::Buffer;
use crate::cq::CqError;
use crate::engine::op_table::{Done, OpKey, Taken};
use crate::transport::Transport;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    New,
    Waiting,
    /// Waiting for the pieces of a multi-receive.
    Draining,
    /// Result returned, or wait released.
    Over,
}

/// If the wait is [ended](Self::end) early, the operation continues, and its buffer goes to the
/// driver.
#[derive(Debug)]
pub(super) struct Wait {
    key: OpKey,
    progress: Progress,
}

pub(super) enum Look<V> {
    Over(V),
    UnderWay,
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

    // Inlined, with only the fast path, so that the completion is built in place.
    #[inline(always)]
    pub(super) fn take<T: Transport, B: Buffer>(&mut self, inner: &CqDriverInner<'_, T, B>) -> Option<Done<B>> {
        let key = self.key;
        let is_new = self.progress == Progress::New;
        if is_new && !inner.entry(key).is_some_and(|entry| entry.interest.get() == Interest::None) {
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
            match entry.interest.get() {
                Interest::Awaited(awaited) if awaited == key => return self.fails(inner, CqError::Awaited),
                Interest::Unclaimed(of) => unclaimed = of == key,
                _ => {}
            }
        }
        // Registering runs user code that may complete the operation.
        for is_registered in [false, true] {
            let draining = match look(inner, key) {
                Look::Over(value) => {
                    if unclaimed {
                        inner.claim(entry, key);
                    } else if entry.interest.get() == Interest::GivenUp(key) {
                        entry.interest.set(Interest::None);
                    }
                    self.over(inner);
                    return Poll::Ready(Ok(value));
                }
                Look::Unknown => return self.fails(inner, CqError::UnknownKey),
                Look::UnderWay => false,
                Look::Draining => true,
            };
            if let Some(error) = inner.failed.get() {
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
                if entry.interest.get() != Interest::GivenUp(key) {
                    // Only now, because only an operation in flight certainly holds the slot: the
                    // key may be an old one.
                    inner.is_of_another(entry);
                }
                entry.interest.set(Interest::Awaited(key));
                self.progress = Progress::Waiting;
                inner.is_wanted();
            }
            entry.store(cx.waker());
        }
        Poll::Pending
    }

    #[cold]
    fn fails<T: Transport, B: Buffer, V>(
        &mut self,
        inner: &CqDriverInner<'_, T, B>,
        error: CqError,
    ) -> Poll<Result<V, CqError>> {
        self.release(inner);
        Poll::Ready(Err(error))
    }

    #[inline]
    fn over<T: Transport, B: Buffer>(&mut self, inner: &CqDriverInner<'_, T, B>) {
        self.release(inner);
        inner.has_room();
    }

    #[inline]
    pub(super) fn release<T: Transport, B: Buffer>(&mut self, inner: &CqDriverInner<'_, T, B>) {
        let before = core::mem::replace(&mut self.progress, Progress::Over);
        // An answered peek has no slot any more, so the entry may belong to another operation.
        if matches!(before, Progress::Waiting | Progress::Draining)
            && let Some(entry) = inner.entry(self.key)
            && matches!(entry.interest.get(), Interest::Awaited(awaited) if awaited == self.key)
        {
            entry.interest.set(Interest::None);
            entry.clear();
        }
        if before == Progress::Draining {
            inner.draining.set(inner.draining.get() - 1);
        }
    }

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
        if is_new && of_another(entry.interest.get()) {
            return;
        }
        if !inner.ops().contains(key) {
            return inner.give_up_answer(key);
        }
        if !matches!(entry.interest.get(), Interest::GivenUp(given_up) if given_up == key) {
            inner.is_of_another(entry);
        }
        entry.interest.set(Interest::GivenUp(key));
        if !inner.ops().is_unfinished(key) {
            inner.give_back(entry, key);
        }
    }
}
