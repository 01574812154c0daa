#![allow(unsafe_code, reason = "hands out the memory of a static, once")]

use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::arena::Arena;
use crate::locked::Locked;

/// [`Arena`] of `N` bytes in a `static`, for objects that require `&'static Arena<'static>`.
///
/// ```
/// use loom_alloc::StaticArena;
///
/// static MEMORY: StaticArena<4096> = StaticArena::new();
///
/// let arena = MEMORY.take().expect("it is taken once");
/// assert_eq!((arena.capacity(), arena.used()), (4096, 0));
/// assert!(MEMORY.take().is_none());
/// ```
#[repr(C, align(64))]
pub struct StaticArena<const N: usize> {
    /// First field, at a multiple of 64.
    bytes: UnsafeCell<[MaybeUninit<u8>; N]>,
    arena: UnsafeCell<MaybeUninit<Locked<Arena<'static>>>>,
    taken: AtomicBool,
}

// SAFETY: only the thread that set `taken` accesses the cells. Its reference is not `Sync`, or has
// a lock.
unsafe impl<const N: usize> Sync for StaticArena<N> {}

impl<const N: usize> StaticArena<N> {
    /// Creates the arena.
    #[must_use]
    pub const fn new() -> Self {
        StaticArena {
            bytes: UnsafeCell::new([MaybeUninit::uninit(); N]),
            arena: UnsafeCell::new(MaybeUninit::uninit()),
            taken: AtomicBool::new(false),
        }
    }

    /// Arena, to the first caller only.
    pub fn take(&'static self) -> Option<&'static Arena<'static>> {
        Some(self.take_once()?.get_mut())
    }

    /// Arena with a lock, to the first caller only.
    ///
    /// ```
    /// use loom_alloc::{Locked, StaticArena};
    /// use loom_alloc::allocator_api2::boxed::Box;
    ///
    /// static MEMORY: StaticArena<4096> = StaticArena::new();
    ///
    /// let arena = MEMORY.take_shared().expect("it is taken once");
    /// let thread = std::thread::spawn(move || Box::try_new_in(7, arena));
    /// assert_eq!(*thread.join().expect("no panic")?, 7);
    /// assert!(MEMORY.take().is_none());
    /// # Ok::<_, loom_alloc::allocator_api2::alloc::AllocError>(())
    /// ```
    pub fn take_shared(&'static self) -> Option<&'static Locked<Arena<'static>>> {
        self.take_once().map(|arena| &*arena)
    }

    #[allow(clippy::mut_from_ref, reason = "it is given to one, once")]
    fn take_once(&'static self) -> Option<&'static mut Locked<Arena<'static>>> {
        // Relaxed: publishes no memory.
        if self.taken.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: `taken` changes to true once, so this reference is the only one.
        let bytes = unsafe { &mut *self.bytes.get() };
        // SAFETY: the only reference, by `taken`.
        let arena = unsafe { &mut *self.arena.get() };
        Some(arena.write(Locked::new(Arena::new(bytes))))
    }
}

impl<const N: usize> Default for StaticArena<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> fmt::Debug for StaticArena<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticArena")
            .field("capacity", &N)
            .field("taken", &self.taken.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use allocator_api2::alloc::{Allocator, Layout};

    use super::*;

    #[test]
    fn one_of_many_threads_gets_it() {
        static MEMORY: StaticArena<100> = StaticArena::new();
        let winners: usize = thread::scope(|scope| {
            let threads: [_; 8] = core::array::from_fn(|_| {
                scope.spawn(|| {
                    MEMORY.take().map_or(0, |arena| {
                        assert!(arena.allocate(Layout::new::<[u8; 100]>()).is_ok(), "it begins aligned");
                        assert!(arena.allocate(Layout::new::<u8>()).is_err());
                        1
                    })
                })
            });
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(winners, 1);
        assert!(MEMORY.take().is_none());
    }
}
