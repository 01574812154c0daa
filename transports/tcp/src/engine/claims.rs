//! Peeks at tagged messages (`FI_PEEK`), which may claim or discard them.

use loom_core::engine::tag_matcher::{Envelope, MessageId, Want};
use loom_core::transport::{Event, Refusal};
use loom_core::vocabulary::{Errno, OpFlags, Tag};

use super::connection::{Connection, Inbound, To};
use super::loss::Loss;
use super::matching::{Receive, ReceiveReport, Unexpected, describe, kind_of, source_of};
use super::rendezvous::NEVER;
use super::{Engine, MessageKind};
use crate::memory::Spans;
use crate::wire::{Frame, Operation};

const KIND: MessageKind = MessageKind::Tagged;

/// Message without a receive.
#[derive(Clone, Copy)]
enum Waiting {
    /// In a place.
    Kept(MessageId, usize),
    /// Without room, on a connection.
    Blocked(u32),
}

impl Engine {
    /// Reports the oldest message that a receive would accept, or `ENOMSG`. Claims it for the
    /// context, or drops it.
    pub(crate) fn peek(&mut self, endpoint: u16, want: &Want, context: u64, flags: OpFlags) -> Result<(), Refusal> {
        self.with_event(endpoint, |engine, queue| {
            let mut found = engine.find_message(endpoint, want);
            if found.is_none() {
                // The event of a peek keeps a poll from progress.
                engine.read_shared();
                engine.progress(queue, 0)?;
                found = engine.find_message(endpoint, want);
            }
            let event = engine.event_of(found, context);
            match found {
                Some(found) if flags.contains(OpFlags::CLAIM) => engine.claim(endpoint, found, context),
                Some(found) if flags.contains(OpFlags::DISCARD) => engine.take(endpoint, found, Receive::dropped())?,
                _ => {}
            }
            engine.report(queue, event);
            Ok(())
        })
    }

    pub(crate) fn fetch_claimed(&mut self, endpoint: u16, spans: Spans, context: u64) -> Result<(), Refusal> {
        self.with_event(endpoint, |engine, _| {
            let receive = Receive {
                report: ReceiveReport { context, room: spans.left(), part: None },
                spans,
                ..Receive::default()
            };
            if let Some(found) = engine.find_claimed(endpoint, context) {
                return engine.take(endpoint, found, receive);
            }
            engine.fail_lost(endpoint, receive);
            Ok(())
        })
    }

    /// Fails the receive of a message that its connection has lost.
    fn fail_lost(&mut self, endpoint: u16, receive: Receive) {
        let loss = Loss::Ended(Errno::ENOTCONN);
        if !receive.is_cancelled {
            self.fail_receive(endpoint, KIND, receive, loss.errno(), loss.code());
        }
    }

    pub(crate) fn discard_claimed(&mut self, endpoint: u16, context: u64) -> Result<(), Refusal> {
        self.with_event(endpoint, |engine, queue| {
            let found = engine.find_claimed(endpoint, context);
            let event = engine.event_of(found, context);
            if let Some(found) = found {
                engine.take(endpoint, found, Receive::dropped())?;
            }
            engine.report(queue, event);
            Ok(())
        })
    }

    /// Reserves room for an event.
    fn with_event(
        &mut self,
        endpoint: u16,
        run: impl FnOnce(&mut Self, u16) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let queue = self.endpoints[usize::from(endpoint)].bound.rx;
        if !self.reserve(queue) {
            return Err(Refusal::Again);
        }
        run(self, queue).inspect_err(|_| self.release(queue))
    }

    fn find_message(&self, endpoint: u16, want: &Want) -> Option<Waiting> {
        let matcher = &self.endpoints[usize::from(endpoint)].matchers[KIND as usize];
        if let Some(id) = matcher.message_for(want) {
            return Some(Waiting::Kept(id, self.unexpected_at(endpoint, KIND, id)));
        }
        // A message without room is the next one of its connection.
        self.find_blocked(endpoint, |connection, frame| {
            let source = source_of(connection.peer);
            connection.claim.is_none()
                && kind_of(frame)
                    .is_some_and(|(kind, tag)| kind == KIND && want.accepts(&Envelope { tag: Tag(tag), source }))
        })
    }

    fn find_claimed(&self, endpoint: u16, context: u64) -> Option<Waiting> {
        let claimed = self.unexpected_of(endpoint, KIND).find_map(|at| {
            let Unexpected { id, claim, .. } = &self.unexpected[at];
            Some(Waiting::Kept((*id).filter(|_| *claim == Some(context))?, at))
        });
        claimed.or_else(|| self.find_blocked(endpoint, |connection, _| connection.claim == Some(context)))
    }

    fn find_blocked(&self, endpoint: u16, fits: impl Fn(&Connection, &Frame) -> bool) -> Option<Waiting> {
        let blocked = self.connections.iter().enumerate().filter(|(_, connection)| {
            let receiver = self.endpoints[usize::from(connection.endpoint)].receiver;
            matches!(&connection.inbound, Inbound::Blocked(frame) if receiver == endpoint && fits(connection, frame))
        });
        let (index, _) = blocked.min_by_key(|(_, connection)| connection.since)?;
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 connections")]
        Some(Waiting::Blocked(index as u32))
    }

    fn event_of(&self, found: Option<Waiting>, context: u64) -> Event {
        let (frame, peer) = match found {
            Some(Waiting::Kept(_, at)) => (self.unexpected[at].frame.as_ref(), self.unexpected[at].peer),
            Some(Waiting::Blocked(index)) => {
                let Connection { inbound, peer, .. } = &self.connections[index as usize];
                (if let Inbound::Blocked(frame) = inbound { Some(frame) } else { None }, *peer)
            }
            None => (None, super::NIL),
        };
        let Some(frame) = frame else { return Event::failure(context, KIND.flags(), Errno::ENOMSG) };
        let len = match frame.operation {
            Operation::ReadyToSend { len, .. } => len,
            _ => frame.payload,
        };
        let mut event = Event::success(context, KIND.flags(), usize::try_from(len).unwrap_or(usize::MAX));
        describe(&mut event, frame, peer);
        event
    }

    fn claim(&mut self, endpoint: u16, found: Waiting, context: u64) {
        match found {
            Waiting::Kept(id, at) => {
                self.endpoints[usize::from(endpoint)].matchers[KIND as usize].claim_message(id);
                self.unexpected[at].claim = Some(context);
            }
            Waiting::Blocked(index) => self.connections[index as usize].claim = Some(context),
        }
    }

    /// Moves a message to a receive.
    fn take(&mut self, endpoint: u16, found: Waiting, receive: Receive) -> Result<(), Refusal> {
        let matcher = &mut self.endpoints[usize::from(endpoint)].matchers[KIND as usize];
        let index = match found {
            Waiting::Kept(id, at) if self.unexpected[at].is_announced() => {
                if !self.connections[self.unexpected[at].connection as usize].is_broken {
                    return self.request_kept(endpoint, (id, at), receive);
                }
                #[expect(clippy::cast_possible_truncation, reason = "fewer than `NIL` messages")]
                self.drop_unexpected(endpoint, KIND, at as u32);
                self.fail_lost(endpoint, receive);
                return Ok(());
            }
            Waiting::Kept(id, at) => {
                matcher.remove_message(id);
                self.hand_over(endpoint, KIND, at, receive);
                return Ok(());
            }
            Waiting::Blocked(index) => index,
        };
        let connection = &mut self.connections[index as usize];
        let Inbound::Blocked(frame) = &connection.inbound else { return Err(Refusal::Again) };
        let frame = frame.clone();
        if let Operation::ReadyToSend { .. } = frame.operation {
            let place = matcher.post(NEVER).ok_or(Refusal::Again)?;
            connection.inbound = Inbound::Frame;
            if let Err(violation) = self.request(index, (endpoint, place), receive, &frame) {
                // The receive fails with the connection.
                self.lose(index, Loss::Violation(violation));
                return Ok(());
            }
        } else {
            let left = frame.payload;
            connection.inbound = Inbound::Payload { frame, to: To::Receive(receive), left };
        }
        let connection = &mut self.connections[index as usize];
        connection.claim = None;
        connection.has_reached_memory = true;
        self.try_paused = true;
        Ok(())
    }
}
