//! [`Buffers`]: what leases know of their slab.
//!
//! # Invariants
//!
//! 1. The memory of the buffers, `stride` bytes from one to the next, belongs to the slab for as long as this is there. It is registered
//!    under the descriptor. It is initialised, and may be written. Nobody accesses it but holders of leases; and peers, if
//!    it is exposed.
//! 2. The books give a number to one lease at a time. Its parts, made by splitting, do not overlap, have at least one byte each, and together the
//!    buffer's bytes at most. The number is put back when all of them have ended; not if one was forgotten.

#![allow(unsafe_code, reason = "cuts the memory of a slab up")]

use core::ptr::NonNull;

use loom_core::buffer::{Descriptor, Lent};
use loom_core::error::OpenError;
use loom_core::exposed::Window;
use loom_core::objects::mr::RemoteRegion;
use loom_core::vocabulary::{HmemIface, RemoteAddr};

use super::attr::SlabAttr;
use super::sharing::Sharing;

pub(super) struct Buffers<L> {
    /// The first buffer.
    base: NonNull<u8>,
    /// From one buffer to the next.
    stride: usize,
    pub(super) size: u32,
    pub(super) count: u32,
    pub(super) kind: HmemIface,
    pub(super) descriptor: Descriptor,
    /// Where peers reach it.
    exposed: Option<Exposed>,
    pub(super) books: L,
}

/// Memory that peers reach, from the first buffer on.
#[derive(Clone, Copy)]
pub(super) struct Exposed {
    pub(super) window: Window<'static>,
    pub(super) remote: RemoteRegion,
}

// SAFETY: it gives leases, which have rules of their own, and numbers.
unsafe impl<L: Send> Send for Buffers<L> {}
// SAFETY: as above; the books decide who may take leases.
unsafe impl<L: Sync> Sync for Buffers<L> {}

impl<L: Sharing> Buffers<L> {
    /// Cuts up what is lent.
    ///
    /// # Safety
    /// Both belong to the slab for as long as the value is used: what is lent, which nobody else uses, registered under the
    /// descriptor; and a table as [`SlabAttr::table`] says, of zeros.
    pub(super) unsafe fn new(
        lent: &Lent,
        descriptor: Descriptor,
        attr: &SlabAttr,
        table: NonNull<u8>,
    ) -> Result<Self, OpenError> {
        let (stride, memory) = (attr.stride()?, attr.memory()?);
        if !lent.is_readable() || !lent.is_writable() {
            return Err(OpenError::Access);
        }
        let address = lent.ptr().addr().get();
        let skipped = address.wrapping_neg() & (attr.align - 1);
        // The last one need not be followed by what would align another.
        let needed = (memory.size() - (stride - attr.size)).checked_add(skipped);
        if needed.is_none_or(|needed| needed > lent.len()) {
            return Err(OpenError::Size);
        }
        // SAFETY: so many bytes are lent.
        let base = unsafe { lent.ptr().add(skipped) };
        let number = |number| u32::try_from(number).map_err(|_| OpenError::Size);
        Ok(Buffers {
            base,
            stride,
            size: number(attr.size)?,
            count: number(attr.count)?,
            kind: lent.kind(),
            descriptor,
            exposed: None,
            // SAFETY: the caller's promise; `table` is aligned for it.
            books: unsafe { L::over(table.cast(), attr.count) },
        })
    }

    /// The same of memory that peers reach, all of which the window shows.
    ///
    /// # Safety
    /// The window is valid for as long as the value is used.
    pub(super) unsafe fn exposed_as(
        mut self,
        window: Window<'static>,
        remote: RemoteRegion,
    ) -> Result<Self, OpenError> {
        let skipped = self.base.addr().get().wrapping_sub(window.as_ptr().addr());
        let len = window.len().checked_sub(skipped).ok_or(OpenError::Size)?;
        let window = window.slice(skipped, len).map_err(|_| OpenError::Size)?;
        let part = remote.part(skipped as u64, len).ok_or(OpenError::Size)?;
        let remote = RemoteRegion::new(part.addr, len as u64, part.key);
        self.exposed = Some(Exposed { window, remote });
        Ok(self)
    }

    /// Where a byte of a buffer is, counted from the first one's begin.
    #[inline]
    const fn place(&self, number: u32, offset: u32) -> usize {
        number as usize * self.stride + offset as usize
    }

    /// A byte of a buffer.
    ///
    /// # Safety
    /// The number was given by the books, and the offset is no more than the size.
    #[inline]
    pub(super) unsafe fn at(&self, number: u32, offset: u32) -> NonNull<u8> {
        // SAFETY: within the memory, by the caller's promise and invariant 1.
        unsafe { self.base.add(self.place(number, offset)) }
    }

    /// How this side and peers see a part of a buffer that is exposed.
    pub(super) fn exposed(&self, number: u32, offset: u32, len: u32) -> Option<Exposed> {
        let whole = self.exposed?;
        let place = self.place(number, offset);
        let window = whole.window.slice(place, len as usize).ok()?;
        let part = whole.remote.part(place as u64, len as usize)?;
        Some(Exposed { window, remote: RemoteRegion::new(RemoteAddr(part.addr.0), len.into(), part.key) })
    }
}
