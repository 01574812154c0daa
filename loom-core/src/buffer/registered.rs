#![allow(unsafe_code, reason = "an unsafe trait, and implementations of `Buffer`")]

use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::Descriptor;

/// Allocator of registered memory. `Box<[u8], A>` and `Vec<u8, A>` of allocator-api2 (feature
/// `std`) are posted without registration.
///
/// ```
/// # #![allow(unsafe_code)]
/// use core::ptr::NonNull;
/// use loom_core::{Forever, Source, allocator_api2::vec, buffer::{Descriptor, RegisteredAllocator}};
/// # use core::alloc::Layout;
/// # use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};
///
/// /// Heap, for providers that do not require registration.
/// #[derive(Clone, Copy)]
/// struct Heap;
/// # // SAFETY: as `Global`.
/// # unsafe impl Allocator for Heap {
/// #     fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
/// #         Global.allocate(layout)
/// #     }
/// #     unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
/// #         // SAFETY: the caller's promise.
/// #         unsafe { Global.deallocate(block, layout) }
/// #     }
/// # }
/// // SAFETY: there are no descriptors.
/// unsafe impl RegisteredAllocator for Heap {
///     fn descriptor_of(&self, _: NonNull<[u8]>) -> Option<Descriptor> { None }
/// }
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![in Heap; 0; 5])?;
/// # cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(&cq.finish(received, Forever)?.into_buf()[..], b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # Safety
/// If [`descriptor_of`](Self::descriptor_of) returns a descriptor for a block of this allocator, or
/// a part of one, then the region is open and covers the range while the block is allocated. If the
/// box or vector is forgotten, this holds for the allocator's lifetime.
pub unsafe trait RegisteredAllocator: Allocator {
    /// The descriptor of the region that contains these bytes, if any.
    #[doc(alias = "fi_mr_desc")]
    fn descriptor_of(&self, block: NonNull<[u8]>) -> Option<Descriptor>;
}

#[cfg(feature = "std")]
mod owned {
    use allocator_api2::boxed::Box;
    use allocator_api2::vec::Vec;

    use super::{NonNull, RegisteredAllocator};
    use crate::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};

    fn lent<A: RegisteredAllocator>(bytes: NonNull<[u8]>, alloc: &A) -> Lent {
        Lent { descriptor: alloc.descriptor_of(bytes), ..Lent::both(bytes.cast(), bytes.len()) }
    }

    // SAFETY: the box owns its bytes, and a move of the box does not move them.
    // `RegisteredAllocator` keeps the region open.
    unsafe impl<A: RegisteredAllocator> Buffer for Box<[u8], A> {
        #[inline]
        fn lend(&mut self) -> Lent {
            lent(NonNull::from_mut(&mut **self), Box::allocator(self))
        }
    }
    impl<A: RegisteredAllocator> SourceBuffer for Box<[u8], A> {}
    impl<A: RegisteredAllocator> TargetBuffer for Box<[u8], A> {}

    // SAFETY: the vector owns its bytes, and cannot grow while in flight. `RegisteredAllocator`
    // keeps the region open.
    unsafe impl<A: RegisteredAllocator> Buffer for Vec<u8, A> {
        #[inline]
        fn lend(&mut self) -> Lent {
            lent(NonNull::from_mut(self.as_mut_slice()), self.allocator())
        }
    }
    impl<A: RegisteredAllocator> SourceBuffer for Vec<u8, A> {}
    impl<A: RegisteredAllocator> TargetBuffer for Vec<u8, A> {}
}
