//! [`Owns`]: allocators that know their blocks.

#![allow(unsafe_code, reason = "an unsafe trait, on which freeing depends")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

/// Allocators that know whether a block is theirs: what [`Fallback`](crate::Fallback) asks of its first one.
///
/// It is a trait of the arena or pool itself, while a reference to it is the allocator.
///
/// # Safety
/// - For every block of at least one byte that is currently allocated through [`allocator`](Self::allocator), [`owns`](Self::owns)
///   is true. For one that is currently allocated anywhere else, it is false, unless that other place took its memory
///   from this allocator.
/// - A block that was taken through one reference can be given back through any other, and stays where it is until then, or until
///   the value is gone.
/// - Blocks are taken through references to the value alone, so that they are gone when it can be moved. (A handle that
///   can be copied must not implement this: there could be others who take blocks with a copy, and make allocators of them.)
pub unsafe trait Owns {
    /// The allocator, which borrows the arena or pool.
    fn allocator(&self) -> impl Allocator;

    /// Whether a block, of at least one byte, was taken from this allocator.
    fn owns(&self, block: NonNull<u8>, layout: Layout) -> bool;
}
