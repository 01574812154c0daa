//! [`PostedReceives`]: the receives that wait for a message.
//!
//! Receives that ignore the same bits, with or without a source, form a *pattern*. A message takes
//! one lookup for each pattern, and the oldest result.

use core::cell::Cell;

use super::index::{Index, Key, Link, Nodes, follow, leave};
use super::table::Table;
use super::walk::Walk;
use super::{Envelope, Want};
use crate::util::index_list::{Linked, Links, List, NONE};
use crate::vocabulary::{FabricAddr, Tag, TagMatch};

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Posted {
    // Word by word: a two-word store would wait for the stores of each.
    tag: Cell<u64>,
    ignore: Cell<u64>,
    source: Cell<u64>,
    age: Cell<u64>,
    link: Link,
    /// Pattern in the index, or one of the constants below.
    pattern: Cell<u32>,
}

const _: () = assert!(size_of::<Posted>() == 64, "a posted receive is one cache line");

const EVERYTHING: u32 = u32::MAX;
/// Pattern of the receive in the first slot of the walk. Those of later slots follow.
const WALKED: u32 = EVERYTHING - Walk::SLOTS;
const ALIKE: u32 = WALKED - 1;

impl Posted {
    pub(crate) const fn new() -> Self {
        let [tag, ignore, source, age] = [const { Cell::new(0) }; 4];
        Posted { tag, ignore, source, age, link: Link::new(), pattern: Cell::new(EVERYTHING) }
    }

    #[inline(always)]
    fn set(&self, key: Key) {
        self.tag.set(key.tag);
        self.ignore.set(key.pattern);
        self.source.set(key.source);
    }
}

#[derive(Debug)]
pub(crate) struct Pattern {
    ignore: Cell<u64>,
    directed: Cell<bool>,
    receives: Cell<u32>,
    /// Next pattern that may have receives, or next free pattern.
    next: Cell<u32>,
}

impl Pattern {
    pub(crate) const fn before(next: u32, patterns: u32) -> Self {
        let next = if next == patterns { NONE } else { next };
        Pattern { ignore: Cell::new(0), directed: Cell::new(false), receives: Cell::new(0), next: Cell::new(next) }
    }

    #[inline]
    fn is_of(&self, ignore: u64, directed: bool) -> bool {
        self.ignore.get() == ignore && self.directed.get() == directed
    }

    #[inline]
    fn key(&self, envelope: &Envelope) -> Key {
        let ignore = self.ignore.get();
        let source = if self.directed.get() { envelope.source } else { FabricAddr::UNSPEC };
        Key { tag: envelope.tag.0 & !ignore, source: source.0, pattern: ignore }
    }
}

#[inline(always)]
fn key_of(Want { tag, source }: Want) -> Key {
    Key { tag: tag.tag.0 & !tag.ignore, source: source.0, pattern: tag.ignore }
}

impl Nodes for Table<Posted> {
    #[inline]
    fn link(&self, node: u32) -> &Link {
        &self.at(node).link
    }

    #[inline]
    fn key(&self, node: u32) -> Key {
        let posted = self.at(node);
        Key { tag: posted.tag.get(), source: posted.source.get(), pattern: posted.ignore.get() }
    }
}

impl Linked for Table<Posted> {
    #[inline]
    fn links(&self, index: u32) -> Option<&Links> {
        (index != NONE).then(|| &self.at(index).link.ring)
    }
}

#[derive(Debug)]
pub(crate) struct PostedReceives {
    places: Table<Posted>,
    everything: List,
    /// All others while they are few.
    walk: Walk,
    /// Oldest of receives of one key.
    alike: Cell<u32>,
    index: Index,
    /// Number of receives in the index and `alike`: all others, or 0.
    indexed: Cell<u32>,
    patterns: Table<Pattern>,
    /// Patterns that have, or had, receives.
    first_pattern: Cell<u32>,
    free_pattern: Cell<u32>,
    posted_ever: Cell<u64>,
}

impl PostedReceives {
    pub(crate) fn new(places: Table<Posted>, patterns: Table<Pattern>, index: Index) -> Self {
        PostedReceives {
            places,
            everything: List::new(),
            walk: Walk::new(),
            alike: Cell::new(NONE),
            index,
            indexed: Cell::new(0),
            patterns,
            first_pattern: Cell::new(NONE),
            free_pattern: Cell::new(0),
            posted_ever: Cell::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn post(&self, place: u32, want: Want) {
        let posted = self.places.at(place);
        posted.age.set(self.posted_ever.replace(self.posted_ever.get() + 1));
        posted.set(key_of(want));
        if want.is_everything() {
            posted.pattern.set(EVERYTHING);
            self.everything.push(&self.places, place);
        } else if self.indexed.get() != 0 {
            self.append_to_index(place);
        } else if let Some(slot) = self.walk.append(place) {
            posted.pattern.set(WALKED + slot);
        } else {
            self.post_behind_walk(place);
        }
    }

    #[inline(never)]
    fn post_behind_walk(&self, place: u32) {
        let few = self.walk.len() <= Walk::FEW;
        let key = self.places.key(place);
        if !few && self.walk.nodes().all(|other| self.places.key(other) == key) {
            return self.walk.drain().chain([place]).for_each(|place| self.append_alike(place));
        }
        for other in self.walk.drain() {
            self.place_again(other, few);
        }
        self.place_again(place, few);
    }

    #[inline]
    fn place_again(&self, place: u32, few: bool) {
        match if few { self.walk.append(place) } else { None } {
            Some(slot) => self.places.at(place).pattern.set(WALKED + slot),
            None => self.append_to_index(place),
        }
    }

    #[inline]
    fn append_alike(&self, place: u32) {
        self.places.at(place).pattern.set(ALIKE);
        self.indexed.set(self.indexed.get() + 1);
        match self.alike.get() {
            NONE => {
                self.places.link(place).be_alone(place);
                self.alike.set(place);
            }
            first => follow(&self.places, first, place),
        }
    }

    #[inline(never)]
    fn append_to_index(&self, place: u32) {
        let key = self.places.key(place);
        let first = self.alike.get();
        if first != NONE && self.places.key(first) == key {
            return self.append_alike(place);
        }
        let number = self.pattern_of(key.pattern, key.source != FabricAddr::UNSPEC.0);
        let receives = &self.patterns.at(number).receives;
        receives.set(receives.get() + 1);
        self.places.at(place).pattern.set(number);
        self.indexed.set(self.indexed.get() + 1);
        self.index.append(&self.places, place, key);
    }

    #[inline]
    fn pattern_of(&self, ignore: u64, directed: bool) -> u32 {
        let first = self.first_pattern.get();
        if first != NONE && self.patterns.at(first).is_of(ignore, directed) {
            first
        } else {
            self.search_pattern(ignore, directed)
        }
    }

    #[inline(never)]
    fn search_pattern(&self, ignore: u64, directed: bool) -> u32 {
        let mut at = &self.first_pattern;
        while let Some(pattern) = self.next_pattern(at) {
            if pattern.is_of(ignore, directed) {
                return at.get();
            }
            at = &pattern.next;
        }
        let number = self.free_pattern.get();
        let pattern = self.patterns.at(number);
        self.free_pattern.set(pattern.next.replace(NONE));
        pattern.ignore.set(ignore);
        pattern.directed.set(directed);
        at.set(number);
        number
    }

    #[inline]
    fn next_pattern(&self, link: &Cell<u32>) -> Option<&Pattern> {
        loop {
            let number = link.get();
            if number == NONE {
                return None;
            }
            let pattern = self.patterns.at(number);
            if pattern.receives.get() > 0 {
                return Some(pattern);
            }
            link.set(pattern.next.replace(self.free_pattern.replace(number)));
        }
    }

    #[inline]
    pub(crate) fn find(&self, envelope: Envelope) -> Option<u32> {
        let oldest = if self.indexed.get() == 0 { self.find_walking(envelope) } else { self.find_indexed(envelope) };
        (oldest != NONE).then_some(oldest)
    }

    #[inline]
    fn find_walking(&self, envelope: Envelope) -> u32 {
        let everything = self.everything.first().unwrap_or(NONE);
        for place in self.walk.nodes() {
            if self.want(place).accepts(&envelope) {
                return self.older(everything, place);
            }
        }
        everything
    }

    #[inline(never)]
    fn find_indexed(&self, envelope: Envelope) -> u32 {
        let mut oldest = self.everything.first().unwrap_or(NONE);
        let first = self.alike.get();
        if first != NONE && self.want(first).accepts(&envelope) {
            oldest = self.older(oldest, first);
        }
        let mut link = &self.first_pattern;
        while let Some(pattern) = self.next_pattern(link) {
            oldest = self.older(oldest, self.index.find(&self.places, pattern.key(&envelope)));
            link = &pattern.next;
        }
        oldest
    }

    #[inline]
    fn older(&self, one: u32, other: u32) -> u32 {
        let other_is = other != NONE && (one == NONE || self.places.at(other).age < self.places.at(one).age);
        if other_is { other } else { one }
    }

    #[inline(always)]
    pub(crate) fn remove(&self, place: u32) {
        match self.places.at(place).pattern.get() {
            EVERYTHING => self.everything.remove(&self.places, place),
            slot @ WALKED.. => self.walk.remove(slot - WALKED),
            number => self.remove_indexed(place, number),
        }
    }

    #[inline(never)]
    fn remove_indexed(&self, place: u32, pattern: u32) {
        self.indexed.set(self.indexed.get() - 1);
        if pattern == ALIKE {
            let next = leave(&self.places, place);
            if self.alike.get() == place {
                self.alike.set(next);
            }
            return;
        }
        let receives = &self.patterns.at(pattern).receives;
        receives.set(receives.get() - 1);
        self.index.remove(&self.places, place);
    }

    #[inline]
    pub(crate) fn want(&self, place: u32) -> Want {
        let posted = self.places.at(place);
        let tag = TagMatch { tag: Tag(posted.tag.get()), ignore: posted.ignore.get() };
        Want { tag, source: FabricAddr(posted.source.get()) }
    }

    pub(crate) fn age(&self, place: u32) -> u64 {
        self.places.at(place).age.get()
    }
}
