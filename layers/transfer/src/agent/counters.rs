use core::sync::atomic::{AtomicU64, Ordering};
use std::boxed::Box;

/// Counts since the agent was opened.
///
/// ```
/// use loom_transfer::Counters;
///
/// let (before, now) = (Counters { bytes: 4096, ..Counters::default() }, Counters { bytes: 8192, ..Counters::default() });
/// assert_eq!(now.bytes - before.bytes, 4096);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Transfers that were taken over.
    pub submitted: u64,
    /// Transfers that are done.
    pub done: u64,
    /// Transfers that ended otherwise.
    pub failed: u64,
    /// Successful operations.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Submissions that waited for room in the engine.
    pub retries: u64,
}

/// Only the thread writes.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) submitted: AtomicU64,
    pub(super) done: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) operations: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) histogram: Option<Box<[AtomicU64; 64]>>,
}

pub(super) fn add(count: &AtomicU64, by: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Counts {
    pub(super) fn new(histogram: bool) -> Self {
        let histogram = histogram.then(|| Box::new([const { AtomicU64::new(0) }; 64]));
        Counts { histogram, ..Counts::default() }
    }

    pub(super) fn record(&self, ns: u64) {
        if let Some(histogram) = &self.histogram {
            add(&histogram[ns.checked_ilog2().unwrap_or(0) as usize], 1);
        }
    }

    pub(super) fn read(&self) -> Counters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counters {
            submitted: read(&self.submitted),
            done: read(&self.done),
            failed: read(&self.failed),
            operations: read(&self.operations),
            bytes: read(&self.bytes),
            retries: read(&self.retries),
        }
    }
}
