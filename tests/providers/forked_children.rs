//! Forked children with copies of their parent's objects. The copies leak and refuse every call,
//! the parent continues, and a child opens new objects. The tests run over every provider of this
//! libfabric.

use std::io::{Read, Write};
use std::mem::{drop, forget};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use loom_core::Error;
use loom_core::cq::CqError;
use loom_core::endpoint::{MsgEndpoint, ThePeer};
use loom_core::eq::{EqAttr, EqEvent, EventQueue, PassiveEndpoint};
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::{Access, Caps, EndpointAttributes, EndpointType};
use loom_core::{
    AddressError, Av, Binding, Counted, Counter, CounterAttr, Cq, Domain, Endpoint, Errno, Mr, Peer, Source, scope,
};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use support::alone::trial;
use support::posting::pattern;

type T = Ofi<Local>;
type Sender = Endpoint<'static, T, Vec<u8>>;

/// Providers of either version, or of both.
const PROVIDERS: [&str; 7] = ["shm", "tcp;ofi_rxm", "sockets", "net", "tcp", "udp;ofi_rxd", "sm2"];

const LIMIT: Duration = Duration::from_secs(20);

unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn alarm(seconds: u32) -> u32;
    safe fn _exit(code: i32) -> !;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
}

/// Ends a child that panics, so that only the parent runs the next test.
fn watch_children() {
    let parent = std::process::id();
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default(info);
        if std::process::id() != parent {
            _exit(1);
        }
    }));
}

/// Trials, each in a separate process, because children have no other thread.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for provider in PROVIDERS {
        type Case = fn(&Info<T>);
        let cases: [(&str, Case); 3] = [
            ("copies_refuse_calls_and_are_leaked_while_the_parent_goes_on", copies),
            ("scope_that_a_child_leaves_is_leaked_while_the_parent_goes_on", scopes),
            ("child_exchanges_messages_by_endpoints_of_its_own", own_endpoints),
        ];
        if info(provider).is_some() {
            trials.extend(cases.map(|(name, case)| {
                trial(format!("forked_children::{provider}::{name}"), move || {
                    watch_children();
                    case(&info(provider).ok_or_else(|| Failed::from("the provider has gone"))?);
                    Ok(())
                })
            }));
        }
        if let Some(info) = connected_info(provider, |hints| Hints { node: Some("127.0.0.1"), listen: true, ..hints }) {
            let name =
                format!("forked_children::{provider}::connections_of_the_parent_go_on_when_a_child_drops_its_copies");
            trials.push(trial(name, move || {
                watch_children();
                connections(&info);
                Ok(())
            }));
        }
    }
    trials
}

fn info(provider: &str) -> Option<Info<T>> {
    let by_process = ["shm", "sm2"].contains(&provider);
    let hints = |caps| Hints {
        caps,
        provider: Some(provider),
        node: (!by_process).then_some("127.0.0.1"),
        listen: !by_process,
        endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
        ..Hints::default()
    };
    let query = |caps| T::query(&hints(caps)).ok()?.next();
    query(Caps::MSG | Caps::RMA).or_else(|| query(Caps::MSG))
}

/// Forks. Returns `true` in the child, which always ends.
fn forked(child: &mut i32) -> bool {
    *child = fork();
    assert!(*child >= 0, "no child");
    if *child == 0 {
        alarm(60);
    }
    *child == 0
}

fn wait_for(child: i32) {
    let mut status = -1;
    // SAFETY: the status is written during the call.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "status of the child");
}

fn in_child(run: impl FnOnce()) {
    let mut child = 0;
    if forked(&mut child) {
        run();
        _exit(0);
    }
    wait_for(child);
}

fn exchange(cq: &Cq<'static, T, Vec<u8>>, [a, b]: [&Sender; 2], to_b: Peer, seed: usize) {
    for len in [8, 64 << 10] {
        let deadline = Instant::now() + LIMIT;
        let received = b.recv(Source::Any, vec![0; len]).map_err(|refused| refused.error).expect("posted");
        let sent = cq.post(pattern(len, seed), deadline, |message| a.send(to_b, message));
        let sent = sent.map_err(|refused| refused.error).expect("posted");
        let (bytes, result) = cq.finish(received, deadline).expect("received").into_parts();
        assert_eq!(result.expect("received").len, len);
        assert!(bytes == pattern(len, seed), "other bytes have arrived");
        cq.finish(sent, deadline).expect("sent").result().expect("sent");
    }
}

struct Objects {
    domain: Domain<'static, T>,
    av: Av<'static, T>,
    empty_av: Av<'static, T>,
    cq: Cq<'static, T, Vec<u8>>,
    a: Sender,
    b: Sender,
    to_b: Peer,
    counter: Option<Counter<'static, T>>,
    region: Option<Mr<'static, T, Vec<u8>>>,
    eq: Option<EventQueue<'static, T>>,
}

impl Objects {
    fn open(info: &Info<T>) -> Self {
        let domain = Domain::open(info).expect("a domain");
        let (av, empty_av) = (Av::open(&domain, 4).expect("a vector"), Av::open(&domain, 4).expect("a vector"));
        let cq = Cq::open(&domain, 16).expect("a queue");
        let counter = Counter::open(&domain, CounterAttr::default()).ok();
        let binding = Binding::to(&av);
        let b = match &counter {
            Some(counter) => cq.endpoint(binding.counter(Counted::RECV, counter)),
            None => cq.endpoint(binding),
        };
        let (a, b) = (cq.endpoint(&av).expect("an endpoint"), b.expect("an endpoint"));
        let to_b = av.insert(&b.address().expect("an address")).expect("inserted");
        let region = Mr::open(&domain, vec![7; 64], Access::REMOTE_WRITE).ok();
        let eq = EventQueue::open(&domain, EqAttr::default()).ok();
        Objects { domain, av, empty_av, cq, a, b, to_b, counter, region, eq }
    }

    fn exchange(&self, seed: usize) {
        exchange(&self.cq, [&self.a, &self.b], self.to_b, seed);
    }

    /// Checks in a forked child that every call is refused.
    fn refuse(&self, info: &Info<T>) {
        let Objects { domain, av, empty_av, cq, a, b, to_b, counter, eq, .. } = self;
        let refused = a.send(*to_b, vec![3; 8]).expect_err("the child sends");
        assert_eq!((refused.error, refused.value), (PostError::OtherProcess, vec![3; 8]));
        let refused = b.recv(Source::Any, vec![4; 8]).expect_err("the child receives");
        assert_eq!((refused.error, refused.value), (PostError::OtherProcess, vec![4; 8]));
        assert_eq!(a.inject(*to_b, &[1]).expect_err("the child injects"), PostError::OtherProcess);
        assert_eq!(cq.poll().expect_err("the child polls"), CqError::OtherProcess);
        let address = av.address(*to_b).expect("a peer").expect("an address");
        assert_eq!(empty_av.insert(&address), Err(AddressError::OtherProcess));
        let mut results = Vec::new();
        empty_av.insert_all(&[address.clone(), address], |result| results.push(result));
        assert_eq!(results, [Err(AddressError::OtherProcess); 2]);
        assert_eq!(a.address().expect_err("the child reads the address"), Errno::OTHER_PROCESS);
        assert_eq!(Cq::<_, Vec<u8>>::open(domain, 4).expect_err("a queue"), OpenError::OtherProcess);
        assert_eq!(Av::open(domain, 4).expect_err("a vector"), OpenError::OtherProcess);
        assert_eq!(cq.endpoint(av).expect_err("an endpoint"), OpenError::OtherProcess);
        if let Some(counter) = counter {
            assert_eq!(counter.add(1), Err(Errno::OTHER_PROCESS));
            let _ = counter.read();
            assert_eq!(Counter::open(domain, CounterAttr::default()).expect_err("a counter"), OpenError::OtherProcess);
        }
        if self.region.is_some() {
            assert_eq!(Mr::open(domain, vec![0; 8], Access::SEND).expect_err("a region"), OpenError::OtherProcess);
        }
        if let Some(eq) = eq {
            assert_eq!(eq.poll().expect_err("the child reads events"), CqError::OtherProcess);
            assert_eq!(
                EventQueue::open(domain, EqAttr::default()).expect_err("an event queue"),
                OpenError::OtherProcess
            );
            assert!(eq.listen(info).is_err());
        }
    }
}

fn copies(info: &Info<T>) {
    let objects = Objects::open(info);
    objects.exchange(1);
    in_child(|| objects.refuse(info));
    objects.exchange(2);
    let address = objects.b.address().expect("an address");
    // Each order of drops, with an operation in flight.
    for order in 0..4 {
        let received = objects.b.recv(Source::Any, vec![0; 8]).map_err(|refused| refused.error).expect("posted");
        in_child(|| {
            assert_eq!(objects.cq.finish(received, Instant::now()).expect_err("in flight"), CqError::OtherProcess);
            assert_eq!(objects.b.cancel(received), Err(Errno::OTHER_PROCESS));
            // SAFETY: the child uses only this copy, and ends without any other use.
            let Objects { domain, av, empty_av, cq, a, b, counter, region, eq, .. } =
                unsafe { std::ptr::read(&raw const objects) };
            match order {
                0 => drop((a, b, cq, av, empty_av, region, counter, eq, domain)),
                1 => drop((domain, eq, counter, region, empty_av, av, cq, b, a)),
                2 => {
                    if let Some(region) = region {
                        assert!(matches!(
                            region.close(),
                            Err(Rejected { value: None, error: Error::Provider(Errno::OTHER_PROCESS) })
                        ));
                    }
                    drop((counter, cq, a, av, b, domain, eq, empty_av));
                }
                // A queue with forgotten endpoints.
                _ => {
                    forget((a, b));
                    drop((cq, region, counter, eq, av, empty_av, domain));
                }
            }
        });
        let deadline = Instant::now() + LIMIT;
        let sent = objects.cq.post(pattern(8, order), deadline, |message| objects.a.send(objects.to_b, message));
        let sent = sent.map_err(|refused| refused.error).expect("posted");
        let (bytes, result) = objects.cq.finish(received, deadline).expect("received").into_parts();
        assert_eq!((result.expect("received").len, bytes), (8, pattern(8, order)));
        objects.cq.finish(sent, deadline).expect("sent").result().expect("sent");
        objects.exchange(order);
        // Peers of other processes still find the parent.
        if let Some(name) = address.bytes().strip_prefix(b"fi_shm://") {
            let name = std::str::from_utf8(name).expect("text").trim_end_matches('\0');
            assert!(std::path::Path::new("/dev/shm").join(name).exists(), "{name} was removed");
        }
    }
}

fn scopes(info: &Info<T>) {
    for forgets in [false, true] {
        let (mut room, mut child) = ([0; 8], 0);
        let is_child = scope(|scope| {
            let domain = scope.open(info).expect("a domain");
            let (av, cq) = (Av::open(&domain, 4).expect("a vector"), Cq::open(&domain, 16).expect("a queue"));
            let (a, b) = (cq.endpoint(&av).expect("an endpoint"), cq.endpoint(&av).expect("an endpoint"));
            let to_b = av.insert(&b.address().expect("an address")).expect("inserted");
            let received = b.recv(Source::Any, &mut room[..]).map_err(|refused| refused.error).expect("posted");
            let region = Mr::open(&domain, vec![7; 64], Access::REMOTE_WRITE).ok();
            if forked(&mut child) {
                if forgets {
                    forget((a, b, cq, region));
                }
                return true;
            }
            wait_for(child);
            let deadline = Instant::now() + LIMIT;
            cq.retry(deadline, || a.inject(to_b, &pattern(8, 5))).expect("injected");
            let (bytes, result) = cq.finish(received, deadline).expect("received").into_parts();
            assert_eq!((result.expect("received").len, &*bytes), (8, &*pattern(8, 5)));
            false
        });
        if is_child {
            // The borrow has ended, so the child owns its copy of the memory.
            room.fill(9);
            _exit(i32::from(room != [9; 8]));
        }
    }
}

fn own_endpoints(info: &Info<T>) {
    let objects = Objects::open(info);
    objects.exchange(1);
    let parent = objects.b.address().expect("an address");
    let (mut here, mut there) = UnixStream::pair().expect("a pair of sockets");
    let mut child = 0;
    if forked(&mut child) {
        drop((here, objects));
        let domain = Domain::open(info).expect("a domain of the child");
        let (av, cq) = (Av::open(&domain, 4).expect("a vector"), Cq::open(&domain, 16).expect("a queue"));
        let endpoint = cq.endpoint(&av).expect("an endpoint of the child");
        let to_parent = av.insert(&parent).expect("the parent's address");
        let address = endpoint.address().expect("an address").to_string();
        let deadline = Instant::now() + LIMIT;
        let received = endpoint.recv(Source::Any, vec![0; 8]).map_err(|refused| refused.error).expect("posted");
        there.write_all(format!("{address}\n").as_bytes()).expect("the parent reads");
        let (bytes, result) = cq.finish(received, deadline).expect("received by the child").into_parts();
        assert_eq!((result.expect("received").len, &bytes), (8, &pattern(8, 6)));
        let sent = cq.post(pattern(8, 7), deadline, |message| endpoint.send(to_parent, message));
        cq.finish(sent.map_err(|refused| refused.error).expect("posted"), deadline)
            .expect("sent")
            .result()
            .expect("sent");
        // Waits until the parent has received.
        let _ = there.read(&mut [0]);
        drop((endpoint, cq, av, domain));
        _exit(0);
    }
    drop(there);
    let mut address = String::new();
    while !address.ends_with('\n') {
        let mut byte = [0];
        assert_eq!(here.read(&mut byte).expect("the child writes"), 1, "the child has ended");
        address.push(byte[0].into());
    }
    let to_child = objects.av.insert(&address.trim().parse().expect("an address")).expect("the child's address");
    let deadline = Instant::now() + LIMIT;
    let received = objects.b.recv(Source::Any, vec![0; 8]).map_err(|refused| refused.error).expect("posted");
    let sent = objects.cq.post(pattern(8, 6), deadline, |message| objects.b.send(to_child, message));
    let sent = sent.map_err(|refused| refused.error).expect("posted");
    let (bytes, result) = objects.cq.finish(received, deadline).expect("received by the parent").into_parts();
    assert_eq!((result.expect("received").len, &bytes), (8, &pattern(8, 7)));
    objects.cq.finish(sent, deadline).expect("sent").result().expect("sent");
    // Endpoints of the child have other names.
    let another = objects.cq.endpoint(&objects.av).expect("another endpoint");
    let to_another = objects.av.insert(&another.address().expect("an address")).expect("inserted");
    exchange(&objects.cq, [&objects.a, &another], to_another, 3);
    drop(here);
    wait_for(child);
    objects.exchange(2);
}

fn connected_info<'h>(provider: &'h str, with: impl FnOnce(Hints<'h>) -> Hints<'h>) -> Option<Info<T>> {
    let hints = Hints {
        caps: Caps::MSG,
        provider: Some(provider),
        endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
        ..Hints::default()
    };
    T::query(&with(hints)).ok()?.next()
}

type Connected = MsgEndpoint<'static, T, Vec<u8>>;

fn connect(
    domain: &Domain<'static, T>,
    cq: &Cq<'static, T, Vec<u8>>,
    eq: &EventQueue<'static, T>,
    info: &Info<T>,
) -> (PassiveEndpoint<'static, T>, Connected, Connected) {
    let listener = eq.listen(info).expect("a passive endpoint");
    let address = listener.address().expect("an address");
    let with = |hints| Hints { destination: Some(&address), domain: Some(domain.info().domain()), ..hints };
    let info = connected_info(info.provider(), with).expect("an info for the client");
    let mut connecting = Some(
        cq.msg_endpoint(eq, &info)
            .expect("an endpoint")
            .connect(&address, b"")
            .map_err(|refused| refused.error)
            .expect("connecting"),
    );
    let (mut accepting, mut client, mut server) = (None, None, None);
    let deadline = Instant::now() + LIMIT;
    while client.is_none() || server.is_none() {
        assert!(Instant::now() < deadline, "no connection in time");
        match eq.poll().expect("the event queue works") {
            Some(EqEvent::Request(request)) => {
                let endpoint = request.endpoint(cq, eq).expect("an endpoint");
                accepting = Some(endpoint.accept(b"").map_err(|refused| refused.error).expect("accepting"));
            }
            Some(EqEvent::Connected(event)) => match connecting.take().map(|endpoint| endpoint.established(&event)) {
                Some(Ok(connected)) => client = Some(connected),
                other => {
                    connecting = other.and_then(Result::err);
                    server = accepting.take().and_then(|endpoint| endpoint.established(&event).ok());
                }
            },
            Some(other) => panic!("{other:?}"),
            None => {
                let _ = cq.progress();
            }
        }
    }
    (listener, client.expect("a client"), server.expect("a server"))
}

fn connections(info: &Info<T>) {
    let domain = Domain::open(info).expect("a domain");
    let eq = EventQueue::open(&domain, EqAttr::default()).expect("an event queue");
    let cq = Cq::<_, Vec<u8>>::open(&domain, 16).expect("a queue");
    let (listener, client, server) = connect(&domain, &cq, &eq, info);
    let both_ways = |seed| {
        for (from, to) in [(&client, &server), (&server, &client)] {
            let deadline = Instant::now() + LIMIT;
            let received = to.recv(ThePeer, vec![0; 8]).map_err(|refused| refused.error).expect("posted");
            let sent = cq.post(pattern(8, seed), deadline, |message| from.send(ThePeer, message));
            let sent = sent.map_err(|refused| refused.error).expect("posted");
            let (bytes, result) = cq.finish(received, deadline).expect("received").into_parts();
            assert_eq!((result.expect("received").len, bytes), (8, pattern(8, seed)));
            cq.finish(sent, deadline).expect("sent").result().expect("sent");
        }
    };
    both_ways(1);
    let mut child = 0;
    if forked(&mut child) {
        let refused = client.send(ThePeer, vec![3; 8]).expect_err("the child sends");
        assert_eq!((refused.error, refused.value), (PostError::OtherProcess, vec![3; 8]));
        assert_eq!(eq.poll().expect_err("the child reads events"), CqError::OtherProcess);
        assert_eq!(listener.address().expect_err("the child reads the address"), Errno::OTHER_PROCESS);
        assert!(eq.listen(info).is_err_and(|error| error == OpenError::OtherProcess));
        drop((client, listener, eq, server, cq, domain));
        _exit(0);
    }
    wait_for(child);
    both_ways(2);
}
