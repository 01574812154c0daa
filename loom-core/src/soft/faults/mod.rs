//! Injected faults of a [`Plan`], and their counts.

mod plan;
pub(crate) mod required_modes;
pub(crate) mod strict;

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

pub(super) use self::plan::MOST_LOOKS;
pub(super) use self::plan::Rules;
pub use self::plan::{Every, Plan};
use self::strict::Strict;
use super::shared::list::NIL;
use super::shared::queue::Queue;
use crate::transport::Event;
use crate::util::random::Random;
use crate::vocabulary::{CompletionFlags, Errno, FabricAddr};

#[derive(Debug)]
pub(super) struct Faults {
    pub(super) rules: Cell<Rules>,
    random: Cell<Random>,
    /// Remaining number up to the strike, or zero for never.
    pub(super) refuse: Cell<u32>,
    fail: Cell<u32>,
    pub(super) lose: Cell<u32>,
    overrun: Cell<u32>,
    pub(super) kill: Cell<u32>,
    pub(super) dead: Cell<bool>,
    /// Number of delayed writes and reads, and number of polls for them.
    pub(super) late: Cell<u32>,
    pub(super) looks: Cell<u32>,
    /// Messages in flight to this port, as a linked list, oldest first.
    pub(super) held: Cell<u32>,
    /// Faults of all endpoints that had this place.
    pub(super) tally: Tally,
}

pub(super) fn strikes(left: &Cell<u32>) -> bool {
    let before = left.get();
    left.set(before.saturating_sub(1));
    before == 1
}

impl Faults {
    pub(super) fn none() -> Self {
        let zero = || Cell::new(0);
        Faults {
            rules: Cell::new(Rules { plan: Plan::new(0), strict: None }),
            random: Cell::new(Random::new(0)),
            refuse: zero(),
            fail: zero(),
            lose: zero(),
            overrun: zero(),
            kill: zero(),
            dead: Cell::new(false),
            late: zero(),
            looks: zero(),
            held: Cell::new(NIL),
            tally: Tally([const { AtomicU64::new(0) }; 7]),
        }
    }

    pub(super) fn begin(&self, rules: Rules, addr: u64) {
        let plan = rules.plan;
        let mut random = Random::new(plan.seed ^ Random::new(addr).next());
        self.refuse.set(plan.refuse.draw(&mut random));
        self.fail.set(plan.fail.draw(&mut random));
        self.lose.set(plan.lose.draw(&mut random));
        self.overrun.set(plan.overrun.draw(&mut random));
        self.kill.set(plan.kill.draw(&mut random));
        self.random.set(random);
        self.rules.set(rules);
        self.dead.set(false);
    }

    pub(super) fn draw(&self, draw: impl FnOnce(&mut Random) -> u32) -> u32 {
        let mut random = self.random.get();
        let drawn = draw(&mut random);
        self.random.set(random);
        drawn
    }

    pub(super) fn delay(&self) -> Option<u32> {
        let most = self.rules.get().plan.delay;
        (most > 0).then(|| self.draw(|random| random.up_to(most)))
    }

    pub(super) fn strikes_again(&self, left: &Cell<u32>, every: impl FnOnce(&Plan) -> Every) -> bool {
        let now = strikes(left);
        if now {
            left.set(self.draw(|random| every(&self.rules.get().plan).draw(random)));
        }
        now
    }

    pub(super) fn strict(&self) -> Option<Strict> {
        self.rules.get().strict
    }

    /// Replaces the error of a forbidden write by a success in a strict network, as over `shm`,
    /// `tcp;ofi_rxm` and `net`.
    pub(super) fn end_of_write(&self, result: Result<(), Errno>) -> Result<(), Errno> {
        match result {
            Err(Errno::ENOKEY | Errno::EACCES | Errno::EFAULT) if self.strict().is_some() => Ok(()),
            other => other,
        }
    }

    fn hide_source(&self, event: &mut Event) {
        if self.rules.get().hides_sources() {
            event.source = FabricAddr::UNSPEC;
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn note_news(&self, event: &mut Event, queue: &Queue) {
        self.hide_source(event);
        if self.strict().is_some() {
            // As over `tcp;ofi_rxm` and `net` of libfabric 1.
            event.len = 0;
            event.flags.remove(CompletionFlags::RMA);
        }
        if queue.is_overrun() {
            queue.lose_newest();
        }
    }

    pub(super) fn note_end(&self, event: &mut Event, queue: &Queue) -> bool {
        self.hide_source(event);
        if !event.is_error() && self.strikes_again(&self.fail, |plan| plan.fail) {
            self.tally.count(Fault::Failed);
            (event.errno, event.provider_errno) = (Errno::EIO, Errno::EIO.as_raw());
            event.overflow_or_place = 0;
        }
        if strikes(&self.overrun) && !queue.is_overrun() {
            self.tally.count(Fault::Overrun);
            queue.overrun();
        }
        !queue.is_overrun()
    }
}

/// Number of faults that the plans of a network have injected
/// ([`Network::injected`](crate::soft::Network::injected)).
///
/// ```
/// use loom_core::{Domain, Errno, Forever, Source, soft::{Every, Network, NetworkAttr, Plan}};
///
/// let network = Network::new(NetworkAttr::default())?;
/// // Each second operation is done, and reported as failed.
/// let domain = Domain::open(&network.info_with_faults(Plan { fail: Every::Nth(2), ..Plan::new(0) }))?;
/// # fixture::pair!(domain, av, cq, alice, bob, to_bob);
/// let keys = [bob.recv(Source::Any, vec![0; 5])?, bob.recv(Source::Any, vec![0; 5])?];
/// for _ in keys {
///     cq.retry(Forever, || bob.inject(to_bob, b"hello"))?;
/// }
/// cq.finish(keys[0], Forever)?.result()?;
/// assert_eq!(cq.finish(keys[1], Forever)?.result().unwrap_err().errno, Errno::EIO);
/// assert_eq!((network.injected().failed, network.injected().total()), (1, 1));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Injected {
    /// Posts that were refused with "try again".
    pub refused: u64,
    /// Messages that arrived late.
    pub delayed: u64,
    /// Writes and reads that were done after their posts.
    pub reordered: u64,
    /// Operations that were done and reported as failed.
    pub failed: u64,
    /// Operations that were dropped and reported as failed.
    pub lost: u64,
    /// Queues that were overrun.
    pub overrun: u64,
    /// Endpoints that were killed.
    pub killed: u64,
}

impl Injected {
    pub(super) fn sum<'f>(of: impl Iterator<Item = &'f Faults>) -> Self {
        let mut sum = Injected::default();
        of.for_each(|faults| faults.tally.add_to(&mut sum));
        sum
    }

    /// Sum of all counts.
    #[must_use]
    pub const fn total(&self) -> u64 {
        let Injected { refused, delayed, reordered, failed, lost, overrun, killed } = *self;
        refused + delayed + reordered + failed + lost + overrun + killed
    }
}

/// One thread at a time writes the counts, and any thread reads them.
#[derive(Debug)]
pub(super) struct Tally([AtomicU64; 7]);

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Refused,
    Delayed,
    Reordered,
    Failed,
    Lost,
    Overrun,
    Killed,
}

impl Tally {
    pub(super) fn count(&self, fault: Fault) {
        self.0[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_to(&self, sum: &mut Injected) {
        let Injected { refused, delayed, reordered, failed, lost, overrun, killed } = sum;
        for (sum, count) in [refused, delayed, reordered, failed, lost, overrun, killed].into_iter().zip(&self.0) {
            *sum += count.load(Ordering::Relaxed);
        }
    }
}
