//! [`Index`]: maps an address to its slot.
//!
//! A hash table with buckets of one cache line and twelve slots. Further addresses are in the
//! bucket's tree, by the bits of the hash, then of the address.

use super::NIL;
use super::bucket::Bucket;
use super::hash::hash;
use super::key::Key;
use super::store::Store;

pub(super) type Links = [u32; 2];

/// Packed to an alignment of 2, because 4 would add 2 bytes of padding.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(2))]
pub(super) struct Record {
    /// Address of an IPv4 socket, or other contents if the port is 0.
    value: u32,
    port: u16,
}

const _: () = assert!(size_of::<Record>() == 6);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// No address: the slot is free, or belongs to a member of a range.
    Nothing,
    /// Peer with an address that only the provider has.
    Unnamed,
    /// IPv4 socket with a port other than 0.
    V4 { ip: u32, port: u16 },
    /// Address that begins in a cell of the store.
    Stored(u32),
}

/// Special values in place of a cell index, which is below `CELLS_LIMIT`.
const NOTHING: u32 = NIL;
const UNNAMED: u32 = NIL - 1;
pub(super) const CELLS_LIMIT: usize = UNNAMED as usize;

impl Record {
    pub(super) const EMPTY: Record = Record { value: NOTHING, port: 0 };

    pub(super) fn held(self) -> Held {
        match (self.port, self.value) {
            (0, NOTHING) => Held::Nothing,
            (0, UNNAMED) => Held::Unnamed,
            (0, cell) => Held::Stored(cell),
            (port, ip) => Held::V4 { ip, port },
        }
    }

    pub(super) fn of(held: Held) -> Self {
        let (port, value) = match held {
            Held::Nothing => (0, NOTHING),
            Held::Unnamed => (0, UNNAMED),
            Held::V4 { ip, port } => (port, ip),
            Held::Stored(cell) => (0, cell),
        };
        Record { value, port }
    }

    #[inline]
    fn is(self, store: &Store<'_>, key: &Key<'_>) -> bool {
        match *key {
            Key::V4 { ip, port } if port != 0 => self.value == ip && self.port == port,
            ref key => matches!(self.held(), Held::Stored(cell) if store.is(cell, key)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'k> {
    hash: u64,
    key: Key<'k>,
}

impl<'k> Way<'k> {
    #[inline]
    pub(super) fn new(seed: u64, key: Key<'k>) -> Self {
        Way { hash: hash(seed, &key), key }
    }

    pub(super) fn key(&self) -> &Key<'k> {
        &self.key
    }

    #[inline]
    fn turn(&self, depth: u32) -> Side {
        let bit = match depth {
            depth @ 0..64 => self.hash >> depth & 1 == 1,
            depth => self.key.bit(depth as usize - 64),
        };
        if bit { Side::Right } else { Side::Left }
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Left,
    Right,
}

#[derive(Clone, Copy, Debug)]
enum Link {
    Root(usize),
    Child(u32, Side),
}

#[derive(Debug)]
pub(super) struct Index<'s> {
    pub(super) buckets: &'s mut [Bucket],
    pub(super) records: &'s mut [Record],
    pub(super) links: &'s mut [Links],
}

impl Index<'_> {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    #[inline]
    pub(super) fn held(&self, place: u32) -> Held {
        self.record(place).held()
    }

    #[inline]
    fn record(&self, place: u32) -> Record {
        self.records.get(place as usize).copied().unwrap_or(Record::EMPTY)
    }

    fn links(&self, place: u32) -> Links {
        self.links.get(place as usize).copied().unwrap_or([NIL; 2])
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "less than the number of buckets")]
    fn bucket(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.buckets.len() as u128) >> 64) as usize
    }

    fn follow(&self, link: Link) -> u32 {
        match link {
            Link::Root(at) => self.buckets.get(at).map_or(NIL, |bucket| bucket.root),
            Link::Child(place, Side::Left) => self.links(place)[0],
            Link::Child(place, Side::Right) => self.links(place)[1],
        }
    }

    fn set(&mut self, link: Link, to: u32) {
        match link {
            Link::Root(at) => {
                if let Some(bucket) = self.buckets.get_mut(at) {
                    bucket.root = to;
                }
            }
            Link::Child(place, side) => {
                if let Some(links) = self.links.get_mut(place as usize) {
                    links[side as usize] = to;
                }
            }
        }
    }

    #[inline]
    pub(super) fn find_v4(&self, seed: u64, ip: u32, port: u16) -> Option<u32> {
        let hash = hash(seed, &Key::V4 { ip, port });
        let is_there = |place: &u32| {
            let record = self.record(*place);
            record.value == ip && record.port == port && port != 0
        };
        self.buckets.get(self.bucket(hash))?.places(hash).find(is_there)
    }

    pub(super) fn find(&self, store: &Store<'_>, way: &Way<'_>) -> Option<u32> {
        let bucket = self.buckets.get(self.bucket(way.hash))?;
        let found = bucket.places(way.hash).find(|place| self.record(*place).is(store, &way.key));
        if found.is_some() || bucket.root == NIL {
            return found;
        }
        self.find_in_tree(bucket.root, store, way).0
    }

    #[cold]
    fn find_in_tree(&self, root: u32, store: &Store<'_>, way: &Way<'_>) -> (Option<u32>, u32) {
        let mut at = root;
        let mut depth = 0;
        while at != NIL {
            if self.record(at).is(store, &way.key) {
                return (Some(at), depth + 1);
            }
            at = self.links(at)[way.turn(depth) as usize];
            depth += 1;
        }
        (None, depth)
    }

    /// Returns `false` if the slot is not empty: a slot in two trees would make an endless path.
    #[must_use]
    pub(super) fn insert(&mut self, way: &Way<'_>, place: u32, held: Held) -> bool {
        if self.held(place) != Held::Nothing {
            return false;
        }
        self.put(place, held);
        let at = self.bucket(way.hash);
        if self.buckets.get_mut(at).is_some_and(|bucket| bucket.add(way.hash, place)) {
            return true;
        }
        let mut link = Link::Root(at);
        let mut depth = 0;
        loop {
            match self.follow(link) {
                NIL => break,
                node => link = Link::Child(node, way.turn(depth)),
            }
            depth += 1;
        }
        self.set(link, place);
        true
    }

    pub(super) fn put(&mut self, place: u32, held: Held) {
        if let Some(record) = self.records.get_mut(place as usize) {
            *record = Record::of(held);
        }
    }

    pub(super) fn remove(&mut self, way: &Way<'_>, place: u32) {
        let at = self.bucket(way.hash);
        if self.buckets.get_mut(at).is_some_and(|bucket| bucket.remove(place)) || self.remove_from_tree(at, way, place)
        {
            self.put(place, Held::Nothing);
        }
    }

    fn remove_from_tree(&mut self, bucket: usize, way: &Way<'_>, place: u32) -> bool {
        let mut link = Link::Root(bucket);
        let mut depth = 0;
        loop {
            match self.follow(link) {
                NIL => return false,
                node if node == place => break,
                node => link = Link::Child(node, way.turn(depth)),
            }
            depth += 1;
        }
        let (mut leaf, mut above) = (place, link);
        loop {
            let side = match self.links(leaf) {
                [NIL, NIL] => break,
                [NIL, _] => Side::Right,
                _ => Side::Left,
            };
            above = Link::Child(leaf, side);
            leaf = self.follow(above);
        }
        self.set(above, NIL);
        if leaf != place {
            let links = self.links(place);
            if let Some(of_leaf) = self.links.get_mut(leaf as usize) {
                *of_leaf = links;
            }
            self.set(link, leaf);
        }
        if let Some(links) = self.links.get_mut(place as usize) {
            *links = [NIL; 2];
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test fails by panicking")]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::super::memory::buckets_for;
    use super::*;

    const PORT: u16 = 7;

    fn key(ip: u32) -> Key<'static> {
        Key::V4 { ip, port: PORT }
    }

    fn memory(buckets: usize, addresses: usize) -> (Vec<Bucket>, Vec<Record>, Vec<Links>) {
        (vec![Bucket::EMPTY; buckets], vec![Record::EMPTY; addresses], vec![[NIL; 2]; addresses])
    }

    fn depth(index: &Index<'_>, store: &Store<'_>, way: &Way<'_>) -> u32 {
        let found = index.find(store, way);
        let (in_tree, depth) = index.find_in_tree(index.buckets[index.bucket(way.hash)].root, store, way);
        if in_tree.is_some() {
            assert_eq!(in_tree, found);
            return depth;
        }
        0
    }

    fn deepest(buckets: usize, ways: &[Way<'_>]) -> (u32, usize) {
        let (mut buckets, mut records, mut links) = memory(buckets, ways.len());
        let mut cells = [];
        let store = Store::new(&mut cells);
        let mut index = Index { buckets: &mut buckets, records: &mut records, links: &mut links };
        for (place, way) in (0..).zip(ways) {
            assert_eq!(index.find(&store, way), None);
            let Key::V4 { ip, port } = *way.key() else { panic!() };
            assert!(index.insert(way, place, Held::V4 { ip, port }));
        }
        let depths: Vec<_> = (0..)
            .zip(ways)
            .map(|(place, way)| {
                assert_eq!(index.find(&store, way), Some(place));
                depth(&index, &store, way)
            })
            .collect();
        let in_trees = depths.iter().filter(|depth| **depth > 0).count();
        let deepest = depths.into_iter().max().unwrap();
        let mut left: Vec<usize> = (0..ways.len()).collect();
        let mut at = 0;
        while !left.is_empty() {
            at = (at + 7919) % left.len();
            let place = left.swap_remove(at);
            index.remove(&ways[place], place as u32);
            assert_eq!(index.find(&store, &ways[place]), None);
            let step = left.len() / 50 + 1;
            for place in left.iter().step_by(step) {
                assert_eq!(index.find(&store, &ways[*place]), Some(*place as u32));
            }
        }
        assert!(index.links.iter().all(|links| *links == [NIL; 2]));
        assert!(index.buckets.iter().all(|bucket| bucket.root == NIL && bucket.places_taken() == 0));
        (deepest, in_trees)
    }

    #[test]
    fn place_that_holds_something_is_refused() {
        let (mut buckets, mut records, mut links) = memory(1, 2);
        let mut cells = [];
        let store = Store::new(&mut cells);
        let mut index = Index { buckets: &mut buckets, records: &mut records, links: &mut links };
        let ways = [1, 2].map(|ip| Way::new(0, key(ip)));
        let held = [1, 2].map(|ip| Held::V4 { ip, port: PORT });
        assert!(index.insert(&ways[0], 0, held[0]));
        for (way, held) in ways.iter().zip(held) {
            assert!(!index.insert(way, 0, held));
        }
        index.put(1, Held::Unnamed);
        assert!(!index.insert(&ways[1], 1, held[1]));
        assert_eq!((index.find(&store, &ways[0]), index.find(&store, &ways[1])), (Some(0), None));
        index.remove(&ways[0], 0);
        assert_eq!((index.find(&store, &ways[0]), index.held(1)), (None, Held::Unnamed));
    }

    #[test]
    fn ordinary_addresses_are_found_in_one_bucket() {
        for seed in [0, 1, u64::MAX] {
            let ways: Vec<_> = (0..100_000).map(|ip| Way::new(seed, key(0x0a00_0000 + ip))).collect();
            let (deepest, in_trees) = deepest(buckets_for(ways.len()), &ways);
            assert!((2..8).contains(&deepest), "{deepest} nodes");
            assert!((1000..2500).contains(&in_trees), "{in_trees} are in trees");
        }
    }

    #[test]
    fn addresses_with_one_hash_differ_by_their_own_bits() {
        let ways: Vec<_> = (0..3000).map(|ip| Way { hash: u64::MAX / 3, key: key(ip) }).collect();
        let (deepest, in_trees) = deepest(1000, &ways);
        assert!((64 + 16..=64 + 16 + 12).contains(&deepest), "{deepest} nodes");
        assert_eq!(in_trees, 3000 - 12, "all but those of one bucket");
    }

    #[test]
    fn no_address_is_deeper_than_the_bits_of_a_hash_and_an_address() {
        let ways: Vec<_> = (0..256).map(|high| Way { hash: 0, key: key(high << 24) }).collect();
        let (deepest, _) = deepest(1, &ways);
        assert!((64 + 16 + 24..=64 + 16 + 32).contains(&deepest), "{deepest} nodes");
    }

    #[test]
    fn addresses_chosen_for_a_seed_are_found_after_about_their_logarithm() {
        const SEED: u64 = 42;
        const BUCKETS: usize = 256;
        let (mut buckets, mut records, mut links) = memory(BUCKETS, 0);
        let index = Index { buckets: &mut buckets, records: &mut records, links: &mut links };
        let mut found = (0..).map(|ip| Way::new(SEED, key(ip))).filter(|way| index.bucket(way.hash) == 17);
        let ways: Vec<_> = found.by_ref().take(1024).collect();
        let (known, in_tree) = deepest(BUCKETS, &ways);
        assert_eq!(in_tree, ways.len() - 12, "in one bucket");
        assert!(known <= 2 * 10 + 10, "{known} nodes for {} in one bucket", ways.len());
        let others: Vec<_> = ways.iter().map(|way| Way::new(SEED + 1, way.key)).collect();
        let (unknown, in_trees) = deepest(BUCKETS, &others);
        assert!(unknown < 10 && in_trees < 10, "{unknown} nodes, {in_trees} in trees");
    }
}
