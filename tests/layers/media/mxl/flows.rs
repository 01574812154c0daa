//! An initiator and targets of MXL's fabrics in one program.

use std::time::Instant;

use loom_core::exposed::Window;
use loom_core::{Buffer, Transport};
use loom_fabric::loom_core;
use loom_media::mxl::{FabricsAttr, FabricsEvent, FabricsInitiator, FabricsTarget, GrainHeader};
use loom_media::{FlowLayout, GrainLayout, InitiatorEvent, TargetKey, TargetStatus};
use support::posting::LIMIT;

/// Seventeen slices of two planes.
pub(super) const GRAIN: GrainLayout =
    GrainLayout { header: 8192, slice_len: [256, 128, 0, 0], slices: 17, slot_align: 1 };
pub(super) const ATTR: FabricsAttr =
    FabricsAttr { targets: 4, transfers: 4, depth: 64, batch: 480, retry: 1, connect: 0 };

pub(super) fn grains(slots: u32) -> FlowLayout {
    FlowLayout::Grains(GRAIN, slots)
}

pub(super) fn ring(layout: &FlowLayout) -> Vec<u8> {
    vec![0; layout.bytes() as usize]
}

pub(super) fn byte(index: u64, at: usize) -> u8 {
    (index as usize * 59 + at % 253) as u8
}

/// Writes header and planes as MXL's writers do.
pub(super) fn fill(slot: Window<'_>, index: u64, is_invalid: bool) {
    let valid = if is_invalid { 0 } else { GRAIN.slices };
    let header = GrainHeader { index, is_invalid, grain_size: GRAIN.payload_len() as u32, total: GRAIN.slices, valid };
    slot.copy_from(0, &header.to_bytes()).unwrap();
    let payload: Vec<u8> = (0..GRAIN.payload_len() as usize).map(|at| byte(index, at)).collect();
    slot.copy_from(8192, &payload).unwrap();
}

/// Checks that the grain is complete, and has the same index after the copy.
pub(super) fn verify<T: Transport>(target: &FabricsTarget<'static, T, Vec<u8>>, index: u64) {
    let Some(grain) = target.grain(index) else { return };
    let mut bytes = vec![0; GRAIN.len() as usize];
    grain.window.copy_to(0, &mut bytes).unwrap();
    if target.grain(index).is_some() {
        assert!(bytes[8192..].iter().enumerate().all(|(at, of)| *of == byte(index, at)), "grain {index}");
    }
}

/// An initiator with its targets, polled in turn.
pub(super) struct World<T: Transport + 'static, M: Buffer + Send + 'static> {
    pub(super) initiator: FabricsInitiator<'static, T, M>,
    pub(super) began: Instant,
    pub(super) arrived: Vec<FabricsEvent>,
    pub(super) ended: Vec<InitiatorEvent>,
}

impl<T: Transport + 'static, M: Buffer + Send + 'static> World<T, M> {
    pub(super) fn new(initiator: FabricsInitiator<'static, T, M>) -> Self {
        World { initiator, began: Instant::now(), arrived: Vec::new(), ended: Vec::new() }
    }

    pub(super) fn turn<N: Buffer + Send>(&mut self, targets: &mut [&mut FabricsTarget<'static, T, N>]) {
        let now = self.began.elapsed().as_nanos() as u64;
        self.ended.extend(self.initiator.poll(now).unwrap());
        for target in targets {
            self.arrived.extend(target.poll().unwrap());
        }
        assert!(self.began.elapsed() < LIMIT, "{:?} {:?}", self.arrived, self.ended);
    }

    pub(super) fn until<N: Buffer + Send>(
        &mut self,
        targets: &mut [&mut FabricsTarget<'static, T, N>],
        is_over: impl Fn(&Self) -> bool,
    ) {
        while !is_over(self) {
            self.turn(targets);
        }
    }

    pub(super) fn reach<N: Buffer + Send>(&mut self, target: &mut FabricsTarget<'static, T, N>) -> TargetKey {
        let key = self.initiator.add_target(target.info().unwrap()).unwrap();
        self.until(&mut [target], |world| world.initiator.status(key) == Some(TargetStatus::Ready));
        key
    }

    pub(super) fn connect<N: Buffer + Send>(&mut self, target: &mut FabricsTarget<'static, T, N>) -> TargetKey {
        let key = self.reach(target);
        self.until(&mut [target], |world| world.arrived.contains(&FabricsEvent::Attached));
        key
    }

    pub(super) fn count(&self, event: FabricsEvent) -> usize {
        self.arrived.iter().filter(|arrived| **arrived == event).count()
    }
}

impl<T: Transport + 'static> World<T, Vec<u8>> {
    /// Waits for a free slot.
    pub(super) fn write(
        &mut self,
        targets: &mut [&mut FabricsTarget<'static, T, Vec<u8>>],
        index: u64,
        is_invalid: bool,
    ) {
        loop {
            if let Some(slot) = self.initiator.grain(index).unwrap() {
                return fill(slot, index, is_invalid);
            }
            self.turn(targets);
        }
    }
}

/// Checks that each grain or sample is reported once, in order, as arrived or as lapped. Returns
/// the end, and both counts.
pub(super) fn reported_once(events: impl IntoIterator<Item = FabricsEvent>, first: u64) -> (u64, u64, u64) {
    let (mut next, mut arrived, mut lapped) = (first, 0, 0);
    for event in events {
        let (from, to) = match event {
            FabricsEvent::Complete { index } => (index, index + 1),
            FabricsEvent::Samples { start, count } => (start, start + u64::from(count)),
            FabricsEvent::Lapped { from, to } => {
                lapped += to - from;
                assert_eq!(from, next, "{event:?}");
                next = to;
                continue;
            }
            FabricsEvent::Attached | FabricsEvent::Slices { .. } => continue,
            other => panic!("{other:?}"),
        };
        assert_eq!(from, next, "{event:?}");
        arrived += to - from;
        next = to;
    }
    (next, arrived, lapped)
}
