//! [`Ring`]: events of a queue, in memory of the caller.

use core::alloc::Layout;
use core::ptr::NonNull;

use loom_core::transport::Event;
use loom_core::vocabulary::Errno;

/// Ring of events.
#[derive(Debug)]
pub(crate) struct Ring {
    first: NonNull<Event>,
    capacity: u32,
    head: u32,
    len: u32,
}

impl Ring {
    pub(crate) fn layout(depth: usize) -> Layout {
        const TOO_MUCH: Layout = match Layout::from_size_align(isize::MAX.unsigned_abs(), 1) {
            Ok(layout) => layout,
            Err(_) => Layout::new::<Event>(),
        };
        Layout::array::<Event>(depth).unwrap_or(TOO_MUCH)
    }

    /// Returns `None` for a depth of zero, or above `u32::MAX`.
    ///
    /// # Safety
    /// The memory has the layout of `depth`, and stays while the ring is used.
    pub(crate) unsafe fn over(memory: NonNull<u8>, depth: usize) -> Option<Self> {
        let capacity = u32::try_from(depth).ok().filter(|depth| *depth > 0)?;
        Some(Ring { first: memory.cast(), capacity, head: 0, len: 0 })
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Adds an event, or returns `false` if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, event: Event) -> bool {
        if self.len == self.capacity {
            return false;
        }
        let at = self.head as usize + self.len as usize;
        let at = if at >= self.capacity as usize { at - self.capacity as usize } else { at };
        // SAFETY: `at` is below the capacity, and the caller of `over` guarantees the memory.
        let place = unsafe { self.first.add(at) };
        // SAFETY: the place belongs to the ring.
        unsafe { place.write(event) };
        self.len += 1;
        true
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<&Event> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: `head` is below the capacity.
        let place = unsafe { self.first.add(self.head as usize) };
        // SAFETY: `push` has written the event.
        Some(unsafe { place.as_ref() })
    }

    /// Removes the first event, if it is a success.
    #[inline]
    pub(crate) fn pop_success(&mut self) -> Result<Option<Event>, Errno> {
        match self.first() {
            None => Ok(None),
            Some(event) if event.is_error() => Err(Errno::EAVAIL),
            Some(_) => Ok(self.pop()),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let event = *self.first()?;
        self.head = if self.head + 1 == self.capacity { 0 } else { self.head + 1 };
        self.len -= 1;
        Some(event)
    }
}
