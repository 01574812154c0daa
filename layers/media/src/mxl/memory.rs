//! Mapped files.
//!
//! Other processes write this memory. All accesses keep the rule of [`loom_core::exposed`].
#![allow(unsafe_code, reason = "maps memory, and lends it")]

use core::ffi::c_void;
use core::fmt;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use loom_core::Buffer;
use loom_core::buffer::Lent;
use loom_core::exposed::Window;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::MxlError;
use super::files::Files;

pub(super) struct Memory {
    at: NonNull<AtomicU64>,
    len: usize,
    writable: bool,
}

// SAFETY: the memory has no thread affinity.
unsafe impl Send for Memory {}
// SAFETY: all accesses are atomic.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `stride` bytes of each file: whole pages. The last one begins before the file's end.
    pub(super) fn map(files: &[OwnedFd], stride: usize, writable: bool) -> Result<Self, MxlError> {
        let len =
            files.len().checked_mul(stride).filter(|len| *len > 0 && stride.is_multiple_of(rustix::param::page_size()));
        let len = len.ok_or(MxlError::Flow(
            "a ring has more bytes than the address space, or parts of pages: shorten the history of the domain",
        ))?;
        // SAFETY: the kernel chooses the addresses.
        let base = unsafe {
            mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
        };
        let base = base.map_err(MxlError::system("mmap"))?;
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        for (number, file) in files.iter().enumerate() {
            let at = base.wrapping_byte_add(number * stride);
            // SAFETY: replaces an unused part of the reservation.
            let mapped = unsafe { mmap(at, stride, access, MapFlags::SHARED | MapFlags::FIXED, file, 0) };
            if let Err(errno) = mapped {
                // Other threads may use the addresses of the failed part since.
                let behind = (number + 1) * stride;
                // SAFETY: mapped by this call, unused.
                unsafe { unmap(base, number * stride) };
                // SAFETY: reserved by this call, unused.
                unsafe { unmap(base.wrapping_byte_add(behind), len - behind) };
                return Err(MxlError::system("mmap")(errno));
            }
        }
        let at = NonNull::new(base.cast())
            .ok_or(MxlError::Flow("the ring is mapped at address 0: raise `vm.mmap_min_addr`"))?;
        Ok(Memory { at, len, writable })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: whole pages, initialised by their files, mapped until the memory is dropped. All
        // accesses are atomic. Read-only pages allow `Relaxed` loads, and have no others.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.len / size_of::<AtomicU64>()) }
    }

    /// Read-only memory allows reads.
    pub(super) fn window(&self) -> Window<'_> {
        Window::from(self.words())
    }

    /// Word at an offset, 0 behind the end.
    pub(super) fn load(&self, offset: usize) -> u64 {
        let value = self.words().get(offset / 8).map_or(0, |word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        value
    }

    pub(super) fn store(&self, offset: usize, value: u64) {
        if let Some(word) = self.words().get(offset / 8).filter(|_| self.writable) {
            word.store(value, Ordering::Release);
        }
    }

    /// Futex. Read-only memory allows loads.
    pub(super) fn futex(&self, offset: usize) -> Option<&AtomicU32> {
        let word = self.words().get(offset / 8)?;
        // SAFETY: the first half of a mapped word. Loom's other accesses to this word are copies of
        // bytes.
        Some(unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`. Borrows have ended, and regions: a ring keeps its memory.
        unsafe { unmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// # Safety
/// The range is mapped, and unused.
unsafe fn unmap(at: *mut c_void, len: usize) {
    if len > 0 {
        // SAFETY: the caller guarantees the range.
        let _ = unsafe { munmap(at, len) };
    }
}

/// Ring in shared memory, for [`Target::add_mxl_flow`](crate::Target::add_mxl_flow) and
/// [`Initiator::add_mxl_flow`](crate::Initiator::add_mxl_flow).
///
/// Programs cannot obtain values: a buffer has exclusive memory, and processes share this. The flow
/// stays until its writer and rings are dropped.
pub struct Ring(pub(super) Arc<Files>);

// SAFETY: the ring keeps the memory mapped. Safe code cannot obtain a ring. Targets and initiators
// expose it, and post it in RMA writes. Other accesses keep the rule of `loom_core::exposed`.
unsafe impl Buffer for Ring {
    fn lend(&mut self) -> Lent {
        let Memory { at, len, writable } = self.0.ring;
        Lent { writable, ..Lent::source(at.cast(), len) }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ring").field(&self.0.definition.id).finish()
    }
}
