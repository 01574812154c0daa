use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;

use super::Window;
use crate::atomic::{CompareOp, Compute, Element, FetchOp, Operation, ReadOp, Word};
use crate::vocabulary::{AtomicOp, RangeError};

/// Element of exposed memory that peers change by atomic operations, and the owner by these
/// methods.
///
/// Over the software transport, peers and the owner see one order of the changes. libfabric's
/// providers do not promise it (`man fi_atomic`).
///
/// ```
/// use loom_core::atomic::FetchOp;
/// # use loom_core::{Access, Caps, Forever, Mr};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
/// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
/// # let offset = region.window().as_ptr().align_offset(8);
/// let element = region.window().element::<u64>(offset)?;
/// element.store(40);
/// // A peer and the owner both add to the element.
/// let add = domain.query_atomic(FetchOp::<u64>::SUM)?;
/// let added = cq.retry(Forever, || alice.fetch_value(to_bob, &region.remote(), offset as u64, add, 1))?;
/// cq.finish_value(added, Forever)?.result()?;
/// assert_eq!(element.fetch(FetchOp::SUM, 1), 41);
/// assert_eq!(element.load(), 42);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct ExposedElement<'m, E> {
    at: NonNull<u8>,
    memory: PhantomData<(&'m [AtomicU8], E)>,
}

// SAFETY: an element acts like an atomic of a type that is `Send`.
unsafe impl<E: Send> Send for ExposedElement<'_, E> {}
// SAFETY: an element acts like an atomic of a type that is `Send`.
unsafe impl<E: Send> Sync for ExposedElement<'_, E> {}

impl<'m> Window<'m> {
    /// Element at this offset in bytes.
    ///
    /// # Errors
    /// [`RangeError`]
    pub fn element<E: Element>(self, offset: usize) -> Result<ExposedElement<'m, E>, RangeError> {
        let part = self.slice(offset, size_of::<E>())?;
        if !part.ptr.addr().get().is_multiple_of(size_of::<E>()) {
            return Err(RangeError::Misaligned);
        }
        if !part.writable {
            return Err(RangeError::ReadOnly);
        }
        if !<E as Compute>::Word::is_atomic() {
            return Err(RangeError::NotAtomic);
        }
        Ok(ExposedElement { at: part.ptr, memory: PhantomData })
    }
}

impl<E: Element> ExposedElement<'_, E> {
    /// The value.
    #[must_use]
    pub fn load(self) -> E {
        self.apply(ReadOp::<E>::READ.atomic().op, E::ZERO, E::ZERO)
    }

    /// Replaces the value.
    pub fn store(self, value: E) {
        self.fetch(FetchOp::<E>::WRITE, value);
    }

    /// Changes the value and returns the previous value.
    pub fn fetch(self, op: FetchOp<E>, operand: E) -> E {
        self.apply(op.atomic().op, operand, operand)
    }

    /// Replaces the value by `operand` if the comparison of `compare` with the value holds. Returns
    /// the previous value.
    pub fn compare(self, op: CompareOp<E>, compare: E, operand: E) -> E {
        self.apply(op.atomic().op, operand, compare)
    }

    /// Changes the value by any operation, and returns the previous value. `None` if the type does
    /// not have the operation.
    #[must_use]
    pub fn change(self, op: AtomicOp, operand: E, compare: E) -> Option<E> {
        E::admits(op).then(|| self.apply(op, operand, compare))
    }

    /// An operation that the type does not admit has no effect.
    fn apply(self, op: AtomicOp, operand: E, compare: E) -> E {
        // SAFETY: `element` has checked that the window is writable, the address aligned, and the
        // size atomic on this processor. Other accesses keep the rule of the module.
        unsafe { E::change_at(self.at.as_ptr(), op, operand, compare) }
    }
}

impl<E: Element> fmt::Debug for ExposedElement<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExposedElement").field(&self.load()).finish()
    }
}
