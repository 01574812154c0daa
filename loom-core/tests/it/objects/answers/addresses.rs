//! Address vectors.

use std::net::{Ipv4Addr, SocketAddr};

use loom_core::AddressError;
use loom_core::av::{Av, AvAttr};
use loom_core::vocabulary::{AddressFormat, EndpointAddr, FabricAddr};

use super::{Scene, T, attributes};

fn scene(format: AddressFormat) -> Scene {
    let mut attributes = attributes();
    attributes.addr_format = format;
    Scene::new(attributes)
}

fn named(name: &str) -> EndpointAddr {
    EndpointAddr::new(AddressFormat::ADDR_STR, name.as_bytes()).unwrap()
}

fn insert_all(av: &Av<'static, T>, names: &[&str]) -> Vec<Result<loom_core::engine::peer_table::Peer, AddressError>> {
    let addresses: Vec<_> = names.iter().map(|name| named(name)).collect();
    let mut peers = Vec::new();
    let inserted = av.insert_all(&addresses, |peer| peers.push(peer));
    assert_eq!(inserted, peers.iter().filter(|peer| peer.is_ok()).count());
    peers
}

#[test]
fn many_addresses_are_inserted_in_their_order_among_those_that_are_there() {
    let scene = scene(AddressFormat::ADDR_STR);
    let av = Av::open(&scene.domain, 8).unwrap();
    let there = insert_all(&av, &["a", "b"]);
    let names = ["c", "d", "a", "e", "b", "f", "g"];
    let peers = insert_all(&av, &names);
    assert_eq!([peers[2], peers[4]], there[..]);
    for (name, peer) in names.iter().zip(peers) {
        assert_eq!(av.address(peer.unwrap()).unwrap().unwrap(), named(name));
    }
    assert_eq!(scene.script.inserted.borrow().len(), 7, "the provider is asked for new ones alone");
}

/// The provider has room for more, and gives one address one place.
#[test]
fn each_address_without_a_place_is_taken_back_from_the_provider() {
    let scene = scene(AddressFormat::ADDR_STR);
    let av = Av::open(&scene.domain, 2).unwrap();
    let peers = insert_all(&av, &["a", "b", "c", "d", "c"]);
    let full = Err(AddressError::Full);
    assert_eq!(peers[2..], [full, full, full]);
    assert_eq!(*scene.script.removed.borrow(), [FabricAddr(2), FabricAddr(3), FabricAddr(2)]);
}

#[test]
fn a_range_is_inserted_if_there_are_places_for_all_of_it() {
    let scene = scene(AddressFormat::SOCKADDR_IN);
    let first = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 1000));
    let insert = |nodes, services| {
        let av = Av::open(&scene.domain, 20).unwrap();
        scene.script.inserted.borrow_mut().clear();
        let mut told = 0;
        let inserted = av.insert_symmetric(first, nodes, services, |peer| told += usize::from(peer.is_ok()));
        assert_eq!(inserted.unwrap_or(0), told);
        inserted
    };
    assert_eq!([insert(1, 1), insert(4, 5), insert(2, 8)], [Ok(1), Ok(20), Ok(16)]);
    assert_eq!([insert(3, 7), insert(21, 1)], [Err(AddressError::Full); 2]);
}

#[test]
fn a_vector_has_room_for_addresses_that_are_likely_by_their_format() {
    const PEERS: usize = 64;
    let scene = scene(AddressFormat::ADDR_STR);
    let fits = |attr: AvAttr| {
        let av = Av::open(&scene.domain, attr).unwrap();
        scene.script.inserted.borrow_mut().clear();
        (0..PEERS).take_while(|number| av.insert(&named(&format!("{number:072}"))).is_ok()).count()
    };
    assert_eq!(fits(AvAttr::new(PEERS)), PEERS);
    assert_eq!(fits(AvAttr { bytes: Some(0), ..AvAttr::new(PEERS) }), 0);
}

/// Peers with an address of their own take a single place, those of a range a piece of it together.
#[test]
fn a_vector_has_the_single_places_and_ranges_that_it_was_opened_for() {
    let scene = scene(AddressFormat::SOCKADDR_IN);
    let socket = |last| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 1000));
    let open = |singles, ranges| {
        scene.script.inserted.borrow_mut().clear();
        Av::open(&scene.domain, AvAttr { singles, ranges, ..AvAttr::new(8) }).unwrap()
    };
    let alone = |av: Av<'static, T>| {
        // Not beside each other.
        (0..8).take_while(|number| av.insert(&EndpointAddr::from(socket(number * 2))).is_ok()).count()
    };
    let range = |av: Av<'static, T>| av.insert_symmetric(socket(1), 8, 1, drop).unwrap();
    assert_eq!([alone(open(8, 0)), alone(open(3, 0)), alone(open(0, 0))], [8, 3, 0]);
    assert_eq!([range(open(8, 0)), range(open(0, 1)), range(open(0, 0))], [8, 8, 0]);
}
