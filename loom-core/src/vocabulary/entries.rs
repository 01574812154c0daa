//! Entries of completion queues as libfabric lays them out, for the raw layer: one type for each format.

use core::ffi::c_void;
use core::ptr;

use super::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};

/// An entry of the format [`CqFormat::CONTEXT`](super::CqFormat::CONTEXT).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[doc(alias = "fi_cq_entry")]
pub struct CqEntry {
    /// The operation's context.
    pub op_context: *mut c_void,
}

/// An entry of the format [`CqFormat::MSG`](super::CqFormat::MSG).
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
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[doc(alias = "fi_cq_msg_entry")]
pub struct CqMsgEntry {
    /// The operation's context.
    pub op_context: *mut c_void,
    /// What kind of operation it was.
    pub flags: CompletionFlags,
    /// Bytes received; else anything.
    pub len: usize,
}

/// An entry of the format [`CqFormat::DATA`](super::CqFormat::DATA).
///
/// ```
/// use loom_core::ImmediateData;
/// use loom_core::vocabulary::{CompletionFlags, CqDataEntry};
///
/// /// The immediate data of an entry. Without the flag, the field may have any value.
/// fn immediate(entry: &CqDataEntry) -> Option<ImmediateData> {
///     entry.flags.contains(CompletionFlags::REMOTE_CQ_DATA).then_some(entry.data)
/// }
///
/// let entry = CqDataEntry { flags: CompletionFlags::RECV, data: ImmediateData(7), ..CqDataEntry::default() };
/// assert_eq!(immediate(&entry), None);
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[doc(alias = "fi_cq_data_entry")]
pub struct CqDataEntry {
    /// The operation's context.
    pub op_context: *mut c_void,
    /// What kind of operation it was.
    pub flags: CompletionFlags,
    /// Bytes received; else anything.
    pub len: usize,
    /// Where a message lies in the buffer of a multi-receive; else anything.
    pub buf: *mut c_void,
    /// Immediate data, if `flags` has `REMOTE_CQ_DATA`; else anything.
    pub data: ImmediateData,
}

/// An entry of the format [`CqFormat::TAGGED`](super::CqFormat::TAGGED).
///
/// ```
/// use loom_core::Tag;
/// use loom_core::vocabulary::{CompletionFlags, CqTaggedEntry};
///
/// /// The tag of an entry: that of a tagged receive. Otherwise the field may have any value.
/// fn tag(entry: &CqTaggedEntry) -> Option<Tag> {
///     entry.flags.contains(CompletionFlags::TAGGED | CompletionFlags::RECV).then_some(entry.tag)
/// }
///
/// let flags = CompletionFlags::TAGGED | CompletionFlags::SEND;
/// assert_eq!(tag(&CqTaggedEntry { flags, tag: Tag(7), ..CqTaggedEntry::default() }), None);
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[doc(alias = "fi_cq_tagged_entry")]
pub struct CqTaggedEntry {
    /// The operation's context.
    pub op_context: *mut c_void,
    /// What kind of operation it was.
    pub flags: CompletionFlags,
    /// Bytes received; else anything.
    pub len: usize,
    /// Where a message lies in the buffer of a multi-receive; else anything.
    pub buf: *mut c_void,
    /// Immediate data, if `flags` has `REMOTE_CQ_DATA`; else anything.
    pub data: ImmediateData,
    /// The tag, if `flags` has `TAGGED` and `RECV`; else anything.
    pub tag: Tag,
}

/// The entry of an operation that failed, of whatever format the queue is.
///
/// ```
/// use loom_core::Errno;
/// use loom_core::vocabulary::CqErrEntry;
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
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[doc(alias = "fi_cq_err_entry")]
pub struct CqErrEntry {
    /// The operation's context, if it is known.
    pub op_context: *mut c_void,
    /// What kind of operation it was.
    pub flags: CompletionFlags,
    /// Bytes transferred.
    pub len: usize,
    /// As in [`CqDataEntry`].
    pub buf: *mut c_void,
    /// As in [`CqDataEntry`].
    pub data: ImmediateData,
    /// As in [`CqTaggedEntry`].
    pub tag: Tag,
    /// Bytes of the message that did not fit into the buffer.
    pub olen: usize,
    /// The reason. Providers write what they should not: zero, and negated numbers.
    pub err: Errno,
    /// The provider's own number for it.
    pub prov_errno: i32,
    /// The provider's own data about it, which stays until the next call for the queue.
    pub err_data: *mut c_void,
    /// How many bytes that is.
    pub err_data_size: usize,
    /// The sender of a message that was not from a peer of the address vector (`FI_SOURCE_ERR`). Headers have it from libfabric
    /// 1.20 on.
    pub src_addr: FabricAddr,
}

impl Default for CqEntry {
    /// To be written over.
    fn default() -> Self {
        CqEntry { op_context: ptr::null_mut() }
    }
}

impl Default for CqMsgEntry {
    /// To be written over.
    fn default() -> Self {
        CqMsgEntry { op_context: ptr::null_mut(), flags: CompletionFlags::empty(), len: 0 }
    }
}

impl Default for CqDataEntry {
    /// To be written over.
    fn default() -> Self {
        let CqMsgEntry { op_context, flags, len } = CqMsgEntry::default();
        CqDataEntry { op_context, flags, len, buf: ptr::null_mut(), data: ImmediateData(0) }
    }
}

impl Default for CqTaggedEntry {
    /// To be written over.
    fn default() -> Self {
        let CqDataEntry { op_context, flags, len, buf, data } = CqDataEntry::default();
        CqTaggedEntry { op_context, flags, len, buf, data, tag: Tag(0) }
    }
}

impl Default for CqErrEntry {
    /// To be written over.
    fn default() -> Self {
        let CqTaggedEntry { op_context, flags, len, buf, data, tag } = CqTaggedEntry::default();
        CqErrEntry {
            op_context,
            flags,
            len,
            buf,
            data,
            tag,
            olen: 0,
            err: Errno::from_raw(0),
            prov_errno: 0,
            err_data: ptr::null_mut(),
            err_data_size: 0,
            src_addr: FabricAddr::NOTAVAIL,
        }
    }
}

const _: () = {
    assert!(size_of::<CqEntry>() == 8 && size_of::<CqMsgEntry>() == 24);
    assert!(size_of::<CqDataEntry>() == 40 && size_of::<CqTaggedEntry>() == 48);
};
