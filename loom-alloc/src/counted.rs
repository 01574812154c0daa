#![allow(unsafe_code, reason = "allocation through `Allocator`")]

use core::alloc::Layout;
use core::mem;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use allocator_api2::alloc::{AllocError, Allocator};

/// Blocks have the requested size, even if the allocator returns more. Blocks of 0 bytes do not
/// count: `Vec` of allocator-api2 never returns them.
///
/// All orders are `Relaxed`: the counters publish no memory.
#[derive(Debug)]
pub(crate) struct Tally {
    bytes: AtomicUsize,
    blocks: AtomicUsize,
    high_water: AtomicUsize,
}

pub(crate) enum Refused {
    Limit,
    Allocator,
}

impl From<Refused> for AllocError {
    fn from(_: Refused) -> Self {
        AllocError
    }
}

impl Tally {
    pub(crate) const fn new() -> Self {
        Tally { bytes: AtomicUsize::new(0), blocks: AtomicUsize::new(0), high_water: AtomicUsize::new(0) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks.load(Ordering::Relaxed)
    }

    pub(crate) fn high_water(&self) -> usize {
        self.high_water.load(Ordering::Relaxed)
    }

    fn add(
        &self,
        bytes: usize,
        limit: usize,
        layout: Layout,
        take: impl FnOnce() -> Result<NonNull<[u8]>, AllocError>,
    ) -> Result<NonNull<[u8]>, Refused> {
        let within = |now: usize| now.checked_add(bytes).filter(|then| *then <= limit);
        let before = self.bytes.try_update(Ordering::Relaxed, Ordering::Relaxed, within).map_err(|_| Refused::Limit)?;
        /// Subtracts the bytes, also on unwinding.
        struct Off<'t>(&'t AtomicUsize, usize);
        impl Drop for Off<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(self.1, Ordering::Relaxed);
            }
        }
        let off = Off(&self.bytes, bytes);
        let block = take().map_err(|_| Refused::Allocator)?;
        mem::forget(off);
        self.high_water.fetch_max(before + bytes, Ordering::Relaxed);
        Ok(exactly(block, layout))
    }

    pub(crate) fn allocate(
        &self,
        limit: usize,
        layout: Layout,
        take: impl FnOnce() -> Result<NonNull<[u8]>, AllocError>,
    ) -> Result<NonNull<[u8]>, Refused> {
        let block = self.add(layout.size(), limit, layout, take)?;
        self.change_blocks(0, layout.size());
        Ok(block)
    }

    pub(crate) fn grow(
        &self,
        limit: usize,
        old: Layout,
        new: Layout,
        take: impl FnOnce() -> Result<NonNull<[u8]>, AllocError>,
    ) -> Result<NonNull<[u8]>, Refused> {
        let block = self.add(new.size().saturating_sub(old.size()), limit, new, take)?;
        self.change_blocks(old.size(), new.size());
        Ok(block)
    }

    fn change_blocks(&self, old: usize, new: usize) {
        match (old, new) {
            (0, 1..) => self.blocks.fetch_add(1, Ordering::Relaxed),
            (1.., 0) => self.blocks.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
    }

    /// # Safety
    /// [`Allocator::shrink`], of a counted block.
    pub(crate) unsafe fn shrink(
        &self,
        alloc: &impl Allocator,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::shrink`.
        let shrunk = unsafe { alloc.shrink(block, old, new) }?;
        self.bytes.fetch_sub(old.size().saturating_sub(new.size()), Ordering::Relaxed);
        self.change_blocks(old.size(), new.size());
        Ok(exactly(shrunk, new))
    }

    /// # Safety
    /// [`Allocator::deallocate`], of a counted block.
    pub(crate) unsafe fn deallocate(&self, alloc: &impl Allocator, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { alloc.deallocate(block, layout) };
        self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        self.change_blocks(layout.size(), 0);
    }
}

fn exactly(block: NonNull<[u8]>, layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(block.cast(), layout.size())
}
