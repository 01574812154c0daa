//! Endpoints with connections: opening, requests, and the events of both.

use core::net::SocketAddr;

use heapless::Vec;
use loom_core::vocabulary::{Counted, Errno};
use rustix::event::epoll::EventFlags;

use super::connection::{Inbound, State};
use super::endpoints::{Bound, EndpointKind};
use super::event_queues::EqEvent;
use super::loss::Loss;
use super::queues::BoundCounters;
use super::{Engine, NIL};
use crate::wire::{ConnectKind, MAX_CONNECT_DATA};

/// Connection data.
pub(crate) type ConnectData = Vec<u8, MAX_CONNECT_DATA>;

/// Request of a peer that the program has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingRequest {
    index: u32,
    generation: u32,
}

impl Engine {
    /// Address of the listener with this identity.
    pub(crate) fn name_of_identity(&self, identity: u64) -> SocketAddr {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are the index")]
        let index = identity as u16;
        self.name_of(index)
    }

    pub(crate) fn open_passive(&mut self, address: SocketAddr, events: u16) -> Result<u16, Errno> {
        let index = self.take_endpoint(address)?;
        self.listen(index, address)?;
        let endpoint = &mut self.endpoints[usize::from(index)];
        endpoint.kind = EndpointKind::Passive;
        endpoint.events = events;
        Ok(index)
    }

    /// Opens receives that endpoints share.
    pub(crate) fn open_shared(&mut self, rx: u16) -> Result<u16, Errno> {
        let free = self.free_endpoint()?;
        let endpoint = &mut self.endpoints[usize::from(free)];
        endpoint.kind = EndpointKind::Shared;
        endpoint.bound = Bound { tx: rx, rx, vector: Bound::NO_VECTOR };
        endpoint.receiver = free;
        Ok(free)
    }

    /// Opens an endpoint to be connected, or for a request.
    pub(crate) fn open_connected(
        &mut self,
        (address, bound, events): (SocketAddr, Bound, u16),
        shared: Option<u16>,
        counters: impl Iterator<Item = (Counted, u16)> + Clone,
        pending: Option<PendingRequest>,
    ) -> Result<u16, Errno> {
        let index = self.take_endpoint(address)?;
        let endpoint = &mut self.endpoints[usize::from(index)];
        endpoint.kind = EndpointKind::Connected;
        endpoint.name = address;
        endpoint.bound = bound;
        endpoint.events = events;
        endpoint.receiver = shared.unwrap_or(index);
        endpoint.counters = BoundCounters::bind(counters);
        if let Some(pending) = pending.filter(|pending| self.is_pending(*pending)) {
            let requested = &mut self.connections[pending.index as usize];
            requested.endpoint = index;
            requested.is_lasting = true;
            self.endpoints[usize::from(index)].connection = pending.index;
        }
        Ok(index)
    }

    fn is_pending(&self, PendingRequest { index, generation }: PendingRequest) -> bool {
        let connection = &self.connections[index as usize];
        connection.state == State::Pending && connection.generation == generation
    }

    /// Address of the peer of a request, or of an endpoint.
    pub(crate) fn address_of(&self, pending: PendingRequest) -> Option<SocketAddr> {
        self.is_pending(pending).then(|| self.connections[pending.index as usize].address)
    }

    pub(crate) fn peer_of_endpoint(&self, endpoint: u16) -> Result<SocketAddr, Errno> {
        self.endpoints[usize::from(endpoint)].remote.ok_or(Errno::ENOTCONN)
    }

    /// Queues the request of a peer as an event of the listener.
    pub(super) fn queue_request(&mut self, index: u32, data: &[u8]) {
        let connection = &mut self.connections[index as usize];
        connection.state = State::Pending;
        let pending = PendingRequest { index, generation: connection.generation };
        let listener = connection.endpoint;
        self.end_opening();
        self.watch(index, EventFlags::empty());
        let events = self.endpoints[usize::from(listener)].events;
        let event = EqEvent::Request { listener: self.identity(listener), pending };
        if self.queue_event(events, event, data).is_err() {
            self.lose(index, Loss::Closed);
        }
    }

    pub(crate) fn connect_to(&mut self, endpoint: u16, to: SocketAddr, data: &[u8]) -> Result<(), Errno> {
        let to = self.peer(to)?;
        if self.endpoints[usize::from(endpoint)].connection != NIL {
            return Err(Errno::EINVAL);
        }
        let data = ConnectData::from_slice(data).map_err(|_| Errno::EINVAL)?;
        let connection = self.take_connection(endpoint, to)?;
        let opened = &mut self.connections[connection as usize];
        opened.initiated = true;
        opened.is_lasting = true;
        self.begin_opening(connection);
        if let Err(errno) = self.connect(connection) {
            self.lose(connection, Loss::Closed);
            return Err(errno);
        }
        let local = self.local_address(connection);
        let endpoint = &mut self.endpoints[usize::from(endpoint)];
        endpoint.connection = connection;
        endpoint.data = data;
        endpoint.remote = Some(to);
        endpoint.name = local.unwrap_or(endpoint.name);
        Ok(())
    }

    /// Answers the request that an endpoint was opened for.
    pub(crate) fn accept_request(&mut self, endpoint: u16, data: &[u8]) -> Result<(), Errno> {
        let connection = self.endpoints[usize::from(endpoint)].connection;
        if connection == NIL || self.connections[connection as usize].state != State::Pending {
            return Err(Errno::ENOTCONN);
        }
        if data.len() > MAX_CONNECT_DATA {
            return Err(Errno::EINVAL);
        }
        if !self.send_connect_message(connection, ConnectKind::Response, data) {
            // An event reports it.
            return Ok(());
        }
        let (local, remote) = (self.local_address(connection), self.connections[connection as usize].address);
        let accepted = &mut self.endpoints[usize::from(endpoint)];
        accepted.remote = Some(remote);
        accepted.name = local.unwrap_or(accepted.name);
        let opened = &mut self.connections[connection as usize];
        opened.state = State::Open;
        opened.inbound = Inbound::Frame;
        self.watch_open(connection);
        self.report_connected(endpoint, &[]);
        // The peer may have sent frames with its request.
        match self.parse(connection) {
            Ok(()) => self.read_records(connection),
            Err(violation) => self.lose(connection, Loss::Violation(violation)),
        }
        Ok(())
    }

    pub(crate) fn reject_request(&mut self, pending: PendingRequest, data: &[u8]) -> Result<(), Errno> {
        if data.len() > MAX_CONNECT_DATA {
            return Err(Errno::EINVAL);
        }
        if self.is_pending(pending) && self.send_connect_message(pending.index, ConnectKind::Reject, data) {
            self.drain(pending.index);
            self.lose(pending.index, Loss::Closed);
        }
        Ok(())
    }

    /// Reports that an endpoint is connected.
    pub(super) fn report_connected(&mut self, endpoint: u16, data: &[u8]) {
        let event = EqEvent::Connected { endpoint: self.identity(endpoint) };
        let events = self.endpoints[usize::from(endpoint)].events;
        let _ = self.queue_event(events, event, data);
    }

    /// Reports that the connection of an endpoint has ended, or did not open.
    pub(super) fn report_end(&mut self, endpoint: u16, state: State, loss: Loss, data: &[u8]) {
        let ended = &mut self.endpoints[usize::from(endpoint)];
        ended.connection = NIL;
        if loss == Loss::Closed {
            return;
        }
        ended.has_ended = true;
        let (events, receiver) = (ended.events, ended.receiver);
        let identity = self.identity(endpoint);
        let event = match state {
            State::Open => EqEvent::Shutdown { endpoint: identity },
            _ => EqEvent::Failed { endpoint: identity, errno: loss.errno(), code: loss.code() },
        };
        let _ = self.queue_event(events, event, data);
        if receiver == endpoint {
            self.cancel_receives(endpoint, loss.code());
        }
    }

    /// Ends the connection of an endpoint.
    pub(crate) fn shut_down(&mut self, endpoint: u16) -> Result<(), Errno> {
        let connection = self.endpoints[usize::from(endpoint)].connection;
        if connection == NIL {
            return Err(Errno::ENOTCONN);
        }
        self.flush(connection);
        if self.endpoints[usize::from(endpoint)].connection == connection {
            self.drain(connection);
            self.lose(connection, Loss::Ended(Errno::ECANCELED));
        }
        Ok(())
    }

    /// Forgets a request that has ended.
    pub(super) fn withdraw_request(&mut self, listener: u16, index: u32, generation: u32) {
        let events = self.endpoints[usize::from(listener)].events;
        let gone = PendingRequest { index, generation };
        self.withdraw(events, |event| matches!(event, EqEvent::Request { pending, .. } if *pending == gone));
    }

    /// Forgets the events of an endpoint or listener that closes.
    pub(super) fn withdraw_events(&mut self, endpoint: u16) {
        let identity = self.identity(endpoint);
        let events = self.endpoints[usize::from(endpoint)].events;
        self.withdraw(events, |event| match *event {
            EqEvent::Request { listener, .. } => listener == identity,
            EqEvent::Connected { endpoint } | EqEvent::Shutdown { endpoint } | EqEvent::Failed { endpoint, .. } => {
                endpoint == identity
            }
            EqEvent::Program { .. } => false,
        });
    }
}
