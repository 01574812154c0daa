//! [`Atomics`]: operations on memory of peers that compute.

use super::{Context, Endpoints, Msg, Refusal, RemotePart, RmaTarget};
use crate::atomic::Atomic;
use crate::buffer::Lent;
use crate::vocabulary::Errno;

/// What one operation may be of: `struct fi_atomic_attr`.
///
/// ```
/// use loom_core::Errno;
/// use loom_core::atomic::{Atomic, BaseOp, Operation};
/// use loom_core::transport::AtomicAttr;
///
/// /// What a transport grants whose operations have at most 4096 bytes.
/// fn granted(atomic: Atomic) -> Result<AtomicAttr, Errno> {
///     let size = atomic.datatype.size().ok_or(Errno::EOPNOTSUPP)?;
///     Ok(AtomicAttr { count: 4096 / size, size })
/// }
///
/// assert_eq!(granted(BaseOp::<f64>::SUM.atomic()), Ok(AtomicAttr { count: 512, size: 8 }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_atomic_attr")]
pub struct AtomicAttr {
    /// The most elements.
    pub count: usize,
    /// Bytes of one.
    pub size: usize,
}

/// What an atomic operation fetches and compares with, besides its operands: ranges that have as many elements as these.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "fi_msg_fetch")]
#[doc(alias = "fi_msg_compare")]
pub struct AtomicRanges<'a> {
    /// What is compared; only for [`Form::Compare`](crate::atomic::Form::Compare).
    pub compare: &'a [Lent],
    /// Where to put what was there before; not for [`Form::Base`](crate::atomic::Form::Base).
    pub results: &'a [Lent],
}

/// Operations on memory of peers that compute: `struct fi_ops_atomic`.
///
/// # Safety
/// As [`Transport`](super::Transport).
#[doc(alias = "fi_ops_atomic")]
pub unsafe trait Atomics: Endpoints {
    /// `fi_query_atomic`: whether endpoints of the domain have an operation, and for how many elements.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn query_atomic(domain: &Self::Domain, atomic: Atomic) -> Result<AtomicAttr, Errno>;
    /// `fi_atomic`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        operands: &Lent,
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_inject_atomic`
    ///
    /// # Safety
    /// The contract of callers; `operands` are not longer than `inject_size`.
    unsafe fn inject_atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        operands: &[u8],
        atomic: Atomic,
    ) -> Result<(), Refusal>;
    /// `fi_fetch_atomic`. Operands of [`AtomicOp::READ`](crate::vocabulary::AtomicOp::READ) have no elements.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn fetch_atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        operands: &Lent,
        results: &Lent,
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_compare_atomic`. The ranges are the operands, what is compared, and the results.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn compare_atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        ranges: [&Lent; 3],
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_atomicmsg`, `fi_fetch_atomicmsg` or `fi_compare_atomicmsg`, as the operation's form says. The pieces of the message are the
    /// operands; those of [`AtomicOp::READ`](crate::vocabulary::AtomicOp::READ) are one without elements.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn atomicmsg(
        endpoint: &Self::Endpoint,
        msg: &Msg<'_>,
        ranges: AtomicRanges<'_>,
        remote: &[RemotePart],
        atomic: Atomic,
    ) -> Result<(), Refusal>;
}
