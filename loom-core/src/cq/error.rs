//! [`CqError`], and [`ErrorText`], the provider's text for a failed operation.

#![allow(unsafe_code, reason = "asks the transport about an open queue")]

use core::fmt;

use super::Cq;
use crate::buffer::Buffer;
use crate::engine::op_table::OpError;
use crate::error::OTHER_PROCESS;
use crate::transport::Transport;
use crate::vocabulary::{CompletionFlags, Errno};

/// Error of a queue or of one call on it.
///
/// ```
/// use loom_core::cq::CqError;
/// use loom_core::{Av, Cq, Domain, Forever, Source, Spins};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// assert_eq!(cq.finish(received, Spins(10)).unwrap_err(), CqError::TimedOut);
/// // The receive is still in flight: wait again, or cancel it.
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// assert_eq!(cq.finish(received, Forever).unwrap_err(), CqError::UnknownKey);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CqError {
    /// The provider queue failed, with [`EOVERRUN`](Errno::EOVERRUN) because an event did not fit.
    /// Operations in flight keep their buffers until the queue is closed.
    #[doc(alias = "FI_EOVERRUN")]
    Queue(Errno),
    /// The completion was already taken by [`poll`](super::Cq::poll) or a wait, or the key belongs
    /// to another queue.
    UnknownKey,
    /// The maximum number of peer events arrived during a wait: take them with
    /// [`poll`](super::Cq::poll), then wait again.
    PeerEvents,
    /// The operation is a completed multi-receive with pieces out: take them with
    /// [`poll`](super::Cq::poll), drop them, then wait again.
    PiecesOut,
    /// The deadline passed with the operation in flight. Returned only by
    /// [`Cq::finish`](super::Cq::finish) and its variants.
    TimedOut,
    /// The queue has no wait object ([`CqAttr::with_fd`](super::CqAttr::with_fd)), or two provider
    /// queues.
    NotOpenedFor,
    /// A [driver](crate::driver) polls the queue for its futures.
    Driven,
    /// Another future waits for the operation.
    Awaited,
    /// This process is a forked child of the process that opened the queue.
    OtherProcess,
    /// An operation that the awaited counter counts failed. Its completion has the reason.
    CountedFailure,
}

impl fmt::Display for CqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqError::Queue(errno) => write!(f, "the completion queue failed: {errno}"),
            CqError::UnknownKey => f.write_str(
                "the completion of this key was taken already, by `poll` or an earlier wait, or the key is of another queue",
            ),
            CqError::PiecesOut => f.write_str("the operation's pieces have to be taken and dropped before waiting on"),
            CqError::TimedOut => f.write_str("the deadline has passed, and the operation is still in flight"),
            CqError::NotOpenedFor => f.write_str("the queue was not opened for sleeping on it"),
            CqError::Driven => f.write_str("the queue is polled by its driver alone: use the futures of the driver"),
            CqError::Awaited => f.write_str("another future waits for the operation"),
            CqError::CountedFailure => f.write_str("an operation that the counter counts has failed"),
            CqError::OtherProcess => f.write_str(OTHER_PROCESS),
            CqError::PeerEvents => f.write_str("peers' events have to be taken with poll before waiting on"),
        }
    }
}

impl core::error::Error for CqError {}

impl From<Errno> for CqError {
    fn from(errno: Errno) -> Self {
        if errno == Errno::OTHER_PROCESS { CqError::OtherProcess } else { CqError::Queue(errno) }
    }
}

/// Provider's text for an error, up to [`ErrorText::MAX_LEN`] bytes.
///
/// ```
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 3])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// let error = cq.finish(received, Forever)?.result().expect_err("the message is longer than the buffer");
/// // A program logs the provider's own words beside the error.
/// let text = cq.error_text(&error);
/// let log = format!("{error} ({text})");
/// assert!(!text.as_str().is_empty() && log.ends_with(&format!("({})", text.as_str())));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct ErrorText {
    bytes: [u8; ErrorText::MAX_LEN],
    len: usize,
}

impl ErrorText {
    pub(crate) fn written_by(write: impl FnOnce(&mut [u8]) -> usize) -> Self {
        let mut text = ErrorText { bytes: [0; ErrorText::MAX_LEN], len: 0 };
        text.len = write(&mut text.bytes);
        text
    }

    /// Maximum length in bytes.
    pub const MAX_LEN: usize = 128;

    /// Returns the text up to the first byte that is not UTF-8.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or(&self.bytes);
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(bytes.get(..error.valid_up_to()).unwrap_or(&[])).unwrap_or(""),
        }
    }
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<T: Transport, B: Buffer> Cq<'_, T, B> {
    /// Copies the provider's data for the last failed operation, and returns its length, at most
    /// 128 bytes. With two provider queues, `error` selects the direction. The software transport
    /// does not report any.
    #[doc(alias = "err_data")]
    pub fn error_data(&self, error: &OpError, out: &mut [u8]) -> usize {
        let queue =
            self.body.rx.as_ref().filter(|_| error.flags.contains(CompletionFlags::RECV)).unwrap_or(&self.body.tx);
        // SAFETY: handles keep the queue open (C1) on its thread (C5).
        unsafe { T::cq_error_data(queue, out) }
    }

    /// Returns the provider's text for a failed operation.
    ///
    /// ```
    /// use loom_core::{Av, Cq, Domain, Errno, Forever, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// // The message is longer than the buffer.
    /// let received = bob.recv(Source::Any, vec![0; 3])?;
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// let error = cq.finish(received, Forever)?.result().unwrap_err();
    /// assert_eq!((error.errno, error.len, error.overflow), (Errno::ETRUNC, Some(3), Some(2)));
    /// println!("{error}: {}", cq.error_text(&error));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_cq_strerror")]
    #[must_use]
    pub fn error_text(&self, error: &OpError) -> ErrorText {
        let queue =
            self.body.rx.as_ref().filter(|_| error.flags.contains(CompletionFlags::RECV)).unwrap_or(&self.body.tx);
        ErrorText::written_by(|out| {
            // SAFETY: handles keep the queue open (C1) on its thread (C5).
            unsafe { T::cq_error_text(queue, error.provider_errno, out) }
        })
    }
}
