//! Faults of the software transport: effects of each fault, and their limits.

mod delay;
mod fail;
mod grants;
mod kill;
mod overrun;
mod refuse;
mod reorder;
mod replay;

use loom_core::av::Av;
use loom_core::completion::{Completion, Done, OpError, Transfer};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::Rejected;
use loom_core::soft::{Injected, Network, NetworkAttr, Plan, Soft};

type Bytes = Box<[u8]>;
type Queue = Cq<'static, Soft<'static>, Bytes>;
type Side = Endpoint<'static, Soft<'static>, Bytes>;

const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 4, tx_depth: 64, rx_depth: 64, eager_size: 64, regions: 4, ..NetworkAttr::DEFAULT };
/// Longer than a cell, so that messages are offers.
const LONG: usize = 100;
/// More polls than any delay.
const PATIENCE: u64 = 1000;

fn bytes(seed: usize, len: usize) -> Bytes {
    (0..len).map(|at| u8::try_from((at * 7 + seed * 13) % 251).unwrap()).collect()
}

/// Endpoints on queues of their own. `a` and `c` have the plan, `b` does not.
struct World {
    a: Side,
    b: Side,
    c: Side,
    to_a: Peer,
    to_b: Peer,
    domain: Domain<'static, Soft<'static>>,
    network: Network<'static>,
}

impl World {
    fn injected(&self) -> Injected {
        self.network.injected()
    }

    /// Polls all sides this number of times, and checks that they report no event.
    fn quiet(&self, polls: usize) {
        for _ in 0..polls {
            for side in [&self.a, &self.b, &self.c] {
                assert!(side.cq().poll().unwrap().is_none());
            }
        }
    }
}

/// A world where all endpoints but `b` have this plan.
fn under(plan: Plan, test: impl FnOnce(&World)) {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info_with_faults(plan)).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let open = || Cq::open(&domain, CqAttr::new(64)).unwrap();
    let (on_a, on_b, on_c) = (open(), open(), open());
    let (a, c) = (on_a.endpoint(&av).unwrap(), on_c.endpoint(&av).unwrap());
    let sound = network.info();
    let b = on_b.endpoint(Binding::to(&av).info(sound.clone())).unwrap();
    let [to_a, to_b] = [&a, &b].map(|side| av.insert(&side.address().unwrap()).unwrap());
    test(&World { a, b, c, to_a, to_b, domain, network });
}

/// Posts, and retries after transient errors.
fn post(cq: &Queue, mut buf: Bytes, post: impl Fn(Bytes) -> Result<OpKey, Rejected<Bytes>>) -> OpKey {
    for _ in 0..PATIENCE {
        match post(buf) {
            Ok(key) => return key,
            Err(rejected) => {
                assert!(rejected.error.is_transient(), "{}", rejected.error);
                buf = rejected.value;
                cq.progress().unwrap();
            }
        }
    }
    panic!("refused {PATIENCE} times");
}

/// Waits for the end of an operation and keeps the queue's other completions.
fn end(cq: &Queue, key: OpKey) -> (Bytes, Result<Transfer, OpError>) {
    cq.wait(key, Spins(PATIENCE)).unwrap().expect("it ends").into_parts()
}

/// Returns the next completion of a queue within this number of polls.
fn next(cq: &Queue, polls: usize) -> Option<Done<Bytes>> {
    (0..polls).find_map(|_| cq.poll().unwrap()).map(|completion| match completion {
        Completion::Op(done) => done,
        other => panic!("{other:?}"),
    })
}
