#![allow(unsafe_code, reason = "passes events of queues to the op table")]

use core::borrow::Borrow;

use super::kept_events::UnmatchedEvent;
use super::read_event::{Detour, PEERS};
use super::{Cq, CqError, CqInner};
use crate::buffer::Buffer;
use crate::counter::Counter;
use crate::deadline::Deadline;
use crate::engine::op_table::{Done, Fetched, OpKey, Peek, Taken};
use crate::transport::{Event, Transport};

impl<T: Transport, B: Buffer> Cq<'_, T, B> {
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
    /// - [`CqError::Queue`], [`CqError::Driven`]
    #[doc(alias = "fi_cq_sread")]
    pub fn wait(&self, key: OpKey, mut until: impl Deadline) -> Result<Option<Done<B>>, CqError> {
        self.check_not_driven()?;
        let mut checks = DeadlineChecks::default();
        loop {
            match self.body.ops.take(key) {
                Taken::Done(done) => return Ok(Some(done)),
                Taken::Unknown => return Err(CqError::UnknownKey),
                Taken::Draining => return Err(CqError::PiecesOut),
                Taken::InFlight => {}
            }
            // SAFETY: `advance` passes an event that the transport has just reported, and a queue
            // has one table. With prefixes, all polls are slow.
            let kept = match self.body.advance(|event| unsafe { self.body.ops.succeed_as(key, event) })? {
                Advance::Taken(done) => return Ok(Some(done)),
                Advance::Kept(kept) => kept,
            };
            if checks.are_due(kept) && until.passed() {
                // A failed repost completes without an event.
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
        let mut checks = DeadlineChecks::default();
        loop {
            if !ops.is_valued(key) {
                return ops.take_value(key).map(Some).ok_or(CqError::UnknownKey);
            }
            // SAFETY: `advance` passes an event that the transport has just reported, and a queue
            // has one table.
            let kept = match self.body.advance(|event| unsafe { ops.succeed_value(key, event) })? {
                Advance::Taken(fetched) => return Ok(Some(fetched)),
                Advance::Kept(kept) => kept,
            };
            if checks.are_due(kept) && until.passed() {
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
    /// - [`CqError::PeerEvents`]
    /// - [`CqError::Queue`]
    #[doc(alias = "fi_cntr_wait")]
    pub fn wait_counter(
        &self,
        counter: &Counter<'_, T>,
        threshold: u64,
        mut until: impl Deadline,
    ) -> Result<bool, CqError> {
        let failed = counter.read_error();
        let mut checks = DeadlineChecks::default();
        loop {
            if counter.read() >= threshold {
                return Ok(true);
            }
            if counter.read_error() != failed {
                return Err(CqError::CountedFailure);
            }
            if checks.are_due(self.progress()?) && until.passed() {
                return Ok(counter.read() >= threshold);
            }
        }
    }

    /// [`wait`](Self::wait) for the answer to a peek.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait). `UnknownKey` also if the endpoint was closed.
    pub fn wait_peek(&self, key: OpKey, mut until: impl Deadline) -> Result<Option<Peek>, CqError> {
        self.check_not_driven()?;
        let mut checks = DeadlineChecks::default();
        loop {
            if let Some(peek) = self.take_peek(key) {
                return Ok(Some(peek));
            }
            if !self.body.ops.is_peeking(key) {
                return Err(CqError::UnknownKey);
            }
            if checks.are_due(self.body.progress()?) && until.passed() {
                return Ok(self.take_peek(key));
            }
        }
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
        if ops.contains(key) { Ok(ops.parked_success(key)) } else { Err(CqError::UnknownKey) }
    }

    /// Drives progress and keeps completions, which hold slots. Returns `true` if an event was
    /// processed.
    ///
    /// # Errors
    /// [`CqError::PeerEvents`], [`CqError::Queue`]
    pub fn progress(&self) -> Result<bool, CqError> {
        let busy = self.body.progress();
        // A driver may wait for a completion that is kept now, without a signal of the provider.
        self.ops().wake_driver();
        busy
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

    pub(crate) fn take_peek(&self, key: OpKey) -> Option<Peek> {
        let mut unmatched = self.body.unmatched.borrow_mut();
        let mut found = None;
        // One full rotation keeps the order of the other events.
        for _ in 0..unmatched.len() {
            match unmatched.pop_front()? {
                UnmatchedEvent::Peek { peek, .. } if peek.key == key && found.is_none() => found = Some(peek),
                other => {
                    let _ = unmatched.push_back(other);
                }
            }
        }
        found
    }
}

/// Checks of a deadline: when no event came, and after every 256th kept event, because events of
/// other operations could come for ever.
#[derive(Default)]
struct DeadlineChecks {
    kept_events: u8,
}

impl DeadlineChecks {
    #[inline(always)]
    const fn are_due(&mut self, has_kept: bool) -> bool {
        if has_kept {
            self.kept_events = self.kept_events.wrapping_add(1);
            return self.kept_events == 0;
        }
        true
    }
}

enum Advance<R> {
    Taken(R),
    /// `true` if an event was kept.
    Kept(bool),
}

impl<T: Transport, B: Buffer> CqInner<T, B> {
    /// A single inlined path, like [`Cq::poll`].
    #[inline(always)]
    fn advance<R>(&self, take: impl FnOnce(&Event) -> Option<R>) -> Result<Advance<R>, CqError> {
        let detour = if self.ops.needs_slow_poll() && self.refresh_slow_poll() {
            Detour::Slow
        } else {
            match self.read(&self.tx) {
                Ok(Some(event)) => {
                    let event = event.borrow();
                    if !event.flags.intersects(PEERS)
                        && let Some(taken) = take(event)
                    {
                        return Ok(Advance::Taken(taken));
                    }
                    Detour::Event(Event::clone(event))
                }
                Ok(None) => return Ok(Advance::Kept(false)),
                Err(errno) => Detour::Failed(errno),
            }
        };
        self.advance_detour(detour).map(Advance::Kept)
    }

    #[cold]
    #[inline(never)]
    fn advance_detour(&self, detour: Detour) -> Result<bool, CqError> {
        match detour {
            Detour::Slow => self.progress(),
            Detour::Event(event) => self.keep_read(&self.tx, Ok(Some(event))),
            Detour::Failed(errno) => self.keep_read(&self.tx, Err(errno)),
        }
    }
}
