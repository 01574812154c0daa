//! [`Plan`]: what goes wrong at the endpoints that are opened with it.

use super::super::required_modes::RequiredModes;
use super::super::strict::Strict;
use crate::random::Random;
use crate::vocabulary::{Attributes, Caps, MsgOrder};

/// How often something goes wrong.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::soft::{Every, Plan};
/// use loom_core::{Av, Cq, Domain, Source};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// // Two posts of three are taken, and the third is refused.
/// let info = network.info_with_faults(Plan::new(1).refuse(Every::Nth(3)));
/// # let domain = Domain::open(&info)?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let endpoint = cq.endpoint(&av)?;
/// let refused = (0..9).filter(|_| endpoint.recv(Source::Any, vec![0; 5]).is_err()).count();
/// assert_eq!((refused, network.injected().refused), (3, 3));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Each time after this number; never, if that is zero.
    Nth(u32),
    /// On average after this number: after one at least and twice as many less one at most, as the seed has it, but no more than
    /// 2^32 - 1. Never, if it is zero.
    About(u32),
}

/// What goes wrong at endpoints, and the seed of everything about it that is drawn
/// ([`Network::info_with_faults`](crate::soft::Network::info_with_faults)).
///
/// Each endpoint draws by itself, from the seed and its address. On one thread the same seed gives the same run; on several, an
/// endpoint that does the same is done the same to. Nothing is taken from an allocator: what is delayed waits in the network's
/// cells.
///
/// What goes out is up to the plan of the endpoint that sends, what comes in and how it is reported to that of the one that
/// receives. An endpoint can have another plan than its domain, where both ask for the same
/// ([`Binding::info`](crate::endpoint::Binding::info)): one peer that is killed among others that are
/// not.
///
/// # Example
/// A protocol of one's own, under many seeds: here, that a number arrives which is asked for.
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::{av::Av, cq::Cq, deadline::{Forever, Spins}, domain::Domain, endpoint::Source, info::Info};
/// use loom_core::soft::{Every, Network, NetworkAttr, Plan, Soft};
///
/// /// The protocol: `None` if there is no answer.
/// fn ask(info: &Info<Soft<'static>>) -> Result<Option<u8>, loom_core::Error> {
///     let domain = Domain::open(info)?;
///     let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 8)?);
///     let (client, server) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
///     let (to_client, to_server) = (av.insert(&client.address()?)?, av.insert(&server.address()?)?);
///     // What is refused for the moment is posted again.
///     let asked = cq.post(vec![0], Forever, |question| server.recv(Source::Any, question))?;
///     let told = cq.post(vec![0], Forever, |answer| client.recv(Source::Any, answer))?;
///     cq.retry(Forever, || client.inject(to_server, &[41]))?;
///     let Some(done) = cq.wait(asked, Spins(100))? else { return Ok(None) };
///     let number = done.into_buf()[0];
///     cq.retry(Forever, || server.inject(to_client, &[number + 1]))?;
///     Ok(cq.wait(told, Spins(100))?.map(|done| done.into_buf()[0]))
/// }
///
/// for seed in 0..50 {
///     let network = Network::new(NetworkAttr { endpoints: 2, regions: 0, ..NetworkAttr::DEFAULT })?;
///     let plan = Plan::new(seed).refuse(Every::About(2)).delay(5);
///     assert_eq!(ask(&network.info_with_faults(plan))?, Some(42), "with seed {seed}");
///     assert!(network.injected().total() > 0, "a plan that never strikes tests nothing");
/// }
/// // If the server dies, or the client, the protocol says so instead of hanging.
/// let network = Network::new(NetworkAttr::DEFAULT)?;
/// assert!(ask(&network.info_with_faults(Plan::new(1).kill(Every::Nth(2)))).is_err());
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an endpoint is opened with it"]
pub struct Plan {
    pub(super) seed: u64,
    pub(in crate::soft) refuse: Every,
    pub(super) fail: Every,
    pub(in crate::soft) lose: Every,
    pub(super) overrun: Every,
    pub(super) kill: Every,
    pub(super) delay: u32,
    pub(in crate::soft) reorder: u32,
    without: Caps,
    ordered: bool,
    narrow_data: bool,
    one_range: bool,
    modes: RequiredModes,
    /// In a strict network.
    pub(in crate::soft) strict: Option<Strict>,
}

/// The most looks for which an operation is held back: between numbers of looks that lie no further apart, which wrap around,
/// it learns which one comes first.
pub(in crate::soft) const MOST_LOOKS: u32 = u32::MAX / 2;

/// The order of RMA operations among each other, and of messages behind them.
const RMA_ORDER: MsgOrder = MsgOrder::SAS.complement();

impl Plan {
    /// Nothing goes wrong, yet.
    pub const fn new(seed: u64) -> Self {
        Plan {
            seed,
            refuse: Every::Nth(0),
            fail: Every::Nth(0),
            lose: Every::Nth(0),
            overrun: Every::Nth(0),
            kill: Every::Nth(0),
            delay: 0,
            reorder: 0,
            without: Caps::empty(),
            ordered: true,
            narrow_data: false,
            one_range: false,
            modes: RequiredModes::none(),
            strict: None,
        }
    }

    /// Posts of any kind are refused with "try again" ([`PostError::Again`](crate::error::PostError::Again)), as by a full queue
    /// of a card. Refused posts count, too: with every second one refused, a program that tries again at once succeeds.
    pub const fn refuse(mut self, every: Every) -> Self {
        self.refuse = every;
        self
    }

    /// What the endpoint sends arrives later: after some further polls by the receiver which found nothing else, this number at
    /// most. Messages of one sender keep their order, and so does the news of its writes; other senders' overtake them.
    pub const fn delay(mut self, polls: u32) -> Self {
        self.delay = polls;
        self
    }

    /// Writes and reads of one range are done later than the post returns, and in another order: by some further polls of the
    /// endpoint which found nothing else, this number at most (and 2^31 - 1), and before they are reported. Until then the buffer is lent. What was
    /// injected lies with the endpoint, and is lost if that is closed before.
    ///
    /// The endpoint's info grants no order but that of messages ([`MsgOrder::SAS`]), and such operations go on while later
    /// messages arrive. An operation that finds the peer or its region gone ends as it would have when it was posted; one that
    /// was injected has no event.
    pub const fn reorder(mut self, polls: u32) -> Self {
        self.reorder = if polls < MOST_LOOKS { polls } else { MOST_LOOKS };
        self.unordered()
    }

    /// Operations that have been done are reported as failed, with [`EIO`](crate::vocabulary::Errno::EIO), as when an
    /// acknowledgement is lost: receives, and sends, writes and reads which report their success. The peer has the message or the
    /// written bytes, this side what it has received or read, and `len` says how much.
    pub const fn fail(mut self, every: Every) -> Self {
        self.fail = every;
        self
    }

    /// Sends, writes and reads which report their success are not done, and reported as failed with
    /// [`ECONNABORTED`](crate::vocabulary::Errno::ECONNABORTED): the peer sees nothing of them. What has several ranges in the peer's
    /// memory is not lost.
    pub const fn lose(mut self, every: Every) -> Self {
        self.lose = every;
        self
    }

    /// The queue of the endpoint is overrun when this number of the endpoint's operations has ended, once: that event and all that
    /// follow are lost. What the queue has is still polled; from then on it fails with
    /// [`EOVERRUN`](crate::vocabulary::Errno::EOVERRUN), its endpoints are not driven any more, and posts on them are told to try
    /// again. Buffers come back when the endpoints are closed, or the queue is.
    pub const fn overrun(mut self, every: Every) -> Self {
        self.overrun = every;
        self
    }

    /// The endpoint is gone at the post that `every` names, once, as if its process had died. Its messages and writes that were not
    /// received yet, and those on their way to it, end, as they do when an endpoint is closed: peers see errors.
    ///
    /// Its own posts are refused with [`ESHUTDOWN`](crate::vocabulary::Errno::ESHUTDOWN); what it has posted ends when it is
    /// closed, and buffers come back then. Its queue serves other endpoints as before.
    pub const fn kill(mut self, every: Every) -> Self {
        self.kill = every;
        self
    }

    /// The info does not grant this. Without [`RMA`](Caps::RMA), nor any of its parts.
    pub const fn without(mut self, caps: Caps) -> Self {
        self.without = self.without.union(caps);
        if caps.contains(Caps::RMA) {
            let parts = Caps::READ.union(Caps::WRITE).union(Caps::REMOTE_READ).union(Caps::REMOTE_WRITE);
            self.without = self.without.union(parts);
        }
        self
    }

    /// The info grants no order of writes and reads, among each other and of messages behind them (`FI_ORDER_WAW` and others).
    pub const fn unordered(mut self) -> Self {
        self.ordered = false;
        self
    }

    /// Immediate data has four bytes (`cq_data_size`), as over InfiniBand.
    pub const fn narrow_data(mut self) -> Self {
        self.narrow_data = true;
        self
    }

    /// An operation has one range, on either side (`iov_limit`, `rma_iov_limit`).
    pub const fn one_range(mut self) -> Self {
        self.one_range = true;
        self
    }

    /// The domain asks for this.
    pub const fn require(mut self, modes: RequiredModes) -> Self {
        self.modes = modes;
        self
    }

    /// In a strict network, which grants this.
    pub(in crate::soft) const fn with_strict(mut self, strict: Strict) -> Self {
        self.strict = Some(strict);
        self
    }

    /// What domains ask for.
    pub(in crate::soft) const fn modes(&self) -> RequiredModes {
        self.modes
    }

    /// Whether anything goes wrong at an endpoint, beside what the info grants and asks for.
    pub(in crate::soft) fn strikes(&self) -> bool {
        let none = Plan::new(self.seed);
        let of = |plan: &Plan| (plan.refuse, plan.fail, plan.lose, plan.overrun, plan.kill, plan.delay, plan.reorder);
        of(self) != of(&none) || self.hides_sources() || self.strict.is_some()
    }

    /// Whether events hide where messages come from.
    pub(super) fn hides_sources(&self) -> bool {
        self.without.contains(Caps::SOURCE) || self.strict.is_some_and(|strict| !strict.tells_sources())
    }

    /// Takes from what a network grants.
    pub(in crate::soft) fn take_from(&self, granted: &mut Attributes) {
        if let Some(strict) = self.strict {
            strict.take_from(granted);
        }
        let Attributes { caps, endpoint, tx, rx, domain, .. } = granted;
        for caps in [caps, &mut tx.caps, &mut rx.caps] {
            caps.remove(self.without);
        }
        if !self.ordered {
            tx.msg_order.remove(RMA_ORDER);
            rx.msg_order.remove(RMA_ORDER);
            endpoint.max_order_raw_size = 0;
            endpoint.max_order_war_size = 0;
            endpoint.max_order_waw_size = 0;
        }
        if self.narrow_data {
            domain.cq_data_size = size_of::<u32>();
        }
        if self.one_range {
            (tx.iov_limit, tx.rma_iov_limit, rx.iov_limit) = (1, 1, 1);
        }
    }
}

impl Every {
    /// After how many it strikes the next time; zero for never.
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
        assert_eq!(Plan::new(0).reorder(u32::MAX).reorder, MOST_LOOKS);
        assert_eq!(Plan::new(0).reorder(9).reorder, 9);
    }
}
