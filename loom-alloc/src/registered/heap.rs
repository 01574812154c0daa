#![allow(unsafe_code, reason = "hands out registered memory through an allocator")]

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;

use allocator_api2::alloc::{AllocError, Allocator};
use loom_core::buffer::{Buffer, Descriptor, RegisteredAllocator};
use loom_core::domain::Domain;
use loom_core::error::OpenError;
use loom_core::registered::Registered;
use loom_core::transport::Transport;

use super::zeroed::Zeroed;

/// Registered memory for a [`RegisteredHeap`], not readable: a heap may leave it uninitialised.
pub struct HeapMemory<'d, T: Transport, A: Allocator>(Registered<'d, T, Zeroed<A>>);

impl<'d, T: Transport, A: Allocator> HeapMemory<'d, T, A> {
    /// Allocates memory and registers it for local use.
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`], or the provider's refusal.
    #[doc(alias = "fi_mr_reg")]
    pub fn open_in(domain: &Domain<'d, T>, layout: Layout, alloc: A) -> Result<Self, OpenError> {
        let memory = Registered::new(domain, Zeroed::new_in(layout, alloc)?).map_err(|refused| refused.error)?;
        Ok(HeapMemory(memory))
    }
}

impl<T: Transport, A: Allocator> fmt::Debug for HeapMemory<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Allocator over registered memory. A `Box<[u8], &RegisteredHeap>` or `Vec<u8, &RegisteredHeap>`
/// is posted with its descriptor.
///
/// `inner` hands out the memory. Blocks from elsewhere are posted as unregistered memory.
///
/// A `Vec` that cannot grow ends the process: use `try_reserve`.
///
/// ```
/// use core::alloc::Layout;
///
/// use loom_alloc::Arena;
/// use loom_alloc::allocator_api2::{alloc::Global, vec::Vec};
/// use loom_alloc::registered::{HeapMemory, RegisteredHeap};
/// use loom_core::error::PostError;
/// use loom_core::{Cq, CqAttr, Forever, scope};
/// # use loom_core::soft::{RequiredModes, Network, NetworkAttr};
/// # use loom_core::{Av, Domain, Source};
/// # let network = Network::new(NetworkAttr::default())?;
/// # // Like hardware, the network refuses unregistered buffers.
/// # let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION))?;
/// # let av = Av::open(&domain, 1)?;
///
/// let mut memory = HeapMemory::open_in(&domain, Layout::new::<[u64; 512]>(), Global)?;
/// let heap = RegisteredHeap::new(&mut memory, Arena::new);
/// // The heap outlives the queue, whose operations use its memory.
/// scope(|s| {
///     let cq = Cq::open(&s.domain(&domain), CqAttr::new(16))?;
/// #   let endpoint = cq.endpoint(&av)?;
/// #   let me = av.insert(&endpoint.address()?)?;
/// #   let mut room = Vec::new_in(&heap);
/// #   room.resize(5, 0);
/// #   let received = endpoint.recv(Source::Any, room).map_err(PostError::from)?;
///     let mut message = Vec::new_in(&heap);
///     message.extend_from_slice(b"hello");
///     cq.post(message, Forever, |message| endpoint.send(me, message)).map_err(PostError::from)?;
/// #   assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
///     Ok::<_, std::boxed::Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<_, std::boxed::Box<dyn std::error::Error>>(())
/// ```
pub struct RegisteredHeap<'h, I> {
    inner: I,
    begin: usize,
    len: usize,
    descriptor: Descriptor,
    /// Keeps the memory borrowed, whatever `I` borrows.
    memory: PhantomData<&'h mut [MaybeUninit<u8>]>,
}

impl<'h, I> RegisteredHeap<'h, I> {
    /// Creates an allocator, with `inner` over the registered bytes.
    pub fn new<T: Transport, A: Allocator>(
        memory: &'h mut HeapMemory<'_, T, A>,
        inner: impl FnOnce(&'h mut [MaybeUninit<u8>]) -> I,
    ) -> Self {
        let descriptor = memory.0.descriptor();
        let lent = memory.0.lend();
        // SAFETY: the block belongs to the memory, which is borrowed for `'h` and read only through
        // blocks of the allocator: it may stay uninitialised.
        let bytes = unsafe { slice::from_raw_parts_mut(lent.ptr.as_ptr().cast(), lent.len) };
        RegisteredHeap {
            inner: inner(bytes),
            begin: lent.ptr.addr().get(),
            len: lent.len,
            descriptor,
            memory: PhantomData,
        }
    }

    /// Inner allocator.
    pub const fn inner(&self) -> &I {
        &self.inner
    }

    /// Local descriptor of the region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.descriptor
    }
}

// SAFETY: forwards to an allocator that is borrowed for as long and does not move.
unsafe impl<'a, I> Allocator for &'a RegisteredHeap<'_, I>
where
    &'a I: Allocator,
{
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        (&self.inner).allocate(layout)
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        (&self.inner).allocate_zeroed(layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { (&self.inner).deallocate(block, layout) }
    }

    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow`.
        unsafe { (&self.inner).grow(block, old, new) }
    }

    #[inline]
    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        unsafe { (&self.inner).grow_zeroed(block, old, new) }
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::shrink`.
        unsafe { (&self.inner).shrink(block, old, new) }
    }
}

// SAFETY: the region covers the memory and is open while the heap borrows it.
unsafe impl<'a, I> RegisteredAllocator for &'a RegisteredHeap<'_, I>
where
    &'a I: Allocator,
{
    #[inline]
    fn descriptor_of(&self, block: NonNull<[u8]>) -> Option<Descriptor> {
        let offset = block.cast::<u8>().addr().get().checked_sub(self.begin)?;
        (offset.checked_add(block.len())? <= self.len).then_some(self.descriptor)
    }
}

impl<I: fmt::Debug> fmt::Debug for RegisteredHeap<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredHeap").field("inner", &self.inner).field("len", &self.len).finish_non_exhaustive()
    }
}
