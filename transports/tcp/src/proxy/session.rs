//! [`Session`]: two sides that use every operation at the same time.

use std::format;
use std::string::String;
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use loom_core::endpoint::{ReadOptions, Receives, Transmits};
use loom_core::{
    Access, CompletionLevel, Cq, Deadline, Domain, Endpoint, ImmediateData, Mr, RemoteRegion, SendOptions, Tag,
};

use super::ledger::{Ledger, Posted};
use super::plan::{Lens, Message, Payload, STEPS, Step, accepted, areas, messages, pattern};
use super::route::Proxy;
use super::verify;
use crate::Tcp;
use crate::strangers::sides::LIMIT;

pub(super) type Queue = Cq<'static, Tcp, Vec<u8>>;

pub(super) struct Side<'a, K: Transmits<Tcp>> {
    pub(super) domain: &'a Domain<'static, Tcp>,
    pub(super) cq: &'a Queue,
    pub(super) endpoint: &'a Endpoint<'static, Tcp, Vec<u8>, K>,
    pub(super) peer: K::To,
}

/// Polls after which an endpoint has handled the events of the kernel.
pub(super) const SETTLED: usize = 16;

pub(super) const DELIVERED: SendOptions =
    SendOptions { data: None, more: false, fence: false, level: Some(CompletionLevel::Delivery) };

pub(super) struct Session<'a, K: Transmits<Tcp>> {
    sides: [Side<'a, K>; 2],
    pub(super) ledgers: [Ledger; 2],
    regions: [Mr<'static, Tcp, Vec<u8>>; 2],
    pub(super) lens: Lens,
    pub(super) seed: usize,
    pub(super) is_tagged: bool,
    /// Both sides begin at once.
    pub(super) is_simultaneous: bool,
    ends: bool,
}

impl<'a, K: Transmits<Tcp> + Receives<Tcp>> Session<'a, K> {
    pub(super) fn new(sides: [Side<'a, K>; 2], lens: Lens, seed: usize, is_tagged: bool) -> Self {
        let regions = [0, 1].map(|side: usize| {
            let areas = areas(lens);
            let mut bytes = vec![0; areas.len];
            bytes[areas.source].copy_from_slice(&pattern(seed, side, Payload::Source, lens.long));
            let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
            Mr::open(sides[side].domain, bytes, access).expect("region")
        });
        Session {
            sides,
            ledgers: Default::default(),
            regions,
            lens,
            seed,
            is_tagged,
            is_simultaneous: false,
            ends: false,
        }
    }

    pub(super) fn region(&self, side: usize) -> Vec<u8> {
        let mut bytes = vec![0; areas(self.lens).len];
        self.regions[side].window().copy_to(0, &mut bytes).expect("the whole region");
        bytes
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = (usize, Message)> + use<K> {
        let is_tagged = self.is_tagged;
        messages(self.lens).into_iter().enumerate().filter(move |(_, message)| is_tagged || message.tag.is_none())
    }

    pub(super) fn payload(&self, side: usize, payload: Payload, len: usize) -> Vec<u8> {
        pattern(self.seed, side, payload, len)
    }

    /// Runs to the end of each operation and verifies the bytes.
    pub(super) fn run(&mut self, proxy: &mut Proxy, ends: bool) -> Result<(), String> {
        self.ends = ends;
        let late = [false, true].map(|is_late| {
            let indices = self.messages().filter(move |(_, message)| message.is_late == is_late);
            indices.map(|(index, _)| index).collect::<Vec<_>>()
        });
        (0..2).try_for_each(|side| self.post_receives(side, &late[0]))?;
        self.post_steps(0)?;
        let begins = |session: &Self, is_struck: bool| {
            session.is_simultaneous || is_struck || session.ledgers[1].has_succeeded(Posted::Receive(0))
        };
        self.drive(proxy, "the other side begins", begins)?;
        self.post_steps(1)?;
        // The late receives follow the others of their side, or the fault.
        for side in [1, 0] {
            let early = |session: &Self, is_struck: bool| is_struck || session.ledgers[side].receives().is_empty();
            self.drive(proxy, "the early messages arrive", early)?;
            self.post_receives(side, &late[1])?;
        }
        let steps = |session: &Self, _| session.ledgers.iter().all(|ledger| ledger.steps() == 0);
        self.drive(proxy, "each operation ends", steps)?;
        if ends {
            let mut limit = Instant::now() + LIMIT;
            while proxy.has_faulty_line() {
                if limit.passed() {
                    return Err("the endpoints do not end the line".into());
                }
                self.step(proxy)?;
            }
            // Bytes that arrived before a reset are received.
            (0..SETTLED).try_for_each(|_| self.step(proxy))?;
            self.cancel_receives();
        }
        let empty = |session: &Self, _| session.ledgers.iter().all(Ledger::is_empty);
        self.drive(proxy, "each receive ends", empty)?;
        verify::operations(self, !ends)
    }

    fn drive(&mut self, proxy: &mut Proxy, until: &str, is_done: impl Fn(&Self, bool) -> bool) -> Result<(), String> {
        let mut limit = Instant::now() + LIMIT;
        while !is_done(self, self.ends && !proxy.awaits_fault()) {
            if limit.passed() {
                return Err(format!("not before the limit: {until}"));
            }
            self.step(proxy)?;
        }
        Ok(())
    }

    fn step(&mut self, proxy: &mut Proxy) -> Result<(), String> {
        proxy.step();
        self.sides.iter().zip(&mut self.ledgers).try_for_each(|(side, ledger)| ledger.poll(side.cq))
    }

    fn post_receives(&mut self, side: usize, indices: &[usize]) -> Result<(), String> {
        let messages = messages(self.lens);
        let endpoint = self.sides[side].endpoint;
        for index in indices {
            let room = vec![0; self.lens.long + 8];
            self.ledgers[side].post(Posted::Receive(*index), room, |room| match messages[*index].tag {
                Some(tag) => endpoint.tagged_recv(K::ANY, accepted(tag), room),
                None => endpoint.recv(K::ANY, room),
            })?;
        }
        Ok(())
    }

    fn cancel_receives(&self) {
        for (side, ledger) in self.sides.iter().zip(&self.ledgers) {
            for key in ledger.receives() {
                // It may have completed meanwhile.
                let _ = side.endpoint.cancel(key);
            }
        }
    }

    fn post_steps(&mut self, side: usize) -> Result<(), String> {
        let indices: Vec<_> = self.messages().map(|(index, _)| index).collect();
        for step in STEPS {
            match step {
                Step::Message(index) if !indices.contains(&index) => {}
                Step::Message(index) => self.post_message(side, index)?,
                Step::Read | Step::ReadRanges => self.post_read(side, step)?,
                Step::WriteRanges | Step::WriteData | Step::InjectWrite => self.post_write(side, step)?,
            }
        }
        Ok(())
    }

    fn post_message(&mut self, side: usize, index: usize) -> Result<(), String> {
        let message = messages(self.lens)[index];
        let bytes = self.payload(side, Payload::Message(index), message.len);
        let Side { endpoint, peer, .. } = self.sides[side];
        if message.is_injected {
            let _ = match message.tag {
                Some(tag) => endpoint.tagged_inject(peer, Tag(tag), &bytes),
                None => endpoint.inject(peer, &bytes),
            };
            return Ok(());
        }
        let data = message.has_data.then_some(ImmediateData(index as u64));
        let options = if message.is_delivered { SendOptions { data, ..DELIVERED } } else { SendOptions::default() };
        self.ledgers[side].post(Posted::Step(Step::Message(index)), bytes, |bytes| match (message.tag, data) {
            (Some(tag), _) if message.is_delivered => endpoint.tagged_send_with(peer, Tag(tag), options, bytes),
            (None, _) if message.is_delivered => endpoint.send_with(peer, options, bytes),
            (Some(tag), _) => endpoint.tagged_send(peer, Tag(tag), bytes),
            (None, Some(data)) => endpoint.send_data(peer, data, bytes),
            (None, None) => endpoint.send(peer, bytes),
        })
    }

    fn post_write(&mut self, side: usize, step: Step) -> Result<(), String> {
        let (areas, remote) = (areas(self.lens), self.regions[1 - side].remote());
        let Lens { short, long } = self.lens;
        let Side { endpoint, peer, .. } = self.sides[side];
        let offset = |start: usize| start as u64;
        match step {
            Step::WriteRanges => {
                let parts = areas.ranges.map(|range| remote.part(offset(range.start), range.len()).expect("within"));
                let bytes = self.payload(side, Payload::WriteRanges, short + long);
                self.ledgers[side]
                    .post(Posted::Step(step), bytes, |bytes| endpoint.write_with(peer, &parts, DELIVERED, bytes))
            }
            Step::WriteData => {
                let bytes = self.payload(side, Payload::WriteData, long);
                let data = ImmediateData(self.seed as u64);
                self.ledgers[side].post(Posted::Step(step), bytes, |bytes| {
                    endpoint.write_data(peer, &remote, offset(areas.data.start), data, bytes)
                })
            }
            _ => {
                let bytes = self.payload(side, Payload::InjectWrite, short);
                let _ = endpoint.inject_write(peer, &remote, offset(areas.injected.start), &bytes);
                Ok(())
            }
        }
    }

    fn post_read(&mut self, side: usize, step: Step) -> Result<(), String> {
        let (source, remote) = (areas(self.lens).source, self.regions[1 - side].remote());
        let Lens { short, long } = self.lens;
        let Side { endpoint, peer, .. } = self.sides[side];
        let part = |start: usize, len| -> RemoteRegion { remote.part(start as u64, len).expect("within") };
        self.ledgers[side].post(Posted::Step(step), vec![0; long], |room| match step {
            Step::Read => endpoint.read(peer, &remote, source.start as u64, room),
            _ => {
                let parts = [part(source.end - short, short), part(source.start, long - short)];
                endpoint.read_with(peer, &parts, ReadOptions::default(), room)
            }
        })
    }
}

pub(super) fn exchange<K: Transmits<Tcp> + Receives<Tcp>>(
    sides: &[Side<'_, K>; 2],
    proxy: &mut Proxy,
) -> Result<(), String> {
    for [from, to] in [[0, 1], [1, 0]].map(|pair| pair.map(|side: usize| &sides[side])) {
        let received = to.endpoint.recv(K::ANY, vec![0; 16]).map_err(|refused| format!("{}", refused.error))?;
        let sent = from.endpoint.send_with(from.peer, DELIVERED, vec![7; 16]);
        let sent = sent.map_err(|refused| format!("{}", refused.error))?;
        let mut limit = Instant::now() + LIMIT;
        let is_done = |side: &Side<'_, K>, key| side.cq.has_succeeded(key).expect("a known key").is_some();
        while !is_done(to, received) || !is_done(from, sent) {
            if limit.passed() {
                return Err("no message after the fault".into());
            }
            proxy.step();
            sides.iter().for_each(|side| _ = side.cq.progress().expect("the queue works"));
        }
        from.cq.finish(sent, limit).expect("done").into_result().map_err(|failed| format!("a later send: {failed}"))?;
        let (buf, _) = to
            .cq
            .finish(received, limit)
            .expect("done")
            .into_result()
            .map_err(|failed| format!("a later receive: {failed}"))?;
        if buf != [7; 16] {
            return Err(format!("another message: {buf:?}"));
        }
    }
    Ok(())
}
