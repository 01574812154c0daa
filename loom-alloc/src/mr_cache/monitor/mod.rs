//! [`MemoryMonitor`]: who tells a cache that memory goes away.

#![allow(
    unsafe_code,
    reason = "an unsafe trait, whose implementations promise that no region is stale when it is found"
)]

mod notices;
mod notified;
#[cfg(all(feature = "os", target_os = "linux"))]
mod userfaultfd;

pub use self::notices::Notices;
pub(super) use self::notices::Read;
pub use self::notified::Notified;
#[cfg(all(feature = "os", target_os = "linux"))]
pub use self::userfaultfd::Userfaultfd;

/// Tells caches of memory behind whose addresses other pages come to lie.
///
/// It is unmapped, mapped over, moved, or its pages are given back to the system: `munmap`, `mmap` with `MAP_FIXED`, `mremap`, `madvise`
/// with `MADV_DONTNEED`, `MADV_FREE` or `MADV_REMOVE`, and of shared memory `fallocate` and `ftruncate`. A registration goes on naming
/// the pages that were there when it was made. With one that is *stale*, a device would read and write memory that belongs to
/// no mapping, or to another one.
///
/// # Safety
///
/// Implementations promise, of every range for which [`watch`](Self::watch) has returned true: if other pages come to lie behind a
/// part of it, then the part is in the [`notices`](Self::notices) before any thread can give a cache a buffer that lies on the new pages; or
/// a notice is being given then ([`Notices::give_what`]), which has the part in the end. The notices are always the same.
pub unsafe trait MemoryMonitor {
    /// Where it gives notice.
    fn notices(&self) -> &Notices;

    /// Asks to be told of a range from now on. A cache asks for what it is about to register: the pages that the buffer lies on.
    ///
    /// Returns whether that is possible. If not, the region serves that one buffer, and is closed with it.
    fn watch(&self, start: usize, len: usize) -> bool;
}

// SAFETY: the monitor behind it promises that.
unsafe impl<M: MemoryMonitor + ?Sized> MemoryMonitor for &M {
    fn notices(&self) -> &Notices {
        (**self).notices()
    }

    fn watch(&self, start: usize, len: usize) -> bool {
        (**self).watch(start, len)
    }
}
