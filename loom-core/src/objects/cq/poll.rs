//! Asking a queue for the next completion.

#![allow(unsafe_code, reason = "polls open raw queues, and tells the op table what they report")]

use super::keep::Bystander;
use super::{Cq, CqError};
use crate::buffer::Buffer;
use crate::completion::{Completion, OpError, RemoteEvent};
use crate::engine::op_table::{Direction, Resolution};
use crate::transport::{Event, Transport};
use crate::vocabulary::{CompletionFlags, Errno};

impl<T: Transport, B: Buffer> Cq<'_, T, B> {
    /// The next completion of either direction; `None` if there is none for now. Drives progress.
    ///
    /// What [`wait`](Self::wait) and [`progress`](Self::progress) have kept comes first, receives before transmits;
    /// then one provider queue's completions come in its order.
    ///
    /// # Errors
    /// [`CqError::Queue`] if the provider's queue failed.
    #[doc(alias = "fi_cq_read")]
    // Always, with what it calls: the completion is built where the caller wants it, not copied from one return value
    // to the next. That is a third of the cost of a poll.
    #[inline(always)]
    pub fn poll(&self) -> Result<Option<Completion<B>>, CqError> {
        if self.any_kept.get()
            && let Some(completion) = self.take_any_kept()
        {
            return Ok(Some(completion));
        }
        let Some(rx) = &self.rx else {
            let polled = self.poll_queue(&self.tx);
            if let Ok(None) = polled {
                self.ops.drained();
            }
            return polled;
        };
        let turn = self.turn.get();
        self.turn.set(!turn);
        let (first, second) = if turn { (rx, &self.tx) } else { (&self.tx, rx) };
        match self.poll_queue(first)? {
            None => {
                let polled = self.poll_queue(second);
                if let Ok(None) = polled {
                    self.ops.drained();
                }
                polled
            }
            some => Ok(some),
        }
    }

    /// The next completion of a send, read or write.
    ///
    /// # Errors
    /// As [`Cq::poll`](Self::poll).
    pub fn poll_tx(&self) -> Result<Option<Completion<B>>, CqError> {
        self.poll_direction(&self.tx, Direction::Transmit)
    }

    /// The next completion of a receive, or event of a peer.
    ///
    /// # Errors
    /// As [`Cq::poll`](Self::poll).
    pub fn poll_rx(&self) -> Result<Option<Completion<B>>, CqError> {
        self.poll_direction(self.rx.as_ref().unwrap_or(&self.tx), Direction::Receive)
    }

    /// The next completion of a raw queue.
    #[inline(always)]
    fn poll_queue(&self, queue: &T::Cq) -> Result<Option<Completion<B>>, CqError> {
        // Bounded: stray events are no more than the queue holds and peers go on adding.
        loop {
            // SAFETY: the queue is open until its owner is dropped, and this thread is its only user.
            match unsafe { T::cq_poll(queue) } {
                Ok(Some(event)) => {
                    if let Some(completion) = self.resolve(event) {
                        return Ok(Some(completion));
                    }
                }
                Ok(None) => return Ok(None),
                Err(errno) => match self.resolve_failed(queue, errno)? {
                    Some(Some(completion)) => return Ok(Some(completion)),
                    Some(None) => {}
                    None => return Ok(None),
                },
            }
        }
    }

    /// What the event behind an error of a poll says to the user; `None` if there is no event.
    #[cold]
    #[inline(never)]
    fn resolve_failed(&self, queue: &T::Cq, errno: Errno) -> Result<Option<Option<Completion<B>>>, CqError> {
        Ok(self.failed(queue, errno)?.map(|event| self.resolve(&event)))
    }

    /// The event behind an error of a poll, if there is one.
    #[cold]
    pub(super) fn failed(&self, queue: &T::Cq, errno: Errno) -> Result<Option<Event>, CqError> {
        if errno != Errno::EAVAIL {
            return Err(CqError::Queue(errno));
        }
        // SAFETY: the queue is open until its owner is dropped, and this thread is its only user.
        unsafe { T::cq_read_error(queue) }.map_err(CqError::Queue)
    }

    /// The next completion of one direction. Those of the other are kept: one raw queue may report both.
    fn poll_direction(&self, queue: &T::Cq, direction: Direction) -> Result<Option<Completion<B>>, CqError> {
        loop {
            if let Some(completion) = self.take_kept(direction) {
                return Ok(Some(completion));
            }
            if !self.keep_next(queue)? {
                match self.rx {
                    Some(_) => self.ops.drained_of(direction),
                    None => self.ops.drained(),
                }
                return Ok(None);
            }
        }
    }

    /// What an event says to the user; nothing, if it belongs to an operation that is over.
    #[inline(always)]
    fn resolve(&self, event: &Event) -> Option<Completion<B>> {
        if let Some(bystander) = Self::bystander_by_flags(event) {
            return Some(bystander.into());
        }
        // SAFETY: the transport has just reported the event, and a queue has one table.
        match unsafe { self.ops.complete(event) } {
            Resolution::Done(done) => Some(Completion::Op(done)),
            Resolution::Foreign if event.is_error() => Some(Completion::Unclaimed(OpError::of(event))),
            Resolution::Stale | Resolution::Foreign => None,
        }
    }

    /// A peer's operation on this side's memory, which the provider reports with a context of no meaning.
    #[inline]
    pub(super) fn bystander_by_flags(event: &Event) -> Option<Bystander> {
        let remote = CompletionFlags::REMOTE_WRITE.union(CompletionFlags::REMOTE_READ);
        (event.flags.intersects(remote) && !event.is_error()).then(|| Bystander::Remote(RemoteEvent::of(event)))
    }
}
