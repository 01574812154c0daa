#![allow(dead_code, reason = "not every test uses everything")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use loom_core::driver::{CqDriver, Drive, Unclaimed};
use loom_core::soft::{Network, NetworkAttr, Plan, Soft};
use loom_core::{Av, Cq, Domain, Endpoint, Peer};

pub(crate) type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Fails the test after many turns without an event, because a single thread has no other wake-ups.
pub(crate) struct Bounded<D> {
    drive: D,
    empty: Cell<u32>,
}

pub(crate) const fn bounded<D: Drive>(drive: D) -> Bounded<D> {
    Bounded { drive, empty: Cell::new(0) }
}

impl<D: Drive> Drive for Bounded<D> {
    fn turn(&self, budget: usize) -> usize {
        let events = self.drive.turn(budget);
        self.empty.set(if events == 0 { self.empty.get() + 1 } else { 0 });
        assert!(self.empty.get() < 3_000_000, "a wake-up is missing");
        events
    }
}

#[derive(Default)]
pub(crate) struct Idle {
    turns: Cell<u32>,
}

impl Drive for Idle {
    fn turn(&self, _: usize) -> usize {
        self.turns.set(self.turns.get() + 1);
        assert!(self.turns.get() < 3_000_000, "a wake-up is missing");
        0
    }
}

/// Yields to other threads and fails the test after 100 s.
pub(crate) struct Threads {
    until: Instant,
}

impl Threads {
    pub(crate) fn run() -> Self {
        Threads { until: Instant::now() + Duration::from_secs(100) }
    }
}

impl Drive for Threads {
    fn turn(&self, _: usize) -> usize {
        std::thread::yield_now();
        assert!(Instant::now() < self.until, "a wake-up is missing");
        0
    }
}

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

pub(crate) fn waker() -> impl Future<Output = std::task::Waker> {
    std::future::poll_fn(|cx: &mut Context<'_>| Poll::Ready(cx.waker().clone()))
}

pub(crate) struct Pair {
    pub(crate) domain: Domain<'static, Soft<'static>>,
    pub(crate) alice: Endpoint<'static, Soft<'static>, Vec<u8>>,
    pub(crate) bob: Endpoint<'static, Soft<'static>, Vec<u8>>,
    pub(crate) to_bob: Peer,
    pub(crate) to_alice: Peer,
    pub(crate) driver: CqDriver<'static, Soft<'static>, Vec<u8>>,
}

impl Pair {
    pub(crate) fn open(depth: usize) -> Self {
        Self::with(depth, Unclaimed::Drop, Plan::new(1))
    }

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
