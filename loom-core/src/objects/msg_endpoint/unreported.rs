//! Operations that do not report their success: as those of
//! [connectionless endpoints](crate::objects::endpoint::Endpoint::send_unreported), where there is an example.

#![allow(unsafe_code, reason = "operations with memory that no completion gives back")]

use super::{Established, MsgEndpoint, the_peer};
use crate::buffer::{Buffer, Lent};
use crate::error::PostError;
use crate::objects::mr::RemoteRegion;
use crate::objects::options::{ReadOptions, SendOptions};
use crate::transport::Connected;
use crate::vocabulary::Tag;

impl<T: Connected, B: Buffer> MsgEndpoint<'_, '_, T, B, Established> {
    /// Sends a message, and reports nothing if that succeeds: as
    /// [`Endpoint::send_unreported`](crate::objects::endpoint::Endpoint::send_unreported).
    ///
    /// # Errors
    /// - [`PostError::NotSelective`] if the endpoint was not bound as [selective](super::Binding::selective);
    /// - any other [`PostError`] of a send but `Full`; [`PostError::Errno`] with `EOPNOTSUPP` where the provider wants
    ///   memory for each operation's context (`FI_CONTEXT`).
    ///
    /// # Safety
    /// What `lent` describes is memory that may be read. Until the operation is over
    /// - the memory stays where it is, and nobody writes to it;
    /// - the endpoint stays open: it is not dropped, and neither is its queue.
    #[doc(alias = "fi_sendmsg")]
    pub unsafe fn send_unreported(&self, options: SendOptions, lent: &Lent) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.port.send_unreported(the_peer, None, options, lent) }
    }

    /// Sends a tagged message, as [`send_unreported`](Self::send_unreported).
    ///
    /// # Errors
    /// As [`send_unreported`](Self::send_unreported).
    ///
    /// # Safety
    /// As [`send_unreported`](Self::send_unreported).
    #[doc(alias = "fi_tsendmsg")]
    pub unsafe fn tagged_send_unreported(&self, tag: Tag, options: SendOptions, lent: &Lent) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.port.send_unreported(the_peer, Some(tag), options, lent) }
    }

    /// Writes into the peer's region, from `offset` bytes into it, as [`send_unreported`](Self::send_unreported).
    ///
    /// # Errors
    /// As [`send_unreported`](Self::send_unreported), and [`PostError::OutOfBounds`].
    ///
    /// # Safety
    /// As [`send_unreported`](Self::send_unreported).
    #[doc(alias = "fi_writemsg")]
    pub unsafe fn write_unreported(
        &self,
        region: &RemoteRegion,
        offset: u64,
        options: SendOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.port.write_unreported(the_peer, region, offset, options, lent) }
    }

    /// Reads from the peer's region, from `offset` bytes into it, as [`send_unreported`](Self::send_unreported).
    ///
    /// # Errors
    /// As [`send_unreported`](Self::send_unreported), and [`PostError::OutOfBounds`].
    ///
    /// # Safety
    /// As [`send_unreported`](Self::send_unreported), but it is memory that may be written, and nobody reads from it or refers
    /// to it until then.
    #[doc(alias = "fi_readmsg")]
    pub unsafe fn read_unreported(
        &self,
        region: &RemoteRegion,
        offset: u64,
        options: ReadOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.port.read_unreported(the_peer, region, offset, options, lent) }
    }
}
