//! One round of each kind of operation.

#![allow(unsafe_code, reason = "multi-receives over providers that do not keep to their buffer")]

use std::time::{Duration, Instant};

use loom_core::completion::{Completion, Done, OpError, Transfer};
use loom_core::engine::op_table::OpKey;
use loom_core::error::{PostError, Rejected};
use loom_core::objects::deadline::Spins;
use loom_core::objects::endpoint::Source;
use loom_core::objects::options::{CompletionLevel, RecvOptions, SendOptions};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Errno, ImmediateData, Tag};

use crate::cases::{Kind, Message};
use crate::failure::Failure;
use crate::payload::Payload;
use crate::rig::{Buffer, Buffers, Rig, Side, take};

const MESSAGE: Tag = Tag(7);
const MARKER: Tag = Tag(8);
const NEVER: Tag = Tag(9);

const LIMIT: Duration = Duration::from_secs(60);

/// What one side waits for, and what it got.
struct Flight<'b> {
    key: Option<OpKey>,
    done: Option<Done<Buffer<'b>>>,
    told: Option<ImmediateData>,
    /// Of a multi-receive: what each of its pieces has to be, and how many have come.
    pieces: Option<(Payload, u32)>,
}

impl<'b> Flight<'b> {
    const fn new() -> Self {
        Flight { key: None, done: None, told: None, pieces: None }
    }

    /// Looks once whether anything has come.
    fn look<T: Transport>(&mut self, side: &Side<'_, '_, 'b, T>, wait: bool) -> Result<(), Failure> {
        if wait && let Some(key) = self.key {
            if self.done.is_none() {
                self.done = side.cq.wait(key, Spins(4))?;
            }
            return Ok(());
        }
        match side.cq.poll()? {
            None => Ok(()),
            Some(Completion::Op(done)) if Some(done.key()) == self.key && self.done.is_none() => {
                self.done = Some(done);
                Ok(())
            }
            Some(Completion::Remote(event)) if self.told.is_none() => {
                self.told = event.data();
                Ok(())
            }
            Some(Completion::Piece(piece)) if Some(piece.key()) == self.key => match &mut self.pieces {
                Some((payload, count)) if payload.is_in(piece.bytes()) => {
                    *count += 1;
                    Ok(())
                }
                _ => Err(Failure::Wrong("a piece is not what was sent")),
            },
            Some(Completion::Unclaimed(error)) => Err(Failure::Operation(error)),
            Some(_) => Err(Failure::Wrong("a completion of something else")),
        }
    }

    fn is_over(&self) -> bool {
        self.key.is_some() == self.done.is_some()
    }

    /// The buffer, and how the operation ended.
    fn end(&mut self) -> Result<(Buffer<'b>, Result<Transfer, OpError>), Failure> {
        self.key = None;
        self.done.take().map(Done::into_parts).ok_or(Failure::Wrong("nothing has ended"))
    }

    /// The buffer of what has succeeded.
    fn succeed(&mut self) -> Result<(Buffer<'b>, Transfer), Failure> {
        let (buffer, result) = self.end()?;
        Ok((buffer, result?))
    }
}

/// A round under way.
struct Round<'r, 'q, 'd, 'b, T: Transport> {
    rig: &'r Rig<'q, 'd, 'b, T>,
    a: Flight<'b>,
    b: Flight<'b>,
    wait: bool,
}

impl<'b, T: Transport> Round<'_, '_, '_, 'b, T> {
    /// Drives both sides until it is so.
    fn until(
        &mut self,
        what: &'static str,
        mut is_so: impl FnMut(&Flight<'b>, &Flight<'b>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut looks = 0u32;
        let mut end = None;
        while !is_so(&self.a, &self.b)? {
            self.look()?;
            looks += 1;
            if looks.is_multiple_of(4096) && Instant::now() > *end.get_or_insert_with(|| Instant::now() + LIMIT) {
                return Err(Failure::Late(what));
            }
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), Failure> {
        self.a.look(&self.rig.a, self.wait)?;
        self.b.look(&self.rig.b, self.wait)
    }

    /// Posts, driving both sides while there is no room.
    fn post(
        &mut self,
        mut buffer: Buffer<'b>,
        mut post: impl FnMut(Buffer<'b>) -> Result<OpKey, Rejected<Buffer<'b>>>,
    ) -> Result<OpKey, Failure> {
        let end = Instant::now() + LIMIT;
        loop {
            match post(buffer) {
                Ok(key) => return Ok(key),
                Err(Rejected { buf, error }) if error.is_transient() => buffer = buf,
                Err(Rejected { error, .. }) => return Err(error.into()),
            }
            self.look()?;
            if Instant::now() > end {
                return Err(Failure::Late("room to post"));
            }
        }
    }

    fn inject(&mut self, mut post: impl FnMut() -> Result<(), PostError>) -> Result<(), Failure> {
        let end = Instant::now() + LIMIT;
        loop {
            match post() {
                Ok(()) => return Ok(()),
                Err(error) if error.is_transient() => self.look()?,
                Err(error) => return Err(error.into()),
            }
            if Instant::now() > end {
                return Err(Failure::Late("room to inject"));
            }
        }
    }

    fn send(&mut self, message: Message, data: ImmediateData, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let Side { endpoint, other: to, .. } = &self.rig.a;
        let to = *to;
        if message.inject {
            let out = take(&mut buffers.out)?;
            let posted = match (message.tagged, message.data) {
                (false, false) => self.inject(|| endpoint.inject(to, out)),
                (false, true) => self.inject(|| endpoint.inject_data(to, data, out)),
                (true, false) => self.inject(|| endpoint.tagged_inject(to, MESSAGE, out)),
                (true, true) => self.inject(|| endpoint.tagged_inject_data(to, MESSAGE, data, out)),
            };
            buffers.out = Some(out);
            return posted;
        }
        let out = take(&mut buffers.out)?;
        let options = SendOptions::new().level(CompletionLevel::Transmit);
        let options = if message.data { options.data(data) } else { options };
        let key = match (message.tagged, message.data) {
            (false, _) if message.msg => self.post(out, |out| endpoint.sendmsg(to, options, out)),
            (true, _) if message.msg => self.post(out, |out| endpoint.tagged_sendmsg(to, MESSAGE, options, out)),
            (false, false) => self.post(out, |out| endpoint.send(to, out)),
            (false, true) => self.post(out, |out| endpoint.send_data(to, data, out)),
            (true, false) => self.post(out, |out| endpoint.tagged_send(to, MESSAGE, out)),
            (true, true) => self.post(out, |out| endpoint.tagged_send_data(to, MESSAGE, data, out)),
        }?;
        self.a.key = Some(key);
        Ok(())
    }

    fn receive(&mut self, message: Message, into: Buffer<'b>) -> Result<(), Failure> {
        let Side { endpoint, other, .. } = &self.rig.b;
        let from = if message.directed { Source::Peer(*other) } else { Source::Any };
        let options = RecvOptions::new();
        let key = match (message.tagged, message.msg) {
            (true, true) => self.post(into, |into| endpoint.tagged_recvmsg(from, MESSAGE, options, into)),
            (false, true) => self.post(into, |into| endpoint.recvmsg(from, options, into)),
            (true, false) => self.post(into, |into| endpoint.tagged_recv(from, MESSAGE, into)),
            (false, false) => self.post(into, |into| endpoint.recv(from, into)),
        }?;
        self.b.key = Some(key);
        Ok(())
    }

    /// Waits until `b` has everything that `a` has sent: messages of one sender keep their order.
    fn arrive(&mut self) -> Result<(), Failure> {
        let Side { endpoint, .. } = &self.rig.b;
        let key = self.post(&mut [], |empty| endpoint.tagged_recv(Source::Any, MARKER, empty))?;
        self.b.key = Some(key);
        let Side { endpoint, other, .. } = &self.rig.a;
        self.inject(|| endpoint.tagged_inject(*other, MARKER, &[]))?;
        self.until("the marker", |_, b| Ok(b.is_over()))?;
        self.b.succeed().map(drop)
    }

    fn message(&mut self, message: Message, payload: Payload, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let mut into = take(&mut buffers.into)?;
        payload.erase(into);
        if let Some(out) = &mut buffers.out {
            payload.write(out);
        }
        let data = ImmediateData(payload.round);
        if message.unexpected {
            self.send(message, data, buffers)?;
            self.arrive()?;
            self.receive(message, into)?;
        } else {
            self.receive(message, into)?;
            self.send(message, data, buffers)?;
        }
        self.until("a message", |a, b| Ok(a.is_over() && b.is_over()))?;
        if !message.inject {
            buffers.out = Some(self.a.succeed()?.0);
        }
        let transfer;
        (into, transfer) = self.b.succeed()?;
        let as_sent = transfer.len() == into.len()
            && transfer.data() == message.data.then_some(data)
            && transfer.tag() == message.tagged.then_some(MESSAGE)
            && payload.is_in(into);
        buffers.into = Some(into);
        if as_sent { Ok(()) } else { Err(Failure::Wrong("what was received is not what was sent")) }
    }

    fn truncated(&mut self, tagged: bool, payload: Payload, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        if let Some(out) = &mut buffers.out {
            payload.write(out);
        }
        let half = take(&mut buffers.half)?;
        let (sent, room) = (half.len() * 2, half.len());
        payload.erase(half);
        let message = Message { tagged, ..Message::PLAIN };
        self.receive(message, half)?;
        self.send(message, ImmediateData(0), buffers)?;
        self.until("a truncated message", |a, b| Ok(a.is_over() && b.is_over()))?;
        buffers.out = Some(self.a.succeed()?.0);
        let (half, result) = self.b.end()?;
        let whole_half = payload.is_in(half);
        buffers.half = Some(half);
        match result {
            Err(error) if error.errno == Errno::ETRUNC && error.len <= room && error.overflow <= sent - room => {
                if error.len < room || whole_half { Ok(()) } else { Err(Failure::Wrong("the part that fits")) }
            }
            Err(error) => Err(error.into()),
            Ok(_) => Err(Failure::Wrong("a truncated message is no error")),
        }
    }

    /// Two messages, which use the buffer up.
    fn multi_receive(&mut self, payload: Payload, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let into = take(&mut buffers.into)?;
        let mut half = take(&mut buffers.half)?;
        payload.erase(into);
        payload.write(half);
        self.b.pieces = Some((payload, 0));
        let Side { endpoint, .. } = &self.rig.b;
        // SAFETY: one peer sends what fits, and it is not cancelled.
        let key = self.post(into, |into| unsafe { endpoint.multi_recv_trusting(Source::Any, into) })?;
        self.b.key = Some(key);
        for count in 1..=2 {
            let Side { endpoint, other, .. } = &self.rig.a;
            self.a.key = Some(self.post(half, |half| endpoint.send(*other, half))?);
            self.until("a piece", |a, b| Ok(a.is_over() && b.pieces.is_some_and(|(_, seen)| seen == count)))?;
            half = self.a.succeed()?.0;
        }
        self.until("the end of a multi-receive", |_, b| Ok(b.is_over()))?;
        buffers.half = Some(half);
        buffers.into = Some(self.b.succeed()?.0);
        Ok(())
    }

    fn read(&mut self, payload: Payload, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        payload.write(&mut buffers.scratch);
        self.rig.region.window().copy_from(0, &buffers.scratch).map_err(|_| Failure::Wrong("window"))?;
        let into = take(&mut buffers.into)?;
        payload.erase(into);
        let Side { endpoint, other, .. } = &self.rig.a;
        let remote = &self.rig.remote;
        self.a.key = Some(self.post(into, |into| endpoint.read(*other, remote, 0, into))?);
        self.until("a read", |a, _| Ok(a.is_over()))?;
        let (into, _) = self.a.succeed()?;
        let right = payload.is_in(into);
        buffers.into = Some(into);
        if right { Ok(()) } else { Err(Failure::Wrong("other bytes were read")) }
    }

    fn write(
        &mut self,
        with_data: bool,
        inject: bool,
        payload: Payload,
        buffers: &mut Buffers<'b>,
    ) -> Result<(), Failure> {
        let data = ImmediateData(payload.round);
        let mut out = take(&mut buffers.out)?;
        payload.write(out);
        let Side { endpoint, other, .. } = &self.rig.a;
        let (to, remote) = (*other, &self.rig.remote);
        if inject {
            match with_data {
                false => self.inject(|| endpoint.inject_write(to, remote, 0, out)),
                true => self.inject(|| endpoint.inject_write_data(to, remote, 0, data, out)),
            }?;
        } else {
            let key = match with_data {
                false => self.post(out, |out| endpoint.write(to, remote, 0, out)),
                true => self.post(out, |out| endpoint.write_data(to, remote, 0, data, out)),
            }?;
            self.a.key = Some(key);
            self.until("the end of a write", |a, _| Ok(a.is_over()))?;
            out = self.a.succeed()?.0;
        }
        buffers.out = Some(out);
        let window = self.rig.region.window();
        let scratch = &mut buffers.scratch;
        let mut arrived = || {
            if payload.whole || scratch.len() <= 64 {
                window.copy_to(0, scratch).map_err(|_| Failure::Wrong("window"))?;
            } else {
                let tail = scratch.len() - 8;
                for at in [0, tail] {
                    let end = scratch.get_mut(at..at + 8).ok_or(Failure::Wrong("window"))?;
                    window.copy_to(at, end).map_err(|_| Failure::Wrong("window"))?;
                }
            }
            Ok(payload.is_in(scratch))
        };
        if with_data {
            self.until("word of a write", |_, b| Ok(b.told.is_some()))?;
            if self.b.told != Some(data) {
                return Err(Failure::Wrong("other immediate data"));
            }
            if !arrived()? {
                return Err(Failure::Wrong("other bytes were written"));
            }
            Ok(())
        } else {
            // Completion says that the buffer is free, not that the bytes are there.
            self.until("the bytes of a write", |_, _| arrived())
        }
    }

    fn cancel_receive(&mut self, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let into = take(&mut buffers.into)?;
        let Side { endpoint, .. } = &self.rig.b;
        let key = self.post(into, |into| endpoint.tagged_recv(Source::Any, NEVER, into))?;
        self.b.key = Some(key);
        endpoint.cancel(key)?;
        self.until("a cancelled receive", |_, b| Ok(b.is_over()))?;
        let (into, result) = self.b.end()?;
        buffers.into = Some(into);
        match result {
            Err(error) if error.errno == Errno::ECANCELED => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(Failure::Wrong("a receive of nothing succeeded")),
        }
    }

    fn cancel_send(&mut self, arrived: bool, payload: Payload, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let out = take(&mut buffers.out)?;
        payload.write(out);
        let (address, len) = (out.as_ptr(), out.len());
        let Side { endpoint, other, .. } = &self.rig.a;
        let key = self.post(out, |out| endpoint.tagged_send(*other, MESSAGE, out))?;
        self.a.key = Some(key);
        if arrived {
            self.arrive()?;
        }
        endpoint.cancel(key)?;
        self.until("a cancelled send", |a, _| Ok(a.is_over()))?;
        let (out, result) = self.a.end()?;
        let is_back = (out.as_ptr(), out.len()) == (address, len) && payload.is_in(out);
        buffers.out = Some(out);
        match result {
            Err(error) if error.errno == Errno::ECANCELED => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(Failure::Wrong("a send that nobody received succeeded")),
        }
        if is_back { Ok(()) } else { Err(Failure::Wrong("another buffer came back")) }
    }
}

/// Runs one round.
pub fn round<'b, T: Transport>(
    rig: &Rig<'_, '_, 'b, T>,
    kind: Kind,
    payload: Payload,
    buffers: &mut Buffers<'b>,
) -> Result<(), Failure> {
    let wait = matches!(kind, Kind::Message(message) if message.wait);
    let mut round = Round { rig, a: Flight::new(), b: Flight::new(), wait };
    match kind {
        Kind::Message(message) => round.message(message, payload, buffers),
        Kind::Truncated { tagged } => round.truncated(tagged, payload, buffers),
        Kind::MultiReceive => round.multi_receive(payload, buffers),
        Kind::Read => round.read(payload, buffers),
        Kind::Write { data, inject } => round.write(data, inject, payload, buffers),
        Kind::CancelReceive => round.cancel_receive(buffers),
        Kind::CancelSend { arrived } => round.cancel_send(arrived, payload, buffers),
        Kind::EmptyPoll => round.look(),
    }
}
