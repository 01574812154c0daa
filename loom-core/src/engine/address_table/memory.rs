#![allow(unsafe_code, reason = "lays a table out in memory of the allocator")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::bucket::Bucket;
use super::free::{Free, words_for};
use super::index::{CELLS_LIMIT, Index, Links, Record};
use super::store::{Cell, Store, cells_for};
use super::symmetric::{Segment, Segments};
use super::{AddressTable, NIL};
use crate::engine::peer_table::{PeerSlot, PeerTable};
use crate::error::OpenError;
use crate::storage::{Block, Part};
use crate::util::debug::debug_struct;
use crate::vocabulary::{AddressFormat, AvType, EndpointAddr};

/// Size and kind of a table.
///
/// ```
/// use loom_core::{engine::address_table::AddressTableAttr, vocabulary::AvType};
///
/// // A hundred peers with IPv6 addresses. The fabric address of a removed peer is recognised.
/// let attr = AddressTableAttr {
///     bytes: 100 * 32,
///     av_type: AvType::MAP,
///     ..AddressTableAttr::new(100)
/// };
/// assert!(attr.layout()?.size() < 100 * 100);
/// // A million members of ranges, none of which has an address of its own.
/// let ranges = AddressTableAttr { singles: 0, ..AddressTableAttr::new(1_000_000) };
/// assert!(ranges.layout()?.size() < 9_000_000);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_av`, `struct fi_av_attr`
#[doc(alias = "fi_av_attr")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressTableAttr {
    /// Maximum number of peers, 8 bytes each.
    pub places: usize,
    /// Number of first slots that can have an address of their own, 22 bytes each, capped at
    /// `places`. The others are for members of [ranges](super::SymmetricRange).
    pub singles: usize,
    /// Bytes for addresses other than IPv4 sockets, in cells of 32. An IPv6 socket takes one, other
    /// addresses of `n` bytes [`bytes_for(n)`](Self::bytes_for).
    pub bytes: usize,
    /// Maximum number of range records, all checked by each lookup of a socket.
    pub ranges: usize,
    /// Format of the table's addresses, assumed for unspecified ones.
    pub format: AddressFormat,
    /// Kind of the fabric addresses that the table chooses: indices, with or without generation.
    pub av_type: AvType,
    /// Seed of the hash function. Peers without it cannot choose addresses that collide.
    pub seed: u64,
}

impl AddressTableAttr {
    /// Maximum number of ranges.
    pub const MAX_RANGES: usize = 256;

    /// Returns attributes for `places` IPv4 sockets, up to 16 ranges, and a fixed seed.
    #[must_use]
    pub const fn new(places: usize) -> Self {
        AddressTableAttr {
            places,
            singles: usize::MAX,
            bytes: Self::bytes_for(EndpointAddr::MAX_LEN),
            ranges: 16,
            format: AddressFormat::UNSPEC,
            av_type: AvType::TABLE,
            seed: 0,
        }
    }

    /// Number of [bytes](Self::bytes) that an address of `len` bytes takes.
    #[must_use]
    pub const fn bytes_for(len: usize) -> usize {
        cells_for(len) * size_of::<Cell>()
    }

    /// Layout of the one block that a table allocates.
    ///
    /// # Errors
    /// [`OpenError::Size`] for 0 or at least 2^32 - 2 slots, for more ranges than
    /// [`MAX_RANGES`](Self::MAX_RANGES), or if the block exceeds an address space.
    pub fn layout(&self) -> Result<Layout, OpenError> {
        Ok(self.plan()?.layout)
    }

    pub(crate) fn plan(&self) -> Result<Plan, OpenError> {
        let singles = self.singles.min(self.places);
        let cells = self.bytes / size_of::<Cell>();
        if self.places == 0 || self.places >= CELLS_LIMIT || cells >= CELLS_LIMIT || self.ranges > Self::MAX_RANGES {
            return Err(OpenError::Size);
        }
        let mut layout = Layout::new::<()>();
        Ok(Plan {
            attr: *self,
            entries: Part::of(&mut layout, self.places)?,
            words: Part::of(&mut layout, words_for(self.places))?,
            segments: Part::of(&mut layout, self.ranges)?,
            cells: Part::of(&mut layout, cells)?,
            buckets: Part::of(&mut layout, buckets_for(singles))?,
            links: Part::of(&mut layout, singles)?,
            records: Part::of(&mut layout, singles)?,
            layout,
        })
    }
}

pub(super) const fn buckets_for(addresses: usize) -> usize {
    addresses.div_ceil(8)
}

pub(crate) struct Plan {
    attr: AddressTableAttr,
    entries: Part<PeerSlot>,
    words: Part<u64>,
    segments: Part<Segment>,
    cells: Part<Cell>,
    buckets: Part<Bucket>,
    links: Part<Links>,
    records: Part<Record>,
    pub(crate) layout: Layout,
}

impl Plan {
    /// # Safety
    /// The memory has the layout, and belongs to the table for `'s`.
    pub(crate) unsafe fn table<'s>(&self, memory: NonNull<u8>) -> AddressTable<'s> {
        // SAFETY: the caller guarantees the memory of all parts, each of which is used once.
        let entries = unsafe { self.entries.slice(memory, |_| PeerSlot::default()) };
        // SAFETY: the plan has this part.
        let words = unsafe { self.words.slice(memory, |_| 0) };
        // SAFETY: the plan has this part.
        let segments = unsafe { self.segments.slice(memory, |_| Segment::EMPTY) };
        // SAFETY: the plan has this part.
        let cells = unsafe { self.cells.slice(memory, |_| Cell::EMPTY) };
        // SAFETY: the plan has this part.
        let buckets = unsafe { self.buckets.slice(memory, |_| Bucket::EMPTY) };
        // SAFETY: the plan has this part.
        let links = unsafe { self.links.slice(memory, |_| [NIL; 2]) };
        // SAFETY: the plan has this part.
        let records = unsafe { self.records.slice(memory, |_| Record::EMPTY) };
        AddressTable {
            format: self.attr.format,
            av_type: self.attr.av_type,
            seed: self.attr.seed,
            peers: PeerTable::new(entries),
            index: Index { buckets, records, links },
            store: Store::new(cells),
            segments: Segments::new(segments),
            free: Free::new(words, self.attr.places),
            len: 0,
            retired: 0,
        }
    }
}

/// Memory for an [`AddressTable`], in one block of `A`, allocated once.
///
/// ```
/// use std::net::SocketAddr;
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory};
///
/// let mut memory = AddressTableMemory::new_in(AddressTableAttr::new(2), Global)?;
/// let there: SocketAddr = "10.0.0.1:7471".parse()?;
/// let mut table = memory.table();
/// table.insert(there)?;
/// assert_eq!(table.len(), 1);
/// // The next table in this memory is empty, and takes no other memory.
/// let table = memory.table();
/// assert_eq!(table.find(there), None);
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
pub struct AddressTableMemory<A: Allocator> {
    plan: Plan,
    block: Block<A>,
}

impl<A: Allocator> AddressTableMemory<A> {
    /// Allocates the memory of a table from `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::Size`], see [`AddressTableAttr::layout`]
    /// - [`OpenError::OutOfMemory`]
    pub fn new_in(attr: AddressTableAttr, alloc: A) -> Result<Self, OpenError> {
        let plan = attr.plan()?;
        Ok(AddressTableMemory { block: Block::new(plan.layout, alloc)?, plan })
    }

    /// Creates an empty table in this memory.
    pub fn table(&mut self) -> AddressTable<'_> {
        // SAFETY: the block has the plan's layout, and the table borrows it.
        unsafe { self.plan.table(self.block.ptr()) }
    }
}

debug_struct!([A: Allocator] AddressTableMemory[A], |it| attr: it.plan.attr, block: it.block);
