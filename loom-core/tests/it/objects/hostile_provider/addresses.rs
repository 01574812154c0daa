//! Address vectors.

use std::net::{Ipv4Addr, SocketAddr};

use loom_core::av::{Av, AvAttr};
use loom_core::engine::peer_table::Peer;
use loom_core::vocabulary::{AddressFormat, EndpointAddr, FabricAddr};
use loom_core::{AddressError, Errno};

use super::{Scene, T, attributes};

fn scene(format: AddressFormat) -> Scene {
    let mut attributes = attributes();
    attributes.addr_format = format;
    Scene::new(attributes)
}

fn named(name: &str) -> EndpointAddr {
    EndpointAddr::new(AddressFormat::ADDR_STR, name.as_bytes()).unwrap()
}

fn insert_all(av: &Av<'static, T>, names: &[&str]) -> Vec<Result<Peer, AddressError>> {
    let addresses: Vec<_> = names.iter().map(|name| named(name)).collect();
    let mut peers = Vec::new();
    let inserted = av.insert_all(&addresses, |peer| peers.push(peer));
    assert_eq!(inserted, peers.iter().filter(|peer| peer.is_ok()).count());
    peers
}

#[test]
fn many_addresses_are_inserted_in_order_among_existing_ones() {
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

/// The provider has more room and maps each address to one place.
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

/// The results of a range are returned between its insertions.
#[test]
fn the_vector_of_a_range_changes_while_its_peers_are_handed_over() {
    for reused in [None, Some(10)] {
        let scene = scene(AddressFormat::SOCKADDR_IN);
        scene.script.reused.set(reused);
        let av = Av::open(&scene.domain, 8).unwrap();
        let socket = |last| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 1000));
        let find = |last| av.find(&socket(last).into());
        let (mut range, mut early, mut nested) = (Vec::new(), None, Vec::new());
        let inserted = av.insert_symmetric(socket(1), 5, 1, |peer| {
            range.push(peer.unwrap());
            match range.len() {
                1 => assert!(av.remove(range[0])),
                2 => early = av.insert(&socket(4).into()).ok(),
                3 => assert_eq!(av.insert_symmetric(socket(11), 3, 1, |peer| nested.push(peer.unwrap())), Ok(3)),
                4 => assert!(av.remove(range[1]) && !av.remove(range[0])),
                _ => assert_eq!(
                    av.peer_table().iter().filter(|peer| nested.contains(peer) && av.remove(*peer)).count(),
                    3
                ),
            }
        });
        assert_eq!(inserted, Ok(5));
        assert_eq!(early, Some(range[3]), "a member that was inserted before its turn");
        assert_eq!([1, 2, 11, 12, 13].map(find), [None; 5]);
        assert_eq!([3, 4, 5].map(find), [2, 3, 4].map(|at| Some(range[at])));
        assert!(
            av.peer_table().iter().count() == 3 && av.peer_table().iter().all(|peer| range[2..].contains(&peer)),
            "{reused:?}"
        );
        for (last, peer) in (3..).zip(&range[2..]) {
            assert_eq!(av.address(*peer), Some(Ok(socket(last).into())));
        }
    }
}

#[test]
fn members_of_a_set_leave_and_enter_the_vector_while_they_are_iterated_over() {
    let scene = scene(AddressFormat::ADDR_STR);
    let av = Av::open(&scene.domain, 8).unwrap();
    let peers: Vec<_> = insert_all(&av, &["a", "b", "c"]).into_iter().map(Result::unwrap).collect();
    let mut set = av.set_in(4, allocator_api2::alloc::Global).unwrap();
    set.insert_range(av.peer_table(), 0..=u32::MAX, core::num::NonZeroU32::MIN).unwrap();
    for (number, peer) in set.iter().enumerate() {
        assert!(av.remove(*peer));
        av.insert(&named(&number.to_string())).unwrap();
    }
    assert_eq!(*set, *peers);
    assert!(set.iter().all(|peer| av.peer_table().addr(*peer).is_none()));
    assert_eq!(av.peer_table().iter().count(), 3);
}

/// The reclaimed address is removed from the provider, and its place is free, even if the insertion
/// fails.
#[test]
fn a_refused_insertion_leaves_the_place_free_that_was_reclaimed_for_it() {
    let scene = scene(AddressFormat::ADDR_STR);
    scene.script.reused.set(Some(2));
    let av = Av::open(&scene.domain, 2).unwrap();
    let (insert, removed) = (|name| av.insert(&named(name)), || scene.script.removed.take());
    let [a, b] = ["a", "b"].map(|name| insert(name).unwrap());
    assert!(av.remove(a) && av.remove(b));
    assert_eq!(removed(), [], "they stay in the provider");
    let refusal = Errno::EINVAL;
    scene.script.no_insertion.set(Some(refusal));
    assert_eq!(insert("c"), Err(AddressError::Errno(refusal)));
    assert_eq!(removed(), [FabricAddr(0)], "the oldest has made room");
    scene.script.no_insertion.set(Some(refusal));
    assert_eq!(insert("a"), Err(AddressError::Errno(refusal)), "it is no longer in the provider");
    let again = insert("b").unwrap();
    assert!(again != b && again.index() == b.index(), "the address is still in the provider");
    let c = insert("c").unwrap();
    assert_eq!((c.index(), c != a, removed()), (a.index(), true, vec![]));
    assert_eq!([a, b].map(|peer| av.peer_table().addr(peer)), [None; 2]);
    assert_eq!(["a", "b", "c"].map(|name| av.find(&named(name))), [None, Some(again), Some(c)]);
    assert_eq!(insert("a"), Err(AddressError::Full));
    assert!(av.remove(c));
    assert_eq!((insert("a").map(|peer| peer.index()), removed()), (Ok(0), vec![FabricAddr(0)]));
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

/// A peer with an address of its own takes a single place. Peers of a range share a piece.
#[test]
fn a_vector_has_the_single_places_and_ranges_that_it_was_opened_for() {
    let scene = scene(AddressFormat::SOCKADDR_IN);
    let socket = |last| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 1000));
    let open = |singles, ranges| {
        scene.script.inserted.borrow_mut().clear();
        Av::open(&scene.domain, AvAttr { singles: Some(singles), ranges, ..AvAttr::new(8) }).unwrap()
    };
    let alone = |av: Av<'static, T>| {
        // Not adjacent.
        (0..8).take_while(|number| av.insert(&EndpointAddr::from(socket(number * 2))).is_ok()).count()
    };
    let range = |av: Av<'static, T>| av.insert_symmetric(socket(1), 8, 1, drop).unwrap();
    assert_eq!([alone(open(8, 0)), alone(open(3, 0)), alone(open(0, 0))], [8, 3, 0]);
    assert_eq!([range(open(8, 0)), range(open(0, 1)), range(open(0, 0))], [8, 8, 0]);
}
