//! [`RxContext`]: receives of one context.

#![allow(unsafe_code, reason = "opens a raw receive context, and lends buffers whose rules the caller keeps")]

use core::fmt;

use super::ContextBinding;
use crate::buffer::{Buffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{OpenError, Rejected};
use crate::objects::av::Av;
use crate::objects::cq::Cq;
use crate::objects::endpoint::Source;
use crate::objects::options::RecvOptions;
use crate::objects::port::{Port, Receives};
use crate::transport::Scalable;
use crate::transport::scalable::ContextBindings;
use crate::vocabulary::{Counted, EndpointOption, Errno, OptionType, TagMatch};

/// What it can count.
const COUNTABLE: Counted = Counted::RECV.union(Counted::REMOTE_READ).union(Counted::REMOTE_WRITE);

/// A receive context of a [`ScalableEndpoint`](super::ScalableEndpoint): takes the messages that peers send to its number, and
/// their RMA operations complete into its queue.
///
/// Dropping it closes it, when its receives have been cancelled or have ended; a receive that does neither soon comes back with
/// `ECANCELED`. Over `sockets`, one that is closed in the middle of a message holds up what the same peer sends to the other
/// contexts, until the scalable endpoint is closed.
///
/// # References
/// - `man fi_endpoint`, *scalable endpoints*
#[doc(alias = "fi_rx_context")]
pub struct RxContext<'q, 'd, T: Scalable, B: Buffer> {
    pub(super) port: Port<'q, 'd, T, B>,
    pub(super) av: &'d Av<'d, T>,
}

impl<'d, T: Scalable, B: Buffer> Cq<'d, T, B> {
    /// Opens the receive context of this number (of `&endpoint`, or of a [`ContextBinding`] with counters), which completes into
    /// this queue. It takes one of the queue's places for endpoints.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`] if the endpoint or a counter belongs to another domain
    /// - [`OpenError::Counters`] if two counters count the same, or what is of the other direction
    /// - [`OpenError::TooManyEndpoints`] if the queue has no place left
    /// - [`OpenError::Errno`]: `EINVAL` if the endpoint has no context of this number; `EBUSY` if it is open already, or if the
    ///   endpoint's last one was closed with operations in flight; or what the provider says
    #[doc(alias = "fi_rx_context")]
    pub fn rx_context<'q>(
        &'q self,
        bind: impl Into<ContextBinding<'d, T>>,
        index: u16,
    ) -> Result<RxContext<'q, 'd, T, B>, OpenError> {
        let bind = bind.into();
        bind.check(self.domain(), COUNTABLE)?;
        let ContextBinding { endpoint, counters, options } = &bind;
        let (endpoint, options) = (*endpoint, options.raw()?);
        if index >= endpoint.contexts.rx {
            return Err(Errno::EINVAL.into());
        }
        let port = Port::open(self, &endpoint.info, Receives::Itself, bind.bind(), |_, rx| {
            let bind = ContextBindings { cq: rx, counters: &counters.raw(), options };
            // SAFETY: endpoint, queue and counters are open, and outlive the context: the queue closes it before itself, and the
            // others live for 'd, where they are, and stay open while they have users.
            unsafe { T::rx_context_open(&endpoint.raw, index, bind) }
        })?;
        Ok(RxContext { port, av: endpoint.av })
    }
}

impl<'d, T: Scalable, B: Buffer> RxContext<'_, 'd, T, B> {
    /// Receives a message.
    ///
    /// # Errors
    /// As [`Endpoint::recv`](crate::objects::endpoint::Endpoint::recv).
    #[doc(alias = "fi_recv")]
    #[inline]
    pub fn recv(&self, from: Source, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.recv(|| self.port.plain_source(self.av, from), buf)
    }

    /// Receives a message into one buffer or several, each filled before the next.
    ///
    /// # Errors
    /// As [`Endpoint::recvmsg`](crate::objects::endpoint::Endpoint::recvmsg).
    #[doc(alias = "fi_recvmsg")]
    #[doc(alias = "fi_recvv")]
    pub fn recvmsg(&self, from: Source, options: RecvOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.recvmsg(|| self.port.plain_source(self.av, from), options, buf)
    }

    /// Receives a tagged message: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    #[doc(alias = "fi_trecv")]
    #[inline]
    pub fn tagged_recv(&self, from: Source, tag: impl Into<TagMatch>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.tagged_recv(|| self.port.source(self.av, from), tag.into(), buf)
    }

    /// Receives a tagged message into one buffer or several.
    ///
    /// # Errors
    /// As [`recvmsg`](Self::recvmsg).
    #[doc(alias = "fi_trecvmsg")]
    #[doc(alias = "fi_trecvv")]
    pub fn tagged_recvmsg(
        &self,
        from: Source,
        tag: impl Into<TagMatch>,
        options: RecvOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.tagged_recvmsg(|| self.port.source(self.av, from), tag.into(), options, buf)
    }

    /// Receives messages into one buffer, one behind the other.
    ///
    /// # Errors
    /// As [`Endpoint::multi_recv`](crate::objects::endpoint::Endpoint::multi_recv).
    #[doc(alias = "FI_MULTI_RECV")]
    pub fn multi_recv(&self, from: Source, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.multi_recv(|| self.port.plain_source(self.av, from), buf)
    }

    /// [`multi_recv`](Self::multi_recv) over any provider that grants it.
    ///
    /// # Errors
    /// As [`multi_recv`](Self::multi_recv), but for [`PostError::NotSafe`](crate::error::PostError::NotSafe).
    ///
    /// # Safety
    /// As for [`Endpoint::multi_recv_trusting`](crate::objects::endpoint::Endpoint::multi_recv_trusting).
    #[doc(alias = "FI_MULTI_RECV")]
    pub unsafe fn multi_recv_trusting(&self, from: Source, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        // SAFETY: the caller's promise.
        unsafe { self.port.multi_recv_trusting(|| self.port.plain_source(self.av, from), buf) }
    }

    /// Asks for a receive to end early, as [`Endpoint::cancel`](crate::objects::endpoint::Endpoint::cancel) does.
    ///
    /// # Errors
    /// `ENOENT` if the operation is not in flight on this context, or what the provider says.
    #[doc(alias = "fi_cancel")]
    pub fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        self.port.cancel(key)
    }

    /// What an option of the context is set to.
    ///
    /// # Errors
    /// The provider's: `ENOPROTOOPT` for an option that it does not have.
    #[doc(alias = "fi_getopt")]
    pub fn option<V: OptionType>(&self, option: EndpointOption<V>) -> Result<V, Errno> {
        self.port.option(option)
    }

    /// The queue that receives complete into.
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

impl<T: Scalable, B: Buffer> Drop for RxContext<'_, '_, T, B> {
    fn drop(&mut self) {
        // Not in the middle of a message, if that can be.
        self.port.cancel_and_settle();
    }
}

impl<T: Scalable, B: Buffer> fmt::Debug for RxContext<'_, '_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RxContext").field("port", &self.port).finish_non_exhaustive()
    }
}
