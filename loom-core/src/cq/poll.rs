//! Polling a queue for the next completion.

#![allow(unsafe_code, reason = "polls open raw queues, and tells the op table what they report")]

use super::pump::{Detour, Pumped, of_an_operation};
use super::{Completion, Cq, CqError};
use crate::buffer::Buffer;
use crate::engine::op_table::OpError;
use crate::engine::op_table::{Direction, Resolution};
use crate::transport::{Event, Transport};
use crate::vocabulary::Errno;

/// Not the result of `poll`: the compiler would build completions of the fast path in memory.
type Next<'m, B> = Option<Result<Completion<'m, B>, CqError>>;

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// Returns the next completion of either direction, or `None` if the queue is empty. Drives
    /// progress.
    ///
    /// Completions kept by [`wait`](Self::wait) and [`progress`](Self::progress) come first,
    /// receives before transmits.
    ///
    /// ```
    /// use loom_core::{Completion, Forever, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// // Polls that return `None` drive progress, too.
    /// let done = loop {
    ///     if let Some(Completion::Op(done)) = cq.poll()? { break done; }
    /// };
    /// assert_eq!((done.key(), done.into_buf()), (received, b"hello".to_vec()));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`CqError::Queue`] if the provider queue failed
    /// - [`CqError::Driven`] if a [driver](crate::driver) polls the queue
    #[doc(alias = "fi_cq_read")]
    // Inlined, with only the path of a success, which saves a third of the cost of a poll.
    #[inline(always)]
    pub fn poll(&self) -> Result<Option<Completion<'m, B>>, CqError> {
        let detour = if self.body.ops.is_kept() {
            None
        } else {
            // SAFETY: the transport has just reported the event, and a queue has one table. With
            // prefixes, the "kept" flag (`detours`) excludes this path.
            match self.body.pump(|event| unsafe { self.body.ops.succeed(event) }) {
                Pumped::Taken(done) => return Ok(Some(Completion::Op(done))),
                // No events of closed endpoints remain: the "kept" flag is set until the queue is
                // drained.
                Pumped::Empty => return Ok(None),
                Pumped::Detour(detour) => Some(detour),
            }
        };
        self.poll_detour(detour).transpose()
    }

    /// Without a detour, events may be kept or left over from closed endpoints, or there are two
    /// provider queues. A single call covers all detours: with several, the compiler would build fast completions in
    /// memory.
    #[cold]
    #[inline(never)]
    fn poll_detour(&self, detour: Option<Detour>) -> Next<'m, B> {
        match detour {
            None => self.poll_kept(),
            Some(Detour::Event(event)) => self.poll_on(&event),
            Some(Detour::Failed(errno)) => self.poll_failed(errno),
        }
    }

    fn poll_kept(&self) -> Next<'m, B> {
        if self.body.driven.get() {
            return Some(Err(CqError::Driven));
        }
        self.body.post_used_up_again();
        if let Some(completion) = self.take_any_kept() {
            return Some(Ok(completion));
        }
        let Some(rx) = &self.body.rx else { return self.poll_last(&self.body.tx) };
        let turn = self.body.turn.get();
        self.body.turn.set(!turn);
        let (first, second) = if turn { (rx, &self.body.tx) } else { (&self.body.tx, rx) };
        self.poll_queue(first).or_else(|| self.poll_last(second))
    }

    fn poll_on(&self, event: &Event) -> Next<'m, B> {
        self.resolve(event).or_else(|| self.poll_last(&self.body.tx))
    }

    #[cold]
    fn poll_failed(&self, errno: Errno) -> Next<'m, B> {
        match self.body.failed(&self.body.tx, errno).transpose()? {
            Ok(event) => self.poll_on(&event),
            Err(error) => Some(Err(error)),
        }
    }

    fn poll_last(&self, queue: &T::Cq) -> Next<'m, B> {
        let polled = self.poll_queue(queue);
        if polled.is_none() {
            self.body.ops.drained(Direction::BOTH);
        }
        polled
    }

    fn poll_queue(&self, queue: &T::Cq) -> Next<'m, B> {
        // Bounded by the capacity of the queue and new events of peers.
        loop {
            let completion = match self.body.next_event(queue).transpose()? {
                Ok(event) => self.resolve(&event),
                Err(error) => return Some(Err(error)),
            };
            if completion.is_some() {
                return completion;
            }
        }
    }

    /// Returns the next completion of a send, read or write.
    ///
    /// # Errors
    /// Those of [`Cq::poll`](Self::poll).
    pub fn poll_tx(&self) -> Result<Option<Completion<'m, B>>, CqError> {
        self.poll_direction(&self.body.tx, Direction::Transmit)
    }

    /// Returns the next completion of a receive, or event of a peer.
    ///
    /// # Errors
    /// Those of [`Cq::poll`](Self::poll).
    pub fn poll_rx(&self) -> Result<Option<Completion<'m, B>>, CqError> {
        self.poll_direction(self.body.rx.as_ref().unwrap_or(&self.body.tx), Direction::Receive)
    }

    /// Keeps completions of the other direction: one raw queue may report both.
    fn poll_direction(&self, queue: &T::Cq, direction: Direction) -> Result<Option<Completion<'m, B>>, CqError> {
        if self.body.driven.get() {
            return Err(CqError::Driven);
        }
        self.body.post_used_up_again();
        loop {
            if let Some(completion) = self.take_kept(direction) {
                return Ok(Some(completion));
            }
            if !self.body.keep_next(queue)? {
                match self.body.rx {
                    Some(_) => self.body.ops.drained([direction]),
                    None => self.body.ops.drained(Direction::BOTH),
                }
                return Ok(None);
            }
        }
    }

    fn resolve(&self, event: &Event) -> Next<'m, B> {
        if let Some(event) = self.body.unmatched_by_flags(event) {
            return Some(Ok(self.unmatched(event)));
        }
        if let Err(error) = of_an_operation(event) {
            return Some(Err(error));
        }
        // SAFETY: the transport has just reported the event, and a queue has one table.
        let completion = match unsafe { self.body.ops.complete(event) } {
            Resolution::Done(done) => Some(Completion::Op(done)),
            Resolution::Piece(piece) => Some(Completion::Piece(self.piece(piece))),
            Resolution::Peek(peek) => Some(Completion::Peek(peek)),
            Resolution::Value(fetched) => Some(Completion::Value(fetched)),
            Resolution::Unwanted(error) => Some(Completion::Unclaimed(error)),
            Resolution::Foreign if event.is_error() => Some(Completion::Unclaimed(OpError::of(event))),
            Resolution::Continues | Resolution::Stale | Resolution::Foreign => None,
        };
        completion.map(Ok)
    }
}
