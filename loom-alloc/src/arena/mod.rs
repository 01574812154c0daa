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

/// Memory of the caller, handed out from front to back.
///
/// `&Arena` is the allocator, for one thread. The last block grows and shrinks in place and returns
/// its room. Other blocks stay used until [`reset`](Self::reset).
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

/// Borrow of an [`Arena`]'s memory.
#[allow(unnameable_types, reason = "programs do not need to name it")]
#[derive(Debug)]
pub struct Borrowed<'m> {
    _memory: PhantomData<&'m mut [MaybeUninit<u8>]>,
}

impl<'m> Arena<'m> {
    /// Creates an arena.
    #[must_use]
    pub const fn new(memory: &'m mut [MaybeUninit<u8>]) -> Self {
        let (capacity, base) = (memory.len(), NonNull::from_mut(memory).cast());
        // SAFETY: borrowed exclusively for `'m`, which no `Borrowed<'m>` outlives.
        unsafe { BumpArena::over(base, capacity, Borrowed { _memory: PhantomData }) }
    }
}

/// [`Arena`] over a block of another allocator, freed on drop.
///
/// `&OwnedArena` is the allocator.
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

/// Block of an [`OwnedArena`].
#[allow(unnameable_types, reason = "programs do not need to name it")]
#[derive(Debug)]
pub struct Owned<A: Allocator> {
    _block: Block<A>,
}

impl<A: Allocator> OwnedArena<A> {
    const ALIGN: usize = 64;

    /// Creates an arena over `capacity` bytes of `alloc`, aligned to 64 bytes (a cache line).
    ///
    /// # Errors
    /// [`AllocError`] if `alloc` has no such block.
    pub fn new_in(capacity: usize, alloc: A) -> Result<Self, AllocError> {
        let layout = Layout::from_size_align(capacity, Self::ALIGN).map_err(|_| AllocError)?;
        let block = Block::new(layout, alloc)?;
        // SAFETY: the value owns the block, which stays in place and is freed with it.
        Ok(unsafe { BumpArena::over(block.ptr(), capacity, Owned { _block: block }) })
    }
}

/// `Send` and not `Sync`:
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
