#![allow(unsafe_code, reason = "forwards an unsafe trait")]

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::arena::BumpArena;
use crate::ownership::Owns;

/// [`Arena`](crate::Arena) or [`Pool`](crate::Pool) behind a spin lock.
///
/// `&Locked` is the allocator.
///
/// ```
/// use core::mem::MaybeUninit;
///
/// use loom_alloc::{Arena, Locked};
/// use loom_alloc::allocator_api2::boxed::Box;
///
/// let mut memory = [MaybeUninit::uninit(); 64];
/// let mut arena = Locked::new(Arena::new(&mut memory));
/// std::thread::scope(|scope| {
///     let threads = [1_u64, 2, 3].map(|number| {
///         let arena = &arena;
///         scope.spawn(move || Box::try_new_in(number, arena).map(|number| *number))
///     });
///     let sum: Result<u64, _> = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
///     assert_eq!(sum.expect("there is room"), 6);
/// });
/// assert!(arena.used() <= arena.high_water());
/// arena.get_mut().reset();
/// ```
pub struct Locked<A>(spin::Mutex<A>);

impl<A> Locked<A> {
    /// Adds a lock.
    #[must_use]
    pub const fn new(alloc: A) -> Self {
        Locked(spin::Mutex::new(alloc))
    }

    /// Inner allocator.
    pub fn get_mut(&mut self) -> &mut A {
        self.0.get_mut()
    }
}

impl<M> Locked<BumpArena<M>> {
    /// Size in bytes: [`BumpArena::capacity`].
    pub fn capacity(&self) -> usize {
        self.0.lock().capacity()
    }

    /// Bytes taken: [`BumpArena::used`].
    pub fn used(&self) -> usize {
        self.0.lock().used()
    }

    /// Bytes left: [`BumpArena::remaining`].
    pub fn remaining(&self) -> usize {
        self.0.lock().remaining()
    }

    /// Maximum bytes ever taken: [`BumpArena::high_water`].
    pub fn high_water(&self) -> usize {
        self.0.lock().high_water()
    }
}

// SAFETY: the inner allocator lives as long as the lock, accepts its blocks through any reference
// (`Owns`), and serves one thread at a time.
unsafe impl<A: Owns> Allocator for &Locked<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.lock().allocator().allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        let alloc = self.0.lock();
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { alloc.allocator().deallocate(block, layout) }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let alloc = self.0.lock();
        // SAFETY: the caller upholds `Allocator::grow`.
        unsafe { alloc.allocator().grow(block, old, new) }
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let alloc = self.0.lock();
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        unsafe { alloc.allocator().grow_zeroed(block, old, new) }
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let alloc = self.0.lock();
        // SAFETY: the caller upholds `Allocator::shrink`.
        unsafe { alloc.allocator().shrink(block, old, new) }
    }
}

// SAFETY: the inner allocator upholds `Owns`.
unsafe impl<A: Owns> Owns for Locked<A> {
    fn allocator(&self) -> impl Allocator {
        self
    }

    fn owns(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.0.lock().owns(block, layout)
    }
}

impl<A> fmt::Debug for Locked<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use core::fmt::Write;
    use core::mem::MaybeUninit;
    use std::thread;
    use std::vec::Vec;

    use allocator_api2::boxed::Box;
    use allocator_api2::vec::Vec as VecIn;

    use super::*;
    use crate::Arena;

    /// A lock while formatting would deadlock.
    #[test]
    fn its_text_can_be_written_to_memory_of_its_own() {
        struct Text<'l, 'm>(VecIn<u8, &'l Locked<Arena<'m>>>);

        impl Write for Text<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.try_reserve(text.len()).map_err(|_| fmt::Error)?;
                self.0.extend_from_slice(text.as_bytes());
                Ok(())
            }
        }

        let mut memory = [MaybeUninit::uninit(); 256];
        let arena = Locked::new(Arena::new(&mut memory));
        let mut text = Text(VecIn::new_in(&arena));
        assert_eq!(write!(text, "{arena:?}"), Ok(()));
        assert_eq!(&text.0[..], b"Locked { .. }");
    }

    #[test]
    fn threads_get_blocks_of_their_own() {
        const EACH: u64 = 100;
        let mut memory = [MaybeUninit::uninit(); 8 * 4 * 100 + 8];
        let arena = Locked::new(Arena::new(&mut memory));
        let numbers: Vec<_> = thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|own| {
                let arena = &arena;
                let make = move |number| Box::try_new_in(own * EACH + number, arena).expect("there is room");
                scope.spawn(move || (0..EACH).map(make).collect::<Vec<_>>())
            });
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(numbers.iter().zip(0..).all(|(number, expected)| **number == expected));
        assert!(numbers.iter().all(|number| arena.owns(NonNull::from(&**number).cast(), Layout::new::<u64>())));
        assert!(Box::try_new_in([0_u64; 2], &arena).is_err(), "and there is no more");
        assert!(arena.used() <= arena.high_water());
    }
}
