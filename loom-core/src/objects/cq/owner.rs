//! Who owns a queue and its memory: [`CqOwner`] for long, [`scope_in`] for the time of a call.

#![allow(unsafe_code, reason = "opens raw queues, and owns the memory that they and the op table lie in")]

use core::cell::{Cell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use heapless::Deque;

use super::signal::Signalled;
use super::{Cq, CqAttr, CqBody};
use crate::abort::OnFailedClose;
use crate::buffer::Buffer;
use crate::engine::op_table::{ContextKind, OpTable, Slot};
use crate::error::OpenError;
use crate::objects::domain::Domain;
use crate::objects::endpoint::Record;
use crate::storage::Block;
use crate::transport::{Claims, Transport};
use crate::vocabulary::{Caps, Errno, WaitObj};

impl<'d, T: Transport, B: Buffer> Cq<'d, T, B> {
    /// Opens a long-lived queue with memory of `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Size`] if the sizes do not fit into memory
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_cq_open")]
    pub fn open_in<A: Allocator + 'static, const N: usize>(
        domain: &'d Domain<T>,
        attr: CqAttr<N>,
        alloc: A,
    ) -> Result<CqOwner<'d, T, B, A, N>, OpenError>
    where
        B: 'static,
    {
        CqOwner::new(domain, attr, alloc, OnFailedClose::Leak)
    }

    /// [`Cq::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Cq::open_in`].
    #[cfg(feature = "std")]
    pub fn open<const N: usize>(
        domain: &'d Domain<T>,
        attr: CqAttr<N>,
    ) -> Result<CqOwner<'d, T, B, allocator_api2::alloc::Global, N>, OpenError>
    where
        B: 'static,
    {
        Self::open_in(domain, attr, allocator_api2::alloc::Global)
    }
}

/// Owns a completion queue: the only name that knows its depth `N` and its allocator `A`.
///
/// Dropping it closes the endpoints of the queue (forgotten ones too), drops the buffers in flight, closes the
/// queue and gives the memory back, in this order. Forgetting it leaks all of that, which is safe.
pub struct CqOwner<'d, T: Transport, B: Buffer, A: Allocator, const N: usize> {
    body: NonNull<CqBody<'d, T, B, [Slot<B>; N]>>,
    block: ManuallyDrop<Block<A>>,
    on_failed_close: OnFailedClose,
}

impl<'d, T: Transport, B: Buffer, A: Allocator, const N: usize> CqOwner<'d, T, B, A, N> {
    fn new(
        domain: &'d Domain<T>,
        attr: CqAttr<N>,
        alloc: A,
        on_failed_close: OnFailedClose,
    ) -> Result<Self, OpenError> {
        if attr.separate && attr.wait != WaitObj::NONE {
            // Nobody can sleep on two provider queues.
            return Err(Errno::EINVAL.into());
        }
        let places = attr.places::<T, B>()?;
        let attributes = domain.attributes();
        let asked = !domain.info().contexts().is_empty();
        let for_claims = attr.claims && T::conduct(domain.info().raw()).claims == Claims::InContexts;
        let kind = if asked || for_claims { ContextKind::Space } else { ContextKind::Word };
        let with_source = attributes.caps.contains(Caps::SOURCE);
        let events = CqAttr::<N>::events();
        // Events of a closed endpoint may lie in the provider's queue and in what the transport has read of it: rule 4
        // of the op table counts twice what the queue can hold.
        let horizon = u32::try_from(2 * events).map_err(|_| OpenError::Size)?;
        let block = Block::new(places.layout, alloc)?;
        let at = |offset: usize| {
            // SAFETY: the offset is one of the block's own layout.
            unsafe { block.ptr().add(offset) }
        };

        // SAFETY: the memory has the layout that the transport asked for, and stays until the queue is closed.
        let tx = unsafe { T::cq_open(domain.raw(), events, with_source, attr.wait, at(places.tx)) }?;
        let rx = if attr.separate {
            // SAFETY: as above, with memory of its own.
            match unsafe { T::cq_open(domain.raw(), events, with_source, attr.wait, at(places.rx)) } {
                Ok(rx) => Some(rx),
                Err(errno) => {
                    // SAFETY: opened above and not used.
                    if unsafe { T::cq_close(&tx) }.is_err() {
                        let _ = ManuallyDrop::new(block);
                        domain.child_opened();
                    }
                    return Err(errno.into());
                }
            }
        } else {
            None
        };

        let records = at(places.records).cast::<Record<'d, T>>();
        for index in 0..usize::from(attr.endpoints) {
            // SAFETY: the block has room for so many records.
            let record = unsafe { records.add(index) };
            // SAFETY: as above.
            unsafe { record.write(Record::closed()) };
        }
        let body = block.ptr().cast::<CqBody<'d, T, B, [Slot<B>; N]>>();
        let this = body.as_ptr();
        /// Writes a field of the body in place.
        macro_rules! set {
            ($field:ident, $value:expr) => {
                // SAFETY: the block begins with room for the body.
                unsafe { (&raw mut (*this).$field).write($value) }
            };
        }
        set!(domain, domain);
        set!(tx, tx);
        set!(consumes, domain.info().consumes_receives());
        let prefix = domain.info().prefixes().rx;
        set!(detours, rx.is_some() || prefix > 0);
        set!(rx, rx);
        set!(records, NonNull::slice_from_raw_parts(records, attr.endpoints.into()));
        set!(bystanders, RefCell::new(Deque::new()));
        set!(turn, Cell::new(false));
        set!(wait, attr.wait);
        set!(signalled, Signalled::not_yet());
        set!(has_signallers, Cell::new(false));
        set!(parent, PhantomData);
        // SAFETY: as above.
        let ops = unsafe { &raw mut (*this).ops };
        // SAFETY: as above.
        unsafe { OpTable::init(ops, kind, horizon) };
        domain.child_opened();
        domain.lingering().queue_opened();
        let owner = CqOwner { body, block: ManuallyDrop::new(block), on_failed_close };
        owner.ops().set_prefix(prefix);
        owner.ops().set_kept(owner.detours);
        Ok(owner)
    }
}

impl<'d, T: Transport, B: Buffer, A: Allocator, const N: usize> Deref for CqOwner<'d, T, B, A, N> {
    type Target = Cq<'d, T, B>;

    #[inline]
    fn deref(&self) -> &Cq<'d, T, B> {
        // SAFETY: written in `new`, and there until the owner is dropped.
        let body: &CqBody<'d, T, B, [Slot<B>; N]> = unsafe { self.body.as_ref() };
        body
    }
}

impl<T: Transport, B: Buffer, A: Allocator, const N: usize> Drop for CqOwner<'_, T, B, A, N> {
    fn drop(&mut self) {
        let domain = self.domain;
        // SAFETY: called once, here, and nobody borrows the owner.
        match unsafe { self.close(self.on_failed_close) } {
            Ok(()) => {
                // SAFETY: dropped once, here. Of the body's fields only `tx` and `rx` may own something, and raw
                // handles do not (no `Drop`, by `Transport`'s definition).
                unsafe { ManuallyDrop::drop(&mut self.block) };
            }
            Err(_) if self.on_failed_close == OnFailedClose::Leak => {}
            Err(_) if self.has_bound_regions() => {
                crate::abort::abort("a memory region was forgotten that is bound to an endpoint of a scope")
            }
            Err(_) => crate::abort::abort("a provider failed to close an endpoint or queue whose buffers are borrowed"),
        }
        domain.release();
    }
}

impl<T: Transport, B: Buffer, A: Allocator, const N: usize> fmt::Debug for CqOwner<'_, T, B, A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Opens a queue for the time of a call, with memory of `alloc`: for buffers and memory of any lifetime.
///
/// The closure gets the queue by reference, so it can neither keep nor forget it. Before this function returns or
/// unwinds, the queue's endpoints are closed, buffers in flight are dropped, and the queue is closed. If the provider
/// fails to close, or cannot close and goes on using what was lent (a long message over `shm` to an endpoint of another
/// thread that never receives it), the process is aborted: the borrows that were lent are about to end.
///
/// # Errors
/// - [`OpenError::OutOfMemory`] if the allocator has no room
/// - [`OpenError::Size`] if the sizes do not fit into memory
/// - [`OpenError::Errno`] if the provider refuses
#[doc(alias = "fi_cq_open")]
pub fn scope_in<'d, T: Transport, B: Buffer, A: Allocator, const N: usize, R>(
    domain: &'d Domain<T>,
    attr: CqAttr<N>,
    alloc: A,
    f: impl FnOnce(&Cq<'d, T, B>) -> R,
) -> Result<R, OpenError> {
    let owner = CqOwner::new(domain, attr, alloc, OnFailedClose::Abort)?;
    Ok(f(&owner))
}

/// [`scope_in`] with the global allocator.
///
/// # Errors
/// As [`scope_in`].
#[cfg(feature = "std")]
pub fn scope<'d, T: Transport, B: Buffer, const N: usize, R>(
    domain: &'d Domain<T>,
    attr: CqAttr<N>,
    f: impl FnOnce(&Cq<'d, T, B>) -> R,
) -> Result<R, OpenError> {
    scope_in(domain, attr, allocator_api2::alloc::Global, f)
}
