//! Posted receives, and unexpected messages in pieces of memory.

use core::ops::Range;

use loom_core::engine::tag_matcher::{Envelope, MessageId, ReceiveId, Want};
use loom_core::transport::{Event, Refusal};
use loom_core::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};

use super::connection::{Inbound, State, To};
use super::endpoints::{Endpoint, EndpointKind};
use super::list::{Linked, List};
use super::multi_receive::{Multi, Part};
use super::rendezvous::Announced;
use super::{Engine, NIL};
use crate::memory::Spans;
use crate::wire::{Frame, Operation};

/// Bytes in a [`Piece`].
pub(super) const PIECE: usize = 1020;

/// Shares of the room for unexpected messages. A connection has at most one.
pub(super) const SHARES: u32 = 4;

/// Receive, posted or filled by a connection.
#[derive(Debug, Default)]
pub(crate) struct Receive {
    pub(super) id: Option<ReceiveId>,
    /// Message that it awaits.
    pub(super) announced: Option<Announced>,
    /// Its message is dropped without an event.
    pub(super) is_cancelled: bool,
    /// Buffer of several messages.
    pub(super) multi: Option<Multi>,
    pub(super) spans: Spans,
    pub(super) report: ReceiveReport,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceiveReport {
    pub(super) context: u64,
    /// Bytes that were lent.
    pub(super) room: u64,
    /// Part of a buffer of several messages.
    pub(super) part: Option<Part>,
}

/// Unexpected message.
#[derive(Debug)]
pub(crate) struct Unexpected {
    pub(super) id: Option<MessageId>,
    pub(super) frame: Option<Frame>,
    pieces: List,
    /// Piece for the next bytes.
    last: u32,
    /// Bytes that have arrived.
    arrived: u64,
    /// Connection that it has arrived on, and the connection's generation.
    pub(super) connection: u32,
    pub(super) generation: u32,
    /// All bytes have arrived.
    is_whole: bool,
    /// Index of the sender in the vector, or `NIL`.
    pub(super) peer: u32,
    /// Context of the claim.
    pub(super) claim: Option<u64>,
}

impl Receive {
    /// Receive of a message that is dropped.
    pub(super) fn dropped() -> Self {
        Receive { is_cancelled: true, ..Self::default() }
    }
}

impl Unexpected {
    pub(super) const fn free() -> Self {
        Unexpected {
            id: None,
            frame: None,
            pieces: List::new(),
            last: NIL,
            arrived: 0,
            connection: NIL,
            generation: 0,
            is_whole: false,
            peer: NIL,
            claim: None,
        }
    }

    /// Announcement of a message.
    pub(super) fn announced(id: MessageId, frame: Frame, (connection, generation): (u32, u32), peer: u32) -> Self {
        let (id, frame) = (Some(id), Some(frame));
        Unexpected { id, frame, connection, generation, peer, is_whole: true, ..Self::free() }
    }

    /// Length of the message in bytes.
    pub(super) fn payload(&self) -> u64 {
        self.frame.as_ref().map_or(0, |frame| frame.payload)
    }

    pub(super) fn is_announced(&self) -> bool {
        self.frame.as_ref().is_some_and(|frame| matches!(frame.operation, Operation::ReadyToSend { .. }))
    }

    /// Adds bytes behind those that have arrived.
    pub(super) fn append(&mut self, pieces: &mut [Piece], mut bytes: &[u8]) {
        let mut at = self.last;
        #[expect(clippy::cast_possible_truncation, reason = "less than a piece")]
        let mut offset = (self.arrived % PIECE as u64) as usize;
        self.arrived += bytes.len() as u64;
        while !bytes.is_empty() && at != NIL {
            let piece = &mut pieces[at as usize];
            let len = bytes.len().min(PIECE - offset);
            piece.bytes[offset..][..len].copy_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            offset = (offset + len) % PIECE;
            if offset == 0 {
                at = piece.next;
            }
        }
        self.last = at;
    }
}

/// Part of an unexpected message.
#[derive(Debug)]
pub(crate) struct Piece {
    next: u32,
    bytes: [u8; PIECE],
}

impl Piece {
    pub(super) const fn free(next: u32) -> Self {
        Piece { next, bytes: [0; PIECE] }
    }
}

impl Linked for Piece {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// Kind of a message or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Untagged,
    Tagged,
}

impl MessageKind {
    const ALL: [Self; Self::COUNT] = [MessageKind::Untagged, MessageKind::Tagged];
    pub(super) const COUNT: usize = 2;

    pub(super) const fn of(message: &Operation) -> Self {
        if matches!(message, Operation::Tagged { .. }) { MessageKind::Tagged } else { MessageKind::Untagged }
    }

    pub(super) fn flags(self) -> CompletionFlags {
        CompletionFlags::RECV
            | match self {
                MessageKind::Untagged => CompletionFlags::MSG,
                MessageKind::Tagged => CompletionFlags::TAGGED,
            }
    }

    pub(super) fn table(self, endpoint: u16) -> usize {
        usize::from(endpoint) * Self::COUNT + self as usize
    }
}

pub(super) fn kind_of(frame: &Frame) -> Option<(MessageKind, u64)> {
    match frame.operation {
        Operation::Message { .. } => Some((MessageKind::Untagged, 0)),
        Operation::Tagged { tag, .. } | Operation::ReadyToSend { tag, .. } => Some((MessageKind::Tagged, tag)),
        _ => None,
    }
}

pub(super) fn source_of(peer: u32) -> FabricAddr {
    if peer == NIL { FabricAddr::UNSPEC } else { FabricAddr(peer.into()) }
}

/// Adds the tag, immediate data and source of a message.
pub(super) fn describe(event: &mut Event, frame: &Frame, peer: u32) {
    if let Operation::Tagged { tag, .. } | Operation::ReadyToSend { tag, .. } = frame.operation {
        event.tag = Tag(tag);
    }
    if let Some(data) = frame.operation.data() {
        event.flags |= CompletionFlags::REMOTE_CQ_DATA;
        event.data = ImmediateData(data);
    }
    event.source = source_of(peer);
}

impl Engine {
    pub(super) fn receive_at(&self, endpoint: u16, kind: MessageKind, id: ReceiveId) -> usize {
        kind.table(endpoint) * self.attr.rx_depth as usize + id.index()
    }

    pub(super) fn unexpected_at(&self, endpoint: u16, kind: MessageKind, id: MessageId) -> usize {
        kind.table(endpoint) * self.attr.unexpected as usize + id.index()
    }

    /// Places of an endpoint's receives.
    pub(super) fn receives_of(&self, endpoint: u16, kind: MessageKind) -> Range<usize> {
        let (table, depth) = (kind.table(endpoint), self.attr.rx_depth as usize);
        table * depth..(table + 1) * depth
    }

    /// Places of an endpoint's unexpected messages.
    pub(super) fn unexpected_of(&self, endpoint: u16, kind: MessageKind) -> Range<usize> {
        let (table, depth) = (kind.table(endpoint), self.attr.unexpected as usize);
        table * depth..(table + 1) * depth
    }

    /// Posts a receive, or completes it with the oldest unexpected message that it accepts.
    pub(crate) fn post_receive(
        &mut self,
        endpoint: u16,
        kind: MessageKind,
        want: Want,
        spans: Spans,
        context: u64,
    ) -> Result<(), Refusal> {
        let Endpoint { bound, has_ended, .. } = &self.endpoints[usize::from(endpoint)];
        let (bound, has_ended) = (*bound, *has_ended);
        if !self.reserve(bound.rx) {
            return Err(Refusal::Again);
        }
        let report = ReceiveReport { context, room: spans.left(), part: None };
        if let Some(message) = self.message_for(endpoint, kind, &want) {
            let at = self.unexpected_at(endpoint, kind, message);
            let receive = Receive { spans, report, ..Receive::default() };
            if self.unexpected[at].is_announced() {
                return self.request_kept(endpoint, (message, at), receive).inspect_err(|_| self.release(bound.rx));
            }
            self.endpoints[usize::from(endpoint)].matchers[kind as usize].remove_message(message);
            self.hand_over(endpoint, kind, at, receive);
            return Ok(());
        }
        // Messages that arrived before the end of the connection are received.
        let matcher = &mut self.endpoints[usize::from(endpoint)].matchers[kind as usize];
        let posted = if has_ended { Err(Errno::ENOTCONN.into()) } else { matcher.post(want).ok_or(Refusal::Again) };
        let id = match posted {
            Ok(id) => id,
            Err(refusal) => {
                self.release(bound.rx);
                return Err(refusal);
            }
        };
        let at = self.receive_at(endpoint, kind, id);
        self.receives[at] = Receive { id: Some(id), spans, report, ..Receive::default() };
        self.try_paused |= self.paused > 0;
        Ok(())
    }

    /// Oldest unexpected message that a receive accepts. Drops announcements of broken connections.
    #[inline]
    fn message_for(&mut self, endpoint: u16, kind: MessageKind, want: &Want) -> Option<MessageId> {
        loop {
            let message = self.endpoints[usize::from(endpoint)].matchers[kind as usize].message_for(want)?;
            let at = self.unexpected_at(endpoint, kind, message);
            let kept = &self.unexpected[at];
            if !kept.is_announced() || !self.connections[kept.connection as usize].is_broken {
                return Some(message);
            }
            #[expect(clippy::cast_possible_truncation, reason = "fewer than `NIL` messages")]
            self.drop_unexpected(endpoint, kind, at as u32);
        }
    }

    /// Moves an unexpected message to its receive. The rest of its bytes, if they have not arrived,
    /// goes there directly.
    pub(super) fn hand_over(&mut self, endpoint: u16, kind: MessageKind, at: usize, mut receive: Receive) {
        let message = core::mem::replace(&mut self.unexpected[at], Unexpected::free());
        let Some(frame) = message.frame else { return };
        let (mut pieces, mut left) = (message.pieces, message.arrived);
        while let Some(piece) = pieces.pop(&mut self.pieces) {
            #[expect(clippy::cast_possible_truncation, reason = "at most a piece")]
            let len = left.min(PIECE as u64) as usize;
            receive.spans.fill(&self.pieces[piece as usize].bytes[..len]);
            left -= len as u64;
            self.free_pieces.give_back(&mut self.pieces, piece);
        }
        self.give_back_share(message.connection, message.generation, frame.payload);
        if message.is_whole {
            let connection = &self.connections[message.connection as usize];
            let is_open = connection.state != State::Free && connection.generation == message.generation;
            let counting = if is_open { connection.endpoint } else { endpoint };
            if receive.is_cancelled {
                return;
            }
            self.finish_receive(endpoint, kind, receive.report, &frame, (message.peer, counting));
            return;
        }
        let connection = &mut self.connections[message.connection as usize];
        let left = frame.payload - message.arrived;
        connection.inbound = Inbound::Payload { frame, to: To::Receive(receive), left };
    }

    /// Reports a receive with all bytes of its message. The endpoint of the connection counts it.
    pub(super) fn finish_receive(
        &mut self,
        endpoint: u16,
        kind: MessageKind,
        report: ReceiveReport,
        frame: &Frame,
        (peer, counting): (u32, u16),
    ) {
        let (queue, flags) = (self.endpoints[usize::from(endpoint)].bound.rx, kind.flags());
        let ReceiveReport { context, room, part } = report;
        let len = frame.payload.min(room);
        #[expect(clippy::cast_possible_truncation, reason = "lengths within the lent memory, which fit")]
        let mut event = Event::success(context, flags, len as usize);
        if frame.payload > room {
            event = Event::failure(context, flags, Errno::ETRUNC);
            event.len = usize::try_from(room).unwrap_or(usize::MAX);
            event.overflow_or_place = usize::try_from(frame.payload - room).unwrap_or(usize::MAX);
        }
        describe(&mut event, frame, peer);
        self.finish_part(endpoint, part, &mut event);
        self.count(counting, flags, !event.is_error());
        self.report(queue, event);
    }

    /// Reports a receive without a message.
    pub(super) fn fail_receive(&mut self, endpoint: u16, kind: MessageKind, receive: Receive, errno: Errno, code: i32) {
        let queue = self.endpoints[usize::from(endpoint)].bound.rx;
        let mut event = Event::failure(receive.report.context, kind.flags(), errno);
        event.provider_errno = code;
        if !self.finish_part(endpoint, receive.report.part, &mut event) {
            self.release(queue);
            return;
        }
        self.count(endpoint, event.flags, false);
        self.report(queue, event);
    }

    /// Destination of the payload of a message, or `None` if it has no room yet.
    pub(super) fn place_message(&mut self, index: u32, frame: &Frame) -> Option<To> {
        let (kind, tag) = kind_of(frame)?;
        let Self { connections, endpoints, .. } = self;
        let connection = &mut connections[index as usize];
        let own = &endpoints[usize::from(connection.endpoint)];
        let (endpoint, is_stranger) = (own.receiver, own.kind == EndpointKind::Rdm && connection.peer == NIL);
        let envelope = Envelope { tag: Tag(tag), source: source_of(connection.peer) };
        let matcher = &mut endpoints[usize::from(endpoint)].matchers[kind as usize];
        if let Some(id) = matcher.receive_for(&envelope) {
            let at = self.receive_at(endpoint, kind, id);
            if self.receives[at].multi.is_some() {
                return self.take_part(endpoint, at, frame.payload).map(To::Receive);
            }
            self.endpoints[usize::from(endpoint)].matchers[kind as usize].remove_receive(id);
            return Some(To::Receive(core::mem::take(&mut self.receives[at])));
        }
        let (messages, pieces) =
            (self.attr.unexpected.div_ceil(SHARES), self.pieces.len().div_ceil(SHARES as usize) as u64);
        let count = frame.payload.div_ceil(PIECE as u64);
        let has_share = connection.unexpected < messages && connection.unexpected_pieces + count <= pieces;
        // A stranger's message waits until its sender is inserted, or a receive accepts it.
        if is_stranger || !has_share || count > u64::from(self.free_pieces.count()) {
            return None;
        }
        let id = matcher.keep(envelope)?;
        connection.unexpected += 1;
        connection.unexpected_pieces += count;
        let (peer, generation) = (connection.peer, connection.generation);
        let at = self.unexpected_at(endpoint, kind, id);
        let mut pieces = List::new();
        for _ in 0..count {
            let piece = self.free_pieces.take(&mut self.pieces)?;
            pieces.push(&mut self.pieces, piece);
        }
        self.unexpected[at] = Unexpected {
            id: Some(id),
            frame: Some(frame.clone()),
            pieces,
            last: pieces.first().unwrap_or(NIL),
            arrived: 0,
            connection: index,
            generation,
            is_whole: false,
            peer,
            claim: None,
        };
        #[expect(clippy::cast_possible_truncation, reason = "fewer than `NIL` messages")]
        Some(To::Unexpected { kind, index: at as u32 })
    }

    pub(super) fn finish_unexpected(&mut self, at: u32) {
        self.unexpected[at as usize].is_whole = true;
    }

    /// Gives back the share of its connection that an unexpected message had.
    pub(super) fn give_back_share(&mut self, connection: u32, generation: u32, len: u64) {
        let pieces = len.div_ceil(PIECE as u64);
        if let Some(connection) = self.connections.get_mut(connection as usize)
            && connection.generation == generation
        {
            connection.unexpected = connection.unexpected.saturating_sub(1);
            connection.unexpected_pieces = connection.unexpected_pieces.saturating_sub(pieces);
        }
        self.try_paused |= self.paused > 0;
    }

    /// Removes the source from unexpected messages of a peer that was removed.
    pub(super) fn forget_source(&mut self, endpoint: u16, peer: u64) {
        for kind in MessageKind::ALL {
            for at in self.unexpected_of(endpoint, kind) {
                let message = &mut self.unexpected[at];
                if message.claim.is_some() && u64::from(message.peer) == peer {
                    message.peer = NIL;
                }
            }
            loop {
                let matcher = &mut self.endpoints[usize::from(endpoint)].matchers[kind as usize];
                let found = matcher.messages().find(|(_, envelope)| envelope.source == FabricAddr(peer));
                let Some((id, envelope)) = found else { break };
                // The messages are kept again in the order of their arrival.
                matcher.remove_message(id);
                let Some(moved) = matcher.keep(Envelope { source: FabricAddr::UNSPEC, ..envelope }) else { break };
                let (from, to) = (self.unexpected_at(endpoint, kind, id), self.unexpected_at(endpoint, kind, moved));
                let mut message = core::mem::replace(&mut self.unexpected[from], Unexpected::free());
                message.id = Some(moved);
                message.peer = NIL;
                if !message.is_whole
                    && let Inbound::Payload { to: To::Unexpected { index, .. }, .. } =
                        &mut self.connections[message.connection as usize].inbound
                {
                    #[expect(clippy::cast_possible_truncation, reason = "fewer than `NIL` messages")]
                    let moved = to as u32;
                    *index = moved;
                }
                self.unexpected[to] = message;
            }
        }
    }

    pub(super) fn drop_unexpected(&mut self, endpoint: u16, kind: MessageKind, at: u32) {
        let mut message = core::mem::replace(&mut self.unexpected[at as usize], Unexpected::free());
        while let Some(piece) = message.pieces.pop(&mut self.pieces) {
            self.free_pieces.give_back(&mut self.pieces, piece);
        }
        if let Some(id) = message.id {
            self.endpoints[usize::from(endpoint)].matchers[kind as usize].remove_message(id);
        }
        if message.is_announced() {
            let connection = &mut self.connections[message.connection as usize];
            connection.promised = connection.promised.saturating_sub(1);
        }
        self.give_back_share(message.connection, message.generation, message.frame.map_or(0, |frame| frame.payload));
    }

    /// Cancels a posted receive. Returns `false` if the endpoint has no such receive.
    pub(super) fn cancel_receive(&mut self, endpoint: u16, context: u64) -> bool {
        for kind in MessageKind::ALL {
            let is_posted = |receive: &Receive| receive.id.is_some() && !receive.is_cancelled;
            let found = self.receives_of(endpoint, kind).find(|at| {
                let receive = &self.receives[*at];
                is_posted(receive) && receive.report.context == context
            });
            let Some(at) = found else { continue };
            self.end_receive(endpoint, kind, at, 0);
            return true;
        }
        false
    }

    /// Ends a posted receive without a message, with a number of [`Loss`](super::loss::Loss).
    fn end_receive(&mut self, endpoint: u16, kind: MessageKind, at: usize, code: i32) {
        if self.receives[at].multi.is_some() {
            return self.cancel_buffer(endpoint, at);
        }
        if self.receives[at].announced.is_some() {
            return self.cancel_announced(endpoint, at);
        }
        let receive = core::mem::take(&mut self.receives[at]);
        if let Some(id) = receive.id {
            self.endpoints[usize::from(endpoint)].matchers[kind as usize].remove_receive(id);
        }
        self.fail_receive(endpoint, kind, receive, Errno::ECANCELED, code);
    }

    /// Returns `true` if the connection is that of an endpoint with connections.
    pub(super) fn is_connected(&self, connection: u32) -> bool {
        let endpoint = self.connections[connection as usize].endpoint;
        self.endpoints[usize::from(endpoint)].kind == EndpointKind::Connected
    }

    pub(super) fn cancel_receives(&mut self, endpoint: u16, code: i32) {
        for kind in MessageKind::ALL {
            for at in self.receives_of(endpoint, kind) {
                if self.receives[at].id.is_some() {
                    self.end_receive(endpoint, kind, at, code);
                }
            }
        }
    }

    /// Forgets the receives and unexpected messages of an endpoint, without events.
    pub(super) fn forget_messages(&mut self, endpoint: u16) {
        let rx = self.endpoints[usize::from(endpoint)].bound.rx;
        for kind in MessageKind::ALL {
            for at in self.receives_of(endpoint, kind) {
                let has_event = !self.is_full_buffer(at) && !self.receives[at].is_cancelled;
                if let Some(id) = core::mem::take(&mut self.receives[at]).id {
                    self.endpoints[usize::from(endpoint)].matchers[kind as usize].remove_receive(id);
                    if has_event {
                        self.release(rx);
                    }
                }
            }
            for at in self.unexpected_of(endpoint, kind) {
                if self.unexpected[at].id.is_some() {
                    #[expect(clippy::cast_possible_truncation, reason = "fewer than `NIL` messages")]
                    self.drop_unexpected(endpoint, kind, at as u32);
                }
            }
        }
    }
}
