#![allow(unsafe_code, reason = "implements `Buffer`, and shows its memory")]

use core::fmt;
use core::ops::Deref;

use loom_core::buffer::{Buffer, Descriptor, Lent, SourceBuffer, TargetBuffer, bytes_mut};
use loom_core::transport::Transport;

use super::entries::Entries;

/// Buffer registered in a [`MrCache`](super::MrCache), posted with the region's descriptor.
///
/// Dropping it leaves the region in the cache. Forgetting it keeps the region open.
pub struct Cached<'c, 'd, T: Transport, B: Buffer> {
    /// First field: the user leaves before the buffer is dropped.
    user: User<'c, 'd, T>,
    buf: B,
}

impl<'c, 'd, T: Transport, B: Buffer> Cached<'c, 'd, T, B> {
    /// Descriptor of the region, unless the buffer is empty or has its own.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    #[inline]
    pub fn descriptor(&self) -> Option<Descriptor> {
        self.user.entries.descriptor(self.user.entry?)
    }

    /// Memory of the buffer, if initialised, writable and of the host.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        bytes_mut(&mut self.buf)
    }

    /// Returns the buffer. The region stays cached.
    #[must_use]
    #[inline]
    pub fn into_inner(self) -> B {
        self.buf
    }

    pub(super) const fn new(user: User<'c, 'd, T>, buf: B) -> Self {
        Cached { user, buf }
    }
}

impl<T: Transport, B: Buffer> Deref for Cached<'_, '_, T, B> {
    type Target = B;

    #[inline]
    fn deref(&self) -> &B {
        &self.buf
    }
}

// SAFETY: lends the buffer's own, constant range. The entry's region covers it with headroom and is
// open while it has this user (invariant 4 of the entries). The cache is borrowed.
unsafe impl<T: Transport, B: Buffer> Buffer for Cached<'_, '_, T, B> {
    #[inline]
    fn lend(&mut self) -> Lent {
        let lent = self.buf.lend();
        match self.descriptor() {
            Some(descriptor) => Lent { descriptor: Some(descriptor), ..lent },
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

/// `None` for empty buffers, or with a descriptor.
pub(super) struct User<'c, 'd, T: Transport> {
    entries: &'c Entries<'d, T>,
    entry: Option<u32>,
}

impl<'c, 'd, T: Transport> User<'c, 'd, T> {
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
