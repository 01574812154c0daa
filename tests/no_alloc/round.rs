//! One round of each kind of operation.

use std::time::{Duration, Instant};

use loom_core::completion::{Completion, Done, OpError, Transfer};
use loom_core::deadline::Spins;
use loom_core::engine::op_table::OpKey;
use loom_core::error::{PostError, Rejected};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, Errno, ImmediateData, Tag};

use crate::cases::{Kind, Message};
use crate::failure::Failure;
use crate::payload::Payload;
use crate::rig::{Buffer, Buffers, Region, Rig, Side, take};
use crate::verbs::{Posted, Verbs};

const MESSAGE: Tag = Tag(7);
const MARKER: Tag = Tag(8);
const NEVER: Tag = Tag(9);

const LIMIT: Duration = Duration::from_secs(60);

/// Operation of one side, and its result.
struct Flight<'b> {
    key: Option<OpKey>,
    done: Option<Done<Buffer<'b>>>,
    told: Option<ImmediateData>,
    /// Expected content of each piece of a multi-receive, and the number of pieces so far.
    pieces: Option<(Payload, u32)>,
}

impl<'b> Flight<'b> {
    const fn new() -> Self {
        Flight { key: None, done: None, told: None, pieces: None }
    }

    /// Polls once.
    fn look<T: Transport + 'static, V>(&mut self, side: &Side<'_, '_, 'b, T, V>, wait: bool) -> Result<(), Failure> {
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

    /// Returns the buffer and the result of the operation.
    fn end(&mut self) -> Result<(Buffer<'b>, Result<Transfer, OpError>), Failure> {
        self.key = None;
        self.done.take().map(Done::into_parts).ok_or(Failure::Wrong("nothing has ended"))
    }

    /// Returns the buffer of a successful operation.
    fn succeed(&mut self) -> Result<(Buffer<'b>, Transfer), Failure> {
        let (buffer, result) = self.end()?;
        Ok((buffer, result?))
    }
}

/// Round in progress.
struct Round<'r, 'q, 'd, 'b, T: Transport, V> {
    rig: &'r Rig<'q, 'd, 'b, T, V>,
    a: Flight<'b>,
    b: Flight<'b>,
    wait: bool,
}

impl<'r, 'q, 'd, 'b, T: Transport + 'static, V: Verbs<'b>> Round<'r, 'q, 'd, 'b, T, V> {
    /// Drives both sides until a condition holds.
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

    /// Posts, and drives both sides while the queue is full.
    fn post(
        &mut self,
        mut buffer: Buffer<'b>,
        mut post: impl FnMut(Buffer<'b>) -> Posted<'b>,
    ) -> Result<OpKey, Failure> {
        let end = Instant::now() + LIMIT;
        loop {
            match post(buffer) {
                Ok(key) => return Ok(key),
                Err(Rejected { value: buf, error }) if error.is_transient() => buffer = buf,
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
        let a = &self.rig.a.verbs;
        let out = take(&mut buffers.out)?;
        if message.inject {
            let posted = self.inject(|| a.inject(message, MESSAGE, data, out));
            buffers.out = Some(out);
            return posted;
        }
        self.a.key = Some(self.post(out, |out| a.send(message, MESSAGE, data, out))?);
        Ok(())
    }

    fn receive(&mut self, message: Message, into: Buffer<'b>) -> Result<(), Failure> {
        let b = &self.rig.b.verbs;
        self.b.key = Some(self.post(into, |into| b.receive(message, MESSAGE, into))?);
        Ok(())
    }

    /// Waits until the message of `a` has arrived at `b`. Messages of one sender keep their order,
    /// so a tagged marker that overtakes waiting messages proves the arrival. Where no marker can
    /// do so, `b` polls a few times, because messages arrive at once over those transports.
    fn arrive(&mut self, message: Message) -> Result<(), Failure> {
        let info = self.rig.info;
        // Over `tcp`, an untagged message that waits for its receive blocks later messages.
        let passes = message.tagged || info.provider() != "tcp";
        if !(passes && info.caps().contains(Caps::TAGGED)) {
            return (0..4).try_for_each(|_| self.look());
        }
        let (a, b) = (&self.rig.a.verbs, &self.rig.b.verbs);
        let marker = Message { tagged: true, ..Message::PLAIN };
        self.b.key = Some(self.post(&mut [], |empty| b.receive(marker, MARKER, empty))?);
        self.inject(|| a.inject(marker, MARKER, ImmediateData(0), &[]))?;
        self.until("the marker", |_, b| Ok(b.is_over()))?;
        self.b.succeed().map(drop)
    }

    fn region(&self) -> Result<&'r Region<'d, 'b, T>, Failure> {
        self.rig.region.ok_or(Failure::Wrong("there is no region"))
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
            self.arrive(message)?;
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
        let as_sent = transfer.len == into.len()
            && transfer.data == message.data.then_some(data)
            && transfer.tag == message.tagged.then_some(MESSAGE)
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
            Err(error)
                if error.errno == Errno::ETRUNC && error.overflow.is_none_or(|overflow| overflow == sent - room) =>
            {
                if error.len != Some(room) || whole_half {
                    Ok(())
                } else {
                    Err(Failure::Wrong("the part that fits"))
                }
            }
            Err(error) => Err(error.into()),
            Ok(_) => Err(Failure::Wrong("a truncated message is no error")),
        }
    }

    /// Sends two messages that fill the buffer.
    fn multi_receive(&mut self, tagged: bool, payload: Payload, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let into = take(&mut buffers.into)?;
        let mut half = take(&mut buffers.half)?;
        payload.erase(into);
        payload.write(half);
        self.b.pieces = Some((payload, 0));
        let (a, b) = (&self.rig.a.verbs, &self.rig.b.verbs);
        self.b.key = Some(self.post(into, |into| b.multi_receive(tagged.then_some(MESSAGE), into))?);
        let message = if tagged { Message::TAGGED } else { Message::PLAIN };
        for count in 1..=2 {
            self.a.key = Some(self.post(half, |half| a.send(message, MESSAGE, ImmediateData(0), half))?);
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
        let region = self.region()?;
        region.window().copy_from(0, &buffers.scratch).map_err(|_| Failure::Wrong("window"))?;
        let into = take(&mut buffers.into)?;
        payload.erase(into);
        let (a, remote) = (&self.rig.a.verbs, &region.remote());
        self.a.key = Some(self.post(into, |into| a.read(remote, into))?);
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
        let (a, region) = (&self.rig.a.verbs, self.region()?);
        let (remote, carried) = (&region.remote(), with_data.then_some(data));
        if inject {
            self.inject(|| a.inject_write(remote, carried, out))?;
        } else {
            self.a.key = Some(self.post(out, |out| a.write(remote, carried, out))?);
            self.until("the end of a write", |a, _| Ok(a.is_over()))?;
            out = self.a.succeed()?.0;
        }
        buffers.out = Some(out);
        let window = region.window();
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
            // Completion states that the buffer is free, but not that the bytes have arrived.
            self.until("the bytes of a write", |_, _| arrived())
        }
    }

    fn cancel_receive(&mut self, tagged: bool, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let into = take(&mut buffers.into)?;
        let b = &self.rig.b.verbs;
        let key = self.post(into, |into| b.receive(Message { tagged, ..Message::PLAIN }, NEVER, into))?;
        self.b.key = Some(key);
        b.cancel(key)?;
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
        let a = &self.rig.a.verbs;
        let message = Message { tagged: true, ..Message::PLAIN };
        let key = self.post(out, |out| a.send(message, MESSAGE, ImmediateData(0), out))?;
        self.a.key = Some(key);
        if arrived {
            self.arrive(message)?;
        }
        a.cancel(key)?;
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
pub fn round<'b, T: Transport + 'static, V: Verbs<'b>>(
    rig: &Rig<'_, '_, 'b, T, V>,
    kind: Kind,
    payload: Payload,
    buffers: &mut Buffers<'b>,
) -> Result<(), Failure> {
    let wait = matches!(kind, Kind::Message(message) if message.wait);
    let mut round = Round { rig, a: Flight::new(), b: Flight::new(), wait };
    match kind {
        Kind::Message(message) => round.message(message, payload, buffers),
        Kind::Truncated { tagged } => round.truncated(tagged, payload, buffers),
        Kind::MultiReceive { tagged } => round.multi_receive(tagged, payload, buffers),
        Kind::Read => round.read(payload, buffers),
        Kind::Write { data, inject } => round.write(data, inject, payload, buffers),
        Kind::CancelReceive { tagged } => round.cancel_receive(tagged, buffers),
        Kind::CancelSend { arrived } => round.cancel_send(arrived, payload, buffers),
        Kind::EmptyPoll => {
            round.look()?;
            rig.a.verbs.look_for_events()
        }
    }
}
