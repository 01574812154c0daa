#![allow(unsafe_code, reason = "forwards from one version of an unsafe trait to another")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use allocator_api2_02::alloc::{AllocError as AllocError02, Allocator as Allocator02};

/// Adapts an allocator of allocator-api2 0.2 to 0.4, which loom uses.
///
/// ```
/// use bumpalo::Bump;
/// use loom_alloc::V02;
/// use loom_alloc::registered::{Slab, SlabAttr};
/// use loom_core::domain::Domain;
/// use loom_core::soft::{Network, NetworkAttr};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let bump = Bump::new();
/// let attr = SlabAttr::new(16, 256);
/// let slab = Slab::open_in(&domain, attr, V02(&bump))?;
/// assert!(bump.allocated_bytes() >= attr.memory()?.size() + attr.table()?.size());
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default)]
pub struct V02<A>(pub A);

// SAFETY: both versions of the trait have one contract.
unsafe impl<A: Allocator02> Allocator for V02<A> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.allocate(layout).map_err(|_| AllocError)
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.allocate_zeroed(layout).map_err(|_| AllocError)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { self.0.deallocate(block, layout) }
    }

    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow`.
        unsafe { self.0.grow(block, old, new) }.map_err(|_| AllocError)
    }

    #[inline]
    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        unsafe { self.0.grow_zeroed(block, old, new) }.map_err(|_| AllocError)
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::shrink`.
        unsafe { self.0.shrink(block, old, new) }.map_err(|_| AllocError)
    }
}

/// Adapts an allocator of allocator-api2 0.4 to 0.2, for example for collections of `hashbrown`.
///
/// ```
/// use core::mem::MaybeUninit;
///
/// use hashbrown::{DefaultHashBuilder, HashMap};
/// use loom_alloc::{Arena, V04};
///
/// let mut memory = [MaybeUninit::uninit(); 4096];
/// let arena = Arena::new(&mut memory);
/// let mut peers = HashMap::with_hasher_in(DefaultHashBuilder::default(), V04(&arena));
/// peers.insert("192.0.2.1", 7);
/// assert_eq!(peers["192.0.2.1"], 7);
/// assert!(arena.used() > 0);
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default)]
pub struct V04<A>(pub A);

// SAFETY: both versions of the trait have one contract.
unsafe impl<A: Allocator> Allocator02 for V04<A> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError02> {
        self.0.allocate(layout).map_err(|_| AllocError02)
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError02> {
        self.0.allocate_zeroed(layout).map_err(|_| AllocError02)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { self.0.deallocate(block, layout) }
    }

    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError02> {
        // SAFETY: the caller upholds `Allocator::grow`.
        unsafe { self.0.grow(block, old, new) }.map_err(|_| AllocError02)
    }

    #[inline]
    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError02> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        unsafe { self.0.grow_zeroed(block, old, new) }.map_err(|_| AllocError02)
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError02> {
        // SAFETY: the caller upholds `Allocator::shrink`.
        unsafe { self.0.shrink(block, old, new) }.map_err(|_| AllocError02)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use bumpalo::Bump;

    use super::*;

    #[test]
    fn every_method_reaches_the_allocator() {
        let bump = Bump::new();
        let allocator = V02(&bump);
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let block = allocator.allocate_zeroed(layout(8)).unwrap();
        // SAFETY: allocated with this layout.
        let grown = unsafe { allocator.grow_zeroed(block.cast(), layout(8), layout(64)) }.unwrap();
        // SAFETY: zeroed.
        assert_eq!(unsafe { grown.as_ref() }, [0; 64]);
        // SAFETY: allocated with this layout.
        let grown = unsafe { allocator.grow(grown.cast(), layout(64), layout(128)) }.unwrap();
        // SAFETY: copied zeros.
        assert_eq!(unsafe { &grown.as_ref()[..64] }, [0; 64]);
        // SAFETY: allocated with this layout.
        let shrunk = unsafe { allocator.shrink(grown.cast(), layout(128), layout(16)) }.unwrap();
        assert!(shrunk.len() >= 16);
        // SAFETY: allocated with this layout.
        unsafe { allocator.deallocate(shrunk.cast(), layout(16)) };
        assert!(bump.allocated_bytes() > 0);
    }

    #[test]
    fn every_method_reaches_the_allocator_through_both_adapters() {
        let bump = Bump::new();
        let allocator = V04(V02(&bump));
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let block = allocator.allocate_zeroed(layout(8)).unwrap();
        // SAFETY: allocated with this layout.
        let grown = unsafe { allocator.grow_zeroed(block.cast(), layout(8), layout(64)) }.unwrap();
        // SAFETY: zeroed.
        assert_eq!(unsafe { grown.as_ref() }, [0; 64]);
        // SAFETY: allocated with this layout.
        let grown = unsafe { allocator.grow(grown.cast(), layout(64), layout(128)) }.unwrap();
        // SAFETY: allocated with this layout.
        let shrunk = unsafe { allocator.shrink(grown.cast(), layout(128), layout(16)) }.unwrap();
        // SAFETY: copied zeros.
        assert_eq!(unsafe { &shrunk.as_ref()[..16] }, [0; 16]);
        // SAFETY: allocated with this layout.
        unsafe { allocator.deallocate(shrunk.cast(), layout(16)) };
        assert!(bump.allocated_bytes() > 0);
    }

    #[test]
    fn exhaustion_is_an_error() {
        let bump = Bump::with_capacity(0);
        bump.set_allocation_limit(Some(0));
        assert!(V02(&bump).allocate(Layout::new::<[u8; 1 << 20]>()).is_err());
        assert!(V04(V02(&bump)).allocate(Layout::new::<[u8; 1 << 20]>()).is_err());
    }
}
