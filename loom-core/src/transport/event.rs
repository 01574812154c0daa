//! [`Event`], what a transport reports of an operation, and [`Context`], by which it names it.

use crate::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};

/// The word that travels with a posted operation and names it in its completion; libfabric's `void *context`.
///
/// Either a plain number or a pointer to provider scratch space inside the operation's slot; the
/// [op table](crate::engine::op_table) decides which, and alone interprets what comes back.
///
/// ```
/// use loom_core::transport::{Context, Event};
/// use loom_core::vocabulary::CompletionFlags;
///
/// // What a transport keeps of an operation is the context alone, and its event carries that back.
/// let send = |context: Context| Event::success(context.addr(), CompletionFlags::SEND, 0);
/// assert_eq!(send(Context::word(4711)).context, 4711);
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Context(*mut ());

impl Context {
    /// No operation: for posts which report no completion.
    pub const NONE: Context = Context(core::ptr::null_mut());

    /// A number that is not an address.
    #[inline]
    #[must_use]
    pub const fn word(word: u64) -> Self {
        const { assert!(usize::BITS == 64, "an operation's context is a 64-bit word") };
        #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
        Context(core::ptr::without_provenance_mut(word as usize))
    }

    /// The address of scratch space which the provider may write while the operation is in flight.
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

/// One entry of a transport's completion queue, as the transport reports it.
///
/// Events are read within nanoseconds of being written, field by field. Fields that are copied together do not lie side by
/// side: a compiler would copy them with one instruction, and a processor is slow to read together what it has just
/// written apart (a twentieth of the cost of a tagged message).
///
/// ```
/// use loom_core::transport::Event;
/// use loom_core::vocabulary::{CompletionFlags, Errno};
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
    /// The context word of the operation; anything at all for events that belong to none.
    pub context: u64,
    /// What kind of operation completed, and which of the other fields mean something.
    pub flags: CompletionFlags,
    /// Bytes transferred, or, of a failed operation, zero if that is unknown. A receive of more bytes than were lent is one of a truncated
    /// message.
    pub len: usize,
    /// The tag, if `flags` has `TAGGED` and `RECV`; else anything.
    pub tag: Tag,
    /// Of a failed receive, bytes of the message that did not fit into the buffer, or zero if that is unknown; of a message in a multi-receive buffer, the
    /// address of its first byte; else anything.
    #[doc(alias = "olen")]
    #[doc(alias = "buf")]
    pub overflow_or_place: usize,
    /// Immediate data, if `flags` has `REMOTE_CQ_DATA`; else anything.
    pub data: ImmediateData,
    /// Zero for success.
    pub errno: Errno,
    /// The provider's own error number; zero for success.
    pub provider_errno: i32,
    /// The sender or [`FabricAddr::UNSPEC`], if `flags` has `RECV`, `REMOTE_READ` or `REMOTE_WRITE`; else anything.
    pub source: FabricAddr,
}

impl Event {
    /// A successful event without tag, data or source.
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

    /// A failed event of which nothing was transferred.
    #[inline]
    #[must_use]
    pub const fn failure(context: u64, flags: CompletionFlags, errno: Errno) -> Self {
        let mut event = Event::success(context, flags, 0);
        event.errno = errno;
        event.provider_errno = errno.as_raw();
        event
    }

    /// Whether the operation failed.
    #[inline]
    #[must_use]
    pub const fn is_error(&self) -> bool {
        self.errno.as_raw() != 0
    }
}
