//! Memory of objects, from the caller's allocator.

#![allow(unsafe_code, reason = "allocation through `Allocator`")]

pub(crate) mod block_slice;
pub(crate) mod handle;

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use crate::error::OpenError;
use crate::util::debug::debug_struct;

pub(crate) struct Block<A: Allocator> {
    ptr: NonNull<u8>,
    layout: Layout,
    alloc: ManuallyDrop<A>,
}

// SAFETY: the block owns its memory, and only the allocator depends on the thread.
unsafe impl<A: Allocator + Send> Send for Block<A> {}
// SAFETY: a shared block exposes only its address and layout.
unsafe impl<A: Allocator + Sync> Sync for Block<A> {}

impl<A: Allocator> Block<A> {
    pub(crate) fn new(layout: Layout, alloc: A) -> Result<Self, OpenError> {
        match alloc.allocate(layout) {
            Ok(ptr) => Ok(Block { ptr: ptr.cast(), layout, alloc: ManuallyDrop::new(alloc) }),
            Err(_) => Err(OpenError::OutOfMemory),
        }
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }
}

debug_struct!([A: Allocator] Block[A], |it| layout: it.layout);

impl<A: Allocator> Drop for Block<A> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout from this allocator.
        unsafe { self.alloc.deallocate(self.ptr, self.layout) };
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.alloc) };
    }
}

pub(crate) fn extend(layout: Layout, part: Layout) -> Result<(Layout, usize), OpenError> {
    layout.extend(part).map_err(|_| OpenError::Size)
}

pub(crate) fn array<V>(count: usize) -> Result<Layout, OpenError> {
    Layout::array::<V>(count).map_err(|_| OpenError::Size)
}

/// # Safety
/// `at` is aligned and has room for `len` values, which nothing else refers to.
pub(crate) unsafe fn fill<V>(at: NonNull<u8>, len: usize, value: impl Fn(usize) -> V) -> NonNull<[V]> {
    let first = at.cast::<V>();
    for number in 0..len {
        // SAFETY: `number` is below `len`, and the caller guarantees room.
        let place = unsafe { first.add(number) };
        // SAFETY: the caller guarantees alignment and room for `len` values.
        unsafe { place.write(value(number)) };
    }
    NonNull::slice_from_raw_parts(first, len)
}

pub(crate) struct Part<V> {
    pub(crate) at: usize,
    pub(crate) len: usize,
    values: PhantomData<V>,
}

impl<V> Part<V> {
    pub(crate) fn of(block: &mut Layout, len: usize) -> Result<Self, OpenError> {
        let (layout, at) = extend(*block, array::<V>(len)?)?;
        *block = layout;
        Ok(Part { at, len, values: PhantomData })
    }

    /// # Safety
    /// The block has the extended layout, and nothing else refers to this part of it.
    pub(crate) unsafe fn fill(&self, block: NonNull<u8>, value: impl Fn(usize) -> V) -> NonNull<[V]> {
        // SAFETY: the caller guarantees that the part lies within the block.
        let at = unsafe { block.add(self.at) };
        // SAFETY: the part has aligned room for `len` values, and the caller guarantees the rest.
        unsafe { fill(at, self.len, value) }
    }

    /// # Safety
    /// The requirements of [`fill`](Self::fill), and the part belongs to the slice for `'s`.
    pub(crate) unsafe fn slice<'s>(&self, block: NonNull<u8>, value: impl Fn(usize) -> V) -> &'s mut [V] {
        // SAFETY: the caller keeps the requirements of `fill`.
        let mut values = unsafe { self.fill(block, value) };
        // SAFETY: the values are written, and the caller guarantees that they belong to the slice.
        unsafe { values.as_mut() }
    }
}

/// Fixed number of values in a block of their own, from the caller's allocator.
///
/// ```
/// use loom_core::{allocator_api2::alloc::Global, storage::Array};
///
/// // The array allocates once.
/// let mut squares = Array::new_in(4, Global, |number| number * number)?;
/// squares[0] = 7;
/// assert_eq!(&squares[..], [7, 1, 4, 9]);
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
pub struct Array<V, A: Allocator> {
    first: NonNull<V>,
    len: usize,
    /// Freed after the values are dropped.
    _block: Block<A>,
}

// SAFETY: the array owns its values and its memory. Only the values and the allocator depend on the
// thread.
unsafe impl<V: Send, A: Allocator + Send> Send for Array<V, A> {}
// SAFETY: a shared array exposes only shared references to its values.
unsafe impl<V: Sync, A: Allocator + Sync> Sync for Array<V, A> {}

impl<V, A: Allocator> Array<V, A> {
    /// Creates `len` values, each from its index.
    ///
    /// # Errors
    /// [`OpenError::Size`], [`OpenError::OutOfMemory`], and those of `value`, after which earlier
    /// values are dropped.
    pub fn try_new_in(
        len: usize,
        alloc: A,
        mut value: impl FnMut(usize) -> Result<V, OpenError>,
    ) -> Result<Self, OpenError> {
        let block = Block::new(array::<V>(len)?, alloc)?;
        let mut this = Array { first: block.ptr().cast::<V>(), len: 0, _block: block };
        while this.len < len {
            let value = value(this.len)?;
            // SAFETY: the block has room for `len` values, and is aligned for them.
            let place = unsafe { this.first.add(this.len) };
            // SAFETY: the block has room for `len` values, is aligned for them, and `this.len` is
            // below `len`.
            unsafe { place.write(value) };
            this.len += 1;
        }
        Ok(this)
    }

    /// [`try_new_in`](Self::try_new_in) with an infallible `value`.
    ///
    /// # Errors
    /// [`OpenError::Size`], [`OpenError::OutOfMemory`].
    pub fn new_in(len: usize, alloc: A, mut value: impl FnMut(usize) -> V) -> Result<Self, OpenError> {
        Self::try_new_in(len, alloc, |number| Ok(value(number)))
    }
}

impl<V, A: Allocator> core::ops::Deref for Array<V, A> {
    type Target = [V];

    #[inline]
    fn deref(&self) -> &[V] {
        // SAFETY: `len` values are written, and belong to the array.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.len).as_ref() }
    }
}

impl<V, A: Allocator> core::ops::DerefMut for Array<V, A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [V] {
        // SAFETY: `len` values are written, and belong to the array, which is borrowed exclusively.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.len).as_mut() }
    }
}

impl<V, A: Allocator> Drop for Array<V, A> {
    fn drop(&mut self) {
        // SAFETY: `len` values are written, and dropped once, here. The block is freed afterwards.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.len).drop_in_place() };
    }
}

impl<V: core::fmt::Debug, A: Allocator> core::fmt::Debug for Array<V, A> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
