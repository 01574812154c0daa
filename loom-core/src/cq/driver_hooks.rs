//! Interface of a queue to its [driver](crate::driver).

#![allow(unsafe_code, reason = "passes events of queues to the op table")]

use core::borrow::Borrow;

use super::kept_events::UnmatchedEvent;
use super::read_event::PEERS;
use super::{Completion, Cq, CqError, CqInner};
use crate::buffer::Buffer;
use crate::engine::op_table::{Done, NO_SLOT, OpKey};
use crate::transport::{Event, Transport};
use crate::vocabulary::Errno;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptEvent {
    Nothing,
    Completion(u32),
    /// Answer to the most recent kept peek.
    Peek(OpKey),
    Unmatched,
    /// Event with no effect for users.
    Silent,
}

pub(crate) enum Next<V> {
    Taken(V),
    /// Another event, which is kept, or an error.
    Kept(Result<KeptEvent, CqError>),
}

impl<T: Transport, B: Buffer> CqInner<T, B> {
    pub(crate) fn begin_driving(&self) -> bool {
        self.ops.set_slow_poll(true);
        !self.driven.replace(true)
    }

    pub(crate) fn end_driving(&self) {
        self.driven.set(false);
        drop(self.ops.wanted().take());
    }

    pub(crate) const fn queues(&self) -> usize {
        if self.rx.is_some() { 2 } else { 1 }
    }

    #[inline]
    pub(crate) fn keep_one(&self, of_receives: bool) -> Result<KeptEvent, CqError> {
        if self.always_slow {
            return self.keep_slowly(of_receives);
        }
        match self.take_or_keep(None) {
            Next::Kept(kept) => kept,
            Next::Taken(_) => Ok(KeptEvent::Silent),
        }
    }

    #[inline(always)]
    pub(crate) fn take_or_keep(&self, key: Option<OpKey>) -> Next<Done<B>> {
        if self.unmatched.borrow().is_full() {
            return Next::Kept(Err(CqError::PeerEvents));
        }
        match self.read(&self.tx) {
            Ok(Some(event)) => {
                let event = event.borrow();
                if !event.flags.intersects(PEERS) {
                    if let Some(key) = key {
                        // SAFETY: the transport has just reported the event, and a queue has one
                        // table. No prefixes are used.
                        if let Some(done) = unsafe { self.ops.succeed_as(key, event) } {
                            return Next::Taken(done);
                        }
                    }
                    // SAFETY: the transport has just reported the event for this table.
                    // No prefixes are used.
                    if let Some(index) = unsafe { self.ops.park_success(event) } {
                        return Next::Kept(Ok(KeptEvent::Completion(index)));
                    }
                }
                Next::Kept(self.keep_other(Ok(Some(Event::clone(event)))))
            }
            Ok(None) => Next::Kept(Ok(KeptEvent::Nothing)),
            Err(errno) => Next::Kept(self.keep_other(Err(errno))),
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_other(&self, read: Result<Option<Event>, Errno>) -> Result<KeptEvent, CqError> {
        self.noticing(|| self.keep_read(&self.tx, read))
    }

    #[cold]
    #[inline(never)]
    fn keep_slowly(&self, of_receives: bool) -> Result<KeptEvent, CqError> {
        let queue = self.rx.as_ref().filter(|_| of_receives).unwrap_or(&self.tx);
        self.noticing(|| self.keep_next(queue))
    }

    fn noticing(&self, keep: impl FnOnce() -> Result<bool, CqError>) -> Result<KeptEvent, CqError> {
        let (ends, unmatched) = (self.ops.ends().0, self.unmatched.borrow().len());
        if !keep()? {
            return Ok(KeptEvent::Nothing);
        }
        let (ends_now, index) = self.ops.ends();
        if ends_now != ends && index != NO_SLOT {
            return Ok(KeptEvent::Completion(index));
        }
        let kept = self.unmatched.borrow();
        Ok(match kept.back() {
            Some(UnmatchedEvent::Peek { peek, .. }) if kept.len() > unmatched => KeptEvent::Peek(peek.key),
            Some(_) if kept.len() > unmatched => KeptEvent::Unmatched,
            _ => KeptEvent::Silent,
        })
    }

    pub(crate) fn keeps_answer(&self, of: impl Fn(OpKey) -> bool) -> bool {
        let is_meant = |event: &UnmatchedEvent| matches!(event, UnmatchedEvent::Peek { peek, .. } if of(peek.key));
        self.unmatched.borrow().iter().any(is_meant)
    }

    pub(crate) fn has_unmatched(&self) -> bool {
        !self.unmatched.borrow().is_empty()
    }
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    pub(crate) fn take_unmatched(&self) -> Option<Completion<'m, B>> {
        let mut unmatched = self.body.unmatched.borrow_mut();
        let mut found = None;
        // One full rotation keeps the order of the other events.
        for _ in 0..unmatched.len() {
            let event = unmatched.pop_front()?;
            let stays = matches!(&event, UnmatchedEvent::Peek { given_up: false, .. });
            if stays || found.is_some() {
                let _ = unmatched.push_back(event);
            } else {
                found = Some(event);
            }
        }
        drop(unmatched);
        found.map(|event| self.completion_of(event))
    }

    /// Returns `true` if a [driver](crate::driver) polls the queue. `poll` and `wait` then fail.
    #[must_use]
    pub fn is_driven(&self) -> bool {
        self.body.driven.get()
    }

    #[inline(always)]
    pub(super) fn check_not_driven(&self) -> Result<(), CqError> {
        if self.body.driven.get() { Err(CqError::Driven) } else { Ok(()) }
    }

    pub(crate) fn may_sleep_driven(&self) -> Result<bool, CqError> {
        self.sleeps(|| self.body.ops.has_used_up())
    }

    /// For a queue that [naps](Self::naps) and was just polled.
    pub(crate) fn may_nap_driven(&self) -> Result<bool, CqError> {
        Ok(!self.has_to_wake(|| self.body.ops.has_used_up())?)
    }

    pub(crate) fn give_up_answer(&self, key: OpKey) -> bool {
        let mut unmatched = self.body.unmatched.borrow_mut();
        let mut answers = unmatched.iter_mut().filter_map(|event| match event {
            UnmatchedEvent::Peek { peek, given_up } if peek.key == key => Some(given_up),
            _ => None,
        });
        answers.next().map(|given_up| *given_up = true).is_some()
    }
}
