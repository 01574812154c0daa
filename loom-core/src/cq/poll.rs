#![allow(unsafe_code, reason = "polls open raw queues, and passes their reports to the op table")]

use core::borrow::Borrow;

use super::read_event::{Detour, PEERS};
use super::{Completion, Cq, CqError, RemoteEvent};
use crate::buffer::Buffer;
use crate::engine::op_table::OpError;
use crate::engine::op_table::{Direction, Resolution};
use crate::transport::{Event, Transport};

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
    /// [`CqError::Queue`], [`CqError::Driven`]
    #[doc(alias = "fi_cq_read")]
    // Inlined, with only the fast path: a success of an operation, or a peer's write. The rest is a
    // `Detour`.
    #[inline(always)]
    pub fn poll(&self) -> Result<Option<Completion<'m, B>>, CqError> {
        let detour = if self.body.ops.needs_slow_poll() {
            Detour::Slow
        } else {
            match self.body.read(&self.body.tx) {
                Ok(Some(event)) => {
                    let event = event.borrow();
                    if !event.flags.intersects(PEERS) {
                        // SAFETY: the transport has just reported the event, and a queue has one
                        // table. With prefixes, all polls are slow.
                        if let Some(done) = unsafe { self.body.ops.succeed(event) } {
                            return Ok(Some(Completion::Op(done)));
                        }
                    } else if !event.is_error() && !self.body.writes_consume_receives {
                        return Ok(Some(Completion::Remote(RemoteEvent::of(event))));
                    }
                    Detour::Event(Event::clone(event))
                }
                // No events of closed endpoints remain: polls are slow until the queue is drained.
                Ok(None) => return Ok(None),
                Err(errno) => Detour::Failed(errno),
            }
        };
        self.poll_detour(detour).transpose()
    }

    /// Transposed, so that the fast path does not share its memory for the result.
    #[cold]
    #[inline(never)]
    fn poll_detour(&self, detour: Detour) -> Option<Result<Completion<'m, B>, CqError>> {
        self.take_detour(detour).transpose()
    }

    fn take_detour(&self, detour: Detour) -> Result<Option<Completion<'m, B>>, CqError> {
        let read = match detour {
            Detour::Slow => return self.poll_slowly(),
            Detour::Event(event) => Ok(Some(event)),
            Detour::Failed(errno) => Err(errno),
        };
        let event = self.body.checked(&self.body.tx, read)?;
        match event.and_then(|event| self.resolve(&event)) {
            Some(completion) => Ok(Some(completion)),
            None => self.poll_and_mark_drained(&self.body.tx),
        }
    }

    fn poll_slowly(&self) -> Result<Option<Completion<'m, B>>, CqError> {
        self.check_not_driven()?;
        self.body.post_used_up_again();
        if let Some(completion) = self.take_any_kept() {
            return Ok(Some(completion));
        }
        let Some(rx) = &self.body.rx else { return self.poll_and_mark_drained(&self.body.tx) };
        let rx_first = self.body.rx_first.get();
        self.body.rx_first.set(!rx_first);
        let (first, second) = if rx_first { (rx, &self.body.tx) } else { (&self.body.tx, rx) };
        match self.poll_queue(first)? {
            Some(completion) => Ok(Some(completion)),
            None => self.poll_and_mark_drained(second),
        }
    }

    fn poll_and_mark_drained(&self, queue: &T::Cq) -> Result<Option<Completion<'m, B>>, CqError> {
        let polled = self.poll_queue(queue)?;
        if polled.is_none() {
            self.body.ops.drained(Direction::BOTH);
        }
        Ok(polled)
    }

    /// Bounded by the capacity of the queue and new events of peers.
    fn poll_queue(&self, queue: &T::Cq) -> Result<Option<Completion<'m, B>>, CqError> {
        while let Some(event) = self.body.next_event(queue)? {
            if let Some(completion) = self.resolve(&event) {
                return Ok(Some(completion));
            }
        }
        Ok(None)
    }

    /// Returns the next completion of this direction. Events of peers are received.
    ///
    /// Keeps completions of the other direction: one raw queue may report both.
    ///
    /// # Errors
    /// Those of [`Cq::poll`](Self::poll).
    pub fn poll_direction(&self, direction: Direction) -> Result<Option<Completion<'m, B>>, CqError> {
        let queue = self.body.rx.as_ref().filter(|_| direction == Direction::Receive).unwrap_or(&self.body.tx);
        self.check_not_driven()?;
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

    /// Returns `None` for events without effect on users.
    fn resolve(&self, event: &Event) -> Option<Completion<'m, B>> {
        if let Some(event) = self.body.take_peer_event(event) {
            return Some(Completion::Remote(event));
        }
        // SAFETY: the transport has just reported the event for this table.
        match unsafe { self.body.ops.complete(event) } {
            Resolution::Done(done) => Some(Completion::Op(done)),
            Resolution::Piece(piece) => Some(Completion::Piece(self.piece(piece))),
            Resolution::Peek(peek) => Some(Completion::Peek(peek)),
            Resolution::Value(fetched) => Some(Completion::Value(fetched)),
            Resolution::Unwanted(error) => Some(Completion::Unclaimed(error)),
            Resolution::Foreign if event.is_error() => Some(Completion::Unclaimed(OpError::of(event))),
            Resolution::Continues | Resolution::Stale | Resolution::Foreign => None,
        }
    }
}
