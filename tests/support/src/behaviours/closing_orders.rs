//! Queues, counters and vectors after a close of their endpoints, regions or addresses, in every
//! order.

use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::error::OpenError;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, Counted, EndpointAddr, Errno, WaitObj};

use crate::behaviours::counters::counts;
use crate::behaviours::needs::{Behaviour, MSG};
use crate::behaviours::pair::{Bytes, OrCut, Pair, limit, on_pair_with, pattern, post_on, room};
use crate::behaviours::sleeping::{has_descriptor, sleeps, sleeps_on};
use crate::memory::allocator;
use crate::posting::one_sleep;
use crate::report::partly;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        (
            "queue_is_slept_on_after_each_of_its_endpoints_was_closed",
            MSG,
            queue_is_slept_on_after_each_of_its_endpoints_was_closed,
        ),
        ("idle_queue_with_a_closed_endpoint_costs_little", MSG, idle_queue_with_a_closed_endpoint_costs_little),
        (
            "counter_is_waited_for_after_one_of_its_endpoints_was_closed",
            MSG,
            counter_is_waited_for_after_one_of_its_endpoints_was_closed,
        ),
        ("calls_between_closings_in_every_order", MSG, calls_between_closings_in_every_order),
    ]
}

/// Sends a message between two endpoints of one queue. The thread sleeps until it has arrived.
fn exchange<T: Transport + 'static>(
    cq: &Cq<'_, T, Bytes>,
    (from, to): (&Endpoint<'_, T, Bytes>, &Endpoint<'_, T, Bytes>),
    av: &Av<'_, T>,
    seed: usize,
) {
    let peer = av.insert(&to.address().expect("its address")).expect("in the vector");
    let received = post_on(cq, room(300), |buf| to.recv(Source::Any, buf));
    let sent = post_on(cq, pattern(300, seed), |buf| from.send(peer, buf));
    let (mut deadline, mut left) = (limit(), vec![received, sent]);
    while !left.is_empty() {
        assert!(!deadline.passed(), "{left:?} never came");
        let Some(completion) = cq.poll_for(one_sleep()).or_cut("the queue works") else { continue };
        let Completion::Op(done) = completion else { panic!("{completion:?}") };
        let at = left.iter().position(|key| *key == done.key()).expect("each once");
        if left.swap_remove(at) == received {
            assert_eq!(done.result().or_cut("it succeeds").len, 300);
            assert_eq!(done.into_buf(), pattern(300, seed));
        }
    }
}

fn queue_is_slept_on_after_each_of_its_endpoints_was_closed<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    if !sleeps(&domain) {
        return;
    }
    let av = Av::open_in(&domain, 16, allocator()).expect("address vector");
    let cq =
        Cq::<T, Bytes>::open_in(&domain, CqAttr { wait: WaitObj::FD, endpoints: 8, ..CqAttr::new(64) }, allocator())
            .expect("queue");
    let asks = || {
        // A queue with a wait object may have no descriptor.
        for _ in 0..3 {
            match cq.may_sleep() {
                Ok(_) => {}
                Err(error) => assert_eq!(error, CqError::Queue(Errno::ENOSYS)),
            }
        }
        assert!(cq.poll().or_cut("the queue works").is_none());
    };
    let mut all: Vec<_> = (0..4).map(|_| cq.endpoint(&av).expect("an endpoint")).collect();
    asks();
    exchange(&cq, (&all[0], &all[1]), &av, 1);
    // The last, the first, one in the middle: each time another one takes its place.
    for (round, at) in [3, 0, 1].into_iter().enumerate() {
        drop(all.remove(at));
        asks();
        if ["tcp;ofi_rxm", "udp;ofi_rxd"].contains(&info.provider()) {
            partly(
                "After an endpoint was closed, its queues and counters are polled once a millisecond, because a \
                sleep would read freed memory (`…-sleep-after-an-endpoint-was-closed-crashes`)",
            );
            assert_eq!(cq.may_sleep(), Ok(false));
        }
        exchange(&cq, (&all[0], &all[1]), &av, round);
        all.push(cq.endpoint(&av).expect("another endpoint"));
        asks();
        exchange(&cq, (&all[0], &all[3]), &av, round + 10);
        exchange(&cq, (&all[3], &all[1]), &av, round + 20);
    }
    while let Some(endpoint) = all.pop() {
        drop(endpoint);
        asks();
        assert!(cq.poll_for(Duration::from_millis(2)).or_cut("the queue works").is_none());
    }
}

fn idle_queue_with_a_closed_endpoint_costs_little<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    if !sleeps(&domain) {
        return;
    }
    on_pair_with(info, CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) }, |pair| {
        if !has_descriptor(pair.domain, pair.cq) {
            return;
        }
        pair.warm_up();
        drop(pair.cq.endpoint(pair.av).expect("a third endpoint"));
        let (begin, time, mut rounds) = (Instant::now(), Duration::from_millis(100), 0);
        while begin.elapsed() < time {
            if pair.cq.may_sleep().or_cut("the queue works") {
                sleeps_on(pair.cq, Duration::from_millis(10));
            }
            assert!(pair.cq.poll().or_cut("the queue works").is_none());
            rounds += 1;
        }
        // A spinning program makes some 100,000 rounds.
        assert!(rounds < 1000, "{rounds} rounds in {time:?}");
        pair.warm_up();
    });
}

/// Returns a counter with a wait object, if the transport has them.
fn sleepy_counter<T: Transport + 'static>(domain: &Domain<'static, T>) -> Option<Counter<'static, T>> {
    match Counter::open(domain, CounterAttr { wait: WaitObj::UNSPEC }) {
        Ok(counter) => Some(counter),
        Err(error) => {
            assert_eq!(error, OpenError::Errno(Errno::ENOSYS));
            None
        }
    }
}

fn counter_is_waited_for_after_one_of_its_endpoints_was_closed<T: Transport + 'static>(info: &Info<T>) {
    if !counts(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let cq = Cq::<T, Bytes>::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
    let Some(counter) = sleepy_counter(&domain) else { return crate::report::not_granted() };
    let [a, b, c] = [(); 3]
        .map(|()| cq.endpoint(Binding::to(&av).counter(Counted::RECV, &counter)).expect("an endpoint with a counter"));
    let to_a = av.insert(&a.address().expect("address of a")).expect("a in the vector");
    let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
    let pair = Pair { cq: &cq, av: &av, domain: &domain, a, b, to_a, to_b };
    let reaches = |count| {
        let mut deadline = limit();
        while !counter.wait_for(count, one_sleep()).expect("the counter works") {
            assert!(!deadline.passed(), "{} instead of {count}", counter.read());
        }
        assert_eq!(counter.read(), count);
        assert_eq!(counter.wait_for(count + 1, Duration::from_millis(2)), Ok(false));
    };
    pair.warm_up();
    reaches(1);
    drop(c);
    for round in 2..5 {
        pair.warm_up();
        reaches(round);
    }
    drop(pair);
    assert_eq!(counter.wait_for(5, Duration::from_millis(2)), Ok(false));
}

struct World<T: Transport + 'static> {
    av: Av<'static, T>,
    /// Queues: the first two endpoints are on the first one, the third on the second one.
    queues: [Cq<'static, T, Bytes>; 2],
    endpoints: [Option<Endpoint<'static, T, Bytes>>; 3],
    addresses: [EndpointAddr; 3],
    counter: Option<Counter<'static, T>>,
    region: Option<Mr<'static, T, Bytes>>,
}

const CLOSINGS: usize = 6;

impl<T: Transport + 'static> World<T> {
    fn open(info: &Info<T>, with_fd: bool) -> Self {
        let domain = Domain::open(info).expect("domain");
        let av = Av::open_in(&domain, 16, allocator()).expect("address vector");
        let attr = if with_fd { CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) } } else { CqAttr::new(16) };
        let queues = [(); 2].map(|()| Cq::<T, Bytes>::open_in(&domain, attr, allocator()).expect("queue"));
        let counter = sleepy_counter(&domain);
        let endpoints = [0, 0, 1].map(|queue| {
            let bind = Binding::to(&av);
            let bind = match &counter {
                Some(counter) => bind.counter(Counted::RECV | Counted::SEND, counter),
                None => bind,
            };
            queues[queue].endpoint(bind).expect("an endpoint")
        });
        let addresses = endpoints.each_ref().map(|endpoint| endpoint.address().expect("its address"));
        let region = info.caps().contains(Caps::RMA).then(|| {
            let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
            Mr::open(&domain, pattern(64, 1), access).expect("region")
        });
        World { av, queues, endpoints: endpoints.map(Some), addresses, counter, region }
    }

    /// Closes one of [`CLOSINGS`].
    fn close(&mut self, number: usize) {
        match number {
            0..3 => drop(self.endpoints[number].take()),
            3 => drop(self.region.take()),
            4 => drop(self.counter.take()),
            _ => {
                let removed = self.av.find(&self.addresses[1]).map(|peer| self.av.remove(peer));
                assert_eq!(removed, Some(true));
            }
        }
    }

    /// Makes every call that waits, polls or looks up, on each open object.
    fn call(&self) {
        let time = Duration::from_millis(1);
        for cq in &self.queues {
            match (cq.may_sleep(), cq.wait_fd()) {
                (Err(CqError::NotOpenedFor), Err(CqError::NotOpenedFor)) => {
                    assert!(matches!(cq.poll_for(time), Err(CqError::NotOpenedFor)));
                }
                (Ok(_), Ok(_) | Err(CqError::Queue(Errno::ENOSYS))) | (Err(CqError::Queue(Errno::ENOSYS)), _) => {
                    assert!(cq.poll_for(time).or_cut("the queue works").is_none());
                }
                other => panic!("{other:?}"),
            }
            assert!(cq.poll().or_cut("the queue works").is_none());
            cq.progress().or_cut("the queue works");
        }
        if let Some(counter) = &self.counter {
            assert_eq!(counter.wait_for(u64::MAX, time), Ok(false));
            assert_eq!(counter.may_sleep(), Err(CqError::NotOpenedFor));
            counter.set(counter.read() + 1).expect("sets");
        }
        for (endpoint, address) in self.endpoints.iter().zip(&self.addresses) {
            let Some(endpoint) = endpoint else { continue };
            assert_eq!(endpoint.address().as_ref(), Ok(address));
            let peer = self.av.find(address).or_else(|| self.av.insert(address).ok()).expect("in the vector");
            assert_eq!(self.av.address(peer).map(|known| known.is_ok()), Some(true));
        }
    }
}

fn calls_between_closings_in_every_order<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let with_fd = Cq::<T, Bytes>::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) }).is_ok();
    drop(domain);
    // Each pair of objects, in both orders.
    for first in 0..CLOSINGS {
        let mut world = World::open(info, with_fd);
        world.call();
        for step in 0..CLOSINGS {
            let step = if first % 2 == 0 { step } else { CLOSINGS - step };
            world.close((first + step) % CLOSINGS);
            world.call();
        }
        // An endpoint in the place of the closed ones.
        let again = world.queues[0].endpoint(&world.av).expect("an endpoint");
        world.call();
        drop(again);
        world.call();
    }
}
