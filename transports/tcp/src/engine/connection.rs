//! [`Connection`].

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use heapless::Deque;
use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;

use super::list::{Linked, List};
use super::regions::RegionIndices;
use super::rendezvous::Numbers;
use super::send::{Send, Verb};
use super::{MessageKind, NIL};
use crate::memory::{Pipe, Spans};
use crate::tls::Session;
use crate::wire::{ByteOrder, Frame, MAX_HEADER, Operation};

/// Maximum number of queued read responses of a connection, after which it is not read, and of its
/// reads in flight: two peers that read from each other go on.
pub(super) const RESPONSES: usize = 32;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// The kernel is connecting.
    Connecting,
    /// The next tick connects again.
    Waiting,
    /// The handshake of TLS goes on.
    Securing,
    /// The request was sent.
    Requested,
    /// The kernel has accepted the connection, and its request is awaited.
    Accepted,
    /// Shared memory was offered, and the peer is to answer.
    Offered,
    /// The program is to answer its request.
    Pending,
    Open,
}

/// Frame that is being sent.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) item: Item,
    pub(super) header: [u8; MAX_HEADER],
    /// Length of the header.
    pub(super) len: usize,
    /// Number of sent bytes of the header and of injected bytes.
    pub(super) sent: usize,
}

/// Origin of a frame.
#[derive(Debug)]
pub(super) enum Item {
    Acknowledgement,
    /// Request for an announced message, by its number.
    Request(u8),
    Response(Response),
    /// Index of the operation.
    Send(u32),
}

/// Answer to a read request.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) spans: Spans,
    pub(super) len: u64,
    pub(super) regions: RegionIndices,
}

/// State of the receive side.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would allocate")]
pub(super) enum Inbound {
    /// A connect message is awaited.
    Connect,
    /// An offer of shared memory is awaited.
    Offer,
    /// The answer to an offer is awaited.
    Answer,
    /// A frame is awaited.
    Frame,
    /// The frame has no room yet.
    Blocked(Frame),
    /// The payload of a frame.
    Payload { frame: Frame, to: To, left: u64 },
}

/// Destination of a payload.
#[derive(Debug)]
pub(super) enum To {
    /// A receive.
    Receive(super::matching::Receive),
    /// An unexpected message.
    Unexpected { kind: MessageKind, index: u32 },
    /// Regions.
    Regions { spans: Spans, regions: RegionIndices },
    /// A read, by index.
    Read(u32),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) next: u32,
    pub(super) state: State,
    /// Number of connections in this place so far.
    pub(super) generation: u32,
    pub(super) socket: Option<OwnedFd>,
    pub(super) session: Option<Session>,
    /// Memory that carries the bytes. The socket then wakes the peer, and notices its end.
    pub(super) pipe: Option<Pipe>,
    /// Descriptor of the offered memory.
    pub(super) offered: Option<OwnedFd>,
    pub(super) endpoint: u16,
    /// Index of the peer in the endpoint's vector, or `NIL`.
    pub(super) peer: u32,
    pub(super) address: SocketAddr,
    /// This side has opened the connection.
    pub(super) initiated: bool,
    /// The connection ends with its endpoint.
    pub(super) is_lasting: bool,
    pub(super) since: u64,
    /// The peer has sent bytes to a receive or a region, or read from one.
    pub(super) has_reached_memory: bool,
    /// Process of the peer.
    pub(super) pid: u32,
    /// Ticks left to open.
    pub(super) ticks: u32,
    pub(super) order: ByteOrder,

    pub(super) queue: List,
    /// Operations that await an acknowledgement.
    pub(super) unacknowledged: List,
    /// Operations with their last bytes encrypted, and not with the kernel.
    pub(super) sealed: List,
    /// Announced messages that the peer has requested. They go before the queue: the peer may
    /// accept its messages later.
    pub(super) requested: List,
    /// Announced messages without a request.
    pub(super) announced: List,
    pub(super) numbers: Numbers,
    /// The peer requests announced messages.
    pub(super) announces: bool,
    /// Requests for the peer's announced messages, by number.
    pub(super) requests: Deque<u8, 254>,
    /// Number of the peer's announced messages that have not arrived.
    pub(super) promised: u32,
    /// Reads that await their bytes.
    pub(super) reads: List,
    /// Number of reads in flight before their response begins.
    pub(super) reading: usize,
    pub(super) acknowledgements: u32,
    pub(super) responses: Deque<Response, RESPONSES>,
    pub(super) current: Option<Partial>,
    /// Number of the next frame.
    pub(super) frame_number: u8,
    /// The peer has ended the connection, and the kernel takes no more bytes.
    pub(super) is_broken: bool,
    /// The kernel's buffer is full, and the kernel reports room.
    pub(super) is_full: bool,
    /// Events that the kernel reports, or `None` if the socket is not watched.
    pub(super) watched: Option<EventFlags>,
    pub(super) is_dirty: bool,
    /// Turn of the engine in which a post was last sent.
    pub(super) sent_in: u64,
    pub(super) next_dirty: u32,

    pub(super) inbound: Inbound,
    /// Range of the receive buffer with received bytes.
    pub(super) start: u32,
    pub(super) end: u32,
    /// A frame has no room.
    pub(super) is_paused: bool,
    /// Context of the claim of that frame.
    pub(super) claim: Option<u64>,
    /// Number of system calls that received bytes.
    pub(super) received: u64,
    /// Number of unexpected messages, and of their pieces.
    pub(super) unexpected: u32,
    pub(super) unexpected_pieces: u64,
}

impl Connection {
    pub(super) fn free(next: u32) -> Self {
        Connection {
            next,
            state: State::Free,
            generation: 0,
            socket: None,
            session: None,
            pipe: None,
            offered: None,
            endpoint: 0,
            peer: NIL,
            address: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
            initiated: false,
            is_lasting: false,
            since: 0,
            has_reached_memory: false,
            pid: 0,
            ticks: 0,
            order: ByteOrder::NATIVE,
            queue: List::new(),
            unacknowledged: List::new(),
            sealed: List::new(),
            requested: List::new(),
            announced: List::new(),
            numbers: Numbers::default(),
            announces: false,
            requests: Deque::new(),
            promised: 0,
            reads: List::new(),
            reading: 0,
            acknowledgements: 0,
            responses: Deque::new(),
            current: None,
            frame_number: 0,
            is_broken: false,
            is_full: false,
            watched: None,
            is_dirty: false,
            sent_in: 0,
            next_dirty: NIL,
            inbound: Inbound::Connect,
            start: 0,
            end: 0,
            is_paused: false,
            claim: None,
            received: 0,
            unexpected: 0,
            unexpected_pieces: 0,
        }
    }

    /// Generation of the next connection in this place, in 31 bits.
    pub(super) const fn next_generation(&self) -> u32 {
        self.generation.wrapping_add(1) & (u32::MAX >> 1)
    }

    /// Returns `true` if frames can be sent, as far as the kernel takes them.
    pub(super) fn has_frames(&self, sends: &[Send]) -> bool {
        let has = self.current.is_some()
            || self.acknowledgements > 0
            || !self.requests.is_empty()
            || !self.requested.is_empty()
            || !self.responses.is_empty()
            || self.session.as_ref().is_some_and(Session::has_output)
            || self.queue.first().is_some_and(|send| self.may_send(&sends[send as usize]));
        has && !self.is_broken
    }

    /// Returns `true` unless the operation is a read and the peer has no room for its response.
    fn may_send(&self, send: &Send) -> bool {
        send.report.verb != Verb::Read || self.reading < RESPONSES
    }

    /// Returns `true` if an operation of this side was begun, and has not ended.
    fn has_begun(&self) -> bool {
        let lists = [&self.unacknowledged, &self.requested, &self.announced, &self.reads, &self.sealed];
        lists.into_iter().any(|list| !list.is_empty())
    }

    /// Returns `true` if no operation of either side is in progress.
    fn is_idle(&self) -> bool {
        let is_empty = self.current.is_none() && self.queue.is_empty() && self.responses.is_empty();
        let awaits = self.has_begun() || self.promised > 0 || self.acknowledgements > 0;
        let is_read = self.pipe.as_ref().is_none_or(|pipe| !pipe.has_bytes());
        is_empty && !awaits && is_read && matches!(self.inbound, Inbound::Frame) && self.start == self.end
    }

    /// Returns `true` if the connection may end for another one: that of a removed peer, or of a
    /// stranger that has reached no memory or has a waiting message.
    pub(super) fn is_dispensable(&self) -> bool {
        match self.state {
            _ if self.is_lasting => false,
            State::Accepted | State::Pending => true,
            State::Offered => self.peer == NIL && self.queue.is_empty(),
            State::Open if self.peer != NIL => false,
            State::Open if self.initiated => self.is_idle(),
            State::Open if self.has_begun() || self.promised > 0 => false,
            State::Open => match &self.inbound {
                Inbound::Blocked(frame) => {
                    matches!(
                        frame.operation,
                        Operation::Message { .. } | Operation::Tagged { .. } | Operation::ReadyToSend { .. }
                    )
                }
                _ => !self.has_reached_memory,
            },
            _ => false,
        }
    }
}

impl Linked for Connection {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}
