//! Rendezvous: long tagged messages. The receiver requests their bytes when a receive accepts them.
//!
//! | frame | from | content |
//! |---|---|---|
//! | ready to send | sender | number, tag, length |
//! | clear to send | receiver | number, which is free again |
//! | rendezvous | sender | number, and the bytes |
//!
//! A message that no receive accepts takes one place of the connection's share, and no memory for
//! its bytes.

use loom_core::engine::tag_matcher::{Envelope, MessageId, ReceiveId, Want};
use loom_core::transport::Refusal;
use loom_core::vocabulary::{Errno, FabricAddr, Tag, TagMatch};

use super::connection::{Connection, To};
use super::loss::Loss;
use super::matching::{Receive, Unexpected, source_of};
use super::{Engine, MessageKind, NIL};
use crate::wire::{Frame, FrameFlags, Opcode, Operation, Violation};

const KIND: MessageKind = MessageKind::Tagged;

/// Accepts no message: a receive with it keeps its place in the table.
pub(super) const NEVER: Want = Want { tag: TagMatch::ANY, source: FabricAddr(NIL as u64) };

/// Message that a receive awaits.
#[derive(Debug)]
pub(super) struct Announced {
    connection: u32,
    number: u8,
    flags: FrameFlags,
    /// Number of the request: a peer uses the numbers of the messages again.
    since: u64,
    tag: u64,
    len: u64,
    data: Option<u64>,
}

/// Numbers of a connection's messages, from 1 to 254.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers([u64; 4]);

impl Numbers {
    fn take(&mut self) -> Option<u8> {
        (1..=254).find(|number| {
            let (word, bit) = (&mut self.0[usize::from(number / 64)], 1 << (number % 64));
            let is_free = *word & bit == 0;
            *word |= bit;
            is_free
        })
    }

    pub(super) fn give_back(&mut self, number: u8) {
        self.0[usize::from(number / 64)] &= !(1 << (number % 64));
    }
}

fn number_of(frame: &Frame) -> Option<u8> {
    match frame.operation {
        Operation::ReadyToSend { id, .. } => Some(id),
        _ => None,
    }
}

impl Engine {
    /// Replaces a queued long message by its announcement, if the peer requests such messages.
    pub(super) fn announce(&mut self, index: u32, send: u32) {
        let Self { connections, sends, .. } = self;
        let connection = &mut connections[index as usize];
        let queued = &mut sends[send as usize];
        let Some(frame) = &mut queued.frame else { return };
        let size = self.attr.rendezvous_size;
        let is_long = size != u32::MAX && queued.injected == 0 && frame.payload > u64::from(size);
        if let Operation::Tagged { tag, data } = frame.operation
            && is_long
            && connection.announces
            // The request would lie behind a frame that waits.
            && !connection.is_paused
            && let Some(id) = connection.numbers.take()
        {
            frame.operation = Operation::ReadyToSend { id, tag, len: frame.payload, data };
            frame.payload = 0;
        }
    }

    /// Announces the long messages in the queue of a connection that has opened.
    pub(super) fn announce_queued(&mut self, index: u32) {
        let mut next = self.connections[index as usize].queue.first();
        while let Some(send) = next {
            self.announce(index, send);
            next = Some(self.sends[send as usize].next).filter(|next| *next != NIL);
        }
    }

    /// Queues the bytes of an announced message, which the peer requests.
    pub(super) fn handle_clear_to_send(&mut self, index: u32, number: u8) -> Result<(), Violation> {
        let Self { connections, sends, .. } = self;
        let connection = &mut connections[index as usize];
        let found = connection.announced.remove(sends, |send| send.frame.as_ref().and_then(number_of) == Some(number));
        let send = found.ok_or(Violation::Unsolicited(Opcode::ClearToSend as u8))?;
        connection.numbers.give_back(number);
        let requested = &mut sends[send as usize];
        if let Some(frame) = &mut requested.frame {
            frame.operation = Operation::Rendezvous { id: number };
            frame.payload = requested.report.len;
        }
        connection.requested.push(sends, send);
        self.mark_dirty(index);
        Ok(())
    }

    /// Requests an announced message if a receive accepts it, or keeps the announcement. Returns
    /// `false` without room for it.
    pub(super) fn handle_ready_to_send(&mut self, index: u32, frame: &Frame) -> Result<bool, Violation> {
        let Operation::ReadyToSend { tag, .. } = frame.operation else { return Ok(false) };
        let Connection { endpoint, peer, generation, unexpected, is_broken, .. } = self.connections[index as usize];
        if is_broken {
            // A request cannot be sent.
            return Ok(true);
        }
        let receiver = self.endpoints[usize::from(endpoint)].receiver;
        let envelope = Envelope { tag: Tag(tag), source: source_of(peer) };
        let matcher = &mut self.endpoints[usize::from(receiver)].matchers[KIND as usize];
        if let Some(id) = matcher.receive_for(&envelope) {
            matcher.remove_receive(id);
            // The place that was freed.
            let Some(place) = matcher.post(NEVER) else { return Ok(false) };
            let at = self.receive_at(receiver, KIND, id);
            let receive = core::mem::take(&mut self.receives[at]);
            return self.request(index, (receiver, place), receive, frame).map(|()| true);
        }
        if peer == NIL || unexpected >= self.attr.unexpected.div_ceil(super::matching::SHARES) {
            return Ok(false);
        }
        let Some(id) = matcher.keep(envelope) else { return Ok(false) };
        let connection = &mut self.connections[index as usize];
        connection.unexpected += 1;
        connection.promised += 1;
        let at = self.unexpected_at(receiver, KIND, id);
        self.unexpected[at] = Unexpected::announced(id, frame.clone(), (index, generation), peer);
        Ok(true)
    }

    /// Requests an announced message for a receive.
    pub(super) fn request(
        &mut self,
        index: u32,
        (receiver, id): (u16, ReceiveId),
        receive: Receive,
        frame: &Frame,
    ) -> Result<(), Violation> {
        let Operation::ReadyToSend { id: number, tag, len, data } = frame.operation else { return Ok(()) };
        self.requested += 1;
        let since = self.requested;
        let announced = Some(Announced { connection: index, number, flags: frame.flags, since, tag, len, data });
        let at = self.receive_at(receiver, KIND, id);
        self.receives[at] = Receive { id: Some(id), announced, ..receive };
        let connection = &mut self.connections[index as usize];
        connection.promised += 1;
        // A peer that keeps the protocol has at most as many messages.
        connection.requests.push_back(number).map_err(|_| Violation::Unsolicited(Opcode::ReadyToSend as u8))?;
        self.mark_dirty(index);
        Ok(())
    }

    /// Requests a message that was announced before its receive.
    pub(super) fn request_kept(
        &mut self,
        receiver: u16,
        (message, at): (MessageId, usize),
        receive: Receive,
    ) -> Result<(), Refusal> {
        let matcher = &mut self.endpoints[usize::from(receiver)].matchers[KIND as usize];
        let place = matcher.post(NEVER).ok_or(Refusal::Again)?;
        matcher.remove_message(message);
        let kept = core::mem::replace(&mut self.unexpected[at], Unexpected::free());
        let Some(frame) = kept.frame else { return Err(Refusal::Again) };
        let connection = &mut self.connections[kept.connection as usize];
        connection.promised = connection.promised.saturating_sub(1);
        self.give_back_share(kept.connection, kept.generation, 0);
        if let Err(violation) = self.request(kept.connection, (receiver, place), receive, &frame) {
            // The receive fails with the connection.
            self.lose(kept.connection, Loss::Violation(violation));
        }
        Ok(())
    }

    /// Receive of the bytes of an announced message, and the frame of a message with them.
    pub(super) fn handle_rendezvous(
        &mut self,
        index: u32,
        frame: &Frame,
        number: u8,
    ) -> Result<(Frame, To), Violation> {
        let receiver = self.endpoints[usize::from(self.connections[index as usize].endpoint)].receiver;
        let awaits = |receive: &Receive| {
            let announced = receive.announced.as_ref()?;
            (announced.connection == index && announced.number == number).then_some(announced.since)
        };
        let table = self.receives_of(receiver, KIND);
        let found = table.filter_map(|at| Some((awaits(&self.receives[at])?, at))).min();
        let (_, at) = found.ok_or(Violation::Unsolicited(Opcode::Rendezvous as u8))?;
        let mut receive = self.take_announced(receiver, at);
        let announced = receive.announced.take().ok_or(Violation::Unsolicited(Opcode::Rendezvous as u8))?;
        let Announced { flags, tag, len, data, .. } = announced;
        let message = Frame { operation: Operation::Tagged { tag, data }, flags, payload: len };
        let (to, matches) = (To::Receive(receive), frame.payload == len);
        if !matches {
            // The receive fails with the connection.
            let inbound = super::connection::Inbound::Payload { frame: message, to, left: len };
            self.connections[index as usize].inbound = inbound;
            return Err(Violation::FrameSize(frame.payload));
        }
        Ok((message, to))
    }

    fn take_announced(&mut self, receiver: u16, at: usize) -> Receive {
        let receive = core::mem::take(&mut self.receives[at]);
        if let Some(id) = receive.id {
            self.endpoints[usize::from(receiver)].matchers[KIND as usize].remove_receive(id);
        }
        if let Some(announced) = &receive.announced {
            let connection = &mut self.connections[announced.connection as usize];
            connection.promised = connection.promised.saturating_sub(1);
        }
        receive
    }

    /// Cancels a receive that awaits a message. The bytes are then dropped.
    pub(super) fn cancel_announced(&mut self, receiver: u16, at: usize) {
        let Receive { id, announced, .. } = &mut self.receives[at];
        let left = Receive { id: *id, announced: announced.take(), is_cancelled: true, ..Receive::default() };
        let receive = core::mem::replace(&mut self.receives[at], left);
        self.fail_receive(receiver, KIND, receive, Errno::ECANCELED, 0);
    }

    /// Fails the receives that await messages of a connection that ends, and drops announcements.
    pub(super) fn fail_announced(&mut self, index: u32, endpoint: u16, loss: Loss) {
        let own = &self.endpoints[usize::from(endpoint)];
        let (rx, receiver) = (own.bound.rx, own.receiver);
        for at in self.receives_of(receiver, KIND) {
            if self.receives[at].announced.as_ref().is_none_or(|announced| announced.connection != index) {
                continue;
            }
            let receive = self.take_announced(receiver, at);
            if receive.is_cancelled {
                continue;
            }
            if loss == Loss::Closed && receiver == endpoint {
                self.release(rx);
            } else {
                self.fail_receive(receiver, KIND, receive, loss.errno(), loss.code());
            }
        }
        for at in self.unexpected_of(receiver, KIND) {
            if self.unexpected[at].is_announced() && self.unexpected[at].connection == index {
                #[expect(clippy::cast_possible_truncation, reason = "fewer than `NIL` messages")]
                self.drop_unexpected(receiver, KIND, at as u32);
            }
        }
    }
}
