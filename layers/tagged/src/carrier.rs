use core::fmt;

use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::cq::Completion;
use loom_core::cq::{Cq, CqError};
use loom_core::endpoint::{Endpoint, MsgEndpoint, Source, ThePeer};
use loom_core::engine::op_table::OpError;
use loom_core::engine::peer_table::Peer;
use loom_core::error::Rejected;
use loom_core::transport::{Connected, Transport};

use crate::Packet;

/// Plain messages to and from one peer: a connected [`MsgEndpoint`], or an endpoint [with a
/// peer](WithPeer).
///
/// The queue returns every accepted packet once. Packets may be reordered but, while the peer runs,
/// neither lost nor duplicated. A packet waits for its receive.
///
/// ```
/// use loom_tagged::{Packet, TaggedAttr, TaggedEndpoint};
/// use loom_core::transport::Connected;
/// use loom_core::{Cq, Error, MsgEndpoint, allocator_api2::alloc::Global};
///
/// /// Adds tags to a connection that has none. The queue must be for this connection alone.
/// fn with_tags<'m, T: Connected>(
///     cq: Cq<'m, T, Packet<Vec<u8>>>,
///     connection: MsgEndpoint<'m, T, Packet<Vec<u8>>>,
/// ) -> Result<TaggedEndpoint<MsgEndpoint<'m, T, Packet<Vec<u8>>>, Vec<u8>, Global>, Error> {
///     let attr = TaggedAttr::DEFAULT;
///     let mut tagged = TaggedEndpoint::open(cq, attr)?;
///     let packets = (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
///     tagged.add_link(connection, packets)?;
///     Ok(tagged)
/// }
/// ```
pub trait Carrier {
    /// Buffer type of the packets.
    type Buf: SourceBuffer + TargetBuffer;
    /// Queue that returns the packets. Equal values are the same queue.
    type Queue: PartialEq;

    /// The carrier's queue.
    fn queue(&self) -> &Self::Queue;

    /// Sends a packet to the peer.
    ///
    /// # Errors
    /// The packet is returned.
    fn send(&self, packet: Packet<Self::Buf>) -> Result<(), Rejected<Packet<Self::Buf>>>;

    /// Receives the next packet of the peer, and of no other peer.
    ///
    /// # Errors
    /// The packet is returned.
    fn recv(&self, packet: Packet<Self::Buf>) -> Result<(), Rejected<Packet<Self::Buf>>>;

    /// Drives progress, and returns the next packet.
    ///
    /// # Errors
    /// The queue's.
    fn poll(queue: &Self::Queue) -> Result<Option<Ended<Self::Buf>>, CqError>;
}

/// A packet that was sent, received, or failed.
///
/// ```
/// use loom_core::cq::CqError;
/// use loom_tagged::{Carrier, Ended};
///
/// /// Polls the queue of a carrier and prints the error of a failed packet.
/// fn poll<C: Carrier>(queue: &C::Queue) -> Result<Option<Ended<C::Buf>>, CqError> {
///     let ended = C::poll(queue)?;
///     if let Some(Ended { result: Err(error), .. }) = &ended {
///         eprintln!("packet failed: {error}");
///     }
///     Ok(ended)
/// }
/// ```
#[derive(Debug)]
pub struct Ended<P> {
    /// Packet.
    pub packet: Packet<P>,
    /// Number of bytes, or the error.
    pub result: Result<usize, OpError>,
}

fn poll<T: Transport, P: Buffer>(cq: &Cq<'_, T, Packet<P>>) -> Result<Option<Ended<P>>, CqError> {
    /// Maximum completions skipped in a call, because peers can add them without end.
    const MOST: usize = 64;
    for _ in 0..MOST {
        match cq.poll()? {
            Some(Completion::Op(done)) => {
                let (packet, result) = done.into_parts();
                return Ok(Some(Ended { packet, result: result.map(|transfer| transfer.len) }));
            }
            // Not a post of this layer, like peers' writes to exposed memory.
            Some(_) => {}
            None => break,
        }
    }
    Ok(None)
}

impl<'m, T: Connected, P: SourceBuffer + TargetBuffer> Carrier for MsgEndpoint<'m, T, Packet<P>> {
    type Buf = P;
    type Queue = Cq<'m, T, Packet<P>>;

    fn queue(&self) -> &Self::Queue {
        self.cq()
    }

    #[inline]
    fn send(&self, packet: Packet<P>) -> Result<(), Rejected<Packet<P>>> {
        MsgEndpoint::send(self, ThePeer, packet).map(drop)
    }

    #[inline]
    fn recv(&self, packet: Packet<P>) -> Result<(), Rejected<Packet<P>>> {
        MsgEndpoint::recv(self, ThePeer, packet).map(drop)
    }

    #[inline]
    fn poll(queue: &Self::Queue) -> Result<Option<Ended<P>>, CqError> {
        poll(queue)
    }
}

/// A connectionless endpoint and one of its peers.
///
/// Requires directed receives of messages without tags
/// ([`DIRECTED_RECV`](loom_core::vocabulary::Caps::DIRECTED_RECV)). Over a provider that has only
/// tagged ones, the link is refused as
/// [`PostError::NotGranted`](loom_core::error::PostError::NotGranted).
///
/// ```
/// use loom_tagged::{LinkId, Packet, TaggedAttr, TaggedEndpoint, WithPeer};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # use loom_core::{Av, Cq, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 3)?;
/// # let queue = || Cq::<_, Packet<Vec<u8>>>::open(&domain, 256);
/// # let (cq, other) = (queue()?, queue()?);
/// # let (endpoint, bob, carol) = (cq.endpoint(&av)?, other.endpoint(&av)?, other.endpoint(&av)?);
/// # let (to_bob, to_carol) = (av.insert(&bob.address()?)?, av.insert(&carol.address()?)?);
/// let attr = TaggedAttr { links: 2, ..TaggedAttr::DEFAULT };
/// let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
/// let mut tagged = TaggedEndpoint::<_, Vec<u8>, _>::open(cq, attr)?;
/// // One endpoint carries the links to both peers.
/// let link_to_bob = tagged.add_link(WithPeer::new(&endpoint, to_bob), packets())?;
/// let link_to_carol = tagged.add_link(WithPeer::new(&endpoint, to_carol), packets())?;
/// assert_eq!([link_to_bob, link_to_carol].map(LinkId::index), [0, 1]);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct WithPeer<'m, T: Transport, P: Buffer> {
    endpoint: Endpoint<'m, T, Packet<P>>,
    peer: Peer,
}

impl<'m, T: Transport, P: Buffer> WithPeer<'m, T, P> {
    /// Combines an endpoint with one of its peers, each peer at most once, even after its link has
    /// ended: its receives stay posted until the endpoint is closed. A new link to the peer needs
    /// its own endpoint.
    #[must_use]
    pub fn new(endpoint: &Endpoint<'m, T, Packet<P>>, peer: Peer) -> Self {
        WithPeer { endpoint: endpoint.clone(), peer }
    }
}

impl<'m, T: Transport, P: SourceBuffer + TargetBuffer> Carrier for WithPeer<'m, T, P> {
    type Buf = P;
    type Queue = Cq<'m, T, Packet<P>>;

    fn queue(&self) -> &Self::Queue {
        self.endpoint.cq()
    }

    #[inline]
    fn send(&self, packet: Packet<P>) -> Result<(), Rejected<Packet<P>>> {
        self.endpoint.send(self.peer, packet).map(drop)
    }

    #[inline]
    fn recv(&self, packet: Packet<P>) -> Result<(), Rejected<Packet<P>>> {
        self.endpoint.recv(Source::Peer(self.peer), packet).map(drop)
    }

    #[inline]
    fn poll(queue: &Self::Queue) -> Result<Option<Ended<P>>, CqError> {
        poll(queue)
    }
}

impl<T: Transport, P: Buffer> fmt::Debug for WithPeer<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithPeer").field("endpoint", &self.endpoint).field("peer", &self.peer).finish()
    }
}
