//! [`Arena`] and [`OwnedArena`]: memory handed out from its begin to its end.

#![allow(unsafe_code, reason = "makes arenas over the memory that they borrow, or have")]

mod bump;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::std_instead_of_alloc, reason = "tests fail by panicking, and have std")]
mod tests;

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::block::Block;
pub use bump::BumpArena;

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
pub type Arena<'m> = BumpArena<Borrowed<'m>>;

/// Why the memory of an [`Arena`] is there.
#[allow(unnameable_types, reason = "programs do not need to name it")]
#[derive(Debug)]
pub struct Borrowed<'m> {
    _memory: PhantomData<&'m mut [MaybeUninit<u8>]>,
}

impl<'m> Arena<'m> {
    /// An arena over this memory.
    #[must_use]
    pub const fn new(memory: &'m mut [MaybeUninit<u8>]) -> Self {
        let (capacity, base) = (memory.len(), NonNull::from_mut(memory).cast());
        // SAFETY: the memory is borrowed exclusively for `'m`, which no `Borrowed<'m>` outlives.
        unsafe { BumpArena::over(base, capacity, Borrowed { _memory: PhantomData }) }
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
pub type OwnedArena<A> = BumpArena<Owned<A>>;

/// Why the memory of an [`OwnedArena`] is there.
#[allow(unnameable_types, reason = "programs do not need to name it")]
#[derive(Debug)]
pub struct Owned<A: Allocator> {
    _block: Block<A>,
}

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
        // SAFETY: the block is the value's alone, stays where it is when that is moved, and is given back when it is dropped.
        Ok(unsafe { BumpArena::over(block.ptr(), capacity, Owned { _block: block }) })
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
