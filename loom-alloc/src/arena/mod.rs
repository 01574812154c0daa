//! [`Arena`] and [`OwnedArena`]: memory handed out from its begin to its end.

#![allow(unsafe_code, reason = "hands out parts of the memory that it borrows, or has")]

mod bump;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::std_instead_of_alloc, reason = "tests fail by panicking, and have std")]
mod tests;

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::block::Block;
use crate::owns::Owns;
use bump::Bump;

/// Memory of the caller, handed out from its begin to its end.
///
/// `&Arena` is the allocator. Taking a block is a handful of instructions. The last block can grow and shrink in place,
/// and gives its room back; the room of any other block that is given back stays used until the arena is reset. Objects of
/// loom are closed in the reverse order of opening, so their room does come back, down to the last gap that was left to align
/// a block.
///
/// All of it can be used anew once everything that was taken from it is gone ([`reset`](Self::reset)).
///
/// One thread uses it: it is not `Sync`.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
///
/// use loom_alloc::Arena;
/// use loom_alloc::allocator_api2::alloc::Allocator;
///
/// let mut memory = [MaybeUninit::uninit(); 64];
/// let arena = Arena::new(&mut memory);
/// let allocator = &arena;
/// let block = allocator.allocate(Layout::new::<[u8; 48]>())?;
/// assert_eq!((block.len(), arena.used(), arena.remaining()), (48, 48, 16));
/// assert!(allocator.allocate(Layout::new::<[u8; 17]>()).is_err());
/// # Ok::<_, loom_alloc::allocator_api2::alloc::AllocError>(())
/// ```
pub struct Arena<'m> {
    bump: Bump,
    memory: PhantomData<&'m mut [MaybeUninit<u8>]>,
}

// SAFETY: an arena is an exclusive borrow of bytes and two numbers. While blocks are out, their holders borrow the arena
// (they have `&Arena`, which is not `Send`), so it does not move to another thread.
unsafe impl Send for Arena<'_> {}

impl<'m> Arena<'m> {
    /// An arena over this memory.
    #[must_use]
    pub const fn new(memory: &'m mut [MaybeUninit<u8>]) -> Self {
        let capacity = memory.len();
        // The memory is borrowed exclusively for `'m` (invariant 1).
        Arena { bump: Bump::new(NonNull::from_mut(memory).cast(), capacity), memory: PhantomData }
    }

    /// How many bytes there are in all.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.bump.capacity()
    }

    /// How many bytes are handed out, with what lies between them.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.bump.used()
    }

    /// How many bytes are left; a block may need some of them for its alignment.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.capacity() - self.used()
    }

    /// The most bytes that were ever used: how large the arena has to be for what the program did until now.
    #[must_use]
    pub const fn high_water(&self) -> usize {
        self.bump.high_water()
    }

    /// Makes all of it free again. What took memory from the arena is gone by now: it borrows the arena for as long as it
    /// may look at that memory. The high-water mark stays.
    ///
    /// It is as if the arena were dropped, and another one made over the same memory. So a value that was forgotten is no
    /// danger: the borrow that it had is over, and with it everybody's right to look at it. Where a borrow never ends, as
    /// that of a `&'static Arena`, there is no exclusive one to call this with.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    ///
    /// use loom_alloc::Arena;
    /// use loom_alloc::allocator_api2::boxed::Box;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 64];
    /// let mut arena = Arena::new(&mut memory);
    /// for job in 0..100 {
    ///     let (one, two) = (Box::try_new_in([job; 4], &arena)?, Box::try_new_in([job; 4], &arena)?);
    ///     core::mem::forget(two);
    ///     drop(one);
    ///     assert_eq!(arena.used(), 32, "forgotten, and in the way of the other one");
    ///     arena.reset();
    /// }
    /// assert_eq!((arena.used(), arena.high_water()), (0, 32));
    /// # Ok::<_, loom_alloc::allocator_api2::alloc::AllocError>(())
    /// ```
    ///
    /// ```compile_fail,E0502
    /// use core::mem::MaybeUninit;
    ///
    /// use loom_alloc::Arena;
    /// use loom_alloc::allocator_api2::boxed::Box;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 64];
    /// let mut arena = Arena::new(&mut memory);
    /// let kept = Box::leak(Box::try_new_in(7, &arena).unwrap());
    /// arena.reset();
    /// assert_eq!(*kept, 7);
    /// ```
    pub fn reset(&mut self) {
        self.bump.reset();
    }
}

// SAFETY: blocks lie in memory that is borrowed for longer than the reference lives, wherever the reference is moved or
// copied, and do not overlap (invariants 1 and 2 of `Bump`).
unsafe impl Allocator for &Arena<'_> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        (&self.bump).allocate(layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { (&self.bump).deallocate(block, layout) }
    }

    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { (&self.bump).grow(block, old, new) }
    }

    #[inline]
    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { (&self.bump).grow_zeroed(block, old, new) }
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { (&self.bump).shrink(block, old, new) }
    }
}

// SAFETY: blocks lie in the arena's memory, which is borrowed exclusively; they are taken through references.
unsafe impl Owns for Arena<'_> {
    #[inline]
    fn allocator(&self) -> impl Allocator {
        self
    }

    fn owns(&self, block: NonNull<u8>, _: Layout) -> bool {
        self.bump.contains(block)
    }
}

impl fmt::Debug for Arena<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bump.fmt_as("Arena", f)
    }
}

/// An [`Arena`] over a block of another allocator, which it gives back when it is dropped.
///
/// `&OwnedArena` is the allocator. What dies together takes one block of the program's memory: of huge pages, say, or of a
/// larger arena.
///
/// ```
/// use loom_alloc::{Arena, OwnedArena};
/// use loom_alloc::allocator_api2::boxed::Box;
/// # let mut memory = [core::mem::MaybeUninit::uninit(); 4096];
/// let deployment = Arena::new(&mut memory);
/// let mut job = OwnedArena::new_in(1024, &deployment)?;
/// let first = Box::try_new_in([1_u64; 16], &job)?;
/// let second = Box::try_new_in(first[3], &job)?;
/// assert_eq!((*second, job.used()), (1, 136));
/// drop((first, second));
/// job.reset();
/// assert_eq!((job.used(), job.remaining()), (0, 1024));
/// drop(job);
/// assert!(deployment.used() < 64, "the block has gone back");
/// # Ok::<_, loom_alloc::allocator_api2::alloc::AllocError>(())
/// ```
pub struct OwnedArena<A: Allocator> {
    bump: Bump,
    _block: Block<A>,
}

// SAFETY: the arena has its memory alone, and two numbers. While blocks are out, their holders borrow the arena (they have
// `&OwnedArena`, which is not `Send`), so it does not move to another thread.
unsafe impl<A: Allocator + Send> Send for OwnedArena<A> {}

impl<A: Allocator> OwnedArena<A> {
    /// Where the memory begins: at a cache line.
    const ALIGN: usize = 64;

    /// An arena over `capacity` bytes of `alloc`, which begin at a cache line (64 bytes).
    ///
    /// # Errors
    /// [`AllocError`] if `alloc` has no such block.
    pub fn new_in(capacity: usize, alloc: A) -> Result<Self, AllocError> {
        let layout = Layout::from_size_align(capacity, Self::ALIGN).map_err(|_| AllocError)?;
        let block = Block::new(layout, alloc)?;
        // The block stays where it is, and is the arena's alone, until it is dropped with it (invariant 1).
        Ok(OwnedArena { bump: Bump::new(block.ptr(), capacity), _block: block })
    }

    /// How many bytes there are in all.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.bump.capacity()
    }

    /// How many bytes are handed out, with what lies between them.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.bump.used()
    }

    /// How many bytes are left; a block may need some of them for its alignment.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.capacity() - self.used()
    }

    /// The most bytes that were ever used: how large the arena has to be for what the program did until now.
    #[must_use]
    pub const fn high_water(&self) -> usize {
        self.bump.high_water()
    }

    /// Makes all of it free again, as [`Arena::reset`]. The block stays the arena's.
    pub fn reset(&mut self) {
        self.bump.reset();
    }
}

// SAFETY: blocks lie in a block that is the arena's until it is dropped, which a reference to it outlives nowhere, and do
// not overlap (invariants 1 and 2 of `Bump`).
unsafe impl<A: Allocator> Allocator for &OwnedArena<A> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        (&self.bump).allocate(layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { (&self.bump).deallocate(block, layout) }
    }

    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { (&self.bump).grow(block, old, new) }
    }

    #[inline]
    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { (&self.bump).grow_zeroed(block, old, new) }
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { (&self.bump).shrink(block, old, new) }
    }
}

// SAFETY: blocks lie in the arena's block, which it has alone; they are taken through references.
unsafe impl<A: Allocator> Owns for OwnedArena<A> {
    #[inline]
    fn allocator(&self) -> impl Allocator {
        self
    }

    fn owns(&self, block: NonNull<u8>, _: Layout) -> bool {
        self.bump.contains(block)
    }
}

impl<A: Allocator> fmt::Debug for OwnedArena<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bump.fmt_as("OwnedArena", f)
    }
}

/// `Send` and not `Sync`, as the documentation says:
///
/// ```
/// fn sends<T: Send>() {}
/// sends::<loom_alloc::Arena<'static>>();
/// ```
///
/// ```compile_fail,E0277
/// fn shares<T: Sync>() {}
/// shares::<loom_alloc::Arena<'static>>();
/// ```
///
/// ```compile_fail,E0277
/// fn shares<T: Sync>() {}
/// shares::<loom_alloc::OwnedArena<&loom_alloc::StaticPool<64, 1>>>();
/// ```
#[cfg(doctest)]
struct Threads;
