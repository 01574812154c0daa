//! [`Buffers`]: what leases know of their slab.
//!
//! # Invariants
//!
//! 1. The memory of the buffers, `stride` bytes from one to the next, belongs to the slab for as long as this is there. It is registered
//!    under the descriptor. It is initialised, and may be written. Only holders of leases access it; and peers, if
//!    it is exposed.
//! 2. The list gives a number to one lease at a time. Its parts, made by splitting, do not overlap, have at least one byte each, and together the
//!    buffer's bytes at most. The number is put back when all of them have ended; not if one was forgotten.

#![allow(unsafe_code, reason = "cuts the memory of a slab up")]

use core::ptr::NonNull;

use loom_core::buffer::{Descriptor, Lent};
use loom_core::error::OpenError;
use loom_core::exposed::Window;
use loom_core::mr::RemoteRegion;
use loom_core::vocabulary::HmemIface;

use super::attr::SlabAttr;
use super::parts::Parts;
use crate::sharing::sealed::List;
use crate::sharing::{Numbers, Sharing};

pub(super) struct Buffers<L: Sharing> {
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
    /// The numbers that are free.
    free: L,
    /// Of each number that is not, how many parts are out besides the first one.
    others: Numbers<<L as List>::Number>,
}

/// Memory that peers reach, from the first buffer on.
#[derive(Clone, Copy)]
pub(super) struct Exposed {
    pub(super) window: Window<'static>,
    pub(super) remote: RemoteRegion,
}

// SAFETY: it gives leases, which have rules of their own, and numbers.
unsafe impl<L: Sharing + Send> Send for Buffers<L> where Numbers<L::Number>: Send {}
// SAFETY: as above; the list decides who may take leases.
unsafe impl<L: Sharing + Sync> Sync for Buffers<L> where Numbers<L::Number>: Sync {}

impl<L: Sharing> Buffers<L> {
    /// Cuts up what is lent.
    ///
    /// # Safety
    /// Both belong to the slab for as long as the value is used: what is lent, which the slab alone uses, registered under the
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
        // SAFETY: that number of bytes is lent.
        let base = unsafe { lent.ptr().add(skipped) };
        let number = |number| u32::try_from(number).map_err(|_| OpenError::Size);
        let [free, others] = {
            let first = table.cast::<u32>();
            // SAFETY: half of the table.
            let second = unsafe { first.add(attr.count) };
            [first, second].map(|half| NonNull::slice_from_raw_parts(half, attr.count))
        };
        Ok(Buffers {
            base,
            stride,
            size: number(attr.size)?,
            count: number(attr.count)?,
            kind: lent.kind(),
            descriptor,
            exposed: None,
            // SAFETY: the caller's promise: zeros, and aligned for numbers.
            free: unsafe { L::over(free) },
            // SAFETY: as above.
            others: unsafe { Numbers::over(others) },
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
        let remote = remote.part(skipped as u64, len).ok_or(OpenError::Size)?;
        self.exposed = Some(Exposed { window, remote });
        Ok(self)
    }

    /// A buffer that is free.
    #[inline]
    pub(super) fn take(&self) -> Option<u32> {
        self.free.take()
    }

    /// A buffer comes back of which all parts have ended.
    #[inline]
    pub(super) fn put(&self, number: u32) {
        self.free.put(number);
    }

    /// The parts of a buffer that is taken. They have at least one byte each and do not overlap, so that there are fewer than 2^32.
    #[inline]
    pub(super) fn parts(&self, number: u32) -> Option<&impl Parts> {
        self.others.as_ref().get(number as usize)
    }

    /// Where a byte of a buffer is, counted from the first one's begin.
    #[inline]
    const fn place(&self, number: u32, offset: u32) -> usize {
        number as usize * self.stride + offset as usize
    }

    /// A byte of a buffer.
    ///
    /// # Safety
    /// The number was given by the list, and the offset is no more than the size.
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
        let remote = whole.remote.part(place as u64, len as usize)?;
        Some(Exposed { window, remote })
    }
}
