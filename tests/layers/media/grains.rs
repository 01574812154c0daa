//! Grains: whole, in slices, invalid, under faults.

use loom_core::soft::{Every, Plan as Faults};
use loom_core::{Info, Transport};
use loom_fabric::loom_core;
use loom_media::{FlowLayout, Release, TargetEvent};

use super::world::{World, attr, byte, network, picture};

fn ring(slots: u32) -> FlowLayout {
    FlowLayout::Grains(picture(), slots)
}

/// Returns a layout with gaps between the slots.
fn aligned(slots: u32) -> FlowLayout {
    FlowLayout::Grains(picture().with_slot_align(4096), slots)
}

/// Sends whole grains to targets with rings of other lengths. Each grain is verified when it is
/// complete.
fn whole_grains<T: Transport + 'static>(info: &Info<T>, count: u64) {
    let mut world = World::open(info, ring(4), attr());
    world.add(info, ring(4), Release::Keep(1));
    world.add(info, aligned(7), Release::Keep(3));
    for index in 0..count {
        world.write(picture(), index);
        let fanout = world.initiator.send_grain(world.flow, index, 0..24).unwrap();
        assert_eq!(fanout.submitted, 2, "{fanout:?}");
        world.until(|world| world.receivers.iter().all(|receiver| !receiver.events.is_empty()));
        for receiver in &mut world.receivers {
            let flow = receiver.flow;
            assert_eq!(receiver.events.remove(0), TargetEvent::Complete { flow, index });
            receiver.verify(picture(), index, 24);
        }
    }
    world.until(|world| world.initiator.in_progress() == 0);
    assert_eq!(world.ended(), 2 * count as usize);
}

#[test]
fn whole_grains_arrive_in_rings_of_other_lengths_and_alignments() {
    whole_grains(&network().info(), 100);
}

#[cfg(feature = "libfabric")]
#[test]
fn whole_grains_arrive_over_providers_of_libfabric() {
    use loom_core::{Caps, EndpointType};

    for provider in ["shm", "tcp;ofi_rxm"] {
        whole_grains(&crate::protocols::libfabric::info(provider, EndpointType::RDM, Caps::MSG | Caps::RMA), 50);
    }
}

/// Sends slices as they are produced. The valid part is verified at each event, and never
/// decreases.
fn slices(world: &mut World<impl Transport + 'static>, count: u64) {
    for index in 0..count {
        world.write(picture(), index);
        for start in (0..24).step_by(6) {
            let fanout = world.initiator.send_grain(world.flow, index, start..start + 6).unwrap();
            assert_eq!(fanout.submitted, 1, "{fanout:?}");
        }
        let mut valid = 0;
        while valid < 24 {
            world.turn();
            let receiver = &mut world.receivers[0];
            for event in receiver.events.split_off(0) {
                let now = match event {
                    TargetEvent::Slices { index: of, valid, .. } if of == index => valid,
                    TargetEvent::Complete { index: of, .. } if of == index => 24,
                    event => panic!("{event:?} after {valid} slices of {index}"),
                };
                assert!(now > valid, "{now} slices after {valid}");
                valid = now;
                receiver.verify(picture(), index, valid);
            }
        }
    }
}

#[test]
fn slices_become_valid_in_order_while_their_writes_overtake_each_other() {
    for seed in 0..15 {
        let faults = Faults {
            reorder: 7,
            delay: 5,
            refuse: Every::About(4),
            unordered: true,
            narrow_data: true,
            ..Faults::new(seed)
        };
        let (network, mut world) = World::faulty(faults, ring(4));
        world.add(&network.info(), ring(5), Release::Keep(2));
        slices(&mut world, 12);
    }
}

#[test]
fn an_invalid_grain_sends_its_header_alone() {
    let (network, mut world) = World::soft(ring(4));
    world.add(&network.info(), ring(4), Release::Keep(1));
    world.write(picture(), 3);
    assert_eq!(world.initiator.send_invalid(world.flow, 3).unwrap().submitted, 1);
    world.until(|world| !world.receivers[0].events.is_empty());
    let receiver = &world.receivers[0];
    let lapped = TargetEvent::Lapped { flow: receiver.flow, from: 0, to: 3 };
    assert_eq!(receiver.events[0], TargetEvent::Invalid { flow: receiver.flow, index: 3 });
    let grain = receiver.target.grain(receiver.flow, 3).unwrap();
    let mut bytes = [0; 17];
    grain.window.copy_to(0, &mut bytes).unwrap();
    let header: Vec<u8> = (0..16).map(|at| byte(3, at)).collect();
    assert_eq!((&bytes[..16], bytes[16], grain.valid, grain.is_invalid), (&header[..], 0, 0, true));
    world.until(|world| world.receivers[0].events.len() > 1);
    assert_eq!(world.receivers[0].events[1], lapped, "those before it were not sent");
}

#[test]
fn each_grain_is_complete_or_lapped_when_operations_fail() {
    let (mut completed, mut missing) = (0, 0);
    for seed in 0..20 {
        let faults = Faults { fail: Every::About(12), reorder: 3, ..Faults::new(seed) };
        let (network, mut world) = World::faulty(faults, ring(4));
        world.add(&network.info(), ring(6), Release::Keep(2));
        let (mut complete, mut failed, mut detached, mut lapped) = (Vec::new(), 0, 0, Vec::new());
        let mut submitted = 0;
        for index in 0..60 {
            world.write(picture(), index);
            submitted += world.initiator.send_grain(world.flow, index, 0..24).unwrap().submitted;
            for _ in 0..20 {
                world.turn();
                let receiver = &mut world.receivers[0];
                for event in receiver.events.split_off(0) {
                    match event {
                        TargetEvent::Complete { index, .. } => {
                            receiver.verify(picture(), index, 24);
                            complete.push(index);
                        }
                        TargetEvent::Failed { .. } => failed += 1,
                        // A failed message fails its peer.
                        TargetEvent::Attached { .. } => {}
                        TargetEvent::Detached { error: Some(_), .. } => detached += 1,
                        TargetEvent::Lapped { from, to, .. } => lapped.extend(from..to),
                        event => panic!("{event:?}, seed {seed}"),
                    }
                }
            }
        }
        world.until(|world| world.initiator.in_progress() == 0);
        assert_eq!(world.ended(), submitted, "seed {seed}");
        let mut reported = [&complete[..], &lapped].concat();
        reported.sort_unstable();
        assert!(reported.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: {lapped:?} {complete:?}");
        assert!(failed + detached > 0 || lapped.is_empty(), "seed {seed}: {lapped:?}");
        assert!(complete.len() + failed <= submitted, "seed {seed}: {}", complete.len());
        (completed, missing) = (completed + complete.len(), missing + lapped.len());
    }
    assert!(completed > 400 && missing > 40, "{completed} complete, {missing} lapped");
}

#[test]
fn a_target_that_joins_in_the_middle_of_a_grain_reports_it_as_lapped() {
    let (network, mut world) = World::soft(ring(4));
    world.write(picture(), 8);
    assert_eq!(world.initiator.send_grain(world.flow, 8, 0..6).unwrap().submitted, 0);
    world.add(&network.info(), ring(4), Release::Keep(1));
    assert_eq!(world.initiator.send_grain(world.flow, 8, 6..24).unwrap().submitted, 1);
    world.write(picture(), 9);
    assert_eq!(world.initiator.send_grain(world.flow, 9, 0..24).unwrap().submitted, 1);
    world.until(|world| world.receivers[0].events.len() == 2);
    let flow = world.receivers[0].flow;
    let events = [TargetEvent::Complete { flow, index: 9 }, TargetEvent::Lapped { flow, from: 8, to: 9 }];
    assert!(events.iter().all(|event| world.receivers[0].events.contains(event)), "{:?}", world.receivers[0].events);
}
