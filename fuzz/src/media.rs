//! A media flow of a good initiator beside a forger. Each grain arrives once, with its bytes and
//! without other events. In real time, the initiator laps the target, and each grain arrives at
//! most once.

use arbitrary::{Arbitrary, Unstructured};
use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Every, Network, NetworkAttr, Plan as Faults, Soft};
use loom_core::{Domain, Info};
use loom_media::{
    FlowKey, FlowLayout, GrainLayout, Initiator, MediaAttr, Release, SampleLayout, Target, TargetEvent, TargetKey,
    TargetStatus,
};
use loom_transfer::{Block, Engine, EngineAttr, Event, PeerKey, RemoteMemory};

const GRAIN: GrainLayout = GrainLayout { header: 8, slice_len: [16, 4, 0, 0], slices: 4, slot_align: 1 };
const GRAINS: FlowLayout = FlowLayout::Grains(GRAIN, 4);
const SAMPLES: FlowLayout = FlowLayout::Samples(SampleLayout { word: 4, channels: 2, period: 4, len: 16 });
/// Bytes of a target's record before its addresses.
const HEAD: usize = 8 + 4 + 28 + RemoteMemory::WIRE_LEN;
const ROUNDS: usize = 10_000;
const ATTR: MediaAttr = MediaAttr {
    flows: 2,
    peers: 2,
    transfers: 8,
    depth: 8,
    piece: 100,
    message: 256,
    record: 512,
    silence: 0,
    retry: 0,
};

#[derive(Arbitrary, Debug)]
struct Setting {
    seed: u64,
    piece: u8,
    refuse: u8,
    reorder: u8,
    keep: u8,
    /// The initiator attaches first. Otherwise the forger can.
    attaches: bool,
    real_time: bool,
}

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// Sends at most this number of further slices.
    Send(u8),
    Poll(u8),
    Bytes(&'a [u8]),
    /// Fields close to valid ones.
    Forge {
        kind: u8,
        flag: u8,
        instance: u32,
        number: u8,
        flow: u8,
        sequence: u8,
        start: u8,
        far: bool,
        rest: [u8; 4],
    },
    Attach {
        first: bool,
        number: u8,
        flow: u8,
        sequence: u8,
        start: u8,
        samples: bool,
    },
    Record {
        at: u16,
        xor: u8,
        cut: u8,
    },
    Release {
        flow: bool,
        below: u8,
    },
}

type Sender = Initiator<'static, Soft<'static>, Vec<u8>, Global>;

struct World {
    initiator: Sender,
    video: FlowKey,
    to: Option<TargetKey>,
    target: Target<'static, Soft<'static>, Vec<u8>, Global>,
    /// Grains, then samples.
    flows: [FlowKey; 2],
    record: Vec<u8>,
    forger: Engine<'static, Soft<'static>, Vec<u8>, Block, Global>,
    forged_to: PeerKey,
    info: Info<Soft<'static>>,
    /// Tries forged records.
    stranger: Option<(Sender, FlowKey)>,
    real_time: bool,
    index: u64,
    slice: u16,
    /// Number of valid slices of each grain. A complete grain has all.
    valid: Vec<u16>,
}

pub fn media(data: &[u8]) -> usize {
    let mut bytes = Unstructured::new(data);
    let Ok(setting) = bytes.arbitrary::<Setting>() else { return 0 };
    let mut world = World::open(&setting);
    let mut steps = 1;
    while !bytes.is_empty() && steps < 100 {
        let Ok(step) = bytes.arbitrary() else { break };
        world.play(step);
        steps += 1;
    }
    world.end();
    steps
}

fn byte(index: u64, at: usize) -> u8 {
    (index.wrapping_mul(31) as usize + at * 7) as u8
}

fn picture(index: u64) -> Vec<u8> {
    (0..GRAIN.len() as usize).map(|at| byte(index, at)).collect()
}

fn flow_of(event: &TargetEvent) -> Option<FlowKey> {
    match *event {
        TargetEvent::Attached { flow }
        | TargetEvent::Detached { flow, .. }
        | TargetEvent::Slices { flow, .. }
        | TargetEvent::Complete { flow, .. }
        | TargetEvent::Invalid { flow, .. }
        | TargetEvent::Samples { flow, .. }
        | TargetEvent::Failed { flow, .. }
        | TargetEvent::Lapped { flow, .. }
        | TargetEvent::NoRoom { flow } => Some(flow),
        TargetEvent::Rejected { .. } => None,
    }
}

impl World {
    fn open(setting: &Setting) -> Self {
        let attr = NetworkAttr {
            endpoints: 8,
            tx_depth: 16,
            rx_depth: 32,
            eager_size: 256,
            regions: 16,
            groups: 0,
            lanes: 1,
            ..NetworkAttr::DEFAULT
        };
        let network = Network::new(attr).expect("memory");
        let faults = Faults {
            refuse: Every::About(if setting.refuse == 0 { 0 } else { 2 + u32::from(setting.refuse) }),
            reorder: u32::from(setting.reorder % 8),
            ..Faults::new(setting.seed)
        };
        let attr = MediaAttr { piece: 1 + u64::from(setting.piece), ..ATTR };
        let domain = |info: &Info<Soft<'static>>| [Domain::open(info).expect("room")];
        let info = network.info();
        let mut initiator =
            Initiator::open_in(&domain(&network.info_with_faults(faults)), attr, Global).expect("memory");
        let mut target = Target::open_in(&domain(&info), attr, Global).expect("memory");
        let bytes = |layout: FlowLayout| vec![0; layout.bytes() as usize];
        let video = initiator.add_flow(bytes(GRAINS), GRAINS, 0).expect("room");
        let keep = Release::Keep(u64::from(setting.keep % 4));
        let flows = [(GRAINS, keep), (SAMPLES, Release::Explicit)]
            .map(|(layout, release)| target.add_flow(bytes(layout), layout, release).expect("room"));
        let mut record = vec![0; 1024];
        let len = target.record(flows[0], &mut record).expect("room");
        record.truncate(len);
        let forging = EngineAttr {
            peers: 1,
            memories: 1,
            transfers: 1,
            message: attr.message,
            notifications: 16,
            fragments: 32,
            messages: 32,
            values: 0,
            waits: 0,
            ..EngineAttr::default()
        };
        let mut forger = Engine::open_in(&domain(&info), forging, Global).expect("memory");
        let forged_to = forger.insert_peer(&record[HEAD..]).expect("addresses");
        let to = setting.attaches.then(|| initiator.add_target(video, &record).expect("a record"));
        let mut world = World {
            initiator,
            video,
            to,
            target,
            flows,
            record,
            forger,
            forged_to,
            info,
            stranger: None,
            real_time: setting.real_time,
            index: 0,
            slice: 0,
            valid: Vec::new(),
        };
        for _ in 0..ROUNDS {
            if to.is_none_or(|to| world.initiator.status(to) == Some(TargetStatus::Ready)) {
                return world;
            }
            world.poll();
        }
        panic!("the target does not accept its first initiator");
    }

    fn play(&mut self, step: Step<'_>) {
        match step {
            Step::Send(slices) => self.send(1 + u16::from(slices % 4)),
            Step::Poll(times) => (0..=times % 32).for_each(|_| self.poll()),
            Step::Bytes(bytes) => self.forge(bytes),
            Step::Forge { kind, flag, instance, number, flow, sequence, start, far, rest } => {
                let mut message = vec![1, kind % 7, flag % 6, 0];
                message.extend(instance.to_le_bytes());
                message.extend(u32::from(number).to_le_bytes());
                message.extend(u32::from(flow % 3).to_le_bytes());
                message.extend(u32::from(sequence).to_le_bytes());
                let start = if far { u64::MAX - u64::from(start) } else { u64::from(start) };
                message.extend(start.to_le_bytes());
                message.extend(rest);
                // Valid length for the kind.
                message.truncate(if kind % 7 == 3 { 20 } else { 32 });
                self.forge(&message);
            }
            Step::Attach { first, number, flow, sequence, start, samples } => {
                let mut message = vec![1, 0, first.into(), 0];
                message.extend([0; 4]);
                for word in [number, flow % 3, sequence] {
                    message.extend(u32::from(word).to_le_bytes());
                }
                message.extend(u64::from(start).to_le_bytes());
                // The record's layout is that of the grains.
                let words = if samples { [4, 2, 4, 16, 0, 1 << 24, 0] } else { [0; 7] };
                match samples {
                    true => words.iter().for_each(|word: &u32| message.extend(word.to_le_bytes())),
                    false => message.extend(&self.record[12..40]),
                }
                self.forge(&message);
            }
            Step::Record { at, xor, cut } => {
                let mut record = self.record.clone();
                let at = usize::from(at) % record.len();
                record[at] ^= xor;
                record.truncate(record.len() - usize::from(cut % 8));
                let (stranger, flow) = self.stranger.get_or_insert_with(|| {
                    let domain = Domain::open(&self.info).expect("room");
                    let mut stranger = Initiator::open_in(&[domain], ATTR, Global).expect("memory");
                    let flow = stranger.add_flow(vec![0; GRAINS.bytes() as usize], GRAINS, 0).expect("room");
                    (stranger, flow)
                });
                if let Ok(target) = stranger.add_target(*flow, &record) {
                    stranger.remove_target(target).expect("it is there");
                    let _ = stranger.poll(0).expect("a queue");
                }
            }
            Step::Release { flow, below } => {
                self.target.release(self.flows[usize::from(flow)], below.into()).expect("a flow");
            }
        }
    }

    fn forge(&mut self, bytes: &[u8]) {
        // The message is not sent without room, or before both sides have exchanged hellos.
        let _ = self.forger.notify(self.forged_to, bytes);
    }

    /// Sends slices. Except in real time, the target has room for them, so that it skips no grain.
    fn send(&mut self, slices: u16) {
        let Some(to) = self.to else { return };
        if !self.real_time && self.initiator.room(to) <= Some(self.index) {
            return;
        }
        if self.slice == 0 {
            if self.real_time {
                self.initiator.lap(self.video, self.index + 1).expect("a flow");
                assert!(self.initiator.grain(self.video, self.index).expect("a flow").is_some(), "lapped");
            }
            let Some(window) = self.initiator.grain(self.video, self.index).expect("a flow") else { return };
            window.copy_from(0, &picture(self.index)).expect("its length");
        }
        let end = (self.slice + slices).min(GRAIN.slices);
        let fanout = self.initiator.send_grain(self.video, self.index, self.slice..end).expect("the next slices");
        assert!(self.real_time || fanout.submitted + fanout.deferred == 1, "{fanout:?}");
        (self.index, self.slice) = if end == GRAIN.slices { (self.index + 1, 0) } else { (self.index, end) };
    }

    fn poll(&mut self) {
        let _ = self.initiator.poll(0).expect("a queue");
        if let Some(Event::Notified(key)) = self.forger.poll(0).expect("a queue") {
            drop(self.forger.notification(key));
        }
        let event = self.target.poll(0).expect("a queue");
        if self.to.is_none() {
            return;
        }
        // The forger may be the initiator of the other flow.
        match event.filter(|event| flow_of(event) == Some(self.flows[0])) {
            None | Some(TargetEvent::Attached { .. } | TargetEvent::NoRoom { .. }) => {}
            Some(
                TargetEvent::Slices { .. }
                | TargetEvent::Failed { .. }
                | TargetEvent::Lapped { .. }
                | TargetEvent::Detached { .. },
            ) if self.real_time => {}
            Some(TargetEvent::Slices { index, valid, .. }) => self.extend(index, valid),
            Some(TargetEvent::Complete { flow, index }) => {
                self.extend(index, GRAIN.slices);
                if let Some(grain) = self.target.grain(flow, index) {
                    let mut bytes = vec![0; GRAIN.len() as usize];
                    grain.window.copy_to(0, &mut bytes).expect("its length");
                    assert!(bytes == picture(index), "grain {index} has other bytes");
                }
            }
            Some(event) => panic!("{event:?}"),
        }
    }

    /// Marks more slices of a grain as valid.
    fn extend(&mut self, index: u64, valid: u16) {
        let sent = self.index + u64::from(self.slice > 0);
        assert!(index < sent, "grain {index} of {sent}");
        self.valid.resize(sent as usize, 0);
        let before = &mut self.valid[index as usize];
        assert!(*before < valid && valid <= GRAIN.slices, "grain {index}: {valid} slices after {before}");
        *before = valid;
    }

    fn complete(&self) -> u64 {
        self.valid.iter().filter(|valid| **valid == GRAIN.slices).count() as u64
    }

    fn end(mut self) {
        let Some(to) = self.to else { return };
        let sent = self.index;
        for _ in 0..ROUNDS {
            if (self.real_time || self.complete() == sent) && self.initiator.in_progress() == 0 {
                break;
            }
            self.poll();
        }
        assert!(self.real_time || self.complete() == sent, "grains that have arrived");
        self.initiator.remove_target(to).expect("it is there");
        self.to = None;
        for _ in 0..ROUNDS {
            self.poll();
            if self.initiator.status(to).is_none() {
                return;
            }
        }
        panic!("the initiator does not end");
    }
}
