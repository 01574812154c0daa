//! Groups with a connection for each peer: operations by number, collectives if connections have
//! tags, missing peers, strangers, and peers that leave and are replaced.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_core::cq::CqAttr;
use loom_core::domain::Domain;
use loom_core::eq::{EqAttr, EqEvent, EventQueue};
use loom_core::error::PostError;
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::{Access, Caps, EndpointAddr, EndpointAttributes, EndpointType, Errno, Tag};
use loom_core::{Cq, Mr, RemoteRegion};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use loom_group::CollectiveError;
use loom_group::collective::{Sum, Team, TeamAttr};
use loom_group::{Connections, Group, Outcome, PeerError, PeerIndex, PeerRegion, Place};

type T = Ofi<Local>;
type Connector = Connections<'static, T, Vec<u8>, Global>;
type One = Group<'static, T, Vec<u8>, Global>;

/// Providers of connections of either tested version, or of both.
const PROVIDERS: [&str; 3] = ["tcp", "net", "sockets"];
const MEMBERS: u32 = 3;
const LEN: usize = 100;

fn until() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn info(provider: &str, caps: Caps) -> Option<Info<T>> {
    let hints = Hints {
        caps,
        endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
        provider: Some(provider),
        node: Some("127.0.0.1"),
        listen: true,
        ..Hints::default()
    };
    T::query(&hints).ok()?.find(|info| info.provider() == provider)
}

struct Meeting {
    addresses: Mutex<Vec<Option<EndpointAddr>>>,
    regions: Mutex<Vec<Option<[u8; RemoteRegion::WIRE_LEN]>>>,
    barrier: Barrier,
}

impl Meeting {
    fn new() -> Self {
        let members = MEMBERS as usize;
        Meeting {
            addresses: Mutex::new(vec![None; members]),
            regions: Mutex::new(vec![None; members]),
            barrier: Barrier::new(members),
        }
    }

    fn addresses(&self) -> Vec<EndpointAddr> {
        self.addresses.lock().unwrap().iter().flatten().cloned().collect()
    }
}

/// Connects members, and runs `story` as each of them, in a thread each.
fn members(provider: &str, caps: Caps, story: impl Fn(&Connector, One, u32, &Meeting) + Sync) -> bool {
    if info(provider, caps).is_none() {
        println!("{provider}: not here, or without connections");
        return false;
    }
    let (meeting, story) = (&Meeting::new(), &story);
    thread::scope(|threads| {
        for rank in 0..MEMBERS {
            threads.spawn(move || {
                let domain = Domain::open(&info(provider, caps).unwrap()).unwrap();
                let connector = Connector::open(&domain, 4, 64).unwrap();
                meeting.addresses.lock().unwrap()[rank as usize] = Some(connector.address().unwrap());
                meeting.barrier.wait();
                let group = connector.join(PeerIndex(rank), meeting.addresses(), until()).unwrap();
                assert_eq!(group.peers().count(), MEMBERS as usize - 1, "all but this side");
                story(&connector, group, rank, meeting);
                meeting.barrier.wait();
            });
        }
    });
    println!("{provider}: {MEMBERS} members have run");
    true
}

fn over_every_provider(caps: Caps, story: impl Fn(&Connector, One, u32, &Meeting) + Sync) {
    let ran = PROVIDERS.into_iter().filter(|provider| members(provider, caps, &story)).count();
    assert!(ran >= 2, "providers that are in every version");
}

fn content(from: u32, to: u32, round: u32) -> Vec<u8> {
    (0_u8..).take(LEN).map(|at| at.wrapping_add((from * 31 + to * 17 + round * 7).to_le_bytes()[0])).collect()
}

fn others(rank: u32) -> impl Iterator<Item = u32> + Clone {
    (0..MEMBERS).filter(move |other| *other != rank)
}

fn exchange(group: &One, rank: u32, with: impl Iterator<Item = u32> + Clone, round: u32) {
    let mut places = [const { Place::EMPTY }; 8];
    let summary = group.scope(&mut places, |scope| {
        for other in with.clone() {
            scope.recv(PeerIndex(other), vec![0; LEN]).unwrap();
        }
        for other in with.clone() {
            scope.send(PeerIndex(other), content(rank, other, round)).unwrap();
        }
        scope.finish(until()).unwrap()
    });
    assert!(summary.is_complete(), "{places:?}");
    for (place, other) in places.iter_mut().zip(with) {
        let Outcome::Done { buf, transfer } = place.take() else { panic!("it is done") };
        assert_eq!((transfer.len, buf), (LEN, content(other, rank, round)));
    }
}

#[test]
fn members_send_and_receive_by_number() {
    over_every_provider(Caps::MSG, |_, group, rank, meeting| {
        for round in 0..20 {
            exchange(&group, rank, others(rank), round);
        }
        // Not over connections.
        assert!(matches!(group.recv_any(vec![]), Err(refused) if refused.error == PostError::Errno(Errno::EOPNOTSUPP)));
        assert!(group.endpoint().is_none() && group.av().is_none() && group.peer(PeerIndex(0)).is_none());
        // No connection to itself, and none that was not requested. The buffer returns.
        for nobody in [rank, 3, 4] {
            let refused = group.send(PeerIndex(nobody), vec![7]).unwrap_err();
            assert_eq!((refused.value, refused.error), (vec![7], PostError::UnknownPeer));
        }
        assert_eq!(group.set(PeerIndex(3), &meeting.addresses()[0]), Err(PeerError::HasConnections));
        meeting.barrier.wait();
    });
}

/// Writes and reads regions, with receives posted first: over connections of `tcp` and `net`, a
/// message without a receive blocks all later ones, also answers to reads.
#[test]
fn regions_are_written_and_read_by_number() {
    over_every_provider(Caps::MSG | Caps::RMA, |_, group, rank, meeting| {
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open(group.domain(), vec![0; LEN * MEMBERS as usize], access).unwrap();
        meeting.regions.lock().unwrap()[rank as usize] = Some(region.remote().to_bytes());
        let receives: Vec<_> =
            others(rank).map(|other| (other, group.recv(PeerIndex(other), vec![0; LEN]).unwrap())).collect();
        meeting.barrier.wait();
        let regions = meeting.regions.lock().unwrap().clone();
        // Each owns a part of each member's memory.
        let start = u64::from(rank) * LEN as u64;
        let part_of = |peer: u32| {
            let remote = RemoteRegion::from_bytes(&regions[peer as usize].unwrap());
            PeerRegion::new(PeerIndex(peer), remote).slice(start..start + LEN as u64).unwrap()
        };
        let mut places = [const { Place::EMPTY }; 4];
        let work = others(rank).map(|peer| (part_of(peer), content(rank, peer, 0)));
        assert!(group.scatter_write(work, &mut places, until()).unwrap().is_complete(), "{places:?}");
        let work = others(rank).map(|peer| (part_of(peer), vec![0; LEN]));
        assert!(group.gather_read(work, &mut places, until()).unwrap().is_complete(), "{places:?}");
        for (place, peer) in places.iter_mut().zip(others(rank)) {
            assert_eq!(place.take().into_buf().unwrap(), content(rank, peer, 0));
        }
        // After a message of each other member, their reads have ended. Until then this side is
        // polled.
        let work = others(rank).map(|peer| (PeerIndex(peer), content(rank, peer, 1)));
        assert!(group.scatter_send(work, &mut places, until()).unwrap().is_complete(), "{places:?}");
        for (other, key) in receives {
            let (buf, result) = group.cq().finish(key, until()).unwrap().into_parts();
            assert_eq!((result.unwrap().len, buf), (LEN, content(other, rank, 1)));
        }
        let mut bytes = vec![0; LEN];
        for other in others(rank) {
            region.window().copy_to(other as usize * LEN, &mut bytes).unwrap();
            assert_eq!(bytes, content(other, rank, 0));
        }
        // No member closes before the others have received.
        meeting.barrier.wait();
    });
}

/// Runs teams over connections: those of `sockets` have tagged messages, and over others a team
/// uses the order of messages.
#[test]
fn teams_run_over_connections_with_and_without_tags() {
    let ran = members("sockets", Caps::MSG | Caps::TAGGED, |_, group, rank, meeting| {
        let packets = std::iter::repeat_with(|| Vec::with_capacity(64));
        let team = Team::open(&group, TeamAttr::new(1), (0..MEMBERS).map(PeerIndex), rank, packets).unwrap();
        for round in 0..50_u64 {
            let mut sums = [0; 20];
            team.all_reduce(Sum, &[u64::from(rank) + round; 20], &mut sums).unwrap().wait(until()).unwrap();
            assert_eq!(sums, [3 * round + 3; 20]);
        }
        team.barrier().unwrap().wait(until()).unwrap();
        exchange(&group, rank, others(rank), 0);
        meeting.barrier.wait();
    });
    // Over an untested provider, loom does not use the tags of connections.
    let is_untested = std::env::var_os("LOOM_UNTESTED").is_some_and(|value| !value.is_empty() && value != "0");
    assert!(ran || is_untested);
    let by_order = |rounds: u64, group: &One, rank: u32, meeting: &Meeting| {
        assert!(group.tagged_send(PeerIndex((rank + 1) % MEMBERS), Tag(1), vec![]).is_err());
        let open = |attr| {
            let packets = std::iter::repeat_with(|| Vec::with_capacity(64));
            Team::open(group, attr, (0..MEMBERS).map(PeerIndex), rank, packets)
        };
        assert_eq!(open(TeamAttr::new(1).with_at_once(2)).map(drop), Err(CollectiveError::AtOnce));
        // Two teams in sequence.
        for number in [1, 200] {
            let team = open(TeamAttr::new(number).with_packets(4)).unwrap();
            assert_eq!(open(TeamAttr::new(2)).map(drop), Err(CollectiveError::NumberTaken), "a second team");
            let mut first = team.barrier().unwrap();
            assert_eq!(team.barrier().map(drop), Err(CollectiveError::Busy));
            first.wait(until()).unwrap();
            drop(first);
            // In several pieces, and beyond the barriers of the team.
            let of = |member: u32, at: u64, round: u64| u64::from(member) * 1_000_003 + at * 7 + round;
            for round in 0..rounds {
                let mine: Vec<_> = (0..50).map(|at| of(rank, at, round)).collect();
                let (mut sums, mut parts, mut all) = (vec![0; 50], vec![0; 50], vec![0; 150]);
                team.all_reduce(Sum, &mine, &mut sums).unwrap().wait(until()).unwrap();
                team.scan(Sum, &mine, &mut parts).unwrap().wait(until()).unwrap();
                team.all_gather(&mine, &mut all).unwrap().wait(until()).unwrap();
                let sum = |members: u32, at| (0..members).map(|member| of(member, at, round)).sum::<u64>();
                for (at, (sums, parts)) in (0..).zip(sums.iter().zip(&parts)) {
                    assert_eq!((*sums, *parts), (sum(MEMBERS, at), sum(rank + 1, at)));
                }
                let whole = (0..MEMBERS).flat_map(|member| (0..50).map(move |at| of(member, at, round)));
                assert_eq!(all, whole.collect::<Vec<_>>());
            }
            team.barrier().unwrap().wait(until()).unwrap();
        }
        // The program can use the connections again.
        exchange(group, rank, others(rank), 0);
        meeting.barrier.wait();
    };
    // `sockets` is slow.
    let ran = PROVIDERS.into_iter().filter(|provider| {
        let rounds = if *provider == "sockets" { 3 } else { 70 };
        members(provider, Caps::MSG, |_, group, rank, meeting| by_order(rounds, &group, rank, meeting))
    });
    assert!(ran.count() >= 2, "`tcp` and `sockets` are in every version");
}

/// Requests connections as a stranger, in a separate thread, until all were rejected.
fn strangers(provider: &str, address: &EndpointAddr) {
    let info = info(provider, Caps::MSG).unwrap();
    let domain = Domain::open(&info).unwrap();
    let eq = EventQueue::open(&domain, EqAttr::default()).unwrap();
    let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr { endpoints: 8, ..CqAttr::new(16) }).unwrap();
    // Another text, the rank of the other side, a higher one, and no data.
    let said = [&b"hello"[..], b"loomgrp\x01\x01\0\0\0", b"loomgrp\x01\xff\0\0\0", b""];
    let asked = said.map(|said| cq.msg_endpoint(&eq, &info).unwrap().connect(address, said).unwrap());
    let (mut rejected, until) = (0, until());
    while rejected < asked.len() {
        assert!(Instant::now() < until, "{provider}: {rejected} rejected");
        match eq.poll().unwrap() {
            Some(EqEvent::Failed(_) | EqEvent::Shutdown(_)) => rejected += 1,
            Some(EqEvent::Connected(_)) => panic!("{provider}: a stranger was accepted"),
            _ => {}
        }
    }
}

#[test]
fn missing_peer_is_named_and_strangers_are_rejected() {
    let mut ran = 0;
    for provider in PROVIDERS {
        let Some(info) = info(provider, Caps::MSG) else { continue };
        let domain = Domain::open(&info).unwrap();
        let connector = Connector::open(&domain, 2, 16).unwrap();
        let address = connector.address().unwrap();
        thread::scope(|threads| {
            let strangers = threads.spawn(|| strangers(provider, &address));
            let limit = until();
            // Until all strangers were rejected.
            let deadline = || strangers.is_finished() || Instant::now() > limit;
            let error = connector.join(PeerIndex(1), [&address; 2], Until(deadline)).unwrap_err();
            assert_eq!((error.peer, error.error), (PeerIndex(0), PeerError::Missing), "{provider}");
        });
        // A place outside the group, and a rank without an address.
        let error = connector.join(PeerIndex(1), [&address; 1], until()).unwrap_err();
        assert_eq!((error.peer, error.error), (PeerIndex(1), PeerError::NoSuchPlace));
        let error = connector.join(PeerIndex(0), [&address; 3], until()).unwrap_err();
        assert_eq!((error.peer, error.error), (PeerIndex(2), PeerError::NoSuchPlace));
        // The failed calls have no effect: a request to itself as member 0 would be accepted as one
        // of that member.
        let soon = Instant::now() + Duration::from_millis(200);
        assert_eq!(connector.join(PeerIndex(1), [&address; 2], soon).unwrap_err().peer, PeerIndex(0), "{provider}");
        ran += 1;
    }
    assert!(ran >= 2);
}

struct Until<F>(F);

impl<F: FnMut() -> bool> loom_core::Deadline for Until<F> {
    fn passed(&mut self) -> bool {
        thread::yield_now();
        (self.0)()
    }
}

#[test]
fn member_that_goes_is_named_and_replaced() {
    over_every_provider(Caps::MSG, |connector, group, rank, meeting| {
        let last = MEMBERS - 1;
        exchange(&group, rank, others(rank), 0);
        let group = Mutex::new(Some(group));
        meeting.barrier.wait();
        if rank == last {
            drop(group.lock().unwrap().take());
        } else {
            let group = group.lock().unwrap();
            let group = group.as_ref().unwrap();
            let limit = until();
            let gone = loop {
                if let Some(gone) = connector.ended(group).unwrap() {
                    break gone;
                }
                group.cq().progress().unwrap();
                assert!(Instant::now() < limit, "the end is told");
            };
            assert_eq!(gone, PeerIndex(last));
            assert!(group.remove(gone) && !group.remove(gone));
            assert_eq!(group.send(gone, vec![]).unwrap_err().error, PostError::UnknownPeer);
            exchange(group, rank, others(rank).filter(|other| *other != last), 1);
        }
        meeting.barrier.wait();
        // Another address, hence another listener.
        let renewed = (rank == last).then(|| {
            let domain = Domain::open(connector.domain().info()).unwrap();
            Connector::open(&domain, 4, 64).unwrap()
        });
        if let Some(renewed) = &renewed {
            meeting.addresses.lock().unwrap()[last as usize] = Some(renewed.address().unwrap());
        }
        meeting.barrier.wait();
        let addresses = meeting.addresses();
        match &renewed {
            Some(renewed) => {
                let group = renewed.join(PeerIndex(last), &addresses, until()).unwrap();
                exchange(&group, rank, others(rank), 2);
                meeting.barrier.wait();
            }
            None => {
                let group = group.lock().unwrap();
                let group = group.as_ref().unwrap();
                connector.set(group, PeerIndex(last), &addresses[last as usize], until()).unwrap();
                exchange(group, rank, others(rank), 2);
                meeting.barrier.wait();
            }
        }
    });
}

#[test]
fn removed_member_gives_its_buffers_back() {
    over_every_provider(Caps::MSG, |_, group, rank, meeting| {
        // All have joined. A member that has not would wait for a connection that this closes.
        meeting.barrier.wait();
        if rank == 0 {
            let key = group.recv(PeerIndex(1), vec![0; LEN]).unwrap();
            assert!(group.remove(PeerIndex(1)));
            let done = group.cq().finish(key, until()).unwrap();
            let (buf, result) = done.into_parts();
            assert_eq!((buf.len(), result.unwrap_err().errno), (LEN, Errno::ECANCELED));
            assert_eq!(group.cq().in_flight(), 0);
        }
        meeting.barrier.wait();
    });
}
