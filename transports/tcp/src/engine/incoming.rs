//! Bytes of the socket, and frames in them.

use loom_core::engine::tag_matcher::Envelope;
use loom_core::transport::Event;
use loom_core::vocabulary::{Access, CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};
use rustix::fd::AsFd;
use rustix::io;

use super::connected::ConnectData;
use super::connection::{Connection, Inbound, Response, State, To};
use super::endpoints::EndpointKind;
use super::loss::Loss;
use super::matching::{Piece, Receive, Unexpected, source_of};
use super::send::Send;
use super::socket::{self, errno};
use super::{Engine, MessageKind, NIL};
use crate::attr::TcpAttr;
use crate::memory::{Inconsistent, Offer, Spans};
use crate::wire::{ConnectMessage, Frame, Opcode, Operation, Violation};

/// System calls for one event of the kernel, so that other connections have their turn.
const CALLS: usize = 16;

/// Acknowledgements that a connection queues. With more requests, it is not read.
const ACKNOWLEDGEMENTS: u32 = 1 << 16;

/// Remaining payload, in bytes, from which the socket is read straight into the payload's
/// destination, without the buffer.
const DIRECT: u64 = 1024;

/// Payload of one system call in bytes, after which other connections have their turn.
const AT_ONCE: u64 = 1 << 20;

impl To {
    /// Memory of an operation or of regions.
    fn spans<'a>(&'a mut self, sends: &'a mut [Send]) -> Option<&'a mut Spans> {
        Some(match self {
            To::Receive(receive) => &mut receive.spans,
            To::Regions { spans, .. } => spans,
            To::Read(send) => &mut sends[*send as usize].spans,
            To::Unexpected { .. } => return None,
        })
    }

    fn append(&mut self, sends: &mut [Send], (unexpected, pieces): (&mut [Unexpected], &mut [Piece]), bytes: &[u8]) {
        match self {
            To::Receive(receive) => {
                receive.spans.fill(bytes);
            }
            To::Regions { spans, .. } => {
                spans.fill(bytes);
            }
            To::Read(send) => {
                sends[*send as usize].spans.fill(bytes);
            }
            To::Unexpected { index, .. } => unexpected[*index as usize].append(pieces, bytes),
        }
    }
}

impl Engine {
    /// Reads a connection until it has no bytes.
    pub(super) fn read(&mut self, index: u32) {
        let connection = &self.connections[index as usize];
        if connection.is_paused || connection.session.is_some() && !self.parse_all(index) {
            return;
        }
        for _ in 0..CALLS {
            match self.receive(index) {
                Ok(more) => {
                    if !self.parse_all(index) || !more {
                        return;
                    }
                }
                Err(lost) => {
                    self.lose(index, lost);
                    return;
                }
            }
        }
    }

    /// Handles all bytes received, record by record with TLS. Returns `false` if the connection has
    /// ended or waits.
    pub(super) fn parse_all(&mut self, index: u32) -> bool {
        loop {
            if let Err(violation) = self.parse(index) {
                self.lose(index, Loss::Violation(violation));
                return false;
            }
            let connection = &self.connections[index as usize];
            if connection.is_paused || connection.state == State::Pending || connection.socket.is_none() {
                return false;
            }
            if connection.session.is_none() {
                return true;
            }
            match self.decrypt(index) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(loss) => {
                    self.lose(index, loss);
                    return false;
                }
            }
        }
    }

    /// Moves the bytes of the next record to their memory, or to the buffer. Returns `false`
    /// without a whole record.
    fn decrypt(&mut self, index: u32) -> Result<bool, Loss> {
        if self.connections[index as usize].session.as_ref().is_some_and(|session| !session.is_open()) {
            return self.secure(index);
        }
        let size = self.attr.receive_buffer as usize;
        let Self { connections, buffers, records, sends, unexpected, pieces, .. } = self;
        let connection = &mut connections[index as usize];
        let Some(session) = &mut connection.session else { return Ok(false) };
        let Some(bytes) = session.plaintext(&mut records[index as usize]).map_err(Loss::Security)? else {
            return Ok(false);
        };
        let count = match &mut connection.inbound {
            Inbound::Payload { to, left, .. } if connection.start == connection.end => {
                let count = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= count as u64;
                to.append(sends, (unexpected, pieces), &bytes[..count]);
                count
            }
            _ => {
                let buffer = &mut buffers.as_flattened_mut()[index as usize * size..][..size];
                buffer.copy_within(connection.start as usize..connection.end as usize, 0);
                (connection.start, connection.end) = (0, connection.end - connection.start);
                let room = &mut buffer[connection.end as usize..];
                let count = room.len().min(bytes.len());
                room[..count].copy_from_slice(&bytes[..count]);
                #[expect(clippy::cast_possible_truncation, reason = "at most the size of the buffer")]
                let received = count as u32;
                connection.end += received;
                count
            }
        };
        session.consume(count);
        Ok(count > 0)
    }

    /// Receives once. Returns `true` if the socket may have more bytes.
    fn receive(&mut self, index: u32) -> Result<bool, Loss> {
        let connection = &mut self.connections[index as usize];
        if connection.pipe.is_some() && connection.state == State::Open {
            return self.receive_shared(index).map_err(|error| Loss::Violation(error.into()));
        }
        self.receive_from_kernel(index).map_err(Loss::Ended)
    }

    /// Receives from shared memory. Returns `true` if there are more bytes.
    fn receive_shared(&mut self, index: u32) -> Result<bool, Inconsistent> {
        let size = self.attr.receive_buffer as usize;
        let Self { connections, buffers, sends, .. } = self;
        let connection = &mut connections[index as usize];
        let Some(pipe) = &mut connection.pipe else { return Ok(false) };
        if connection.start == connection.end {
            (connection.start, connection.end) = (0, 0);
        }
        connection.received += u64::from(pipe.has_bytes());
        if let Inbound::Payload { to, left, .. } = &mut connection.inbound
            && connection.end == 0
            && *left >= DIRECT
            && let Some(spans) = to.spans(sends)
            && spans.left() > 0
            && pipe.is_long()?
        {
            *left -= pipe.read_to(spans, *left);
        } else {
            let buffer = &mut buffers.as_flattened_mut()[index as usize * size..][..size];
            let (start, end) = (connection.start as usize, connection.end as usize);
            if start > 0 && size - end < size / 2 {
                buffer.copy_within(start..end, 0);
                (connection.start, connection.end) = (0, connection.end - connection.start);
            }
            #[expect(clippy::cast_possible_truncation, reason = "at most the size of the buffer")]
            let received = pipe.read(&mut buffer[connection.end as usize..])? as u32;
            connection.end += received;
        }
        if let Some(socket) = &connection.socket {
            pipe.wake_writer(|| socket::send_byte(socket));
        }
        Ok(pipe.has_bytes())
    }

    fn receive_from_kernel(&mut self, index: u32) -> Result<bool, Errno> {
        let connection = &mut self.connections[index as usize];
        if let Some(session) = &mut connection.session {
            let Some(socket) = &connection.socket else { return Ok(false) };
            return match session.receive(&mut self.records[index as usize], socket.as_fd()).map_err(errno)? {
                None => Ok(false),
                Some((0, _)) => Err(Errno::ENOTCONN),
                Some((_, more)) => {
                    connection.received += 1;
                    if connection.state == State::Open {
                        self.set_last(index);
                    }
                    Ok(more)
                }
            };
        }
        if connection.start == connection.end {
            (connection.start, connection.end) = (0, 0);
        }
        if let Inbound::Payload { left, .. } = connection.inbound
            && connection.end == 0
            && left >= DIRECT
            && let Some(received) = self.receive_direct(index)
        {
            return received;
        }
        self.receive_buffered(index)
    }

    /// Receives payload into its destination, and the bytes behind it into the empty buffer.
    /// Returns `None` if the payload goes through the buffer.
    fn receive_direct(&mut self, index: u32) -> Option<Result<bool, Errno>> {
        let size = self.attr.receive_buffer as usize;
        let Self { connections, buffers, sends, .. } = self;
        let connection = &mut connections[index as usize];
        let buffer = &mut buffers.as_flattened_mut()[index as usize * size..][..size];
        let socket = connection.socket.as_ref()?;
        let Inbound::Payload { to, left, .. } = &mut connection.inbound else { return None };
        let spans = to.spans(sends)?;
        // Payload beyond the spans is dropped, by way of the buffer.
        if spans.left() == 0 {
            return None;
        }
        // The bytes behind a long payload are probably another one, which the buffer would delay.
        let behind = if *left < size as u64 { size } else { TcpAttr::MIN_BUFFER as usize };
        let limit = (*left).min(AT_ONCE);
        let room_behind = if spans.left() >= *left && limit == *left { behind } else { 0 };
        let wanted = spans.left().min(limit) + room_behind as u64;
        let (direct, received_behind) = match spans.receive(socket.as_fd(), limit, &mut buffer[..room_behind]) {
            Ok((0, 0)) => return Some(Err(Errno::ENOTCONN)),
            Ok(received) => received,
            Err(io::Errno::AGAIN) => return Some(Ok(false)),
            Err(io::Errno::INTR) => return Some(Ok(true)),
            Err(error) => return Some(Err(errno(error))),
        };
        *left -= direct;
        connection.received += 1;
        #[expect(clippy::cast_possible_truncation, reason = "at most the size of the buffer")]
        let end = received_behind as u32;
        connection.end = end;
        self.set_last(index);
        Some(Ok(direct + received_behind as u64 == wanted && direct < AT_ONCE))
    }

    /// Receives into the room of the buffer behind its bytes.
    fn receive_buffered(&mut self, index: u32) -> Result<bool, Errno> {
        let size = self.attr.receive_buffer as usize;
        let Self { connections, buffers, .. } = self;
        let connection = &mut connections[index as usize];
        let buffer = &mut buffers.as_flattened_mut()[index as usize * size..][..size];
        let Some(socket) = &connection.socket else { return Ok(false) };
        let (start, end) = (connection.start as usize, connection.end as usize);
        if start > 0 && size - end < size / 2 {
            buffer.copy_within(start..end, 0);
            (connection.start, connection.end) = (0, connection.end - connection.start);
        }
        let room = &mut buffer[connection.end as usize..];
        let wanted = room.len();
        match socket::receive(socket, room).map_err(errno)? {
            None => Ok(false),
            Some(0) => Err(Errno::ENOTCONN),
            Some(received) => {
                #[expect(clippy::cast_possible_truncation, reason = "at most the size of the buffer")]
                let received_len = received as u32;
                connection.end += received_len;
                connection.received += 1;
                if connection.state == State::Open {
                    self.set_last(index);
                }
                Ok(received == wanted)
            }
        }
    }

    pub(super) fn parse(&mut self, index: u32) -> Result<(), Violation> {
        let size = self.attr.receive_buffer as usize;
        loop {
            let Self { connections, buffers, .. } = self;
            let connection = &mut connections[index as usize];
            if connection.socket.is_none() {
                return Ok(());
            }
            let (start, end) = (connection.start as usize, connection.end as usize);
            let bytes = &buffers.as_flattened()[index as usize * size..][start..end];
            match &mut connection.inbound {
                Inbound::Connect => {
                    let Some((message, order, used)) = ConnectMessage::parse(bytes)? else { return Ok(()) };
                    let (kind, data) = (message.kind, ConnectData::from_slice(message.data).unwrap_or_default());
                    self.consume(index, used);
                    self.handle_connect_message(index, kind, order, &data)?;
                    if self.connections[index as usize].state == State::Pending {
                        return Ok(());
                    }
                }
                Inbound::Offer => {
                    let Some((offer, _)) = bytes.split_first_chunk() else { return Ok(()) };
                    let offer = Offer::parse(offer);
                    self.consume(index, Offer::LEN);
                    self.handle_offer(index, &offer);
                }
                Inbound::Answer => {
                    let Some(answer) = bytes.first().copied() else { return Ok(()) };
                    self.consume(index, 1);
                    self.handle_answer(index, answer);
                }
                Inbound::Frame if bytes.is_empty() => return Ok(()),
                Inbound::Frame => {
                    let Some((frame, used)) = Frame::parse(bytes, connection.order)? else { return Ok(()) };
                    self.consume(index, used);
                    if !self.receive_whole(index, &frame) {
                        self.begin(index, frame)?;
                    }
                }
                Inbound::Blocked(_) => {
                    let Inbound::Blocked(frame) = core::mem::replace(&mut connection.inbound, Inbound::Frame) else {
                        return Ok(());
                    };
                    self.begin(index, frame)?;
                    if matches!(self.connections[index as usize].inbound, Inbound::Blocked(_)) {
                        return Ok(());
                    }
                }
                Inbound::Payload { left: 0, .. } => self.finish_payload(index)?,
                Inbound::Payload { .. } if bytes.is_empty() => return Ok(()),
                Inbound::Payload { .. } => self.deliver(index),
            }
            if self.connections[index as usize].is_paused {
                return Ok(());
            }
        }
    }

    fn consume(&mut self, index: u32, count: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "at most the size of the buffer")]
        let count = count as u32;
        self.connections[index as usize].start += count;
    }

    fn deliver(&mut self, index: u32) {
        let size = self.attr.receive_buffer as usize;
        let Self { connections, buffers, sends, unexpected, pieces, .. } = self;
        let connection = &mut connections[index as usize];
        let (start, end) = (connection.start as usize, connection.end as usize);
        let Inbound::Payload { to, left, .. } = &mut connection.inbound else { return };
        let count = usize::try_from(*left).map_or(end - start, |left| left.min(end - start));
        let bytes = &buffers.as_flattened()[index as usize * size + start..][..count];
        *left -= count as u64;
        to.append(sends, (unexpected, pieces), bytes);
        self.consume(index, count);
    }

    /// Receives a message that has arrived whole. Returns `false` without a simple receive for it.
    #[inline]
    fn receive_whole(&mut self, index: u32, frame: &Frame) -> bool {
        let size = self.attr.receive_buffer as usize;
        let depth = self.attr.rx_depth as usize;
        let Self { connections, endpoints, receives, buffers, .. } = self;
        let connection = &mut connections[index as usize];
        let (kind, tag) = match frame.operation {
            Operation::Message { .. } => (MessageKind::Untagged, 0),
            Operation::Tagged { tag, .. } => (MessageKind::Tagged, tag),
            _ => return false,
        };
        let buffer = &buffers.as_flattened()[index as usize * size..][..size];
        let arrived = &buffer[connection.start as usize..connection.end as usize];
        let Some(payload) = usize::try_from(frame.payload).ok().and_then(|len| arrived.get(..len)) else {
            return false;
        };
        let own = &endpoints[usize::from(connection.endpoint)];
        let is_usual = own.kind != EndpointKind::Connected || kind == MessageKind::Untagged;
        if !is_usual || connection.claim.is_some() || connection.acknowledgements >= ACKNOWLEDGEMENTS {
            return false;
        }
        let receiver = own.receiver;
        let matcher = &mut endpoints[usize::from(receiver)].matchers[kind as usize];
        let envelope = Envelope { tag: Tag(tag), source: source_of(connection.peer) };
        let Some(id) = matcher.receive_for(&envelope) else { return false };
        let receive = &mut receives[kind.table(receiver) * depth + id.index()];
        if receive.multi.is_some() {
            return false;
        }
        matcher.remove_receive(id);
        receive.id = None;
        receive.spans.fill(payload);
        #[expect(clippy::cast_possible_truncation, reason = "at most the size of the buffer")]
        let len = payload.len() as u32;
        connection.start += len;
        connection.has_reached_memory = true;
        let (report, of) = (receive.report, (connection.peer, connection.endpoint));
        if !frame.flags.is_empty() && !connection.is_broken {
            connection.acknowledgements += 1;
            self.mark_dirty(index);
        }
        self.finish_receive(receiver, kind, report, frame, of);
        true
    }

    /// Chooses where the payload of a frame goes, or handles an acknowledgement or a read request.
    /// Without room, keeps the frame ([`Inbound::Blocked`]) and pauses the connection until
    /// [`read_paused`](Self::read_paused).
    fn begin(&mut self, index: u32, frame: Frame) -> Result<(), Violation> {
        let left = frame.payload;
        let Connection { acknowledgements, claim, .. } = &self.connections[index as usize];
        let is_full = *acknowledgements >= ACKNOWLEDGEMENTS;
        let to = match &frame.operation {
            _ if is_full && !frame.flags.is_empty() || claim.is_some() => None,
            Operation::Tagged { .. } | Operation::ReadyToSend { .. } if self.is_connected(index) => {
                return Err(Violation::Operation(Opcode::Tagged as u8));
            }
            Operation::Message { .. } | Operation::Tagged { .. } => self.place_message(index, &frame),
            Operation::Write { data, parts } => {
                let (spans, regions) = self.memory_of(parts, Access::REMOTE_WRITE, *data)?;
                let endpoint = self.connections[index as usize].endpoint;
                let rx = self.endpoints[usize::from(endpoint)].bound.rx;
                let has_room = data.is_none() || self.reserve(rx);
                has_room.then_some(To::Regions { spans, regions })
            }
            Operation::Acknowledgement => {
                let connection = &mut self.connections[index as usize];
                let send = connection.unacknowledged.pop(&mut self.sends);
                let send = send.ok_or(Violation::Unsolicited(Opcode::Message as u8))?;
                self.finish_send(send);
                return Ok(());
            }
            Operation::ReadRequest { parts } => {
                let (spans, regions) = self.memory_of(parts, Access::REMOTE_READ, None)?;
                let len = spans.left();
                let response = Response { spans, len, regions };
                let connection = &mut self.connections[index as usize];
                connection.has_reached_memory |= len > 0;
                if connection.is_broken {
                    return Ok(());
                }
                if connection.responses.push_back(response).is_ok() {
                    self.mark_dirty(index);
                    return Ok(());
                }
                None
            }
            Operation::ReadResponse => {
                let connection = &mut self.connections[index as usize];
                let send = connection.reads.pop(&mut self.sends);
                let send = send.ok_or(Violation::Unsolicited(Opcode::ReadResponse as u8))?;
                connection.inbound = Inbound::Payload { frame, to: To::Read(send), left };
                connection.reading -= 1;
                if self.sends[send as usize].spans.left() != left {
                    return Err(Violation::PartLengths);
                }
                return Ok(());
            }
            Operation::ReadyToSend { .. } => {
                if self.handle_ready_to_send(index, &frame)? {
                    return Ok(());
                }
                None
            }
            Operation::ClearToSend { id } => return self.handle_clear_to_send(index, *id),
            Operation::Rendezvous { id } => {
                let (frame, to) = self.handle_rendezvous(index, &frame, *id)?;
                let connection = &mut self.connections[index as usize];
                connection.has_reached_memory = true;
                connection.inbound = Inbound::Payload { frame, to, left };
                return Ok(());
            }
        };
        let connection = &mut self.connections[index as usize];
        connection.has_reached_memory |= match &to {
            Some(To::Receive(_)) => true,
            Some(To::Regions { regions, .. }) => !regions.is_empty(),
            _ => false,
        };
        match to {
            Some(to) => connection.inbound = Inbound::Payload { frame, to, left },
            None => {
                connection.inbound = Inbound::Blocked(frame);
                if !connection.is_paused {
                    connection.is_paused = true;
                    self.paused += 1;
                    self.watch_open(index);
                }
            }
        }
        Ok(())
    }

    fn finish_payload(&mut self, index: u32) -> Result<(), Violation> {
        let connection = &mut self.connections[index as usize];
        let Inbound::Payload { frame, to, .. } = core::mem::replace(&mut connection.inbound, Inbound::Frame) else {
            return Ok(());
        };
        let (endpoint, peer) = (connection.endpoint, connection.peer);
        if !frame.flags.is_empty() && !matches!(to, To::Read(_)) && !connection.is_broken {
            connection.acknowledgements += 1;
        }
        match to {
            To::Receive(Receive { is_cancelled: true, .. }) => {}
            To::Receive(receive) => {
                let kind = MessageKind::of(&frame.operation);
                let receiver = self.endpoints[usize::from(endpoint)].receiver;
                self.finish_receive(receiver, kind, receive.report, &frame, (peer, endpoint));
            }
            To::Unexpected { index, .. } => self.finish_unexpected(index),
            To::Read(send) => self.finish_send(send),
            To::Regions { regions, .. } => {
                // An empty write may have no key.
                if !regions.is_empty() {
                    self.count_regions(&regions);
                    self.count(endpoint, CompletionFlags::REMOTE_WRITE, true);
                }
                if let Some(data) = frame.operation.data() {
                    let flags = CompletionFlags::RMA | CompletionFlags::REMOTE_WRITE | CompletionFlags::REMOTE_CQ_DATA;
                    let len = usize::try_from(frame.payload).unwrap_or(usize::MAX);
                    let mut event = Event::success(0, flags, len);
                    event.data = ImmediateData(data);
                    event.source = if peer == NIL { FabricAddr::UNSPEC } else { FabricAddr(peer.into()) };
                    let rx = self.endpoints[usize::from(endpoint)].bound.rx;
                    self.report(rx, event);
                }
            }
        }
        self.mark_dirty(index);
        Ok(())
    }

    /// Reads a connection with TLS. The kernel may have no more bytes of it to report.
    pub(super) fn read_records(&mut self, index: u32) {
        if self.connections[index as usize].session.is_some() {
            self.read(index);
        }
    }

    /// Tries the blocked frames again.
    pub(super) fn read_paused(&mut self) {
        self.try_paused = false;
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if !connection.is_paused || connection.state != State::Open {
                continue;
            }
            connection.is_paused = false;
            self.paused -= 1;
            #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 connections")]
            let index = index as u32;
            match self.parse(index) {
                Ok(()) => {
                    let connection = &self.connections[index as usize];
                    if connection.socket.is_some() && !connection.is_paused {
                        self.watch_open(index);
                        self.read_records(index);
                    }
                }
                Err(violation) => self.lose(index, Loss::Violation(violation)),
            }
        }
    }
}
