#![allow(unsafe_code, reason = "queries the raw domain")]

use crate::atomic::{AnyOperation, Atomic, Operation};
use crate::domain::{Domain, DomainInner};
use crate::error::PostError;
use crate::transport::Transport;
use crate::vocabulary::{Caps, Errno};

/// An atomic operation that the endpoints of a domain support, as posts require.
///
/// ```
/// use loom_core::{Caps, atomic::FetchOp, endpoint::Granted};
///
/// # fixture::domain!(network, domain; Caps::MSG | Caps::ATOMIC);
/// // The program asks once, before it posts.
/// let add: Granted<FetchOp<u64>> = domain.query_atomic(FetchOp::SUM)?;
/// assert!(add.max_count() >= 1);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Granted<O> {
    op: O,
    max_count: usize,
    domain: u64,
}

impl<O: Operation> Granted<O> {
    pub(crate) const fn op(&self) -> O {
        self.op
    }

    /// Maximum number of elements per post.
    #[must_use]
    pub const fn max_count(&self) -> usize {
        self.max_count
    }

    /// Operation without its type.
    ///
    /// ```
    /// use loom_core::{Caps, atomic::{AnyOperation, CompareOp, FetchOp}, endpoint::Granted};
    ///
    /// # fixture::domain!(network, domain; Caps::MSG | Caps::ATOMIC);
    /// // Operations of any kind, on any type, have one type.
    /// let ops: [Granted<AnyOperation>; 2] = [
    ///     domain.query_atomic(FetchOp::<u64>::SUM)?.any(),
    ///     domain.query_atomic(CompareOp::<u32>::CSWAP)?.any(),
    /// ];
    /// assert_ne!(ops[0], ops[1]);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn any(self) -> Granted<AnyOperation> {
        Granted { op: AnyOperation::of(self.op), max_count: self.max_count, domain: self.domain }
    }

    #[inline]
    pub(crate) fn checked(&self, domain: u64, addr: u64, bytes: usize) -> Result<Atomic, PostError> {
        let size = self.op.element_size();
        if self.domain != domain {
            return Err(PostError::ForeignOperation.cold());
        }
        if bytes == 0 || !bytes.is_multiple_of(size) {
            return Err(PostError::NotElements { size }.cold());
        }
        if bytes / size > self.max_count {
            return Err(PostError::TooManyElements { limit: self.max_count }.cold());
        }
        if !addr.is_multiple_of(size as u64) {
            return Err(PostError::Misaligned { size }.cold());
        }
        Ok(self.op.atomic())
    }
}

impl<T: Transport> Domain<'_, T> {
    /// Queries an atomic operation of this domain's endpoints, and its maximum number of elements.
    ///
    /// ```
    /// use loom_core::{Access, Caps, Forever, Mr, atomic::FetchOp};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
    /// let add = domain.query_atomic(FetchOp::<u64>::SUM)?;
    /// let counter = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// // The first aligned element: a vector of bytes may begin anywhere.
    /// let offset = counter.window().as_ptr().align_offset(8) as u64;
    /// for before in 0..3 {
    ///     let key = cq.retry(Forever, || alice.fetch_value(to_bob, &counter.remote(), offset, add, 1))?;
    ///     assert_eq!(cq.finish_value(key, Forever)?.value::<u64>()?, Some(before));
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the domain's info does not grant [`Caps::ATOMIC`], or the provider does not
    /// support the operation for this type. Otherwise the provider's error.
    ///
    /// # References
    /// - `man fi_atomic`, section *Query Atomic Attributes*
    #[doc(alias = "fi_query_atomic")]
    #[doc(alias = "fi_atomicvalid")]
    pub fn query_atomic<O: Operation>(&self, op: O) -> Result<Granted<O>, Errno> {
        let max_count = self.body.atomic_count(op.atomic())?;
        Ok(Granted { op, max_count, domain: self.body.identity() })
    }
}

impl<T: Transport> DomainInner<T> {
    pub(crate) fn atomic_count(&self, atomic: Atomic) -> Result<usize, Errno> {
        if !self.attributes().caps.contains(Caps::ATOMIC) {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: open (H1).
        let attr = unsafe { T::query_atomic(self.raw(), atomic) }?;
        if Some(attr.size) != atomic.datatype.size() || attr.count == 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        Ok(attr.count)
    }
}
