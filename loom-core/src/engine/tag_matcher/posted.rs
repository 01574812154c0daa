//! [`PostedReceives`]: the receives that wait for a message.
//!
//! Receives that ignore the same bits, and all of which either name a source or do not, make a *pattern*. All of them are in
//! one index, by what they compare. A message looks once for each pattern that has receives, and takes the oldest of what it
//! finds.

use core::cell::Cell;

use super::index::{Index, Key, Link, List, NONE, Nodes};
use super::table::Table;
use super::{Envelope, Want};
use crate::vocabulary::{FabricAddr, Tag, TagMatch};

/// A place for one receive.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Posted {
    // What it wants, with the bits of the tag clear that it ignores. Word by word: a store of two words at once would wait for the
    // stores of each.
    tag: Cell<u64>,
    ignore: Cell<u64>,
    source: Cell<u64>,
    /// How many were posted before.
    age: Cell<u64>,
    link: Link,
    pattern: Cell<u32>,
}

const _: () = assert!(size_of::<Posted>() == 64, "a posted receive is one cache line");

/// In place of a pattern: of a receive that accepts everything.
const EVERYTHING: u32 = u32::MAX;

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

/// A way to look for receives.
#[derive(Debug)]
pub(crate) struct Pattern {
    ignore: Cell<u64>,
    directed: Cell<bool>,
    /// How many are posted.
    receives: Cell<u32>,
    /// The next pattern that may have receives, or the next one that is free.
    next: Cell<u32>,
}

impl Pattern {
    /// A free one, before another, if there are so many.
    pub(crate) const fn before(next: u32, patterns: u32) -> Self {
        let next = if next == patterns { NONE } else { next };
        Pattern { ignore: Cell::new(0), directed: Cell::new(false), receives: Cell::new(0), next: Cell::new(next) }
    }

    #[inline]
    fn is_of(&self, ignore: u64, directed: bool) -> bool {
        self.ignore.get() == ignore && self.directed.get() == directed
    }

    /// What receives of this pattern have for a key that accept such a message.
    #[inline]
    fn key(&self, envelope: &Envelope) -> Key {
        let ignore = self.ignore.get();
        let source = if self.directed.get() { envelope.source } else { FabricAddr::UNSPEC };
        Key { tag: envelope.tag.0 & !ignore, source: source.0, pattern: ignore }
    }
}

/// What a receive has for a key.
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

/// Receives that wait, each in a place that its user has chosen, in memory that its user keeps.
#[derive(Debug)]
pub(crate) struct PostedReceives {
    places: Table<Posted>,
    index: Index,
    /// Those that accept every message from everybody.
    everything: List,
    patterns: Table<Pattern>,
    /// Patterns that have receives, and some that had.
    first_pattern: Cell<u32>,
    free_pattern: Cell<u32>,
    posted_ever: Cell<u64>,
}

impl PostedReceives {
    /// Nothing posted, in these places. `patterns` are as many as there may be patterns at a time, each of them free and linked
    /// to the next.
    pub(crate) fn new(places: Table<Posted>, patterns: Table<Pattern>, index: Index) -> Self {
        PostedReceives {
            places,
            index,
            everything: List::new(),
            patterns,
            first_pattern: Cell::new(NONE),
            free_pattern: Cell::new(0),
            posted_ever: Cell::new(0),
        }
    }

    /// Posts a receive, in a place that is free.
    #[inline(always)]
    pub(crate) fn post(&self, place: u32, want: Want) {
        let posted = self.places.at(place);
        posted.age.set(self.posted_ever.replace(self.posted_ever.get() + 1));
        let key = key_of(want);
        posted.set(key);
        if want.is_everything() {
            posted.pattern.set(EVERYTHING);
            self.everything.append(&self.places, place);
        } else {
            let number = self.pattern_of(want.tag.ignore, want.is_directed());
            let receives = &self.patterns.at(number).receives;
            receives.set(receives.get() + 1);
            posted.pattern.set(number);
            self.index.append(&self.places, place, key);
        }
    }

    /// The pattern of a receive, which is among those that are looked at afterwards.
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
        // Each of those that are looked at has a receive now, and there is one pattern for each receive at least.
        let number = self.free_pattern.get();
        let pattern = self.patterns.at(number);
        self.free_pattern.set(pattern.next.replace(NONE));
        pattern.ignore.set(ignore);
        pattern.directed.set(directed);
        at.set(number);
        number
    }

    /// The pattern that a link leads to. On the way, those are freed that have no receives any more.
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

    /// The oldest receive that accepts a message. It stays posted.
    #[inline]
    pub(crate) fn find(&self, envelope: &Envelope) -> Option<u32> {
        let mut oldest = self.everything.first();
        let mut link = &self.first_pattern;
        while let Some(pattern) = self.next_pattern(link) {
            let found = self.index.find(&self.places, pattern.key(envelope));
            if found != NONE && (oldest == NONE || self.places.at(found).age < self.places.at(oldest).age) {
                oldest = found;
            }
            link = &pattern.next;
        }
        (oldest != NONE).then_some(oldest)
    }

    /// Takes a posted receive out.
    #[inline]
    pub(crate) fn remove(&self, place: u32) {
        match self.places.at(place).pattern.get() {
            EVERYTHING => self.everything.remove(&self.places, place),
            number => {
                let receives = &self.patterns.at(number).receives;
                receives.set(receives.get() - 1);
                self.index.remove(&self.places, place);
            }
        }
    }

    /// What a posted receive wants. The bits of the tag that it ignores are clear.
    pub(crate) fn want(&self, place: u32) -> Want {
        let posted = self.places.at(place);
        let tag = TagMatch { tag: Tag(posted.tag.get()), ignore: posted.ignore.get() };
        Want { tag, source: FabricAddr(posted.source.get()) }
    }

    /// How many were posted before this one was.
    pub(crate) fn age(&self, place: u32) -> u64 {
        self.places.at(place).age.get()
    }
}
