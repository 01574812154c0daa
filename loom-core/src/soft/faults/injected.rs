//! [`Injected`]: how often faults were injected.

use core::sync::atomic::{AtomicU64, Ordering};

use super::Faults;

/// How often the plans of a network have struck ([`Network::injected`](crate::soft::Network::injected)): a test under faults in
/// which none was injected has tested nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Injected {
    /// Posts that were told to try again.
    pub refused: u64,
    /// Messages that arrived later than they were sent.
    pub delayed: u64,
    /// Writes and reads that were done later than they were posted.
    pub reordered: u64,
    /// Operations that were done, and reported as failed.
    pub failed: u64,
    /// Operations that were not done, and reported as failed.
    pub lost: u64,
    /// Queues that were overrun.
    pub overrun: u64,
    /// Endpoints that were killed.
    pub killed: u64,
}

impl Injected {
    /// What was counted of several places.
    pub(in crate::soft) fn sum<'f>(of: impl Iterator<Item = &'f Faults>) -> Self {
        let mut sum = Injected::default();
        of.for_each(|faults| faults.tally.add_to(&mut sum));
        sum
    }

    /// All together.
    #[must_use]
    pub const fn total(&self) -> u64 {
        let Injected { refused, delayed, reordered, failed, lost, overrun, killed } = *self;
        refused + delayed + reordered + failed + lost + overrun + killed
    }
}

/// The same of one place for endpoints, as it is counted: by one thread at a time, and read by any.
#[derive(Debug)]
pub(super) struct Tally([AtomicU64; 7]);

impl Tally {
    pub(super) const fn new() -> Self {
        Tally([const { AtomicU64::new(0) }; 7])
    }

    fn count(&self, kind: usize) {
        self.0[kind].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.count(0);
    }

    pub(super) fn delayed(&self) {
        self.count(1);
    }

    pub(super) fn reordered(&self) {
        self.count(2);
    }

    pub(super) fn failed(&self) {
        self.count(3);
    }

    pub(super) fn overrun(&self) {
        self.count(4);
    }

    pub(super) fn killed(&self) {
        self.count(5);
    }

    pub(super) fn lost(&self) {
        self.count(6);
    }

    /// Adds what was counted here.
    pub(super) fn add_to(&self, sum: &mut Injected) {
        let Injected { refused, delayed, reordered, failed, lost, overrun, killed } = sum;
        for (sum, count) in [refused, delayed, reordered, failed, overrun, killed, lost].into_iter().zip(&self.0) {
            *sum += count.load(Ordering::Relaxed);
        }
    }
}
