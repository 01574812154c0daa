//! [`Endpoint`]: where messages, tagged messages and RMA operations are posted.

mod builder;
mod message;
mod msg;
mod multi;
mod peek;
mod rma;
mod tagged;
mod unreported;

use core::fmt;

pub use self::builder::EndpointBuilder;
use crate::buffer::Buffer;
use crate::engine::op_table::OpKey;
use crate::engine::peer_table::Peer;
use crate::error::PostError;
use crate::objects::av::Av;
use crate::objects::cq::Cq;
use crate::objects::port::Port;
use crate::transport::Transport;
use crate::vocabulary::{EndpointAddr, EndpointOption, Errno, FabricAddr, OptionType};

/// Whose messages a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Anybody's.
    Any,
    /// One peer's; where the provider grants `DIRECTED_RECV`.
    #[doc(alias = "FI_DIRECTED_RECV")]
    Peer(Peer),
}

impl From<Peer> for Source {
    fn from(peer: Peer) -> Self {
        Source::Peer(peer)
    }
}

/// A connectionless endpoint.
///
/// Posts move a buffer into the queue and return an [`OpKey`]; the completion gives the buffer back. A post that is
/// not taken gives it back at once, in [`Rejected`](crate::error::Rejected). Dropping the endpoint closes it:
/// operations that are over by then complete as they ended (unless [`PEER_EVENTS`](super::cq::PEER_EVENTS) events of
/// peers lie before them), all others with `ECANCELED`, so every buffer comes back through the queue. A send, read or write
/// that ends so may have been done all the same: a peer may have received the message before the endpoint closed. (Where the
/// provider cannot close an endpoint while others are open that have talked to it, or while a long read is under way, as
/// `shm`, its receives are cancelled, its sends and reads go on, and it is closed with the queue; until then it keeps its
/// place in it.)
///
/// # References
/// - `man fi_endpoint`, `man fi_msg`, `man fi_tagged`, `man fi_rma`
#[doc(alias = "fid_ep")]
pub struct Endpoint<'q, 'd, T: Transport, B: Buffer> {
    port: Port<'q, 'd, T, B>,
    av: &'d Av<'d, T>,
}

impl<'q, 'd, T: Transport, B: Buffer> Endpoint<'q, 'd, T, B> {
    /// Asks for an operation to end early. Its completion still comes: with `ECANCELED`, or as if nothing had
    /// happened if it was too late, or if the provider cannot cancel this kind of operation.
    ///
    /// # Errors
    /// `ENOENT` if the operation is not in flight on this endpoint, or what the provider says.
    #[doc(alias = "fi_cancel")]
    pub fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        self.port.cancel(key)
    }

    /// The endpoint's address, for peers to insert into their address vectors.
    ///
    /// # Errors
    /// The provider's.
    #[doc(alias = "fi_getname")]
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        self.port.address()
    }

    /// The most bytes that the inject calls take. (Where the provider asks for room in front of messages, loom puts it there, and
    /// 1024 bytes are the most with that.)
    #[must_use]
    pub fn inject_size(&self) -> usize {
        self.port.limits.inject_size
    }

    /// What an option of the endpoint is set to.
    ///
    /// # Errors
    /// The provider's: `ENOPROTOOPT` for an option that it does not have.
    #[doc(alias = "fi_getopt")]
    pub fn option<V: OptionType>(&self, option: EndpointOption<V>) -> Result<V, Errno> {
        self.port.option(option)
    }

    /// Sets an option of the endpoint. Most have to be set [before it is enabled](EndpointBuilder::option).
    ///
    /// # Errors
    /// `EINVAL` for an option that can only be read or not be set to that, or what the provider says.
    #[doc(alias = "fi_setopt")]
    pub fn set_option<V: OptionType>(&self, option: EndpointOption<V>, value: V) -> Result<(), Errno> {
        self.port.set_option(option, value)
    }

    /// The queue that the endpoint completes into.
    #[must_use]
    pub fn cq(&self) -> &'q Cq<'d, T, B> {
        self.port.cq()
    }

    /// The address vector in which the endpoint finds its peers.
    #[must_use]
    pub fn av(&self) -> &'d Av<'d, T> {
        self.av
    }

    /// The raw handle, for posting what loom does not wrap.
    ///
    /// Events of contexts that the op table did not give out are counted as strays and otherwise ignored.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> &T::Endpoint {
        self.port.raw()
    }

    /// What it posts through.
    pub(crate) const fn port(&self) -> &Port<'q, 'd, T, B> {
        &self.port
    }

    #[inline]
    fn peer(&self, peer: Peer) -> Result<FabricAddr, PostError> {
        self.av.fabric_addr(peer).ok_or(PostError::UnknownPeer)
    }

    #[inline]
    fn source(&self, from: Source) -> Result<FabricAddr, PostError> {
        self.port.source(self.av, from)
    }

    /// As [`source`](Self::source), of messages without tag.
    #[inline]
    fn plain_source(&self, from: Source) -> Result<FabricAddr, PostError> {
        self.port.plain_source(self.av, from)
    }
}

impl<T: Transport, B: Buffer> fmt::Debug for Endpoint<'_, '_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("port", &self.port).finish_non_exhaustive()
    }
}
