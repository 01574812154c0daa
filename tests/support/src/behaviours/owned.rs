//! Objects that a program keeps: in structs, in pools, on another thread, and dropped in any order.

use std::collections::BTreeSet;
use std::mem::forget;
use std::thread;

use loom_alloc::Budget;
use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::OpenError;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, Counted};

use crate::behaviours::needs::{Behaviour, MSG, RMA};
use crate::behaviours::pair::{Bytes, OrCut, fences, limit, pattern, post_on, retry, room};
use crate::behaviours::waiting::closes_with_receives;
use crate::memory::{Memory, allocator};

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("struct_that_owns_everything_serves_and_moves", MSG, struct_that_owns_everything_serves_and_moves),
        ("kept_server_lends_borrowed_bytes_for_a_call", MSG, kept_server_lends_borrowed_bytes_for_a_call),
        ("generic_function_returns_an_endpoint", MSG, generic_function_returns_an_endpoint),
        ("endpoints_of_a_pool_come_and_go", MSG, endpoints_of_a_pool_come_and_go),
        ("handles_in_any_order_give_every_byte_back", MSG, handles_in_any_order_give_every_byte_back),
        (
            "forgotten_object_leaks_only_the_objects_that_it_keeps",
            MSG,
            forgotten_object_leaks_only_the_objects_that_it_keeps,
        ),
        ("clones_keep_everything_open", MSG, clones_keep_everything_open),
        ("forgotten_objects_of_a_scope_are_closed_with_it", RMA, forgotten_objects_of_a_scope_are_closed_with_it),
    ]
}

pub fn threaded_cases<T: Transport + 'static>() -> Vec<Behaviour<T>>
where
    Domain<'static, T>: Send + Sync,
    Av<'static, T>: Send + Sync,
{
    vec![
        ("server_is_built_on_one_thread_and_runs_on_another", MSG, server_built_here_runs_there),
        ("server_is_built_where_it_runs", MSG, server_is_built_where_it_runs),
        ("queue_with_other_handles_is_not_parked", MSG, queue_with_other_handles_is_not_parked),
        ("last_handles_go_on_other_threads", MSG, last_handles_go_on_other_threads),
    ]
}

/// A server that checks each message, and posts its buffer again.
struct Server<T: Transport> {
    endpoint: Endpoint<'static, T, Bytes>,
    domain: Domain<'static, T>,
    cq: Cq<'static, T, Bytes>,
    av: Av<'static, T>,
    inbox: Vec<OpKey>,
    served: usize,
}

impl<T: Transport + 'static> Server<T> {
    fn open(info: &Info<T>) -> Result<Self, OpenError> {
        let domain = Domain::open_in(info, allocator())?;
        let av = Av::open_in(&domain, 8, allocator())?;
        let cq = Cq::open_in(&domain, CqAttr::new(64), allocator())?;
        let endpoint = cq.endpoint(&av)?;
        let mut server = Server { endpoint, domain, cq, av, inbox: vec![], served: 0 };
        server.receive(room(16));
        Ok(server)
    }

    fn receive(&mut self, buf: Bytes) {
        let key = post_on(&self.cq, buf, |buf| self.endpoint.recv(Source::Any, buf));
        self.inbox.push(key);
    }

    /// Serves queued messages. The loop polls the queue while it changes the server.
    fn turn(&mut self) {
        while let Some(completion) = self.cq.poll().or_cut("the queue works") {
            if let Completion::Op(done) = completion
                && self.inbox.contains(&done.key())
            {
                let key = done.key();
                self.inbox.retain(|posted| *posted != key);
                let (buf, result) = done.into_parts();
                let len = result.or_cut("it arrives").len;
                assert_eq!(&buf[..len], &pattern(len, self.served)[..]);
                self.served += 1;
                self.receive(buf);
            }
        }
    }

    fn me(&self) -> Peer {
        self.av.insert(&self.endpoint.address().expect("address")).expect("in the vector")
    }

    fn serve(&mut self, count: usize) {
        let (me, until) = (self.me(), self.served + count);
        for seed in self.served..until {
            retry(&self.cq, || self.endpoint.inject(me, &pattern(8, seed)));
            let mut deadline = limit();
            while self.served <= seed {
                self.turn();
                assert!(!deadline.passed(), "message {seed} arrives");
            }
        }
    }

    fn receive_into(&self, bytes: &mut [u8], seed: usize) {
        let len = bytes.len();
        scope(|s| {
            let domain = s.domain(&self.domain);
            let cq = Cq::open_in(&domain, 4, allocator()).expect("queue");
            let endpoint = cq.endpoint(&self.av).expect("endpoint");
            let to = self.av.insert(&endpoint.address().expect("address")).expect("in the vector");
            let received = endpoint.recv(Source::Any, &mut *bytes).map_err(|refused| refused.error).expect("posted");
            insist_both(&self.cq, &cq, || self.endpoint.inject(to, &pattern(len, seed)));
            let mut deadline = limit();
            let done = loop {
                if let Some(done) = cq.wait(received, loom_core::deadline::Spins(100)).or_cut("it works") {
                    break done;
                }
                // The sender's queue drives the sender.
                self.cq.progress().or_cut("the queue works");
                assert!(!deadline.passed(), "the message arrives");
            };
            assert_eq!(done.result().or_cut("it arrives").len, len);
        });
        assert_eq!(bytes, &pattern(len, seed)[..]);
    }
}

/// Posts until the provider accepts it, with progress on both sides.
fn insist_both<T: Transport + 'static, B: loom_core::buffer::Buffer>(
    own: &Cq<'_, T, Bytes>,
    other: &Cq<'_, T, B>,
    post: impl Fn() -> Result<(), loom_core::error::PostError>,
) {
    let mut deadline = limit();
    while let Err(error) = post() {
        assert!(error.is_transient() && !deadline.passed(), "{error:#}");
        own.progress().or_cut("the queue works");
        other.progress().or_cut("the queue works");
    }
}

fn struct_that_owns_everything_serves_and_moves<T: Transport + 'static>(info: &Info<T>) {
    let mut server = Server::open(info).expect("it opens");
    server.serve(3);
    let mut moved = Box::new(server);
    moved.serve(3);
    assert_eq!(moved.served, 6);
}

fn kept_server_lends_borrowed_bytes_for_a_call<T: Transport + 'static>(info: &Info<T>) {
    let mut server = Server::open(info).expect("it opens");
    server.serve(1);
    let mut bytes = [0; 24];
    for seed in 0..3 {
        server.receive_into(&mut bytes, seed);
    }
    server.serve(1);
}

fn open_and_receive<'m, T: Transport + 'static>(
    domain: &Domain<'m, T>,
    av: &Av<'m, T>,
    buf: &'m mut [u8],
) -> (Endpoint<'m, T, &'m mut [u8]>, OpKey) {
    let cq = Cq::open_in(domain, 4, allocator()).expect("queue");
    let endpoint = cq.endpoint(av).expect("endpoint");
    let key = endpoint.recv(Source::Any, buf).map_err(|refused| refused.error).expect("posted");
    (endpoint, key)
}

fn generic_function_returns_an_endpoint<T: Transport + 'static>(info: &Info<T>) {
    if !closes_with_receives(info) {
        return;
    }
    let mut bytes = *b"\xee\xee\xee\xee\xee";
    scope(|s| {
        let domain = s.open_in(info, allocator()).expect("domain");
        let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
        let (endpoint, received) = open_and_receive(&domain, &av, &mut bytes);
        let to = av.insert(&endpoint.address().expect("address")).expect("in the vector");
        let mut deadline = limit();
        while let Err(error) = endpoint.inject(to, b"hello") {
            assert!(error.is_transient() && !deadline.passed(), "{error:#}");
            endpoint.cq().progress().or_cut("the queue works");
        }
        let done = endpoint.cq().wait(received, limit()).or_cut("the queue works").expect("in time");
        assert_eq!(done.into_buf(), b"hello");
    });
    assert_eq!(&bytes, b"hello");
}

fn endpoints_of_a_pool_come_and_go<T: Transport + 'static>(info: &Info<T>) {
    struct Pool<T: Transport> {
        free: Vec<(Endpoint<'static, T, Bytes>, Peer)>,
        cq: Cq<'static, T, Bytes>,
    }
    let domain = Domain::open_in(info, allocator()).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
    let open = |_| {
        let endpoint = cq.endpoint(&av).expect("endpoint");
        let peer = av.insert(&endpoint.address().expect("address")).expect("in the vector");
        (endpoint, peer)
    };
    let mut pool = Pool { free: (0..3).map(open).collect(), cq: cq.clone() };
    drop((domain, av, cq));
    for round in 0..6 {
        let (a, to_a) = pool.free.remove(round % pool.free.len());
        let (b, to_b) = pool.free.remove(0);
        let received = post_on(&pool.cq, room(16), |buf| b.recv(Source::Any, buf));
        retry(&pool.cq, || a.inject(to_b, &pattern(16, round)));
        let done = pool.cq.wait(received, limit()).or_cut("the queue works").expect("in time");
        assert_eq!(done.into_buf(), pattern(16, round));
        pool.free.extend([(a, to_a), (b, to_b)]);
    }
}

fn counting() -> &'static Budget<Memory> {
    Box::leak(Box::new(Budget::new(allocator(), usize::MAX)))
}

struct Parts<T: Transport> {
    domain: Option<Domain<'static, T>>,
    av: Option<Av<'static, T>>,
    cq: Option<Cq<'static, T, Bytes>>,
    endpoints: [Option<Endpoint<'static, T, Bytes>>; 2],
    /// Counter of the first endpoint, if the provider has counters.
    counter: Option<Counter<'static, T>>,
    /// Region, if memory that peers reach is sure to return.
    region: Option<Mr<'static, T, Bytes>>,
}

const PARTS: usize = 7;

impl<T: Transport + 'static> Parts<T> {
    /// Opens the parts with receives in flight, with or without a counter.
    fn open(info: &Info<T>, alloc: &'static Budget<Memory>, in_flight: bool, counts: bool) -> Self {
        let domain = Domain::open_in(info, alloc).expect("domain");
        let av = Av::open_in(&domain, 8, alloc).expect("address vector");
        let cq = Cq::open_in(&domain, CqAttr::new(16), alloc).expect("queue");
        let counter = counts.then(|| Counter::open_in(&domain, CounterAttr::default(), alloc).ok()).flatten();
        let first = counter.iter().fold(Binding::to(&av), |bind, counter| bind.counter(Counted::RECV, counter));
        let endpoints = [cq.endpoint(first).expect("endpoint"), cq.endpoint(&av).expect("endpoint")];
        if in_flight {
            for endpoint in &endpoints {
                post_on(&cq, room(64), |buf| endpoint.recv(Source::Any, buf));
            }
        }
        let exposes =
            info.caps().contains(Caps::RMA) && (fences(info) || T::quirks(domain.info().raw()).ends_with_queue);
        let region = exposes.then(|| Mr::open_in(&domain, room(64), Access::REMOTE_WRITE, alloc).expect("region"));
        Parts { domain: Some(domain), av: Some(av), cq: Some(cq), endpoints: endpoints.map(Some), counter, region }
    }

    fn end(&mut self, which: usize, forgets: bool) {
        fn end<V>(part: &mut Option<V>, forgets: bool) {
            if forgets { forget(part.take()) } else { drop(part.take()) }
        }
        match which {
            0 => end(&mut self.domain, forgets),
            1 => end(&mut self.av, forgets),
            2 => end(&mut self.cq, forgets),
            3 => end(&mut self.endpoints[0], forgets),
            4 => end(&mut self.endpoints[1], forgets),
            5 => end(&mut self.counter, forgets),
            _ => end(&mut self.region, forgets),
        }
    }

    /// Returns the number of blocks that a handle keeps: its object, and the objects below it.
    fn keeps(&self, which: usize) -> usize {
        match which {
            0 => 1,
            1 | 2 => 2,
            3 => 3 + usize::from(self.counter.is_some()),
            4 => 3,
            5 => 2 * usize::from(self.counter.is_some()),
            _ => 2 * usize::from(self.region.is_some()),
        }
    }

    fn blocks(&self) -> usize {
        3 + usize::from(self.counter.is_some()) + usize::from(self.region.is_some())
    }
}

/// Returns every `step`th of the orders of all parts.
fn orders(step: usize) -> impl Iterator<Item = [usize; PARTS]> {
    (0..5040).step_by(step).map(|number| {
        let (mut rest, mut number) = (vec![0, 1, 2, 3, 4, 5, 6], number);
        [7, 6, 5, 4, 3, 2, 1].map(|left| {
            let next = rest.remove(number % left);
            number /= left;
            next
        })
    })
}

fn handles_in_any_order_give_every_byte_back<T: Transport + 'static>(info: &Info<T>) {
    // Opening is slow over the network.
    let step = if info.provider() == "soft" { 11 } else { 433 };
    for end in [0, PARTS - 1] {
        let parts: BTreeSet<usize> = orders(step).map(|order| order[end]).collect();
        assert_eq!(parts.len(), PARTS, "each part is dropped first once, and last");
    }
    for in_flight in [false, true] {
        if in_flight && !closes_with_receives(info) {
            continue;
        }
        for order in orders(step) {
            let alloc = counting();
            let mut parts = Parts::open(info, alloc, in_flight, true);
            assert_eq!(alloc.blocks(), parts.blocks());
            for (place, which) in order.into_iter().enumerate() {
                let kept = order[place..].iter().map(|which| parts.keeps(*which)).max();
                assert!(kept <= Some(alloc.blocks()), "{order:?}: what {which} keeps is there before it is dropped");
                parts.end(which, false);
            }
            assert_eq!((alloc.used(), alloc.blocks()), (0, 0), "{order:?}, in flight: {in_flight}");
        }
    }
}

fn forgotten_object_leaks_only_the_objects_that_it_keeps<T: Transport + 'static>(info: &Info<T>) {
    for in_flight in [false, true] {
        if in_flight && !closes_with_receives(info) {
            continue;
        }
        for forgotten in 0..PARTS {
            let alloc = counting();
            let mut parts = Parts::open(info, alloc, in_flight, true);
            let keeps = parts.keeps(forgotten);
            parts.end(forgotten, true);
            for which in 0..PARTS {
                parts.end(which, false);
            }
            let blocks = alloc.blocks();
            if info.provider() == "soft" && fences(info) {
                assert_eq!(blocks, keeps, "{forgotten} is forgotten, in flight: {in_flight}");
            }
            // Memory that peers reach stays while an endpoint is open, as do endpoints of `shm`
            // beside others.
            let all = Parts::open(info, alloc, false, true).blocks();
            assert!((keeps..=all).contains(&blocks), "{forgotten} is forgotten, in flight: {in_flight}: {blocks}");
        }
    }
}

fn clones_keep_everything_open<T: Transport + 'static>(info: &Info<T>) {
    let alloc = counting();
    let Parts { av: Some(av), cq: Some(cq), endpoints: [Some(a), Some(b)], .. } = Parts::open(info, alloc, false, true)
    else {
        unreachable!("all are open")
    };
    let to_b = av.insert(&b.address().expect("address")).expect("in the vector");
    let (a_again, b_again, cq_again) = (a.clone(), b.clone(), cq.clone());
    assert!(cq == cq_again && a_again.cq() == &cq);
    drop((a, b, av, cq));
    let received = post_on(&cq_again, room(16), |buf| b_again.recv(Source::Any, buf));
    retry(&cq_again, || a_again.inject(to_b, &pattern(16, 5)));
    let done = cq_again.wait(received, limit()).or_cut("the queue works").expect("in time");
    assert_eq!(done.into_buf(), pattern(16, 5));
    drop((cq_again, a_again));
    assert!(alloc.blocks() > 0);
    drop(b_again);
    assert_eq!((alloc.used(), alloc.blocks()), (0, 0));
}

fn forgotten_objects_of_a_scope_are_closed_with_it<T: Transport + 'static>(info: &Info<T>) {
    if !closes_with_receives(info) {
        return;
    }
    for round in 0..3 {
        let (mut inbox, mut window) = (vec![0xee; 64], vec![0xee; 64]);
        scope(|s| {
            let domain = s.open_in(info, allocator()).expect("domain");
            let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
            let cq = Cq::open_in(&domain, CqAttr::new(16), allocator()).expect("queue");
            let endpoint = cq.endpoint(&av).expect("endpoint");
            let region = match Mr::open_in(&domain, &mut window[..], Access::REMOTE_WRITE, allocator()) {
                Ok(region) => Some(region),
                // Over untested providers.
                Err(error) => {
                    assert_eq!(error, OpenError::NoFence);
                    None
                }
            };
            endpoint.recv(Source::Any, &mut inbox[..]).map_err(|refused| refused.error).expect("posted");
            match round {
                0 => forget(endpoint),
                1 => forget(region),
                _ => forget((domain, av, cq, endpoint, region)),
            }
        });
        // No other user of the memory exists: the borrows have ended.
        inbox.fill(1);
        window.fill(2);
        assert!(inbox.iter().all(|byte| *byte == 1) && window.iter().all(|byte| *byte == 2));
    }
}

fn server_built_here_runs_there<T: Transport + 'static>(info: &Info<T>)
where
    Domain<'static, T>: Send + Sync,
    Av<'static, T>: Send + Sync,
{
    let mut server = Server::open(info).expect("it opens");
    server.serve(2);
    let Server { endpoint, domain, cq, av, inbox, served } = server;
    let parked = cq.park([endpoint]).expect("there is no other handle");
    // The receive is in flight during the move.
    thread::scope(|threads| {
        let there = threads.spawn(move || {
            let (cq, [endpoint]) = parked.unpark();
            let mut server = Server { endpoint, domain, cq, av, inbox, served };
            server.serve(2);
            let Server { endpoint, domain, cq, av, inbox, served } = server;
            (cq.park([endpoint]).expect("there is no other handle"), domain, av, inbox, served)
        });
        let (parked, domain, av, inbox, served) = there.join().expect("it serves");
        let (cq, [endpoint]) = parked.unpark();
        let mut server = Server { endpoint, domain, cq, av, inbox, served };
        server.serve(2);
        assert_eq!(server.served, 6);
    });
}

fn server_is_built_where_it_runs<T: Transport + 'static>(info: &Info<T>)
where
    Domain<'static, T>: Send + Sync,
    Av<'static, T>: Send + Sync,
{
    let domain = Domain::open_in(info, allocator()).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    thread::scope(|threads| {
        for _ in 0..2 {
            let (domain, av) = (domain.clone(), av.clone());
            let memory = allocator();
            threads.spawn(move || {
                let cq = Cq::open_in(&domain, CqAttr::new(64), memory).expect("queue");
                let endpoint = cq.endpoint(&av).expect("endpoint");
                let mut server = Server { endpoint, domain, cq, av, inbox: vec![], served: 0 };
                server.receive(room(16));
                server.serve(2);
            });
        }
        // The threads keep the objects that they use.
        drop((domain, av));
    });
}

fn queue_with_other_handles_is_not_parked<T: Transport + 'static>(info: &Info<T>)
where
    Domain<'static, T>: Send + Sync,
    Av<'static, T>: Send + Sync,
{
    let Server { endpoint, cq, .. } = Server::open(info).expect("it opens");
    let clone = cq.clone();
    let refused = cq.park([endpoint]).expect_err("there is a clone of the queue");
    drop(clone);
    let (cq, [endpoint]) = refused.value;
    let clone = endpoint.clone();
    let refused = cq.park([endpoint]).expect_err("there is a clone of the endpoint");
    drop(clone);
    let (cq, [endpoint]) = refused.value;
    let refused = cq.park([]).expect_err("there is an endpoint");
    let parked = refused.value.0.park([endpoint]).expect("there is no other handle");
    // Dropped during the move, it is closed.
    drop(parked);
}

fn last_handles_go_on_other_threads<T: Transport + 'static>(info: &Info<T>)
where
    Domain<'static, T>: Send + Sync,
    Av<'static, T>: Send + Sync,
{
    let alloc = counting();
    for round in 0..3 {
        // An endpoint with a counter stays on its thread.
        let parts = Parts::open(info, alloc, closes_with_receives(info), false);
        let Parts { domain: Some(domain), av: Some(av), cq: Some(cq), endpoints: [Some(a), Some(b)], region, .. } =
            parts
        else {
            unreachable!("all are open")
        };
        let parked = cq.park([a, b]).expect("there is no other handle");
        thread::scope(|threads| match round {
            0 => {
                threads.spawn(move || drop(parked));
                threads.spawn(move || drop(domain));
                drop((av, region));
            }
            1 => {
                threads.spawn(move || drop((domain, av)));
                drop((region, parked));
            }
            _ => {
                threads.spawn(move || drop((av, parked)));
                drop((domain, region));
            }
        });
        assert_eq!((alloc.used(), alloc.blocks()), (0, 0), "round {round}");
    }
}
