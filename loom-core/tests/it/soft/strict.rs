//! Guarantees of the software transport that a strict network does not give: a test for each row of
//! the table in `loom_core::soft`, over both.

use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent};
use loom_core::completion::{Completion, Done, RemoteEvent};
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Source};
use loom_core::endpoint::{CompletionLevel, SendOptions};
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::info::{Hints, Info};
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Access, Caps, Counted, Errno, ImmediateData, MemoryKey, MsgOrder, RemoteAddr, Tag};
use loom_core::{Driving, Endpoint, Error, OpKey, Peer, Spins};

type Bytes = Box<[u8]>;
type Side = Endpoint<'static, Soft<'static>, Bytes>;

/// Longer than a cell, so that messages are offers.
const LONG: usize = 1 << 12;
const ALL: Caps = Caps::MSG.union(Caps::TAGGED).union(Caps::RMA).union(Caps::MULTI_RECV);
const PEERS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

fn network(strict: bool) -> Network<'static> {
    Network::new(NetworkAttr { strict, ..NetworkAttr::DEFAULT }).unwrap()
}

fn bytes(len: usize) -> Bytes {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

struct World {
    a: Side,
    b: Side,
    to_a: Peer,
    to_b: Peer,
    av: Av<'static, Soft<'static>>,
    domain: Domain<'static, Soft<'static>>,
}

impl World {
    fn open(info: &Info<Soft<'static>>) -> Self {
        let domain = Domain::open(info).unwrap();
        let av = Av::open(&domain, 8).unwrap();
        let open = || Cq::open(&domain, CqAttr::new(64)).unwrap().endpoint(&av).unwrap();
        let (a, b) = (open(), open());
        let [to_a, to_b] = [&a, &b].map(|side| av.insert(&side.address().unwrap()).unwrap());
        World { a, b, to_a, to_b, av, domain }
    }

    fn poll_both(&self) {
        for side in [&self.a, &self.b] {
            side.cq().progress().unwrap();
        }
    }

    /// Exchanges first messages, so that no later post is the first.
    fn meet(&self) {
        for (side, to) in [(&self.a, self.to_b), (&self.b, self.to_a)] {
            while side.inject(to, &[0]) == Err(PostError::Again) {
                self.poll_both();
            }
            self.poll_both();
        }
        for side in [&self.a, &self.b] {
            let key = side.recv(Source::Any, bytes(8)).unwrap();
            assert!(self.end(side, key).result().is_ok());
        }
    }

    /// Returns the end of an operation, if it ends soon.
    fn ends(&self, side: &Side, key: OpKey) -> Option<Done<Bytes>> {
        (0..50).find_map(|_| {
            self.poll_both();
            side.cq().wait(key, Spins(1)).unwrap()
        })
    }

    fn end(&self, side: &Side, key: OpKey) -> Done<Bytes> {
        self.ends(side, key).expect("it ends")
    }

    fn region(&self, access: Access) -> Mr<'static, Soft<'static>, Bytes> {
        Mr::open(&self.domain, vec![0; 64].into(), access).unwrap()
    }

    fn remote_event(&self) -> RemoteEvent {
        for _ in 0..50 {
            self.a.cq().progress().unwrap();
            if let Some(Completion::Remote(event)) = self.b.cq().poll().unwrap() {
                return event;
            }
        }
        panic!("no event of the peer");
    }
}

/// Runs `test` over the default network and over a strict one, both with `hints`.
fn over_both_with(hints: &Hints<'_>, test: impl Fn(bool, &World)) {
    for strict in [false, true] {
        test(strict, &World::open(&network(strict).query(hints).unwrap()));
    }
}

fn over_both(test: impl Fn(bool, &World)) {
    over_both_with(&Hints::default(), test);
}

fn byte(region: &Mr<'static, Soft<'static>, Bytes>) -> u8 {
    region.window().load(1, std::sync::atomic::Ordering::Relaxed).unwrap()
}

#[test]
fn capabilities_are_granted_on_request() {
    let caps = |strict, caps| network(strict).query(&Hints { caps, ..Hints::default() }).unwrap().caps();
    let parts = Caps::READ | Caps::WRITE | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
    let (messages, local) = (Caps::SEND | Caps::RECV, Caps::LOCAL_COMM);
    let whole = network(false).info().caps();
    for asked in [Caps::empty(), Caps::MSG, Caps::RMA | Caps::READ, Caps::TAGGED | Caps::SOURCE] {
        assert_eq!(caps(false, asked), whole);
    }
    let unasked = ALL | parts | messages | local;
    assert_eq!((caps(true, Caps::empty()), network(true).info().caps()), (unasked, unasked));
    assert_eq!(caps(true, Caps::MSG), Caps::MSG | messages | local);
    assert_eq!(caps(true, Caps::RMA | Caps::READ), Caps::RMA | Caps::READ | local);
    let more = Caps::TAGGED | Caps::SOURCE | Caps::DIRECTED_RECV;
    assert_eq!(caps(true, more), more | messages | local);
    assert!(network(true).query(&Hints { caps: Caps::MULTICAST, ..Hints::default() }).is_err());
    // An operation without its grant is refused.
    over_both_with(&Hints { caps: Caps::MSG, ..Hints::default() }, |strict, world| {
        let tagged = world.a.tagged_recv(Source::Any, Tag(1), bytes(8)).map_err(|rejected| rejected.error);
        assert_eq!(tagged.err(), strict.then_some(PostError::NotGranted(Caps::TAGGED)));
    });
}

#[test]
fn sources_are_reported_where_they_are_requested() {
    for asked in [false, true] {
        let caps = if asked { ALL | Caps::SOURCE } else { ALL };
        over_both_with(&Hints { caps, ..Hints::default() }, |strict, world| {
            world.meet();
            let received = world.b.recv(Source::Any, bytes(8)).unwrap();
            world.a.inject(world.to_b, &[1]).unwrap();
            let told = world.end(&world.b, received).result().unwrap().source;
            assert_eq!(told.is_some(), asked || !strict);
            let region = world.region(PEERS);
            world.a.inject_write_data(world.to_b, &region.remote(), 0, ImmediateData(1), &[1]).unwrap();
            assert_eq!(world.remote_event().source().is_some(), asked || !strict);
        });
    }
}

#[test]
fn directed_receives_without_tag_are_refused() {
    over_both_with(&Hints { caps: ALL | Caps::DIRECTED_RECV, ..Hints::default() }, |strict, world| {
        world.a.tagged_recv(world.to_b, Tag(1), bytes(8)).unwrap();
        let plain = world.a.recv(world.to_b, bytes(8)).map_err(|rejected| rejected.error);
        assert_eq!(plain.err(), strict.then_some(PostError::NotGranted(Caps::DIRECTED_RECV)));
    });
}

#[test]
fn orders_of_memory_access_are_granted_on_request() {
    let order = |strict, asked| {
        let info = network(strict).query(&Hints::default().with_msg_order(asked)).ok()?;
        let all = info.attributes();
        assert_eq!(all.tx.msg_order, all.rx.msg_order);
        Some((all.tx.msg_order, all.endpoint.max_order_waw_size > 0, all.endpoint.max_order_raw_size > 0))
    };
    let whole = network(false).info().attributes().tx.msg_order;
    for asked in [MsgOrder::empty(), MsgOrder::SAS, MsgOrder::WAW] {
        assert_eq!(order(false, asked), Some((whole, true, true)));
    }
    assert_eq!(order(true, MsgOrder::empty()), Some((MsgOrder::SAS, false, false)));
    assert_eq!(order(true, MsgOrder::WAW), Some((MsgOrder::SAS | MsgOrder::WAW, true, false)));
    // `tcp;ofi_rxm`, `net` and `udp;ofi_rxd` have none of these.
    for more in [MsgOrder::WAR, MsgOrder::SAR] {
        assert_eq!((order(false, more), order(true, more)), (Some((whole, true, true)), None));
    }
}

#[test]
fn sixty_four_bytes_are_injected_and_no_more() {
    over_both(|strict, world| {
        let limit = if strict { 64 } else { 1024 };
        assert_eq!(world.a.inject_size(), limit);
        assert_eq!(world.a.inject(world.to_b, &bytes(limit + 1)), Err(PostError::TooLong { limit }));
    });
    let hints = |size| {
        let mut hints = Hints::default();
        hints.tx_attr.inject_size = size;
        hints
    };
    assert!(network(true).query(&hints(64)).is_ok() && network(true).query(&hints(65)).is_err());
}

type Post = fn(&World, &RemoteRegion) -> Result<(), PostError>;

const POSTS: [Post; 7] = [
    |w, _| w.a.send(w.to_b, bytes(8)).map(drop).map_err(|rejected| rejected.error),
    |w, _| w.a.inject(w.to_b, &[1]),
    |w, _| w.a.tagged_send(w.to_b, Tag(1), bytes(8)).map(drop).map_err(|rejected| rejected.error),
    |w, _| w.a.send_with(w.to_b, Default::default(), bytes(8)).map(drop).map_err(|rejected| rejected.error),
    |w, to| w.a.write(w.to_b, to, 0, bytes(8)).map(drop).map_err(|rejected| rejected.error),
    |w, to| w.a.inject_write(w.to_b, to, 0, &[1]),
    |w, to| w.a.read(w.to_b, to, 0, bytes(8)).map(drop).map_err(|rejected| rejected.error),
];

#[test]
fn the_first_post_to_a_peer_waits_until_both_have_polled() {
    for post in POSTS {
        over_both(|strict, world| {
            let region = world.region(PEERS);
            let expected = if strict { Err(PostError::Again) } else { Ok(()) };
            assert_eq!(post(world, &region.remote()), expected);
            // Polls of one side are not enough.
            for _ in 0..100 {
                world.a.cq().progress().unwrap();
                assert_eq!(post(world, &region.remote()).is_ok(), !strict);
                if !strict {
                    return;
                }
            }
            world.b.cq().progress().unwrap();
            assert_eq!(post(world, &region.remote()), Ok(()));
            assert_eq!(post(world, &region.remote()), Ok(()), "one meets a peer once");
        });
    }
}

#[test]
fn calls_on_one_queue_need_the_other_queue_of_the_thread() {
    over_both(|strict, world| {
        let (here, there) = (world.a.cq(), world.b.cq());
        let (looks, region) = (|| Spins(1000), world.region(PEERS));
        let again = if strict { Err(PostError::Again) } else { Ok(()) };
        assert_eq!(here.retry(looks(), || world.a.inject(world.to_b, &[1])), again);
        let posted = here.post(bytes(8), looks(), |buf| world.a.send(world.to_b, buf));
        assert_eq!(posted.map(drop).map_err(|rejected| rejected.error), again);
        here.retry(Driving::new(looks(), || there.progress()), || world.a.inject(world.to_b, &[1])).unwrap();
        let read = |buf| world.a.read(world.to_b, &region.remote(), 0, buf);
        let key = here.post(bytes(8), Driving::new(looks(), || there.progress()), read).unwrap();
        let waited = here.wait(key, looks()).unwrap();
        assert_eq!(waited.is_none(), strict);
        let done = waited.unwrap_or_else(|| here.finish(key, Driving::new(looks(), || there.progress())).unwrap());
        assert_eq!(*done.into_buf(), [0; 8]);
    });
}

#[test]
fn driving_a_queue_that_cannot_go_on_ends_a_wait_with_its_error() {
    let world = World::open(&network(true).info());
    let key = world.a.recv(Source::Any, bytes(8)).unwrap();
    let mut calls = 0;
    let mut until = Driving::new(Spins(1000), || {
        calls += 1;
        if calls < 3 { Ok(true) } else { Err(CqError::PeerEvents) }
    });
    assert!(world.a.cq().wait(key, &mut until).unwrap().is_none());
    assert_eq!((until.result(), calls), (Err(CqError::PeerEvents), 3));
}

#[test]
fn the_peer_does_not_meet_for_both() {
    over_both(|strict, world| {
        for _ in 0..100 {
            assert_eq!(world.a.inject(world.to_b, &[1]).is_err(), strict);
            world.b.cq().progress().unwrap();
            if !strict {
                return;
            }
        }
        world.a.cq().progress().unwrap();
        assert_eq!(world.a.inject(world.to_b, &[1]), Ok(()));
    });
}

#[test]
fn an_endpoint_in_the_place_of_another_is_another_peer() {
    let world = World::open(&network(true).info());
    world.meet();
    let place = |address: &loom_core::EndpointAddr| String::from_utf8_lossy(address.bytes()).into_owned();
    let before = place(&world.b.address().unwrap());
    let World { a, b, av, domain, .. } = world;
    drop(b);
    let b = Cq::<_, Bytes>::open(&domain, CqAttr::new(64)).unwrap().endpoint(&av).unwrap();
    assert_ne!(place(&b.address().unwrap()), before);
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    assert_eq!(a.inject(to_b, &[1]), Err(PostError::Again));
    for side in [&a, &b] {
        side.cq().progress().unwrap();
    }
    assert_eq!(a.inject(to_b, &[1]), Ok(()));
}

#[test]
fn bytes_are_written_when_the_peer_polls() {
    over_both(|strict, world| {
        world.meet();
        let region = world.region(PEERS);
        let written = world.a.write(world.to_b, &region.remote(), 0, bytes(16)).unwrap();
        // The write completes for the writer before the peer has the data.
        let done = world.a.cq().wait(written, loom_core::Spins(1)).unwrap().expect("over at once");
        assert_eq!(done.result().unwrap().len, 16);
        for _ in 0..100 {
            world.a.cq().progress().unwrap();
        }
        assert_eq!(byte(&region), u8::from(!strict));
        world.b.cq().progress().unwrap();
        world.a.cq().progress().unwrap();
        assert_eq!(byte(&region), 1);
    });
}

#[test]
fn a_write_with_delivery_level_is_reported_after_it_is_done() {
    for (level, early) in [(CompletionLevel::Transmit, true), (CompletionLevel::Delivery, false)] {
        over_both(|strict, world| {
            world.meet();
            let region = world.region(PEERS);
            let (parts, options) =
                ([region.remote().part(0, 8).unwrap()], SendOptions { level: Some(level), ..SendOptions::default() });
            let written = world.a.write_with(world.to_b, &parts, options, bytes(8)).unwrap();
            let done = world.a.cq().wait(written, loom_core::Spins(5)).unwrap();
            assert_eq!((done.is_some(), byte(&region)), (early || !strict, u8::from(!strict)));
            if done.is_none() {
                assert!(world.end(&world.a, written).result().is_ok());
                assert_eq!(byte(&region), 1);
            }
        });
    }
}

#[test]
fn long_writes_and_reads_end_when_the_peer_has_polled() {
    over_both(|strict, world| {
        world.meet();
        let region = Mr::open(&world.domain, bytes(LONG), PEERS).unwrap();
        for write in [true, false] {
            let key = match write {
                true => world.a.write(world.to_b, &region.remote(), 0, bytes(LONG)).unwrap(),
                false => world.a.read(world.to_b, &region.remote(), 0, vec![0; LONG].into()).unwrap(),
            };
            for _ in 0..100 {
                world.a.cq().progress().unwrap();
            }
            let early = world.a.cq().wait(key, loom_core::Spins(1)).unwrap();
            assert_eq!(early.is_some(), !strict);
            let done = early.unwrap_or_else(|| world.end(&world.a, key));
            assert!(done.into_buf() == bytes(LONG));
        }
    });
}

/// No write overtakes one that was refused for lack of room.
#[test]
fn a_network_full_of_writes_returns_again() {
    for strict in [false, true] {
        let attr = NetworkAttr { tx_depth: 4, strict, ..NetworkAttr::DEFAULT };
        let world = World::open(&Network::new(attr).unwrap().info());
        world.meet();
        let region = Mr::open(&world.domain, bytes(LONG), PEERS).unwrap();
        let remote = region.remote();
        let posts: [Post; 4] = [
            |w, to| w.a.write(w.to_b, to, 0, bytes(8)).map(drop).map_err(|rejected| rejected.error),
            |w, to| w.a.write(w.to_b, to, 0, bytes(LONG)).map(drop).map_err(|rejected| rejected.error),
            |w, to| w.a.read(w.to_b, to, 0, bytes(8)).map(drop).map_err(|rejected| rejected.error),
            |w, to| w.a.inject_write(w.to_b, to, 0, &[1]),
        ];
        for post in posts {
            for _ in 0..4 {
                post(&world, &remote).unwrap();
            }
            for post in posts {
                assert_eq!(post(&world, &remote), if strict { Err(PostError::Again) } else { Ok(()) });
            }
            for _ in 0..50 {
                world.poll_both();
            }
            while world.a.cq().poll().unwrap().is_some() {}
            assert_eq!(world.a.cq().in_flight(), 0);
        }
    }
}

#[test]
fn a_requested_order_holds() {
    over_both_with(&Hints::default().with_msg_order(MsgOrder::WAW), |_, world| {
        world.meet();
        let region = world.region(PEERS);
        for value in 1..100 {
            world.a.inject_write(world.to_b, &region.remote(), 1, &[value]).unwrap();
            assert_eq!(byte(&region), value);
        }
    });
}

#[test]
fn a_write_before_a_message_may_come_after_it() {
    over_both(|strict, world| {
        world.meet();
        let region = world.region(PEERS);
        let received = world.b.recv(Source::Any, bytes(8)).unwrap();
        world.a.inject_write(world.to_b, &region.remote(), 1, &[7]).unwrap();
        world.a.inject(world.to_b, &[1]).unwrap();
        assert!(world.b.cq().wait(received, loom_core::Spins(5)).unwrap().is_some());
        assert_eq!(byte(&region) == 7, !strict);
        world.poll_both();
        assert_eq!(byte(&region), 7);
    });
}

#[test]
fn an_early_write_is_counted_once() {
    over_both(|_, world| {
        let counter = Counter::open(&world.domain, CounterAttr::default()).unwrap();
        let cq = Cq::<_, Bytes>::open(&world.domain, CqAttr::new(64)).unwrap();
        let c = cq.endpoint(Binding::to(&world.av).counter(Counted::WRITE, &counter)).unwrap();
        let region = world.region(PEERS);
        let mut buf = bytes(8);
        let written = loop {
            match c.write(world.to_b, &region.remote(), 0, buf) {
                Ok(key) => break key,
                Err(rejected) => buf = rejected.value,
            }
            world.poll_both();
            cq.progress().unwrap();
        };
        for _ in 0..10 {
            world.poll_both();
            cq.progress().unwrap();
        }
        assert!(cq.wait(written, loom_core::Spins(1)).unwrap().is_some());
        assert_eq!((counter.read(), cq.in_flight(), byte(&region)), (1, 0, 1));
    });
}

#[test]
fn a_writer_gets_no_error_for_a_forbidden_target() {
    over_both(|strict, world| {
        world.meet();
        let region = world.region(Access::REMOTE_READ);
        // A forged record that claims more access than its owner grants.
        let remote = region.remote();
        let remote = RemoteRegion { base: remote.base, len: remote.len, key: remote.key, access: PEERS };
        let forged = RemoteRegion {
            base: remote.base,
            len: LONG as u64,
            key: MemoryKey(remote.key.0 ^ 0x5555),
            access: remote.access,
        };
        let beyond = RemoteRegion { base: RemoteAddr(1), len: LONG as u64, key: remote.key, access: remote.access };
        for (target, errno) in [(remote, Errno::EACCES), (forged, Errno::ENOKEY), (beyond, Errno::EACCES)] {
            for len in [8, LONG].into_iter().filter(|len| *len as u64 <= target.len) {
                let written = world.a.write(world.to_b, &target, 0, bytes(len)).unwrap();
                let result = world.end(&world.a, written).result();
                assert_eq!(result.map_err(|error| error.errno).err(), (!strict).then_some(errno));
            }
            let injected = world.a.inject_write(world.to_b, &target, 0, &[1]);
            assert_eq!(injected.err(), (!strict).then_some(PostError::Errno(errno)));
        }
        world.poll_both();
        world.poll_both();
        assert_eq!(byte(&region), 0);
        // A reader gets the error.
        let read = world.a.read(world.to_b, &forged, 0, bytes(8)).unwrap();
        assert_eq!(world.end(&world.a, read).result().unwrap_err().errno, Errno::ENOKEY);
    });
}

#[test]
fn events_of_writes_have_no_lengths() {
    use loom_core::vocabulary::CompletionFlags;
    over_both(|strict, world| {
        world.meet();
        let region = world.region(PEERS);
        let written = world.a.write_data(world.to_b, &region.remote(), 0, ImmediateData(5), bytes(16)).unwrap();
        let event = world.remote_event();
        assert_eq!((event.data(), event.len), (Some(ImmediateData(5)), if strict { 0 } else { 16 }));
        assert!(event.flags.contains(CompletionFlags::REMOTE_WRITE));
        assert_eq!(event.flags.contains(CompletionFlags::RMA), !strict);
        assert_eq!(byte(&region), 1, "the bytes are there before it");
        assert!(world.end(&world.a, written).result().is_ok());
    });
}

#[test]
fn regions_are_reached_by_their_addresses() {
    over_both(|strict, world| {
        world.meet();
        let region = world.region(PEERS);
        let start = region.window().as_ptr().addr() as u64;
        assert_eq!(region.remote().base, RemoteAddr(if strict { start } else { 0 }));
        let guessed =
            RemoteRegion { base: RemoteAddr(0), len: 64, key: region.remote().key, access: region.remote().access };
        let read = world.a.read(world.to_b, &guessed, 0, bytes(8)).unwrap();
        assert_eq!(world.end(&world.a, read).result().is_err(), strict, "by an offset");
        let parts = [region.remote().part(0, 4).unwrap(), region.remote().part(8, 4).unwrap()];
        let read = world.a.read_with(world.to_b, &parts, Default::default(), bytes(8)).unwrap();
        assert!(world.end(&world.a, read).into_buf()[..] == [0; 8]);
    });
}

struct Watched(Bytes, #[expect(dead_code, reason = "it is counted")] std::sync::Arc<()>);

// SAFETY: lends the memory of the box.
unsafe impl Buffer for Watched {
    fn lend(&mut self) -> Lent {
        self.0.lend()
    }
}

#[test]
fn closing_a_region_waits_for_the_endpoints() {
    over_both(|strict, world| {
        world.meet();
        let kept = std::sync::Arc::new(());
        let region = Mr::open(&world.domain, Watched(bytes(64), kept.clone()), PEERS).unwrap();
        let remote = region.remote();
        drop(region);
        assert_eq!(std::sync::Arc::strong_count(&kept) > 1, strict);
        let read = world.a.read(world.to_b, &remote, 0, vec![0; 8].into()).unwrap();
        assert_eq!(world.end(&world.a, read).result().is_ok(), strict, "peers reach it until then");
        let region = world.region(PEERS);
        match region.close() {
            Ok(_) => assert!(!strict),
            Err(Rejected { value: Some(_), error: Error::StillReached }) => assert!(strict),
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(std::sync::Arc::strong_count(&kept) > 1, strict);
    });
    for strict in [false, true] {
        let kept = std::sync::Arc::new(());
        let world = World::open(&network(strict).info());
        drop(Mr::open(&world.domain, Watched(bytes(64), kept.clone()), PEERS).unwrap());
        drop(world);
        assert_eq!(std::sync::Arc::strong_count(&kept), 1, "the last endpoint is closed");
    }
}

#[test]
fn borrowed_memory_is_exposed_in_domains_of_its_scope() {
    for strict in [false, true] {
        let info = network(strict).info();
        let domain = Domain::open(&info).unwrap();
        let mut memory = [0; 64];
        let beside = scope(|s| Mr::open(&s.domain(&domain), &mut memory[..], PEERS).map(drop));
        assert_eq!(beside.err(), strict.then_some(OpenError::NoFence));
        scope(|s| Mr::open(&s.open(&info).unwrap(), &mut memory[..], PEERS).map(drop)).unwrap();
    }
}

#[test]
fn sends_are_not_cancelled() {
    over_both(|strict, world| {
        world.meet();
        let sent = world.a.send(world.to_b, bytes(LONG)).unwrap();
        world.a.cancel(sent).unwrap();
        let ended = world.ends(&world.a, sent);
        assert_eq!(ended.is_none(), strict);
        if strict {
            let received = world.b.recv(Source::Any, bytes(LONG)).unwrap();
            assert!(world.end(&world.b, received).result().is_ok() && world.end(&world.a, sent).result().is_ok());
        }
        let received = world.b.recv(Source::Any, bytes(8)).unwrap();
        world.b.cancel(received).unwrap();
        assert_eq!(world.end(&world.b, received).result().unwrap_err().errno, Errno::ECANCELED);
    });
}

#[test]
fn peeks_are_refused() {
    over_both(|strict, world| {
        assert_eq!(world.b.tagged_peek(Source::Any, Tag(1)).is_err(), strict);
    });
}

#[test]
fn multi_receives_need_the_unsafe_form() {
    over_both(|strict, world| {
        assert_eq!(world.b.multi_recv(Source::Any, bytes(LONG)).is_err(), strict);
        // SAFETY: no peer sends a message.
        assert!(unsafe { world.b.multi_recv_unchecked(Source::Any, None, bytes(LONG)) }.is_ok());
    });
    // Tagged multi-receives require a hint, because no provider has them by default.
    over_both(|strict, world| {
        let refused = world.b.tagged_multi_recv(Source::Any, Tag(1), bytes(LONG)).map_err(|rejected| rejected.error);
        assert_eq!(refused.err(), strict.then_some(PostError::NotGranted(Caps::TAGGED_MULTI_RECV)));
    });
    over_both_with(&Hints { caps: ALL | Caps::TAGGED_MULTI_RECV, ..Hints::default() }, |strict, world| {
        let refused = world.b.tagged_multi_recv(Source::Any, Tag(1), bytes(LONG)).map_err(|rejected| rejected.error);
        assert_eq!(refused.err(), strict.then_some(PostError::NotSafe));
        // SAFETY: no peer sends a message.
        assert!(unsafe { world.b.multi_recv_unchecked(Source::Any, Some(Tag(1).into()), bytes(LONG)) }.is_ok());
    });
}

#[test]
fn selective_endpoints_are_refused() {
    over_both(|strict, world| {
        let opened = world.a.cq().endpoint(Binding::to(&world.av).selective());
        assert_eq!(opened.err(), strict.then_some(OpenError::Errno(Errno::EOPNOTSUPP)));
    });
}

#[test]
fn a_strict_network_reports_that_it_is_strict() {
    for (strict, name) in [(false, "memory"), (true, "strict")] {
        let network = network(strict);
        assert_eq!((network.info().domain(), network.attr().strict), (name, strict));
        let hints = Hints { domain: Some("memory"), ..Hints::default() };
        assert_eq!(network.query(&hints).is_ok(), !strict);
    }
}
