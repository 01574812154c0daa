//! Address vectors: insertions of many peers, by range, and of invalid addresses.

use std::collections::HashSet;
use std::net::SocketAddr;

use loom_core::AddressError;
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::peer_table::Peer;
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{AddressFormat, EndpointAddr, Errno};

use crate::behaviours::needs::{Behaviour, MSG, SOURCE};
use crate::behaviours::pair::{Bytes, Pair, is_tested, most, on_pair, pattern, room};
use crate::memory::allocator;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("many_peers_may_be_inserted_at_once", MSG, many_peers_may_be_inserted_at_once),
        ("refused_addresses_keep_no_others_out", MSG, refused_addresses_keep_no_others_out),
        ("address_vector_is_filled_to_its_last_place", MSG, address_vector_is_filled_to_its_last_place),
        (
            "program_may_use_the_vector_while_peers_are_reported",
            MSG,
            program_may_use_the_vector_while_peers_are_reported,
        ),
        ("peers_may_be_inserted_by_their_range", MSG, peers_may_be_inserted_by_their_range),
        ("peer_is_found_by_its_address", MSG, peer_is_found_by_its_address),
        ("address_that_was_removed_may_be_inserted_again", MSG, address_that_was_removed_may_be_inserted_again),
        ("places_of_removed_peers_return", MSG, places_of_removed_peers_return),
        ("operations_in_flight_outlive_their_peers_place", MSG, operations_in_flight_outlive_their_peers_place),
        ("late_messages_of_a_removed_peer_name_no_later_one", SOURCE, late_messages_name_no_later_peer),
        ("malformed_address_is_refused", MSG, malformed_address_is_refused),
    ]
}

const SHM_PLACES: &str = "An address vector takes 256 addresses in its lifetime, those of removed peers included";

type Ends<'d, T> = Vec<Endpoint<'d, T, Bytes>>;

fn more<'d, T: Transport + 'static>(pair: &Pair<'_, 'd, T>, count: usize) -> Ends<'d, T> {
    (0..count).map(|_| pair.cq.endpoint(pair.av).expect("another endpoint")).collect()
}

fn addresses<T: Transport + 'static>(endpoints: &[Endpoint<'_, T, Bytes>]) -> Vec<EndpointAddr> {
    endpoints.iter().map(|endpoint| endpoint.address().expect("its address")).collect()
}

fn insert<T: Transport + 'static>(av: &Av<'_, T>, addresses: &[EndpointAddr]) -> Vec<Result<Peer, AddressError>> {
    let mut told = Vec::new();
    let inserted = av.insert_all(addresses, |peer| told.push(peer));
    assert_eq!((told.len(), told.iter().flatten().count()), (addresses.len(), inserted));
    told
}

fn reach<T: Transport + 'static>(pair: &Pair<'_, '_, T>, peer: Peer, endpoint: &Endpoint<'_, T, Bytes>, seed: usize) {
    let received = pair.post(room(16), |buf| endpoint.recv(Source::Any, buf));
    let sent = pair.post(pattern(16, seed), |buf| pair.a.send(peer, buf));
    assert_eq!(pair.finish(received).0, pattern(16, seed));
    pair.finish(sent);
}

/// An address of a format that no transport has.
fn foreign() -> EndpointAddr {
    EndpointAddr::new(AddressFormat::from_raw(4242), &[1, 2, 3, 4]).expect("short")
}

fn many_peers_may_be_inserted_at_once<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        assert_eq!(insert(pair.av, &[]), []);
        let ends = more(pair, 4);
        let peers = insert(pair.av, &addresses(&ends));
        for (seed, (peer, endpoint)) in peers.iter().zip(&ends).enumerate() {
            reach(pair, peer.expect("inserted"), endpoint, seed);
        }
        assert_eq!(pair.av.peer_table().iter().count(), 2 + 4);
        // Earlier peers stay the same, as with insertions of one.
        let known = [pair.b.address().expect("address"), pair.a.address().expect("address")];
        assert_eq!(insert(pair.av, &known), [Ok(pair.to_b), Ok(pair.to_a)]);
        assert_eq!(insert(pair.av, &addresses(&ends)), peers);
        assert_eq!(pair.av.insert(&known[0]), Ok(pair.to_b));
    });
}

fn refused_addresses_keep_no_others_out<T: Transport + 'static>(info: &Info<T>) {
    with_places(info, 64, |pair| {
        let ends = more(pair, 3);
        let good = addresses(&ends);
        let nonsense = |at: usize| match (at % 2, SocketAddr::try_from(&good[0])) {
            // A valid address of no endpoint.
            (0, Ok(mut socket)) => {
                socket.set_port(0);
                socket.into()
            }
            _ => foreign(),
        };
        // Each good address many times, some of them behind invalid addresses.
        let is_good = |at: usize| !at.is_multiple_of(3);
        let all: Vec<_> = (0..71).map(|at| if is_good(at) { good[at % 5 % 3].clone() } else { nonsense(at) }).collect();
        let told = insert(pair.av, &all);
        for (at, peer) in told.iter().enumerate() {
            let errno = matches!(peer, Err(AddressError::Errno(_)));
            assert!(if is_good(at) { peer.is_ok() } else { errno }, "address {at}: {peer:?}");
        }
        let places: Vec<_> = (0..all.len()).filter(|at| is_good(*at)).collect();
        for at in [&places[..6], &places[places.len() - 6..]].concat() {
            reach(pair, told[at].expect("good"), &ends[at % 5 % 3], at);
        }
        assert_eq!(pair.av.peer_table().iter().count(), 2 + 3, "the same address is the same peer");
        pair.warm_up();
    });
}

fn with_places<T: Transport + 'static>(info: &Info<T>, places: usize, test: impl FnOnce(&Pair<'_, '_, T>)) {
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, places, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, CqAttr { endpoints: 24, ..CqAttr::new(64) }, allocator()).expect("queue");
    test(&Pair::open(&domain, &cq, &av));
}

fn address_vector_is_filled_to_its_last_place<T: Transport + 'static>(info: &Info<T>) {
    with_places(info, 4, |pair| {
        let ends = more(pair, 4);
        let good = addresses(&ends);
        let [c, d, e, f] = [0, 1, 2, 3].map(|at| good[at].clone());
        let told = insert(pair.av, &[c, foreign(), d, e.clone(), e, f]);
        let is_full = |peer: &Result<Peer, AddressError>| *peer == Err(AddressError::Full);
        if info.provider() == "soft" {
            assert!(!told.iter().any(is_full));
            return crate::report::partly(
                "An address vector is never full: it has an entry for each endpoint of the \
                network",
            );
        }
        if info.provider() == "shm" {
            assert!(!told.iter().any(is_full));
            return crate::report::partly(SHM_PLACES);
        }
        assert_eq!(told.iter().map(is_full).collect::<Vec<_>>(), [false, false, false, true, true, true]);
        assert_eq!(pair.av.peer_table().iter().count(), 4);
        // Repeated: an address without a place is not kept.
        for _ in 0..20 {
            assert!(insert(pair.av, &good[2..]).iter().all(is_full));
        }
        reach(pair, told[0].expect("c"), &ends[0], 1);
        reach(pair, told[2].expect("d"), &ends[1], 2);
        pair.warm_up();
    });
}

fn program_may_use_the_vector_while_peers_are_reported<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let ends = more(pair, 2);
        let good = addresses(&ends);
        let mut there = Vec::new();
        let inserted = pair.av.insert_all(&good, |peer| {
            let peer = peer.expect("inserted");
            there.push(peer);
            assert!(pair.av.address(peer).is_some());
            assert!(pair.av.insert(&foreign()).is_err());
            if there.len() == 1 {
                assert!(pair.av.remove(peer));
            }
        });
        assert_eq!((inserted, there.len()), (2, 2));
        assert!(pair.av.address(there[0]).is_none());
        reach(pair, there[1], &ends[1], 5);
    });
}

fn peers_may_be_inserted_by_their_range<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let ends = more(pair, 2);
        for (seed, endpoint) in ends.iter().enumerate() {
            let address = endpoint.address().expect("its address");
            let Ok(socket) = SocketAddr::try_from(&address) else {
                let refused = pair.av.insert_symmetric(([127, 0, 0, 1], 7000).into(), 1, 1, |_| unreachable!());
                assert_eq!(refused, Err(AddressError::Errno(Errno::ENOSYS)));
                return crate::report::not_granted();
            };
            let mut peers = Vec::new();
            assert_eq!(pair.av.insert_symmetric(socket, 1, 1, |peer| peers.push(peer)), Ok(1));
            reach(pair, peers[0].expect("inserted"), endpoint, seed);
            for (nodes, services) in [(0, 7), (7, 0)] {
                assert_eq!(pair.av.insert_symmetric(socket, nodes, services, |_| unreachable!()), Ok(0));
            }
            for (nodes, services) in [(1, 9), (9, 1), (3, 3), (u32::MAX / 2, 1)] {
                let full = pair.av.insert_symmetric(socket, nodes, services, |_| unreachable!());
                assert_eq!(full, Err(AddressError::Full), "{nodes} nodes with {services} services");
            }
            for (nodes, services) in [(u32::MAX, 1), (1, u16::MAX)] {
                let beyond = pair.av.insert_symmetric(socket, nodes, services, |_| unreachable!());
                assert_eq!(beyond, Err(AddressError::Errno(Errno::EINVAL)), "{nodes} nodes with {services} services");
            }
        }
        pair.warm_up();
    });
}

fn peer_is_found_by_its_address<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let ends = more(pair, 3);
        let all = addresses(&ends);
        assert!(all.iter().all(|address| pair.av.find(address).is_none()));
        let peers = insert(pair.av, &all);
        for (address, peer) in all.iter().zip(&peers) {
            let peer = peer.expect("inserted");
            assert_eq!(pair.av.find(address), Some(peer));
            assert_eq!(pair.av.address(peer), Some(Ok(address.clone())), "byte for byte");
        }
        assert_eq!(pair.av.find(&foreign()), None);
        // By name, if the provider has names: the same peers. (`ofi_rxd` 1.17 has lost the address
        // of its first peer.)
        for (address, (peer, (endpoint, seed))) in all.iter().zip(peers.iter().zip(ends.iter().zip(0..))) {
            let by_name = match SocketAddr::try_from(address) {
                Ok(at) => pair.av.insert_service(&at.ip().to_string(), Some(&at.port().to_string())),
                Err(_) => pair.av.insert_service(&address.to_string(), None),
            };
            match by_name {
                Err(AddressError::Errno(Errno::ENOSYS)) => {}
                by_name => assert_eq!(by_name, *peer, "{address}"),
            }
            reach(pair, peer.expect("inserted"), endpoint, seed);
        }
        // Sets of peers, in their order.
        let mut set = pair.av.set_in(8, loom_core::allocator_api2::alloc::Global).expect("memory");
        for peer in peers.iter().rev().flatten() {
            assert_eq!(set.insert(*peer), Ok(true));
        }
        set.insert_range(pair.av.peer_table(), 0..=u32::MAX, 1.try_into().expect("not zero")).expect("there is room");
        assert_eq!((set.len(), set.rank(peers[2].expect("inserted")), set.rank(pair.to_a)), (5, Some(0), Some(3)));
        pair.warm_up();
    });
}

fn address_that_was_removed_may_be_inserted_again<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let ends = more(pair, 1);
        let address = ends[0].address().expect("its address");
        let mut before = Vec::new();
        for seed in 0..6 {
            let peer = pair.av.insert(&address).expect("inserted");
            assert!(!before.contains(&peer), "{peer} was another");
            assert!(before.iter().all(|before| pair.av.address(*before).is_none() && !pair.av.remove(*before)));
            assert_eq!(pair.av.find(&address), Some(peer));
            reach(pair, peer, &ends[0], seed);
            assert!(pair.av.remove(peer));
            assert_eq!((pair.av.find(&address), pair.av.address(peer)), (None, None));
            before.push(peer);
        }
        pair.warm_up();
    });
}

/// Returns `true` if places return while endpoints are open. Reports the reason otherwise.
fn places_return<T: Transport + 'static>(info: &Info<T>) -> bool {
    if info.provider() == "shm" {
        crate::report::partly(SHM_PLACES);
        return false;
    }
    if !is_tested(info) {
        crate::report::partly("While endpoints are open, an address vector takes no more addresses than its capacity");
    }
    is_tested(info)
}

/// Number of endpoints that take turns at the places of a vector.
fn takers<T: Transport + 'static>(info: &Info<T>) -> usize {
    match places_return(info) {
        true if info.provider() == "soft" => 4,
        true => 12,
        false => 2,
    }
}

fn places_of_removed_peers_return<T: Transport + 'static>(info: &Info<T>) {
    with_places(info, 4, |pair| {
        pair.warm_up();
        let ends = more(pair, takers(info));
        let rounds = if places_return(info) { 4 * ends.len() } else { 2 };
        let addresses = addresses(&ends);
        let mut gone = Vec::new();
        for (seed, (endpoint, address)) in (0..rounds).zip(ends.iter().zip(&addresses).cycle()) {
            let peer = pair.av.insert(address).expect("a place has returned");
            assert!(peer.index() < pair.av.peer_table().places() && !gone.contains(&peer), "{peer}");
            reach(pair, peer, endpoint, seed);
            let asked = pair.post(room(16), |buf| pair.a.recv(Source::Any, buf));
            let sent = pair.post(pattern(16, seed + 1), |buf| endpoint.send(pair.to_a, buf));
            assert_eq!(pair.finish(asked).0, pattern(16, seed + 1));
            pair.finish(sent);
            assert!(pair.av.remove(peer) && !pair.av.remove(peer));
            gone.push(peer);
            assert!(gone.iter().all(|gone| pair.av.address(*gone).is_none()));
            assert_eq!(pair.av.peer_table().iter().collect::<HashSet<_>>(), [pair.to_a, pair.to_b].into());
            // Unused addresses, and refused ones.
            if let Ok(mut socket) = SocketAddr::try_from(address)
                && rounds > 2
            {
                for port in 1..9 {
                    socket.set_port(port);
                    let peer = pair.av.insert(&socket.into()).expect("a place has returned");
                    assert!(pair.av.insert(&foreign()).is_err());
                    assert!(pair.av.remove(peer));
                }
            }
        }
        pair.warm_up();
    });
}

/// Returns the later peer at the place of a removed one, with the number of its endpoint, or `None`
/// if no place returns.
fn later_at<T: Transport + 'static>(pair: &Pair<'_, '_, T>, ends: &Ends<'_, T>, gone: Peer) -> Option<(Peer, usize)> {
    for (number, address) in addresses(ends).iter().enumerate().skip(1) {
        let Ok(peer) = pair.av.insert(address) else { continue };
        if peer.index() == gone.index() {
            return Some((peer, number));
        }
        assert!(pair.av.remove(peer));
    }
    None
}

fn operations_in_flight_outlive_their_peers_place<T: Transport + 'static>(info: &Info<T>) {
    with_places(info, 3, |pair| {
        pair.warm_up();
        let len = most(info, 1 << 18);
        let ends = more(pair, takers(info));
        let peer = pair.av.insert(&ends[0].address().expect("its address")).expect("inserted");
        reach(pair, peer, &ends[0], 1);
        // A message in each direction.
        let sent = pair.post(pattern(len, 2), |buf| pair.a.send(peer, buf));
        let answered = pair.post(pattern(16, 3), |buf| ends[0].send(pair.to_a, buf));
        assert!(pair.av.remove(peer));
        let later = later_at(pair, &ends, peer);
        let received = pair.post(room(len), |buf| ends[0].recv(Source::Any, buf));
        let answer = pair.post(room(16), |buf| pair.a.recv(Source::Any, buf));
        assert_eq!(pair.finish(received).0, pattern(len, 2));
        assert_eq!(pair.finish(answer).0, pattern(16, 3));
        pair.finish(sent);
        pair.finish(answered);
        if let Some((later, end)) = later {
            reach(pair, later, &ends[end], 4);
        }
        pair.warm_up();
    });
}

fn late_messages_name_no_later_peer<T: Transport + 'static>(info: &Info<T>) {
    with_places(info, 3, |pair| {
        pair.warm_up();
        let source = |from: &Endpoint<'_, T, Bytes>, seed: usize| {
            let received = pair.post(room(16), |buf| pair.a.recv(Source::Any, buf));
            let sent = pair.post(pattern(16, seed), |buf| from.send(pair.to_a, buf));
            let (buf, done) = pair.finish(received);
            assert_eq!(buf, pattern(16, seed));
            pair.finish(sent);
            done.source.and_then(|source| pair.av.peer(source))
        };
        let ends = more(pair, takers(info));
        let address = ends[0].address().expect("its address");
        let peer = pair.av.insert(&address).expect("inserted");
        assert_eq!(source(&ends[0], 1), Some(peer));
        assert!(pair.av.remove(peer));
        assert_eq!(source(&ends[0], 2), None, "it was removed");
        let Some((later, end)) = later_at(pair, &ends, peer) else { return };
        assert_eq!(source(&ends[0], 3), None, "another peer has the place");
        assert_eq!(source(&ends[end], 4), Some(later));
        assert!(pair.av.remove(later));
        let again = pair.av.insert(&address).expect("inserted again");
        let named = source(&ends[0], 5);
        // Datagrams of `sockets` name no source then.
        assert!(named == Some(again) || (named.is_none() && info.provider() == "sockets"), "{named:?}");
        assert_eq!(source(&ends[end], 6), None, "it was removed");
    });
}

fn malformed_address_is_refused<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let ends = more(pair, 3);
        let good = addresses(&ends);
        // Providers that compare addresses by family accepted these for any other, and the next
        // ones for these.
        let format = good[0].format();
        let of = |bytes: &[u8]| EndpointAddr::new(format, bytes).expect("short");
        let mut bad = vec![of(b"")];
        if SocketAddr::try_from(&good[0]).is_ok() {
            let bytes = good[0].bytes();
            let mut strange = bytes.to_vec();
            strange[..2].copy_from_slice(&99u16.to_ne_bytes());
            bad.extend([of(&strange), of(&bytes[..8]), of(&[bytes, bytes].concat()), of(&[0; 28])]);
        }
        let errno = Err(AddressError::Errno(Errno::EINVAL));
        for (bad, (endpoint, seed)) in bad.iter().zip(ends.iter().zip(0..).cycle()) {
            assert_eq!(pair.av.insert(bad), errno, "{bad}");
            let address = endpoint.address().expect("its address");
            let told = insert(pair.av, &[bad.clone(), address.clone(), bad.clone()]);
            assert_eq!([told[0], told[2]], [errno; 2], "{bad}");
            reach(pair, told[1].expect("good"), endpoint, seed);
        }
        pair.warm_up();
    });
}
