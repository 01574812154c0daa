//! [`TxContext`]: sends of one context.

#![allow(unsafe_code, reason = "opens a raw transmit context")]

use core::fmt;

use super::{ContextBinding, RxPeer};
use crate::buffer::{Buffer, SourceBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{OpenError, PostError, Rejected};
use crate::objects::av::Av;
use crate::objects::cq::Cq;
use crate::objects::options::SendOptions;
use crate::objects::port::{Port, Receives};
use crate::transport::Scalable;
use crate::transport::scalable::ContextBindings;
use crate::vocabulary::{Caps, Counted, EndpointOption, Errno, FabricAddr, ImmediateData, OptionType, Tag};

/// What it can count.
const COUNTABLE: Counted = Counted::SEND.union(Counted::READ).union(Counted::WRITE);

/// A transmit context of a [`ScalableEndpoint`](super::ScalableEndpoint): sends, reads and writes, ordered among themselves and
/// not with those of other contexts.
///
/// Peers are a [`Peer`](crate::engine::peer_table::Peer), or one of its receive contexts by number
/// ([`Peer::rx_context`](crate::engine::peer_table::Peer::rx_context)). RMA operations name a receive context, too: its queue tells of their immediate
/// data, and `sockets` serves none to a context that is not open.
///
/// Dropping it closes it. (Over `sockets` it can only be closed when its operations have ended, or when it is the last context of
/// its endpoint: else, after a short wait, they go on, and it is closed with its queue. If some never end, because the peer has
/// not the context open that they are for, closed it in the middle of one, or stands still, a long-lived queue then leaks itself,
/// and a scope ends the process.)
///
/// # References
/// - `man fi_endpoint`, *scalable endpoints*
#[doc(alias = "fi_tx_context")]
pub struct TxContext<'q, 'd, T: Scalable, B: Buffer> {
    pub(super) port: Port<'q, 'd, T, B>,
    av: &'d Av<'d, T>,
    injects_writes: bool,
}

impl<'d, T: Scalable, B: Buffer> Cq<'d, T, B> {
    /// Opens the transmit context of this number (of `&endpoint`, or of a [`ContextBinding`] with counters), which completes into
    /// this queue. It takes one of the queue's places for endpoints.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`] if the endpoint or a counter belongs to another domain
    /// - [`OpenError::Counters`] if two counters count the same, or what is of the other direction
    /// - [`OpenError::TooManyEndpoints`] if the queue has no place left
    /// - [`OpenError::Errno`]: `EINVAL` if the endpoint has no context of this number; `EBUSY` if it is open already, or if the
    ///   endpoint's last one was closed with operations in flight; or what the provider says
    #[doc(alias = "fi_tx_context")]
    pub fn tx_context<'q>(
        &'q self,
        bind: impl Into<ContextBinding<'d, T>>,
        index: u16,
    ) -> Result<TxContext<'q, 'd, T, B>, OpenError> {
        let bind = bind.into();
        bind.check(self.domain(), COUNTABLE)?;
        let ContextBinding { endpoint, counters, options } = &bind;
        let (endpoint, options) = (*endpoint, options.raw()?);
        if index >= endpoint.contexts.tx {
            return Err(Errno::EINVAL.into());
        }
        let port = Port::open(self, &endpoint.info, Receives::Nowhere, bind.bind(), |tx, _| {
            let bind = ContextBindings { cq: tx, counters: &counters.raw(), options };
            // SAFETY: endpoint, queue and counters are open, and outlive the context: the queue closes it before itself, and the
            // others live for 'd, where they are, and stay open while they have users.
            unsafe { T::tx_context_open(&endpoint.raw, index, bind) }
        })?;
        Ok(TxContext { port, av: endpoint.av, injects_writes: T::injects_writes(&endpoint.raw) })
    }
}

impl<'d, T: Scalable, B: Buffer> TxContext<'_, 'd, T, B> {
    #[inline]
    pub(super) fn rx_addr(&self, to: impl Into<RxPeer>) -> Result<FabricAddr, PostError> {
        let to = to.into();
        if to.index() != 0 {
            self.port.granted(Caps::NAMED_RX_CTX)?;
        }
        self.av.rx_addr(to)
    }

    /// Whether writes can be injected; see [`inject_write`](Self::inject_write).
    pub(super) fn may_inject_writes(&self) -> Result<(), PostError> {
        if self.injects_writes { Ok(()) } else { Err(PostError::Errno(Errno::EOPNOTSUPP)) }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// As [`Endpoint::send`](crate::objects::endpoint::Endpoint::send); [`PostError::BeyondContexts`] if the address vector was
    /// not opened for contexts of this number, and [`PostError::NotGranted`] for any but the first where the provider has not granted
    /// [`Caps::NAMED_RX_CTX`].
    #[doc(alias = "fi_send")]
    #[inline]
    pub fn send(&self, to: impl Into<RxPeer>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.send(|| self.rx_addr(to), None, buf)
    }

    /// Sends a message with immediate data.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`PostError::DataWidth`].
    #[doc(alias = "fi_senddata")]
    #[inline]
    pub fn send_data(&self, to: impl Into<RxPeer>, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.send(|| self.rx_addr(to), Some(data), buf)
    }

    /// Sends a message out of one buffer or several.
    ///
    /// # Errors
    /// As [`send_data`](Self::send_data); [`PostError::TooManyPieces`], and [`PostError::NotGranted`] for a fence where the
    /// provider has none.
    #[doc(alias = "fi_sendmsg")]
    #[doc(alias = "fi_sendv")]
    pub fn sendmsg(&self, to: impl Into<RxPeer>, options: SendOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.sendmsg(|| self.rx_addr(to), options, buf)
    }

    /// Sends a copy of `bytes`, which can be reused at once. Nothing reports success.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`PostError::TooLong`] beyond the provider's `inject_size`.
    #[doc(alias = "fi_inject")]
    #[inline]
    pub fn inject(&self, to: impl Into<RxPeer>, bytes: &[u8]) -> Result<(), PostError> {
        self.port.inject(|| self.rx_addr(to), None, bytes)
    }

    /// Sends a copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// As [`inject`](Self::inject), and [`PostError::DataWidth`].
    #[doc(alias = "fi_injectdata")]
    #[inline]
    pub fn inject_data(&self, to: impl Into<RxPeer>, data: ImmediateData, bytes: &[u8]) -> Result<(), PostError> {
        self.port.inject(|| self.rx_addr(to), Some(data), bytes)
    }

    /// Sends a tagged message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "fi_tsend")]
    #[inline]
    pub fn tagged_send(&self, to: impl Into<RxPeer>, tag: Tag, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.tagged_send(|| self.rx_addr(to), tag, None, buf)
    }

    /// Sends a tagged message with immediate data.
    ///
    /// # Errors
    /// As [`send_data`](Self::send_data).
    #[doc(alias = "fi_tsenddata")]
    #[inline]
    pub fn tagged_send_data(
        &self,
        to: impl Into<RxPeer>,
        tag: Tag,
        data: ImmediateData,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.tagged_send(|| self.rx_addr(to), tag, Some(data), buf)
    }

    /// Sends a tagged message out of one buffer or several.
    ///
    /// # Errors
    /// As [`sendmsg`](Self::sendmsg).
    #[doc(alias = "fi_tsendmsg")]
    #[doc(alias = "fi_tsendv")]
    pub fn tagged_sendmsg(
        &self,
        to: impl Into<RxPeer>,
        tag: Tag,
        options: SendOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.port.tagged_sendmsg(|| self.rx_addr(to), tag, options, buf)
    }

    /// Sends a tagged copy of `bytes`, which can be reused at once. Nothing reports success.
    ///
    /// # Errors
    /// As [`inject`](Self::inject).
    #[doc(alias = "fi_tinject")]
    #[inline]
    pub fn tagged_inject(&self, to: impl Into<RxPeer>, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        self.port.tagged_inject(|| self.rx_addr(to), tag, None, bytes)
    }

    /// Sends a tagged copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// As [`inject_data`](Self::inject_data).
    #[doc(alias = "fi_tinjectdata")]
    #[inline]
    pub fn tagged_inject_data(
        &self,
        to: impl Into<RxPeer>,
        tag: Tag,
        data: ImmediateData,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.port.tagged_inject(|| self.rx_addr(to), tag, Some(data), bytes)
    }

    /// Asks for an operation to end early, as [`Endpoint::cancel`](crate::objects::endpoint::Endpoint::cancel) does.
    ///
    /// # Errors
    /// `ENOENT` if the operation is not in flight on this context, or what the provider says: `sockets` cancels receives only.
    #[doc(alias = "fi_cancel")]
    pub fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        self.port.cancel(key)
    }

    /// The most bytes that the inject calls take.
    #[must_use]
    pub fn inject_size(&self) -> usize {
        self.port.limits.inject_size
    }

    /// What an option of the context is set to.
    ///
    /// # Errors
    /// The provider's: `ENOPROTOOPT` for an option that it does not have.
    #[doc(alias = "fi_getopt")]
    pub fn option<V: OptionType>(&self, option: EndpointOption<V>) -> Result<V, Errno> {
        self.port.option(option)
    }

    /// The queue that operations complete into.
    #[must_use]
    pub fn cq(&self) -> &Cq<'d, T, B> {
        self.port.cq()
    }

    /// The raw handle, for posting what loom does not wrap.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> &T::Endpoint {
        self.port.raw()
    }
}

impl<T: Scalable, B: Buffer> fmt::Debug for TxContext<'_, '_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxContext").field("port", &self.port).finish_non_exhaustive()
    }
}
