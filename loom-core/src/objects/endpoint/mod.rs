//! [`Endpoint`]: where messages, tagged messages and RMA operations are posted.

#![allow(unsafe_code, reason = "uses and closes the raw handle in the endpoint's record")]

mod builder;
mod message;
mod post;
mod record;
mod rma;
mod tagged;

use core::fmt;

pub use self::builder::EndpointBuilder;
use self::post::Limits;
pub use self::record::Record;
use crate::buffer::Buffer;
use crate::engine::op_table::OpKey;
use crate::engine::peer_table::Peer;
use crate::objects::av::Av;
use crate::objects::cq::Cq;
use crate::transport::{Closing, Transport};
use crate::vocabulary::{EndpointAddr, Errno};

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
/// peers lie before them), all others with `ECANCELED`, so every buffer comes back through the queue. (Where the
/// provider cannot close an endpoint while others are open that have talked to it, or while a long read is under way, as
/// `shm`, its receives are cancelled, its sends and reads go on, and it is closed with the queue; until then it keeps its
/// place in it.)
///
/// # References
/// - `man fi_endpoint`, `man fi_msg`, `man fi_tagged`, `man fi_rma`
#[doc(alias = "fid_ep")]
pub struct Endpoint<'q, 'd, T: Transport, B: Buffer> {
    cq: &'q Cq<'d, T, B>,
    record: &'q Record<'d, T>,
    av: &'d Av<'d, T>,
    index: u16,
    limits: Limits,
}

impl<'q, 'd, T: Transport, B: Buffer> Endpoint<'q, 'd, T, B> {
    /// Asks for an operation to end early. Its completion still comes: with `ECANCELED`, or as if nothing had
    /// happened if it was too late, or if the provider cannot cancel this kind of operation.
    ///
    /// # Errors
    /// `ENOENT` if the operation is not in flight on this endpoint, or what the provider says.
    #[doc(alias = "fi_cancel")]
    pub fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        let context = self.cq.ops().context_of(key, self.index).ok_or(Errno::ENOENT)?;
        // SAFETY: the endpoint is open and the context is one of its operations in flight.
        unsafe { T::cancel(self.raw(), context) }
    }

    /// The endpoint's address, for peers to insert into their address vectors.
    ///
    /// # Errors
    /// The provider's.
    #[doc(alias = "fi_getname")]
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        // SAFETY: the endpoint is open.
        unsafe { T::endpoint_address(self.raw()) }
    }

    /// The most bytes that the inject calls take.
    #[must_use]
    pub fn inject_size(&self) -> usize {
        self.limits.inject_size
    }

    /// The queue that the endpoint completes into.
    #[must_use]
    pub fn cq(&self) -> &'q Cq<'d, T, B> {
        self.cq
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
        // SAFETY: the record is open from `enable` until this value is dropped.
        unsafe { self.record.raw() }
    }
}

impl<T: Transport, B: Buffer> Drop for Endpoint<'_, '_, T, B> {
    fn drop(&mut self) {
        let (ops, domain) = (self.cq.ops(), self.cq.domain());
        let close = || {
            // SAFETY: the record belongs to this endpoint, which is used no more.
            unsafe { self.record.close(domain, self.cq.in_flight_on(self.index)) }
        };
        let mut closed = close();
        if let Ok(Closing::Retired) = closed {
            self.record.cancel_all(ops.posted_on(self.index));
            self.cq.settle(self.index);
            closed = close();
        }
        // A retired endpoint is closed with its queue. If closing failed, the queue finds out when it is dropped, and
        // does what has to be done.
        if let Ok(Closing::Closed) = closed {
            // What was over before the close is a completion like any other.
            self.cq.collect();
            // SAFETY: the endpoint is closed.
            unsafe { ops.abandon(self.index) };
            self.cq.note_kept();
            domain.lingering().release();
        }
    }
}

impl<T: Transport, B: Buffer> fmt::Debug for Endpoint<'_, '_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("index", &self.index).field("limits", &self.limits).finish_non_exhaustive()
    }
}
