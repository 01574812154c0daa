#![allow(unsafe_code, reason = "an unsafe trait, on which freeing depends")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

/// Allocators that identify their blocks, for [`Fallback`](crate::Fallback): a reference to the
/// implementing arena or pool allocates.
///
/// # Safety
/// - [`owns`](Self::owns) returns `true` for blocks of at least one byte currently allocated
///   through [`allocator`](Self::allocator), and `false` for blocks currently allocated elsewhere,
///   unless from memory of this allocator.
/// - A block can be freed through any reference. It keeps its address until then, or until the
///   value is dropped.
/// - Blocks are taken through references to the value, so they are gone when it can move. Copyable
///   handles must not implement this trait: blocks taken through a copy could hold other
///   allocators.
pub unsafe trait Owns {
    /// Reference that allocates.
    fn allocator(&self) -> impl Allocator;

    /// Returns `true` for a block of this allocator, of at least one byte.
    fn owns(&self, block: NonNull<u8>, layout: Layout) -> bool;
}
