//! Endpoints, and addresses of peers.

use core::net::SocketAddr;

use loom_core::engine::tag_matcher::TagMatcher;
use loom_core::vocabulary::Errno;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use super::connected::ConnectData;
use super::connection::State;
use super::list::Free;
use super::loss::Loss;
use super::queues::BoundCounters;
use super::socket;
use super::{Engine, Full, MessageKind, NIL};
use crate::memory::Block;

/// Objects of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) tx: u16,
    pub(crate) rx: u16,
    pub(crate) vector: u16,
}

impl Bound {
    pub(crate) const NO_VECTOR: u16 = u16::MAX;
}

/// Default of `FI_OPT_MIN_MULTI_RECV` in bytes.
const MIN_MULTI_RECV: u64 = 64;

/// Bits of a generation in an [`identity`](Engine::identity).
const GENERATION_BITS: u32 = 47;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    Free,
    /// Endpoint without connections (`FI_EP_RDM`).
    Rdm,
    /// Listener of endpoints with connections.
    Passive,
    /// Endpoint with one connection (`FI_EP_MSG`).
    Connected,
    /// Receives of several endpoints.
    Shared,
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(super) kind: EndpointKind,
    /// Number of endpoints in this place so far.
    pub(super) generation: u64,
    /// Event queue, of endpoints with connections and listeners.
    pub(super) events: u16,
    /// Endpoint with the receives.
    pub(super) receiver: u16,
    /// Connection of an endpoint with connections, or `NIL`.
    pub(super) connection: u32,
    /// The connection has ended.
    pub(super) has_ended: bool,
    /// Data of the request for a connection.
    pub(super) data: ConnectData,
    pub(super) remote: Option<SocketAddr>,
    pub(super) listener: Option<OwnedFd>,
    /// The listener is not watched: its connections have no room.
    pub(super) is_unwatched: bool,
    pub(super) name: SocketAddr,
    pub(super) bound: Bound,
    pub(super) counters: BoundCounters,
    pub(super) matchers: [TagMatcher<Block>; MessageKind::COUNT],
    pub(super) free_sends: Free,
    /// Minimum of bytes left in a buffer of several messages for the next one.
    pub(super) min_multi_recv: u64,
}

impl Engine {
    /// Opens an endpoint that listens at an address.
    pub(crate) fn open_endpoint(
        &mut self,
        address: SocketAddr,
        bound: Bound,
        counters: impl Iterator<Item = (loom_core::vocabulary::Counted, u16)> + Clone,
    ) -> Result<u16, Errno> {
        let index = self.take_endpoint(address)?;
        self.listen(index, address)?;
        let endpoint = &mut self.endpoints[usize::from(index)];
        endpoint.kind = EndpointKind::Rdm;
        endpoint.bound = bound;
        endpoint.counters = BoundCounters::bind(counters);
        self.routes_of(index).fill(NIL);
        Ok(index)
    }

    pub(super) fn free_endpoint(&mut self) -> Result<u16, Errno> {
        let free =
            self.endpoints.iter().position(|endpoint| endpoint.kind == EndpointKind::Free).ok_or(Full::ENDPOINTS)?;
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 endpoints")]
        let index = free as u16;
        let endpoint = &mut self.endpoints[free];
        endpoint.generation = (endpoint.generation + 1) % (1 << GENERATION_BITS);
        endpoint.receiver = index;
        endpoint.bound = Bound { tx: 0, rx: 0, vector: Bound::NO_VECTOR };
        endpoint.connection = NIL;
        endpoint.has_ended = false;
        endpoint.remote = None;
        endpoint.counters = Default::default();
        endpoint.min_multi_recv = MIN_MULTI_RECV;
        Ok(index)
    }

    /// Prepares a free place for an endpoint with an address of the domain's family.
    pub(super) fn take_endpoint(&mut self, address: SocketAddr) -> Result<u16, Errno> {
        if address.is_ipv4() == self.address.is_ipv4() { self.free_endpoint() } else { Err(Errno::EINVAL) }
    }

    /// Closes an endpoint. Bytes that the kernel does not take at once are lost, and operations in
    /// flight report no event.
    pub(crate) fn close_endpoint(&mut self, endpoint: u16) {
        for index in 0..self.connections.len() {
            #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 connections")]
            let index = index as u32;
            let connection = &self.connections[index as usize];
            if connection.state != State::Free && connection.endpoint == endpoint {
                self.flush(index);
                self.drain(index);
                self.lose(index, Loss::Closed);
            }
        }
        self.forget_messages(endpoint);
        if matches!(self.endpoints[usize::from(endpoint)].kind, EndpointKind::Passive | EndpointKind::Connected) {
            self.withdraw_events(endpoint);
        }
        let closed = &mut self.endpoints[usize::from(endpoint)];
        if let Some(listener) = closed.listener.take() {
            let _ = epoll::delete(&self.epoll, &listener);
            socket::shut_down(listener);
        }
        closed.kind = EndpointKind::Free;
        self.unwatched -= u32::from(core::mem::take(&mut closed.is_unwatched));
        self.set_timer();
    }

    pub(crate) fn min_multi_recv(&mut self, endpoint: u16) -> &mut u64 {
        &mut self.endpoints[usize::from(endpoint)].min_multi_recv
    }

    /// Identity of an endpoint or listener in events: a mark, the generation and the index.
    pub(crate) fn identity(&self, endpoint: u16) -> u64 {
        1 << 63 | self.endpoints[usize::from(endpoint)].generation << 16 | u64::from(endpoint)
    }

    /// Address at which an endpoint listens.
    pub(crate) fn name_of(&self, endpoint: u16) -> SocketAddr {
        self.endpoints[usize::from(endpoint)].name
    }

    pub(super) fn routes_of(&mut self, endpoint: u16) -> &mut [u32] {
        let peers = self.attr.peers as usize;
        &mut self.routes[usize::from(endpoint) * peers..][..peers]
    }

    pub(crate) fn open_vector(&mut self) -> Result<u16, Errno> {
        let free = self.vectors.iter().position(|is_open| !is_open).ok_or(Full::VECTORS)?;
        self.vectors[free] = true;
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 vectors")]
        let vector = free as u16;
        self.peers_of(vector).fill(None);
        Ok(vector)
    }

    pub(crate) fn close_vector(&mut self, vector: u16) {
        self.vectors[usize::from(vector)] = false;
    }

    fn peers_of(&mut self, vector: u16) -> &mut [Option<SocketAddr>] {
        let peers = self.attr.peers as usize;
        &mut self.peers[usize::from(vector) * peers..][..peers]
    }

    pub(crate) fn peer_address(&mut self, vector: u16, peer: u64) -> Option<SocketAddr> {
        let peer = usize::try_from(peer).ok()?;
        self.peers_of(vector).get(peer).copied().flatten()
    }

    /// Index of an address in a vector, or `NIL`.
    pub(super) fn peer_of(&mut self, vector: u16, address: SocketAddr) -> u32 {
        let peers = self.peers_of(vector);
        #[expect(clippy::cast_possible_truncation, reason = "there are fewer than `NIL` peers")]
        peers.iter().position(|peer| *peer == Some(address)).map_or(NIL, |index| index as u32)
    }

    /// Inserts an address at the lowest free index. Connections of the peer get it, too.
    pub(crate) fn insert_peer(&mut self, vector: u16, address: SocketAddr) -> Result<u32, Errno> {
        let address = self.peer(address)?;
        if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
            return Err(Errno::EINVAL);
        }
        let free = self.peers_of(vector).iter().position(Option::is_none).ok_or(Errno::ENOSPC)?;
        self.peers_of(vector)[free] = Some(address);
        #[expect(clippy::cast_possible_truncation, reason = "there are fewer than `NIL` peers")]
        let peer = free as u32;
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            let endpoint = connection.endpoint;
            let is_of_vector = self.endpoints[usize::from(endpoint)].bound.vector == vector;
            if !matches!(connection.state, State::Free | State::Accepted | State::Pending)
                && connection.address == address
                && connection.peer == NIL
                && is_of_vector
            {
                connection.peer = peer;
                if connection.is_broken {
                    continue;
                }
                #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 connections")]
                let index = index as u32;
                self.routes_of(endpoint)[free] = index;
            }
        }
        // Messages of the peer may wait for its address.
        self.try_paused |= self.paused > 0;
        Ok(peer)
    }

    /// Removes an address. Its connections stay open until their peer closes them, and carry the
    /// operations in flight.
    pub(crate) fn remove_peer(&mut self, vector: u16, peer: u64) -> Result<(), Errno> {
        let index = usize::try_from(peer).map_err(|_| Errno::EINVAL)?;
        self.peers_of(vector).get_mut(index).and_then(Option::take).ok_or(Errno::EINVAL)?;
        for endpoint in 0..self.endpoints.len() {
            if self.endpoints[endpoint].bound.vector == vector {
                #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 endpoints")]
                let endpoint = endpoint as u16;
                self.routes_of(endpoint)[index] = NIL;
            }
        }
        for connection in self.connections.iter_mut() {
            let bound = self.endpoints[usize::from(connection.endpoint)].bound;
            if bound.vector == vector && u64::from(connection.peer) == peer {
                connection.peer = NIL;
            }
        }
        for endpoint in 0..self.attr.endpoints {
            if self.endpoints[usize::from(endpoint)].bound.vector == vector {
                self.forget_source(endpoint, peer);
            }
        }
        Ok(())
    }
}
