//! Addresses of closed peers. Their places return. Over `shm`, addresses of closed endpoints of
//! this process are refused, as are addresses after a vector's last one.
//!
//! `LOOM_SOAK=100000` makes `server_keeps_its_places_while_peers_come_and_go` a long run, with a
//! vector for 64 peers. `LOOM_SOAK_PROVIDER` selects one provider.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use loom_core::error::OpenError;
use loom_core::info::{Hints, Info};
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::{AddressFormat, EndpointType};
use loom_core::{AddressError, Av, Caps, Cq, Domain, EndpointAddr, Errno, Source, Transport};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use loom_tcp::TcpAttr;
use support::alone::is_alone;

type T = Ofi<Local>;

#[test]
fn address_of_a_closed_endpoint_is_refused_and_the_next_one_opens() {
    // Endpoints of other tests would keep closed ones open.
    if !is_alone("gone_addresses::address_of_a_closed_endpoint_is_refused_and_the_next_one_opens") {
        return;
    }
    let hints = Hints { caps: Caps::MSG, provider: Some("shm"), ..Hints::default() };
    let info = T::query(&hints).unwrap().next().unwrap();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, 256).unwrap();
    for _ in 0..50 {
        let address = {
            let cq = Cq::<_, Vec<u8>>::open(&domain, 16).unwrap();
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.address().unwrap()
        };
        assert_eq!(av.insert(&address), Err(AddressError::Errno(Errno::EADDRNOTAVAIL)));
    }
    // The address of an open endpoint is accepted.
    let cq = Cq::<_, Vec<u8>>::open(&domain, 16).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    av.insert(&endpoint.address().unwrap()).unwrap();
}

#[test]
fn address_after_the_last_of_a_vector_is_refused_by_name() {
    const LIMIT: usize = 256;
    let hints = Hints { caps: Caps::MSG, provider: Some("shm"), ..Hints::default() };
    let info = T::query(&hints).unwrap().next().unwrap();
    let domain = Domain::open(&info).unwrap();
    let refused = Av::open(&domain, LIMIT + 1).unwrap_err();
    assert_eq!(refused, OpenError::TooManyPeers { limit: LIMIT });
    assert!(refused.to_string().contains("AvAttr::capacity"), "{refused:#}");
    if !info.raw().is_tested() {
        // After an insertion, endpoints stay open, and so do those of the test above.
        return;
    }
    let av = Av::open(&domain, 8).unwrap();
    let cq = Cq::<_, Vec<u8>>::open(&domain, 16).unwrap();
    let _endpoint = cq.endpoint(&av).unwrap();
    let mut gone = Vec::new();
    // More than are removed, so that the loop ends over a provider with another bound.
    for number in 0..=LIMIT {
        // Names of endpoints of another process.
        let name = format!("fi_shm://1:0:{number}\0");
        let address = EndpointAddr::new(AddressFormat::ADDR_STR, name.as_bytes()).unwrap();
        match av.insert(&address) {
            Ok(peer) => {
                assert!(!gone.contains(&peer) && av.remove(peer));
                assert_eq!(av.find(&address), None);
                gone.push(peer);
            }
            Err(error) => {
                assert_eq!(error, AddressError::TooManyPeers { limit: LIMIT });
                assert!(error.to_string().contains("256"), "{error:#}");
                break;
            }
        }
    }
    println!("{} addresses of {LIMIT}", gone.len());
    assert!((LIMIT - 8..=LIMIT).contains(&gone.len()), "{} addresses", gone.len());
    // Another vector accepts addresses, and a handle of the first one names no peer of it.
    let other = Av::open(&domain, 8).unwrap();
    let address = EndpointAddr::new(AddressFormat::ADDR_STR, b"fi_shm://1:0:0\0").unwrap();
    assert!(other.insert(&address).is_ok());
}

/// Returns the resident memory in KiB, and the number of open file descriptors.
fn used() -> (usize, usize) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    (pages * 4, std::fs::read_dir("/proc/self/fd").unwrap().count())
}

fn info(provider: &str, node: &str) -> Option<Info<T>> {
    let sockets = provider != "sm2";
    let caps = Caps::MSG;
    let hints =
        Hints { caps, provider: Some(provider), node: sockets.then_some(node), listen: sockets, ..Hints::default() };
    T::query(&hints).ok()?.find(|info| info.attributes().endpoint.kind == EndpointType::RDM && info.raw().is_tested())
}

/// Runs a server with a vector of `capacity`. Peers send a request, receive an answer, and close. A
/// peer is removed when its successors have taken all other places. Returns the least resident
/// memory and the fewest descriptors during each fifth of the peers: closed endpoints keep theirs
/// until their connections have ended, tens of MiB of `ofi_rxm`.
fn serve<T: Transport + 'static>(
    provider: &str,
    info: impl Fn(&str) -> Option<Info<T>>,
    (peers, capacity): (usize, usize),
) -> Option<Vec<(usize, usize)>> {
    let domain = Domain::open(&info("127.0.0.1")?).unwrap();
    let (av, cq) = (Av::open(&domain, capacity).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 64).unwrap());
    let server = cq.endpoint(&av).unwrap();
    let address = server.address().unwrap();
    let (mut there, mut least) = (VecDeque::new(), vec![(usize::MAX, usize::MAX); 5]);
    for number in 0..peers {
        // A new endpoint of `ofi_rxd` must not have the address of an earlier one.
        let own = (provider == "udp;ofi_rxd").then(|| {
            let [a, b, c] = [number / 62500 % 250, number / 250 % 250, number % 250].map(|part| part + 1);
            Domain::open(&info(&format!("127.{a}.{b}.{c}")).unwrap()).unwrap()
        });
        let domain = own.as_ref().unwrap_or(&domain);
        let (client_av, client_cq) = (Av::open(domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(domain, 16).unwrap());
        let client = client_cq.endpoint(&client_av).unwrap();
        let to_server = client_av.insert(&address).unwrap();
        if there.len() == capacity {
            assert!(av.remove(there.pop_front().unwrap()));
        }
        let to_client = av.insert(&client.address().unwrap()).unwrap_or_else(|e| panic!("{provider} {number}: {e}"));
        // An endpoint may get the address of an earlier one, and is equal to that peer, or takes
        // its place.
        there.retain(|peer| *peer != to_client && av.address(*peer).is_some());
        there.push_back(to_client);
        assert_eq!(av.peer_table().iter().count(), there.len());
        let message = format!("message {number}").into_bytes();
        let asked = server.recv(Source::Any, vec![0; 32]).unwrap();
        let answered = client.recv(Source::Any, vec![0; 32]).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let mut steps = 0;
        loop {
            if steps == 0 && client.inject(to_server, &message).is_ok() {
                steps = 1;
            }
            if steps < 2
                && let Some(done) = cq.take(asked).unwrap()
            {
                assert_eq!(done.into_buf()[..message.len()], message);
                steps = 2;
            }
            if steps == 2 && server.inject(to_client, &message).is_ok() {
                steps = 3;
            }
            if let Some(done) = client_cq.take(answered).unwrap() {
                assert_eq!(done.into_buf()[..message.len()], message);
                break;
            }
            assert!(Instant::now() < until, "{provider}: peer {number} is not answered, step {steps}");
            cq.progress().unwrap();
            client_cq.progress().unwrap();
        }
        drop(client);
        for _ in 0..20 {
            while cq.poll().unwrap().is_some() {}
        }
        let ((memory, descriptors), of_fifth) = (used(), &mut least[number * 5 / peers]);
        *of_fifth = (of_fifth.0.min(memory), of_fifth.1.min(descriptors));
    }
    Some(least)
}

#[test]
fn server_keeps_its_places_while_peers_come_and_go() {
    if !is_alone("gone_addresses::server_keeps_its_places_while_peers_come_and_go") {
        return;
    }
    let long = std::env::var("LOOM_SOAK").ok().and_then(|peers| peers.parse().ok());
    let only = std::env::var("LOOM_SOAK_PROVIDER").ok();
    let mut served = 0;
    // Maximum KiB that libfabric keeps of each peer: connections of `net` keep the data of their
    // request. Then KiB by which a run varies: a connection of `ofi_rxm` has 17 MiB of buffers, and
    // one more may be open.
    for (provider, kept, varies) in [
        ("tcp;ofi_rxm", 0.2, 2 * 17408),
        ("net", 6.0, 2048),
        ("tcp", 0.5, 2048),
        ("sockets", 0.2, 2048),
        ("udp;ofi_rxd", 0.5, 2048),
        ("sm2", 0.1, 2048),
        ("soft", 0.1, 2048),
        ("loom-tcp", 0.1, 2048),
    ] {
        if only.as_deref().is_some_and(|only| only != provider) {
            continue;
        }
        let peers = long.map_or((100, 8), |peers| (peers, 64));
        let used = match provider {
            "soft" => {
                let network = Network::new(NetworkAttr::default()).unwrap();
                serve(provider, |_| Some(network.info()), peers)
            }
            "loom-tcp" => serve(provider, |_| support::tcp::query(&Hints::default(), TcpAttr::DEFAULT).ok(), peers),
            _ => serve(provider, |node| info(provider, node), peers),
        };
        let Some(used) = used else { continue };
        let (peers, capacity) = peers;
        println!("{provider}: {peers} peers through {capacity} places: KiB and descriptors {used:?}");
        served += 1;
        let (first, last) = (used[1], used[4]);
        assert!(last.1 <= first.1 + 4, "{provider}: descriptors {used:?}");
        let grown = last.0.saturating_sub(first.0) as f64;
        assert!(grown < f64::from(varies) + kept * (peers * 3 / 5) as f64, "{provider}: {grown} KiB more, {used:?}");
    }
    // The two transports in Rust, and one provider.
    let least = if only.is_some() { 1 } else { 3 };
    assert!(served >= least || std::env::var("LOOM_UNTESTED").is_ok_and(|set| set == "1"), "no provider");
}
