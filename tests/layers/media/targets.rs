//! Targets that fall behind, leave under load, fail and return, and initiators that compete.

use loom_alloc::Ledger;
use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::Plan;
use loom_core::{Domain, Error};
use loom_fabric::loom_core;
use loom_media::{
    FlowLayout, Initiator, InitiatorEvent, MediaAttr, Rate, Release, Stream, Target, TargetEvent, TargetStatus,
};

use super::world::{World, attr, network, picture, receiver, record};

fn ring(slots: u32) -> FlowLayout {
    FlowLayout::Grains(picture(), slots)
}

#[test]
fn a_stalled_target_keeps_its_grains_and_delays_no_other() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(4), Release::Keep(2));
    world.add(&network.info(), ring(4), Release::Keep(2));
    let mut behind = 0;
    world.receivers[0].stalls = true;
    for index in 0..50 {
        world.write(picture(), index);
        behind += world.initiator.send_grain(world.flow, index, 0..24).unwrap().deferred;
        let is_complete =
            |event: &TargetEvent| matches!(event, TargetEvent::Complete { index: of, .. } if *of == index);
        world.until(|world| world.receivers[1].events.iter().any(is_complete));
        world.receivers[1].verify(picture(), index, 24);
    }
    assert_eq!(behind, 46, "it had room for 4");
    world.receivers[0].stalls = false;
    world.until(|world| world.receivers[0].events.len() == 4);
    for index in 0..4 {
        let flow = world.receivers[0].flow;
        assert_eq!(world.receivers[0].events[index as usize], TargetEvent::Complete { flow, index });
    }
    // It continues with the newest grains, and reports those between as lapped.
    let mut index = 50;
    while !matches!(world.receivers[0].events.last(), Some(TargetEvent::Complete { index: 50.., .. })) {
        world.write_at_once(picture(), index);
        let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
        for _ in 0..20 {
            world.turn();
        }
        index += 1;
        assert!(index < 70);
    }
    let last = world.receivers[0].events.iter().rev().find_map(|event| match event {
        TargetEvent::Complete { index, .. } => Some(*index),
        _ => None,
    });
    world.receivers[0].verify(picture(), last.unwrap(), 24);
    world.until(|world| {
        let lapped = world.receivers[0].events.iter().any(|event| matches!(event, TargetEvent::Lapped { from: 4, .. }));
        lapped && world.initiator.in_progress() == 0
    });
}

/// Two grains in quarters of two planes, to each of two targets, between two polls.
#[test]
fn depths_of_a_stream_take_all_its_transfers_between_two_polls() {
    let stream = Stream { layout: ring(8), rate: Rate::new(50, 1), part: 6 };
    let attr = MediaAttr::for_streams(&[stream], 2, 20_000_000);
    assert_eq!((attr.peers, attr.transfers, attr.depth), (2, 16, 32));
    let network = network();
    let mut world = World::open(&network.info(), ring(8), attr);
    (0..2).for_each(|_| world.add(&network.info(), ring(8), Release::Keep(2)));
    for first in (0..40).step_by(2) {
        // Each turn has one event.
        (0..200).for_each(|_| world.turn());
        for index in first..first + 2 {
            assert!(world.write_now(picture(), index));
            for quarter in 0..4 {
                let fanout = world.initiator.send_grain(world.flow, index, 6 * quarter..6 * quarter + 6).unwrap();
                assert_eq!((fanout.submitted, fanout.deferred), (2, 0), "quarter {quarter} of grain {index}");
            }
        }
    }
}

/// Faults 15, 16 and 18: states and objects that are left behind. Each cycle ends while connecting,
/// while a grain is sent, or after it.
#[test]
fn a_thousand_setups_and_teardowns_return_all_memory() {
    static LEDGER: Ledger<2> = Ledger::new();
    let network = network();
    for cycle in 0..1000 {
        let domain = Domain::open(&network.info()).unwrap();
        let account = |name| LEDGER.account(name, Global).unwrap();
        let mut initiator = Initiator::open_in(std::slice::from_ref(&domain), attr(), account("initiator")).unwrap();
        let mut target = Target::open_in(&[domain], attr(), account("target")).unwrap();
        let memory = || vec![0; ring(2).bytes() as usize];
        let received = target.add_flow(memory(), ring(2), Release::Keep(1)).unwrap();
        let sent = initiator.add_flow(memory(), ring(2), 0).unwrap();
        let mut record = [0; 2048];
        let len = target.record(received, &mut record).unwrap();
        let key = initiator.add_target(sent, &record[..len]).unwrap();
        if cycle % 3 > 0 {
            let mut polls = 0;
            while initiator.status(key) != Some(TargetStatus::Ready) {
                polls += 1;
                assert!(polls < 100_000, "it is ready");
                let _ = (initiator.poll(0).unwrap(), target.poll(0).unwrap());
            }
            assert_eq!(initiator.send_grain(sent, 0, 0..24).unwrap().submitted, 1);
        }
        if cycle % 3 > 1 {
            while !matches!(target.poll(0).unwrap(), Some(TargetEvent::Complete { .. })) {
                let _ = initiator.poll(0).unwrap();
            }
        }
        assert!(LEDGER.entries().all(|entry| entry.bytes > 0));
        drop((initiator, target));
        for entry in LEDGER.entries() {
            assert_eq!((entry.bytes, entry.blocks), (0, 0), "{entry:?} after {cycle} cycles");
        }
    }
}

/// Reuse of a slot with writes in flight by the initiator, in real time.
#[test]
fn a_lapped_grain_in_flight_is_never_reported_complete() {
    let mut lapped = 0;
    for seed in 0..20 {
        let faults = Plan { reorder: 200, ..Plan::new(seed) };
        let (network, mut world) = World::faulty(faults, ring(4));
        world.add(&network.info_with_faults(faults), ring(4), Release::Keep(1));
        let (flow, mut index) = (world.flow, 0);
        let mut complete = Vec::new();
        let until = std::time::Instant::now() + support::posting::LIMIT;
        while index < 40 || complete.last() != Some(&(index - 1)) {
            lapped += u64::from(world.initiator.grain(flow, index).unwrap().is_none());
            world.initiator.lap(flow, index + 1).unwrap();
            // The place is free at once.
            assert!(world.write_now(picture(), index));
            let _ = world.initiator.send_grain(flow, index, 0..24).unwrap();
            index += 1;
            for _ in 0..if index < 40 { 10 } else { 2000 } {
                world.turn();
                for event in std::mem::take(&mut world.receivers[0].events) {
                    if let TargetEvent::Complete { index, .. } = event {
                        world.receivers[0].verify(picture(), index, 24);
                        complete.push(index);
                    }
                }
            }
            assert!(std::time::Instant::now() < until, "{complete:?} of {index}");
        }
    }
    assert!(lapped > 20, "{lapped} places were taken while writes were in flight");
}

#[test]
fn grains_stay_as_they_are_until_they_are_released() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(3), Release::Explicit);
    let mut submitted = 0;
    for index in 0..10 {
        world.write_at_once(picture(), index);
        submitted += world.initiator.send_grain(world.flow, index, 0..24).unwrap().submitted;
        world.until(|world| world.initiator.in_progress() == 0);
    }
    assert_eq!(submitted, 3);
    world.until(|world| matches!(world.receivers[0].events.last(), Some(TargetEvent::NoRoom { .. })));
    for index in 0..3 {
        world.receivers[0].verify(picture(), index, 24);
    }
    let flow = world.receivers[0].flow;
    world.receivers[0].target.release(flow, 3).unwrap();
    world.receivers[0].events.clear();
    let mut index = 10;
    while world.receivers[0].events.is_empty() {
        world.write_at_once(picture(), index);
        let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
        for _ in 0..20 {
            world.turn();
        }
        index += 1;
        assert!(index < 20);
    }
    assert!(world.receivers[0].target.grain(flow, 2).is_none());
}

#[test]
fn a_second_initiator_is_refused_until_the_first_has_left() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(4), Release::Keep(1));
    let domain = Domain::open(&network.info()).unwrap();
    let mut other = Initiator::open_in(&[domain], attr(), Global).unwrap();
    let flow = other.add_flow(vec![0; ring(4).bytes() as usize], ring(4), 0).unwrap();
    let bytes = record(&world.receivers[0]);
    let target = other.add_target(flow, &bytes).unwrap();
    let refused = loop {
        world.turn();
        if let Some(InitiatorEvent::Target { result, .. }) = other.poll(0).unwrap() {
            break result;
        }
    };
    assert_eq!(refused, Err(Error::Invalid("another initiator is attached to the target: remove it there first")));
    other.remove_target(target).unwrap();
    while !matches!(other.poll(0).unwrap(), Some(InitiatorEvent::Removed { .. })) {}
    // The first one continues.
    world.write(picture(), 0);
    assert_eq!(world.initiator.send_grain(world.flow, 0, 0..24).unwrap().submitted, 1);
    world.until(|world| matches!(world.receivers[0].events.last(), Some(TargetEvent::Complete { .. })));
    world.initiator.remove_target(world.receivers[0].key.unwrap()).unwrap();
    world.until(|world| matches!(world.receivers[0].events.last(), Some(TargetEvent::Detached { error: None, .. })));
    world.until(|world| matches!(world.events.last(), Some(InitiatorEvent::Removed { .. })));
    let target = other.add_target(flow, &bytes).unwrap();
    while other.status(target) == Some(TargetStatus::Connecting) {
        world.turn();
        other.poll(0).unwrap();
    }
    assert_eq!(other.status(target), Some(TargetStatus::Ready));
}

#[test]
fn a_target_that_is_removed_under_load_ends_all_its_transfers() {
    let (network, mut world) = World::soft(ring(8));
    world.add(&network.info(), ring(8), Release::Keep(1));
    world.add(&network.info(), ring(8), Release::Keep(1));
    for index in 0..6 {
        world.write(picture(), index);
        assert_eq!(world.initiator.send_grain(world.flow, index, 0..24).unwrap().submitted, 2);
    }
    let key = world.receivers[0].key.unwrap();
    world.initiator.remove_target(key).unwrap();
    world.until(|world| world.events.contains(&InitiatorEvent::Removed { target: key }));
    let of_first =
        world.events.iter().filter(|event| matches!(event, InitiatorEvent::Ended { target, .. } if *target == key));
    assert_eq!(of_first.count(), 6, "each transfer has an end, before the removal");
    world.until(|world| world.initiator.in_progress() == 0);
    let complete = world.receivers[1].events.iter().filter(|event| matches!(event, TargetEvent::Complete { .. }));
    assert_eq!(complete.count(), 6);
    // Its memory can be dropped.
    world.until(|world| matches!(world.receivers[0].events.last(), Some(TargetEvent::Detached { .. })));
    let flow = world.receivers[0].flow;
    world.receivers[0].target.remove_flow(flow).unwrap();
}

#[test]
fn a_flow_that_its_target_removes_ends_at_the_initiator_first() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(4), Release::Keep(1));
    let flow = world.receivers[0].flow;
    assert!(world.receivers[0].target.remove_flow(flow).is_err());
    world.until(|world| matches!(world.receivers[0].events.last(), Some(TargetEvent::Detached { .. })));
    world.receivers[0].target.remove_flow(flow).unwrap();
    let key = world.receivers[0].key.unwrap();
    assert_eq!(
        world.initiator.status(key),
        Some(TargetStatus::Failed(Error::Invalid("the target ends the flow: use the record of another one")))
    );
    world.initiator.remove_target(key).unwrap();
    world.until(|world| world.events.contains(&InitiatorEvent::Removed { target: key }));
    world.initiator.remove_flow(world.flow).unwrap();
}

#[test]
fn targets_of_another_layout_are_refused_before_they_are_reached() {
    let (network, mut world) = World::soft(ring(4));
    let mut other = picture();
    other.slice_len[1] = 34;
    let receiver = receiver(&network.info(), FlowLayout::Grains(other, 4), Release::Keep(1), attr());
    let refused = world.initiator.add_target(world.flow, &record(&receiver));
    assert_eq!(
        refused,
        Err(Error::Invalid("the target has another layout than the flow: use the same format on both sides"))
    );
    for cut in [0, 8, 40, 200] {
        assert!(world.initiator.add_target(world.flow, &record(&receiver)[..cut]).is_err());
    }
}

#[test]
fn a_silent_target_fails_and_the_others_go_on() {
    let network = network();
    let attr = MediaAttr { silence: 1_000_000, ..attr() };
    let mut world = World::open(&network.info(), ring(4), attr);
    world.add(&network.info(), ring(4), Release::Keep(1));
    world.add(&network.info(), ring(4), Release::Keep(1));
    let gone = world.receivers.remove(0).key.unwrap();
    for index in 0..40 {
        world.now += 100_000;
        world.write(picture(), index);
        let fanout = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
        assert!(fanout.submitted + fanout.deferred + fanout.failed == 2, "{fanout:?}");
        let is_complete =
            |event: &TargetEvent| matches!(event, TargetEvent::Complete { index: of, .. } if *of == index);
        world.until(|world| world.receivers[0].events.iter().any(is_complete));
    }
    world.until(|world| matches!(world.initiator.status(gone), Some(TargetStatus::Failed(_))));
    world.until(|world| world.initiator.in_progress() == 0);
    world.initiator.remove_target(gone).unwrap();
    world.until(|world| world.events.contains(&InitiatorEvent::Removed { target: gone }));
}

#[test]
fn a_target_that_was_silent_is_attached_again() {
    let network = network();
    let attr = MediaAttr { silence: 1_000_000, retry: 500_000, ..attr() };
    let mut world = World::open(&network.info(), ring(4), attr);
    world.add(&network.info(), ring(4), Release::Keep(1));
    let key = world.receivers[0].key.unwrap();
    world.receivers[0].stalls = true;
    let until = std::time::Instant::now() + support::posting::LIMIT;
    while !matches!(world.initiator.status(key), Some(TargetStatus::Failed(_))) {
        world.now += 100_000;
        world.turn();
        assert!(std::time::Instant::now() < until);
    }
    world.receivers[0].stalls = false;
    while world.initiator.status(key) != Some(TargetStatus::Ready) {
        world.now += 10_000;
        world.turn();
        assert!(std::time::Instant::now() < until, "{:?}", world.events);
    }
    world.receivers[0].events.clear();
    world.write(picture(), 1);
    assert_eq!(world.initiator.send_grain(world.flow, 1, 0..24).unwrap().submitted, 1);
    let complete = TargetEvent::Complete { flow: world.receivers[0].flow, index: 1 };
    world.until(|world| world.receivers[0].events.contains(&complete));
    world.receivers[0].verify(picture(), 1, 24);
}
