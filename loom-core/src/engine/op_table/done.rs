use core::fmt;
use core::mem::MaybeUninit;

use super::OpKey;
use crate::buffer::Prefixed;
use crate::transport::Event;
use crate::util::debug::debug_struct;
use crate::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};

/// Successful transfer.
///
/// ```
/// use loom_core::{Forever, ImmediateData, Source, Tag, TagMatch};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.tagged_recv(Source::Any, TagMatch::ANY, vec![0; 64])?;
/// let send = |message| alice.tagged_send_data(to_bob, Tag(7), ImmediateData(9), message);
/// cq.post(b"hello".to_vec(), Forever, send)?;
/// let transfer = cq.finish(received, Forever)?.result()?;
/// assert_eq!((transfer.len, transfer.tag, transfer.data), (5, Some(Tag(7)), Some(ImmediateData(9))));
/// // Some providers tell the sender's address.
/// if let Some(source) = transfer.source {
///     assert!(av.peer(source).is_none(), "alice is not in the vector");
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[doc(alias = "fi_cq_tagged_entry")]
pub struct Transfer {
    /// Kind of operation that the provider reports.
    pub flags: CompletionFlags,
    /// Number of bytes transferred, at most the length of the buffer.
    pub len: usize,
    /// Sender's tag of a tagged receive.
    pub tag: Option<Tag>,
    /// Sender's immediate data if this was a receive.
    pub data: Option<ImmediateData>,
    /// Sender if the provider grants `SOURCE`. Over `tcp;ofi_rxm`, a message that arrived before
    /// its receive may report another peer if its sender has closed.
    pub source: Option<FabricAddr>,
}

impl Transfer {
    #[inline(always)]
    pub(crate) fn of(event: &Event) -> Self {
        let has = |flags: CompletionFlags| event.flags.contains(flags | CompletionFlags::RECV);
        Transfer {
            flags: event.flags,
            len: event.len,
            tag: has(CompletionFlags::TAGGED).then_some(event.tag),
            data: has(CompletionFlags::REMOTE_CQ_DATA).then_some(event.data),
            source: Some(event.source).filter(|source| has(CompletionFlags::RECV) && *source != FabricAddr::UNSPEC),
        }
    }
}

/// Failed operation.
///
/// ```
/// use loom_core::{Errno, Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// // The message is longer than the buffer.
/// let received = bob.recv(Source::Any, vec![0; 3])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// let error = cq.finish(received, Forever)?.result().unwrap_err();
/// assert_eq!((error.errno, error.len, error.overflow), (Errno::ETRUNC, Some(3), Some(2)));
/// // A cancelled operation completes, too.
/// let received = bob.recv(Source::Any, vec![0; 3])?;
/// bob.cancel(received)?;
/// assert_eq!(cq.finish(received, Forever)?.result().unwrap_err().errno, Errno::ECANCELED);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_cq_err_entry")]
pub struct OpError {
    /// Cause of the failure.
    ///
    /// An error does not prove that the peer missed the data.
    pub errno: Errno,
    /// Provider's own error number. [`Cq::error_text`](crate::cq::Cq::error_text) returns its text.
    pub provider_errno: i32,
    /// Bytes transferred despite the error, at most the length of the buffer.
    pub len: Option<usize>,
    /// Bytes of a truncated message that did not fit into the buffer (`olen`). `None` for other
    /// errors, and if the provider does not report them.
    #[doc(alias = "olen")]
    pub overflow: Option<usize>,
    /// Kind of operation that the provider reports.
    pub flags: CompletionFlags,
    /// Tag of a tagged receive, otherwise zero.
    pub tag: Tag,
    /// Sender's immediate data if `flags` has `REMOTE_CQ_DATA`, otherwise zero.
    pub data: ImmediateData,
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.errno)?;
        if let Some(overflow) = self.overflow {
            write!(f, ", {overflow} bytes did not fit")?;
        }
        if self.provider_errno != 0 && self.provider_errno != self.errno.as_raw() {
            write!(f, " (provider error {})", self.provider_errno)?;
        }
        Ok(())
    }
}

impl core::error::Error for OpError {}

impl OpError {
    pub(crate) fn of(event: &Event) -> Self {
        let tagged = event.flags.contains(CompletionFlags::TAGGED | CompletionFlags::RECV);
        let has_data = event.flags.contains(CompletionFlags::REMOTE_CQ_DATA);
        // Providers that report no length leave both fields at zero.
        let overflow = (event.overflow_or_place > 0).then_some(event.overflow_or_place);
        OpError {
            errno: event.errno,
            provider_errno: event.provider_errno,
            len: (event.len > 0 || overflow.is_some()).then_some(event.len),
            overflow,
            flags: event.flags,
            tag: if tagged { event.tag } else { Tag(0) },
            data: if has_data { event.data } else { ImmediateData(0) },
        }
    }
}

/// Completed operation: its key, its buffer and its result.
///
/// ```
/// use loom_core::{Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let mut room = vec![0; 64];
/// for message in [&b"hello"[..], b"again"] {
///     let received = bob.recv(Source::Any, room)?;
///     cq.retry(Forever, || alice.inject(to_bob, message))?;
///     // The buffer comes back whether the operation has succeeded or not.
///     let (buf, result) = cq.finish(received, Forever)?.into_parts();
///     assert_eq!(&buf[..result?.len], message);
///     room = buf;
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "it holds the buffer, and reports whether the operation succeeded"]
pub struct Done<B> {
    key: OpKey,
    buf: B,
    event: Event,
}

impl<B> Done<B> {
    #[inline]
    pub(crate) const fn new(key: OpKey, buf: B, event: Event) -> Self {
        Done { key, buf, event }
    }

    /// Key that the post returned.
    #[inline]
    pub const fn key(&self) -> OpKey {
        self.key
    }

    /// Result of the operation.
    ///
    /// # Errors
    /// The operation's own error: truncated, cancelled, refused by the peer.
    #[inline]
    pub fn result(&self) -> Result<Transfer, OpError> {
        let event = &self.event;
        if event.is_error() { Err(OpError::of(event)) } else { Ok(Transfer::of(event)) }
    }

    /// Reference to the buffer.
    #[inline]
    pub const fn buf(&self) -> &B {
        &self.buf
    }

    /// Returns the buffer, for example to post it again.
    #[inline]
    pub fn into_buf(self) -> B {
        self.buf
    }

    /// Returns the buffer and the transfer of a successful operation.
    ///
    /// ```
    /// use loom_core::{Errno, Forever, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let received = bob.recv(Source::Any, vec![0; 8])?;
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// let (bytes, transfer) = cq.finish(received, Forever)?.into_result()?;
    /// assert_eq!(&bytes[..transfer.len], b"hello");
    /// // Four bytes of room for five.
    /// let received = bob.recv(Source::Any, vec![0; 4])?;
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// let error = cq.finish(received, Forever)?.into_result().expect_err("the message is longer");
    /// assert_eq!(error.errno, Errno::ETRUNC);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of [`result`](Self::result).
    #[inline]
    pub fn into_result(self) -> Result<(B, Transfer), OpError> {
        let (buf, result) = self.into_parts();
        Ok((buf, result?))
    }

    /// Returns the buffer and the result.
    #[inline]
    pub fn into_parts(self) -> (B, Result<Transfer, OpError>) {
        let result = self.result();
        (self.buf, result)
    }
}

/// Buffer after a receive into uninitialised memory.
///
/// ```
/// use core::mem::MaybeUninit;
/// use loom_core::{Forever, Source, scope};
///
/// # fixture::domain!(network, domain);
/// let mut room = [MaybeUninit::<u8>::uninit(); 64];
/// scope(|s| {
/// # let domain = s.open(&network.info())?;
/// # fixture::pair!(domain, av, cq, alice, bob, to_bob);
///     let received = bob.recv(Source::Any, &mut room[..])?;
///     cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
///     let received = cq.finish(received, Forever)?.into_received().map_err(|(_, error)| error)?;
///     assert_eq!((&*received.bytes, received.rest.len()), (&b"hello"[..], 59));
///     Ok::<_, loom_core::Error>(())
/// })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Received<'a> {
    /// Received bytes.
    pub bytes: &'a mut [u8],
    /// Unused memory.
    pub rest: &'a mut [MaybeUninit<u8>],
}

impl<'a> Done<&'a mut [MaybeUninit<u8>]> {
    /// Returns the bytes initialised by a successful receive or read, and the rest of the buffer.
    ///
    /// # Errors
    /// The operation's error, with the buffer.
    pub fn into_received(self) -> Result<Received<'a>, (&'a mut [MaybeUninit<u8>], OpError)> {
        let (buf, result) = self.into_parts();
        match result {
            Ok(transfer) => Ok(received(buf, transfer)),
            Err(error) => Err((buf, error)),
        }
    }
}

type UninitBehindRoom<'a> = Prefixed<&'a mut [MaybeUninit<u8>]>;

impl<'a> Done<UninitBehindRoom<'a>> {
    /// Returns the bytes behind the room initialised by a successful receive or read, and the rest
    /// of the buffer.
    ///
    /// # Errors
    /// The operation's error, with the buffer.
    pub fn into_received(self) -> Result<Received<'a>, (UninitBehindRoom<'a>, OpError)> {
        let (buf, result) = self.into_parts();
        match result {
            Ok(transfer) => {
                let room = buf.room;
                Ok(received(buf.buf.get_mut(room..).unwrap_or(&mut []), transfer))
            }
            Err(error) => Err((buf, error)),
        }
    }
}

#[allow(unsafe_code, reason = "reads what the transport has initialised")]
fn received(memory: &mut [MaybeUninit<u8>], transfer: Transfer) -> Received<'_> {
    let (bytes, rest) = memory.split_at_mut(transfer.len.min(memory.len()));
    // SAFETY: uninitialised memory is never a source, so this was a receive or a read, and the
    // transport guarantees that it initialised the first `len` bytes. Only the op table makes a
    // `Done`.
    Received { bytes: unsafe { bytes.assume_init_mut() }, rest }
}

debug_struct!([B] Done[B], |it| key: it.key, result: it.result());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_without_their_flag_are_not_reported() {
        let junk = |flags: CompletionFlags| {
            let event = Event::success(0, flags, 1);
            Event { tag: Tag(7), data: ImmediateData(8), source: FabricAddr(9), ..event }
        };
        let kinds = |flags| {
            let transfer = Transfer::of(&junk(flags));
            let error = OpError::of(&junk(flags));
            assert_eq!(error.tag.0 != 0, transfer.tag.is_some(), "{flags}");
            [transfer.tag.is_some(), transfer.data.is_some(), transfer.source.is_some()]
        };
        let (receive, tagged) = (CompletionFlags::RECV, CompletionFlags::TAGGED);
        assert_eq!(kinds(CompletionFlags::SEND | tagged), [false; 3]);
        assert_eq!(kinds(CompletionFlags::RMA | CompletionFlags::WRITE), [false; 3]);
        assert_eq!(kinds(receive | CompletionFlags::MSG), [false, false, true]);
        assert_eq!(kinds(receive | tagged), [true, false, true]);
        assert_eq!(kinds(receive | tagged | CompletionFlags::REMOTE_CQ_DATA), [true; 3]);
    }
}
