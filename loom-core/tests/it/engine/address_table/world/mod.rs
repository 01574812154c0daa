//! The address table beside a list of its peers.

mod address;
mod pieces;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZeroU32;

use loom_core::AddressError;
use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::address_table::{AddressSet, AddressTable, AddressTableAttr, Inserted, SymmetricRange};
use loom_core::engine::peer_table::Peer;
use loom_core::vocabulary::{AvType, FabricAddr};

pub(crate) use self::address::Address;
use self::address::Meaning;
use self::pieces::IoVecs;

/// Input to a table. A number of a peer counts all peers ever returned, from the newest on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Insert(Address),
    InsertAll([Address; 3]),
    /// `at` is the place, `rest` the other half of the fabric address.
    InsertAt {
        address: Address,
        at: u8,
        rest: u8,
    },
    InsertUnnamed {
        at: u8,
        rest: u8,
    },
    InsertRange {
        first: Address,
        nodes: u8,
        services: u8,
    },
    /// Members of a range, in consecutive places.
    InsertRangeAt {
        first: Address,
        nodes: u8,
        services: u8,
        at: u8,
        rest: u8,
    },
    Remove {
        nth: u8,
    },
    Find(Address),
    SetInsert {
        set: bool,
        nth: u8,
    },
    SetRemove {
        set: bool,
        nth: u8,
    },
    SetUnion {
        set: bool,
    },
    SetIntersect {
        set: bool,
    },
    SetDifference {
        set: bool,
    },
    SetRange {
        set: bool,
        first: u8,
        last: u8,
        stride: u8,
    },
}

#[derive(Clone, Debug)]
struct There {
    peer: Peer,
    addr: FabricAddr,
    /// `None` for a peer without an address.
    meaning: Option<Meaning>,
    /// The address belongs to a piece, so it takes no bytes.
    ranged: bool,
}

/// Capacity of a set in members.
const SET: usize = 5;

pub(crate) struct World<'t> {
    table: AddressTable<'t>,
    attr: AddressTableAttr,
    there: Vec<There>,
    pieces: IoVecs,
    given: Vec<(Peer, FabricAddr)>,
    /// Opened at first use.
    sets: Option<[(AddressSet<Global>, Vec<Peer>); 2]>,
    /// Results of a range, empty in between.
    told: Vec<Result<Inserted, AddressError>>,
}

impl<'t> World<'t> {
    /// Opens a world of up to 128 places.
    pub(crate) fn new(table: AddressTable<'t>, attr: AddressTableAttr) -> Self {
        let (there, given, pieces) = (Vec::with_capacity(16), Vec::with_capacity(16), IoVecs::new(attr.places));
        World { table, attr, there, pieces, given, sets: None, told: vec![] }
    }

    pub(crate) fn apply(&mut self, action: &Action) {
        match action {
            Action::Insert(address) => {
                let result = match address.plain() {
                    Some(socket) => self.table.insert(socket),
                    None => self.table.insert(&address.written()),
                };
                self.inserted(*address, result);
            }
            Action::InsertAll(addresses) => {
                for address in addresses {
                    let result = self.table.insert(&address.written());
                    self.inserted(*address, result);
                }
            }
            Action::InsertAt { address, at, rest } => {
                let addr = self.addr(*at, *rest);
                let result = match address.plain() {
                    Some(socket) => self.table.insert_at(addr, socket),
                    None => self.table.insert_at(addr, &address.written()),
                };
                self.inserted_at(Some(address.meaning(self.attr.format)), addr, None, result);
            }
            Action::InsertUnnamed { at, rest } => {
                let addr = self.addr(*at, *rest);
                let result = self.table.insert_unnamed_at(addr);
                self.inserted_at(None, addr, None, result);
            }
            Action::InsertRange { first, nodes, services } => {
                let Some(range) = range(*first, *nodes, *services) else { return };
                let mut told = std::mem::take(&mut self.told);
                let count = self.table.insert_symmetric(range, |result| told.push(result));
                let wanted = usize::from(*nodes) * usize::from(*services);
                if wanted > self.attr.places {
                    assert_eq!((count, told.len()), (Err(AddressError::Full), 0));
                } else {
                    assert_eq!((told.len(), Ok(told.iter().flatten().count())), (wanted, count));
                }
                for (number, result) in (0..).zip(told.drain(..)) {
                    let socket = member(first.socket().expect("a range of sockets"), *services, number);
                    let meaning = Meaning::Socket(socket);
                    let addr = self.next(&meaning);
                    self.inserted_there(Some(meaning), addr, Some((range, number)), result);
                }
                self.told = told;
            }
            Action::InsertRangeAt { first, nodes, services, at, rest } => {
                let Some(range) = range(*first, *nodes, *services) else { return };
                for (one, number) in range.members().zip(0..) {
                    let socket = member(first.socket().expect("a range of sockets"), *services, number);
                    assert_eq!(one.socket(), socket);
                    let addr = FabricAddr(self.addr(*at, *rest).0 + u64::from(number));
                    let result = self.table.insert_at(addr, &one);
                    self.inserted_at(Some(Meaning::Socket(socket)), addr, Some((range, number)), result);
                }
            }
            Action::Remove { nth } => {
                let Some((peer, _)) = self.nth(*nth) else { return };
                let at = self.there.iter().position(|there| there.peer == peer);
                let addr = at.map(|at| self.left(at).addr);
                assert_eq!(self.table.remove(peer), addr, "removing {peer}");
            }
            Action::Find(address) => self.look_for(*address),
            action => self.apply_to_sets(action),
        }
        assert_eq!(self.table.len(), self.there.len());
        if let Some(there) = self.there.last() {
            self.check_one(there);
            let address = there.meaning.as_ref().map(|meaning| meaning.address(self.attr.format));
            assert_eq!(self.table.address(there.peer), address);
        }
    }

    fn apply_to_sets(&mut self, action: &Action) {
        let (Action::SetInsert { set, .. }
        | Action::SetRemove { set, .. }
        | Action::SetUnion { set }
        | Action::SetIntersect { set }
        | Action::SetDifference { set }
        | Action::SetRange { set, .. }) = action
        else {
            return;
        };
        let nth = match action {
            Action::SetInsert { nth, .. } | Action::SetRemove { nth, .. } => self.nth(*nth),
            _ => None,
        };
        let by_place = |first: u8, last: u8, stride: u8| {
            let mut peers: Vec<_> = self.there.iter().map(|there| there.peer).collect();
            peers.sort_by_key(|peer| peer.index());
            let (first, last) = (usize::from(first), usize::from(last));
            peers.retain(|peer| {
                (first..=last).contains(&peer.index()) && (peer.index() - first).is_multiple_of(stride.into())
            });
            peers
        };
        let places = self.attr.places;
        let [a, b] = self.sets.get_or_insert_with(|| {
            [(); 2].map(|()| (AddressSet::new_in(places, SET, Global).expect("small"), Vec::with_capacity(SET)))
        });
        let ((own, members), (other, others)) = if *set { (b, &*a) } else { (a, &*b) };
        // The table returns the handles of one place in order, so a later one is also later in the
        // list.
        let age = |peer: Peer| self.given.iter().position(|(given, _)| *given == peer);
        let add = |members: &mut Vec<Peer>, peer: Peer| {
            match members.iter().position(|member| member.index() == peer.index()) {
                Some(at) if age(members[at]) >= age(peer) => return false,
                Some(at) => _ = members.remove(at),
                None => {}
            }
            members.push(peer);
            true
        };
        let add_all = |members: &mut Vec<Peer>, peers: Vec<Peer>| {
            let mut together = members.clone();
            for peer in peers {
                add(&mut together, peer);
            }
            let fits = together.len() <= SET.min(self.attr.places);
            if fits {
                *members = together;
            }
            if fits { Ok(()) } else { Err(AddressError::Full) }
        };
        match *action {
            Action::SetInsert { .. } => {
                let Some((peer, _)) = nth else { return };
                let mut together = members.clone();
                let added = add(&mut together, peer);
                if together.len() > SET.min(self.attr.places) {
                    assert_eq!(own.insert(peer), Err(AddressError::Full));
                } else {
                    assert_eq!(own.insert(peer), Ok(added));
                    *members = together;
                }
            }
            Action::SetRemove { .. } => {
                let Some((peer, _)) = nth else { return };
                let at = members.iter().position(|member| *member == peer);
                assert_eq!(own.remove(peer), at.is_some());
                at.map(|at| members.remove(at));
            }
            Action::SetUnion { .. } => assert_eq!(own.union(other), add_all(members, others.clone())),
            Action::SetIntersect { .. } => {
                own.intersect(other);
                members.retain(|member| others.contains(member));
            }
            Action::SetDifference { .. } => {
                own.difference(other);
                members.retain(|member| !others.contains(member));
            }
            Action::SetRange { first, last, stride, .. } => {
                let stride = stride % 4 + 1;
                let added = own.insert_range(
                    self.table.peers(),
                    first.into()..=last.into(),
                    NonZeroU32::new(stride.into()).expect("one at least"),
                );
                assert_eq!(added, add_all(members, by_place(first, last, stride)));
            }
            _ => {}
        }
        assert_eq!(own[..], members[..]);
        for (peer, _) in self.given.iter().rev().take(8) {
            assert_eq!(own.rank(*peer), members.iter().position(|member| member == peer));
        }
    }

    /// Returns the `nth` of all handles ever returned, from the newest on.
    fn nth(&self, nth: u8) -> Option<(Peer, FabricAddr)> {
        self.given.len().checked_sub(1 + usize::from(nth)).map(|at| self.given[at])
    }

    /// Returns a fabric address, either of a place or outside of the table.
    fn addr(&self, at: u8, rest: u8) -> FabricAddr {
        let place = if at < 240 { u64::from(at) % self.attr.places as u64 } else { u64::from(at) + 100 };
        FabricAddr(u64::from(rest) << 32 | place)
    }

    /// Returns the place for a new address: the place that it has left in a piece, else the lowest
    /// free one. Beyond the places for single addresses, places without a piece come first. A full
    /// table returns the number of its places.
    fn next(&self, meaning: &Meaning) -> FabricAddr {
        let taken = self.there.iter().fold(0u128, |taken, there| taken | 1 << there.peer.index());
        let free = || (0..self.attr.places).filter(|place| taken >> place & 1 == 0);
        let left = free().find(|place| self.is_of_piece(*place, meaning));
        let open = free().find(|place| *place < self.attr.singles || !self.pieces.covers(*place));
        let place = left.or(open).or_else(|| free().next()).unwrap_or(self.attr.places);
        FabricAddr(u64::try_from(place).expect("few"))
    }

    /// Checks that the place has or had this address in its piece.
    fn is_of_piece(&self, place: usize, meaning: &Meaning) -> bool {
        self.pieces.socket(place).is_some_and(|socket| *meaning == Meaning::Socket(socket))
    }

    fn left(&mut self, at: usize) -> There {
        let there = self.there.remove(at);
        if there.ranged {
            self.pieces.leave(there.peer.index());
        }
        there
    }

    /// Returns the pieces with an address in a place, if they have a record for it.
    fn with(&self, meaning: Option<&Meaning>, member: Option<(SymmetricRange, u32)>, place: usize) -> Option<IoVecs> {
        let meaning = meaning.filter(|_| place < self.attr.places)?;
        if self.is_of_piece(place, meaning) {
            let mut pieces = self.pieces.clone();
            pieces.come_back(place);
            return Some(pieces);
        }
        let ((range, number), Meaning::Socket(socket)) = (member?, meaning) else { return None };
        if place < self.attr.singles && self.pieces.covers(place) {
            return None;
        }
        let mut pieces = self.pieces.clone();
        pieces.put(range, number, *socket, place);
        (pieces.count() <= self.attr.ranges).then_some(pieces)
    }

    fn bytes(&self) -> usize {
        let singles = self.there.iter().filter(|there| !there.ranged);
        singles.filter_map(|there| there.meaning.as_ref()).map(Meaning::stored).sum()
    }

    fn known(&self, meaning: &Meaning) -> Option<&There> {
        self.there.iter().find(|there| there.meaning.as_ref() == Some(meaning))
    }

    fn inserted(&mut self, address: Address, result: Result<Inserted, AddressError>) {
        let meaning = address.meaning(self.attr.format);
        let addr = self.next(&meaning);
        self.inserted_there(Some(meaning), addr, None, result);
    }

    /// Checks an insertion at a fabric address chosen by the caller, which can already be in the
    /// table.
    fn inserted_at(
        &mut self,
        meaning: Option<Meaning>,
        addr: FabricAddr,
        member: Option<(SymmetricRange, u32)>,
        result: Result<Inserted, AddressError>,
    ) {
        let named = meaning.as_ref().and_then(|meaning| self.known(meaning));
        let there = named.or_else(|| self.there.iter().find(|there| there.addr == addr));
        if let Some(there) = there {
            assert_eq!(result, Ok(Inserted::Known(there.peer)), "it is there");
            return;
        }
        self.inserted_there(meaning, addr, member, result);
    }

    /// Checks the result of an insertion. The place can belong to another peer.
    fn inserted_there(
        &mut self,
        meaning: Option<Meaning>,
        addr: FabricAddr,
        member: Option<(SymmetricRange, u32)>,
        result: Result<Inserted, AddressError>,
    ) {
        if let Some(there) = meaning.as_ref().and_then(|meaning| self.known(meaning)) {
            assert_eq!(result, Ok(Inserted::Known(there.peer)), "the same address is the same peer");
            return;
        }
        let place = usize::try_from(addr.0 & u64::from(u32::MAX)).expect("32 bits");
        let in_place = self.there.iter().position(|there| there.peer.index() == place);
        let pieces = self.with(meaning.as_ref(), member, place);
        let bytes = meaning.as_ref().map_or(0, Meaning::stored);
        let wanted = match pieces {
            Some(_) => Ok(()),
            None if place >= self.attr.singles.min(self.attr.places) => Err(AddressError::Full),
            None if self.bytes() + bytes > self.attr.bytes / 32 * 32 => Err(AddressError::OutOfBytes),
            None => Ok(()),
        };
        assert_eq!(result.map(|_| ()), wanted, "{meaning:?} in place {place}");
        match result {
            Err(_) => {}
            Ok(Inserted::Known(peer)) => panic!("{meaning:?} is new, and not {peer}"),
            Ok(Inserted::New(peer)) => {
                assert_eq!(peer.index(), place, "the place");
                assert!(!self.given.iter().any(|(given, _)| *given == peer), "{peer} was given out before");
                if let Some(at) = in_place {
                    self.left(at);
                }
                let ranged = pieces.is_some();
                self.pieces = pieces.unwrap_or_else(|| self.pieces.clone());
                let found = self.table.peers().addr(peer).expect("it is there");
                if self.attr.av_type == AvType::MAP && addr.0 >> 32 == 0 && found != addr {
                    // The table has chosen the upper half.
                    assert_eq!(found.0 & u64::from(u32::MAX), addr.0);
                    assert!(!self.given.iter().any(|(_, given)| *given == found), "{found} was given out before");
                } else {
                    assert_eq!(found, addr);
                }
                self.given.push((peer, found));
                self.there.push(There { peer, addr: found, meaning, ranged });
            }
        }
    }

    fn look_for(&self, address: Address) {
        let meaning = address.meaning(self.attr.format);
        let found = match address.plain() {
            Some(socket) => self.table.find(socket),
            None => self.table.find(&address.written()),
        };
        assert_eq!(found, self.known(&meaning).map(|there| there.peer), "{address:?}");
    }

    fn check_one(&self, there: &There) {
        let peer = there.peer;
        match &there.meaning {
            Some(Meaning::Socket(socket)) => {
                assert_eq!((self.table.find(*socket), self.table.socket(peer)), (Some(peer), Some(*socket)));
            }
            Some(Meaning::Bytes(format, bytes)) => {
                let address = self.table.address(peer).expect("it was inserted with one");
                assert_eq!((address.format().as_raw(), address.bytes()), (*format, &bytes[..]));
                assert_eq!((self.table.find(&address), self.table.socket(peer)), (Some(peer), None));
            }
            None => assert_eq!(self.table.address(peer), None),
        }
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.table.len(), self.there.len());
        assert_eq!(self.table.ranges(), self.pieces.count());
        assert_eq!(self.attr.bytes / 32 * 32 - self.table.free_bytes(), self.bytes());
        for there in &self.there {
            self.check_one(there);
        }
        for (peer, addr) in self.given.iter().rev().take(8) {
            let there = self.there.iter().find(|there| there.peer == *peer);
            assert_eq!(self.table.peers().addr(*peer), there.map(|there| there.addr), "{peer}");
            if there.is_none() {
                assert_eq!(self.table.address(*peer), None, "{peer} is gone");
            }
            let has = self.there.iter().find(|there| there.addr == *addr);
            assert_eq!(self.table.peers().peer(*addr), has.map(|there| there.peer), "{addr}");
        }
    }

    pub(crate) fn close(mut self) {
        self.check();
        while let Some(there) = self.there.pop() {
            assert_eq!(self.table.remove(there.peer), Some(there.addr));
        }
        assert_eq!(self.table.len(), 0);
        assert_eq!((self.table.ranges(), self.table.free_bytes()), (0, self.attr.bytes / 32 * 32));
    }
}

fn range(first: Address, nodes: u8, services: u8) -> Option<SymmetricRange> {
    let socket = first.socket()?;
    let range = SymmetricRange::new(socket, nodes.into(), services.into());
    assert_eq!(range.is_some(), socket.port() != 0, "it ends far from the last address");
    range
}

/// Returns the address of a member of a range: all services of a node before the next node.
fn member(first: SocketAddr, services: u8, number: u32) -> SocketAddr {
    let (node, service) = (number / u32::from(services), number % u32::from(services));
    let port = first.port() + u16::try_from(service).expect("less than 256");
    match first {
        SocketAddr::V4(v4) => SocketAddr::from((Ipv4Addr::from_bits(v4.ip().to_bits() + node), port)),
        SocketAddr::V6(v6) => {
            let ip = Ipv6Addr::from_bits(v6.ip().to_bits() + u128::from(node));
            SocketAddrV6::new(ip, port, v6.flowinfo(), v6.scope_id()).into()
        }
    }
}
