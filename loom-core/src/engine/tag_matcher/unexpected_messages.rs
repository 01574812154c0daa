//! [`UnexpectedMessages`]: messages that wait for a receive. A receive walks a list of at most
//! [`FEW`].
//!
//! A receive compares the tag bits that it does not ignore, with or without the source. Each such
//! *view* has an index over all messages.

use core::cell::Cell;

use super::index::{Index, Key, Link, Nodes};
use super::table::Table;
use super::{Envelope, Want};
use crate::util::index_list::{Linked, Links, List, NONE};
use crate::vocabulary::{FabricAddr, Tag};

/// An index of messages costs more than one of receives.
const FEW: u32 = 8;

#[derive(Debug)]
pub(crate) struct Waiting {
    tag: Cell<u64>,
    source: Cell<u64>,
    links: Links,
}

impl Waiting {
    pub(crate) const fn new() -> Self {
        Waiting { tag: Cell::new(0), source: Cell::new(0), links: Links::new(NONE) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    ignore: u64,
    directed: bool,
    /// Number of lookups before the last one through this view.
    last_used: u64,
}

impl View {
    const fn new(ignore: u64, directed: bool) -> Self {
        View { ignore, directed, last_used: 0 }
    }

    const OF_TAGS: [View; 2] = [View::new(0, false), View::new(0, true)];
    /// Everything from one source: the only criterion without tags.
    const WITHOUT_TAGS: [View; 1] = [View::new(u64::MAX, true)];

    #[inline]
    fn key(&self, tag: u64, source: u64, number: u32) -> Key {
        let source = if self.directed { source } else { FabricAddr::UNSPEC.0 };
        Key { tag: tag & !self.ignore, source, pattern: number.into() }
    }
}

pub(crate) const fn views_shift(masks: u32) -> u32 {
    const { assert!(View::OF_TAGS.len() == 2, "besides the masks, of which there is one at least") };
    (2 + if masks == 0 { 1 } else { masks }).next_power_of_two().trailing_zeros()
}

impl Linked for Table<Waiting> {
    #[inline]
    fn links(&self, index: u32) -> Option<&Links> {
        (index != NONE).then(|| &self.at(index).links)
    }
}

/// Waiting messages, each in a slot that the user chooses, in memory that the user keeps.
#[derive(Debug)]
pub(crate) struct UnexpectedMessages {
    places: Table<Waiting>,
    /// One for each slot and view.
    links: Table<Link>,
    views: Table<Cell<View>>,
    views_shift: u32,
    index: Index,
    all: List,
    waiting: Cell<u32>,
    indexed: Cell<bool>,
    /// Number of views, and of permanent ones.
    live: Cell<u32>,
    lasting: u32,
    looks: Cell<u64>,
}

impl Nodes for UnexpectedMessages {
    #[inline]
    fn link(&self, node: u32) -> &Link {
        self.links.at(node)
    }

    #[inline]
    fn key(&self, node: u32) -> Key {
        let number = node & ((1 << self.views_shift) - 1);
        let message = self.places.at(node >> self.views_shift);
        self.views.at(number).get().key(message.tag.get(), message.source.get(), number)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) places: Table<Waiting>,
    pub(crate) links: Table<Link>,
    pub(crate) views: Table<Cell<View>>,
}

impl UnexpectedMessages {
    pub(crate) const NO_VIEW: View = View::new(0, false);

    /// Without tags, lookups are by source only.
    pub(crate) fn new(memory: Memory, index: Index, tagged: bool) -> Self {
        let Memory { places, links, views } = memory;
        let lasting = if tagged { &View::OF_TAGS[..] } else { &View::WITHOUT_TAGS[..] };
        let mut live = 0;
        for view in lasting {
            views.at(live).set(*view);
            live += 1;
        }
        UnexpectedMessages {
            places,
            links,
            views,
            views_shift: views.len().trailing_zeros(),
            index,
            all: List::new(),
            waiting: Cell::new(0),
            indexed: Cell::new(false),
            live: Cell::new(live),
            lasting: live,
            looks: Cell::new(0),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.first().is_none()
    }

    #[inline(always)]
    pub(crate) fn keep(&self, place: u32, envelope: Envelope) {
        let message = self.places.at(place);
        message.tag.set(envelope.tag.0);
        message.source.set(envelope.source.0);
        self.all.push(&self.places, place);
        self.waiting.set(self.waiting.get() + 1);
        if self.indexed.get() {
            self.append_to_index(place);
        } else if self.waiting.get() > FEW {
            self.start_index();
        }
    }

    #[inline(always)]
    pub(crate) fn remove(&self, place: u32) {
        self.all.remove(&self.places, place);
        self.waiting.set(self.waiting.get() - 1);
        if self.indexed.get() {
            self.remove_from_index(place);
            if self.waiting.get() <= FEW / 4 {
                self.stop_index();
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn start_index(&self) {
        self.indexed.set(true);
        self.each(|place| self.append_to_index(place));
    }

    #[cold]
    #[inline(never)]
    fn stop_index(&self) {
        self.indexed.set(false);
        self.each(|place| self.remove_from_index(place));
    }

    #[inline]
    fn append_to_index(&self, place: u32) {
        let message = self.places.at(place);
        let first = place << self.views_shift;
        for number in 0..self.live.get() {
            let key = self.views.at(number).get().key(message.tag.get(), message.source.get(), number);
            self.index.append(self, first + number, key);
        }
    }

    #[inline]
    fn remove_from_index(&self, place: u32) {
        let first = place << self.views_shift;
        for view in 0..self.live.get() {
            self.index.remove(self, first + view);
        }
    }

    #[inline(always)]
    pub(crate) fn find(&self, want: &Want) -> Option<u32> {
        if self.indexed.get() && !want.is_everything() { self.find_indexed(want) } else { self.walk(want) }
    }

    #[inline]
    fn walk(&self, want: &Want) -> Option<u32> {
        let mut at = self.all.first();
        while let Some(place) = at
            && !want.accepts(&self.envelope(place))
        {
            at = self.after(place);
        }
        at
    }

    #[inline]
    fn find_indexed(&self, want: &Want) -> Option<u32> {
        let number = self.view_of(want);
        let key = self.views.at(number).get().key(want.tag.tag.0, want.source.0, number);
        match self.index.find(self, key) {
            NONE => None,
            node => Some(node >> self.views_shift),
        }
    }

    #[inline]
    fn view_of(&self, want: &Want) -> u32 {
        for number in 0..self.live.get() {
            let view = self.views.at(number);
            let seen = view.get();
            if seen.ignore == want.tag.ignore && seen.directed == want.is_directed() {
                if number >= self.lasting {
                    view.set(View { last_used: self.looks.replace(self.looks.get() + 1), ..seen });
                }
                return number;
            }
        }
        self.open_view(want)
    }

    #[cold]
    #[inline(never)]
    fn open_view(&self, want: &Want) -> u32 {
        let live = self.live.get();
        let number = if live < self.views.len() {
            self.live.set(live + 1);
            live
        } else {
            let oldest = (self.lasting..live).min_by_key(|number| {
                let view = self.views.at(*number).get();
                if view.ignore == u64::MAX { u64::MAX } else { view.last_used }
            });
            let oldest = oldest.unwrap_or(self.lasting);
            self.each(|place| self.index.remove(self, (place << self.views_shift) + oldest));
            oldest
        };
        let last_used = self.looks.replace(self.looks.get() + 1);
        self.views.at(number).set(View { ignore: want.tag.ignore, directed: want.is_directed(), last_used });
        self.each(|place| {
            let node = (place << self.views_shift) + number;
            self.index.append(self, node, self.key(node));
        });
        number
    }

    fn each(&self, mut what: impl FnMut(u32)) {
        let mut next = self.first();
        while let Some(place) = next {
            what(place);
            next = self.after(place);
        }
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.all.first()
    }

    pub(crate) fn after(&self, place: u32) -> Option<u32> {
        self.all.after(&self.places, place)
    }

    #[inline]
    pub(crate) fn envelope(&self, place: u32) -> Envelope {
        let message = self.places.at(place);
        Envelope { tag: Tag(message.tag.get()), source: FabricAddr(message.source.get()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::Line;
    use super::*;
    use crate::vocabulary::TagMatch;

    #[test]
    fn mask_that_was_not_used_for_longest_makes_room() {
        let shift = views_shift(2);
        let memory = Memory {
            places: Table::leaked((0..=FEW).map(|_| Waiting::new())),
            links: Table::leaked((0..(FEW + 1) << shift).map(|_| Link::new())),
            views: Table::leaked((0..1 << shift).map(|_| Cell::new(UnexpectedMessages::NO_VIEW))),
        };
        let index = Index::new(Table::leaked([Line::new(), Line::new()]), 0);
        let messages = UnexpectedMessages::new(memory, index, true);
        for place in 0..=FEW {
            messages.keep(place, Envelope { tag: Tag(5), source: FabricAddr(1) });
        }
        let matches_with = |ignore: u64| {
            let tag = TagMatch { tag: Tag(5 & !ignore), ignore };
            assert_eq!(messages.find(&Want { tag, source: FabricAddr::UNSPEC }), Some(0));
        };
        let kept =
            || [1, 2, 4].map(|ignore| (0..messages.live.get()).any(|at| messages.views.at(at).get().ignore == ignore));
        matches_with(1);
        matches_with(2);
        matches_with(1);
        assert_eq!(kept(), [true, true, false]);
        matches_with(4);
        assert_eq!(kept(), [true, false, true], "the first one was used again");
        matches_with(2);
        assert_eq!(kept(), [false, true, true]);
    }
}
