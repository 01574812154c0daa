//! [`Index`]: from a key to the nodes which have it, oldest first.
//!
//! A hash table, whose buckets are radix trees. Nearly every bucket holds one key or none, and looking one up takes the same
//! few instructions however many there are. Where keys do collide, because many are there or because somebody has
//! chosen them, the tree tells them apart by the bits in which they differ: never more steps than a key has bits, and about
//! as many as the logarithm of the keys that collide.
//!
//! Everything lies in the nodes themselves ([`Link`]). Nodes of the same key are a ring in the order in which they
//! came; the first is the leaf that the tree knows. A tree of `n` leaves has `n - 1` forks, and each node has room for one: that of a
//! leaf lies above the leaf, but one leaf of a tree has none. When a leaf goes, the fork above it goes, too; if that was
//! another's, and the leaf's own is still there, the contents move.

use core::cell::Cell;

use super::table::Table;
use crate::random::Random;

/// No node. A node's number is smaller.
pub(crate) const NONE: u32 = u32::MAX >> 1;

/// Marks the number of a node where its fork is meant, and not the node as a leaf.
const FORK: u32 = 1 << 31;

const fn is_fork(at: u32) -> bool {
    at & FORK != 0
}

/// What nodes are looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) tag: u64,
    pub(crate) source: u64,
    /// Of which way of looking it is the key.
    pub(crate) pattern: u64,
}

impl Key {
    /// One bit, counted from the most significant of the tag.
    #[inline]
    fn bit(&self, number: u32) -> usize {
        let word = match number / u64::BITS {
            0 => self.tag,
            1 => self.source,
            _ => self.pattern,
        };
        (word >> (u64::BITS - 1 - number % u64::BITS) & 1) as usize
    }

    /// The first bit in which two keys differ.
    fn first_difference(&self, other: &Key) -> Option<u32> {
        let words = [self.tag ^ other.tag, self.source ^ other.source, self.pattern ^ other.pattern];
        let (at, word) = (0u32..).zip(words).find(|(_, word)| *word != 0)?;
        Some(at * u64::BITS + word.leading_zeros())
    }
}

/// A node's part in an index.
#[derive(Debug)]
pub(crate) struct Link {
    /// The next that came with the same key; of the last one, the first.
    next: Cell<u32>,
    prev: Cell<u32>,
    /// The fork: where keys go in which the bit is clear, and set.
    children: [Cell<u32>; 2],
    /// The bit that the fork looks at; or one of the two below.
    bit: Cell<u32>,
    /// The bucket that the node is in.
    bucket: Cell<u32>,
}

/// In place of a bit: the node is a leaf, and its fork is not in use.
const NO_FORK: u32 = u32::MAX;
/// In place of a bit: the node is no leaf.
const FOLLOWER: u32 = u32::MAX - 1;

impl Link {
    pub(crate) const fn new() -> Self {
        let [a, b, c, d] = [const { Cell::new(NONE) }; 4];
        Link { next: a, prev: b, children: [c, d], bit: Cell::new(NO_FORK), bucket: Cell::new(0) }
    }

    /// The only one of its ring.
    #[inline]
    fn be_alone(&self, own: u32) {
        self.next.set(own);
        self.prev.set(own);
    }
}

/// Where the nodes of an index are, and what they stand for.
pub(crate) trait Nodes {
    fn link(&self, node: u32) -> &Link;
    /// The same as long as the node is in the index.
    fn key(&self, node: u32) -> Key;
}

/// Nodes in the order in which they came, without keys. It takes the same steps whether there are others or not.
#[derive(Debug)]
pub(crate) struct List {
    first: Cell<u32>,
    last: Cell<u32>,
}

impl List {
    pub(crate) const fn new() -> Self {
        List { first: Cell::new(NONE), last: Cell::new(NONE) }
    }

    /// The oldest node, or `NONE`.
    #[inline]
    pub(crate) fn first(&self) -> u32 {
        self.first.get()
    }

    #[inline]
    pub(crate) fn append(&self, nodes: &impl Nodes, node: u32) {
        let last = self.last.replace(node);
        let link = nodes.link(node);
        link.next.set(NONE);
        link.prev.set(last);
        let before = if last == NONE { &self.first } else { &nodes.link(last).next };
        before.set(node);
    }

    #[inline]
    pub(crate) fn remove(&self, nodes: &impl Nodes, node: u32) {
        let link = nodes.link(node);
        let (next, prev) = (link.next.get(), link.prev.get());
        let before = if prev == NONE { &self.first } else { &nodes.link(prev).next };
        before.set(next);
        let after = if next == NONE { &self.last } else { &nodes.link(next).prev };
        after.set(prev);
    }

    /// The node that came after this one, or `NONE`.
    #[inline]
    pub(crate) fn after(nodes: &impl Nodes, node: u32) -> u32 {
        nodes.link(node).next.get()
    }
}

/// Puts a node at the end of the ring of `first`.
#[inline]
fn follow(nodes: &impl Nodes, first: u32, node: u32) {
    let head = nodes.link(first);
    let last = head.prev.replace(node);
    nodes.link(last).next.set(node);
    let link = nodes.link(node);
    link.next.set(first);
    link.prev.set(last);
}

/// Takes a node out of its ring; returns the next one, or `NONE` if it was alone.
#[inline]
fn leave(nodes: &impl Nodes, node: u32) -> u32 {
    let link = nodes.link(node);
    let (next, prev) = (link.next.get(), link.prev.get());
    if next == node {
        return NONE;
    }
    nodes.link(next).prev.set(prev);
    nodes.link(prev).next.set(next);
    next
}

/// Buckets that come into the cache together.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Line([Cell<u32>; Line::BUCKETS as usize]);

impl Line {
    pub(crate) const BUCKETS: u32 = 16;

    pub(crate) const fn new() -> Self {
        Line([const { Cell::new(NONE) }; Self::BUCKETS as usize])
    }
}

/// The index, over buckets that somebody else stores.
#[derive(Debug)]
pub(crate) struct Index {
    lines: Table<Line>,
    /// How far the hash is shifted to number a line.
    shift: u32,
    /// Odd, and unknown to a peer that does not know the seed.
    multipliers: [u64; 4],
}

impl Index {
    /// An index over a power of two of lines of empty buckets, two at least.
    pub(crate) fn new(lines: Table<Line>, seed: u64) -> Self {
        debug_assert!(lines.len().is_power_of_two() && lines.len() > 1, "{} lines", lines.len());
        // Any two seeds have nothing in common.
        let mut random = Random::new(seed);
        let multipliers = [(); 4].map(|()| random.next() | 1);
        Index { lines, shift: u64::BITS - lines.len().trailing_zeros(), multipliers }
    }

    /// A sum of products, folded and multiplied again: whatever pattern there is in tags, sources and masks, keys are scattered as
    /// by chance, for a peer that does not know the multipliers. But for the lowest bits of the tag: tags in a row are in one line, so
    /// that a program that uses one after the other finds it at hand.
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

    /// The oldest node of this key, or `NONE`.
    #[inline]
    pub(crate) fn find(&self, nodes: &impl Nodes, key: Key) -> u32 {
        let mut at = self.at(self.bucket(&key)).get();
        while is_fork(at) {
            let fork = nodes.link(at & !FORK);
            at = child(fork, &key).get();
        }
        if at != NONE && nodes.key(at) == key { at } else { NONE }
    }

    /// Puts a node in, which is the youngest of its key: that which `nodes` have for it.
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
        // Forks look at later bits the deeper they are.
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

    /// Takes a node out, however old it is.
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

    /// Takes a leaf out of a tree with forks; `next`, if there is one, takes its place.
    #[inline(never)]
    fn remove_from(bucket: &Cell<u32>, nodes: &impl Nodes, (node, next): (u32, u32)) {
        let (link, key) = (nodes.link(node), &nodes.key(node));
        // Where the leaf is, the fork above it, and the leaf's own.
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
            // The fork above has one side left, which takes its place.
            let Some((above, number, fork)) = above else { return };
            above.set(other_child(fork, key).get());
            fork.bit.set(NO_FORK);
            number
        } else {
            place.set(next);
            nodes.link(next).bit.set(NO_FORK);
            next
        };
        // The leaf's own fork, if that is still there, goes to the heir, which has none now.
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

/// Where a fork leads a key.
#[inline]
fn child<'l>(fork: &'l Link, key: &Key) -> &'l Cell<u32> {
    let [clear, set] = &fork.children;
    if key.bit(fork.bit.get()) == 0 { clear } else { set }
}

/// Where a fork leads others.
fn other_child<'l>(fork: &'l Link, key: &Key) -> &'l Cell<u32> {
    let [clear, set] = &fork.children;
    if key.bit(fork.bit.get()) == 0 { set } else { clear }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the keys of a program have in common: one in each bucket on average, and not many in any.
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
