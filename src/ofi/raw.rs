use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use super::fork::process_number;

/// Number of this process, counted by [`fork`](super::fork).
pub(super) static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Pointer to an object of libfabric, with the process that opened it.
pub(crate) struct Raw<F> {
    object: NonNull<F>,
    opened_by: u32,
}

impl<F> Raw<F> {
    pub(crate) fn opened(object: NonNull<F>) -> Self {
        Raw { object, opened_by: process_number() }
    }

    #[inline(always)]
    pub(crate) fn is_here(self) -> bool {
        self.opened_by == NUMBER.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) const fn pointer(self) -> NonNull<F> {
        self.object
    }

    #[inline]
    pub(crate) const fn as_ptr(self) -> *mut F {
        self.object.as_ptr()
    }

    #[inline]
    pub(crate) const fn cast<G>(self) -> Raw<G> {
        Raw { object: self.object.cast(), opened_by: self.opened_by }
    }
}

impl<F> Clone for Raw<F> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Raw<F> {}

impl<F> PartialEq for Raw<F> {
    fn eq(&self, other: &Self) -> bool {
        (self.object, self.opened_by) == (other.object, other.opened_by)
    }
}

impl<F> fmt::Debug for Raw<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}
