//! [`AddressTableMemory`]: what a table lies in, from an allocator.

#![allow(unsafe_code, reason = "lays a table out in memory of the allocator")]

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::bucket::Bucket;
use super::free::words_for;
use super::index::{CELLS_LIMIT, Links, Record};
use super::store::{Cell, cells_for};
use super::symmetric::Segment;
use super::table::Parts;
use super::{AddressTable, NIL};
use crate::engine::peer_table::PeerSlot;
use crate::error::OpenError;
use crate::storage::{Block, array, extend};
use crate::vocabulary::{AddressFormat, AvType, EndpointAddr};

/// How large a table is, and what it is a table of. All of its memory is taken when it is opened.
///
/// ```
/// use loom_core::engine::address_table::AddressTableAttr;
/// use loom_core::vocabulary::AvType;
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
    /// How many peers there is room for. Eight bytes each.
    pub places: usize,
    /// How many of the first places can have an address of their own: 22 bytes each. The others are for members of
    /// [ranges](super::SymmetricRange), which have their addresses together. With more than there are places, all of them can.
    ///
    /// What a member has left of the others is for the same address again; and for a member of another range, once all other
    /// places are taken or if a provider has chosen it, as long as there are [records](Self::ranges) for what is left on both sides
    /// of it.
    pub singles: usize,
    /// How many bytes there are for addresses other than IPv4 sockets, in cells of 32: an IPv6 socket takes one, any other
    /// address of `n` bytes [`bytes_for(n)`](Self::bytes_for).
    pub bytes: usize,
    /// How many pieces of symmetric ranges are kept as such, of which each look-up of a socket address looks at all. Members of
    /// others take places with an address of their own.
    pub ranges: usize,
    /// The format of the table's addresses, which is what unspecified ones are taken for.
    pub format: AddressFormat,
    /// Whether fabric addresses that the table chooses are indices, or carry their generation.
    pub av_type: AvType,
    /// The seed of the hash function. Who does not know it cannot choose addresses that collide.
    pub seed: u64,
}

impl AddressTableAttr {
    /// The most ranges.
    pub const MAX_RANGES: usize = 256;

    /// A table of this number of IPv4 sockets, with fabric addresses that are indices, up to 16 ranges, room for some addresses
    /// of other kinds, and a seed that is the same for all.
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

    /// How many [bytes](Self::bytes) an address takes that is `len` bytes long.
    #[must_use]
    pub const fn bytes_for(len: usize) -> usize {
        cells_for(len) * size_of::<Cell>()
    }

    /// The memory that a table takes from its allocator, in one block.
    ///
    /// # Errors
    /// [`OpenError::Size`] if there is no place, if there are 2^32 - 2 or more, or more ranges than
    /// [`MAX_RANGES`](Self::MAX_RANGES), or if it does not fit into an address space.
    pub fn layout(&self) -> Result<Layout, OpenError> {
        Ok(self.plan()?.layout)
    }

    pub(crate) fn plan(&self) -> Result<Plan, OpenError> {
        let singles = self.singles.min(self.places);
        let cells = self.bytes / size_of::<Cell>();
        if self.places == 0 || self.places >= CELLS_LIMIT || cells >= CELLS_LIMIT || self.ranges > Self::MAX_RANGES {
            return Err(OpenError::Size);
        }
        let (words, buckets) = (words_for(self.places), buckets_for(singles));
        let (layout, words_at) = extend(array::<PeerSlot>(self.places)?, array::<u64>(words)?)?;
        let (layout, segments_at) = extend(layout, array::<Segment>(self.ranges)?)?;
        let (layout, cells_at) = extend(layout, array::<Cell>(cells)?)?;
        let (layout, buckets_at) = extend(layout, array::<Bucket>(buckets)?)?;
        let (layout, links_at) = extend(layout, array::<Links>(singles)?)?;
        let (layout, records_at) = extend(layout, array::<Record>(singles)?)?;
        let attr = AddressTableAttr { singles, ..*self };
        Ok(Plan {
            attr,
            layout,
            words,
            cells,
            buckets,
            words_at,
            segments_at,
            cells_at,
            buckets_at,
            links_at,
            records_at,
        })
    }
}

/// How many buckets an index of this number of addresses has: one for eight of them, so that few have more than twelve.
pub(super) const fn buckets_for(addresses: usize) -> usize {
    addresses.div_ceil(8)
}

/// What is where in the block, and how much of it.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    attr: AddressTableAttr,
    pub(crate) layout: Layout,
    words: usize,
    cells: usize,
    buckets: usize,
    words_at: usize,
    segments_at: usize,
    cells_at: usize,
    buckets_at: usize,
    links_at: usize,
    records_at: usize,
}

impl Plan {
    /// An empty table in memory of the layout.
    ///
    /// # Safety
    /// The memory has the layout, and belongs to the table for `'s`.
    pub(crate) unsafe fn table<'s>(&self, memory: NonNull<u8>) -> AddressTable<'s> {
        let at = |offset: usize| {
            // SAFETY: the offset is one of the layout that the memory has.
            unsafe { memory.add(offset) }
        };
        // SAFETY: room for this number of entries is at the beginning of the layout. The memory is the table's, and nothing else is there.
        let entries = unsafe { fill(at(0), self.attr.places, PeerSlot::default) };
        // SAFETY: as above, at their own offset.
        let words = unsafe { fill(at(self.words_at), self.words, || 0) };
        // SAFETY: as above.
        let segments = unsafe { fill(at(self.segments_at), self.attr.ranges, || Segment::EMPTY) };
        // SAFETY: as above.
        let cells = unsafe { fill(at(self.cells_at), self.cells, || Cell::EMPTY) };
        // SAFETY: as above.
        let buckets = unsafe { fill(at(self.buckets_at), self.buckets, || Bucket::EMPTY) };
        // SAFETY: as above.
        let links = unsafe { fill(at(self.links_at), self.attr.singles, || [NIL; 2]) };
        // SAFETY: as above.
        let records = unsafe { fill(at(self.records_at), self.attr.singles, || Record::EMPTY) };
        let parts = Parts { entries, words, segments, cells, buckets, links, records };
        AddressTable::of(parts, &self.attr)
    }
}

/// Writes an array.
///
/// # Safety
/// There is room for `len` values, aligned for them, which are the array's for `'s`.
pub(crate) unsafe fn fill<'s, V>(at: NonNull<u8>, len: usize, value: impl Fn() -> V) -> &'s mut [V] {
    let first = at.cast::<V>();
    for index in 0..len {
        // SAFETY: the caller's promise.
        let place = unsafe { first.add(index) };
        // SAFETY: as above.
        unsafe { place.write(value()) };
    }
    // SAFETY: as above; all of them are written.
    unsafe { core::slice::from_raw_parts_mut(first.as_ptr(), len) }
}

/// Memory for an [`AddressTable`], in one block of `A`, which is taken here and never afterwards.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::net::SocketAddr;
///
/// use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory};
///
/// let mut memory = AddressTableMemory::new(AddressTableAttr::new(2))?;
/// let there: SocketAddr = "10.0.0.1:7471".parse()?;
/// let mut table = memory.table();
/// table.insert(there)?;
/// assert_eq!(table.len(), 1);
/// // The next table in this memory is empty, and takes no other memory.
/// let table = memory.table();
/// assert_eq!(table.find(there), None);
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
pub struct AddressTableMemory<A: Allocator> {
    plan: Plan,
    block: Block<A>,
}

impl<A: Allocator> AddressTableMemory<A> {
    /// Takes the memory of a table from `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::Size`], see [`AddressTableAttr::layout`]
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    pub fn new_in(attr: AddressTableAttr, alloc: A) -> Result<Self, OpenError> {
        let plan = attr.plan()?;
        Ok(AddressTableMemory { plan, block: Block::new(plan.layout, alloc)? })
    }

    /// An empty table in this memory.
    pub fn table(&mut self) -> AddressTable<'_> {
        // SAFETY: the block has the layout of the plan, and is borrowed for the table.
        unsafe { self.plan.table(self.block.ptr()) }
    }
}

#[cfg(feature = "std")]
impl AddressTableMemory<allocator_api2::alloc::Global> {
    /// Takes the memory of a table from the global allocator.
    ///
    /// # Errors
    /// As [`AddressTableMemory::new_in`].
    pub fn new(attr: AddressTableAttr) -> Result<Self, OpenError> {
        Self::new_in(attr, allocator_api2::alloc::Global)
    }
}

impl<A: Allocator> fmt::Debug for AddressTableMemory<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressTableMemory").field("attr", &self.plan.attr).field("block", &self.block).finish()
    }
}
