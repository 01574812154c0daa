//! [`Buffers`]: state of a slab that leases use.
//!
//! # Invariants
//! 1. The buffers, `stride` bytes apart, belong to the slab as long as this value exists,
//!    registered under the descriptor, initialised and writable. Only holders of leases access
//!    them, and peers if exposed.
//! 2. The list gives a number to one lease at a time. The parts of a split lease are disjoint, not
//!    empty, and within the buffer. The number is put back when all parts have been dropped.

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
    base: NonNull<u8>,
    stride: usize,
    pub(super) size: u32,
    pub(super) count: u32,
    pub(super) kind: HmemIface,
    pub(super) descriptor: Descriptor,
    exposed: Option<Exposed>,
    free: L,
    /// Other parts of each taken number.
    others: Numbers<<L as List>::Number>,
}

#[derive(Clone, Copy)]
pub(super) struct Exposed {
    pub(super) window: Window<'static>,
    pub(super) remote: RemoteRegion,
}

// SAFETY: gives out only numbers, and leases with rules of their own.
unsafe impl<L: Sharing + Send> Send for Buffers<L> where Numbers<L::Number>: Send {}
// SAFETY: gives out only numbers, and leases that the list distributes among threads.
unsafe impl<L: Sharing + Sync> Sync for Buffers<L> where Numbers<L::Number>: Sync {}

impl<L: Sharing> Buffers<L> {
    /// # Safety
    /// While the value is used, the slab owns the lent memory, uses it alone and keeps it
    /// registered under the descriptor. It owns the zeroed table, with the layout of
    /// [`SlabAttr::table`].
    pub(super) unsafe fn new(
        lent: &Lent,
        descriptor: Descriptor,
        attr: &SlabAttr,
        table: NonNull<u8>,
    ) -> Result<Self, OpenError> {
        let (stride, memory) = (attr.stride()?, attr.memory()?);
        if !lent.readable || !lent.writable {
            return Err(OpenError::Access);
        }
        let address = lent.ptr.addr().get();
        let skipped = address.wrapping_neg() & (attr.align - 1);
        let needed = (memory.size() - (stride - attr.size)).checked_add(skipped);
        if needed.is_none_or(|needed| needed > lent.len) {
            return Err(OpenError::Size);
        }
        // SAFETY: `skipped <= needed <= lent.len()`, checked above.
        let base = unsafe { lent.ptr.add(skipped) };
        let number = |number| u32::try_from(number).map_err(|_| OpenError::Size);
        let [free, others] = {
            let first = table.cast::<u32>();
            // SAFETY: the table has `2 * attr.count` numbers.
            let second = unsafe { first.add(attr.count) };
            [first, second].map(|half| NonNull::slice_from_raw_parts(half, attr.count))
        };
        Ok(Buffers {
            base,
            stride,
            size: number(attr.size)?,
            count: number(attr.count)?,
            kind: lent.kind,
            descriptor,
            exposed: None,
            // SAFETY: the caller guarantees a zeroed, aligned table for the slab alone.
            free: unsafe { L::over(free) },
            // SAFETY: the caller guarantees a zeroed, aligned table for the slab alone.
            others: unsafe { Numbers::over(others) },
        })
    }

    /// # Safety
    /// The window covers the lent memory and is valid while the value is used.
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

    #[inline]
    pub(super) fn take(&self) -> Option<u32> {
        self.free.take()
    }

    #[inline]
    pub(super) fn put(&self, number: u32) {
        self.free.put(number);
    }

    /// Below 2^32 because parts are disjoint and not empty.
    #[inline]
    pub(super) fn parts(&self, number: u32) -> Option<&impl Parts> {
        self.others.as_ref().get(number as usize)
    }

    #[inline]
    const fn place(&self, number: u32, offset: u32) -> usize {
        number as usize * self.stride + offset as usize
    }

    /// # Safety
    /// The list handed out the number. The offset is at most the size.
    #[inline]
    pub(super) unsafe fn at(&self, number: u32, offset: u32) -> NonNull<u8> {
        // SAFETY: the caller keeps number and offset within the memory (invariant 1).
        unsafe { self.base.add(self.place(number, offset)) }
    }

    pub(super) fn exposed(&self, number: u32, offset: u32, len: u32) -> Option<Exposed> {
        let whole = self.exposed?;
        let place = self.place(number, offset);
        let window = whole.window.slice(place, len as usize).ok()?;
        let remote = whole.remote.part(place as u64, len as usize)?;
        Some(Exposed { window, remote })
    }
}
