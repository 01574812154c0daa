//! [`Wait`]: its value of immediate data, deadline and failure.

use allocator_api2::alloc::Allocator;
use loom_core::engine::arrivals::{ArrivalKey, Arrivals};
use loom_core::error::{OpenError, PostError};
use loom_core::storage::Array;
use loom_core::{Buffer, CqError, Error, Transport};

use super::Engine;
use crate::control::UNCOUNTED;
use crate::link::LinkState;
use crate::peers::PeerKey;
use crate::plan::Plan;

/// Wait for writes with one value of immediate data.
///
/// ```
/// use loom_core::{Error, CqError, allocator_api2::alloc::Global};
/// use loom_transfer::{Block, Engine, EngineAttr, Event, Wait};
///
/// # fixture::domain!(network, domain);
/// let mut engine = Engine::<_, Vec<u8>, Block, _>::open_in(&[domain], EngineAttr::default(), Global)?;
/// let wait = engine.wait(Wait { deadline: 1_000, ..Wait::new(5, 16) })?;
/// assert!(engine.poll(999)?.is_none());
/// let Some(Event::WaitFailed { wait: ended, error, .. }) = engine.poll(1_000)? else { panic!("the deadline") };
/// assert_eq!((ended, error), (wait, Error::Queue(CqError::TimedOut)));
/// # Ok::<_, Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Value, below [`EngineAttr::values`](crate::EngineAttr::values).
    pub value: u64,
    /// Total of writes with this value since the engine was opened.
    pub total: u64,
    /// Peer that ends the wait by a failure. With `None`, any peer's failed transfer with the value
    /// does.
    pub peer: Option<PeerKey>,
    /// Time at which the wait ends, in nanoseconds on the clock of
    /// [`Engine::poll`](crate::Engine::poll). `u64::MAX` for no limit.
    pub deadline: u64,
}

impl Wait {
    /// Waits without a limit, for writes of any peers.
    #[must_use]
    pub const fn new(value: u64, total: u64) -> Self {
        Wait { value, total, peer: None, deadline: u64::MAX }
    }
}

impl<T: Transport, M: Buffer + Send, P: Plan, A: Allocator + Send> Engine<'_, T, M, P, A> {
    /// Waits for writes with one value of immediate data: by their total, until a deadline, or a
    /// failure, also an earlier one that ended no wait. [`poll`](Self::poll) reports the end.
    ///
    /// # Errors
    /// [`Error::Queue`] for a value of [`EngineAttr::values`](crate::EngineAttr::values) or above, or
    /// beyond [`EngineAttr::waits`](crate::EngineAttr::waits), [`PostError::UnknownPeer`].
    pub fn wait(&mut self, wait: Wait) -> Result<ArrivalKey, Error> {
        if wait.peer.is_some_and(|peer| self.peers.rails(peer).is_none()) {
            return Err(PostError::UnknownPeer.into());
        }
        let key = self.arrivals.wait_for(wait.value, wait.total)?;
        let state = wait.peer.and_then(|peer| self.peers.link(peer)).map(|link| link.state);
        self.waits.begin(key, wait, if let Some(LinkState::Failed(error)) = state { Some(error) } else { None });
        Ok(key)
    }

    /// Ends a wait. Later arrivals are still counted. Returns `false` for an unknown key.
    pub fn end_wait(&mut self, key: ArrivalKey) -> bool {
        self.waits.end(key);
        self.arrivals.give_up(key).is_ok()
    }

    /// Number of writes with a value of immediate data since the engine was opened. 0 for a value
    /// that is not counted.
    #[must_use]
    pub fn arrived(&self, value: u64) -> u64 {
        self.arrivals.total(value).unwrap_or(0)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Failure {
    pub(super) error: Error,
    /// Peer that has reported it, and its number of writes.
    report: Option<(PeerKey, u64)>,
}

impl Failure {
    pub(super) fn late_writes(&self) -> Option<u64> {
        self.report.map(|(_, writes)| writes).filter(|writes| *writes != UNCOUNTED)
    }
}

/// Report of a peer about its writes with a value.
struct Report {
    value: u64,
    peer: PeerKey,
    failure: Failure,
}

impl Report {
    fn concerns(&self, wait: &Wait) -> bool {
        self.value == wait.value && wait.peer.is_none_or(|peer| peer == self.peer)
    }
}

/// Waits that may fail, in the order of their slots.
pub(super) struct Waits<A: Allocator> {
    slots: Array<Option<(ArrivalKey, Wait, Option<Failure>)>, A>,
    used: usize,
    failed: usize,
    next_deadline: u64,
    /// The last report of each value and peer, until a wait has failed by it.
    reports: Array<Option<Report>, A>,
    /// Replaced next, if all are in use.
    oldest: usize,
}

impl<A: Allocator + Clone> Waits<A> {
    pub(super) fn new(len: usize, alloc: &A) -> Result<Self, OpenError> {
        let slots = Array::new_in(len, alloc.clone(), |_| None)?;
        let reports = Array::new_in(len, alloc.clone(), |_| None)?;
        Ok(Waits { slots, used: 0, failed: 0, next_deadline: u64::MAX, reports, oldest: 0 })
    }
}

impl<A: Allocator> Waits<A> {
    pub(super) fn begin(&mut self, key: ArrivalKey, wait: Wait, error: Option<Error>) {
        let report = self.reports.iter().flatten().find(|report| report.concerns(&wait));
        let unreported = error.map(|error| Failure { error, report: None });
        let failure = report.map(|report| report.failure).or(unreported);
        // There are as many slots as waits of the table.
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some((key, wait, failure));
            self.used += 1;
            self.failed += usize::from(failure.is_some());
            self.next_deadline = self.next_deadline.min(wait.deadline);
        }
    }

    pub(super) fn end(&mut self, key: ArrivalKey) {
        if self.used == 0 {
            return;
        }
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.is_some_and(|slot| slot.0 == key)) {
            let Some((_, wait, failure)) = slot.take() else { return };
            self.used -= 1;
            self.failed -= usize::from(failure.is_some());
            self.drop_reports(|report| report.concerns(&wait));
        }
    }

    pub(super) fn fail(&mut self, error: Error, which: impl Fn(&Wait) -> bool) {
        self.fail_with(Failure { error, report: None }, which);
    }

    fn fail_with(&mut self, failure: Failure, which: impl Fn(&Wait) -> bool) {
        for (_, wait, failed) in self.slots.iter_mut().flatten() {
            if failed.is_none() && which(wait) {
                *failed = Some(failure);
                self.failed += 1;
            }
        }
    }

    /// Fails the waits for a peer's writes with a value, and those that begin later.
    pub(super) fn report(&mut self, value: u64, peer: PeerKey, error: Error, writes: u64) {
        let failure = Failure { error, report: Some((peer, writes)) };
        let report = Report { value, peer, failure };
        self.fail_with(failure, |wait| report.concerns(wait));
        let is_same = |kept: &Report| kept.value == value && kept.peer == peer;
        let same = self.reports.iter().position(|kept| kept.as_ref().is_some_and(is_same));
        let at = same.or_else(|| self.reports.iter().position(Option::is_none)).unwrap_or_else(|| {
            let next = (self.oldest + 1) % self.reports.len().max(1);
            core::mem::replace(&mut self.oldest, next)
        });
        if let Some(kept) = self.reports.get_mut(at) {
            *kept = Some(report);
        }
    }

    /// Drops the reports of a peer's former engine.
    pub(super) fn forget(&mut self, peer: PeerKey) {
        self.drop_reports(|report| report.peer == peer);
    }

    fn drop_reports(&mut self, which: impl Fn(&Report) -> bool) {
        for report in self.reports.iter_mut().filter(|report| report.as_ref().is_some_and(&which)) {
            *report = None;
        }
    }

    pub(super) fn expire(&mut self, now: u64) {
        if now < self.next_deadline {
            return;
        }
        self.fail(CqError::TimedOut.into(), |wait| wait.deadline <= now && wait.deadline != u64::MAX);
        let later = self.slots.iter().flatten().map(|slot| slot.1.deadline).filter(|deadline| *deadline > now);
        self.next_deadline = later.min().unwrap_or(u64::MAX);
    }

    pub(super) fn next_failed<B: Allocator>(&mut self, arrivals: &Arrivals<B>) -> Option<(ArrivalKey, Failure)> {
        while self.failed > 0 {
            let slot = self.slots.iter_mut().find(|slot| slot.is_some_and(|slot| slot.2.is_some()))?;
            let (key, wait, failure) = slot.take()?;
            self.used -= 1;
            self.failed -= 1;
            if let (Ok(()), Some(failure)) = (arrivals.give_up(key), failure) {
                if let Some((peer, _)) = failure.report {
                    self.drop_reports(|report| report.value == wait.value && report.peer == peer);
                }
                return Some((key, failure));
            }
        }
        None
    }
}
