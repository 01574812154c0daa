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

/// Notifies caches of addresses that get other pages.
///
/// These are unmapped, mapped over or moved, or lose pages: `munmap`, `mmap` with `MAP_FIXED`,
/// `mremap`, `madvise` with `MADV_DONTNEED`, `MADV_FREE` or `MADV_REMOVE`, and for shared memory
/// `fallocate` and `ftruncate`. A *stale* registration would reach other memory.
///
/// # Safety
/// If a part of a range for which [`watch`](Self::watch) returned `true` gets other pages, the
/// [`notices`](Self::notices) contain it before any thread can give a cache a buffer on the new
/// pages, or a notice that will contain it is then in progress ([`Notices::give_what`]). The
/// notices are always the same ones.
pub unsafe trait MemoryMonitor {
    /// Notices of this monitor.
    fn notices(&self) -> &Notices;

    /// Watches the pages of a buffer about to be registered. Returns `false` if it cannot: their
    /// region then serves this buffer only.
    fn watch(&self, start: usize, len: usize) -> bool;
}

// SAFETY: the referenced monitor upholds the contract.
unsafe impl<M: MemoryMonitor + ?Sized> MemoryMonitor for &M {
    fn notices(&self) -> &Notices {
        (**self).notices()
    }

    fn watch(&self, start: usize, len: usize) -> bool {
        (**self).watch(start, len)
    }
}
