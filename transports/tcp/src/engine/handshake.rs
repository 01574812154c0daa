//! Opening of connections.
//!
//! Two endpoints have one connection. If both open one at the same time, the one of the endpoint
//! with the higher address wins, as libfabric does:
//!
//! | connection to the peer | its request |
//! |---|---|
//! | none | is accepted |
//! | being opened, peer's address is lower | is rejected |
//! | being opened, peer's address is higher | is accepted, and takes over the operations |
//! | open, by this side to the same process | is rejected |
//! | open otherwise | is accepted, and replaces it: the peer has lost the old one |

use core::net::{IpAddr, SocketAddr};

use loom_core::transport::Refusal;
use loom_core::vocabulary::Errno;
use rustix::event::epoll::{self, EventFlags};
use rustix::fd::AsFd;

use super::connected::ConnectData;
use super::connection::{Connection, Inbound, State};
use super::endpoints::{Endpoint, EndpointKind};
use super::list::List;
use super::loss::Loss;
use super::shared::OFFERS;
use super::socket::{self, TICK_MS, Token, errno};
use super::{Engine, Full, NIL};
use crate::memory::Gather;
use crate::tls::{Fault, Session};
use crate::wire::{ByteOrder, ConnectKind, ConnectMessage, MAX_CONNECT_MESSAGE, RdmData, Violation};

/// Version with rendezvous.
const VERSION: u8 = 1;

/// Answer to a request of version 1 or later, by which both sides use version 1.
const VERSION_CONFIRMED: u8 = 0x81;

/// Bytes of an IP address, then port, as libfabric compares them.
fn rank(address: SocketAddr) -> ([u8; 16], u16) {
    let mut bytes = [0; 16];
    match address.ip() {
        IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes = ip.octets(),
    }
    (bytes, address.port())
}

impl Engine {
    /// Connection of an endpoint to a peer, which the first call opens.
    pub(super) fn route(&mut self, endpoint: u16, peer: u64) -> Result<u32, Refusal> {
        let Endpoint { kind, connection, .. } = self.endpoints[usize::from(endpoint)];
        if kind == EndpointKind::Connected {
            let own = self.connections.get(connection as usize);
            let is_open = own.is_some_and(|own| own.state == State::Open && !own.is_broken);
            return if is_open { Ok(connection) } else { Err(Errno::ENOTCONN.into()) };
        }
        let index = usize::try_from(peer).map_err(|_| Errno::EINVAL)?;
        let route = *self.routes_of(endpoint).get(index).ok_or(Errno::EINVAL)?;
        if route != NIL {
            return Ok(route);
        }
        self.open_route(endpoint, index)
    }

    #[cold]
    fn open_route(&mut self, endpoint: u16, peer: usize) -> Result<u32, Refusal> {
        let vector = self.endpoints[usize::from(endpoint)].bound.vector;
        let address = self.peer_address(vector, peer as u64).ok_or(Errno::EINVAL)?;
        let connection = self.take_connection(endpoint, address)?;
        #[expect(clippy::cast_possible_truncation, reason = "there are fewer than `NIL` peers")]
        let peer = peer as u32;
        let opened = &mut self.connections[connection as usize];
        opened.initiated = true;
        opened.peer = peer;
        self.routes_of(endpoint)[peer as usize] = connection;
        self.begin_opening(connection);
        match self.connect(connection) {
            Ok(()) => Ok(connection),
            Err(errno) => {
                self.lose(connection, Loss::Ended(errno));
                Err(errno.into())
            }
        }
    }

    /// Takes a free connection, or that of the oldest dispensable one.
    pub(super) fn take_connection(&mut self, endpoint: u16, address: SocketAddr) -> Result<u32, Errno> {
        if self.free_connections.count() == 0 {
            self.end_dispensable();
        }
        let index = self.free_connections.take(&mut self.connections).ok_or(Full::CONNECTIONS)?;
        self.opened += 1;
        let since = self.opened;
        let taken = &mut self.connections[index as usize];
        let generation = taken.next_generation();
        *taken = Connection { generation, endpoint, address, since, state: State::Waiting, ..Connection::free(NIL) };
        Ok(index)
    }

    /// Ends the oldest connection that is dispensable. Returns `false` without one.
    pub(super) fn end_dispensable(&mut self) -> bool {
        let dispensable = self.connections.iter().enumerate().filter(|(_, connection)| connection.is_dispensable());
        // With TLS, those of strangers first.
        let rank =
            |connection: &Connection| (connection.session.as_ref().is_some_and(Session::is_open), connection.since);
        let Some((index, _)) = dispensable.min_by_key(|(_, connection)| rank(connection)) else { return false };
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 connections")]
        self.lose(index as u32, Loss::Replaced);
        true
    }

    /// Counts a connection that is being opened, until a timeout.
    pub(super) fn begin_opening(&mut self, index: u32) {
        self.connections[index as usize].ticks = self.attr.connect_timeout.div_ceil(TICK_MS);
        self.opening += 1;
        self.set_timer();
    }

    pub(super) fn end_opening(&mut self) {
        self.opening = self.opening.saturating_sub(1);
        self.set_timer();
    }

    /// Starts or stops the timer: see [`Engine::timer`].
    pub(super) fn set_timer(&mut self) {
        let ticks = self.opening > 0 || self.unwatched > 0;
        if ticks != self.is_ticking && socket::set_ticking(&self.timer, ticks).is_ok() {
            self.is_ticking = ticks;
        }
    }

    /// Watches the socket of a connection for these events, and for its end. Without events, it is
    /// not watched: the kernel would report the end again and again.
    pub(super) fn watch(&mut self, index: u32, flags: EventFlags) {
        let connection = &mut self.connections[index as usize];
        let wanted = Some(flags).filter(|flags| !flags.is_empty());
        let data = Token::Connection { index, generation: connection.generation }.data();
        let Some(socket) = &connection.socket else { return };
        let done = match (connection.watched, wanted) {
            (watched, wanted) if watched == wanted => return,
            (_, None) => epoll::delete(&self.epoll, socket),
            (None, Some(flags)) => epoll::add(&self.epoll, socket, data, flags),
            (Some(_), Some(flags)) => epoll::modify(&self.epoll, socket, data, flags),
        };
        // Without memory of the kernel, the next call tries again.
        if done.is_ok() {
            connection.watched = wanted;
        }
    }

    /// Begins to connect. The connection is not lost by an error.
    pub(super) fn connect(&mut self, index: u32) -> Result<(), Errno> {
        let connection = &mut self.connections[index as usize];
        let from = self.endpoints[usize::from(connection.endpoint)].name;
        connection.socket = Some(socket::connect(from, connection.address).map_err(errno)?);
        connection.state = State::Connecting;
        self.watch(index, EventFlags::OUT);
        Ok(())
    }

    /// Sends the request, or begins the handshake of TLS, if the kernel has connected.
    pub(super) fn finish_connecting(&mut self, index: u32) {
        let connection = &self.connections[index as usize];
        let Some(socket) = &connection.socket else { return };
        if let Err(error) = socket::connect_result(socket) {
            return self.lose(index, Loss::Ended(errno(error)));
        }
        let Some(tls) = &self.tls else { return self.send_request(index) };
        match Session::client(tls, connection.address.ip()) {
            Ok(session) => {
                let connection = &mut self.connections[index as usize];
                connection.session = Some(session);
                connection.state = State::Securing;
                self.watch(index, EventFlags::IN);
                self.parse_all(index);
            }
            Err(fault) => self.lose(index, Loss::Security(fault)),
        }
    }

    fn send_request(&mut self, index: u32) {
        let endpoint = &self.endpoints[usize::from(self.connections[index as usize].endpoint)];
        let data = RdmData {
            version: VERSION,
            features: self.requested_features(index),
            port: endpoint.name.port(),
            pid: self.pid,
        };
        let data = match endpoint.kind {
            EndpointKind::Connected => endpoint.data.clone(),
            _ => ConnectData::from_slice(&data.encode()).unwrap_or_default(),
        };
        if self.send_connect_message(index, ConnectKind::Request, &data) {
            self.connections[index as usize].state = State::Requested;
            self.watch(index, EventFlags::IN);
        }
    }

    /// Continues the handshake of TLS with the bytes received, and sends the request after it.
    /// Returns `true` if it is complete.
    pub(super) fn secure(&mut self, index: u32) -> Result<bool, Loss> {
        let Self { connections, records, .. } = self;
        let connection = &mut connections[index as usize];
        let (Some(session), Some(socket)) = (&mut connection.session, &connection.socket) else { return Ok(false) };
        let records = &mut records[index as usize];
        let advanced = session.advance(records);
        // In one piece, as connect messages. After a fault, it is an alert.
        let flushed = session.flush(records, socket.as_fd());
        let is_complete = advanced.map_err(Loss::Security)?;
        match flushed {
            Ok(true) => {}
            Ok(false) => return Err(Loss::Security(Fault::LOCAL)),
            Err(error) => return Err(Loss::Ended(errno(error))),
        }
        if is_complete && connection.state == State::Securing {
            self.send_request(index);
        }
        Ok(is_complete)
    }

    /// Sends a message in one piece, which libfabric relies on. Returns `false` if the connection
    /// is lost.
    pub(super) fn send_connect_message(&mut self, index: u32, kind: ConnectKind, data: &[u8]) -> bool {
        let mut bytes = [0; MAX_CONNECT_MESSAGE];
        let len = ConnectMessage { kind, data }.encode(&mut bytes).unwrap_or_default();
        self.send_whole(index, &bytes[..len])
    }

    /// Sends bytes of the handshake in one piece. Returns `false` if the connection is lost.
    pub(super) fn send_whole(&mut self, index: u32, bytes: &[u8]) -> bool {
        let Self { connections, records, outbox, ranges, .. } = self;
        let connection = &mut connections[index as usize];
        let Some(socket) = &connection.socket else { return false };
        let mut gather = Gather::over(outbox, ranges);
        gather.copy(bytes);
        let sent = match &mut connection.session {
            Some(session) => session.send(&mut records[index as usize], socket.as_fd(), gather.gathered()),
            None => gather.send(socket.as_fd()).map(|sent| (sent, true)),
        };
        let lost = match sent {
            Ok((sent, true)) if sent == bytes.len() as u64 => return true,
            Ok(_) => Errno::EIO,
            Err(error) => errno(error),
        };
        self.lose(index, Loss::Ended(lost));
        false
    }

    pub(super) fn handle_connect_message(
        &mut self,
        index: u32,
        kind: ConnectKind,
        order: ByteOrder,
        data: &[u8],
    ) -> Result<(), Violation> {
        let connection = &mut self.connections[index as usize];
        connection.order = order;
        let (state, endpoint) = (connection.state, connection.endpoint);
        let with_connections =
            matches!(self.endpoints[usize::from(endpoint)].kind, EndpointKind::Connected | EndpointKind::Passive);
        match (state, kind) {
            (State::Requested, ConnectKind::Response) if with_connections => {
                self.set_open(index);
                self.report_connected(endpoint, data);
                Ok(())
            }
            (State::Requested, ConnectKind::Reject) if with_connections => {
                self.lose_with(index, Loss::Ended(Errno::ECONNREFUSED), data);
                Ok(())
            }
            (State::Accepted, ConnectKind::Request) if with_connections => {
                self.queue_request(index, data);
                Ok(())
            }
            (State::Requested, ConnectKind::Response) => {
                let RdmData { pid, version, features, .. } = RdmData::parse(data)?;
                let is_offered = features & OFFERS != 0 && self.requested_features(index) != 0;
                let connection = &mut self.connections[index as usize];
                connection.pid = pid;
                connection.announces = version == VERSION_CONFIRMED && order == ByteOrder::NATIVE;
                if is_offered {
                    connection.inbound = Inbound::Offer;
                } else {
                    self.set_open(index);
                }
                Ok(())
            }
            (State::Requested, ConnectKind::Reject) => {
                self.handle_rejection(index);
                Ok(())
            }
            (State::Accepted, ConnectKind::Request) => {
                self.handle_request(index, RdmData::parse(data)?);
                Ok(())
            }
            _ => Err(Violation::ConnectKind(kind.number())),
        }
    }

    pub(super) fn set_open(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let was_offered = connection.state == State::Offered;
        connection.state = State::Open;
        connection.inbound = Inbound::Frame;
        self.add_shared(index);
        if !was_offered {
            self.end_opening();
        }
        self.announce_queued(index);
        self.mark_dirty(index);
    }

    /// Accepts or rejects the request of a peer.
    fn handle_request(&mut self, index: u32, data: RdmData) {
        let connection = &mut self.connections[index as usize];
        connection.address.set_port(data.port);
        connection.pid = data.pid;
        let (endpoint, address) = (connection.endpoint, connection.address);
        let name = self.endpoints[usize::from(endpoint)].name;
        let mut queue = None;
        if address != name
            && let Some(existing) = self.existing_connection(index)
        {
            let Connection { state, initiated, pid, .. } = self.connections[existing as usize];
            let was_open = matches!(state, State::Open | State::Offered);
            let refuses = if was_open { initiated && pid == data.pid } else { rank(address) < rank(name) };
            if refuses {
                if self.send_connect_message(index, ConnectKind::Reject, &data.encode()) {
                    self.lose(index, Loss::Replaced);
                }
                return;
            }
            if state != State::Open {
                queue = Some(core::mem::replace(&mut self.connections[existing as usize].queue, List::new()));
            }
            self.lose(existing, Loss::Replaced);
        }
        let vector = self.endpoints[usize::from(endpoint)].bound.vector;
        let peer = self.peer_of(vector, address);
        let connection = &mut self.connections[index as usize];
        connection.peer = peer;
        if let Some(queue) = queue {
            connection.queue = queue;
        }
        // A connection to itself has another end, on which it sends.
        if peer != NIL && self.routes_of(endpoint)[peer as usize] == NIL {
            self.routes_of(endpoint)[peer as usize] = index;
        }
        // Rendezvous of libfabric does not work between byte orders.
        let connection = &mut self.connections[index as usize];
        connection.announces = data.version >= VERSION && connection.order == ByteOrder::NATIVE;
        let version = if connection.announces { VERSION_CONFIRMED } else { 0 };
        let offer = self.prepare_offer(index, data.features);
        let features = if offer.is_some() { OFFERS } else { 0 };
        let data = RdmData { version, features, pid: self.pid, ..data };
        if self.send_connect_message(index, ConnectKind::Response, &data.encode()) {
            match offer {
                Some(offer) => self.send_offer(index, &offer),
                None => self.set_open(index),
            }
        }
    }

    /// Other connection of the endpoint to the same peer, open or being opened.
    fn existing_connection(&self, index: u32) -> Option<u32> {
        let Connection { endpoint, address, .. } = self.connections[index as usize];
        let existing = self.connections.iter().enumerate().position(|(at, existing)| {
            at != index as usize
                && existing.endpoint == endpoint
                && existing.address == address
                && !matches!(existing.state, State::Free | State::Accepted)
        });
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 connections")]
        existing.map(|existing| existing as u32)
    }

    /// Moves operations to the connection that the peer has opened, or requests again later.
    fn handle_rejection(&mut self, index: u32) {
        let connection = &self.connections[index as usize];
        let (endpoint, address) = (connection.endpoint, connection.address);
        let other = self.connections.iter().enumerate().position(|(at, other)| {
            let is_open = matches!(other.state, State::Open | State::Offered) && !other.is_broken;
            at != index as usize && other.endpoint == endpoint && other.address == address && is_open
        });
        let Some(other) = other else {
            self.retry_later(index);
            return;
        };
        let mut queue = core::mem::replace(&mut self.connections[index as usize].queue, List::new());
        while let Some(send) = queue.pop(&mut self.sends) {
            self.connections[other].queue.push(&mut self.sends, send);
            if self.connections[other].state == State::Open {
                #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 connections")]
                self.announce(other as u32, send);
            }
        }
        let peer = self.connections[index as usize].peer;
        self.lose(index, Loss::Replaced);
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 connections")]
        let other = other as u32;
        if peer != NIL {
            self.routes_of(endpoint)[peer as usize] = other;
            self.connections[other as usize].peer = peer;
        }
        self.mark_dirty(other);
    }

    fn retry_later(&mut self, index: u32) {
        self.close_socket(index);
        let connection = &mut self.connections[index as usize];
        connection.generation = connection.next_generation();
        connection.session = None;
        connection.state = State::Waiting;
        connection.inbound = Inbound::Connect;
        (connection.start, connection.end) = (0, 0);
    }

    /// Counts periods of the timer, at most a quarter of a connection's time.
    pub(super) fn tick(&mut self, periods: u64) {
        self.watch_listeners();
        let most = self.attr.connect_timeout.div_ceil(4 * TICK_MS);
        let periods = u32::try_from(periods).map_or(most, |periods| periods.min(most));
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if matches!(connection.state, State::Free | State::Open | State::Offered | State::Pending) {
                continue;
            }
            connection.ticks = connection.ticks.saturating_sub(periods);
            let (state, is_over) = (connection.state, connection.ticks == 0);
            #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 connections")]
            let index = index as u32;
            if is_over {
                self.lose(index, Loss::Timeout);
            } else if state == State::Waiting
                && let Err(errno) = self.connect(index)
            {
                self.lose(index, Loss::Ended(errno));
            }
        }
    }

    /// Address of this side of a connection.
    pub(super) fn local_address(&self, index: u32) -> Option<SocketAddr> {
        let socket = self.connections[index as usize].socket.as_ref()?;
        SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()
    }
}
