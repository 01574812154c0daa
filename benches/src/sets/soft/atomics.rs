//! Two threads that add to the same word: over the software transport, and with
//! `core::sync::atomic`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use loom_core::Peer;
use loom_core::atomic::FetchOp;
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Forever;
use loom_core::domain::Domain;
use loom_core::endpoint::Endpoint;
use loom_core::endpoint::Granted;
use loom_core::info::Info;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::soft::Soft;
use loom_core::vocabulary::{Access, EndpointAddr};

use super::one_thread::info;
use crate::Failure;
use crate::contest::Contest;
use crate::cores::{self, Peer as Thread};
use crate::report::{Goal, Ratio, Run};

type Transport = Soft<'static>;

/// An endpoint, and the word of a peer that it adds to.
struct Adder {
    cq: Cq<'static, Transport, ()>,
    endpoint: Endpoint<'static, Transport, ()>,
    to: Peer,
    add: Granted<FetchOp<u64>>,
    region: RemoteRegion,
    offset: u64,
}

impl Adder {
    fn open(info: &Info<Transport>, owner: &EndpointAddr, (region, offset): (RemoteRegion, u64)) -> Adder {
        let domain = Domain::open(info).expect("domain");
        let add = domain.query_atomic(FetchOp::<u64>::SUM).expect("granted");
        let av = Av::open(&domain, 1).expect("address vector");
        let cq = Cq::open(&domain, CqAttr::new(4)).expect("queue");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        let to = av.insert(owner).expect("the owner in the vector");
        Adder { cq, endpoint, to, add, region, offset }
    }

    #[inline(never)]
    fn add(&self, count: u32) {
        let mut least = 0;
        for _ in 0..count {
            let post = || self.endpoint.fetch_value(self.to, &self.region, self.offset, self.add, 1);
            let key = self.cq.retry(Forever, post).expect("posted");
            let fetched = self.cq.wait_value(key, Forever).expect("the queue works").expect("there is no deadline");
            let fetched = fetched.value::<u64>().expect("it succeeds").expect("a word");
            assert!(fetched >= least, "the word only grows");
            least = fetched + 1;
        }
    }
}

/// Runs both threads, each with the adder from `open`. Returns the duration of the slower one.
fn both<'s, A: FnMut(u32) + 's>(
    scope: &'s Scope<'s, '_>,
    done: &'s AtomicU64,
    open: impl Fn() -> A + Clone + Send + 's,
) -> impl FnMut(u32) -> Duration + 's {
    let mut mine = open();
    let mut peer = Thread::start(scope, 1, move |rounds| {
        let mut theirs = open();
        for count in rounds {
            theirs(count);
            done.fetch_add(1, Ordering::Release);
        }
    });
    let mut rounds = done.load(Ordering::Relaxed);
    move |count| {
        rounds += 1;
        peer.begin(count);
        let begin = Instant::now();
        mine(count);
        while done.load(Ordering::Acquire) != rounds {}
        begin.elapsed()
    }
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    if !cores::has_two("soft_atomics") {
        return Ok(());
    }
    let info = &info()?;
    let domain = Domain::open(info)?;
    let (av, cq) = (Av::open(&domain, 1)?, Cq::<_, ()>::open(&domain, CqAttr::new(4))?);
    let owner = cq.endpoint(&av)?;
    let region = Mr::open(&domain, vec![0_u8; 256], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    let offset = region.window().as_ptr().align_offset(128);
    let word = region.window().element::<u64>(offset)?;
    let own = &AtomicU64::new(0);
    let (address, remote, done) = (&owner.address()?, &region.remote(), [AtomicU64::new(0), AtomicU64::new(0)]);
    std::thread::scope(|scope| {
        let soft = both(scope, &done[0], move || {
            let adder = Adder::open(info, address, (*remote, offset as u64));
            move |count| adder.add(count)
        });
        let bare = both(scope, &done[1], move || {
            move |count| {
                for _ in 0..count {
                    own.fetch_add(1, Ordering::AcqRel);
                }
            }
        });
        let outcome = Contest::new("fetch-and-add of 8 B by two threads")
            .side_that_measures("core::sync::atomic", bare)
            .side_that_measures("soft", soft)
            .run(&run.settings);
        run.contest(&outcome);
        let goal = Goal::Lower;
        let ratio = Ratio { name: "soft_over_core_atomic.fetch_add.8B", of: "soft", over: "core::sync::atomic", goal };
        run.ratio(&outcome, ratio);
    });
    assert!(word.load() > 0 && word.load() % 2 == 0, "both have added as often");
    Ok(())
}
