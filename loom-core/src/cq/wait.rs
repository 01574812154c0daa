//! Posting with retries, waiting for one operation, and keeping other completions meanwhile.

#![allow(unsafe_code, reason = "polls open raw queues, and tells the op table what they report")]

use core::borrow::Borrow;

use super::poll::{Detour, PEERS, of_an_operation};
use super::{Completion, Cq, CqError, CqInner, PEER_EVENTS, RemoteEvent};
use crate::buffer::Buffer;
use crate::counter::Counter;
use crate::deadline::Deadline;
use crate::engine::op_table::{
    Direction, Done, Fetched, Message, OpError, OpKey, ParkedCompletion, Peek, Resolution, Taken,
};
use crate::error::{PostError, Rejected};
use crate::transport::{Event, Transport};

/// Outcome of one look at the queue.
enum Advance<R> {
    Taken(R),
    /// An event was kept.
    Kept,
    Nothing,
}

/// Number of kept events between two checks of the deadline.
const EVENTS_PER_DEADLINE_CHECK: u32 = 256;

pub(super) enum UnmatchedEvent {
    Message(Message),
    Peek {
        peek: Peek,
        /// Its future was dropped, so any reader may take it.
        given_up: bool,
    },
    Remote(RemoteEvent),
    Unclaimed(OpError),
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// Waits for one operation. Other completions are kept for [`poll`](Self::poll). `Ok(None)`
    /// means that the deadline has passed with the operation in flight. Polls without sleeping: see
    /// [`may_sleep`](Self::may_sleep) for that.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use loom_core::{Forever, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// let soon = Instant::now() + Duration::from_millis(1);
    /// assert!(cq.wait(received, soon)?.is_none(), "no message has come, and the receive is still in flight");
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// let done = cq.wait(received, Forever)?.expect("there is no deadline");
    /// assert_eq!(done.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`CqError::UnknownKey`] if the completion was already taken
    /// - [`CqError::PeerEvents`] if events of peers have to be taken first
    /// - [`CqError::PiecesOut`] for a completed multi-receive with pieces out
    /// - [`CqError::Queue`] if the provider queue failed
    /// - [`CqError::Driven`] if a [driver](crate::driver) polls the queue
    #[doc(alias = "fi_cq_sread")]
    pub fn wait(&self, key: OpKey, mut until: impl Deadline) -> Result<Option<Done<B>>, CqError> {
        self.check_not_driven()?;
        let mut kept_events = 0_u32;
        loop {
            match self.body.ops.take(key) {
                Taken::Done(done) => return Ok(Some(done)),
                Taken::Unknown => return Err(CqError::UnknownKey),
                Taken::Draining => return Err(CqError::PiecesOut),
                Taken::InFlight => {}
            }
            // SAFETY: `advance` passes an event that the transport has just reported, and a queue
            // has one table. With prefixes (`detours`) it passes no event.
            let check_deadline = match self.body.advance(|event| unsafe { self.body.ops.succeed_as(key, event) })? {
                Advance::Taken(done) => return Ok(Some(done)),
                Advance::Kept => {
                    kept_events = kept_events.wrapping_add(1);
                    kept_events.is_multiple_of(EVENTS_PER_DEADLINE_CHECK)
                }
                Advance::Nothing => true,
            };
            if check_deadline && until.passed() {
                // An operation that failed to be posted again has completed without an event.
                return Ok(match self.body.ops.take(key) {
                    Taken::Done(done) => Some(done),
                    _ => None,
                });
            }
        }
    }

    /// [`wait`](Self::wait) for an atomic operation on a value.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    #[inline]
    pub fn wait_value(&self, key: OpKey, mut until: impl Deadline) -> Result<Option<Fetched>, CqError> {
        self.check_not_driven()?;
        let ops = &self.body.ops;
        let mut kept_events = 0_u32;
        loop {
            if !ops.is_valued(key) {
                return ops.take_value(key).map(Some).ok_or(CqError::UnknownKey);
            }
            // SAFETY: `advance` passes an event that the transport has just reported, and a queue
            // has one table.
            let check_deadline = match self.body.advance(|event| unsafe { ops.succeed_value(key, event) })? {
                Advance::Taken(fetched) => return Ok(Some(fetched)),
                Advance::Kept => {
                    kept_events = kept_events.wrapping_add(1);
                    kept_events.is_multiple_of(EVENTS_PER_DEADLINE_CHECK)
                }
                Advance::Nothing => true,
            };
            if check_deadline && until.passed() {
                return Ok(ops.take_value(key));
            }
        }
    }

    /// Waits until a counter reaches `threshold`. Drives progress, and keeps completions for
    /// [`poll`](Self::poll). `Ok(false)` means that the deadline has passed.
    ///
    /// [`Counter::wait_for`] sleeps instead, if the provider supports that.
    ///
    /// ```
    /// use loom_core::{Binding, Counted, Counter, CounterAttr, Forever, Source};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let received = Counter::open(&domain, CounterAttr::default())?;
    /// let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received))?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// for _ in 0..3 {
    ///     bob.recv(Source::Any, vec![0; 5])?;
    ///     cq.retry(Forever, || bob.inject(to_bob, b"hello"))?;
    /// }
    /// assert!(cq.wait_counter(&received, 3, Forever)?);
    /// assert!(cq.poll()?.is_some(), "the queue has kept the completions");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`CqError::CountedFailure`] if a counted operation fails meanwhile
    /// - [`CqError::PeerEvents`] if events of peers have to be taken first
    /// - [`CqError::Queue`] if the provider queue failed
    #[doc(alias = "fi_cntr_wait")]
    pub fn wait_counter(
        &self,
        counter: &Counter<'_, T>,
        threshold: u64,
        mut until: impl Deadline,
    ) -> Result<bool, CqError> {
        let failed = counter.read_error();
        loop {
            if counter.read() >= threshold {
                return Ok(true);
            }
            if counter.read_error() != failed {
                return Err(CqError::CountedFailure);
            }
            self.progress()?;
            // After every event, because uncounted operations could complete for ever.
            if until.passed() {
                return Ok(counter.read() >= threshold);
            }
        }
    }

    /// Returns `true` if the counter and the queue belong to one domain.
    ///
    /// ```
    /// use loom_core::{Counter, CounterAttr, Domain};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let other_domain = Domain::open(&network.info())?;
    /// let counters = [&domain, &other_domain].map(|domain| Counter::open(domain, CounterAttr::default()));
    /// let [counter, other] = counters;
    /// assert!(cq.shares_domain(&counter?) && !cq.shares_domain(&other?));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn shares_domain(&self, counter: &Counter<'_, T>) -> bool {
        counter.is_of(self.domain())
    }

    /// [`wait`](Self::wait) for the answer to a peek.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait). `UnknownKey` also if the endpoint was closed.
    pub fn wait_peek(&self, key: OpKey, mut until: impl Deadline) -> Result<Option<Peek>, CqError> {
        self.check_not_driven()?;
        loop {
            if let Some(peek) = self.take_peek(key) {
                return Ok(Some(peek));
            }
            if !self.body.ops.is_peeking(key) {
                return Err(CqError::UnknownKey);
            }
            if (!self.body.progress()? || !self.body.ops.is_peeking(key)) && until.passed() {
                return Ok(self.take_peek(key));
            }
        }
    }

    pub(super) fn take_peek(&self, key: OpKey) -> Option<Peek> {
        let mut unmatched = self.body.unmatched.borrow_mut();
        let mut found = None;
        // One full rotation keeps the order of the other events.
        for _ in 0..unmatched.len() {
            match unmatched.pop_front()? {
                UnmatchedEvent::Peek { peek, .. } if peek.key() == key && found.is_none() => found = Some(peek),
                other => {
                    let _ = unmatched.push_back(other);
                }
            }
        }
        found
    }

    /// Takes the completion of one operation without polling. Returns `None` if the operation is in
    /// flight.
    ///
    /// ```
    /// use loom_core::{Forever, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// assert!(cq.take(received)?.is_none(), "it is in flight");
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// let done = loop {
    ///     cq.progress()?;
    ///     if let Some(done) = cq.take(received)? { break done; }
    /// };
    /// assert_eq!(done.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait), except of the provider queue.
    pub fn take(&self, key: OpKey) -> Result<Option<Done<B>>, CqError> {
        self.check_not_driven()?;
        match self.body.ops.take(key) {
            Taken::Done(done) => Ok(Some(done)),
            Taken::Unknown => Err(CqError::UnknownKey),
            Taken::Draining => Err(CqError::PiecesOut),
            Taken::InFlight => Ok(None),
        }
    }

    /// Returns the outcome of an operation with a buffer without taking its completion: `None` if
    /// the operation is in flight, otherwise `true` for success. Also for driven queues.
    ///
    /// ```
    /// use loom_core::{Forever, Source, cq::CqError};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// assert_eq!(cq.has_succeeded(received), Ok(None));
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// while cq.has_succeeded(received)?.is_none() {
    ///     cq.progress()?;
    /// }
    /// assert_eq!(cq.has_succeeded(received), Ok(Some(true)));
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// assert_eq!(cq.has_succeeded(received), Err(CqError::UnknownKey));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CqError::UnknownKey`] if the completion was already taken.
    pub fn has_succeeded(&self, key: OpKey) -> Result<Option<bool>, CqError> {
        let ops = &self.body.ops;
        if ops.knows(key) { Ok(ops.parked_success(key)) } else { Err(CqError::UnknownKey) }
    }

    /// Drives progress and keeps completions, for loops around a post that fails with
    /// [`PostError::Again`]. Kept completions hold slots. Returns `true` if an event was processed.
    ///
    /// # Errors
    /// - [`CqError::PeerEvents`] if events of peers have to be taken first
    /// - [`CqError::Queue`] if the provider queue failed
    pub fn progress(&self) -> Result<bool, CqError> {
        let busy = self.body.progress();
        self.body.wants_driver();
        busy
    }

    #[cold]
    pub(super) fn take_any_kept(&self) -> Option<Completion<'m, B>> {
        let kept = self.take_kept(Direction::Receive).or_else(|| self.take_kept(Direction::Transmit));
        let ops = &self.body.ops;
        ops.set_kept(kept.is_some() || self.body.always_detours() || ops.has_used_up() || ops.has_ghosts());
        kept
    }

    pub(super) fn take_kept(&self, direction: Direction) -> Option<Completion<'m, B>> {
        if direction == Direction::Receive
            && let Some(event) = self.body.unmatched.borrow_mut().pop_front()
        {
            return Some(self.unmatched(event));
        }
        Some(match self.body.ops.take_parked(direction)? {
            ParkedCompletion::Done(done) => Completion::Op(done),
            ParkedCompletion::Value(fetched) => Completion::Value(fetched),
        })
    }

    pub(super) fn unmatched(&self, event: UnmatchedEvent) -> Completion<'m, B> {
        match event {
            UnmatchedEvent::Message(message) => Completion::Piece(self.piece(self.body.ops.piece(message))),
            UnmatchedEvent::Peek { peek, .. } => Completion::Peek(peek),
            UnmatchedEvent::Remote(event) => Completion::Remote(event),
            UnmatchedEvent::Unclaimed(error) => Completion::Unclaimed(error),
        }
    }
}

impl<T: Transport, B: Buffer> CqInner<T, B> {
    pub(super) fn progress(&self) -> Result<bool, CqError> {
        self.post_used_up_again();
        let mut busy = false;
        for queue in core::iter::once(&self.tx).chain(&self.rx) {
            busy |= self.keep_next(queue)?;
        }
        if !busy {
            self.ops.drained();
        }
        Ok(busy)
    }

    /// A single inlined path, like [`Cq::poll`].
    #[inline(always)]
    fn advance<R>(&self, take: impl FnOnce(&Event) -> Option<R>) -> Result<Advance<R>, CqError> {
        let detour = if self.ops.is_kept() && self.still_keeps() {
            Detour::Kept
        } else {
            // SAFETY: handles keep the queue open (H1) on its thread (T1).
            match unsafe { T::cq_poll(&self.tx) } {
                Ok(Some(event)) => {
                    let event = event.borrow();
                    if !event.flags.intersects(PEERS)
                        && let Some(taken) = take(event)
                    {
                        return Ok(Advance::Taken(taken));
                    }
                    Detour::Event(Event::clone(event))
                }
                Ok(None) => return Ok(Advance::Nothing),
                Err(errno) => Detour::Failed(errno),
            }
        };
        Ok(if self.advance_detour(detour)? { Advance::Kept } else { Advance::Nothing })
    }

    /// Updates the "kept" flag.
    #[cold]
    fn still_keeps(&self) -> bool {
        let kept = self.keeps_something() || self.always_detours() || self.ops.has_ghosts();
        self.ops.set_kept(kept);
        kept
    }

    #[cold]
    #[inline(never)]
    fn advance_detour(&self, detour: Detour) -> Result<bool, CqError> {
        let event = match detour {
            Detour::Kept => return self.progress(),
            Detour::Event(event) => event,
            Detour::Failed(errno) => match self.failed(&self.tx, errno)? {
                Some(event) => event,
                None => return Ok(false),
            },
        };
        self.keep(&event)?;
        Ok(true)
    }

    /// Returns `false` if the queue is empty.
    ///
    /// # Errors
    /// [`CqError::PeerEvents`] without room for a peer event.
    pub(super) fn keep_next(&self, queue: &T::Cq) -> Result<bool, CqError> {
        if self.unmatched.borrow().is_full() {
            return Err(CqError::PeerEvents);
        }
        // SAFETY: handles keep the queue open (H1) on its thread (T1).
        let event = match unsafe { T::cq_poll(queue) } {
            Ok(event) => event.map(|event| *event.borrow()),
            Err(errno) => self.failed(queue, errno)?,
        };
        let Some(event) = &event else { return Ok(false) };
        self.keep(event)?;
        Ok(true)
    }

    /// Requires room for the event.
    #[inline(never)]
    pub(super) fn keep(&self, event: &Event) -> Result<(), CqError> {
        of_an_operation(event)?;
        let kept = self.unmatched_by_flags(event).or_else(|| {
            // SAFETY: the transport has just reported the event, and a queue has one table.
            match unsafe { self.ops.park(event) } {
                Some(Resolution::Piece(piece)) => Some(UnmatchedEvent::Message(piece.into_message())),
                Some(Resolution::Peek(peek)) => Some(UnmatchedEvent::Peek { peek, given_up: false }),
                Some(Resolution::Unwanted(error)) => Some(UnmatchedEvent::Unclaimed(error)),
                Some(Resolution::Foreign) if event.is_error() => Some(UnmatchedEvent::Unclaimed(OpError::of(event))),
                _ => None,
            }
        });
        if let Some(kept) = kept {
            let pushed = self.unmatched.borrow_mut().push_back(kept);
            debug_assert!(pushed.is_ok(), "there is room, as the caller has seen");
            // A driver that does not learn of the event from this call checks for it.
            self.ops.note_news();
        }
        self.ops.set_kept(true);
        Ok(())
    }

    /// Keeps the events that closed endpoints left in the provider queues.
    pub(crate) fn collect(&self) {
        for queue in core::iter::once(&self.tx).chain(&self.rx) {
            for _ in 0..self.ops.capacity() + PEER_EVENTS {
                if !matches!(self.keep_next(queue), Ok(true)) {
                    break;
                }
            }
        }
    }

    /// Returns `true` if the next poll has work that the provider queue does not signal.
    pub(super) fn keeps_something(&self) -> bool {
        !self.unmatched.borrow().is_empty() || self.ops.has_parked() || self.ops.has_used_up()
    }
}

impl<T: Transport, B: Buffer> Cq<'_, T, B> {
    /// Posts a buffer. Retries after [`PostError::Full`] and [`PostError::Again`], and drives progress
    /// between attempts. Completions that arrive meanwhile are kept for [`poll`](Self::poll) and
    /// [`wait`](Self::wait), and hold slots. Returns [`PostError::Kept`] at once, because only taking
    /// completions frees a slot then.
    ///
    /// ```
    /// # use loom_core::{Av, Cq, Forever, Source};
    /// # fixture::domain!(network, domain);
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 4)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let received = cq.post(vec![0; 5], Forever, |room| bob.recv(Source::Any, room))?;
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The last refusal, with the buffer: a permanent error, or any error once the deadline has
    /// passed or the queue has failed ([`progress`](Self::progress) reports the cause).
    #[inline]
    pub fn post(
        &self,
        mut buf: B,
        mut until: impl Deadline,
        mut post: impl FnMut(B) -> Result<OpKey, Rejected<B>>,
    ) -> Result<OpKey, Rejected<B>> {
        loop {
            match post(buf) {
                Err(refused) if self.goes_on(refused.error, &mut until) => buf = refused.value,
                posted => return posted,
            }
        }
    }

    /// [`post`](Self::post) for operations without a buffer: injected messages and writes, and
    /// peeks.
    ///
    /// # Errors
    /// Those of [`post`](Self::post).
    #[inline]
    pub fn retry<V>(
        &self,
        mut until: impl Deadline,
        mut post: impl FnMut() -> Result<V, PostError>,
    ) -> Result<V, PostError> {
        loop {
            match post() {
                Err(error) if self.goes_on(error, &mut until) => {}
                posted => return posted,
            }
        }
    }

    /// Drives progress after a transient error. Precedes the deadline, which may count checks.
    #[cold]
    fn goes_on(&self, error: PostError, until: &mut impl Deadline) -> bool {
        error.is_transient() && error != PostError::Kept && self.progress().is_ok() && !until.passed()
    }

    /// [`wait`](Self::wait) with an error if the deadline passes.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait), and [`CqError::TimedOut`] with the operation in flight.
    pub fn finish(&self, key: OpKey, until: impl Deadline) -> Result<Done<B>, CqError> {
        self.wait(key, until)?.ok_or(CqError::TimedOut)
    }

    /// [`wait_value`](Self::wait_value) with an error if the deadline passes.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    #[inline]
    pub fn finish_value(&self, key: OpKey, until: impl Deadline) -> Result<Fetched, CqError> {
        self.wait_value(key, until)?.ok_or(CqError::TimedOut)
    }

    /// [`wait_peek`](Self::wait_peek) with an error if the deadline passes.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    #[doc(alias = "FI_PEEK")]
    pub fn finish_peek(&self, key: OpKey, until: impl Deadline) -> Result<Peek, CqError> {
        self.wait_peek(key, until)?.ok_or(CqError::TimedOut)
    }
}
