//! An initiator with one flow, and its targets, polled in turn.

use std::time::Instant;

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Network, NetworkAttr, Plan as Faults, Soft};
use loom_core::{Domain, Error, Info, Transport};
use loom_fabric::loom_core;
use loom_media::{
    FlowKey, FlowLayout, GrainLayout, Initiator, InitiatorEvent, MediaAttr, Release, Target, TargetEvent, TargetKey,
    TargetStatus,
};
use support::posting::LIMIT;

pub(super) fn attr() -> MediaAttr {
    MediaAttr { flows: 2, peers: 4, transfers: 32, depth: 32, piece: 1000, ..MediaAttr::default() }
}

pub(super) fn network() -> Network<'static> {
    let attr = NetworkAttr { endpoints: 24, tx_depth: 64, rx_depth: 512, regions: 64, ..NetworkAttr::DEFAULT };
    Network::new(attr).unwrap()
}

pub(super) fn byte(index: u64, at: usize) -> u8 {
    (index as usize * 31 + at % 251) as u8
}

/// Grains of two planes with a header.
pub(super) fn picture() -> GrainLayout {
    picture_of(2)
}

pub(super) fn picture_of(planes: usize) -> GrainLayout {
    let mut slice_len = [96, 33, 50, 7];
    slice_len[planes..].fill(0);
    GrainLayout { header: 16, slice_len, slices: 24, slot_align: 1 }
}

pub(super) struct Receiver<T: Transport + 'static> {
    pub(super) target: Target<'static, T, Vec<u8>, Global>,
    pub(super) flow: FlowKey,
    /// Key of the target. `None` if the initiator does not have it.
    pub(super) key: Option<TargetKey>,
    pub(super) events: Vec<TargetEvent>,
    /// The target is not polled.
    pub(super) stalls: bool,
    /// First failure of a poll.
    pub(super) error: Option<Error>,
}

pub(super) struct World<T: Transport + 'static> {
    pub(super) initiator: Initiator<'static, T, Vec<u8>, Global>,
    pub(super) flow: FlowKey,
    pub(super) receivers: Vec<Receiver<T>>,
    pub(super) events: Vec<InitiatorEvent>,
    pub(super) attr: MediaAttr,
    pub(super) now: u64,
    /// Polls may fail.
    pub(super) is_fragile: bool,
    /// First failure of a poll of the initiator.
    pub(super) error: Option<Error>,
}

pub(super) fn record<T: Transport>(receiver: &Receiver<T>) -> Vec<u8> {
    let mut record = vec![0; 2048];
    let len = receiver.target.record(receiver.flow, &mut record).unwrap();
    record.truncate(len);
    record
}

impl World<Soft<'static>> {
    pub(super) fn soft(layout: FlowLayout) -> (Network<'static>, Self) {
        let network = network();
        let world = World::open(&network.info(), layout, attr());
        (network, world)
    }

    pub(super) fn faulty(faults: Faults, layout: FlowLayout) -> (Network<'static>, Self) {
        let network = network();
        let world =
            World::open(&network.info_with_faults(faults), layout, MediaAttr { silence: 2000, retry: 1, ..attr() });
        (network, world)
    }
}

impl<T: Transport + 'static> World<T> {
    pub(super) fn open(info: &Info<T>, layout: FlowLayout, attr: MediaAttr) -> Self {
        let mut initiator = Initiator::open_in(&[Domain::open(info).unwrap()], attr, Global).unwrap();
        let flow = initiator.add_flow(vec![0; layout.bytes() as usize], layout, 0).unwrap();
        let (receivers, events) = (Vec::new(), Vec::new());
        World { initiator, flow, receivers, events, attr, now: 0, is_fragile: false, error: None }
    }

    /// Adds a target, and waits until it is ready.
    pub(super) fn add(&mut self, info: &Info<T>, layout: FlowLayout, release: Release) {
        let mut receiver = receiver(info, layout, release, self.attr);
        receiver.key = Some(self.initiator.add_target(self.flow, &record(&receiver)).unwrap());
        self.receivers.push(receiver);
        let (at, key) = (self.receivers.len() - 1, self.receivers.last().unwrap().key.unwrap());
        let is_failure = |status| matches!(status, Some(TargetStatus::Failed(_)));
        let is_ready = |world: &Self| world.initiator.status(key) == Some(TargetStatus::Ready);
        self.until(|world| is_ready(world) || world.attr.retry == 0 && is_failure(world.initiator.status(key)));
        assert!(is_ready(self), "{:?}", self.initiator.status(key));
        self.until(|world| !world.receivers[at].events.is_empty());
        let flow = self.receivers[at].flow;
        assert_eq!(self.receivers[at].events.remove(0), TargetEvent::Attached { flow });
    }

    pub(super) fn turn(&mut self) {
        self.now += 1;
        let is_fragile = self.is_fragile;
        let failed = |error: Error, kept: &mut Option<Error>| {
            assert!(is_fragile, "{error}");
            kept.get_or_insert(error);
        };
        match self.initiator.poll(self.now) {
            Ok(event) => self.events.extend(event),
            Err(error) => failed(error, &mut self.error),
        }
        for receiver in self.receivers.iter_mut().filter(|receiver| !receiver.stalls) {
            match receiver.target.poll(self.now) {
                Ok(event) => receiver.events.extend(event),
                Err(error) => failed(error, &mut receiver.error),
            }
        }
    }

    pub(super) fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let until = Instant::now() + LIMIT;
        while !holds(self) {
            self.turn();
            assert!(Instant::now() < until, "within {LIMIT:?}: {:?}", self.events);
        }
    }

    /// Writes a grain into the ring of the initiator once all targets have room.
    pub(super) fn write(&mut self, layout: GrainLayout, index: u64) {
        self.room(index + 1);
        self.write_at_once(layout, index);
    }

    /// Writes a grain if its slot is free.
    pub(super) fn write_now(&mut self, layout: GrainLayout, index: u64) -> bool {
        let Some(window) = self.initiator.grain(self.flow, index).unwrap() else { return false };
        let bytes: Vec<u8> = (0..layout.len() as usize).map(|at| byte(index, at)).collect();
        window.copy_from(0, &bytes).unwrap();
        true
    }

    /// Writes a grain once its slot is free.
    pub(super) fn write_at_once(&mut self, layout: GrainLayout, index: u64) {
        let until = Instant::now() + LIMIT;
        while !self.write_now(layout, index) {
            self.turn();
            assert!(Instant::now() < until, "the slot is free within {LIMIT:?}");
        }
    }

    /// Waits until all polled targets have room.
    pub(super) fn room(&mut self, end: u64) {
        self.until(|world| {
            let polled = world.receivers.iter().filter(|receiver| !receiver.stalls);
            polled.filter_map(|receiver| world.initiator.room(receiver.key?)).all(|room| room >= end)
        });
    }

    /// Number of transfers that have ended.
    pub(super) fn ended(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, InitiatorEvent::Ended { .. })).count()
    }
}

pub(super) fn receiver<T: Transport + 'static>(
    info: &Info<T>,
    layout: FlowLayout,
    release: Release,
    attr: MediaAttr,
) -> Receiver<T> {
    let mut target = Target::open_in(&[Domain::open(info).unwrap()], attr, Global).unwrap();
    let flow = target.add_flow(vec![0; layout.bytes() as usize], layout, release).unwrap();
    Receiver { target, flow, key: None, events: Vec::new(), stalls: false, error: None }
}

impl<T: Transport + 'static> Receiver<T> {
    /// Verifies the valid slices of a grain, in all planes, and its header.
    pub(super) fn verify(&self, layout: GrainLayout, index: u64, valid: u16) {
        let grain = self.target.grain(self.flow, index).expect("it is kept");
        assert!(grain.valid >= valid);
        let planes = (0..layout.planes()).map(|plane| {
            let from = if plane == 0 { 0 } else { layout.offset(plane, 0) };
            from..layout.offset(plane, valid)
        });
        for range in planes {
            let (from, to) = (range.start as usize, range.end as usize);
            let mut bytes = vec![0; to - from];
            grain.window.copy_to(from, &mut bytes).unwrap();
            let right = bytes.iter().enumerate().all(|(at, found)| *found == byte(index, from + at));
            assert!(right, "grain {index}, bytes {from}..{to}");
        }
    }
}
