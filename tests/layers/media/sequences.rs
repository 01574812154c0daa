//! Critical sequences of events: late writes, gaps, slices after a new beginning, removals.

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Every, Plan as Faults};
use loom_core::{Domain, PostError};
use loom_fabric::loom_core;
use loom_media::{FlowLayout, Initiator, InitiatorEvent, MediaAttr, Release, SampleLayout, TargetEvent, TargetStatus};

use super::world::{World, attr, byte, network, picture, receiver, record};

fn ring(slots: u32) -> FlowLayout {
    FlowLayout::Grains(picture(), slots)
}

fn turns(world: &mut World<impl loom_core::Transport + 'static>, count: usize) {
    for _ in 0..count {
        world.turn();
    }
}

fn fill<T: loom_core::Transport + 'static>(
    initiator: &mut Initiator<'static, T, Vec<u8>, Global>,
    flow: loom_media::FlowKey,
    index: u64,
    seed: u64,
) {
    let bytes: Vec<u8> = (0..picture().len() as usize).map(|at| byte(seed, at)).collect();
    initiator.grain(flow, index).unwrap().unwrap().copy_from(0, &bytes).unwrap();
}

/// A target that fell behind has begun at the next grain, while slices of this one are produced.
#[test]
fn slices_of_a_grain_that_was_passed_over_do_not_end_the_target() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(4), Release::Keep(1));
    for index in 0..4 {
        world.write(picture(), index);
        let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
        turns(&mut world, 20);
    }
    world.receivers[0].stalls = true;
    for index in 4..7 {
        world.write_at_once(picture(), index);
        let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
        turns(&mut world, 20);
    }
    world.write_at_once(picture(), 20);
    assert_eq!(world.initiator.send_grain(world.flow, 20, 0..12).unwrap().deferred, 1);
    turns(&mut world, 20);
    world.receivers[0].stalls = false;
    turns(&mut world, 40);
    let _ = world.initiator.send_grain(world.flow, 20, 12..24).unwrap();
    turns(&mut world, 40);
    let key = world.receivers[0].key.unwrap();
    assert_eq!(world.initiator.status(key), Some(TargetStatus::Ready), "{:?}", world.receivers[0].events);
}

/// Every second grain is sent. The program polls once for each event.
#[test]
fn many_gaps_between_grains_are_reported_as_lapped() {
    let (network, mut world) = World::soft(ring(128));
    world.add(&network.info(), ring(128), Release::Keep(1));
    world.receivers[0].stalls = true;
    for at in 0..24 {
        world.write_at_once(picture(), 2 * at);
        let fanout = world.initiator.send_grain(world.flow, 2 * at, 0..24).unwrap();
        assert_eq!(fanout.submitted + fanout.deferred, 1);
    }
    turns(&mut world, 20);
    world.receivers[0].stalls = false;
    turns(&mut world, 400);
    let key = world.receivers[0].key.unwrap();
    assert_eq!(world.initiator.status(key), Some(TargetStatus::Ready), "{:?}", world.receivers[0].events);
}

/// The grain of a `Complete` is available, also if a later one completed before.
#[test]
fn a_grain_that_was_overtaken_is_kept_when_it_is_complete() {
    for seed in 0..15 {
        let faults = Faults { reorder: 9, delay: 6, unordered: true, ..Faults::new(seed) };
        let (network, mut world) = World::faulty(faults, ring(8));
        world.add(&network.info(), ring(8), Release::Keep(1));
        for first in (0..24).step_by(4) {
            for index in first..first + 4 {
                world.write(picture(), index);
                let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
            }
            for _ in 0..200 {
                world.turn();
                let receiver = &mut world.receivers[0];
                for event in receiver.events.split_off(0) {
                    if let TargetEvent::Complete { index, .. } = event {
                        assert!(receiver.target.grain(receiver.flow, index).is_some(), "grain {index} of seed {seed}");
                        receiver.verify(picture(), index, 24);
                    }
                }
            }
        }
    }
}

/// Initiators of a permanent target come and go.
#[test]
fn initiators_that_have_left_take_no_room_of_a_target() {
    let network = network();
    let mut receiver = receiver(&network.info(), ring(4), Release::Keep(1), attr());
    for round in 0..10 {
        let mut initiator = Initiator::open_in(&[Domain::open(&network.info()).unwrap()], attr(), Global).unwrap();
        let flow = initiator.add_flow(vec![0; ring(4).bytes() as usize], ring(4), round).unwrap();
        let key = initiator.add_target(flow, &record(&receiver)).unwrap();
        let mut turns = 0;
        while initiator.status(key) != Some(TargetStatus::Ready) {
            let _ = (initiator.poll(0).unwrap(), receiver.target.poll(0).unwrap());
            turns += 1;
            assert!(turns < 2000, "initiator {round}: {:?}", initiator.status(key));
        }
        initiator.remove_target(key).unwrap();
        while !matches!(initiator.poll(0).unwrap(), Some(InitiatorEvent::Removed { .. })) {
            let _ = receiver.target.poll(0).unwrap();
        }
        for _ in 0..50 {
            let _ = (initiator.poll(0).unwrap(), receiver.target.poll(0).unwrap());
        }
    }
}

#[test]
fn a_return_is_reported_as_detached_then_attached_or_not_at_all() {
    let network = network();
    let attr = MediaAttr { silence: 1_000_000, retry: 500_000, ..attr() };
    let mut world = World::open(&network.info(), ring(4), attr);
    world.add(&network.info(), ring(4), Release::Keep(1));
    let key = world.receivers[0].key.unwrap();
    world.receivers[0].stalls = true;
    for _ in 0..1000 {
        world.now += 100_000;
        world.turn();
        if matches!(world.initiator.status(key), Some(TargetStatus::Failed(_))) {
            break;
        }
    }
    world.receivers[0].stalls = false;
    for _ in 0..1000 {
        world.now += 10_000;
        world.turn();
    }
    assert_eq!(world.initiator.status(key), Some(TargetStatus::Ready));
    assert!(
        !matches!(world.receivers[0].events.last(), Some(TargetEvent::Detached { .. })),
        "{:?}",
        world.receivers[0].events
    );
}

#[test]
fn a_flow_goes_on_after_a_message_was_lost() {
    let mut stuck = Vec::new();
    for nth in 20..40 {
        let network = network();
        let faults = Faults { lose: Every::Nth(nth), ..Faults::new(1) };
        let mut world = World::open(&network.info_with_faults(faults), ring(4), MediaAttr { piece: 1 << 20, ..attr() });
        world.add(&network.info(), ring(4), Release::Keep(1));
        let (mut complete, mut failed) = (0, 0);
        for index in 0..40 {
            world.write_at_once(picture(), index);
            let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
            turns(&mut world, 40);
            for event in world.receivers[0].events.split_off(0) {
                complete += u64::from(matches!(event, TargetEvent::Complete { .. }));
                failed += u64::from(matches!(event, TargetEvent::Failed { .. }));
            }
        }
        let key = world.receivers[0].key.unwrap();
        let status = world.initiator.status(key);
        if complete < 30 && status == Some(TargetStatus::Ready) {
            stuck.push((nth, complete, failed));
        }
    }
    assert!(stuck.is_empty(), "attached, but without room for ever: (nth, complete, failed) {stuck:?}");
}

#[test]
fn a_flow_goes_on_after_a_write_was_lost() {
    let mut stuck = Vec::new();
    for nth in 30..60 {
        let network = network();
        let faults = Faults { lose: Every::Nth(nth), ..Faults::new(1) };
        let mut world = World::open(&network.info_with_faults(faults), ring(4), MediaAttr { piece: 200, ..attr() });
        world.add(&network.info(), ring(4), Release::Keep(1));
        let (mut complete, mut last, mut failed) = (0, 0, 0);
        for index in 0..20 {
            world.write_at_once(picture(), index);
            let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
            turns(&mut world, 40);
            for event in world.receivers[0].events.split_off(0) {
                match event {
                    TargetEvent::Complete { index, .. } => (complete, last) = (complete + 1, index),
                    TargetEvent::Failed { .. } => failed += 1,
                    _ => {}
                }
            }
        }
        let key = world.receivers[0].key.unwrap();
        let status = world.initiator.status(key);
        // The ends of two grains in twenty may be lost one after the other.
        if failed > 0 && (last < 16 || complete < 8) && status == Some(TargetStatus::Ready) {
            stuck.push((nth, complete, last, failed));
        }
    }
    assert!(stuck.is_empty(), "attached, but without room for ever: (nth, complete, last, failed) {stuck:?}");
}

/// The target has given up a silent initiator, which posts its writes when it runs again.
#[test]
fn writes_of_an_initiator_that_was_given_up_leave_the_grains_of_the_next_one() {
    let network = network();
    let attr = MediaAttr { silence: 1_000_000, ..attr() };
    let mut world = World::open(&network.info(), ring(4), attr);
    world.add(&network.info(), ring(4), Release::Keep(1));
    for index in 0..4 {
        world.write(picture(), index);
        assert_eq!(world.initiator.send_grain(world.flow, index, 0..24).unwrap().submitted, 1);
    }
    // It does not run for some time.
    let mut other = Initiator::open_in(&[Domain::open(&network.info()).unwrap()], attr, Global).unwrap();
    let flow = other.add_flow(vec![0; ring(4).bytes() as usize], ring(4), 0).unwrap();
    let mut now = world.now;
    for _ in 0..1000 {
        now += 50_000;
        let receiver = &mut world.receivers[0];
        receiver.events.extend(receiver.target.poll(now).unwrap());
    }
    assert!(
        matches!(world.receivers[0].events.last(), Some(TargetEvent::Detached { .. })),
        "{:?}",
        world.receivers[0].events
    );
    let key = other.add_target(flow, &record(&world.receivers[0])).unwrap();
    while other.status(key) != Some(TargetStatus::Ready) {
        let _ = (other.poll(now).unwrap(), world.receivers[0].target.poll(now).unwrap());
    }
    for index in 0..3 {
        fill(&mut other, flow, index, 100 + index);
        assert_eq!(other.send_grain(flow, index, 0..24).unwrap().submitted, 1);
    }
    for _ in 0..200 {
        let _ = other.poll(now).unwrap();
        let receiver = &mut world.receivers[0];
        receiver.events.extend(receiver.target.poll(now).unwrap());
    }
    let is_right = |world: &World<_>| {
        let receiver = &world.receivers[0];
        let mut bytes = vec![0; picture().len() as usize];
        receiver.target.grain(receiver.flow, 2).unwrap().window.copy_to(0, &mut bytes).unwrap();
        bytes.iter().enumerate().all(|(at, found)| *found == byte(102, at))
    };
    assert!(is_right(&world));
    world.now = now;
    turns(&mut world, 50);
    assert!(is_right(&world), "overwritten while it is kept");
}

/// Usual end of a program: it releases all grains, and removes the flow.
#[test]
fn a_flow_that_is_released_and_removed_is_failed_at_the_initiator() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(4), Release::Explicit);
    for index in 0..8 {
        world.write_at_once(picture(), index);
        let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
        turns(&mut world, 30);
    }
    let (flow, key) = (world.receivers[0].flow, world.receivers[0].key.unwrap());
    world.receivers[0].target.release(flow, 4).unwrap();
    assert!(world.receivers[0].target.remove_flow(flow).is_err());
    turns(&mut world, 60);
    assert!(matches!(world.initiator.status(key), Some(TargetStatus::Failed(_))), "{:?}", world.events);
}

/// Blocks that exceed the ring of the target, and its room.
#[test]
fn blocks_longer_than_the_room_of_a_target_arrive_in_parts() {
    let samples = |len| SampleLayout { word: 4, channels: 2, period: 48, len };
    for (len, keep, count) in [(96, 0, 144), (480, 240, 288)] {
        let (network, mut world) = World::soft(FlowLayout::Samples(samples(480)));
        world.add(&network.info(), FlowLayout::Samples(samples(len)), Release::Keep(keep));
        let mut arrived = 0;
        for block in 0..20 {
            let _ = world.initiator.send_samples(world.flow, block * u64::from(count), count).unwrap();
            turns(&mut world, 200);
            for event in world.receivers[0].events.split_off(0) {
                let TargetEvent::Samples { start, count, .. } = event else { panic!("{event:?}") };
                assert_eq!(start, arrived);
                arrived += u64::from(count);
            }
        }
        assert_eq!(arrived, 20 * u64::from(count));
    }
}

#[test]
fn numbers_at_the_end_are_refused() {
    let (_network, mut world) = World::soft(ring(4));
    let grain = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        world.initiator.grain(world.flow, u64::MAX).is_err()
    }));
    assert!(matches!(grain, Ok(true)), "grain");
    let samples = SampleLayout { word: 4, channels: 2, period: 48, len: 480 };
    let (_network, mut world) = World::soft(FlowLayout::Samples(samples));
    let view = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        world.initiator.samples(world.flow, u64::MAX, 8).is_err()
    }));
    assert!(matches!(view, Ok(true)), "samples");
}

#[test]
fn a_second_flow_of_an_initiator_to_one_target_is_refused() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(4), Release::Explicit);
    let second = world.initiator.add_flow(vec![0; ring(4).bytes() as usize], ring(4), 0).unwrap();
    let bytes = record(&world.receivers[0]);
    assert_eq!(world.initiator.add_target(second, &bytes), Err(PostError::Again.into()));
}

/// An initiator that is refused as another is attached sends no message that the target rejects.
#[test]
fn a_refused_initiator_leaves_quietly() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(4), Release::Keep(1));
    let mut other = Initiator::open_in(&[Domain::open(&network.info()).unwrap()], attr(), Global).unwrap();
    let flow = other.add_flow(vec![0; ring(4).bytes() as usize], ring(4), 0).unwrap();
    other.add_target(flow, &record(&world.receivers[0])).unwrap();
    for _ in 0..200 {
        let _ = other.poll(0).unwrap();
        world.turn();
    }
    assert!(world.receivers[0].events.is_empty(), "{:?}", world.receivers[0].events);
}

/// Removal and addition of the same target while messages overtake each other.
#[test]
fn a_target_that_is_removed_and_added_again_is_attached() {
    for seed in 0..20 {
        let faults = Faults { reorder: 9, delay: 6, refuse: Every::About(4), unordered: true, ..Faults::new(seed) };
        let network = network();
        let mut world = World::open(&network.info_with_faults(faults), ring(4), attr());
        world.add(&network.info_with_faults(faults), ring(4), Release::Keep(1));
        for round in 0..6 {
            for index in 4 * round..4 * round + 3 {
                world.write_at_once(picture(), index);
                let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
                turns(&mut world, 5);
            }
            let key = world.receivers[0].key.unwrap();
            world.initiator.remove_target(key).unwrap();
            let removed = InitiatorEvent::Removed { target: key };
            world.until(|world| world.events.contains(&removed));
            let bytes = record(&world.receivers[0]);
            let key = world.initiator.add_target(world.flow, &bytes).unwrap();
            world.receivers[0].key = Some(key);
            for _ in 0..1000 {
                world.turn();
                if world.initiator.status(key) == Some(TargetStatus::Ready) {
                    break;
                }
            }
            assert_eq!(
                world.initiator.status(key),
                Some(TargetStatus::Ready),
                "seed {seed}, round {round}: {:?}",
                world.receivers[0].events
            );
            turns(&mut world, 100);
            let last = world.receivers[0]
                .events
                .iter()
                .rev()
                .find(|event| matches!(event, TargetEvent::Attached { .. } | TargetEvent::Detached { .. }));
            assert!(
                matches!(last, Some(TargetEvent::Attached { .. })),
                "seed {seed}, round {round}: {:?}",
                world.receivers[0].events
            );
            assert!(
                !world.receivers[0].events.iter().any(|event| matches!(event, TargetEvent::Rejected { .. })),
                "seed {seed}, round {round}: {:?}",
                world.receivers[0].events
            );
        }
    }
}

#[test]
fn many_slices_in_flight_keep_the_rules_of_the_target() {
    for seed in 0..15 {
        let faults = Faults { reorder: 60, delay: 6, unordered: true, ..Faults::new(seed) };
        let network = network();
        let mut world = World::open(&network.info_with_faults(faults), ring(4), attr());
        world.add(&network.info(), ring(4), Release::Keep(1));
        for index in 0..8 {
            world.room(index + 1);
            world.write_at_once(picture(), index);
            for start in 0..24 {
                let _ = world.initiator.send_grain(world.flow, index, start..start + 1).unwrap();
                turns(&mut world, 1);
            }
        }
        turns(&mut world, 400);
        let key = world.receivers[0].key.unwrap();
        assert_eq!(
            world.initiator.status(key),
            Some(TargetStatus::Ready),
            "seed {seed}: {:?}",
            world.receivers[0].events
        );
    }
}

/// The next initiator has blocks of another phase.
#[test]
fn samples_of_the_next_initiator_are_reported_or_lapped_once() {
    let samples = SampleLayout { word: 4, channels: 2, period: 48, len: 480 };
    let (network, mut world) = World::soft(FlowLayout::Samples(samples));
    world.add(&network.info(), FlowLayout::Samples(samples), Release::Keep(240));
    assert_eq!(world.initiator.send_samples(world.flow, 0, 100).unwrap().submitted, 1);
    turns(&mut world, 40);
    world.initiator.remove_target(world.receivers[0].key.unwrap()).unwrap();
    turns(&mut world, 60);
    let mut other = Initiator::open_in(&[Domain::open(&network.info()).unwrap()], attr(), Global).unwrap();
    let flow = other.add_flow(vec![0; samples.bytes() as usize], FlowLayout::Samples(samples), 90).unwrap();
    let key = other.add_target(flow, &record(&world.receivers[0])).unwrap();
    for _ in 0..100 {
        let _ = other.poll(0).unwrap();
        world.turn();
    }
    assert_eq!(other.status(key), Some(TargetStatus::Ready));
    for start in [90, 138] {
        assert_eq!(other.send_samples(flow, start, 48).unwrap().submitted, 1);
        for _ in 0..60 {
            let _ = other.poll(0).unwrap();
            world.turn();
        }
    }
    let mut covered = [false; 186];
    for event in &world.receivers[0].events {
        match *event {
            TargetEvent::Samples { start, count, .. } => {
                covered[start as usize..start as usize + count as usize].fill(true)
            }
            TargetEvent::Lapped { from, to, .. } => covered[from as usize..to as usize].fill(true),
            _ => {}
        }
    }
    assert_eq!(covered.iter().position(|is| !is), None, "{:?}", world.receivers[0].events);
}

/// Sent slices are not sent again, because the grain may be read.
#[test]
fn a_complete_grain_stays_as_it_is_while_it_is_kept() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(4), Release::Keep(1));
    fill(&mut world.initiator, world.flow, 0, 0);
    let _ = world.initiator.send_grain(world.flow, 0, 0..24).unwrap();
    turns(&mut world, 40);
    world.receivers[0].verify(picture(), 0, 24);
    assert!(world.initiator.grain(world.flow, 0).is_err());
    assert!(world.initiator.send_grain(world.flow, 0, 0..24).is_err());
    turns(&mut world, 40);
    world.receivers[0].verify(picture(), 0, 24);
}

/// The last message of an initiator arrives, although its peer is removed.
#[test]
fn a_target_that_is_removed_learns_of_it() {
    for seed in 0..20 {
        let network = network();
        let info = network.info_with_faults(super::random::unordered(seed));
        let mut world = World::open(&info, ring(4), attr());
        world.add(&info, ring(4), Release::Keep(1));
        for index in 0..3 {
            world.write_at_once(picture(), index);
            let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
        }
        let key = world.receivers[0].key.unwrap();
        world.initiator.remove_target(key).unwrap();
        world.until(|world| world.events.contains(&InitiatorEvent::Removed { target: key }));
        turns(&mut world, 500);
        let events = &world.receivers[0].events;
        let is_detached = events.iter().any(|event| matches!(event, TargetEvent::Detached { error: None, .. }));
        assert!(is_detached, "seed {seed}: {events:?}");
    }
}

/// A target that leaves during transfers belongs to the initiator until its removal.
#[test]
fn a_target_is_added_again_after_its_removal_alone() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(4), Release::Keep(1));
    for index in 0..3 {
        world.write_at_once(picture(), index);
        let _ = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
    }
    world.receivers[0].stalls = true;
    world.turn();
    let (target, bytes) = (world.receivers[0].key.unwrap(), record(&world.receivers[0]));
    world.initiator.remove_target(target).unwrap();
    assert_eq!(world.initiator.add_target(world.flow, &bytes), Err(PostError::Again.into()));
    world.receivers[0].stalls = false;
    world.until(|world| world.events.contains(&InitiatorEvent::Removed { target }));
    let key = world.initiator.add_target(world.flow, &bytes).unwrap();
    world.until(|world| world.initiator.status(key) == Some(TargetStatus::Ready));
    world.write_at_once(picture(), 3);
    assert_eq!(world.initiator.send_grain(world.flow, 3, 0..24).unwrap().submitted, 1);
    let complete = TargetEvent::Complete { flow: world.receivers[0].flow, index: 3 };
    world.until(|world| world.receivers[0].events.contains(&complete));
    world.receivers[0].verify(picture(), 3, 24);
}
