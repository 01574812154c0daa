//! Raw entries of completion queues in libfabric's layout, one type per format.

use core::ffi::c_void;
use core::ptr::NonNull;

use super::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};

/// Entry of the format [`CqFormat::CONTEXT`](super::CqFormat::CONTEXT).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[doc(alias = "fi_cq_entry")]
pub struct CqEntry {
    /// Context of the operation.
    pub op_context: Option<NonNull<c_void>>,
}

/// Entry of the format [`CqFormat::MSG`](super::CqFormat::MSG).
///
/// ```
/// use loom_core::vocabulary::{CompletionFlags, CqMsgEntry};
///
/// /// The bytes that a receive has got. Of other operations the field may have any value.
/// fn received(entry: &CqMsgEntry) -> Option<usize> {
///     entry.flags.contains(CompletionFlags::RECV).then_some(entry.len)
/// }
///
/// let entry = CqMsgEntry { flags: CompletionFlags::MSG | CompletionFlags::SEND, len: 5, ..CqMsgEntry::default() };
/// assert_eq!(received(&entry), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[doc(alias = "fi_cq_msg_entry")]
pub struct CqMsgEntry {
    /// Context of the operation.
    pub op_context: Option<NonNull<c_void>>,
    /// Kind of operation.
    pub flags: CompletionFlags,
    /// Bytes received, else any value.
    pub len: usize,
}

/// Entry of the format [`CqFormat::DATA`](super::CqFormat::DATA).
///
/// ```
/// use loom_core::{ImmediateData, vocabulary::{CompletionFlags, CqDataEntry}};
///
/// /// The immediate data of an entry. Without the flag, the field may have any value.
/// fn immediate(entry: &CqDataEntry) -> Option<ImmediateData> {
///     entry.flags.contains(CompletionFlags::REMOTE_CQ_DATA).then_some(entry.data)
/// }
///
/// let entry = CqDataEntry { flags: CompletionFlags::RECV, data: ImmediateData(7), ..CqDataEntry::default() };
/// assert_eq!(immediate(&entry), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[doc(alias = "fi_cq_data_entry")]
pub struct CqDataEntry {
    /// Context of the operation.
    pub op_context: Option<NonNull<c_void>>,
    /// Kind of operation.
    pub flags: CompletionFlags,
    /// Bytes received, else any value.
    pub len: usize,
    /// Position of a message in a multi-receive buffer, else any value.
    pub buf: Option<NonNull<c_void>>,
    /// Immediate data, if `flags` has `REMOTE_CQ_DATA`, else any value.
    pub data: ImmediateData,
}

/// Entry of the format [`CqFormat::TAGGED`](super::CqFormat::TAGGED).
///
/// ```
/// use loom_core::{Tag, vocabulary::{CompletionFlags, CqTaggedEntry}};
///
/// /// The tag of an entry: that of a tagged receive. Otherwise the field may have any value.
/// fn tag(entry: &CqTaggedEntry) -> Option<Tag> {
///     entry.flags.contains(CompletionFlags::TAGGED | CompletionFlags::RECV).then_some(entry.tag)
/// }
///
/// let flags = CompletionFlags::TAGGED | CompletionFlags::SEND;
/// assert_eq!(tag(&CqTaggedEntry { flags, tag: Tag(7), ..CqTaggedEntry::default() }), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[doc(alias = "fi_cq_tagged_entry")]
pub struct CqTaggedEntry {
    /// Context of the operation.
    pub op_context: Option<NonNull<c_void>>,
    /// Kind of operation.
    pub flags: CompletionFlags,
    /// Bytes received, else any value.
    pub len: usize,
    /// Position of a message in a multi-receive buffer, else any value.
    pub buf: Option<NonNull<c_void>>,
    /// Immediate data, if `flags` has `REMOTE_CQ_DATA`, else any value.
    pub data: ImmediateData,
    /// Tag, if `flags` has `TAGGED` and `RECV`, else any value.
    pub tag: Tag,
}

/// Entry of a failed operation, in every format.
///
/// ```
/// use loom_core::{Errno, vocabulary::CqErrEntry};
///
/// /// The reason, whatever the provider has written: never zero, and positive.
/// fn reason(entry: &CqErrEntry) -> Errno {
///     match entry.err.as_raw() {
///         0 => Errno::EIO,
///         number => Errno::from_raw(number.saturating_abs()),
///     }
/// }
///
/// let entry = CqErrEntry { err: Errno::from_raw(-Errno::ECANCELED.as_raw()), ..CqErrEntry::default() };
/// assert_eq!(reason(&entry), Errno::ECANCELED);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[doc(alias = "fi_cq_err_entry")]
pub struct CqErrEntry {
    /// Context of the operation, if known.
    pub op_context: Option<NonNull<c_void>>,
    /// Kind of operation.
    pub flags: CompletionFlags,
    /// Bytes transferred.
    pub len: usize,
    /// See [`CqDataEntry`].
    pub buf: Option<NonNull<c_void>>,
    /// See [`CqDataEntry`].
    pub data: ImmediateData,
    /// See [`CqTaggedEntry`].
    pub tag: Tag,
    /// Bytes of the message that did not fit into the buffer.
    pub olen: usize,
    /// Cause. Providers may incorrectly write zero or negated numbers.
    pub err: Errno,
    /// The provider's own error number.
    pub prov_errno: i32,
    /// The provider's own data about the error, valid until the next call for the queue.
    pub err_data: Option<NonNull<c_void>>,
    /// Length of `err_data` in bytes.
    pub err_data_size: usize,
    /// Sender that is not a peer of the address vector (`FI_SOURCE_ERR`). In headers since
    /// libfabric 1.20.
    pub src_addr: FabricAddr,
}

const _: () = {
    assert!(size_of::<CqEntry>() == 8 && size_of::<CqMsgEntry>() == 24);
    assert!(size_of::<CqDataEntry>() == 40 && size_of::<CqTaggedEntry>() == 48);
};
