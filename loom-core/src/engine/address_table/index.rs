//! [`Index`]: from an address to its place.
//!
//! A hash table whose buckets are trees, and every node of a tree is a place: its two links are all that the index keeps there.
//! A node's children are told apart by one bit of the hash, those of a child by the next bit, and so on; when the hash has
//! no more bits, by those of the address itself. So nothing is ever balanced, moved or hashed anew, an address goes in where the
//! way to it ends, and one that leaves is replaced by any leaf below it.
//!
//! Two nodes on one way agree in all bits down to the upper one, so that no way is longer than a hash and an address have bits
//! ([`Key::words`]). That is the worst that addresses can do which were chosen to collide by somebody who knows the seed;
//! of the others, a bucket has about two.

use super::NIL;
use super::hash::hash;
use super::key::Key;
use super::store::Store;

/// What the table keeps of a place besides its generation: 14 bytes.
///
/// Packed to an alignment of two: with four, there would be two bytes of nothing.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(2))]
pub(super) struct Record {
    /// Where the index goes on.
    links: [u32; 2],
    /// The address of an IPv4 socket, or with port zero what else is here.
    value: u32,
    port: u16,
}

const _: () = assert!(size_of::<Record>() == 14);

/// What is in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// No address: the place is free, or a member of a range is in it.
    Nothing,
    /// A peer whose address only the provider knows.
    Unnamed,
    /// An IPv4 socket, whose port is not zero.
    V4 { ip: u32, port: u16 },
    /// Whatever begins in a cell of the store.
    Stored(u32),
}

/// In place of the number of a cell.
const NOTHING: u32 = NIL;
const UNNAMED: u32 = NIL - 1;
/// Cells have smaller numbers.
pub(super) const CELLS_LIMIT: usize = UNNAMED as usize;

impl Record {
    pub(super) const EMPTY: Record = Record { links: [NIL; 2], value: NOTHING, port: 0 };

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
        Record { value, port, ..Self::EMPTY }
    }

    fn is(self, store: &Store<'_>, key: &Key<'_>) -> bool {
        match (self.held(), key) {
            (Held::V4 { ip, port }, Key::V4 { ip: wanted, port: at }) => ip == *wanted && port == *at,
            (Held::Stored(cell), key) => store.is(cell, key),
            _ => false,
        }
    }
}

/// A key with its hash, on its way through a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'k> {
    hash: u64,
    key: Key<'k>,
}

impl<'k> Way<'k> {
    pub(super) fn new(seed: u64, key: Key<'k>) -> Self {
        Way { hash: hash(seed, &key), key }
    }

    pub(super) fn key(&self) -> &Key<'k> {
        &self.key
    }

    /// Which child of a node at this depth.
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

/// Where the number of a node stands.
#[derive(Clone, Copy, Debug)]
enum Link {
    Bucket(usize),
    Child(u32, Side),
}

/// The buckets, and the places that are in them.
#[derive(Debug)]
pub(super) struct Index<'s> {
    buckets: &'s mut [u32],
    records: &'s mut [Record],
}

impl<'s> Index<'s> {
    /// An index of nothing.
    pub(super) fn new(buckets: &'s mut [u32], records: &'s mut [Record]) -> Self {
        buckets.fill(NIL);
        records.fill(Record::EMPTY);
        Index { buckets, records }
    }

    /// How many places can have an address of their own.
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

    /// As multiplication has it, so that any number of buckets will do: the upper half of the hash, and trees begin with the lower.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "less than the number of buckets")]
    fn bucket(&self, way: &Way<'_>) -> usize {
        ((u128::from(way.hash) * self.buckets.len() as u128) >> 64) as usize
    }

    fn follow(&self, link: Link) -> u32 {
        match link {
            Link::Bucket(at) => self.buckets.get(at).copied().unwrap_or(NIL),
            Link::Child(place, Side::Left) => self.record(place).links[0],
            Link::Child(place, Side::Right) => self.record(place).links[1],
        }
    }

    fn set(&mut self, link: Link, to: u32) {
        match link {
            Link::Bucket(at) => {
                if let Some(bucket) = self.buckets.get_mut(at) {
                    *bucket = to;
                }
            }
            Link::Child(place, side) => {
                if let Some(record) = self.records.get_mut(place as usize) {
                    record.links[side as usize] = to;
                }
            }
        }
    }

    /// The place of an address, and how many nodes were looked at.
    #[inline]
    pub(super) fn find(&self, store: &Store<'_>, way: &Way<'_>) -> (Option<u32>, u32) {
        let mut at = self.buckets.get(self.bucket(way)).copied().unwrap_or(NIL);
        let mut depth = 0;
        while at != NIL {
            let record = self.record(at);
            if record.is(store, &way.key) {
                return (Some(at), depth + 1);
            }
            at = match way.turn(depth) {
                Side::Left => record.links[0],
                Side::Right => record.links[1],
            };
            depth += 1;
        }
        (None, depth)
    }

    /// Puts an address into a place that holds nothing; it is not in the index yet. `false` if the place holds something: a place
    /// in two trees, or twice in one, would be a way without an end.
    #[must_use]
    pub(super) fn insert(&mut self, way: &Way<'_>, place: u32, held: Held) -> bool {
        if self.held(place) != Held::Nothing {
            return false;
        }
        let mut link = Link::Bucket(self.bucket(way));
        let mut depth = 0;
        loop {
            match self.follow(link) {
                NIL => break,
                node => link = Link::Child(node, way.turn(depth)),
            }
            depth += 1;
        }
        self.put(place, held);
        self.set(link, place);
        true
    }

    /// Puts what is not looked up into a place that holds nothing.
    pub(super) fn put(&mut self, place: u32, held: Held) {
        if let Some(record) = self.records.get_mut(place as usize) {
            *record = Record::of(held);
        }
    }

    /// Takes an address out of its place.
    pub(super) fn remove(&mut self, way: &Way<'_>, place: u32) {
        let mut link = Link::Bucket(self.bucket(way));
        let mut depth = 0;
        loop {
            match self.follow(link) {
                NIL => return,
                node if node == place => break,
                node => link = Link::Child(node, way.turn(depth)),
            }
            depth += 1;
        }
        // Any leaf below it has the bits that lead here, too.
        let (mut leaf, mut above) = (place, link);
        loop {
            let [left, right] = self.record(leaf).links;
            let side = match (left, right) {
                (NIL, NIL) => break,
                (NIL, _) => Side::Right,
                _ => Side::Left,
            };
            above = Link::Child(leaf, side);
            leaf = self.follow(above);
        }
        self.set(above, NIL);
        if leaf != place {
            let links = self.record(place).links;
            if let Some(record) = self.records.get_mut(leaf as usize) {
                record.links = links;
            }
            self.set(link, leaf);
        }
        if let Some(record) = self.records.get_mut(place as usize) {
            *record = Record::EMPTY;
        }
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

    /// Inserts addresses with hashes as given, and returns the most nodes that finding one of them looks at. Takes them out again
    /// in another order, and looks for the others after each.
    fn deepest(buckets: usize, ways: &[Way<'_>]) -> u32 {
        let (mut buckets, mut records) = (vec![0; buckets], vec![Record::EMPTY; ways.len()]);
        let mut cells = [];
        let store = Store::new(&mut cells);
        let mut index = Index::new(&mut buckets, &mut records);
        for (place, way) in (0..).zip(ways) {
            assert_eq!(index.find(&store, way).0, None);
            let Key::V4 { ip, port } = *way.key() else { panic!() };
            assert!(index.insert(way, place, Held::V4 { ip, port }));
        }
        let deepest = (0..).zip(ways).map(|(place, way)| {
            let (found, depth) = index.find(&store, way);
            assert_eq!(found, Some(place));
            depth
        });
        let deepest = deepest.max().unwrap();
        let mut left: Vec<usize> = (0..ways.len()).collect();
        let mut at = 0;
        while !left.is_empty() {
            at = (at + 7919) % left.len();
            let place = left.swap_remove(at);
            index.remove(&ways[place], place as u32);
            assert_eq!(index.find(&store, &ways[place]).0, None);
            let step = left.len() / 50 + 1;
            for place in left.iter().step_by(step) {
                assert_eq!(index.find(&store, &ways[*place]).0, Some(*place as u32));
            }
        }
        assert!(index.buckets.iter().all(|bucket| *bucket == NIL));
        deepest
    }

    #[test]
    fn place_that_holds_something_is_refused() {
        let (mut buckets, mut records, mut cells) = ([0; 1], [Record::EMPTY; 2], []);
        let store = Store::new(&mut cells);
        let mut index = Index::new(&mut buckets, &mut records);
        let ways = [1, 2].map(|ip| Way::new(0, key(ip)));
        let held = [1, 2].map(|ip| Held::V4 { ip, port: PORT });
        assert!(index.insert(&ways[0], 0, held[0]));
        for (way, held) in ways.iter().zip(held) {
            assert!(!index.insert(way, 0, held));
        }
        index.put(1, Held::Unnamed);
        assert!(!index.insert(&ways[1], 1, held[1]));
        assert_eq!((index.find(&store, &ways[0]).0, index.find(&store, &ways[1]).0), (Some(0), None));
        index.remove(&ways[0], 0);
        assert_eq!((index.find(&store, &ways[0]).0, index.held(1)), (None, Held::Unnamed));
    }

    #[test]
    fn ordinary_addresses_are_found_after_a_few_nodes() {
        // Consecutive ones, as those of a machine room are.
        for seed in [0, 1, u64::MAX] {
            let ways: Vec<_> = (0..100_000).map(|ip| Way::new(seed, key(0x0a00_0000 + ip))).collect();
            let deepest = deepest(buckets_for(ways.len()), &ways);
            // With fewer buckets there would be eight.
            assert!((3..8).contains(&deepest), "{deepest} nodes");
        }
    }

    #[test]
    fn addresses_with_one_hash_are_told_apart_by_their_own_bits() {
        let ways: Vec<_> = (0..3000).map(|ip| Way { hash: u64::MAX / 3, key: key(ip) }).collect();
        let deepest = deepest(1000, &ways);
        // All bits of the hash, the port, and then as many as tell 3000 apart.
        assert!((64 + 16..=64 + 16 + 12).contains(&deepest), "{deepest} nodes");
    }

    #[test]
    fn no_address_is_deeper_than_the_bits_of_a_hash_and_an_address() {
        // One hash for all, and the bits of the addresses that come first are the same: there is no deeper tree.
        let ways: Vec<_> = (0..256).map(|high| Way { hash: 0, key: key(high << 24) }).collect();
        let deepest = deepest(1, &ways);
        // The hash, the port, the low bits of the address; those that differ tell the rest apart.
        assert!((64 + 16 + 24..=64 + 16 + 32).contains(&deepest), "{deepest} nodes");
    }

    #[test]
    fn addresses_chosen_with_the_seed_known_are_found_after_about_their_logarithm() {
        const SEED: u64 = 42;
        const BUCKETS: usize = 1792;
        // As many as there are places, and all in one bucket.
        let mut cells = [];
        let (mut buckets, mut records) = (vec![0; BUCKETS], []);
        let index = Index::new(&mut buckets, &mut records);
        let _ = Store::new(&mut cells);
        let mut found = (0..).map(|ip| Way::new(SEED, key(ip))).filter(|way| index.bucket(way) == 17);
        let ways: Vec<_> = found.by_ref().take(1024).collect();
        let known = deepest(BUCKETS, &ways);
        assert!(known <= 2 * 10 + 10, "{known} nodes for {} in one bucket", ways.len());
        // The same addresses, for whoever did not know the seed.
        let others: Vec<_> = ways.iter().map(|way| Way::new(SEED + 1, way.key)).collect();
        let unknown = deepest(BUCKETS, &others);
        assert!(unknown < 10, "{unknown} nodes");
    }
}
