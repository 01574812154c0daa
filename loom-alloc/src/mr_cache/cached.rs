//! [`Cached`]: a buffer with a region of the cache.

#![allow(unsafe_code, reason = "implements `Buffer`, and shows its memory")]

use core::fmt;
use core::ops::Deref;

use loom_core::Error;
use loom_core::buffer::{Buffer, Descriptor, Lent, SourceBuffer, TargetBuffer, bytes_mut};
use loom_core::error::OpenError;
use loom_core::transport::Transport;

use super::entries::Entries;

/// A buffer whose memory is registered in a [`MrCache`](super::MrCache), and which is posted like any other: it brings the
/// region's descriptor along.
///
/// Dropping it, or taking the buffer out, leaves the region to the cache. Forgetting it makes the region stay as long as the cache.
pub struct Cached<'c, 'd, T: Transport, B: Buffer> {
    /// First: the region has lost its user when the buffer is dropped.
    user: User<'c, 'd, T>,
    buf: B,
}

/// A user of an entry, or of none: empty buffers need no region, and those that bring a descriptor have one.
pub(super) struct User<'c, 'd, T: Transport> {
    entries: &'c Entries<'d, T>,
    entry: Option<u32>,
}

impl<'c, 'd, T: Transport> User<'c, 'd, T> {
    /// The one whom [`Entries::enter`] or [`Entries::open`] has counted, if there is an entry.
    pub(super) const fn new(entries: &'c Entries<'d, T>, entry: Option<u32>) -> Self {
        User { entries, entry }
    }
}

impl<T: Transport> Drop for User<'_, '_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            self.entries.leave(entry);
        }
    }
}

impl<'c, 'd, T: Transport, B: Buffer> Cached<'c, 'd, T, B> {
    pub(super) const fn new(user: User<'c, 'd, T>, buf: B) -> Self {
        Cached { user, buf }
    }

    /// The descriptor of the region in the cache, if the buffer needs one: it is not empty, and does not bring its own.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    #[inline]
    pub fn descriptor(&self) -> Option<Descriptor> {
        self.user.entries.descriptor(self.user.entry?)
    }

    /// The memory, if it is initialised, may be written, and is the host's.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        bytes_mut(&mut self.buf)
    }

    /// The buffer; the region stays in the cache.
    #[must_use]
    #[inline]
    pub fn into_inner(self) -> B {
        self.buf
    }
}

/// The buffer, to be looked at: it cannot be changed for another.
impl<T: Transport, B: Buffer> Deref for Cached<'_, '_, T, B> {
    type Target = B;

    #[inline]
    fn deref(&self) -> &B {
        &self.buf
    }
}

// SAFETY: the range is the buffer's own, which does not change. The entry's region covers it and its headroom, and is open as long as the
// entry has this user (invariant 4 of the entries); the cache, which would close it, is borrowed.
unsafe impl<T: Transport, B: Buffer> Buffer for Cached<'_, '_, T, B> {
    #[inline]
    fn lend(&mut self) -> Lent {
        let lent = self.buf.lend();
        match self.descriptor() {
            Some(descriptor) => lent.with_descriptor(descriptor),
            None => lent,
        }
    }
}
impl<T: Transport, B: SourceBuffer> SourceBuffer for Cached<'_, '_, T, B> {}
impl<T: Transport, B: TargetBuffer> TargetBuffer for Cached<'_, '_, T, B> {}

impl<T: Transport, B: Buffer> fmt::Debug for Cached<'_, '_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("descriptor", &self.descriptor()).finish_non_exhaustive()
    }
}

/// Why a cache did not register a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheError {
    /// All regions, or all bytes, that the cache may have are in use: buffers have to be dropped first.
    InUse,
    /// The pages of the buffer are more bytes than the cache may have.
    TooLong {
        /// The most.
        limit: usize,
    },
    /// The memory is a device's.
    DeviceMemory,
    /// It lends nothing by itself ([`OpenError::Access`]): of an array of buffers each is registered. Or the provider
    /// refused.
    Open(OpenError),
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheError::InUse => f.write_str("all that the cache may register is in use"),
            CacheError::TooLong { limit } => write!(f, "the cache may register {limit} bytes"),
            CacheError::DeviceMemory => f.write_str("the memory of devices is not cached"),
            CacheError::Open(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl core::error::Error for CacheError {}

impl From<CacheError> for Error {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::InUse => Error::Full("the registrations of the cache: buffers have to be dropped first"),
            CacheError::TooLong { .. } => Error::Invalid("the buffer has more pages than the cache may register"),
            CacheError::DeviceMemory => Error::Open(OpenError::DeviceMemory),
            CacheError::Open(error) => Error::Open(error),
        }
    }
}
