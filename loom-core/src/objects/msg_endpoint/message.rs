//! Messages between connected endpoints: what `man fi_msg` describes.

use super::{Established, MsgEndpoint, the_peer};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::transport::Connected;
use crate::vocabulary::ImmediateData;

impl<T: Connected, B: Buffer> MsgEndpoint<'_, '_, T, B, Established> {
    /// Sends a message.
    ///
    /// # Errors
    /// Any [`PostError`] but `OutOfBounds` and `UnknownPeer`; the buffer comes back.
    #[doc(alias = "fi_send")]
    #[inline]
    pub fn send(&self, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.send(the_peer, None, buf)
    }

    /// Sends a message with immediate data, which the receiver finds in its completion.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`PostError::DataWidth`] if the provider carries fewer bytes than `data` needs.
    #[doc(alias = "fi_senddata")]
    #[inline]
    pub fn send_data(&self, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.send(the_peer, Some(data), buf)
    }

    /// Sends a copy of `bytes`, which can be reused at once. Nothing reports success.
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the provider's `inject_size`, or any other [`PostError`] of a send.
    #[doc(alias = "fi_inject")]
    #[inline]
    pub fn inject(&self, bytes: &[u8]) -> Result<(), PostError> {
        self.port.inject(the_peer, None, bytes)
    }

    /// Sends a copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// As [`inject`](Self::inject), and [`PostError::DataWidth`].
    #[doc(alias = "fi_injectdata")]
    #[inline]
    pub fn inject_data(&self, data: ImmediateData, bytes: &[u8]) -> Result<(), PostError> {
        self.port.inject(the_peer, Some(data), bytes)
    }
}

impl<T: Connected, B: Buffer, S> MsgEndpoint<'_, '_, T, B, S> {
    /// Receives a message.
    ///
    /// A message that is longer than the buffer completes with `ETRUNC`: what fits is there, and the error says how
    /// much did not.
    ///
    /// # Errors
    /// Any [`PostError`] but `OutOfBounds` and `UnknownPeer`; the buffer comes back.
    #[doc(alias = "fi_recv")]
    #[inline]
    pub fn recv(&self, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.recv(the_peer, buf)
    }
}
