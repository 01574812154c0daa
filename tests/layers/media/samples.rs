//! Samples: blocks of any length over the ends of rings of other lengths and periods.

use loom_core::soft::{Every, Plan as Faults};
use loom_core::{Info, Transport};
use loom_fabric::loom_core;
use loom_media::{FlowLayout, Release, SampleLayout, TargetEvent};

use super::world::{World, attr, network};

const CHANNELS: u16 = 5;

fn ring(period: u32, len: u32) -> SampleLayout {
    SampleLayout { word: 4, channels: CHANNELS, period, len }
}

/// Samples of a channel, each with its number and its channel.
fn tone(channel: u16, start: u64, count: u32) -> Vec<u8> {
    (start..start + u64::from(count)).flat_map(|at| (at as u32 * 16 + u32::from(channel)).to_le_bytes()).collect()
}

fn blocks<T: Transport + 'static>(world: &mut World<T>, lengths: impl Iterator<Item = u32>) {
    let mut start = 0;
    for count in lengths {
        world.room(start + u64::from(count));
        let samples = world.initiator.samples(world.flow, start, count).unwrap().unwrap();
        for channel in 0..CHANNELS {
            samples.copy_from(channel, start, &tone(channel, start, count)).unwrap();
        }
        let targets = world.receivers.len();
        let fanout = world.initiator.send_samples(world.flow, start, count).unwrap();
        assert_eq!(fanout.submitted, targets, "{fanout:?}");
        world.until(|world| world.receivers.iter().all(|receiver| !receiver.events.is_empty()));
        world.until(|world| world.initiator.in_progress() == 0);
        for receiver in &mut world.receivers {
            let flow = receiver.flow;
            assert_eq!(receiver.events.remove(0), TargetEvent::Samples { flow, start, count });
            let samples = receiver.target.samples(flow).unwrap();
            for channel in 0..CHANNELS {
                let mut bytes = vec![0; 4 * count as usize];
                samples.copy_to(channel, start, &mut bytes).unwrap();
                assert!(bytes == tone(channel, start, count), "channel {channel} of {start}..+{count}");
            }
        }
        start += u64::from(count);
    }
}

fn all_lengths<T: Transport + 'static>(info: &Info<T>) {
    let mut world = World::open(info, FlowLayout::Samples(ring(48, 480)), attr());
    for layout in [ring(48, 480), ring(1024, 1024), ring(48, 960)] {
        world.add(info, FlowLayout::Samples(layout), Release::Keep(240));
    }
    blocks(&mut world, [48, 48, 96, 1, 47, 33, 240, 100, 7, 128, 200].into_iter().cycle().take(60));
}

#[test]
fn blocks_of_any_length_keep_their_channels_over_the_ends_of_all_rings() {
    all_lengths(&network().info());
}

#[cfg(feature = "libfabric")]
#[test]
fn blocks_of_any_length_keep_their_channels_over_providers_of_libfabric() {
    use loom_core::{Caps, EndpointType};

    for provider in ["shm", "tcp;ofi_rxm"] {
        all_lengths(&crate::protocols::libfabric::info(provider, EndpointType::RDM, Caps::MSG | Caps::RMA));
    }
}

#[test]
fn blocks_with_reordered_writes_are_whole_when_they_are_reported() {
    for seed in 0..12 {
        let faults = Faults { reorder: 9, delay: 6, refuse: Every::About(5), unordered: true, ..Faults::new(seed) };
        let (network, mut world) = World::faulty(faults, FlowLayout::Samples(ring(48, 480)));
        world.add(&network.info(), FlowLayout::Samples(ring(480, 480)), Release::Keep(240));
        blocks(&mut world, [48, 30, 66, 200].into_iter().cycle().take(24));
    }
}
