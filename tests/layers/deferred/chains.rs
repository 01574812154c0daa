//! Chains of 1,000 steps under every fault plan. Each buffer comes back once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::memory::Memory;
use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::completion::Completion;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::soft::{Every, Network, NetworkAttr, Plan};
use loom_core::vocabulary::Errno;
use loom_deferred::{Deferred, DeferredEvent, Work};

const STEPS: usize = 1000;

/// Chain, with its results.
struct Chain {
    /// Numbers of the messages that arrived, in the order of their completed receives.
    arrived: Vec<usize>,
    /// Number of reported steps, successful or failed.
    ended: usize,
    returned: usize,
    injected: u64,
}

/// Plays a chain of steps: each receives at `b`, sends to `b`, and counts for the next. Without
/// further progress everything is flushed, and work in flight is dropped with its queue.
fn chain(plan: Plan) -> Chain {
    super::memory::begin();
    let network = Network::new(NetworkAttr { endpoints: 2, regions: 0, ..NetworkAttr::DEFAULT }).unwrap();
    let mut told = Chain { arrived: Vec::new(), ended: 0, returned: 0, injected: 0 };
    {
        let domain = Domain::open(&network.info_with_faults(plan)).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let cq = Cq::<_, Memory>::open(&domain, CqAttr::new(4)).unwrap();
        let count = Counter::open(&domain, CounterAttr::default()).unwrap();
        let [a, b] = [(); 2].map(|()| cq.endpoint(&av).unwrap());
        let to_b = av.insert(&b.address().unwrap()).unwrap();
        let deferred = Deferred::open(&cq, 2 * STEPS).unwrap();
        let mut keys = Vec::new();
        for step in 0..STEPS {
            let at = (&count, 2 * step as u64);
            let number = (step as u64).to_le_bytes();
            keys.push(deferred.post_then(at, &b, Work::recv(Source::Any), &count, Memory::new(&[0; 8])).unwrap());
            keys.push(deferred.post_then(at, &a, Work::send(to_b), &count, Memory::new(&number)).unwrap());
        }
        let mut idle = 0;
        while idle < 200 {
            idle += 1;
            match deferred.poll() {
                Ok(None) => {}
                Ok(Some(DeferredEvent::Done(key, done))) => {
                    idle = 0;
                    told.ended += 1;
                    let at = keys.iter().position(|known| *known == key).unwrap();
                    if at % 2 == 0 && done.result().is_ok() {
                        told.arrived.push(usize::from_le_bytes(done.buf().bytes().try_into().unwrap()));
                    }
                }
                Ok(Some(DeferredEvent::Returned(..))) => {
                    idle = 0;
                    told.returned += 1;
                }
                Ok(Some(other)) => panic!("{other:?}"),
                Err(CqError::Queue(_)) => break,
                Err(error) => panic!("{error:#}"),
            }
        }
        let flushed = deferred.flush(None);
        for _ in 0..flushed {
            // The queue may have failed, so returned work comes first.
            assert!(matches!(deferred.poll(), Ok(Some(DeferredEvent::Returned(..)))));
            told.returned += 1;
        }
        told.injected = network.injected().total();
    }
    super::memory::assert_dropped_once();
    told
}

#[test]
fn chain_of_a_thousand_steps_runs_in_order() {
    let told = chain(Plan::new(1));
    assert!(told.arrived.iter().copied().eq(0..STEPS));
    assert_eq!((told.ended, told.returned, told.injected), (2 * STEPS, 0, 0));
}

#[test]
fn chain_runs_in_order_where_posts_are_refused_and_messages_are_late() {
    for seed in 0..20 {
        let told = chain(Plan { refuse: Every::About(3), delay: 7, ..Plan::new(seed) });
        assert!(told.arrived.iter().copied().eq(0..STEPS), "seed {seed}");
        assert_eq!((told.ended, told.returned), (2 * STEPS, 0));
        assert!(told.injected > 0);
    }
}

#[test]
fn chain_goes_on_where_operations_fail() {
    for seed in 0..20 {
        // Steps that were reported as failed, and took effect.
        let told = chain(Plan { fail: Every::About(9), ..Plan::new(seed) });
        assert_eq!((told.ended, told.returned), (2 * STEPS, 0), "seed {seed}");
        assert!(told.arrived.len() < STEPS && told.arrived.is_sorted() && told.injected > 0);
    }
}

#[test]
fn buffers_come_back_once_under_every_other_plan() {
    for seed in 0..20 {
        let plan = Plan::new(seed);
        let every = Every::About(100);
        for plan in [
            Plan { lose: every, ..plan },
            Plan { kill: every, ..plan },
            Plan { overrun: every, ..plan },
            Plan { reorder: 5, ..plan },
            Plan { one_range: true, narrow_data: true, ..plan },
        ] {
            let told = chain(Plan { refuse: Every::About(5), delay: 3, ..plan });
            assert!(told.injected > 0);
            assert!(told.arrived.is_sorted());
            assert!(told.ended + told.returned <= 2 * STEPS);
        }
    }
}

/// Completions that are taken from the queue itself also end the work.
#[test]
fn work_ends_if_its_completion_is_taken_elsewhere() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(8)).unwrap();
    let count = Counter::open(&domain, CounterAttr::default()).unwrap();
    let [a, b] = [(); 2].map(|()| cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let deferred = Deferred::open(&cq, 4).unwrap();
    for round in 1..=10 {
        b.recv(Source::Any, vec![0; 8]).unwrap();
        deferred.post_then((&count, 0), &a, Work::send(to_b), &count, vec![1; 8]).unwrap();
        assert!(deferred.progress().unwrap());
        let mut taken = 0;
        while taken < 2 {
            if let Some(Completion::Op(_)) = cq.poll().unwrap() {
                taken += 1;
            }
        }
        for _ in 0..deferred.capacity() {
            deferred.progress().unwrap();
        }
        assert_eq!((deferred.len(), count.read()), (0, round));
    }
}

/// Slots of work and of operations are reused in another order.
#[test]
fn each_completion_is_reported_as_that_of_its_work() {
    let network = Network::new(NetworkAttr { endpoints: 2, regions: 0, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(16)).unwrap();
    let now = Counter::open(&domain, CounterAttr::default()).unwrap();
    let [a, b] = [(); 2].map(|()| cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let deferred = Deferred::open(&cq, 4).unwrap();
    let start = || {
        let key = deferred.post((&now, 0), &b, Work::recv(Source::Any), vec![0; 8]).unwrap();
        assert!(deferred.progress().unwrap());
        key
    };
    // Work with the next completed receive. `None` if that was not deferred.
    let next = || {
        a.inject(to_b, &[1]).unwrap();
        let mut polls = (0..100).filter_map(|_| deferred.poll().unwrap());
        match polls.next().unwrap() {
            DeferredEvent::Done(key, _) => Some(key),
            DeferredEvent::Other(_) => None,
            other => panic!("{other:?}"),
        }
    };
    let first = start();
    assert_eq!(next(), Some(first));
    // This operation takes the slot of the first one, and the second work takes that of the first
    // work.
    b.recv(Source::Any, vec![0; 8]).unwrap();
    let second = start();
    assert_eq!(next(), None);
    let third = start();
    assert_eq!(next(), Some(second));
    assert_eq!(next(), Some(third));
    assert!(deferred.is_empty());
}

/// Buffer, with a panic in its post if the value is `true`.
#[derive(Debug)]
struct Panics(bool);

// SAFETY: no bytes.
unsafe impl Buffer for Panics {
    fn lend(&mut self) -> Lent {
        assert!(!self.0, "as planned");
        ().lend()
    }
}
impl SourceBuffer for Panics {}
impl TargetBuffer for Panics {}

#[test]
fn work_that_panics_in_its_post_ends_and_the_next_of_its_counter_runs() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::<_, Panics>::open(&domain, CqAttr::new(8)).unwrap();
    let count = Counter::open(&domain, CounterAttr::default()).unwrap();
    let [a, b] = [(); 2].map(|()| cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let deferred = Deferred::open(&cq, 2).unwrap();
    let [first, second] =
        [true, false].map(|panics| deferred.post((&count, 1), &a, Work::send(to_b), Panics(panics)).unwrap());
    count.add(1).unwrap();
    catch_unwind(AssertUnwindSafe(|| deferred.poll())).unwrap_err();
    assert_eq!((deferred.len(), deferred.cancel(first)), (1, Err(Errno::ENOENT)));
    let mut polls = (0..100).filter_map(|_| deferred.poll().unwrap());
    assert!(matches!(polls.next(), Some(DeferredEvent::Done(done, _)) if done == second));
    assert!(deferred.is_empty());
}
