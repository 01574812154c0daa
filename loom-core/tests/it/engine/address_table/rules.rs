//! Behaviour of the table, rule by rule.

use std::net::SocketAddr;

use loom_core::AddressError;
use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::address_table::{
    AddressSet, AddressTable, AddressTableAttr, AddressTableMemory, Inserted, SymmetricRange,
};
use loom_core::engine::peer_table::Peer;
use loom_core::error::OpenError;
use loom_core::vocabulary::{AddressFormat, AvType, EndpointAddr, FabricAddr};

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn on_table(attr: AddressTableAttr, test: impl FnOnce(&mut AddressTable<'_>)) {
    test(&mut AddressTableMemory::new_in(attr, Global).unwrap().table());
}

fn new(result: Result<Inserted, AddressError>) -> Peer {
    match result.unwrap() {
        Inserted::New(peer) => peer,
        Inserted::Known(peer) => panic!("{peer} was there"),
    }
}

#[test]
fn places_are_taken_from_the_lowest_on() {
    on_table(AddressTableAttr::new(4), |table| {
        let peers: Vec<_> = (1..=4).map(|port| new(table.insert(SocketAddr::from(([10, 0, 0, 1], port))))).collect();
        assert_eq!(table.len(), 4);
        let addrs = |table: &AddressTable<'_>| peers.iter().map(|peer| table.peers().addr(*peer)).collect::<Vec<_>>();
        assert_eq!(addrs(table), [0, 1, 2, 3].map(|addr| Some(FabricAddr(addr))));
        assert_eq!(table.insert(socket("10.0.0.1:5")), Err(AddressError::Full));
        assert_eq!(table.insert(socket("10.0.0.1:4")), Ok(Inserted::Known(peers[3])), "though it is full");
        assert_eq!((table.remove(peers[2]), table.remove(peers[1])), (Some(FabricAddr(2)), Some(FabricAddr(1))));
        let fifth = new(table.insert(socket("10.0.0.1:5")));
        assert_eq!((fifth.index(), table.peers().addr(peers[1]), table.remove(peers[1])), (1, None, None));
    });
}

#[test]
fn mapped_fabric_addresses_of_a_place_are_never_the_same() {
    on_table(AddressTableAttr { av_type: AvType::MAP, ..AddressTableAttr::new(1) }, |table| {
        let mut before = Vec::new();
        for _ in 0..100 {
            let peer = new(table.insert(socket("10.0.0.1:5")));
            let addr = table.peers().addr(peer).unwrap();
            assert_eq!((addr.0 & 0xffff_ffff, table.peers().peer(addr)), (0, Some(peer)));
            assert!(before.iter().all(|before| table.peers().peer(*before).is_none()), "those of others are stale");
            before.push(addr);
            table.remove(peer);
        }
    });
}

#[test]
fn same_socket_is_the_same_peer_however_it_is_written() {
    on_table(AddressTableAttr { format: AddressFormat::SOCKADDR_IP, ..AddressTableAttr::new(9) }, |table| {
        for text in ["10.0.0.1:7", "[fe80::1%3]:7", "10.0.0.1:0"] {
            let socket = socket(text);
            let peer = new(table.insert(socket));
            let bytes = EndpointAddr::from(socket).bytes().to_vec();
            let own = if socket.is_ipv4() { AddressFormat::SOCKADDR_IN } else { AddressFormat::SOCKADDR_IN6 };
            for format in [own, AddressFormat::SOCKADDR, AddressFormat::SOCKADDR_IP, AddressFormat::UNSPEC] {
                let written = EndpointAddr::new(format, &bytes).unwrap();
                assert_eq!(table.insert(&written), Ok(Inserted::Known(peer)), "{written}");
            }
            let back = EndpointAddr::new(AddressFormat::SOCKADDR_IP, &bytes).unwrap();
            assert_eq!((table.address(peer), table.socket(peer)), (Some(back), Some(socket)));
        }
        let mut padded = EndpointAddr::from(socket("10.0.0.1:7")).bytes().to_vec();
        padded[12] = 9;
        let padded = EndpointAddr::new(AddressFormat::SOCKADDR_IN, &padded).unwrap();
        assert_eq!(table.find(&padded), table.find(socket("10.0.0.1:7")));
        assert_eq!(table.len(), 3);
    });
}

#[test]
fn addresses_that_differ_on_the_wire_are_different_peers() {
    let sockets =
        ["10.0.0.1:7", "10.0.0.1:8", "10.0.0.2:7", "[::ffff:10.0.0.1]:7", "[::10.0.0.1]:7", "[::ffff:10.0.0.1%1]:7"];
    let mut all: Vec<EndpointAddr> = sockets.iter().map(|text| socket(text).into()).collect();
    // Flow information.
    let mut flow = all[3].bytes().to_vec();
    flow[7] = 1;
    all.push(EndpointAddr::new(AddressFormat::SOCKADDR_IN6, &flow).unwrap());
    // Bytes that are not a whole socket, other bytes beside a packed socket, and strings with and
    // without their zero byte.
    for (format, bytes) in [
        (AddressFormat::SOCKADDR_IN, &all[0].bytes()[..15].to_vec()[..]),
        (AddressFormat::SOCKADDR_IN, &[10, 0, 0, 1, 0, 7]),
        (AddressFormat::SOCKADDR_IN6, all[0].bytes().to_vec().as_slice()),
        (AddressFormat::ADDR_EFA, all[0].bytes().to_vec().as_slice()),
        (AddressFormat::ADDR_CXI, all[0].bytes().to_vec().as_slice()),
        (AddressFormat::ADDR_STR, b"fi_shm://1"),
        (AddressFormat::ADDR_STR, b"fi_shm://1\0"),
        (AddressFormat::ADDR_STR, b""),
        (AddressFormat::ADDR_EFA, b""),
    ] {
        all.push(EndpointAddr::new(format, bytes).unwrap());
    }
    on_table(AddressTableAttr { bytes: 4096, ..AddressTableAttr::new(100) }, |table| {
        let peers: Vec<_> = all.iter().map(|address| new(table.insert(address))).collect();
        for (address, peer) in all.iter().zip(&peers) {
            assert_eq!((table.find(address), table.address(*peer).as_ref()), (Some(*peer), Some(address)));
        }
    });
}

#[test]
fn full_table_and_full_store_lose_no_address() {
    let attr = AddressTableAttr { bytes: AddressTableAttr::bytes_for(32) + 31, ..AddressTableAttr::new(3) };
    let raw = |byte| EndpointAddr::new(AddressFormat::ADDR_EFA, &[byte; 32]).unwrap();
    on_table(attr, |table| {
        let first = new(table.insert(&raw(1)));
        for _ in 0..3 {
            assert_eq!(table.insert(&raw(2)), Err(AddressError::OutOfBytes));
        }
        assert_eq!((table.find(&raw(1)), table.find(&raw(2)), table.free_bytes()), (Some(first), None, 0));
        // A refused insertion does not remove the peer in its place.
        let addr = FabricAddr(1 << 32);
        assert_eq!(table.insert_at(addr, &raw(2)), Err(AddressError::OutOfBytes));
        assert_eq!(table.address(first), Some(raw(1)));
        for port in [7, 8] {
            new(table.insert(SocketAddr::from(([10, 0, 0, 1], port))));
        }
        assert_eq!(table.insert(socket("10.0.0.1:9")), Err(AddressError::Full));
        table.remove(first);
        new(table.insert(&raw(2)));
        assert_eq!(table.len(), 3);
    });
}

#[test]
fn range_takes_one_record_and_no_address_of_a_member() {
    const MEMBERS: u32 = 40 * 50;
    // All places are for members of ranges.
    let attr = AddressTableAttr { singles: 0, bytes: 0, ranges: 1, ..AddressTableAttr::new(MEMBERS as usize) };
    let range = SymmetricRange::new(socket("10.1.255.250:5000"), 40, 50).unwrap();
    on_table(attr, |table| {
        let mut peers = Vec::new();
        let inserted = table.insert_symmetric(range, |result| peers.push(new(result)));
        assert_eq!((inserted, table.ranges(), table.len()), (Ok(2000), 1, 2000));
        for ((peer, member), number) in peers.iter().zip(range.members()).zip(0..) {
            // Members have consecutive handles.
            assert_eq!((peer.index(), table.peers().addr(*peer)), (number, Some(FabricAddr(number as u64))));
            assert_eq!((table.socket(*peer), table.find(member.socket())), (Some(member.socket()), Some(*peer)));
        }
        // A second insertion returns the same peers.
        let mut at = 0;
        let inserted = table.insert_symmetric(range, |result| {
            assert_eq!(result, Ok(Inserted::Known(peers[at])));
            at += 1;
        });
        assert_eq!((inserted, at), (Ok(2000), 2000));
        assert_eq!(table.insert(socket("10.1.255.251:5049")), Ok(Inserted::Known(peers[99])));
        for peer in &peers {
            assert!(table.remove(*peer).is_some());
            assert_eq!((table.socket(*peer), table.remove(*peer)), (None, None));
        }
        assert_eq!((table.ranges(), table.len()), (0, 0));
    });
}

#[test]
fn removed_member_is_gone_and_its_place_is_used_again() {
    on_table(AddressTableAttr::new(20), |table| {
        let range = SymmetricRange::new(socket("10.0.0.1:5000"), 4, 3).unwrap();
        let mut peers = Vec::new();
        table.insert_symmetric(range, |result| peers.push(new(result))).unwrap();
        let gone = peers[5];
        let address = table.socket(gone).unwrap();
        table.remove(gone);
        assert_eq!((table.find(address), table.socket(gone), table.len()), (None, None, 11));
        // Another address gets the place, and the member a new one.
        let other = new(table.insert(socket("10.9.9.9:1")));
        let again = new(table.insert(address));
        assert_eq!((other.index(), again.index()), (5, 12));
        assert_eq!((table.find(address), table.socket(other)), (Some(again), Some(socket("10.9.9.9:1"))));
        // The place is free again, and the member does not return to it.
        table.remove(other);
        table.remove(again);
        assert_eq!(table.find(address), None);
        // Inserts the range again: all members but the removed one are known.
        let mut told = Vec::new();
        table.insert_symmetric(range, |result| told.push(result.unwrap())).unwrap();
        let known = told.iter().filter(|told| matches!(told, Inserted::Known(_))).count();
        assert_eq!((known, matches!(told[5], Inserted::New(_)), told[5].peer().index()), (11, true, 5));
        assert_eq!((table.find(address), table.ranges()), (Some(told[5].peer()), 1));
    });
}

#[test]
fn ranges_overlap_with_singles_and_with_other_ranges() {
    on_table(AddressTableAttr { ranges: 8, ..AddressTableAttr::new(100) }, |table| {
        let single = new(table.insert(socket("10.0.0.2:5001")));
        let insert = |table: &mut AddressTable<'_>, first: &str, nodes, services| {
            let range = SymmetricRange::new(socket(first), nodes, services).unwrap();
            let mut told = Vec::new();
            table.insert_symmetric(range, |result| told.push(result.unwrap())).unwrap();
            for (member, told) in range.members().zip(&told) {
                assert_eq!(table.find(member.socket()), Some(told.peer()));
                assert_eq!(table.socket(told.peer()), Some(member.socket()));
            }
            told
        };
        let first = insert(table, "10.0.0.1:5000", 3, 2);
        assert_eq!(
            first.iter().map(|told| matches!(told, Inserted::New(_))).collect::<Vec<_>>(),
            [true, true, true, false, true, true]
        );
        assert_eq!((first[3].peer(), table.len(), table.ranges()), (single, 6, 2));
        let second = insert(table, "10.0.0.2:5001", 3, 2);
        let new: Vec<_> = second.iter().map(|told| matches!(told, Inserted::New(_))).collect();
        assert_eq!(new, [false, true, false, true, true, true]);
        assert_eq!((second[2].peer(), table.len()), (first[5].peer(), 10));
    });
}

#[test]
fn ranges_beyond_the_records_are_singles() {
    on_table(AddressTableAttr { ranges: 1, ..AddressTableAttr::new(100) }, |table| {
        for (first, ranges) in [("10.0.0.1:1", 1), ("10.0.1.1:1", 1), ("10.0.2.1:1", 1)] {
            let range = SymmetricRange::new(socket(first), 5, 2).unwrap();
            let mut peers = Vec::new();
            assert_eq!(table.insert_symmetric(range, |result| peers.push(new(result))), Ok(10));
            assert_eq!(table.ranges(), ranges);
            for (member, peer) in range.members().zip(peers) {
                assert_eq!((table.find(member.socket()), table.socket(peer)), (Some(peer), Some(member.socket())));
            }
        }
    });
}

#[test]
fn part_of_a_range_that_does_not_fit_is_reported() {
    on_table(AddressTableAttr::new(6), |table| {
        let other = new(table.insert(socket("10.9.9.9:1")));
        let range = SymmetricRange::new(socket("10.0.0.1:1"), 2, 3).unwrap();
        let mut told = Vec::new();
        assert_eq!(table.insert_symmetric(range, |result| told.push(result)), Ok(5));
        assert_eq!(told.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, true, true, true, false]);
        assert_eq!(told[5], Err(AddressError::Full));
        table.remove(other);
        assert_eq!(table.insert_symmetric(range, |_| {}), Ok(6));
    });
}

#[test]
fn range_of_more_addresses_than_places_is_refused_whole() {
    on_table(AddressTableAttr::new(5), |table| {
        for (first, nodes, services) in [("10.0.0.1:1", 2, 3), ("[fe80::1]:1", u32::MAX, u16::MAX)] {
            let range = SymmetricRange::new(socket(first), nodes, services).unwrap();
            assert_eq!(table.insert_symmetric(range, |told| panic!("{told:?}")), Err(AddressError::Full));
            assert_eq!(table.len(), 0);
        }
    });
}

fn ten(node: u8) -> SymmetricRange {
    SymmetricRange::new(SocketAddr::from(([10, 0, 0, node], 1)), 1, 10).unwrap()
}

fn places(table: &mut AddressTable<'_>, range: SymmetricRange) -> Vec<Option<usize>> {
    let mut places = Vec::new();
    table.insert_symmetric(range, |told| places.push(told.ok().map(|told| told.peer().index()))).unwrap();
    for (member, place) in range.members().zip(&places) {
        let peer = table.find(member.socket());
        assert_eq!(peer.map(Peer::index), *place);
        assert_eq!(peer.and_then(|peer| table.socket(peer)), peer.map(|_| member.socket()));
    }
    places
}

fn remove_place(table: &mut AddressTable<'_>, place: u32) {
    let peer = table.peers().at(place).unwrap();
    assert!(table.remove(peer).is_some());
}

#[test]
fn removed_member_gets_its_place_again_and_is_in_nobodys_way() {
    // No place is for a single address, and no record is left for pieces.
    let attr = AddressTableAttr { places: 100, singles: 0, ranges: 2, bytes: 0, ..AddressTableAttr::new(100) };
    on_table(attr, |table| {
        let all = |first: usize| (first..first + 10).map(Some).collect::<Vec<_>>();
        assert_eq!(places(table, ten(1)), all(0));
        remove_place(table, 5);
        assert_eq!(places(table, ten(2)), all(10));
        assert_eq!((places(table, ten(1)), table.ranges(), table.len()), (all(0), 2, 20));
        // Also when inserted alone.
        let sixth = socket("10.0.0.1:6");
        remove_place(table, 5);
        assert_eq!((table.find(sixth), new(table.insert(sixth)).index()), (None, 5));
        assert_eq!(table.insert(socket("10.0.0.9:1")), Err(AddressError::Full));
    });
}

#[test]
fn places_left_by_members_are_taken_when_all_others_are() {
    let attr = AddressTableAttr { places: 12, singles: 0, ranges: 5, bytes: 0, ..AddressTableAttr::new(12) };
    on_table(attr, |table| {
        places(table, ten(1));
        for place in [0, 5, 9] {
            remove_place(table, place);
        }
        // A place at an end of the range does not cut it. A place in the middle cuts it in two, and
        // no record is left for the last place.
        let [before, behind] = [&[10, 11, 0, 5].map(Some)[..], &[None; 6]];
        assert_eq!((places(table, ten(2)), table.ranges()), ([before, behind].concat(), 5));
        // Of the three removed members, only the last one still has its place.
        assert_eq!(table.insert(socket("10.0.0.1:6")), Err(AddressError::Full));
        assert_eq!(new(table.insert(socket("10.0.0.1:10"))).index(), 9);
    });
}

#[test]
fn provider_gives_the_place_of_a_member_to_another() {
    let attr = AddressTableAttr { places: 100, singles: 0, ranges: 3, bytes: 0, ..AddressTableAttr::new(100) };
    on_table(attr, |table| {
        places(table, ten(1));
        let first = ten(2).members().next().unwrap();
        let second = ten(3).members().next().unwrap();
        remove_place(table, 5);
        assert_eq!(new(table.insert_at(FabricAddr(5), &first)).index(), 5);
        remove_place(table, 0);
        assert_eq!(table.insert_at(FabricAddr(0), &second), Err(AddressError::Full), "all records are used");
        assert_eq!((table.ranges(), table.len()), (3, 9));
        // A former member requires no record.
        let own = ten(1).members().next().unwrap();
        assert_eq!(new(table.insert_at(FabricAddr(7 << 32), own.socket())).index(), 0);
        // The range has no peer on one side of the place, so one piece is left.
        for place in 0..5 {
            remove_place(table, place);
        }
        assert_eq!(new(table.insert_at(FabricAddr(2), &second)).index(), 2);
        for (place, member) in (6..10).zip(ten(1).members().skip(6)) {
            let peer = table.find(member.socket());
            assert!(peer.is_some());
            assert_eq!(peer, table.peers().at(place));
        }
    });
}

#[test]
fn provider_may_choose_the_places() {
    on_table(AddressTableAttr::new(8), |table| {
        let (a, b) = (socket("10.0.0.1:1"), socket("10.0.0.1:2"));
        let first = new(table.insert_at(FabricAddr(7 << 32 | 3), a));
        // A known address in another place, and another address in a known place, name the same
        // peer.
        assert_eq!(table.insert_at(FabricAddr(5), a), Ok(Inserted::Known(first)));
        assert_eq!(table.insert_at(FabricAddr(7 << 32 | 3), b), Ok(Inserted::Known(first)));
        assert_eq!((table.find(a), table.find(b)), (Some(first), None));
        let second = new(table.insert_at(FabricAddr(8 << 32 | 3), b));
        assert_eq!((table.find(a), table.find(b), table.socket(first)), (None, Some(second), None));
        assert_eq!(table.insert_at(FabricAddr(8), a), Err(AddressError::Full));
        // A peer without an address, which gets one later.
        let unnamed = new(table.insert_unnamed_at(FabricAddr(4)));
        assert_eq!((table.address(unnamed), table.peers().addr(unnamed)), (None, Some(FabricAddr(4))));
        assert_eq!(table.remove(unnamed), Some(FabricAddr(4)));
        assert_ne!(new(table.insert_at(FabricAddr(4), a)), unnamed);
        assert_eq!(new(table.insert(socket("10.0.0.1:3"))).index(), 0, "the lowest that is free");
    });
}

#[test]
fn sets_are_in_the_order_of_the_manual_page() {
    on_table(AddressTableAttr::new(10), |table| {
        let p: Vec<_> = (1..=8).map(|port| new(table.insert(SocketAddr::from(([10, 0, 0, 1], port))))).collect();
        let set = |members: &[usize]| {
            let mut set = AddressSet::new_in(10, 8, Global).unwrap();
            for member in members {
                assert_eq!(set.insert(p[*member]), Ok(true));
            }
            set
        };
        let numbers = |set: &AddressSet<_>| -> Vec<usize> { set.iter().map(|peer| peer.index()).collect() };
        let mut a = set(&[5, 1, 3]);
        assert_eq!((a.insert(p[1]), a.rank(p[1]), a.rank(p[3]), a.rank(p[0])), (Ok(false), Some(1), Some(2), None));
        a.union(&set(&[7, 3, 0, 5])).unwrap();
        assert_eq!(numbers(&a), [5, 1, 3, 7, 0]);
        a.intersect(&set(&[0, 3, 5, 6]));
        assert_eq!(numbers(&a), [5, 3, 0]);
        a.difference(&set(&[3, 4]));
        assert_eq!(numbers(&a), [5, 0]);
        assert_eq!((a.remove(p[3]), a.remove(p[5]), numbers(&a)), (false, true, vec![0]));
        // `start_addr`, `end_addr` and `stride`.
        a.insert_range(table.peers(), 1..=6, 2.try_into().unwrap()).unwrap();
        assert_eq!(numbers(&a), [0, 1, 3, 5]);
        let mut all = set(&[]);
        all.insert_range(table.peers(), 0..=u32::MAX, 1.try_into().unwrap()).unwrap();
        assert_eq!(numbers(&all), [0, 1, 2, 3, 4, 5, 6, 7]);
        // A refused range does not change the table.
        let mut small = AddressSet::new_in(10, 4, Global).unwrap();
        small.insert(p[2]).unwrap();
        assert_eq!((small.union(&all), numbers(&small)), (Err(AddressError::Full), vec![2]));
        small.union(&set(&[2, 6, 1])).unwrap();
        assert_eq!((small.insert(p[0]), small.insert(p[7])), (Ok(true), Err(AddressError::Full)));
        assert_eq!(numbers(&small), [2, 6, 1, 0]);
    });
}

#[test]
fn stale_member_makes_room_for_the_next_peer_of_its_place() {
    on_table(AddressTableAttr::new(2), |table| {
        let [old, other] = [1, 2].map(|port| new(table.insert(SocketAddr::from(([10, 0, 0, 1], port)))));
        let mut set = AddressSet::new_in(2, 2, Global).unwrap();
        assert_eq!((set.insert(old), set.insert(other)), (Ok(true), Ok(true)));
        table.remove(old);
        let young = new(table.insert(socket("10.0.0.1:3")));
        assert_eq!((young.index(), set.insert(young)), (0, Ok(true)));
        assert_eq!(*set, [other, young]);
        // The set does not admit a stale handle.
        let mut stale = AddressSet::new_in(2, 2, Global).unwrap();
        stale.insert(old).unwrap();
        assert_eq!((set.insert(old), set.union(&stale), set.contains(&old)), (Ok(false), Ok(()), false));
        assert_eq!(*set, [other, young]);
    });
}

#[test]
fn sizes_that_cannot_be_are_errors() {
    let attr = AddressTableAttr::new(4);
    let too_many = AddressTableAttr::MAX_RANGES + 1;
    for attr in [
        AddressTableAttr { places: 0, ..attr },
        AddressTableAttr { places: usize::MAX, ..attr },
        AddressTableAttr { places: u32::MAX as usize, ..attr },
        AddressTableAttr { bytes: usize::MAX, ..attr },
        AddressTableAttr { ranges: too_many, ..attr },
    ] {
        assert_eq!(AddressTableMemory::new_in(attr, Global).unwrap_err(), OpenError::Size, "{attr:?}");
    }
    assert_eq!(AddressSet::new_in(usize::MAX, usize::MAX, Global).unwrap_err(), OpenError::Size);
    on_table(AddressTableAttr { singles: 0, bytes: 0, ranges: 0, ..attr }, |table| {
        assert_eq!(table.insert(socket("10.0.0.1:1")), Err(AddressError::Full));
        assert_eq!(table.find(socket("10.0.0.1:1")), None);
    });
}
