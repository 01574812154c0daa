use super::{Context, Endpoints, Msg, Refusal, RemotePart, RmaTarget};
use crate::atomic::Atomic;
use crate::buffer::Lent;
use crate::vocabulary::Errno;

/// Limits of an atomic operation: `struct fi_atomic_attr`.
///
/// ```
/// use loom_core::{Errno, atomic::{Atomic, BaseOp, Operation}, transport::AtomicAttr};
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
    /// Maximum number of elements.
    pub count: usize,
    /// Bytes per element.
    pub size: usize,
}

/// Ranges of an atomic operation besides its operands, with the same number of elements as the
/// operands.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "fi_msg_fetch")]
#[doc(alias = "fi_msg_compare")]
pub struct AtomicRanges<'a> {
    /// Values to compare with, only for [`Form::Compare`](crate::atomic::Form::Compare).
    pub compare: &'a [Lent],
    /// Memory for the previous values, not for [`Form::Base`](crate::atomic::Form::Base).
    pub results: &'a [Lent],
}

/// Operations that compute on memory of peers: `struct fi_ops_atomic`.
///
/// # Safety
/// The promises of [`Transport`](super::Transport).
#[doc(alias = "fi_ops_atomic")]
pub unsafe trait Atomics: Endpoints {
    /// `fi_query_atomic`: limits of an operation on endpoints of the domain, or an error if they
    /// lack it.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn query_atomic(domain: &Self::Domain, atomic: Atomic) -> Result<AtomicAttr, Errno>;
    /// `fi_atomic`
    ///
    /// # Safety
    /// Contract of callers.
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
    /// Contract of callers. `operands` are not longer than `inject_size`.
    unsafe fn inject_atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        operands: &[u8],
        atomic: Atomic,
    ) -> Result<(), Refusal>;
    /// `fi_fetch_atomic`. Operands of [`AtomicOp::READ`](crate::vocabulary::AtomicOp::READ) have no
    /// elements.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn fetch_atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        operands: &Lent,
        results: &Lent,
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_compare_atomic`. The ranges are the operands, the compared values, and the results.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn compare_atomic(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        ranges: [&Lent; 3],
        atomic: Atomic,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_atomicmsg`, `fi_fetch_atomicmsg` or `fi_compare_atomicmsg`, by the operation's form. The
    /// pieces of the message are the operands.
    /// [`AtomicOp::READ`](crate::vocabulary::AtomicOp::READ) has one piece without elements.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn atomicmsg(
        endpoint: &Self::Endpoint,
        msg: &Msg<'_>,
        ranges: AtomicRanges<'_>,
        remote: &[RemotePart],
        atomic: Atomic,
    ) -> Result<(), Refusal>;
}
