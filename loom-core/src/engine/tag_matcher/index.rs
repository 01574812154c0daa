//! [`Index`]: maps a key to its nodes, oldest first.
//!
//! A hash table with radix trees as buckets. The tree separates colliding keys by differing bits,
//! in logarithmic time.
//!
//! Nodes of one key form a ring in order of arrival, and the first is the tree's leaf.

use core::cell::Cell;

use super::table::Table;
use crate::util::index_list::{Links, NONE};
use crate::util::random::Random;

/// Flag of a number that refers to a node's fork, not to the node as a leaf.
const FORK: u32 = 1 << 31;

const fn is_fork(at: u32) -> bool {
    at & FORK != 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) tag: u64,
    pub(crate) source: u64,
    pub(crate) pattern: u64,
}

impl Key {
    #[inline]
    fn bit(&self, number: u32) -> usize {
        let word = match number / u64::BITS {
            0 => self.tag,
            1 => self.source,
            _ => self.pattern,
        };
        (word >> (u64::BITS - 1 - number % u64::BITS) & 1) as usize
    }

    fn first_difference(&self, other: &Key) -> Option<u32> {
        let words = [self.tag ^ other.tag, self.source ^ other.source, self.pattern ^ other.pattern];
        let (at, word) = (0u32..).zip(words).find(|(_, word)| *word != 0)?;
        Some(at * u64::BITS + word.leading_zeros())
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    /// Neighbours in the ring of the node's key.
    pub(super) ring: Links,
    /// Children of the fork: keys with the bit clear, and set.
    children: [Cell<u32>; 2],
    /// Bit that the fork tests, or one of the two constants below.
    bit: Cell<u32>,
    bucket: Cell<u32>,
}

/// Value of `bit` of a leaf with an unused fork.
const NO_FORK: u32 = u32::MAX;
/// Value of `bit` of a node that is not a leaf.
const FOLLOWER: u32 = u32::MAX - 1;

impl Link {
    pub(crate) const fn new() -> Self {
        let children = [const { Cell::new(NONE) }; 2];
        Link { ring: Links::new(NONE), children, bit: Cell::new(NO_FORK), bucket: Cell::new(0) }
    }

    #[inline]
    pub(super) fn be_alone(&self, own: u32) {
        self.ring.next.set(own);
        self.ring.previous.set(own);
    }
}

pub(crate) trait Nodes {
    fn link(&self, node: u32) -> &Link;
    fn key(&self, node: u32) -> Key;
}

#[inline]
pub(super) fn follow(nodes: &impl Nodes, first: u32, node: u32) {
    let last = nodes.link(first).ring.previous.replace(node);
    nodes.link(last).ring.next.set(node);
    let ring = &nodes.link(node).ring;
    ring.next.set(first);
    ring.previous.set(last);
}

#[inline]
pub(super) fn leave(nodes: &impl Nodes, node: u32) -> u32 {
    let ring = &nodes.link(node).ring;
    let (next, previous) = (ring.next.get(), ring.previous.get());
    if next == node {
        return NONE;
    }
    nodes.link(next).ring.previous.set(previous);
    nodes.link(previous).ring.next.set(next);
    next
}

/// Buckets of one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Line([Cell<u32>; Line::BUCKETS as usize]);

impl Line {
    pub(crate) const BUCKETS: u32 = 16;

    pub(crate) const fn new() -> Self {
        Line([const { Cell::new(NONE) }; Self::BUCKETS as usize])
    }
}

#[derive(Debug)]
pub(crate) struct Index {
    lines: Table<Line>,
    shift: u32,
    /// Odd, and unpredictable without the seed.
    multipliers: [u64; 4],
}

impl Index {
    pub(crate) fn new(lines: Table<Line>, seed: u64) -> Self {
        debug_assert!(lines.len().is_power_of_two() && lines.len() > 1, "{} lines", lines.len());
        let mut random = Random::new(seed);
        let multipliers = [(); 4].map(|()| random.next() | 1);
        Index { lines, shift: u64::BITS - lines.len().trailing_zeros(), multipliers }
    }

    /// Scatters keys of any pattern at random for peers without the multipliers.
    #[inline]
    fn bucket(&self, key: &Key) -> u32 {
        let [a, b, c, d] = self.multipliers;
        let (tag, source) = ((key.tag / u64::from(Line::BUCKETS)).wrapping_mul(a), key.source.wrapping_mul(b));
        let sum = tag.wrapping_add(source).wrapping_add(key.pattern.wrapping_mul(c));
        let hash = (sum ^ sum >> 32).wrapping_mul(d);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are no more buckets than u32 counts; low bits are cut off"
        )]
        let (line, place) = ((hash >> self.shift) as u32, (key.tag ^ hash >> 16) as u32);
        line * Line::BUCKETS + place % Line::BUCKETS
    }

    #[inline]
    fn at(&self, bucket: u32) -> &Cell<u32> {
        let Line(buckets) = self.lines.at(bucket / Line::BUCKETS);
        &buckets[(bucket % Line::BUCKETS) as usize]
    }

    #[inline]
    pub(crate) fn find(&self, nodes: &impl Nodes, key: Key) -> u32 {
        let mut at = self.at(self.bucket(&key)).get();
        while is_fork(at) {
            let fork = nodes.link(at & !FORK);
            at = child(fork, &key).get();
        }
        if at != NONE && nodes.key(at) == key { at } else { NONE }
    }

    #[inline]
    pub(crate) fn append(&self, nodes: &impl Nodes, node: u32, key: Key) {
        let number = self.bucket(&key);
        let link = nodes.link(node);
        link.bucket.set(number);
        let bucket = self.at(number);
        if bucket.get() == NONE {
            link.be_alone(node);
            link.bit.set(NO_FORK);
            bucket.set(node);
        } else {
            Self::append_to(bucket, nodes, node, key);
        }
    }

    #[inline(never)]
    fn append_to(bucket: &Cell<u32>, nodes: &impl Nodes, node: u32, key: Key) {
        let link = nodes.link(node);
        let mut leaf = bucket.get();
        while is_fork(leaf) {
            leaf = child(nodes.link(leaf & !FORK), &key).get();
        }
        let Some(bit) = key.first_difference(&nodes.key(leaf)) else {
            follow(nodes, leaf, node);
            link.bit.set(FOLLOWER);
            return;
        };
        let mut place = bucket;
        while is_fork(place.get()) {
            let fork = nodes.link(place.get() & !FORK);
            if fork.bit.get() > bit {
                break;
            }
            place = child(fork, &key);
        }
        link.be_alone(node);
        link.bit.set(bit);
        let [clear, set] = &link.children;
        let (own, other) = if key.bit(bit) == 0 { (clear, set) } else { (set, clear) };
        own.set(node);
        other.set(place.replace(node | FORK));
    }

    #[inline]
    pub(crate) fn remove(&self, nodes: &impl Nodes, node: u32) {
        let next = leave(nodes, node);
        let link = nodes.link(node);
        if link.bit.get() == FOLLOWER {
            return;
        }
        let bucket = self.at(link.bucket.get());
        if bucket.get() == node {
            bucket.set(next);
            if next != NONE {
                nodes.link(next).bit.set(NO_FORK);
            }
        } else {
            Self::remove_from(bucket, nodes, (node, next));
        }
    }

    #[inline(never)]
    fn remove_from(bucket: &Cell<u32>, nodes: &impl Nodes, (node, next): (u32, u32)) {
        let (link, key) = (nodes.link(node), &nodes.key(node));
        let (mut place, mut above, mut own) = (bucket, None, None);
        while is_fork(place.get()) {
            let number = place.get() & !FORK;
            let fork = nodes.link(number);
            if number == node {
                own = Some(place);
            }
            above = Some((place, number, fork));
            place = child(fork, key);
        }
        debug_assert!(place.get() == node, "found {} in place of {node}", place.get());
        let heir = if next == NONE {
            let Some((above, number, fork)) = above else { return };
            above.set(other_child(fork, key).get());
            fork.bit.set(NO_FORK);
            number
        } else {
            place.set(next);
            nodes.link(next).bit.set(NO_FORK);
            next
        };
        if let Some(own) = own.filter(|_| heir != node) {
            let fork = nodes.link(heir);
            for (to, from) in fork.children.iter().zip(&link.children) {
                to.set(from.get());
            }
            fork.bit.set(link.bit.get());
            own.set(heir | FORK);
        }
    }
}

#[inline]
fn child<'l>(fork: &'l Link, key: &Key) -> &'l Cell<u32> {
    let [clear, set] = &fork.children;
    if key.bit(fork.bit.get()) == 0 { clear } else { set }
}

fn other_child<'l>(fork: &'l Link, key: &Key) -> &'l Cell<u32> {
    let [clear, set] = &fork.children;
    if key.bit(fork.bit.get()) == 0 { set } else { clear }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_scattered_over_all_buckets() {
        const LINES: u32 = 64;
        const BUCKETS: usize = (LINES * Line::BUCKETS) as usize;
        let keys: [fn(u64) -> Key; 4] = [
            |number| Key { tag: number, source: 0, pattern: 0 },
            |number| Key { tag: number << 32, source: 3, pattern: 1 },
            |number| Key { tag: 7, source: number, pattern: 1 },
            |number| Key { tag: number % 16, source: number / 16, pattern: 2 },
        ];
        for (key, seed) in keys.into_iter().zip(1..) {
            let index = Index::new(Table::leaked((0..LINES).map(|_| Line::new())), seed);
            let mut held = [0; BUCKETS];
            for number in 0..BUCKETS as u64 {
                held[index.bucket(&key(number)) as usize] += 1;
            }
            let most = held.into_iter().max();
            assert!(most < Some(10), "{most:?} keys in one bucket, with seed {seed}");
        }
    }
}
