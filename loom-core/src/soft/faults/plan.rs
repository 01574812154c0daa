use super::required_modes::RequiredModes;
use super::strict::Strict;
use crate::util::random::Random;
use crate::vocabulary::{Attributes, Caps, MsgOrder};

/// Frequency of a fault.
///
/// ```
/// use loom_core::{Av, Cq, Domain, Source, soft::{Every, Plan}};
/// # use loom_core::soft::{Network, NetworkAttr};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// // Two posts of three are taken, and the third is refused.
/// let info = network.info_with_faults(Plan { refuse: Every::Nth(3), ..Plan::new(1) });
/// # let domain = Domain::open(&info)?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let endpoint = cq.endpoint(&av)?;
/// let refused = (0..9).filter(|_| endpoint.recv(Source::Any, vec![0; 5]).is_err()).count();
/// assert_eq!((refused, network.injected().refused), (3, 3));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Strikes each time after this number of opportunities, or never if it is zero.
    Nth(u32),
    /// Strikes after this number of opportunities on average. Never strikes if it is zero.
    About(u32),
}

/// Faults of endpoints, and the seed of all random choices
/// ([`Network::info_with_faults`](crate::soft::Network::info_with_faults)).
///
/// On one thread, equal seeds give equal runs, with equal attributes of the network (`LOOM_STRICT`
/// changes them).
///
/// # Example
/// ```
/// use loom_core::{Domain, Error, Forever, Info, Source, Spins, soft::{Every, Network, NetworkAttr, Plan, Soft}};
/// fn greet(info: &Info<Soft<'static>>) -> Result<Vec<u8>, Error> {
///     let domain = Domain::open(info)?;
/// # fixture::pair!(domain, av, cq, alice, bob, to_bob);
///     let received = cq.post(vec![0; 5], Forever, |room| bob.recv(Source::Any, room))?;
///     cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
///     Ok(cq.finish(received, Spins(100))?.into_result()?.0)
/// }
/// # let network = || Network::new(NetworkAttr { endpoints: 2, regions: 0, ..NetworkAttr::DEFAULT });
/// for seed in 0..50 {
///     let plan = Plan { refuse: Every::About(2), delay: 5, ..Plan::new(seed) };
///     assert_eq!(greet(&network()?.info_with_faults(plan))?, b"hello", "with seed {seed}");
/// }
/// assert!(greet(&network()?.info_with_faults(Plan { kill: Every::Nth(1), ..Plan::new(1) })).is_err());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an endpoint is opened with it"]
pub struct Plan {
    /// Seed of all random choices.
    pub seed: u64,
    /// Refuses posts with [`PostError::Again`](crate::error::PostError::Again), like a full queue
    /// of a network card.
    pub refuse: Every,
    /// Reports completed operations as failed with [`EIO`](crate::vocabulary::Errno::EIO):
    /// receives, and sends, writes and reads that report success.
    pub fail: Every,
    /// Drops sends, writes and reads that report success, and reports
    /// [`ECONNABORTED`](crate::vocabulary::Errno::ECONNABORTED). Injected messages and writes report
    /// no success, and arrive.
    pub lose: Every,
    /// Overruns the endpoint's queue, once, at this number of its completed operations. After the
    /// earlier events, the queue fails with [`EOVERRUN`](crate::vocabulary::Errno::EOVERRUN), its
    /// endpoints make no progress, and posts on them return "try again".
    pub overrun: Every,
    /// Kills the endpoint at the selected post, once, as if its process had died.
    pub kill: Every,
    /// Delays sent messages by further polls of the receiver without other events, at most this
    /// number. Messages and news of writes of one sender keep their order.
    pub delay: u32,
    /// Delays and reorders writes and reads of one range, by at most this number (and 2^31 - 1) of
    /// polls of the endpoint without other events. Injected bytes are lost if the endpoint is
    /// closed earlier.
    ///
    /// The info grants only the order of messages ([`MsgOrder::SAS`]), unless this is zero.
    pub reorder: u32,
    /// Delays writes and reads with `FI_MORE` until the next one without it, like a card until its
    /// doorbell. Removes the order of both.
    pub doorbell: bool,
    /// Capabilities that are removed from the info, [`Caps::RMA`] with its parts.
    pub without: Caps,
    /// Removes the order of writes and reads, and of messages behind them (`FI_ORDER_WAW` and
    /// others).
    pub unordered: bool,
    /// Limits immediate data to four bytes (`cq_data_size`), as over InfiniBand.
    pub narrow_data: bool,
    /// Limits operations to one range on either side (`iov_limit`, `rma_iov_limit`).
    pub one_range: bool,
    /// Modes that the domain requires.
    pub required: RequiredModes,
}

/// Largest number of polls by which an operation is delayed.
pub(in crate::soft) const MOST_LOOKS: u32 = u32::MAX / 2;

const RMA_ORDER: MsgOrder = MsgOrder::SAS.complement();

impl Plan {
    /// Creates a plan without faults.
    pub const fn new(seed: u64) -> Self {
        const NEVER: Every = Every::Nth(0);
        Plan {
            seed,
            refuse: NEVER,
            fail: NEVER,
            lose: NEVER,
            overrun: NEVER,
            kill: NEVER,
            delay: 0,
            reorder: 0,
            doorbell: false,
            without: Caps::empty(),
            unordered: false,
            narrow_data: false,
            one_range: false,
            required: RequiredModes::empty(),
        }
    }

    pub(in crate::soft) fn most_looks(&self) -> u32 {
        self.reorder.min(MOST_LOOKS)
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::soft) struct Rules {
    pub(in crate::soft) plan: Plan,
    pub(in crate::soft) strict: Option<Strict>,
}

impl Rules {
    pub(in crate::soft) fn strikes(&self) -> bool {
        let Plan { refuse, fail, lose, overrun, kill, delay, reorder, doorbell, .. } = self.plan;
        [refuse, fail, lose, overrun, kill].iter().any(|every| *every != Every::Nth(0))
            || (delay, reorder, doorbell) != (0, 0, false)
            || self.hides_sources()
            || self.strict.is_some()
    }

    pub(super) fn hides_sources(&self) -> bool {
        self.plan.without.contains(Caps::SOURCE) || self.strict.is_some_and(|strict| !strict.reports_sources())
    }

    pub(in crate::soft) fn take_from(&self, granted: &mut Attributes) {
        if let Some(strict) = self.strict {
            strict.take_from(granted);
        }
        let Plan { without, unordered, reorder, doorbell, narrow_data, one_range, .. } = self.plan;
        let Attributes { caps, endpoint, tx, rx, domain, .. } = granted;
        let parts = Caps::READ | Caps::WRITE | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
        for caps in [caps, &mut tx.caps, &mut rx.caps] {
            caps.remove(if without.contains(Caps::RMA) { without | parts } else { without });
        }
        if unordered || reorder > 0 || doorbell {
            tx.msg_order.remove(RMA_ORDER);
            rx.msg_order.remove(RMA_ORDER);
            endpoint.max_order_raw_size = 0;
            endpoint.max_order_war_size = 0;
            endpoint.max_order_waw_size = 0;
        }
        if narrow_data {
            domain.cq_data_size = size_of::<u32>();
        }
        if one_range {
            (tx.iov_limit, tx.rma_iov_limit, rx.iov_limit) = (1, 1, 1);
        }
    }
}

impl Every {
    pub(super) fn draw(self, random: &mut Random) -> u32 {
        match self {
            Every::Nth(count) => count,
            Every::About(0) => 0,
            Every::About(count) => 1 + random.up_to((count - 1).saturating_mul(2).min(u32::MAX - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_numbers_are_drawn_within_their_bounds() {
        let mut random = Random::new(7);
        let halves = [1 << 31, u32::MAX].map(|count| {
            let drawn = [(); 1000].map(|()| Every::About(count).draw(&mut random));
            assert!(!drawn.contains(&0), "it strikes");
            drawn.iter().filter(|drawn| **drawn > 1 << 31).count()
        });
        assert!(halves.iter().all(|half| (400..600).contains(half)), "{halves:?}");
        assert_eq!(Plan { reorder: u32::MAX, ..Plan::new(0) }.most_looks(), MOST_LOOKS);
        assert_eq!(Plan { reorder: 9, ..Plan::new(0) }.most_looks(), 9);
    }
}
