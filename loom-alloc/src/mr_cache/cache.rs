#![allow(unsafe_code, reason = "registers memory that may come and go")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::num::NonZero;
use core::ops::Range;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, Lent};
use loom_core::domain::Domain;
use loom_core::error::{OpenError, Rejected};
use loom_core::mr::LocalMr;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Errno, HmemIface};

use super::attr::{MrCacheAttr, MrCacheStats};
use super::cached::{Cached, User};
use super::entries::{Entries, Places, READ, Rights, WRITE, count};
use super::monitor::{MemoryMonitor, Read};
use crate::block::Block;

const BYTES: OpenError = OpenError::Limit("MrCacheAttr::bytes");
const REGIONS: OpenError = OpenError::Limit("MrCacheAttr::new");

/// Cache of registrations for local use by one thread ([module](super)).
///
/// Dropping it closes all regions. Forgetting it leaves them and the domain open.
pub struct MrCache<'d, T: Transport, M: MemoryMonitor, A: Allocator> {
    /// First field: dropped before the block.
    entries: Entries<'d, T>,
    domain: Domain<'d, T>,
    monitor: M,
    seen: Cell<u64>,
    attr: MrCacheAttr,
    _block: Block<A>,
}

impl<'d, T: Transport, M: MemoryMonitor, A: Allocator> MrCache<'d, T, M, A> {
    /// Creates a cache in one block of `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::Size`] if the capacity is 0 or exceeds an address space, or the page size is
    ///   not a power of two
    /// - [`OpenError::OutOfMemory`]
    pub fn open_in(domain: &Domain<'d, T>, attr: MrCacheAttr, monitor: M, alloc: A) -> Result<Self, OpenError> {
        let places = Self::places(&attr)?;
        let block = Block::new(places.layout, alloc).map_err(|_| OpenError::OutOfMemory)?;
        // SAFETY: the block is for the entries alone, and dropped after them.
        let entries = unsafe { Entries::new(&block, &places, &attr) };
        let seen = Cell::new(monitor.notices().now());
        Ok(MrCache { entries, domain: domain.clone(), monitor, seen, attr, _block: block })
    }

    /// Layout of a cache's memory: for each region 100 bytes, the transport's handle, and 16 to 32
    /// bytes of memo.
    ///
    /// # Errors
    /// [`OpenError::Size`] like [`open_in`](Self::open_in).
    pub fn layout(attr: &MrCacheAttr) -> Result<Layout, OpenError> {
        Ok(Self::places(attr)?.layout)
    }

    /// Finds or registers the memory of a buffer. Empty buffers, and those with a descriptor, pass.
    ///
    /// # Errors
    /// The buffer is returned.
    /// - [`OpenError::Limit`]: all regions or bytes are in use: drop buffers first
    /// - [`OpenError::TooLong`] beyond [`MrCacheAttr::bytes`]
    /// - [`OpenError::Access`]: the buffer lends no memory by itself
    /// - [`OpenError::DeviceMemory`], which
    ///   [`Registered::on_device`](loom_core::registered::Registered::on_device) registers
    /// - Others of the provider
    #[inline]
    pub fn register<B: Buffer>(&self, mut buf: B) -> Result<Cached<'_, 'd, T, B>, Rejected<B, OpenError>> {
        let lent = buf.lend();
        match self.entry_of(&lent) {
            Ok(entry) => Ok(Cached::new(User::new(&self.entries, entry), buf)),
            Err(error) => Err(Rejected { value: buf, error }),
        }
    }

    /// Hides regions that overlap `len` bytes from `start` on.
    pub fn invalidate(&self, start: usize, len: usize) {
        self.entries.invalidate(&(start..start.saturating_add(len)));
    }

    /// Hides all regions.
    pub fn flush(&self) {
        self.entries.invalidate(&(0..usize::MAX));
    }

    /// Counters and state.
    #[must_use]
    pub fn stats(&self) -> MrCacheStats {
        self.entries.stats()
    }

    /// Monitor of the cache.
    #[must_use]
    pub const fn monitor(&self) -> &M {
        &self.monitor
    }

    fn places(attr: &MrCacheAttr) -> Result<Places, OpenError> {
        // Not a valid entry number.
        if attr.capacity == 0 || attr.capacity == u32::MAX || !attr.page_size.is_power_of_two() {
            return Err(OpenError::Size);
        }
        Places::of::<T>(attr).map_err(|_| OpenError::Size)
    }

    #[inline]
    fn entry_of(&self, lent: &Lent) -> Result<Option<u32>, OpenError> {
        let rights = if lent.readable { READ } else { 0 } | if lent.writable { WRITE } else { 0 };
        if rights == 0 {
            return Err(OpenError::Access);
        }
        let start = lent.ptr.addr().get().wrapping_sub(lent.headroom);
        let bytes = start..start.wrapping_add(lent.headroom).wrapping_add(lent.len);
        if lent.descriptor.is_some() || bytes.is_empty() {
            return Ok(None);
        }
        if lent.kind != HmemIface::SYSTEM {
            return Err(OpenError::DeviceMemory);
        }
        let is_certain = self.monitor.notices().is_at(self.seen.get()) || self.read_notices();
        if is_certain && let Some(entry) = self.entries.find(bytes.start, bytes.end, rights) {
            if !self.entries.enter(entry) {
                return Err(OpenError::Limit("users of a region"));
            }
            count(&self.entries.hits);
            return Ok(Some(entry));
        }
        self.miss(lent, &bytes, rights, is_certain).map(Some)
    }

    #[cold]
    fn read_notices(&self) -> bool {
        let read = self.monitor.notices().read(self.seen.get(), |start, end| self.entries.invalidate(&(start..end)));
        match read {
            Read::UpTo(version) => self.seen.set(version),
            Read::Lost(version) => {
                self.flush();
                self.seen.set(version);
            }
            Read::Busy => return false,
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn miss(&self, lent: &Lent, bytes: &Range<usize>, rights: Rights, is_certain: bool) -> Result<u32, OpenError> {
        count(&self.entries.misses);
        let mask = self.attr.page_size - 1;
        let end = bytes.end.checked_add(mask).ok_or(OpenError::TooLong { limit: self.attr.bytes })? & !mask;
        let pages = bytes.start & !mask..end;
        if !is_certain || !self.monitor.watch(pages.start, pages.len()) {
            let entry = self.open(lent, &pages, rights)?;
            count(&self.entries.uncached);
            return Ok(entry);
        }
        let (union, all, overlapping) = self.entries.union(&pages, rights);
        let (mut rights, mut opened) = (rights, None);
        if overlapping > 0 {
            count(&self.entries.merges);
            self.entries.hide(&pages);
            let range = if union.len() <= self.attr.merged { &union } else { &pages };
            // The union may be partly unmapped or read-only.
            opened = self.open(lent, range, all).ok();
            rights = if opened.is_some() { all } else { rights };
        }
        let entry = match opened {
            Some(entry) => entry,
            None => self.open(lent, &pages, rights)?,
        };
        self.entries.show(entry, rights);
        Ok(entry)
    }

    /// The region has one user, and is hidden.
    fn open(&self, lent: &Lent, range: &Range<usize>, rights: Rights) -> Result<u32, OpenError> {
        if range.len() > self.attr.bytes {
            return Err(OpenError::TooLong { limit: self.attr.bytes });
        }
        // The range includes headroom.
        let start = NonZero::new(range.start).ok_or(OpenError::Errno(Errno::EFAULT))?;
        let first = lent.ptr.with_addr(start);
        let memory = match rights {
            READ => Lent::source(first, range.len()),
            WRITE => Lent::target(first, range.len()),
            _ => Lent::both(first, range.len()),
        };
        let most = self.attr.bytes - range.len();
        if !self.entries.can_evict(self.entries.bytes().saturating_sub(most)) {
            return Err(BYTES);
        }
        while !self.entries.has_free() || most < self.entries.bytes() {
            if !self.entries.evict() {
                return Err(if self.entries.has_free() { BYTES } else { REGIONS });
            }
        }
        loop {
            // SAFETY: only buffers in the range use the descriptor, as users that keep the region
            // open. Their pages are the registered ones: this buffer exists, and for a found entry
            // the monitor watches the pages and all notices were read. Pages stay while their
            // buffer does.
            match unsafe { LocalMr::open(&self.domain, &memory, 0) } {
                Ok(region) => return Ok(self.entries.open(range, region)),
                Err(OpenError::Errno(Errno::ENOMEM | Errno::ENOSPC | Errno::ENOMR) | OpenError::Limit(_))
                    if self.entries.evict() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<T: Transport, M: MemoryMonitor, A: Allocator> fmt::Debug for MrCache<'_, T, M, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MrCache").field("attr", &self.attr).field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// One thread has the cache, which outlives its buffers:
///
/// ```compile_fail,E0277
/// use loom_alloc::mr_cache::{MrCache, Notified};
/// use loom_core::{allocator_api2::alloc::Global, soft::Soft};
///
/// fn shares<T: Sync>() {}
/// shares::<MrCache<'static, Soft<'static>, Notified, Global>>();
/// ```
///
/// ```compile_fail,E0277
/// use loom_alloc::mr_cache::Cached;
/// use loom_core::soft::Soft;
///
/// fn sends<T: Send>() {}
/// sends::<Cached<'static, 'static, Soft<'static>, Vec<u8>>>();
/// ```
///
/// ```compile_fail,E0505
/// use loom_alloc::mr_cache::{MemoryMonitor, MrCache};
/// use loom_core::{allocator_api2::alloc::Allocator, transport::Transport};
///
/// fn closed<T: Transport, M: MemoryMonitor, A: Allocator>(cache: MrCache<'_, T, M, A>) {
///     let buf = cache.register(vec![0; 8]);
///     drop(cache);
///     drop(buf);
/// }
/// ```
#[cfg(doctest)]
struct OneThread;
