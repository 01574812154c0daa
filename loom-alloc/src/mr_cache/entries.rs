//! [`Entries`]: the regions of a cache, without monitor and allocator types.
//!
//! # Invariants
//!
//! 1. An entry is *free* (no region, on the free list), *found* (in the order, with rights), or
//!    *hidden* (not in the order, no rights, with users).
//! 2. Found entries do not overlap.
//! 3. Entries without users are free, or found and on the idle list, the last used first.
//! 4. The region is open unless the entry is free. An entry with users is not freed, so its number
//!    is valid.
//!
//! The memo holds the entry that last contained a page. It may be stale: range and rights are
//! checked.

#![allow(unsafe_code, reason = "arrays in the cache's block")]

use core::alloc::{Layout, LayoutError};
use core::cell::{Cell, RefCell};
use core::ops::Range;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::Descriptor;
use loom_core::mr::LocalMr;
use loom_core::transport::Transport;

use super::address_index::Ordered;
use super::array::Array;
use super::attr::{MrCacheAttr, MrCacheStats};
use crate::block::Block;

const NIL: u32 = u32::MAX;

/// Without bits, an entry is not found.
pub(super) type Rights = u8;
pub(super) const READ: Rights = 1;
pub(super) const WRITE: Rights = 2;

#[repr(align(64))]
struct CacheEntry {
    start: Cell<usize>,
    end: Cell<usize>,
    descriptor: Cell<Option<Descriptor>>,
    users: Cell<u32>,
    rights: Cell<Rights>,
    next: Cell<u32>,
    previous: Cell<u32>,
}

pub(super) struct Places {
    pub(super) layout: Layout,
    memo: usize,
    regions: usize,
    starts: usize,
    order: usize,
    bits: u32,
}

impl Places {
    pub(super) fn of<'d, T: Transport + 'd>(attr: &MrCacheAttr) -> Result<Self, LayoutError> {
        // Fewer than one random page in five shares its slot.
        let bits = (u64::from(attr.capacity) * 4).next_power_of_two().trailing_zeros();
        let capacity = attr.capacity as usize;
        let layout = Layout::array::<CacheEntry>(capacity)?;
        let (layout, memo) = layout.extend(Layout::array::<Cell<u32>>(1 << bits)?)?;
        let (layout, regions) = layout.extend(Layout::array::<Cell<Option<LocalMr<'d, T>>>>(capacity)?)?;
        let (layout, starts) = layout.extend(Layout::array::<usize>(capacity)?)?;
        let (layout, order) = layout.extend(Layout::array::<u32>(capacity)?)?;
        Ok(Places { layout, memo, regions, starts, order, bits })
    }
}

pub(super) struct Entries<'d, T: Transport> {
    entries: Array<CacheEntry>,
    memo: Array<Cell<u32>>,
    regions: Array<Cell<Option<LocalMr<'d, T>>>>,
    order: RefCell<Ordered>,
    free: Cell<u32>,
    first_idle: Cell<u32>,
    last_idle: Cell<u32>,
    page_bits: u32,
    memo_shift: u32,
    in_use: Cell<u32>,
    bytes: Cell<usize>,
    pub(super) hits: Cell<u64>,
    pub(super) misses: Cell<u64>,
    pub(super) merges: Cell<u64>,
    pub(super) uncached: Cell<u64>,
    evictions: Cell<u64>,
    invalidations: Cell<u64>,
    leaked: Cell<u64>,
}

pub(super) fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

impl<'d, T: Transport> Entries<'d, T> {
    /// # Safety
    /// The block has the layout of `places`, computed for `attr`, is otherwise unused, and outlives
    /// the entries.
    pub(super) unsafe fn new<A: Allocator>(block: &Block<A>, places: &Places, attr: &MrCacheAttr) -> Self {
        let capacity = attr.capacity as usize;
        let entry = |at: usize| CacheEntry {
            start: Cell::new(0),
            end: Cell::new(0),
            descriptor: Cell::new(None),
            users: Cell::new(0),
            rights: Cell::new(0),
            next: Cell::new(u32::try_from(at + 1).ok().filter(|next| *next < attr.capacity).unwrap_or(NIL)),
            previous: Cell::new(NIL),
        };
        // SAFETY: the caller guarantees the block's layout.
        let entries = unsafe { Array::new(block, 0, capacity, entry) };
        // SAFETY: the caller guarantees the block's layout.
        let memo = unsafe { Array::new(block, places.memo, 1 << places.bits, |_| Cell::new(0)) };
        // SAFETY: the caller guarantees the block's layout.
        let regions = unsafe { Array::new(block, places.regions, capacity, |_| Cell::new(None)) };
        // SAFETY: the caller guarantees the block's layout.
        let starts = unsafe { Array::new(block, places.starts, capacity, |_| 0) };
        // SAFETY: the caller guarantees the block's layout.
        let order = unsafe { Array::new(block, places.order, capacity, |_| 0) };
        Entries {
            entries,
            memo,
            regions,
            order: RefCell::new(Ordered::new(starts, order)),
            free: Cell::new(0),
            first_idle: Cell::new(NIL),
            last_idle: Cell::new(NIL),
            page_bits: attr.page_size.trailing_zeros(),
            memo_shift: u64::BITS - places.bits,
            in_use: Cell::new(0),
            bytes: Cell::new(0),
            hits: Cell::new(0),
            misses: Cell::new(0),
            merges: Cell::new(0),
            uncached: Cell::new(0),
            evictions: Cell::new(0),
            invalidations: Cell::new(0),
            leaked: Cell::new(0),
        }
    }

    #[inline]
    fn entry(&self, index: u32) -> &CacheEntry {
        &self.entries[index as usize]
    }

    #[inline]
    fn has(&self, index: u32, start: usize, end: usize, rights: Rights) -> bool {
        let entry = self.entry(index);
        entry.start.get() <= start && end <= entry.end.get() && entry.rights.get() & rights == rights
    }

    #[inline]
    pub(super) fn find(&self, start: usize, end: usize, rights: Rights) -> Option<u32> {
        // One multiplication would map pages at some power-of-two steps to few slots.
        let mixed = ((start >> self.page_bits) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.memo_shift;
        const { assert!(usize::BITS >= u64::BITS, "a place of the memo is a small number") };
        #[expect(clippy::cast_possible_truncation, reason = "a few bits")]
        let memo = &self.memo[hash as usize];
        let index = memo.get();
        if self.has(index, start, end, rights) {
            return Some(index);
        }
        let index = self.order.borrow().at_or_before(start)?;
        self.has(index, start, end, rights).then(|| {
            memo.set(index);
            index
        })
    }

    #[inline]
    pub(super) fn enter(&self, index: u32) -> bool {
        let users = &self.entry(index).users;
        let Some(more) = users.get().checked_add(1) else { return false };
        if more == 1 {
            self.take_from_idle(index);
            self.in_use.set(self.in_use.get() + 1);
        }
        users.set(more);
        true
    }

    #[inline]
    pub(super) fn leave(&self, index: u32) {
        let entry = self.entry(index);
        let fewer = entry.users.get() - 1;
        entry.users.set(fewer);
        if fewer == 0 {
            self.in_use.set(self.in_use.get() - 1);
            if entry.rights.get() == 0 {
                self.close(index);
            } else {
                self.put_to_idle(index);
            }
        }
    }

    #[inline]
    pub(super) fn descriptor(&self, index: u32) -> Option<Descriptor> {
        self.entry(index).descriptor.get()
    }

    #[inline]
    fn take_from_idle(&self, index: u32) {
        let entry = self.entry(index);
        let (previous, next) = (entry.previous.get(), entry.next.get());
        if previous == NIL {
            self.first_idle.set(next)
        } else {
            self.entry(previous).next.set(next)
        }
        if next == NIL { self.last_idle.set(previous) } else { self.entry(next).previous.set(previous) }
    }

    #[inline]
    fn put_to_idle(&self, index: u32) {
        let (entry, first) = (self.entry(index), self.first_idle.replace(index));
        entry.previous.set(NIL);
        entry.next.set(first);
        if first == NIL { self.last_idle.set(index) } else { self.entry(first).previous.set(index) }
    }

    pub(super) fn has_free(&self) -> bool {
        self.free.get() != NIL
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Adds a hidden region with one user.
    pub(super) fn open(&self, range: &Range<usize>, region: LocalMr<'d, T>) -> u32 {
        let index = self.free.get();
        let entry = self.entry(index);
        self.free.set(entry.next.get());
        entry.start.set(range.start);
        entry.end.set(range.end);
        entry.descriptor.set(Some(region.descriptor()));
        entry.users.set(1);
        self.in_use.set(self.in_use.get() + 1);
        self.bytes.set(self.bytes.get() + range.len());
        self.regions[index as usize].set(Some(region));
        index
    }

    /// The entry overlaps no found entry.
    pub(super) fn show(&self, index: u32, rights: Rights) {
        let entry = self.entry(index);
        entry.rights.set(rights);
        self.order.borrow_mut().insert(entry.start.get(), index);
    }

    fn close(&self, index: u32) {
        let entry = self.entry(index);
        entry.descriptor.set(None);
        self.bytes.set(self.bytes.get() - (entry.end.get() - entry.start.get()));
        if self.regions[index as usize].take().is_some_and(|region| region.close().is_err()) {
            count(&self.leaked);
        }
        entry.next.set(self.free.replace(index));
    }

    pub(super) fn union(&self, range: &Range<usize>, rights: Rights) -> (Range<usize>, Rights, usize) {
        let order = self.order.borrow();
        let places = order.overlapping(range, |index| self.entry(index).end.get());
        let count = places.len();
        let (mut union, mut all) = (range.clone(), rights);
        for entry in places.map(|place| self.entry(order.get(place))) {
            union = union.start.min(entry.start.get())..union.end.max(entry.end.get());
            all |= entry.rights.get();
        }
        (union, all, count)
    }

    pub(super) fn hide(&self, range: &Range<usize>) -> usize {
        if range.is_empty() {
            return 0;
        }
        let places = self.order.borrow().overlapping(range, |index| self.entry(index).end.get());
        for place in places.clone() {
            let index = self.order.borrow().get(place);
            let entry = self.entry(index);
            entry.rights.set(0);
            if entry.users.get() == 0 {
                self.take_from_idle(index);
                self.close(index);
            }
        }
        let count = places.len();
        self.order.borrow_mut().remove(places);
        count
    }

    pub(super) fn invalidate(&self, range: &Range<usize>) {
        self.invalidations.set(self.invalidations.get() + self.hide(range) as u64);
    }

    pub(super) fn can_evict(&self, mut bytes: usize) -> bool {
        let mut index = self.last_idle.get();
        while bytes > 0 && index != NIL {
            let entry = self.entry(index);
            bytes = bytes.saturating_sub(entry.end.get() - entry.start.get());
            index = entry.previous.get();
        }
        bytes == 0
    }

    pub(super) fn evict(&self) -> bool {
        let index = self.last_idle.get();
        if index == NIL {
            return false;
        }
        let entry = self.entry(index);
        self.hide(&(entry.start.get()..entry.end.get()));
        count(&self.evictions);
        true
    }

    pub(super) fn stats(&self) -> MrCacheStats {
        MrCacheStats {
            hits: self.hits.get(),
            misses: self.misses.get(),
            merges: self.merges.get(),
            evictions: self.evictions.get(),
            invalidations: self.invalidations.get(),
            uncached: self.uncached.get(),
            leaked: self.leaked.get(),
            found: u32::try_from(self.order.borrow().len()).unwrap_or(u32::MAX),
            in_use: self.in_use.get(),
            registered_bytes: self.bytes.get(),
        }
    }
}

impl<T: Transport> Drop for Entries<'_, T> {
    /// Remaining users were forgotten: others borrow the cache.
    fn drop(&mut self) {
        for region in self.regions.iter() {
            drop(region.take());
        }
    }
}
