//! [`Owns`]: allocators that identify their blocks.

#![allow(unsafe_code, reason = "an unsafe trait, on which freeing depends")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

/// Allocators that identify their blocks, for [`Fallback`](crate::Fallback).
///
/// The arena or pool implements the trait. A reference to it is the allocator.
///
/// # Safety
/// - [`owns`](Self::owns) returns `true` for blocks of at least one byte currently allocated
///   through [`allocator`](Self::allocator), and `false` for blocks currently allocated elsewhere,
///   unless from memory of this allocator.
/// - A block can be freed through any reference. It keeps its address until then, or until the
///   value is dropped.
/// - Blocks are taken through references to the value, so they are gone when it can move. Copyable
///   handles must not implement this trait, because blocks taken through a copy could hold other
///   allocators.
pub unsafe trait Owns {
    /// Allocator, which borrows the arena or pool.
    fn allocator(&self) -> impl Allocator;

    /// Returns `true` if this allocator handed out the block, of at least one byte.
    fn owns(&self, block: NonNull<u8>, layout: Layout) -> bool;
}
