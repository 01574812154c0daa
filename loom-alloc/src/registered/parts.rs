#![allow(unsafe_code, reason = "takes leases apart without dropping them")]

use core::cell::Cell;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use loom_core::Error;

use super::lease::Lease;
use crate::sharing::Sharing;

/// Unchanged leases that were not joined.
pub struct NotJoined<B> {
    /// Lease to extend.
    pub lease: B,
    /// Lease to join to it.
    pub other: B,
}

impl<'s, L: Sharing> Lease<'s, L> {
    /// Splits off the first `at` bytes, in constant time. The buffer returns with the last part.
    ///
    /// # Errors
    /// The lease is returned if a part would be empty.
    #[inline]
    pub fn split(self, at: usize) -> Result<(Self, Self), Self> {
        let Ok(at) = u32::try_from(at) else { return Err(self) };
        if at == 0 || at >= self.end - self.start {
            return Err(self);
        }
        self.buffers.parts(self.number).into_iter().for_each(Parts::split);
        let whole = ManuallyDrop::new(self);
        let at = whole.start + at;
        let part = |start: u32, end: u32| {
            let [data, room] = [whole.data, whole.room].map(|place| place.clamp(start, end));
            let mut part = Lease { buffers: whole.buffers, number: whole.number, start, data, room, end };
            part.settle();
            part
        };
        Ok((part(whole.start, at), part(at, whole.end)))
    }

    /// Joins two neighbours in any order, in constant time.
    ///
    /// # Errors
    /// Both are returned if they, or their data, are not adjacent in one buffer.
    #[inline]
    pub fn rejoin(self, other: Self) -> Result<Self, NotJoined<Self>> {
        let same = ptr::eq(self.buffers, other.buffers) && self.number == other.number;
        let (first, second) = if self.start < other.start { (&self, &other) } else { (&other, &self) };
        let (data, room) = match (first.has_data(), second.has_data()) {
            (true, true) => (first.data, second.room),
            (true, false) => (first.data, first.room),
            (false, true) => (second.data, second.room),
            (false, false) => (first.start, first.start),
        };
        let gap = first.has_data() && second.has_data() && first.room != second.data;
        if !same || first.end != second.start || gap {
            return Err(NotJoined { lease: self, other });
        }
        let (start, end) = (first.start, second.end);
        let other = ManuallyDrop::new(other);
        let joined = Lease { start, data, room, end, ..*ManuallyDrop::new(self) };
        joined.buffers.parts(other.number).into_iter().for_each(Parts::joined);
        Ok(joined)
    }
}

impl<B> fmt::Debug for NotJoined<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotJoined").finish_non_exhaustive()
    }
}

/// Drops both leases.
impl<B> From<NotJoined<B>> for Error {
    fn from(_: NotJoined<B>) -> Self {
        Error::Invalid("the two leases are not neighbours in one buffer")
    }
}

pub(crate) trait Parts {
    fn split(&self);

    fn joined(&self);

    fn ended(&self) -> bool;
}

impl Parts for Cell<u32> {
    #[inline]
    fn split(&self) {
        self.set(self.get().wrapping_add(1));
    }

    #[inline]
    fn joined(&self) {
        self.set(self.get().wrapping_sub(1));
    }

    #[inline]
    fn ended(&self) -> bool {
        let left = self.get().checked_sub(1);
        self.set(left.unwrap_or(0));
        left.is_none()
    }
}

impl Parts for AtomicU32 {
    // Relaxed: the thread owns the parts, whose contents move between threads with them.

    #[inline]
    fn split(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn joined(&self) {
        self.fetch_sub(1, Ordering::Relaxed);
    }

    #[inline]
    fn ended(&self) -> bool {
        // Release: this part's use comes before the buffer is taken again. Acquire: pairs with the
        // release of the other parts, before the last one returns the buffer.
        let last = self.fetch_sub(1, Ordering::AcqRel) == 0;
        if last {
            // Relaxed: no part exists, and the list publishes it.
            self.store(0, Ordering::Relaxed);
        }
        last
    }
}
