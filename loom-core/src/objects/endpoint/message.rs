//! Messages: what `man fi_msg` describes.

use super::{Endpoint, Source};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::engine::peer_table::Peer;
use crate::error::{PostError, Rejected};
use crate::transport::Transport;
use crate::vocabulary::ImmediateData;

impl<T: Transport, B: Buffer> Endpoint<'_, '_, T, B> {
    /// Sends a message.
    ///
    /// # Errors
    /// Any [`PostError`] but `OutOfBounds`; the buffer comes back.
    #[doc(alias = "fi_send")]
    #[inline]
    pub fn send(&self, to: Peer, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.send(|| self.peer(to), None, buf)
    }

    /// Sends a message with immediate data, which the receiver finds in its completion.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`PostError::DataWidth`] if the provider carries fewer bytes than `data` needs.
    #[doc(alias = "fi_senddata")]
    #[inline]
    pub fn send_data(&self, to: Peer, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.send(|| self.peer(to), Some(data), buf)
    }

    /// Sends a copy of `bytes`, which can be reused at once. Nothing reports success.
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the provider's `inject_size`, or any other [`PostError`] of a send.
    #[doc(alias = "fi_inject")]
    #[inline]
    pub fn inject(&self, to: Peer, bytes: &[u8]) -> Result<(), PostError> {
        self.port.inject(|| self.peer(to), None, bytes)
    }

    /// Sends a copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// As [`inject`](Self::inject), and [`PostError::DataWidth`].
    #[doc(alias = "fi_injectdata")]
    #[inline]
    pub fn inject_data(&self, to: Peer, data: ImmediateData, bytes: &[u8]) -> Result<(), PostError> {
        self.port.inject(|| self.peer(to), Some(data), bytes)
    }

    /// Receives a message.
    ///
    /// A message that is longer than the buffer completes with `ETRUNC`: what fits is there, and the error says how
    /// much did not.
    ///
    /// # Errors
    /// [`PostError::NotGranted`] for a directed receive where the provider has none, or has none that works for messages
    /// without tag (`net` and `tcp` take anybody's, `shm` and `tcp;ofi_rxm` of libfabric 2 crash), or any other [`PostError`];
    /// the buffer comes back.
    #[doc(alias = "fi_recv")]
    #[inline]
    pub fn recv(&self, from: Source, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.recv(|| self.plain_source(from), buf)
    }
}
