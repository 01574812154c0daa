//! [`Parts`]: splitting leases, joining what was split, and when the last part has ended.

#![allow(unsafe_code, reason = "takes leases apart without dropping them")]

use core::cell::Cell;
use core::fmt;

use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use loom_core::Error;

use super::lease::Lease;
use crate::sharing::Sharing;

/// Of a buffer that was taken and cut into parts: how many parts there are besides the first one. Fewer than 2^32.
pub(crate) trait Parts {
    /// One part has become two.
    fn split(&self);

    /// Two parts have become one.
    fn joined(&self);

    /// A part has ended. Whether it was the last one; then the number is zero again.
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
    // Relaxed: the thread that splits a part, or joins two, has them, and does nothing that another has to see. What is in them
    // goes from thread to thread with the parts.

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
        // Release: what was done with the part comes before the whole is taken again. Acquire: the same of the other parts, for
        // the thread that ends the last one and puts the whole on the list.
        let last = self.fetch_sub(1, Ordering::AcqRel) == 0;
        if last {
            // Relaxed: no part is held any more, and the list publishes it to the next one who has.
            self.store(0, Ordering::Relaxed);
        }
        last
    }
}

/// Two leases that could not become one: both are as they were.
pub struct NotJoined<B> {
    /// The lease that was to be extended.
    pub lease: B,
    /// The one that was to become a part of it.
    pub other: B,
}

impl<'s, L: Sharing> Lease<'s, L> {
    /// Makes two leases of one, in constant time: one of the bytes before this one, counted from the lease's begin, and one of the rest. Data
    /// goes where it lies. The buffer goes back to the slab when all of its parts have been dropped.
    ///
    /// # Errors
    /// The lease comes back if one of the two would have no bytes.
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

    /// Makes one lease of two neighbours in a buffer, whichever comes first, in constant time: what [`split`](Self::split) undoes.
    ///
    /// # Errors
    /// Both come back if they do not lie side by side in one buffer, or if both have data and something else lies between.
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

impl<B> fmt::Display for NotJoined<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the two leases are not neighbours in one buffer")
    }
}

impl<B> core::error::Error for NotJoined<B> {}

/// The leases are dropped.
impl<B> From<NotJoined<B>> for Error {
    fn from(_: NotJoined<B>) -> Self {
        Error::Invalid("the two leases are not neighbours in one buffer")
    }
}
