//! Endpoints with connections: listeners, requests, and events of them.

use core::net::SocketAddr;

use heapless::Vec;
use loom_core::vocabulary::{Counted, Errno};
use rustix::event::epoll::EventFlags;

use super::connection::{Inbound, State};
use super::endpoints::{Bound, Kind};
use super::loss::Loss;
use super::progress::NO_QUEUE;
use super::queues::Wait;
use super::socket::errno;
use super::{Engine, Full, NIL};
use crate::wire::{ConnectKind, MAX_CONNECT_DATA};

/// Connection data.
pub(crate) type Data = Vec<u8, MAX_CONNECT_DATA>;

/// Request of a peer, which waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    index: u32,
    generation: u32,
}

/// Event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Request {
        listener: u64,
        pending: Pending,
    },
    Connected {
        endpoint: u64,
    },
    Shutdown {
        endpoint: u64,
    },
    Failed {
        endpoint: u64,
        errno: Errno,
        code: i32,
    },
    /// Of the program.
    Notice {
        context: u64,
        data: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) what: What,
    pub(crate) data: Data,
}

#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    is_open: bool,
    /// First event in the table, and number of events.
    first: u32,
    len: u32,
    wait: Option<Wait>,
}

impl Engine {
    pub(crate) fn open_event_queue(&mut self, size: usize, waits: bool) -> Result<u16, Errno> {
        if size > self.event_room() as usize {
            return Err(Errno::EINVAL);
        }
        let free = self.event_queues.iter().position(|queue| !queue.is_open).ok_or(Full::EVENT_QUEUES)?;
        let wait = if waits { Some(Wait::new(&self.epoll).map_err(errno)?) } else { None };
        self.event_queues[free] = EventQueue { is_open: true, first: 0, len: 0, wait };
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 queues")]
        Ok(free as u16)
    }

    pub(crate) fn close_event_queue(&mut self, queue: u16) {
        self.event_queues[usize::from(queue)] = EventQueue::default();
    }

    /// Events that a queue has room for.
    fn event_room(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the table has fewer than `NIL` events")]
        let len = self.events.len() as u32;
        len / u32::from(self.attr.event_queues).max(1)
    }

    fn event_at(&self, queue: u16, number: u32) -> usize {
        let room = self.event_room();
        (u32::from(queue) * room + (self.event_queues[usize::from(queue)].first + number) % room) as usize
    }

    /// Adds an event, unless the queue is full.
    fn notify(&mut self, queue: u16, event: Event) -> Result<(), Errno> {
        let (room, len) = (self.event_room(), self.event_queues[usize::from(queue)].len);
        if len == room {
            return Err(Errno::EAGAIN);
        }
        let at = self.event_at(queue, len);
        self.events[at] = Some(event);
        let queue = &mut self.event_queues[usize::from(queue)];
        queue.len += 1;
        if let Some(wait) = &mut queue.wait {
            wait.set();
        }
        Ok(())
    }

    /// Adds an event of the program. Events of connections have room of their own.
    pub(crate) fn notify_own(&mut self, queue: u16, context: u64, data: u64) -> Result<(), Errno> {
        if self.event_queues[usize::from(queue)].len >= OWN_EVENTS {
            return Err(Errno::EAGAIN);
        }
        self.notify(queue, Event { what: What::Notice { context, data }, data: Data::new() })
    }

    /// Removes the next event, if it fits.
    pub(crate) fn next_notice(&mut self, queue: u16, fits: impl Fn(&What) -> bool) -> Option<Event> {
        if self.event_queues[usize::from(queue)].len == 0 {
            return None;
        }
        let at = self.event_at(queue, 0);
        let event = self.events[at].take_if(|event| fits(&event.what))?;
        let room = self.event_room();
        let queue = &mut self.event_queues[usize::from(queue)];
        queue.first = (queue.first + 1) % room;
        queue.len -= 1;
        Some(event)
    }

    pub(crate) fn has_notice(&self, queue: u16) -> bool {
        self.event_queues[usize::from(queue)].len > 0
    }

    /// Removes the events that fit.
    fn withdraw(&mut self, queue: u16, fits: impl Fn(&What) -> bool) {
        let len = self.event_queues[usize::from(queue)].len;
        let mut kept = 0;
        for number in 0..len {
            let from = self.event_at(queue, number);
            let Some(event) = self.events[from].take_if(|event| !fits(&event.what)) else {
                self.events[from] = None;
                continue;
            };
            let to = self.event_at(queue, kept);
            self.events[to] = Some(event);
            kept += 1;
        }
        self.event_queues[usize::from(queue)].len = kept;
    }

    /// Drives progress, and waits for an event for at most so many milliseconds.
    pub(crate) fn drive(&mut self, queue: u16, milliseconds: i32) -> Result<(), Errno> {
        let mut sleep = milliseconds;
        if sleep != 0 {
            self.leave_dirty();
            if self.has_notice(queue) || self.try_paused && self.paused > 0 {
                sleep = 0;
            }
        }
        self.progress(NO_QUEUE, sleep)
    }

    pub(crate) fn event_fd(&self, queue: u16) -> Result<rustix::fd::RawFd, Errno> {
        self.event_queues[usize::from(queue)].wait.as_ref().map(Wait::fd).ok_or(Errno::ENOSYS)
    }

    pub(crate) fn may_await_event(&mut self, queue: u16) -> Result<bool, Errno> {
        self.leave_dirty();
        let queue = &mut self.event_queues[usize::from(queue)];
        queue.wait.as_mut().ok_or(Errno::ENOSYS)?.reset();
        Ok(queue.len == 0 && !(self.try_paused && self.paused > 0))
    }

    /// Identity of an endpoint or listener in events.
    pub(crate) fn identity(&self, endpoint: u16) -> u64 {
        1 << 63 | self.endpoints[usize::from(endpoint)].generation << 16 | u64::from(endpoint)
    }

    /// Address of the listener with this identity.
    pub(crate) fn name_of_identity(&self, identity: u64) -> SocketAddr {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are the index")]
        let index = identity as u16;
        self.name_of(index)
    }

    /// Opens a listener.
    pub(crate) fn open_passive(&mut self, address: SocketAddr, events: u16) -> Result<u16, Errno> {
        let index = self.take_endpoint(address)?;
        self.listen(index, address)?;
        let endpoint = &mut self.endpoints[usize::from(index)];
        endpoint.kind = Kind::Passive;
        endpoint.events = events;
        Ok(index)
    }

    /// Opens receives that endpoints share.
    pub(crate) fn open_shared(&mut self, rx: u16) -> Result<u16, Errno> {
        let free = self.free_endpoint()?;
        let endpoint = &mut self.endpoints[usize::from(free)];
        endpoint.kind = Kind::Shared;
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
        pending: Option<Pending>,
    ) -> Result<u16, Errno> {
        let index = self.take_endpoint(address)?;
        let endpoint = &mut self.endpoints[usize::from(index)];
        endpoint.kind = Kind::Connected;
        endpoint.name = address;
        endpoint.bound = bound;
        endpoint.events = events;
        endpoint.receiver = shared.unwrap_or(index);
        endpoint.counters = super::queues::bound(counters);
        if let Some(pending) = pending.filter(|pending| self.is_pending(*pending)) {
            let requested = &mut self.connections[pending.index as usize];
            requested.endpoint = index;
            requested.is_lasting = true;
            self.endpoints[usize::from(index)].connection = pending.index;
        }
        Ok(index)
    }

    fn is_pending(&self, Pending { index, generation }: Pending) -> bool {
        let connection = &self.connections[index as usize];
        connection.state == State::Pending && connection.generation == generation
    }

    /// Address of the peer of a request, or of an endpoint.
    pub(crate) fn address_of(&self, pending: Pending) -> Option<SocketAddr> {
        self.is_pending(pending).then(|| self.connections[pending.index as usize].address)
    }

    pub(crate) fn peer_of_endpoint(&self, endpoint: u16) -> Result<SocketAddr, Errno> {
        self.endpoints[usize::from(endpoint)].remote.ok_or(Errno::ENOTCONN)
    }

    /// Queues the request of a peer as an event of the listener.
    pub(super) fn queue_request(&mut self, index: u32, data: &[u8]) {
        let connection = &mut self.connections[index as usize];
        connection.state = State::Pending;
        let pending = Pending { index, generation: connection.generation };
        let listener = connection.endpoint;
        self.end_opening();
        self.watch(index, EventFlags::empty());
        let events = self.endpoints[usize::from(listener)].events;
        let what = What::Request { listener: self.identity(listener), pending };
        let event = Event { what, data: Data::from_slice(data).unwrap_or_default() };
        if self.notify(events, event).is_err() {
            self.lose(index, Loss::Closed);
        }
    }

    /// Begins to connect.
    pub(crate) fn connect_to(&mut self, endpoint: u16, to: SocketAddr, data: &[u8]) -> Result<(), Errno> {
        if to.is_ipv4() != self.is_ipv4 || self.endpoints[usize::from(endpoint)].connection != NIL {
            return Err(Errno::EINVAL);
        }
        let data = Data::from_slice(data).map_err(|_| Errno::EINVAL)?;
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
        if let Err(violation) = self.parse(connection) {
            self.lose(connection, Loss::Violation(violation));
        }
        Ok(())
    }

    /// Rejects a request.
    pub(crate) fn reject_request(&mut self, pending: Pending, data: &[u8]) -> Result<(), Errno> {
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
        let what = What::Connected { endpoint: self.identity(endpoint) };
        let events = self.endpoints[usize::from(endpoint)].events;
        let _ = self.notify(events, Event { what, data: Data::from_slice(data).unwrap_or_default() });
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
        let what = match state {
            State::Open => What::Shutdown { endpoint: identity },
            _ => What::Failed { endpoint: identity, errno: loss.errno(), code: loss.code() },
        };
        let _ = self.notify(events, Event { what, data: Data::from_slice(data).unwrap_or_default() });
        if receiver == endpoint {
            self.cancel_receives(endpoint);
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
        let gone = Pending { index, generation };
        self.withdraw(events, |what| matches!(what, What::Request { pending, .. } if *pending == gone));
    }

    /// Forgets the events of an endpoint or listener that closes.
    pub(super) fn withdraw_events(&mut self, endpoint: u16) {
        let identity = self.identity(endpoint);
        let events = self.endpoints[usize::from(endpoint)].events;
        self.withdraw(events, |what| match *what {
            What::Request { listener, .. } => listener == identity,
            What::Connected { endpoint } | What::Shutdown { endpoint } | What::Failed { endpoint, .. } => {
                endpoint == identity
            }
            What::Notice { .. } => false,
        });
    }
}

/// Events of the program that a queue has room for.
pub(super) const OWN_EVENTS: u32 = 64;
