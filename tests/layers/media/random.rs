//! Random sends, polls, stalls, removals and faults, with an oracle of the kept bytes.

use std::collections::{BTreeMap, BTreeSet};

use loom_core::Domain;
use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Every, Network, Plan as Faults, Soft};
use loom_fabric::loom_core;
use loom_media::{FlowLayout, GrainLayout, Initiator, InitiatorEvent, MediaAttr, Release, TargetEvent, TargetStatus};

use super::world::{World, attr, byte, network, picture, picture_of, record};

fn ring(slots: u32) -> FlowLayout {
    FlowLayout::Grains(picture(), slots)
}

/// Small random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Runs random sends, polls, stalls, removals and faults. Each complete grain is correct until its
/// release.
fn random(seed: u64, faults: Faults, silence: u64, slices: bool, removes: bool, rejects: bool) -> (u64, Vec<String>) {
    let mut random = Random(seed * 7919 + 1);
    let mut faults_found = Vec::new();
    let network = network();
    let attr = MediaAttr { silence, retry: u64::from(silence > 0), ..attr() };
    let mut world = World::open(&network.info_with_faults(faults), ring(5), attr);
    for slots in [3, 5, 8] {
        world.add(&network.info_with_faults(faults), ring(slots), Release::Explicit);
    }
    let mut held: Vec<BTreeSet<u64>> = vec![Default::default(); 3];
    let mut once: Vec<BTreeMap<u64, &str>> = vec![Default::default(); 3];
    let (mut index, mut at, mut complete, mut is_written) = (0_u64, 0_u16, 0, false);
    let mut released = [0; 3];
    for step in 0..1000 {
        match random.below(40) {
            0 => {
                let receiver = random.below(3) as usize;
                world.receivers[receiver].stalls ^= true;
            }
            1 if removes && random.below(4) == 0 => {
                let receiver = random.below(3) as usize;
                if let Some(key) = world.receivers[receiver].key.take() {
                    world.initiator.remove_target(key).unwrap();
                } else {
                    let bytes = record(&world.receivers[receiver]);
                    world.receivers[receiver].key = world.initiator.add_target(world.flow, &bytes).ok();
                }
            }
            2..10 => {
                if !is_written {
                    let bytes: Vec<u8> = (0..picture().len() as usize).map(|at| byte(index, at)).collect();
                    is_written = match world.initiator.grain(world.flow, index) {
                        Ok(Some(window)) => window.copy_from(0, &bytes).is_ok(),
                        _ => false,
                    };
                }
                if is_written {
                    let end =
                        if !slices || random.below(2) == 0 { 24 } else { (at + 1 + random.below(12) as u16).min(24) };
                    let _ = world.initiator.send_grain(world.flow, index, at..end).unwrap();
                    at = end;
                    if at == 24 {
                        (index, at, is_written) = (index + 1 + u64::from(random.below(9) == 0), 0, false);
                    }
                }
            }
            _ => {}
        }
        world.turn();
        for (number, receiver) in world.receivers.iter_mut().enumerate() {
            for event in receiver.events.split_off(0) {
                match event {
                    TargetEvent::Complete { index, .. } => {
                        complete += 1;
                        if index < released[number] {
                            continue;
                        }
                        if receiver.target.grain(receiver.flow, index).is_none() {
                            faults_found.push(format!("{step}: {number}: complete grain {index} is not there"));
                        }
                        held[number].insert(index);
                        if let Some(before) = once[number].insert(index, "complete") {
                            faults_found.push(format!("{step}: {number}: grain {index} complete after {before}"));
                        }
                    }
                    TargetEvent::Lapped { from, to, .. } => {
                        for index in from..to {
                            if let Some(before) = once[number].insert(index, "lapped") {
                                faults_found.push(format!("{step}: {number}: grain {index} lapped after {before}"));
                            }
                        }
                    }
                    TargetEvent::Rejected { .. } if rejects => faults_found.push(format!("{step}: {number}: rejected")),
                    _ => {}
                }
            }
            for &index in &held[number] {
                if index < released[number] {
                    continue;
                }
                let mut bytes = vec![0; picture().len() as usize];
                let Some(grain) = receiver.target.grain(receiver.flow, index) else {
                    faults_found.push(format!("{step}: {number}: kept grain {index} is gone"));
                    continue;
                };
                grain.window.copy_to(0, &mut bytes).unwrap();
                if bytes.iter().enumerate().any(|(at, found)| *found != byte(index, at)) {
                    faults_found.push(format!("{step}: {number}: kept grain {index} has other bytes"));
                }
            }
            held[number].retain(|index| receiver.target.grain(receiver.flow, *index).is_some());
            if random.below(12) == 0 {
                let Some(first) = held[number].first() else { continue };
                let below = first + 1;
                released[number] = released[number].max(below);
                receiver.target.release(receiver.flow, below).unwrap();
                held[number].retain(|index| *index >= below);
            }
        }
        if let Some(event) = world.events.iter().find(|event| {
            rejects && matches!(event, InitiatorEvent::Target { result: Err(loom_core::Error::Invalid(_)), .. })
        }) {
            faults_found.push(format!("{step}: {event:?}"));
        }
        world.events.clear();
        if faults_found.len() > 3 {
            break;
        }
    }
    // All of them are ready or removed in the end.
    for receiver in &mut world.receivers {
        receiver.stalls = false;
    }
    for _ in 0..60_000 {
        world.turn();
        for receiver in &mut world.receivers {
            receiver.target.release(receiver.flow, u64::MAX).unwrap();
        }
        let mut keys = world.receivers.iter().filter_map(|receiver| receiver.key);
        if world.initiator.in_progress() == 0
            && keys.all(|key| world.initiator.status(key) != Some(TargetStatus::Connecting))
        {
            break;
        }
    }
    let pending = world.initiator.in_progress();
    if pending > 0 {
        faults_found.push(format!("{pending} transfers have not ended"));
    }
    for at in 0..3 {
        let Some(key) = world.receivers[at].key else { continue };
        if world.initiator.status(key) == Some(TargetStatus::Connecting) {
            faults_found.push(format!("{at}: never ready"));
        }
    }
    (complete, faults_found)
}

fn all_seeds(faults: impl Fn(u64) -> Faults, silence: u64, (slices, removes, rejects): (bool, bool, bool)) {
    let (mut complete, mut bad) = (0, Vec::new());
    for seed in 1..=6 {
        let (count, found) = random(seed, faults(seed), silence, slices, removes, rejects);
        complete += count;
        if !found.is_empty() {
            bad.push((seed, found));
        }
    }
    assert!(bad.is_empty(), "{complete} complete, {} seeds: {:#?}", bad.len(), &bad[..bad.len().min(6)]);
}

fn none(seed: u64) -> Faults {
    Faults::new(seed)
}

pub(super) fn unordered(seed: u64) -> Faults {
    Faults { reorder: 9, delay: 6, refuse: Every::About(5), unordered: true, ..Faults::new(seed) }
}

fn failing(seed: u64) -> Faults {
    Faults {
        reorder: 9,
        delay: 6,
        fail: Every::About(40),
        lose: Every::About(60),
        unordered: true,
        ..Faults::new(seed)
    }
}

#[test]
fn random_whole_grains_without_faults() {
    all_seeds(none, 0, (false, false, true));
}

#[test]
fn random_whole_grains_to_targets_that_come_and_go() {
    all_seeds(none, 0, (false, true, true));
}

#[test]
fn random_whole_grains_in_any_order() {
    all_seeds(unordered, 0, (false, false, true));
}

#[test]
fn random_slices_without_faults() {
    all_seeds(none, 0, (true, false, true));
}

#[test]
fn random_bytes_without_faults() {
    all_seeds(none, 0, (true, true, false));
}

#[test]
fn random_bytes_in_any_order() {
    all_seeds(unordered, 0, (true, true, false));
}

#[test]
fn random_bytes_with_failures() {
    all_seeds(failing, 2000, (true, true, false));
}

/// Faults of a side: its queue overruns after so many events, or it is dropped in the middle of
/// this grain.
fn mortal(overruns: [u32; 3]) -> impl Iterator<Item = (Faults, Option<u64>)> {
    let plan = |seed| Faults { reorder: 3, delay: 2, ..Faults::new(seed) };
    let overruns = overruns.map(|nth| (Faults { overrun: Every::Nth(nth), ..plan(nth.into()) }, None));
    overruns.into_iter().chain([7, 8, 9].map(|grain| (plan(grain), Some(grain))))
}

fn mortal_world(faults: Faults, layout: GrainLayout) -> (Network<'static>, World<Soft<'static>>) {
    let network = network();
    let attr = MediaAttr { silence: 2000, retry: 1, ..attr() };
    let mut world = World::open(&network.info_with_faults(faults), FlowLayout::Grains(layout, 5), attr);
    world.is_fragile = true;
    (network, world)
}

/// Sends a quarter of a grain.
fn send_quarter(world: &mut World<Soft<'static>>, layout: GrainLayout, index: u64, quarter: u16) -> usize {
    if quarter == 0 {
        world.write_at_once(layout, index);
    }
    let fanout = world.initiator.send_grain(world.flow, index, 6 * quarter..6 * quarter + 6).unwrap();
    (0..20).for_each(|_| world.turn());
    fanout.submitted
}

/// Verifies the slices and grains that a receiver reports, which never decrease. Returns the number
/// of complete grains.
fn verify_slices(world: &mut World<Soft<'static>>, at: usize, layout: GrainLayout, last: &mut (u64, u16)) -> usize {
    let receiver = &mut world.receivers[at];
    let mut complete = 0;
    let events = receiver.events.split_off(0);
    let is_lapped = |index: u64| {
        events.iter().any(|event| matches!(event, TargetEvent::Lapped { from, to, .. } if (from..to).contains(&&index)))
    };
    for event in &events {
        let (index, valid) = match *event {
            TargetEvent::Slices { index, valid, .. } => (index, valid),
            TargetEvent::Complete { index, .. } => (index, 24),
            _ => continue,
        };
        assert!((index, valid) > *last, "{valid} slices of {index} after {last:?}");
        *last = (index, valid);
        // The initiator may have failed since.
        if valid == 24 || !is_lapped(index) {
            receiver.verify(layout, index, valid);
        }
        complete += usize::from(valid == 24);
    }
    complete
}

/// Sends a grain, and waits until all receivers have it.
fn send_to_all(world: &mut World<Soft<'static>>, layout: GrainLayout, index: u64) {
    world.room(index + 1);
    (0..4).for_each(|quarter| _ = send_quarter(world, layout, index, quarter));
    let is_complete = |event: &TargetEvent| matches!(event, TargetEvent::Complete { index: of, .. } if *of == index);
    world.until(|world| world.receivers.iter().all(|receiver| receiver.events.iter().any(is_complete)));
    world.receivers.iter().for_each(|receiver| receiver.verify(layout, index, 24));
    world.until(|world| world.initiator.in_progress() == 0);
}

#[test]
fn a_target_that_dies_or_overruns_its_queue_is_replaced_and_the_other_has_each_grain() {
    for (planes, (faults, dropped)) in (2..=4).flat_map(|planes| mortal([80, 110, 140]).map(move |plan| (planes, plan)))
    {
        let layout = picture_of(planes);
        let ring = FlowLayout::Grains(layout, 5);
        let (network, mut world) = mortal_world(Faults::new(1), layout);
        world.add(&network.info(), ring, Release::Keep(3));
        world.add(&network.info_with_faults(faults), ring, Release::Keep(3));
        let mortal = world.receivers[1].key.unwrap();
        let (mut complete, mut submitted, mut last) = (0, 0, (0, 0));
        for (index, quarter) in (0..40).flat_map(|index| (0..4).map(move |quarter| (index, quarter))) {
            submitted += send_quarter(&mut world, layout, index, quarter);
            complete += verify_slices(&mut world, 0, layout, &mut last);
            if (Some(index), quarter) == (dropped, 1) {
                world.receivers.pop();
            }
        }
        world.until(|world| world.initiator.in_progress() == 0);
        world.until(|world| world.initiator.status(mortal) != Some(TargetStatus::Ready));
        complete += verify_slices(&mut world, 0, layout, &mut last);
        assert_eq!((complete, last), (40, (39, 24)), "{planes} planes, {faults:?}");
        assert_eq!(world.ended(), submitted, "each transfer has an end");
        if dropped.is_none() {
            let error = format!("{:#}", world.receivers.pop().unwrap().error.unwrap());
            assert!(error.contains("EOVERRUN"), "{error}");
        }
        world.initiator.remove_target(mortal).unwrap();
        world.until(|world| world.events.contains(&InitiatorEvent::Removed { target: mortal }));
        world.add(&network.info(), ring, Release::Keep(3));
        send_to_all(&mut world, layout, 40);
    }
}

#[test]
fn an_initiator_that_dies_or_overruns_its_queue_makes_room_for_another() {
    for (planes, (faults, dropped)) in
        (2..=4).flat_map(|planes| mortal([120, 190, 333]).map(move |plan| (planes, plan)))
    {
        let layout = picture_of(planes);
        // A target keeps all grains of the initiator's ring, which may come at once.
        let [ring, long] = [5, 12].map(|slots| FlowLayout::Grains(layout, slots));
        let (network, mut world) = mortal_world(faults, layout);
        (0..2).for_each(|_| world.add(&network.info(), long, Release::Keep(8)));
        let (mut last, mut next) = ([(0, 0); 2], 0);
        for (index, quarter) in (0..40).flat_map(|index| (0..4).map(move |quarter| (index, quarter))) {
            if world.error.is_some() || (Some(index), quarter) == (dropped, 2) {
                break;
            }
            send_quarter(&mut world, layout, index, quarter);
            (0..2).for_each(|at| _ = verify_slices(&mut world, at, layout, &mut last[at]));
            next = index + 1;
        }
        let error = world.error.map(|error| format!("{error:#}"));
        assert!(error.as_ref().is_none_or(|error| error.contains("EOVERRUN")), "{error:?}");
        assert!(next < 40 && error.is_some() == dropped.is_none(), "{faults:?}: {error:?}");
        world.initiator = Initiator::open_in(&[Domain::open(&network.info()).unwrap()], world.attr, Global).unwrap();
        world.flow = world.initiator.add_flow(vec![0; ring.bytes() as usize], ring, next).unwrap();
        let is_detached = |event: &TargetEvent| matches!(event, TargetEvent::Detached { error: Some(_), .. });
        world.until(|world| world.receivers.iter().all(|receiver| receiver.events.iter().any(is_detached)));
        for (at, last) in last.iter_mut().enumerate() {
            verify_slices(&mut world, at, layout, last);
            let key = world.initiator.add_target(world.flow, &record(&world.receivers[at])).unwrap();
            world.receivers[at].key = Some(key);
            world.until(|world| world.initiator.status(key) == Some(TargetStatus::Ready));
        }
        (next..next + 3).for_each(|index| send_to_all(&mut world, layout, index));
    }
}
