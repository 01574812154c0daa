#![allow(unsafe_code, reason = "polls open raw queues, and passes their reports to the op table")]

use core::borrow::Borrow;

use super::keep::{UnmatchedEvent, check_overrun};
use super::{Completion, RemoteEvent};
use super::{Cq, CqError, CqInner};
use crate::buffer::Buffer;
use crate::engine::op_table::OpError;
use crate::engine::op_table::{Direction, Resolution};
use crate::transport::{Event, Transport};
use crate::vocabulary::{CompletionFlags, Errno};

pub(super) const PEERS: CompletionFlags = CompletionFlags::REMOTE_WRITE.union(CompletionFlags::REMOTE_READ);

type Polled<'m, B> = Option<Result<Completion<'m, B>, CqError>>;

pub(super) enum Detour {
    Slow,
    Event(Event),
    Failed(Errno),
}

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
    // Inlined, with only the fast path: a success of an operation, or a peer's write. It saves a
    // third of the cost of a poll. The rest is a `Detour`.
    #[inline(always)]
    pub fn poll(&self) -> Result<Option<Completion<'m, B>>, CqError> {
        let detour = if self.body.ops.needs_slow_poll() {
            Detour::Slow
        } else {
            // SAFETY: handles keep H1 and T1.
            match unsafe { T::cq_poll(&self.body.tx) } {
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
                    // Cloned only here, so that most events are never built in memory.
                    Detour::Event(Event::clone(event))
                }
                // No events of closed endpoints remain: polls are slow until the queue is drained.
                Ok(None) => return Ok(None),
                Err(errno) => Detour::Failed(errno),
            }
        };
        self.poll_detour(detour).transpose()
    }

    /// One call for all detours: with several, fast completions would be built in memory.
    #[cold]
    #[inline(never)]
    fn poll_detour(&self, detour: Detour) -> Polled<'m, B> {
        match detour {
            Detour::Slow => self.poll_slowly(),
            Detour::Event(event) => self.resolve_or_poll(&event),
            Detour::Failed(errno) => self.poll_failed(errno),
        }
    }

    fn poll_slowly(&self) -> Polled<'m, B> {
        if self.body.driven.get() {
            return Some(Err(CqError::Driven));
        }
        self.body.post_used_up_again();
        if let Some(completion) = self.take_any_kept() {
            return Some(Ok(completion));
        }
        let Some(rx) = &self.body.rx else { return self.poll_and_mark_drained(&self.body.tx) };
        let rx_first = self.body.rx_first.get();
        self.body.rx_first.set(!rx_first);
        let (first, second) = if rx_first { (rx, &self.body.tx) } else { (&self.body.tx, rx) };
        self.poll_queue(first).or_else(|| self.poll_and_mark_drained(second))
    }

    fn resolve_or_poll(&self, event: &Event) -> Polled<'m, B> {
        self.resolve(event).or_else(|| self.poll_and_mark_drained(&self.body.tx))
    }

    #[cold]
    fn poll_failed(&self, errno: Errno) -> Polled<'m, B> {
        match self.body.read_error_event(&self.body.tx, errno).transpose()? {
            Ok(event) => self.resolve_or_poll(&event),
            Err(error) => Some(Err(error)),
        }
    }

    fn poll_and_mark_drained(&self, queue: &T::Cq) -> Polled<'m, B> {
        let polled = self.poll_queue(queue);
        if polled.is_none() {
            self.body.ops.drained(Direction::BOTH);
        }
        polled
    }

    fn poll_queue(&self, queue: &T::Cq) -> Polled<'m, B> {
        // Bounded by the capacity of the queue and new events of peers.
        loop {
            // SAFETY: handles keep H1 and T1.
            let completion = match unsafe { T::cq_poll(queue) } {
                Ok(event) => self.resolve(event?.borrow()),
                Err(errno) => match self.body.read_error_event(queue, errno).transpose()? {
                    Ok(event) => self.resolve(&event),
                    Err(error) => return Some(Err(error)),
                },
            };
            if completion.is_some() {
                return completion;
            }
        }
    }

    /// Returns the next completion of this direction. Events of peers are received.
    ///
    /// Keeps completions of the other direction: one raw queue may report both.
    ///
    /// # Errors
    /// Those of [`Cq::poll`](Self::poll).
    pub fn poll_direction(&self, direction: Direction) -> Result<Option<Completion<'m, B>>, CqError> {
        let queue = self.body.rx.as_ref().filter(|_| direction == Direction::Receive).unwrap_or(&self.body.tx);
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

    fn resolve(&self, event: &Event) -> Polled<'m, B> {
        if let Some(event) = self.body.take_peer_event(event) {
            return Some(Ok(self.completion_of(event)));
        }
        if let Err(error) = check_overrun(event) {
            return Some(Err(error));
        }
        // SAFETY: the transport has just reported the event for this table.
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

impl<T: Transport, B: Buffer> CqInner<T, B> {
    #[cold]
    pub(super) fn read_error_event(&self, queue: &T::Cq, errno: Errno) -> Result<Option<Event>, CqError> {
        if errno != Errno::EAVAIL {
            return Err(errno.into());
        }
        // SAFETY: handles keep H1 and T1.
        let event = unsafe { T::cq_read_error(queue) }?;
        if let Some(event) = event.filter(|event| event.errno == Errno::ETRUNC)
            && let Some(endpoint) = self.ops.endpoint_of(event.context)
            && let Some(endpoint_slot) = self.endpoint_slots().get(usize::from(endpoint))
        {
            let whole = event.len.checked_add(event.overflow_or_place).filter(|_| event.overflow_or_place > 0);
            endpoint_slot.note_truncated(whole.unwrap_or(usize::MAX));
        }
        Ok(event)
    }

    /// The context of a peer's operation is meaningless, unless it consumes a receive.
    #[inline]
    pub(super) fn take_peer_event(&self, event: &Event) -> Option<UnmatchedEvent> {
        if !event.flags.intersects(PEERS) || event.is_error() {
            return None;
        }
        if self.writes_consume_receives {
            // SAFETY: the transport has just reported the event, with the context of a completed
            // receive.
            unsafe { self.ops.use_up(event.context) };
        }
        Some(UnmatchedEvent::Remote(RemoteEvent::of(event)))
    }
}
