use std::panic::{AssertUnwindSafe, catch_unwind};

use allocator_api2::alloc::Global;
use loom_core::atomic::FetchOp;
use loom_core::cq::CqError;
use loom_core::driver::{CqDriver, Drive, Unclaimed};
use loom_core::error::PostError;
use loom_core::soft::{Every, Network, NetworkAttr, Plan, Soft};
use loom_core::vocabulary::Access;
use loom_core::{Av, Binding, Completion, Cq, Domain, Endpoint, Errno, Mr, Source, Spins, Tag};
use loom_group::{ConnectError, Group, Outcome, PeerError, PeerIndex, PeerRegion, Place, Prepared, Request};

type Bytes = Vec<u8>;
type Fabric = Soft<'static>;
type Hub = Group<'static, Fabric, Bytes, Global>;

const PATIENCE: Spins = Spins(100_000);

struct World {
    hub: Hub,
    peers: Vec<Side>,
    domain: Domain<'static, Fabric>,
}

struct Side {
    endpoint: Endpoint<'static, Fabric, Bytes>,
    hub: loom_core::Peer,
}

fn world(peers: usize, depth: usize) -> World {
    world_with(peers, depth, 1024, Plan::new(0))
}

/// Opens a world: `depth` is of the group's queue, `out` its limit of unreceived messages. Only the
/// group has the plan.
fn world_with(peers: usize, depth: usize, out: u32, plan: Plan) -> World {
    let most = u16::try_from(peers + 4).unwrap();
    let attr = NetworkAttr {
        endpoints: most,
        tx_depth: out,
        rx_depth: 64,
        eager_size: 64,
        regions: most,
        ..NetworkAttr::DEFAULT
    };
    let network = Network::new(attr).unwrap();
    let domain = Domain::open(&network.info_with_faults(plan)).unwrap();
    let prepared = Prepared::open(&domain, peers + 1, depth).unwrap();
    let address = prepared.address().unwrap();
    let open = |_| {
        let av = Av::open(&domain, 2).unwrap();
        let cq = Cq::open(&domain, 64).unwrap();
        let plain = network.info();
        let endpoint = cq.endpoint(Binding::to(&av).info(plain.clone())).unwrap();
        Side { endpoint, hub: av.insert(&address).unwrap() }
    };
    let peers: Vec<_> = (0..peers).map(open).collect();
    let hub = prepared.connect(peers.iter().map(|side| side.endpoint.address().unwrap())).unwrap();
    World { hub, peers, domain }
}

impl Side {
    fn receive(&self) -> Bytes {
        let key = self.endpoint.recv(Source::Any, vec![0; 64]).unwrap();
        let done = self.endpoint.cq().finish(key, PATIENCE).unwrap();
        let len = done.result().unwrap().len;
        let mut buf = done.into_buf();
        buf.truncate(len);
        buf
    }

    fn send(&self, message: &[u8]) {
        self.endpoint.inject(self.hub, message).unwrap();
    }
}

fn places(count: usize) -> Vec<Place<'static, Fabric, Bytes>> {
    (0..count).map(|_| Place::EMPTY).collect()
}

fn each(count: u32) -> impl Iterator<Item = PeerIndex> {
    (0..count).map(PeerIndex)
}

#[test]
fn scattered_messages_arrive_and_answers_are_gathered() {
    for count in [1, 2, 3, 8, 64, 1000] {
        let World { hub, peers, .. } = world(usize::try_from(count).unwrap(), 16);
        let mut places = places(peers.len());
        let work = each(count).map(|peer| (peer, peer.0.to_le_bytes().to_vec()));
        let summary = hub.scatter_send(work, &mut places, PATIENCE).unwrap();
        assert!(summary.is_complete() && summary.requests() == peers.len(), "{summary:?}");
        for (number, side) in peers.iter().enumerate() {
            let message = side.receive();
            assert_eq!(message, u32::try_from(number).unwrap().to_le_bytes());
            side.send(&[&message[..], b"!"].concat());
        }
        let summary = hub.gather_recv(each(count).map(|peer| (peer, vec![0; 5])), &mut places, PATIENCE).unwrap();
        assert!(summary.is_complete(), "{summary:?}");
        for (peer, place) in each(count).zip(&mut places) {
            assert_eq!(place.peer(), peer);
            assert_eq!(place.take().into_buf().unwrap(), [&peer.0.to_le_bytes()[..], b"!"].concat());
        }
        assert_eq!(hub.cq().in_flight(), 0);
    }
}

#[test]
fn regions_of_peers_are_written_and_read_within_their_ranges() {
    let World { hub, peers, domain } = world(3, 16);
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let regions: Vec<_> = peers.iter().map(|_| Mr::open(&domain, vec![0; 16], access).unwrap()).collect();
    let whole: Vec<_> = each(3).zip(&regions).map(|(peer, region)| PeerRegion::new(peer, region.remote())).collect();
    let mut places = places(3);
    let work =
        whole.iter().map(|region| (region.slice(4..8).unwrap(), vec![u8::try_from(region.peer().0).unwrap() + 1; 4]));
    assert!(hub.scatter_write(work, &mut places, PATIENCE).unwrap().is_complete());
    let read = hub.gather_read(whole.iter().map(|region| (*region, vec![9; 16])), &mut places, PATIENCE).unwrap();
    assert!(read.is_complete());
    for (number, place) in (1..).zip(&places) {
        let expected = [[0; 4], [number; 4], [0; 4], [0; 4]].concat();
        assert_eq!(place.outcome().buf().unwrap(), &expected);
    }
    let beyond = whole.iter().map(|region| (*region, vec![7; if region.peer().0 == 1 { 17 } else { 16 }]));
    let summary = hub.scatter_write(beyond, &mut places, PATIENCE).unwrap();
    assert_eq!((summary.done, summary.not_posted), (2, 1));
    assert!(
        matches!(places[1].outcome(), Outcome::NotPosted { buf, error: PostError::OutOfBounds } if buf.len() == 17)
    );
    let add = domain.query_atomic(FetchOp::<u64>::SUM).unwrap();
    let at = whole[2].slice(8..).unwrap();
    let key = hub.fetch_value(&at, add, 1).unwrap();
    let before = hub.cq().wait_value(key, PATIENCE).unwrap().unwrap();
    assert_eq!(before.value::<u64>().unwrap(), Some(u64::from_ne_bytes([7; 8])));
}

#[test]
fn a_number_that_is_no_members_is_refused_and_the_buffer_comes_back() {
    let World { hub, peers, .. } = world(2, 16);
    for peer in [PeerIndex(2), PeerIndex(3), PeerIndex(u32::MAX)] {
        let refused = hub.send(peer, vec![1, 2]).unwrap_err();
        assert_eq!((refused.error, refused.value), (PostError::UnknownPeer, vec![1, 2]));
        let refused = hub.tagged_recv(peer, Tag(1), vec![3]).unwrap_err();
        assert_eq!((refused.error, refused.value), (PostError::UnknownPeer, vec![3]));
        assert_eq!(hub.inject(peer, b"x"), Err(PostError::UnknownPeer));
    }
    let mut places = places(3);
    let summary = hub.multicast_send([0, 7, 1].map(PeerIndex), &b"all".to_vec(), &mut places, PATIENCE).unwrap();
    assert_eq!((summary.done, summary.not_posted), (2, 1));
    assert!(matches!(places[1].outcome(), Outcome::NotPosted { buf, error: PostError::UnknownPeer } if buf == b"all"));
    assert!(peers.iter().all(|side| side.receive() == b"all"));
}

#[test]
fn a_peer_is_replaced_and_removed_without_the_others_noticing() {
    let World { hub, peers, .. } = world(3, 16);
    let address = peers[2].endpoint.address().unwrap();
    hub.set(PeerIndex(1), &address).unwrap();
    assert!(hub.remove(PeerIndex(2)));
    assert!(!hub.remove(PeerIndex(2)));
    assert_eq!(hub.peers().map(|peer| peer.0).collect::<Vec<_>>(), [0, 1]);
    let mut places = places(3);
    let work = each(3).map(|peer| (peer, vec![u8::try_from(peer.0).unwrap()]));
    let summary = hub.scatter_send(work, &mut places, PATIENCE).unwrap();
    assert_eq!((summary.done, summary.not_posted), (2, 1));
    assert_eq!((peers[0].receive(), peers[2].receive()), (vec![0], vec![1]));
    assert_eq!(hub.set(PeerIndex(4), &address), Err(PeerError::NoSuchPlace));
    hub.set(PeerIndex(3), &peers[1].endpoint.address().unwrap()).unwrap();
    hub.inject(PeerIndex(3), b"back").unwrap();
    assert_eq!(peers[1].receive(), b"back");
}

#[test]
fn a_group_that_does_not_connect_is_given_back_and_names_the_peer() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let prepared = Prepared::<_, Bytes, _>::open(&domain, 1, 8).unwrap();
    let address = prepared.address().unwrap();
    let failed = prepared.connect([&address, &address]).unwrap_err();
    assert_eq!(failed.error, ConnectError { peer: PeerIndex(1), error: PeerError::NoSuchPlace });
    let group = failed.value.connect([&address]).unwrap();
    group.inject(PeerIndex(0), b"me").unwrap();
}

#[test]
fn requests_that_find_no_room_are_posted_later_in_their_order() {
    let World { hub, peers, .. } = world_with(2, 64, 8, Plan { refuse: Every::Nth(3), ..Plan::new(1) });
    let mut places = places(40);
    let summary = hub.scope(&mut places, |scope| {
        for seed in 0..20 {
            for peer in [0, 1].map(PeerIndex) {
                scope.send(peer, vec![seed; if seed % 3 == 0 { 4000 } else { 20 }]).unwrap();
            }
        }
        assert!((0..40).any(|number| scope.waits(Request(number))));
        for seed in 0..20 {
            for side in &peers {
                let key = side.endpoint.recv(Source::Any, vec![0; 4000]).unwrap();
                let mut turns = 0;
                let done = loop {
                    scope.turn().unwrap();
                    if let Some(done) = side.endpoint.cq().wait(key, Spins(1)).unwrap() {
                        break done;
                    }
                    turns += 1;
                    assert!(turns < 100_000, "message {seed} arrives");
                };
                let len = done.result().unwrap().len;
                assert_eq!(done.into_buf()[..len], vec![seed; if seed % 3 == 0 { 4000 } else { 20 }], "in their order");
            }
        }
        scope.finish(PATIENCE).unwrap()
    });
    assert!(summary.is_complete() && summary.requests() == 40, "{summary:?}");
}

#[test]
fn work_that_has_no_place_is_left_in_the_iterator() {
    let World { hub, peers, .. } = world(3, 16);
    let mut work = each(3).map(|peer| (peer, vec![u8::try_from(peer.0).unwrap()]));
    assert_eq!(hub.scatter_send(&mut work, &mut places(2), PATIENCE).unwrap().done, 2);
    assert_eq!(work.next().unwrap(), (PeerIndex(2), vec![2]));
    assert_eq!((peers[0].receive(), peers[1].receive()), (vec![0], vec![1]));
}

#[test]
fn a_deadline_ends_unanswered_receives() {
    let World { hub, peers, .. } = world(3, 2);
    let mut places = places(3);
    peers[0].send(b"one");
    let rooms = [1, 0, 2].map(|peer| (PeerIndex(peer), vec![0; 8]));
    let summary = hub.gather_recv(rooms, &mut places, Spins(100)).unwrap();
    assert_eq!((summary.done, summary.failed), (1, 2), "{summary:?}: {places:?}");
    let cancelled = |place: &Place<'_, _, _>| matches!(place.outcome(), Outcome::Failed { error, .. } if error.errno == Errno::ECANCELED);
    assert!(cancelled(&places[0]) && places[1].outcome().is_done() && cancelled(&places[2]));
    let World { hub, .. } = world(3, 1);
    let summary = hub.gather_recv(each(3).map(|peer| (peer, vec![0; 8])), &mut places, Spins(100)).unwrap();
    assert_eq!((summary.failed, summary.not_posted), (1, 2), "{summary:?}");
    assert!(matches!(places[2].outcome(), Outcome::NotPosted { buf, .. } if buf.len() == 8));
    assert_eq!(hub.cq().in_flight(), 0);
}

#[test]
fn a_scope_that_panics_leaves_no_operation_in_flight() {
    let World { hub, peers, .. } = world(2, 16);
    let mut places = places(4);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        hub.scope(&mut places, |scope| {
            scope.recv(PeerIndex(0), vec![0; 8]).unwrap();
            scope.send(PeerIndex(1), vec![1; 8]).unwrap();
            panic!("in the middle");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(hub.cq().in_flight(), 0);
    assert!(matches!(places[0].outcome(), Outcome::Failed { error, .. } if error.errno == Errno::ECANCELED));
    assert!(places.iter().take(2).all(|place| place.outcome().buf().is_some()));
    assert_eq!(peers[1].receive(), vec![1; 8]);
}

#[test]
fn requests_of_a_scope_are_looked_at_one_by_one() {
    let World { hub, peers, .. } = world(2, 16);
    let mut places = places(2);
    hub.scope(&mut places, |scope| {
        let [one, other] = [0, 1].map(|peer| scope.recv(PeerIndex(peer), vec![0; 2]).unwrap());
        let full = scope.send(PeerIndex(0), vec![5]).unwrap_err();
        assert_eq!((full.error, full.value), (PostError::Full, vec![5]));
        peers[1].send(b"hi");
        for _ in 0..100 {
            scope.turn().unwrap();
        }
        assert!(scope.outcome(other).is_some_and(Outcome::is_done) && !scope.is_over());
        assert!(matches!(scope.outcome(one), Some(Outcome::InFlight(_))));
        assert!(scope.outcome(Request(2)).is_none());
        peers[0].send(b"ho");
        assert!(scope.finish(PATIENCE).unwrap().is_complete() && scope.is_over());
    });
    assert_eq!(places[0].take().into_buf().unwrap(), b"ho");
}

#[test]
fn messages_are_exchanged_with_every_peer() {
    let World { hub, peers, .. } = world(3, 16);
    for (number, side) in (10..).zip(&peers) {
        side.send(&[number]);
    }
    let mut places = places(7);
    let work = each(3).map(|peer| (peer, vec![u8::try_from(peer.0).unwrap()], vec![0; 1]));
    let summary = hub.exchange(work, &mut places, PATIENCE).unwrap();
    assert_eq!((summary.done, summary.requests()), (6, 6));
    for (number, side) in (0..).zip(&peers) {
        assert_eq!(side.receive(), [number]);
        assert_eq!(places[usize::from(number) * 2].outcome().buf().unwrap(), &[number + 10]);
    }
    assert!(matches!(places[6].outcome(), Outcome::Empty));
}

#[test]
fn an_exchange_without_free_slots_takes_no_work() {
    let World { hub, peers, .. } = world(1, 3);
    let held = [0, 1].map(|_| hub.recv(PeerIndex(0), vec![0; 1]).unwrap());
    let mut places = places(2);
    let mut work = core::iter::once((PeerIndex(0), vec![1], vec![0; 1]));
    assert_eq!(hub.exchange(work.by_ref(), &mut places, PATIENCE), Err(CqError::Full));
    for number in [10, 11, 12] {
        peers[0].send(&[number]);
    }
    hub.cq().progress().unwrap();
    assert_eq!(hub.exchange(work.by_ref(), &mut places, PATIENCE), Err(CqError::Full));
    assert!(places.iter().all(|place| matches!(place.outcome(), Outcome::Empty)));
    for (key, number) in held.into_iter().zip([10, 11]) {
        assert_eq!(hub.cq().finish(key, PATIENCE).unwrap().into_buf(), [number]);
    }
    let summary = hub.exchange(work, &mut places, PATIENCE).unwrap();
    assert_eq!((summary.done, summary.is_complete()), (2, true));
    assert_eq!((places[0].take_buf(), peers[0].receive()), (Some(vec![12]), vec![1]));
}

#[test]
fn posts_by_peer_are_awaited_as_futures() {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    let World { hub, peers, .. } = world(1, 16);
    let driver = CqDriver::open(hub.cq(), Unclaimed::Drop).unwrap();
    let mut echo = std::pin::pin!(async {
        driver.run(b"ping".to_vec(), |buf| hub.send(PeerIndex(0), buf)).await.unwrap().result().unwrap();
        driver.run(vec![0; 4], |buf| hub.recv(PeerIndex(0), buf)).await.unwrap().into_buf()
    });
    let mut context = Context::from_waker(Waker::noop());
    let mut answered = false;
    for _ in 0..10_000 {
        if let Poll::Ready(bytes) = echo.as_mut().poll(&mut context) {
            assert_eq!(bytes, b"pong");
            return;
        }
        driver.turn(8);
        if !answered && echo_is_out(&peers[0]) {
            answered = true;
            peers[0].send(b"pong");
        }
    }
    panic!("no echo");
}

fn echo_is_out(side: &Side) -> bool {
    if side.endpoint.cq().in_flight() == 0 {
        side.endpoint.recv(Source::Any, vec![0; 4]).unwrap();
    }
    matches!(side.endpoint.cq().poll().unwrap(), Some(Completion::Op(done)) if done.buf() == b"ping")
}
