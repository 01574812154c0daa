use crate::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};

/// Word that identifies a posted operation in its completion: libfabric's `void *context`.
///
/// ```
/// use loom_core::{transport::{Context, Event}, vocabulary::CompletionFlags};
///
/// // What a transport keeps of an operation is the context alone, and its event carries that back.
/// let send = |context: Context| Event::success(context.addr(), CompletionFlags::SEND, 0);
/// assert_eq!(send(Context::word(4711)).context, 4711);
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Context(*mut ());

impl Context {
    /// No operation, for posts that report no completion.
    pub const NONE: Context = Context(core::ptr::null_mut());

    /// A number that is not an address.
    #[inline]
    #[must_use]
    pub const fn word(word: u64) -> Self {
        const { assert!(usize::BITS == 64, "an operation's context is a 64-bit word") };
        #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
        Context(core::ptr::without_provenance_mut(word as usize))
    }

    /// The address of scratch space for the provider.
    #[inline]
    #[must_use]
    pub const fn space(space: *mut [u64; 8]) -> Self {
        Context(space.cast())
    }

    /// The pointer to hand to a provider.
    #[inline]
    #[must_use]
    pub const fn as_ptr(self) -> *mut () {
        self.0
    }

    /// The number that the completion will carry.
    #[inline]
    #[must_use]
    pub fn addr(self) -> u64 {
        self.0.addr() as u64
    }
}

/// Entry of a transport's completion queue.
///
/// ```
/// use loom_core::{Errno, transport::Event, vocabulary::CompletionFlags};
///
/// /// What a transport reports of a message that is longer than its receive.
/// fn truncated(context: u64, room: usize, len: usize) -> Event {
///     let failure = Event::failure(context, CompletionFlags::RECV, Errno::ETRUNC);
///     Event { len: room, overflow_or_place: len - room, ..failure }
/// }
///
/// let event = truncated(7, 64, 100);
/// assert!(event.is_error());
/// assert_eq!((event.len, event.overflow_or_place), (64, 36));
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[doc(alias = "fi_cq_tagged_entry")]
#[doc(alias = "fi_cq_err_entry")]
pub struct Event {
    /// Context of the operation. Any value for events without an operation.
    pub context: u64,
    /// Kind of the operation, and validity of the other fields.
    pub flags: CompletionFlags,
    /// Bytes transferred, or, of a failed operation, zero if that is unknown. If a receive reports
    /// more bytes than were lent, the message was truncated.
    pub len: usize,
    /// The tag, if `flags` has `TAGGED` and `RECV`, else any value.
    pub tag: Tag,
    /// Bytes that did not fit into the buffer of a failed receive, or zero if unknown. For a
    /// message in a multi-receive buffer, the address of its first byte. Else any value.
    #[doc(alias = "olen")]
    #[doc(alias = "buf")]
    pub overflow_or_place: usize,
    /// Immediate data, if `flags` has `REMOTE_CQ_DATA`, else any value.
    pub data: ImmediateData,
    /// Zero for success.
    pub errno: Errno,
    /// The provider's own error number, zero for success.
    pub provider_errno: i32,
    /// The sender or [`FabricAddr::UNSPEC`], if `flags` has `RECV`, `REMOTE_READ` or
    /// `REMOTE_WRITE`, else any value.
    pub source: FabricAddr,
}

impl Event {
    /// Successful event without tag, data or source.
    #[inline]
    #[must_use]
    pub const fn success(context: u64, flags: CompletionFlags, len: usize) -> Self {
        Event {
            context,
            flags,
            len,
            tag: Tag(0),
            data: ImmediateData(0),
            source: FabricAddr::UNSPEC,
            errno: Errno::from_raw(0),
            provider_errno: 0,
            overflow_or_place: 0,
        }
    }

    /// Failed event with no bytes transferred.
    #[inline]
    #[must_use]
    pub const fn failure(context: u64, flags: CompletionFlags, errno: Errno) -> Self {
        let mut event = Event::success(context, flags, 0);
        event.errno = errno;
        event.provider_errno = errno.as_raw();
        event
    }

    /// Returns `true` if the operation failed.
    #[inline]
    #[must_use]
    pub const fn is_error(&self) -> bool {
        self.errno.as_raw() != 0
    }
}
