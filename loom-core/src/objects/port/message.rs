//! Messages: `man fi_msg`.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Port;
use super::post::{Use, needs, taken};
use crate::buffer::Buffer;
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::transport::Transport;
use crate::vocabulary::{FabricAddr, ImmediateData};

impl<T: Transport, B: Buffer> Port<'_, '_, T, B> {
    /// `to` gives an address that the endpoint may send to: one in its vector.
    #[inline]
    pub(crate) fn send(
        &self,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        data: Option<ImmediateData>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        self.transmit((needs::SEND, Use::Send), to, data, buf, |raw, to, lent, context| {
            // SAFETY: see `transmit`.
            taken(unsafe { T::send(raw, to, lent, data, context) })
        })
    }

    /// As [`send`](Self::send).
    #[inline]
    pub(crate) fn inject(
        &self,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        data: Option<ImmediateData>,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.inject_message(needs::SEND, to, data, bytes, |to, bytes| {
            // SAFETY: see `inject_message`.
            taken(unsafe { T::inject(self.raw(), to, bytes, data) })
        })
    }

    /// `from` gives an address in the endpoint's vector, or none in particular.
    #[inline]
    pub(crate) fn recv(
        &self,
        from: impl FnOnce() -> Result<FabricAddr, PostError>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        self.receive((needs::RECV, Use::Receive), from, buf, |raw, from, lent, context| {
            // SAFETY: see `receive`.
            taken(unsafe { T::recv(raw, from, lent, context) })
        })
    }
}
