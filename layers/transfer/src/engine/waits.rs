//! [`Wait`]: its value of immediate data, deadline and failure.

use allocator_api2::alloc::Allocator;
use loom_core::engine::arrivals::{ArrivalKey, Arrivals};
use loom_core::error::{OpenError, PostError};
use loom_core::storage::Array;
use loom_core::{Buffer, CqError, Error, Transport};

use super::Engine;
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
/// let Some(Event::WaitFailed { wait: ended, error }) = engine.poll(1_000)? else { panic!("the deadline") };
/// assert_eq!((ended, error), (wait, Error::Queue(CqError::TimedOut)));
/// # Ok::<_, Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Value, below [`EngineAttr::values`](crate::EngineAttr::values).
    pub value: u64,
    /// Total of writes with this value since the engine was opened.
    pub total: u64,
    /// Peer whose failure ends the wait. With `None`, any peer's failed transfer with this value
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
    /// failure. [`poll`](Self::poll) reports the end.
    ///
    /// # Errors
    /// [`Error::Queue`] for a value of [`EngineAttr::values`](crate::EngineAttr::values) or above, or
    /// beyond [`EngineAttr::waits`](crate::EngineAttr::waits), [`PostError::UnknownPeer`].
    pub fn wait(&mut self, wait: Wait) -> Result<ArrivalKey, Error> {
        if wait.peer.is_some_and(|peer| self.peers.rails(peer).is_none()) {
            return Err(PostError::UnknownPeer.into());
        }
        let key = self.arrivals.wait_for(wait.value, wait.total)?;
        self.waits.begin(key, wait);
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

/// Waits that may fail, in the order of their slots.
pub(super) struct Waits<A: Allocator> {
    slots: Array<Option<(ArrivalKey, Wait, Option<Error>)>, A>,
    used: usize,
    failed: usize,
    next_deadline: u64,
}

impl<A: Allocator + Clone> Waits<A> {
    pub(super) fn new(len: usize, alloc: &A) -> Result<Self, OpenError> {
        let slots = Array::new_in(len, alloc.clone(), |_| None)?;
        Ok(Waits { slots, used: 0, failed: 0, next_deadline: u64::MAX })
    }
}

impl<A: Allocator> Waits<A> {
    pub(super) fn begin(&mut self, key: ArrivalKey, wait: Wait) {
        // There are as many slots as waits of the table.
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some((key, wait, None));
            self.used += 1;
            self.next_deadline = self.next_deadline.min(wait.deadline);
        }
    }

    pub(super) fn end(&mut self, key: ArrivalKey) {
        if self.used == 0 {
            return;
        }
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.is_some_and(|slot| slot.0 == key)) {
            self.failed -= usize::from(slot.take().is_some_and(|slot| slot.2.is_some()));
            self.used -= 1;
        }
    }

    pub(super) fn fail(&mut self, error: Error, which: impl Fn(&Wait) -> bool) {
        for (_, wait, failed) in self.slots.iter_mut().flatten() {
            if failed.is_none() && which(wait) {
                *failed = Some(error);
                self.failed += 1;
            }
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

    pub(super) fn next_failed<B: Allocator>(&mut self, arrivals: &Arrivals<B>) -> Option<(ArrivalKey, Error)> {
        while self.failed > 0 {
            let slot = self.slots.iter_mut().find(|slot| slot.is_some_and(|slot| slot.2.is_some()))?;
            let (key, _, error) = slot.take()?;
            self.used -= 1;
            self.failed -= 1;
            if let (Ok(()), Some(error)) = (arrivals.give_up(key), error) {
                return Some((key, error));
            }
        }
        None
    }
}
