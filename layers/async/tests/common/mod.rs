//! What the tests share.

#![allow(dead_code, reason = "not every test uses everything")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use loom_core::objects::driver::{CqDriver, Drive, Unclaimed};
use loom_core::soft::{Network, NetworkAttr, Plan, Soft};
use loom_core::{Av, Cq, Domain, Endpoint, Peer};

/// Tasks of any type, which may borrow what was declared before the executor.
pub(crate) type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Fails the test if it takes too long, and lets other threads run.
pub(crate) struct Bounded<D> {
    drive: D,
    until: Instant,
}

pub(crate) fn bounded<D: Drive>(drive: D) -> Bounded<D> {
    Bounded { drive, until: Instant::now() + Duration::from_secs(100) }
}

impl<D: Drive> Drive for Bounded<D> {
    fn turn(&self, budget: usize) -> usize {
        let events = self.drive.turn(budget);
        if events == 0 {
            std::thread::yield_now();
        }
        assert!(Instant::now() < self.until, "a wake-up is missing");
        events
    }
}

/// Drives nothing, and counts the turns.
#[derive(Default)]
pub(crate) struct Idle {
    pub(crate) turns: Cell<usize>,
}

impl Drive for Idle {
    fn turn(&self, _: usize) -> usize {
        self.turns.set(self.turns.get() + 1);
        0
    }
}

/// Returns once, and is polled again in the next round.
pub(crate) fn next_round() -> impl Future<Output = ()> {
    let mut polled = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// The waker of the task that awaits this.
pub(crate) fn waker() -> impl Future<Output = std::task::Waker> {
    std::future::poll_fn(|cx: &mut Context<'_>| Poll::Ready(cx.waker().clone()))
}

/// Two endpoints of a queue, and its driver.
pub(crate) struct Pair {
    pub(crate) domain: Domain<'static, Soft<'static>>,
    pub(crate) alice: Endpoint<'static, Soft<'static>, Vec<u8>>,
    pub(crate) bob: Endpoint<'static, Soft<'static>, Vec<u8>>,
    pub(crate) to_bob: Peer,
    pub(crate) to_alice: Peer,
    pub(crate) driver: CqDriver<'static, Soft<'static>, Vec<u8>>,
}

impl Pair {
    /// With a queue for so many operations.
    pub(crate) fn open(depth: usize) -> Self {
        Self::with(depth, Unclaimed::Drop, Plan::new(1))
    }

    /// With these faults.
    pub(crate) fn with(depth: usize, unclaimed: Unclaimed, plan: Plan) -> Self {
        let network = Network::new(NetworkAttr { tx_depth: 16, ..NetworkAttr::default() }).unwrap();
        let domain = Domain::open(&network.info_with_faults(plan)).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, depth).unwrap());
        let [alice, bob] = [cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap()];
        let to_bob = av.insert(&bob.address().unwrap()).unwrap();
        let to_alice = av.insert(&alice.address().unwrap()).unwrap();
        let driver = CqDriver::open(&cq, unclaimed).unwrap();
        Pair { domain, alice, bob, to_bob, to_alice, driver }
    }
}
