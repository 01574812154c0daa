//! [`Loss`]: end of a connection, and the reason.

use loom_core::vocabulary::Errno;
use rustix::event::epoll;

use super::connection::{Connection, Inbound, Item, Partial, State, To};
use super::endpoints::EndpointKind;
use super::list::List;
use super::{Engine, MessageKind, NIL, socket};
use crate::tls::Fault;
use crate::wire::Violation;

/// Reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The peer or the network ended it.
    Ended(Errno),
    /// The peer did not keep the protocol.
    Violation(Violation),
    /// TLS has failed.
    Security(Fault),
    /// No connection within `TcpAttr::connect_timeout`.
    Timeout,
    /// The peer opened another one.
    Replaced,
    /// The endpoint was closed.
    Closed,
}

impl Loss {
    // Those of violations follow.
    const ENDED: i32 = 1;
    const TIMEOUT: i32 = 2;
    const REPLACED: i32 = 3;
    const CLOSED: i32 = 4;
    const NO_PORT: i32 = 5;
    const NO_DESCRIPTOR: i32 = 6;

    pub(super) fn errno(self) -> Errno {
        match self {
            Loss::Ended(errno) => errno,
            Loss::Violation(_) => Errno::EPROTO,
            Loss::Security(_) => Errno::EKEYREJECTED,
            Loss::Timeout => Errno::ETIMEDOUT,
            Loss::Replaced | Loss::Closed => Errno::ENOTCONN,
        }
    }

    /// Number for [`Loss::text`].
    pub(super) fn code(self) -> i32 {
        match self {
            Loss::Ended(Errno::EADDRNOTAVAIL) => Self::NO_PORT,
            Loss::Ended(Errno::EMFILE) => Self::NO_DESCRIPTOR,
            Loss::Ended(_) => Self::ENDED,
            Loss::Violation(violation) => i32::from(violation.code()),
            Loss::Security(fault) => fault.code(),
            Loss::Timeout => Self::TIMEOUT,
            Loss::Replaced => Self::REPLACED,
            Loss::Closed => Self::CLOSED,
        }
    }

    /// Text of a number that an event carries.
    pub(crate) fn text(code: i32) -> &'static str {
        match code {
            Self::ENDED => "the connection has ended, or did not open",
            Self::TIMEOUT => {
                "no connection to the peer within TcpAttr::connect_timeout: check its address and the interface"
            }
            Self::REPLACED => "the peer has opened another connection",
            Self::CLOSED => "the endpoint is closed",
            Self::NO_PORT => "all ports to the peer are in use, or no interface has the address: check the interface",
            Self::NO_DESCRIPTOR => "too many open files: raise the limit of the process (RLIMIT_NOFILE)",
            _ => {
                let violation = u8::try_from(code).ok().and_then(Violation::text);
                violation.or_else(|| Fault::text(code)).unwrap_or("no further information")
            }
        }
    }
}

impl Engine {
    /// Keeps further operations from a connection.
    pub(super) fn forget_routes(&mut self, index: u32) {
        let endpoint = self.connections[index as usize].endpoint;
        self.routes_of(endpoint).iter_mut().filter(|route| **route == index).for_each(|route| *route = NIL);
    }

    /// Fails the operations that are not sent whole. Those of a closed endpoint report no event.
    pub(super) fn fail_unsent(&mut self, index: u32, loss: Loss) {
        let connection = &mut self.connections[index as usize];
        let current = connection.current.take();
        let mut requested = core::mem::replace(&mut connection.requested, List::new());
        let mut queue = core::mem::replace(&mut connection.queue, List::new());
        let mut next = match current {
            Some(Partial { item: Item::Send(send), .. }) => Some(send),
            _ => None,
        };
        loop {
            let sends = &mut self.sends;
            let Some(send) = next.take().or_else(|| requested.pop(sends)).or_else(|| queue.pop(sends)) else { return };
            self.fail_send(send, loss.errno(), loss.code(), loss == Loss::Closed);
        }
    }

    /// Reads the bytes of a connection, so that the kernel sends all bytes before it closes.
    pub(super) fn drain(&self, index: u32) {
        if let Some(socket) = &self.connections[index as usize].socket {
            socket::drain(socket);
        }
    }

    /// Closes the socket of a connection, also for forked children.
    pub(super) fn close_socket(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        connection.watched = None;
        if let Some(socket) = connection.socket.take() {
            let _ = epoll::delete(&self.epoll, &socket);
            socket::shut_down(socket);
        }
    }

    /// Ends a connection. Its operations fail.
    pub(super) fn lose(&mut self, index: u32, loss: Loss) {
        self.lose_with(index, loss, &[]);
    }

    /// Ends a connection with data of the peer.
    pub(super) fn lose_with(&mut self, index: u32, loss: Loss, data: &[u8]) {
        if self.connections[index as usize].state == State::Free {
            return;
        }
        self.forget_routes(index);
        self.fail_unsent(index, loss);
        self.close_socket(index);
        let place = &mut self.connections[index as usize];
        let generation = place.generation;
        let lost = core::mem::replace(place, Connection { generation, ..Connection::free(NIL) });
        if lost.pipe.is_some() {
            self.remove_shared(index);
        }
        let Connection { endpoint, state, inbound, .. } = lost;
        if self.last == index {
            self.last = NIL;
        }
        if !matches!(state, State::Open | State::Offered | State::Pending) {
            self.end_opening();
        }
        if lost.is_paused {
            self.paused -= 1;
        }
        if lost.is_dirty {
            self.unmark_dirty(index, lost.next_dirty);
        }
        self.fail_inbound(endpoint, inbound, loss);
        if lost.promised > 0 {
            self.fail_announced(index, endpoint, loss);
        }
        for mut sent in [lost.unacknowledged, lost.announced, lost.reads, lost.sealed] {
            while let Some(send) = sent.pop(&mut self.sends) {
                self.fail_send(send, loss.errno(), loss.code(), loss == Loss::Closed);
            }
        }
        self.free_connections.give_back(&mut self.connections, index);
        match self.endpoints[usize::from(endpoint)].kind {
            EndpointKind::Connected => self.report_end(endpoint, state, loss, data),
            EndpointKind::Passive if state == State::Pending => self.withdraw_request(endpoint, index, generation),
            _ => {}
        }
        self.watch_listeners();
    }

    /// Fails the operation of a frame that has not arrived whole.
    fn fail_inbound(&mut self, endpoint: u16, inbound: Inbound, loss: Loss) {
        let (errno, code, quietly) = (loss.errno(), loss.code(), loss == Loss::Closed);
        let own = &self.endpoints[usize::from(endpoint)];
        let (rx, receiver) = (own.bound.rx, own.receiver);
        match inbound {
            Inbound::Payload { to: To::Read(send), .. } => self.fail_send(send, errno, code, quietly),
            Inbound::Payload { to: To::Receive(receive), frame, .. } => {
                if receive.is_cancelled {
                    return;
                }
                if quietly && receiver == endpoint {
                    self.release(rx);
                } else {
                    self.fail_receive(receiver, MessageKind::of(&frame.operation), receive, errno, code);
                }
            }
            Inbound::Payload { to: To::Unexpected { kind, index }, .. } => self.drop_unexpected(receiver, kind, index),
            Inbound::Payload { to: To::Regions { .. }, frame, .. } if frame.operation.data().is_some() => {
                self.release(rx);
            }
            _ => {}
        }
    }
}
