//! Groups over libfabric's providers: collectives, those of the provider or of loom, and scattered
//! messages, with a thread for each member and a comparison of every element. Members are also
//! replaced, as far as the vectors of providers have room.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::{Caps, EndpointAddr};
use loom_core::{AddressError, Source, Spins};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use loom_group::collective::{Sum, Team, TeamAttr};
use loom_group::{GroupAttr, PeerError, PeerIndex, Place, Prepared};

type T = Ofi<Local>;

const PROVIDERS: [&str; 5] = ["shm", "tcp;ofi_rxm", "tcp", "net", "sockets"];
const MEMBERS: u32 = 3;
/// Length of a packet: longer ones both ways crash libfabric 2's `shm` in one process.
const PACKET: usize = 128;
const COUNT: usize = 300;

fn until() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn info(provider: &str) -> Option<Info<T>> {
    let node = (!["shm", "sm2"].contains(&provider)).then_some("127.0.0.1");
    let caps = Caps::MSG | Caps::TAGGED;
    let hints = Hints { caps, provider: Some(provider), node, listen: node.is_some(), ..Hints::default() };
    T::query(&hints).ok()?.find(|info| info.provider() == provider && info.caps().contains(caps))
}

/// Plays a member, and checks its results.
fn member(
    rank: u32,
    provider: &str,
    tell: &[Sender<(u32, EndpointAddr)>],
    hear: &Receiver<(u32, EndpointAddr)>,
    done: &AtomicU32,
) {
    let domain = Domain::open(&info(provider).unwrap()).unwrap();
    let prepared = Prepared::open(&domain, MEMBERS as usize, 64).unwrap();
    for tell in tell {
        tell.send((rank, prepared.address().unwrap())).unwrap();
    }
    let mut addresses: Vec<_> = (0..MEMBERS).map(|_| hear.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
    addresses.sort_by_key(|(rank, _)| *rank);
    let group = prepared.connect(addresses.iter().map(|(_, address)| address)).unwrap();
    let packets = std::iter::repeat_with(|| Vec::with_capacity(PACKET));
    let attr = TeamAttr::new(1).with_packets(16).with_at_once(2);
    let team = Team::open(&group, attr, (0..MEMBERS).map(PeerIndex), rank, packets).unwrap();
    let of = |member: u32, at: usize| u64::from(member) * 1_000_003 + u64::try_from(at).unwrap();
    let mine: Vec<_> = (0..COUNT).map(|at| of(rank, at)).collect();
    for _ in 0..3 {
        team.barrier().unwrap().wait(until()).unwrap();

        // Two at a time.
        let (mut sums, mut parts) = (vec![0; COUNT], vec![0; COUNT]);
        let mut all_reduce = team.all_reduce(Sum, &mine, &mut sums).unwrap();
        team.scan(Sum, &mine, &mut parts).unwrap().wait(until()).unwrap();
        all_reduce.wait(until()).unwrap();
        drop(all_reduce);
        let sum = |members: u32, at| (0..members).map(|member| of(member, at)).sum::<u64>();
        for (at, (all, part)) in sums.iter().zip(&parts).enumerate() {
            assert_eq!((*all, *part), (sum(MEMBERS, at), sum(rank + 1, at)));
        }

        let mut all = vec![0; COUNT * MEMBERS as usize];
        team.all_gather(&mine, &mut all).unwrap().wait(until()).unwrap();
        assert_eq!(all, (0..MEMBERS).flat_map(|member| (0..COUNT).map(move |at| of(member, at))).collect::<Vec<_>>());
    }
    // Messages to all others by one call, after the posts of the receives.
    let (me, others) = (PeerIndex(rank), || (0..MEMBERS).map(PeerIndex));
    let rooms: Vec<_> = others().skip(1).map(|_| group.recv_any(vec![0; 8]).unwrap()).collect();
    team.barrier().unwrap().wait(until()).unwrap();
    let mut places = [const { Place::EMPTY }; MEMBERS as usize];
    let work = others().filter(|peer| *peer != me).map(|peer| (peer, of(rank, peer.0 as usize).to_le_bytes().to_vec()));
    let summary = group.scatter_send(work, &mut places, until()).unwrap();
    assert_eq!((summary.done, summary.requests()), (2, 2), "{summary:?}");
    let mut come: Vec<_> = rooms.into_iter().map(|room| group.cq().finish(room, until()).unwrap().into_buf()).collect();
    let mut sent: Vec<_> = (0..MEMBERS).filter(|other| *other != rank).map(|other| of(other, rank as usize)).collect();
    sent.sort_unstable();
    come.sort_unstable_by_key(|bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()));
    assert!(come.iter().zip(&sent).all(|(come, sent)| *come == sent.to_le_bytes()), "{come:?}");

    team.barrier().unwrap().wait(until()).unwrap();
    println!("{provider}: member {rank} has run 3 rounds");
    // Sends progress while the queue is driven, and no endpoint closes while another may still read
    // its memory.
    done.fetch_add(1, Ordering::SeqCst);
    let until = until();
    while done.load(Ordering::SeqCst) < MEMBERS {
        group.cq().progress().unwrap();
        assert!(Instant::now() < until, "the others finish");
    }
}

fn members_agree_over(provider: &str) -> bool {
    if info(provider).is_none() {
        println!("{provider}: not here, or without tagged messages");
        return false;
    }
    let (tell, hear): (Vec<_>, Vec<_>) = (0..MEMBERS).map(|_| channel()).unzip();
    let done = AtomicU32::new(0);
    std::thread::scope(|threads| {
        for (rank, hear) in (0..).zip(hear) {
            let (tell, done) = (tell.clone(), &done);
            threads.spawn(move || member(rank, provider, &tell, &hear, done));
        }
    });
    true
}

#[test]
fn members_agree_over_every_provider() {
    let ran = PROVIDERS.into_iter().filter(|provider| members_agree_over(provider)).count();
    assert!(ran >= 3, "providers that are in every version");
}

/// Replaces a member's address repeatedly: over a provider that keeps removed addresses, as often
/// as the group was opened for. Returns `true` if the provider is installed.
fn a_member_is_replaced_over(provider: &str) -> bool {
    let Some(info) = info(provider) else { return false };
    let domain = Domain::open(&info).unwrap();
    let peer = || {
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 16).unwrap());
        cq.endpoint(&av).unwrap()
    };
    let [first, second, third] = [peer(), peer(), peer()];
    let [a, b, c] = [&first, &second, &third].map(|peer| peer.address().unwrap());
    let group = Prepared::<_, Vec<u8>, _>::open(&domain, GroupAttr::new(1), 16).unwrap().connect([&a]).unwrap();
    group.set(PeerIndex(0), &b).unwrap();
    if info.raw().is_tested() {
        for next in [&c, &a, &c, &a, &c, &b] {
            group.set(PeerIndex(0), next).unwrap_or_else(|error| panic!("{provider}: {error:#}"));
        }
    } else if provider != "shm" {
        assert_eq!(group.set(PeerIndex(0), &c), Err(PeerError::Insert(AddressError::Full)), "{provider}");
    }
    // The earlier member stays.
    let received = second.recv(Source::Any, vec![0; 8]).unwrap();
    let until = until();
    let mut message = b"to b".to_vec();
    // Both ends are in this thread, because a connection requires progress of both.
    let sent = loop {
        match group.send(PeerIndex(0), message) {
            Ok(sent) => break sent,
            Err(refused) => {
                assert!(refused.error.is_transient() && Instant::now() < until, "{provider}: {}", refused.error);
                message = refused.value;
            }
        }
        group.cq().progress().unwrap();
        second.cq().progress().unwrap();
    };
    let done = loop {
        group.cq().progress().unwrap();
        if let Some(done) = second.cq().wait(received, Spins(1)).unwrap() {
            break done;
        }
        assert!(Instant::now() < until, "{provider}: it arrives");
    };
    assert_eq!(&done.buf()[..4], b"to b");
    group.cq().wait(sent, until).unwrap().unwrap().result().unwrap();
    true
}

#[test]
fn members_are_replaced_over_every_provider() {
    let ran = PROVIDERS.into_iter().filter(|provider| a_member_is_replaced_over(provider)).count();
    assert!(ran >= 3, "providers that are in every version");
}
