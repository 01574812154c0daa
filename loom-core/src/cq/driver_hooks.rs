//! What a [driver](crate::driver) does with its queue: it keeps one event at a time, and takes what its futures wait for.

#![allow(unsafe_code, reason = "polls open raw queues, and tells the op table what they report")]

use core::borrow::Borrow;

use super::poll::PEERS;
use super::wait::UnmatchedEvent;
use super::{Completion, Cq, CqError, CqInner};
use crate::buffer::Buffer;
use crate::engine::op_table::{Done, NO_SLOT, OpKey, Peek};
use crate::transport::{Event, Transport};
use crate::vocabulary::Errno;

/// What came of looking for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// There was none.
    Nothing,
    /// The completion of the operation in this slot.
    Completion(u32),
    /// The answer to the last of the peeks that are kept.
    Peek(OpKey),
    /// Something that belongs to no operation: of a peer, or a piece.
    Unmatched,
    /// An event that tells users nothing.
    Silent,
}

/// What came of looking for the end of one operation.
pub(crate) enum Next<V> {
    /// It is over.
    Taken(V),
    /// What there was instead, which is kept.
    Kept(Result<Kept, CqError>),
}

impl<T: Transport, B: Buffer> CqInner<T, B> {
    /// Polls go a way of their own, always.
    pub(super) const fn always_detours(&self) -> bool {
        self.detours || self.driven.get()
    }

    /// From here on a driver alone polls the queue. `false` if it has one.
    pub(crate) fn begin_driving(&self) -> bool {
        self.ops.set_kept(true);
        !self.driven.replace(true)
    }

    /// The driver is gone: the queue can be polled again.
    pub(crate) fn end_driving(&self) {
        self.driven.set(false);
        drop(self.ops.wanted().take());
    }

    /// There is something for the driver to do: a future waits for something new, or something was kept outside of its turns.
    #[inline]
    pub(crate) fn wants_driver(&self) {
        self.ops.wants_driver();
    }

    /// There are two provider queues, or prefixes.
    #[inline]
    pub(crate) const fn makes_detours(&self) -> bool {
        self.detours
    }

    /// How many provider queues there are.
    pub(crate) const fn queues(&self) -> usize {
        if self.rx.is_some() { 2 } else { 1 }
    }

    /// Keeps the next event of one of the provider queues.
    ///
    /// # Errors
    /// As [`keep_next`](Self::keep_next).
    #[inline]
    pub(crate) fn keep_one(&self, of_receives: bool) -> Result<Kept, CqError> {
        if self.detours {
            return self.keep_slowly(of_receives);
        }
        match self.take_or_keep(None) {
            Next::Kept(kept) => kept,
            Next::Taken(_) => Ok(Kept::Silent),
        }
    }

    /// Takes the next event, if it says that this operation has succeeded, else keeps it. Polls make no detours.
    #[inline(always)]
    pub(crate) fn take_one(&self, key: OpKey) -> Next<Done<B>> {
        self.take_or_keep(Some(key))
    }

    #[inline(always)]
    fn take_or_keep(&self, key: Option<OpKey>) -> Next<Done<B>> {
        if self.unmatched.borrow().is_full() {
            return Next::Kept(Err(CqError::PeerEvents));
        }
        // SAFETY: the queue is open until its last handle is dropped (C1), and these stay on this thread (C5).
        match unsafe { T::cq_poll(&self.tx) } {
            Ok(Some(event)) => {
                let event = event.borrow();
                if !event.flags.intersects(PEERS) {
                    if let Some(key) = key {
                        // SAFETY: the transport has just reported the event, and a queue has one table. There are no prefixes.
                        if let Some(done) = unsafe { self.ops.succeed_as(key, event) } {
                            return Next::Taken(done);
                        }
                    }
                    // SAFETY: as above.
                    if let Some(index) = unsafe { self.ops.park_success(event) } {
                        return Next::Kept(Ok(Kept::Completion(index)));
                    }
                }
                // A copy: most events are never put together in memory then.
                Next::Kept(self.keep_other(Event::clone(event)))
            }
            Ok(None) => Next::Kept(Ok(Kept::Nothing)),
            Err(errno) => Next::Kept(self.keep_failed(errno)),
        }
    }
    /// Keeps an event that is not that of a success.
    #[cold]
    #[inline(never)]
    fn keep_other(&self, event: Event) -> Result<Kept, CqError> {
        self.noticing(|| self.keep(&event).map(|()| true))
    }

    /// Keeps the event behind an error of a poll.
    #[cold]
    #[inline(never)]
    fn keep_failed(&self, errno: Errno) -> Result<Kept, CqError> {
        self.failed(&self.tx, errno)?.map_or(Ok(Kept::Nothing), |event| self.keep_other(event))
    }

    /// As [`keep_one`](Self::keep_one), of two provider queues, or one that counts prefixes.
    #[cold]
    #[inline(never)]
    fn keep_slowly(&self, of_receives: bool) -> Result<Kept, CqError> {
        let queue = self.rx.as_ref().filter(|_| of_receives).unwrap_or(&self.tx);
        self.noticing(|| self.keep_next(queue))
    }

    /// What has been kept meanwhile, of one event at most.
    fn noticing(&self, keep: impl FnOnce() -> Result<bool, CqError>) -> Result<Kept, CqError> {
        let (ends, unmatched) = (self.ops.ends().0, self.unmatched.borrow().len());
        if !keep()? {
            return Ok(Kept::Nothing);
        }
        let (ends_now, index) = self.ops.ends();
        if ends_now != ends && index != NO_SLOT {
            return Ok(Kept::Completion(index));
        }
        let kept = self.unmatched.borrow();
        Ok(match kept.back() {
            Some(UnmatchedEvent::Peek { peek, .. }) if kept.len() > unmatched => Kept::Peek(peek.key()),
            Some(_) if kept.len() > unmatched => Kept::Unmatched,
            _ => Kept::Silent,
        })
    }

    /// Whether the answer to a peek is kept of which this holds.
    pub(crate) fn keeps_answer(&self, of: impl Fn(OpKey) -> bool) -> bool {
        let is_meant = |event: &UnmatchedEvent| matches!(event, UnmatchedEvent::Peek { peek, .. } if of(peek.key()));
        self.unmatched.borrow().iter().any(is_meant)
    }

    /// Whether there is something that belongs to no operation, or an answer to a peek.
    pub(crate) fn has_unmatched(&self) -> bool {
        !self.unmatched.borrow().is_empty()
    }

    /// Whether receives are to be posted again.
    #[inline]
    pub(crate) fn has_used_up(&self) -> bool {
        self.ops.has_used_up()
    }

    /// There was no event left.
    #[inline]
    pub(crate) fn found_empty(&self) {
        self.ops.drained();
    }

    /// Posts the receives again that peers' writes have used up.
    pub(crate) fn post_used_up(&self) {
        self.post_used_up_again();
    }
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// Takes the oldest event that belongs to no operation, or is the answer to a peek that was [given up](Self::give_up_answer).
    pub(crate) fn take_unmatched(&self) -> Option<Completion<'m, B>> {
        let mut unmatched = self.body.unmatched.borrow_mut();
        let mut found = None;
        // Once round: the others keep their order.
        for _ in 0..unmatched.len() {
            let event = unmatched.pop_front()?;
            let stays = matches!(&event, UnmatchedEvent::Peek { given_up: false, .. });
            if stays || found.is_some() {
                // There is room: one has just been taken out.
                let _ = unmatched.push_back(event);
            } else {
                found = Some(event);
            }
        }
        drop(unmatched);
        found.map(|event| self.unmatched(event))
    }

    /// Whether a [driver](crate::driver) polls the queue: `poll` and `wait` are refused then.
    #[must_use]
    pub fn is_driven(&self) -> bool {
        self.body.driven.get()
    }

    /// Completions are for futures where there is a driver.
    #[inline(always)]
    pub(super) fn is_not_driven(&self) -> Result<(), CqError> {
        if self.body.driven.get() { Err(CqError::Driven) } else { Ok(()) }
    }

    /// [`may_sleep`](Self::may_sleep), for a driver: what is kept has been told of.
    pub(crate) fn may_sleep_driven(&self) -> Result<bool, CqError> {
        self.sleeps(|| self.body.ops.has_used_up())
    }

    /// [`may_sleep_driven`](Self::may_sleep_driven) of a queue that [naps](Self::naps): the driver has just polled it.
    pub(crate) fn has_nothing_driven(&self) -> Result<bool, CqError> {
        Ok(!self.has_to_wake(|| self.body.ops.has_used_up())?)
    }

    /// Leaves the answer to a peek, if it is kept, to who takes events. Says whether it is.
    pub(crate) fn give_up_answer(&self, key: OpKey) -> bool {
        let mut unmatched = self.body.unmatched.borrow_mut();
        let mut answers = unmatched.iter_mut().filter_map(|event| match event {
            UnmatchedEvent::Peek { peek, given_up } if peek.key() == key => Some(given_up),
            _ => None,
        });
        answers.next().map(|given_up| *given_up = true).is_some()
    }

    /// Takes the answer to a peek, if it is kept.
    pub(crate) fn take_answer(&self, key: OpKey) -> Option<Peek> {
        self.take_peek(key)
    }
}
