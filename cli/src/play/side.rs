//! A side never waits: [`Step::step`] takes one completion and posts due operations.

use std::time::Instant;

use loom_core::completion::{Completion, Done, OpError, RemoteEvent, Transfer};
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::peer_table::Peer;
use loom_core::error::PostError;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::transport::Transport;

use crate::failure::Failure;
use crate::play::bout::{Bout, immediate, tag};
use crate::play::hold::Hold;
use crate::play::payload::{Buffer, Buffers, Pattern, Role};
use crate::play::session::Step;
use crate::play::setup::Op;

pub(crate) type Exposed<T> = Mr<'static, T, Buffer>;

pub(crate) struct Side<T: Transport> {
    role: Role,
    endpoint: Endpoint<'static, T, Buffer>,
    peer: Peer,
    exposed: Option<Exposed<T>>,
    region: RemoteRegion,
    buffers: Vec<Buffers>,
    corrupt: Option<usize>,

    bout: Bout,
    started: bool,
    rounds: u64,
    sent: u64,
    received: u64,
    outbox: Hold,
    inbox: Hold,
    receive_due: bool,
    send_due: bool,
    arrived: bool,
    began: Instant,
    samples: Vec<u64>,
}

impl<T: Transport> Step for Side<T> {
    #[inline]
    fn step(&mut self) -> Result<bool, Failure> {
        let completion = self.endpoint.cq().poll().map_err(Failure::when("polling the completion queue"))?;
        let mut happened = completion.is_some();
        match completion {
            None => {}
            Some(Completion::Op(done)) => self.complete(done)?,
            Some(Completion::Remote(event)) => self.written(&event)?,
            Some(Completion::Unclaimed(error)) => return Err(self.failed(&error)),
            Some(other) => return Err(Failure::Protocol(format!("a completion of an unknown kind: {other:?}"))),
        }
        // The peer's message may overtake the completion of this side's send, and even the start of
        // the bout.
        if self.arrived && self.started && self.outbox.is_here() {
            self.take_turn()?;
        }
        // The peer's answer then finds it posted.
        if self.receive_due {
            self.receive_due = !self.post_receive()?;
            happened |= !self.receive_due;
        }
        if self.send_due && !self.receive_due {
            self.send_due = !self.post_send()?;
            happened |= !self.send_due;
        }
        Ok(happened)
    }
}

impl<T: Transport> Side<T> {
    pub(crate) fn new(
        role: Role,
        endpoint: Endpoint<'static, T, Buffer>,
        (peer, region): (Peer, RemoteRegion),
        exposed: Option<Exposed<T>>,
        buffers: Vec<Buffers>,
        corrupt: Option<usize>,
    ) -> Self {
        Side {
            role,
            endpoint,
            peer,
            exposed,
            region,
            buffers,
            corrupt,
            bout: Bout { op: Op::Message, size: 0, index: 0, verify: false },
            started: false,
            rounds: 0,
            sent: 0,
            received: 0,
            outbox: Hold::default(),
            inbox: Hold::default(),
            receive_due: false,
            send_due: false,
            arrived: false,
            began: Instant::now(),
            samples: Vec::new(),
        }
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn endpoint(&self) -> &Endpoint<'static, T, Buffer> {
        &self.endpoint
    }

    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    pub(crate) fn samples(&mut self) -> &mut [u64] {
        &mut self.samples
    }

    /// Makes the first receive of a bout due. [`step`](Step::step) posts it.
    pub(crate) fn prepare(&mut self, bout: Bout) {
        let Buffers { outbox, inbox } = std::mem::take(&mut self.buffers[bout.index]);
        self.bout = bout;
        (self.started, self.sent, self.received) = (false, 0, 0);
        (self.outbox, self.inbox) = (Hold::Here(outbox), Hold::Here(inbox));
        (self.receive_due, self.send_due, self.arrived) = (bout.op != Op::Write, false, false);
    }

    pub(crate) fn is_prepared(&self) -> bool {
        !self.receive_due
    }

    pub(crate) fn start(&mut self, rounds: u64) {
        (self.started, self.rounds) = (true, rounds);
        self.samples.clear();
        if self.role == Role::Initiator {
            self.samples.reserve(usize::try_from(rounds).unwrap_or(usize::MAX));
            self.prepare_send();
            self.began = Instant::now();
        }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.sent == self.rounds && self.received == self.rounds && self.outbox.is_here()
    }

    pub(crate) fn finish(&mut self) {
        if let (Some(outbox), Some(inbox)) = (self.outbox.take(), self.inbox.take()) {
            self.buffers[self.bout.index] = Buffers { outbox, inbox };
        }
    }

    /// The message ends the round for the initiator, and is its middle for the responder.
    #[inline]
    fn take_turn(&mut self) -> Result<(), Failure> {
        self.arrived = false;
        if self.role == Role::Initiator {
            let now = Instant::now();
            self.samples.push(u64::try_from((now - self.began).as_nanos()).unwrap_or(u64::MAX));
            self.began = now;
        }
        if self.bout.verify {
            self.verify()?;
        }
        self.received += 1;
        self.receive_due = self.received < self.rounds && self.bout.op != Op::Write;
        if self.sent < self.rounds {
            self.prepare_send();
        }
        Ok(())
    }

    fn prepare_send(&mut self) {
        self.send_due = true;
        if self.bout.verify
            && let Hold::Here(bytes) = &mut self.outbox
        {
            Pattern::new(self.bout.size, self.sent, self.role).fill(bytes);
            if let Some(byte) = self.corrupt.and_then(|offset| bytes.get_mut(offset)) {
                *byte ^= 0xff;
                self.corrupt = None;
            }
        }
    }

    #[inline]
    fn post_receive(&mut self) -> Result<bool, Failure> {
        let (endpoint, round) = (&self.endpoint, self.received);
        let posted = match self.bout.op {
            Op::Message => self.inbox.post(|bytes| endpoint.recv(Source::Any, bytes)),
            Op::Tagged => self.inbox.post(|bytes| endpoint.tagged_recv(Source::Any, tag(round), bytes)),
            Op::Write => Ok(true),
        };
        posted.map_err(|error| self.refused("receive", error))
    }

    #[inline]
    fn post_send(&mut self) -> Result<bool, Failure> {
        let (endpoint, peer, region, round) = (&self.endpoint, self.peer, &self.region, self.sent);
        let posted = match self.bout.op {
            Op::Message => self.outbox.post(|bytes| endpoint.send(peer, bytes)),
            Op::Tagged => self.outbox.post(|bytes| endpoint.tagged_send(peer, tag(round), bytes)),
            Op::Write => self.outbox.post(|bytes| endpoint.write_data(peer, region, 0, immediate(round), bytes)),
        };
        let posted = posted.map_err(|error| self.refused("send", error))?;
        self.sent += u64::from(posted);
        Ok(posted)
    }

    #[inline]
    fn complete(&mut self, done: Done<Buffer>) -> Result<(), Failure> {
        let key = done.key();
        let (bytes, result) = done.into_parts();
        let transfer = result.map_err(|error| self.failed(&error))?;
        match (&self.outbox, &self.inbox) {
            (Hold::InFlight(sending), _) if *sending == key => self.outbox = Hold::Here(bytes),
            (_, Hold::InFlight(receiving)) if *receiving == key => {
                self.inbox = Hold::Here(bytes);
                self.check(&transfer)?;
                self.arrived = true;
            }
            _ => return Err(Failure::Protocol(format!("a completion of no operation of this side: {key:?}"))),
        }
        Ok(())
    }

    #[inline]
    fn check(&self, transfer: &Transfer) -> Result<(), Failure> {
        if transfer.len != self.bout.size {
            return Err(self.unexpected(format_args!("{} bytes", transfer.len)));
        }
        if self.bout.op == Op::Tagged
            && let Some(tag_of_sender) = transfer.tag
            && tag_of_sender != tag(self.received)
        {
            return Err(self.unexpected(format_args!("tag {tag_of_sender}")));
        }
        Ok(())
    }

    #[inline]
    fn written(&mut self, event: &RemoteEvent) -> Result<(), Failure> {
        if self.bout.op != Op::Write || self.arrived {
            return Err(self.unexpected(format_args!("a write that is not its turn")));
        }
        if event.data() != Some(immediate(self.received)) {
            return Err(self.unexpected(format_args!("immediate data {:?}", event.data())));
        }
        self.arrived = true;
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        let Hold::Here(bytes) = &mut self.inbox else { return Ok(()) };
        if let (Op::Write, Some(exposed)) = (self.bout.op, &self.exposed) {
            exposed.window().copy_to(0, bytes).map_err(Failure::when("reading the window"))?;
        }
        let pattern = Pattern::new(self.bout.size, self.received, self.role.other());
        pattern.check(bytes).map_err(|wrong| Failure::Mismatch {
            doing: self.bout.to_string(),
            round: self.received,
            offset: wrong.offset,
            got: wrong.got,
            expected: wrong.expected,
        })
    }

    #[cold]
    fn unexpected(&self, what: std::fmt::Arguments<'_>) -> Failure {
        Failure::Protocol(format!("{}, round {}: unexpectedly {what}", self.bout, self.received))
    }

    #[cold]
    fn refused(&self, what: &str, error: PostError) -> Failure {
        Failure::Operation { doing: format!("{}, posting a {what}", self.bout), text: format!("{error:#}") }
    }

    #[cold]
    fn failed(&self, error: &OpError) -> Failure {
        let text = self.endpoint.cq().error_text(error);
        Failure::Operation {
            doing: format!("{}, round {}", self.bout, self.received),
            text: format!("{error:#}: {text}"),
        }
    }
}
