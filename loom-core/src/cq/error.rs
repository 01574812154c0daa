#![allow(unsafe_code, reason = "queries the transport about an open queue")]

use core::fmt;

use super::Cq;
use crate::buffer::Buffer;
use crate::engine::op_table::OpError;
use crate::transport::Transport;
use crate::vocabulary::CompletionFlags;

/// Provider's text for an error, up to [`ErrorText::MAX_LEN`] bytes.
///
/// ```
/// use loom_core::{Forever, Source};
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

    /// Text up to the first byte that is not UTF-8.
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
    /// 128 bytes. With two provider queues, `error` selects the direction. None over the software
    /// transport.
    #[doc(alias = "err_data")]
    pub fn error_data(&self, error: &OpError, out: &mut [u8]) -> usize {
        let queue =
            self.body.rx.as_ref().filter(|_| error.flags.contains(CompletionFlags::RECV)).unwrap_or(&self.body.tx);
        // SAFETY: handles keep H1 and T1.
        unsafe { T::cq_error_data(queue, out) }
    }

    /// Provider's text for a failed operation.
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
    /// println!("{error}: {}", cq.error_text(&error));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_cq_strerror")]
    #[must_use]
    pub fn error_text(&self, error: &OpError) -> ErrorText {
        let queue =
            self.body.rx.as_ref().filter(|_| error.flags.contains(CompletionFlags::RECV)).unwrap_or(&self.body.tx);
        ErrorText::written_by(|out| {
            // SAFETY: handles keep H1 and T1.
            unsafe { T::cq_error_text(queue, error.provider_errno, out) }
        })
    }
}
