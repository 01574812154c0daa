//! MXL's fabrics over connectionless endpoints: the software transport, with and without order of
//! writes, and `shm`.

mod queues;

use std::time::Instant;

use loom_core::soft::{Every, Network, Plan as Faults, RequiredModes};
use loom_core::{
    Access, Av, Cq, CqAttr, Domain as FabricDomain, EndpointAddr, ImmediateData, Info, RemoteRegion, Transport,
};
use loom_fabric::loom_core;
use loom_media::mxl::{FabricsAttr, FabricsEvent, FabricsInitiator, FabricsTarget, GrainHeader, TargetInfo};
use loom_media::{FlowLayout, InitiatorEvent, SampleLayout, TargetKey, TargetStatus};
use support::posting::LIMIT;

use super::super::world::network;
use super::flows::{ATTR, GRAIN, World, fill, grains, reported_once, ring, verify};

/// Declares a test that runs over each transport.
macro_rules! over_each {
    ($(#[$attr:meta])* $name:ident, $test:ident) => {
        $(#[$attr])*
        #[test]
        fn $name() {
            over_soft(&[Faults::new(1), UNORDERED, REORDERED, CONSUMING], |info| $test(info));
            #[cfg(feature = "libfabric")]
            $test(&shm());
        }
    };
}

const UNORDERED: Faults = Faults { unordered: true, ..Faults::new(2) };
/// Fault 4: each write with immediate data consumes a receive.
const CONSUMING: Faults = Faults { required: RequiredModes::RX_CQ_DATA, ..Faults::new(4) };
const REORDERED: Faults = Faults { reorder: 9, refuse: Every::Nth(5), ..Faults::new(3) };

fn over_soft(faults: &[Faults], test: impl Fn(&Info<loom_core::soft::Soft<'static>>)) {
    for faults in faults {
        let network: Network<'static> = network();
        test(&network.info_with_faults(*faults));
    }
}

#[cfg(feature = "libfabric")]
fn shm() -> Info<loom_fabric::ofi::Ofi<loom_fabric::ofi::Local>> {
    support::shared_memory::remove_at_exit();
    let hints = loom_core::Hints { provider: Some("shm"), caps: loom_core::Caps::RMA, ..loom_core::Hints::default() };
    loom_fabric::ofi::Ofi::query(&hints).unwrap().next().unwrap()
}

fn domain<T: Transport + 'static>(info: &Info<T>) -> FabricDomain<'static, T> {
    FabricDomain::open(info).unwrap()
}

fn target<T: Transport + 'static>(info: &Info<T>, slots: u32) -> FabricsTarget<'static, T, Vec<u8>> {
    FabricsTarget::open_connectionless(&domain(info), ring(&grains(slots)), grains(slots), ATTR).unwrap()
}

fn world<T: Transport + 'static>(info: &Info<T>, slots: u32, attr: FabricsAttr) -> World<T, Vec<u8>> {
    let initiator =
        FabricsInitiator::open_connectionless(&domain(info), ring(&grains(slots)), grains(slots), 0, attr).unwrap();
    World::new(initiator)
}

over_each!(grains_arrive_whole_in_slices_and_as_headers, grains_arrive);

fn grains_arrive<T: Transport + 'static>(info: &Info<T>) {
    let (mut target, mut world) = (target(info, 7), world(info, 5, ATTR));
    let key = world.reach(&mut target);
    for index in 100..140 {
        let is_invalid = index % 5 == 3;
        world.write(&mut [&mut target], index, is_invalid);
        let slices: &[_] = match index % 5 {
            1 => &[(0, 4), (4, 5), (5, 17)],
            2 => &[(0, 16), (16, 17)],
            _ => &[(0, 17)],
        };
        for &(start, end) in slices {
            let sent = if is_invalid {
                world.initiator.send_invalid(index)
            } else {
                world.initiator.send_grain(index, start..end)
            };
            assert_eq!(sent.map(|sent| sent.submitted + sent.deferred), Ok(1));
            let event = match end {
                _ if is_invalid => FabricsEvent::Invalid { index },
                17 => FabricsEvent::Complete { index },
                valid => FabricsEvent::Slices { index, valid },
            };
            world.until(&mut [&mut target], |world| world.arrived.contains(&event));
        }
        let grain = target.grain(index).unwrap();
        assert_eq!((grain.is_invalid, grain.valid), (is_invalid, if is_invalid { 0 } else { 17 }));
        if !is_invalid {
            verify(&target, index);
        }
    }
    world.until(&mut [&mut target], |world| world.initiator.in_progress() == 0);
    let lost = |event: &FabricsEvent| matches!(event, FabricsEvent::Lapped { .. } | FabricsEvent::Rejected { .. });
    assert!(!world.arrived.iter().any(lost), "{:?}", world.arrived);
    let failed = |event: &InitiatorEvent| matches!(event, InitiatorEvent::Ended { result: Err(_), .. });
    assert!(!world.ended.iter().any(failed), "{:?}", world.ended);
    assert_eq!(world.initiator.status(key), Some(TargetStatus::Ready));
}

over_each!(
    /// Slices of a burst of grains, of which the writes of two planes overtake each other.
    bursts_of_slices_arrive_whole_and_in_order,
    bursts_arrive
);

fn bursts_arrive<T: Transport + 'static>(info: &Info<T>) {
    let (mut target, mut world) = (target(info, 30), world(info, 30, ATTR));
    world.reach(&mut target);
    let mut checked = 0;
    for burst in 1..=5 {
        for index in checked..5 * burst {
            world.write(&mut [], index, false);
            for slices in [0..4, 4..9, 9..17] {
                let _ = world.initiator.send_grain(index, slices).unwrap();
            }
        }
        while checked < 5 * burst {
            world.turn(&mut [&mut target]);
            for event in core::mem::take(&mut world.arrived) {
                match event {
                    FabricsEvent::Slices { index, valid } => {
                        let mut bytes = vec![0; usize::from(valid) * 256];
                        target.grain(index).unwrap().window.copy_to(8192, &mut bytes).unwrap();
                        assert!(bytes.iter().enumerate().all(|(at, of)| *of == super::flows::byte(index, at)));
                    }
                    FabricsEvent::Complete { index } => {
                        assert_eq!(index, checked);
                        verify(&target, index);
                        checked += 1;
                    }
                    event => panic!("{event:?}"),
                }
            }
        }
    }
}

over_each!(
    /// Faults 4 and 22: one receive, and one completion for each call.
    a_burst_without_polls_between_ends_in_one_poll,
    burst_ends
);

fn burst_ends<T: Transport + 'static>(info: &Info<T>) {
    let (mut target, mut world) = (target(info, 20), world(info, 20, FabricsAttr { transfers: 16, ..ATTR }));
    world.reach(&mut target);
    for burst in 0..3 {
        let indices = 16 * burst..16 * (burst + 1);
        for index in indices.clone() {
            world.write(&mut [], index, false);
            let _ = world.initiator.send_grain(index, 0..17).unwrap();
        }
        let last = FabricsEvent::Complete { index: indices.end - 1 };
        world.until(&mut [&mut target], |world| world.count(last) == 1);
        indices.clone().for_each(|index| assert_eq!(world.count(FabricsEvent::Complete { index }), 1));
    }
}

over_each!(samples_arrive_over_the_ends_of_both_rings, samples_arrive);

fn samples_arrive<T: Transport + 'static>(info: &Info<T>) {
    for channels in [1, 64] {
        let [from, to] =
            [1500, 1700].map(|len| FlowLayout::Samples(SampleLayout { word: 4, channels, period: len, len }));
        let mut target = FabricsTarget::open_connectionless(&domain(info), ring(&to), to, ATTR).unwrap();
        let initiator = FabricsInitiator::open_connectionless(&domain(info), ring(&from), from, 5000, ATTR).unwrap();
        let mut world = World::new(initiator);
        world.reach(&mut target);
        let value = |channel: u16, at: u64| ((at as u32) << 8 | u32::from(channel)).to_le_bytes();
        let (mut start, mut expected) = (5000_u64, 5000_u64);
        for count in (0..30).map(|turn| [1, 480, 47, 700][turn % 4]) {
            let samples = world.initiator.samples(start, count).unwrap();
            for channel in 0..channels {
                let bytes: Vec<u8> = (start..start + u64::from(count)).flat_map(|at| value(channel, at)).collect();
                samples.copy_from(channel, start, &bytes).unwrap();
            }
            let _ = world.initiator.send_samples(start, count).unwrap();
            start += u64::from(count);
            while expected < start {
                world.turn(&mut [&mut target]);
                for event in world.arrived.drain(..) {
                    let FabricsEvent::Samples { start, count } = event else { panic!("{event:?}") };
                    assert_eq!(start, expected);
                    expected += u64::from(count);
                    for channel in 0..channels {
                        let mut bytes = vec![0; 4 * count as usize];
                        target.samples().unwrap().copy_to(channel, start, &mut bytes).unwrap();
                        let wanted: Vec<u8> = (start..expected).flat_map(|at| value(channel, at)).collect();
                        assert_eq!(bytes, wanted);
                    }
                }
            }
        }
        world.until(&mut [&mut target], |world| world.initiator.in_progress() == 0);
    }
}

over_each!(two_initiators_send_to_one_target, two_initiators);

fn two_initiators<T: Transport + 'static>(info: &Info<T>) {
    let (mut target, mut worlds) = (target(info, 7), [world(info, 5, ATTR), world(info, 5, ATTR)]);
    for world in &mut worlds {
        world.reach(&mut target);
    }
    let mut arrived = Vec::new();
    let until = Instant::now() + LIMIT;
    let [first, second] = &mut worlds;
    for index in 0..60 {
        // In turn, then both send each grain.
        let senders: &mut [_] =
            if index % 2 == 0 || index >= 40 { &mut [&mut *first, &mut *second] } else { &mut [&mut *second] };
        let count = if index < 40 { 1 } else { 2 };
        for world in senders.iter_mut().take(count) {
            world.write(&mut [&mut target], index, false);
            let _ = world.initiator.send_grain(index, 0..17).unwrap();
        }
        while senders.iter().any(|world| world.initiator.in_progress() > 0)
            || !arrived.contains(&FabricsEvent::Complete { index })
        {
            for world in senders.iter_mut() {
                world.turn::<Vec<u8>>(&mut []);
                arrived.append(&mut world.arrived);
            }
            arrived.extend(target.poll().unwrap());
            assert!(Instant::now() < until, "{arrived:?}");
        }
        verify(&target, index);
    }
    let complete: Vec<_> =
        arrived.iter().filter(|event| matches!(event, FabricsEvent::Complete { .. })).copied().collect();
    assert_eq!(complete, (0..60).map(|index| FabricsEvent::Complete { index }).collect::<Vec<_>>());
    // Grains that the other one has sent.
    let others = arrived.iter().filter(|event| !matches!(event, FabricsEvent::Complete { .. }));
    assert!(others.clone().all(|event| matches!(event, FabricsEvent::Rejected { .. })), "{arrived:?}");
    assert!(others.count() <= 20);
}

over_each!(targets_are_removed_and_added_while_others_receive, removed_and_added);

fn removed_and_added<T: Transport + 'static>(info: &Info<T>) {
    let (mut stays, mut goes) = (target(info, 5), target(info, 5));
    let mut world = world(info, 5, ATTR);
    world.reach(&mut stays);
    for turn in 0..4 {
        let key = world.reach(&mut goes);
        for index in 10 * turn..10 * turn + 8 {
            world.arrived.clear();
            world.write(&mut [&mut stays, &mut goes], index, false);
            let _ = world.initiator.send_grain(index, 0..17).unwrap();
            world.until(&mut [&mut stays, &mut goes], |world| world.count(FabricsEvent::Complete { index }) == 2);
            verify(&stays, index);
            verify(&goes, index);
        }
        world.initiator.remove_target(key).unwrap();
        world.until(&mut [&mut stays, &mut goes], |world| {
            world.ended.contains(&InitiatorEvent::Removed { target: key })
        });
        assert_eq!(world.initiator.status(key), None);
        let index = 10 * turn + 8;
        world.write(&mut [&mut stays], index, false);
        let sent = world.initiator.send_grain(index, 0..17).unwrap();
        assert_eq!(sent.submitted + sent.deferred, 1);
        world.arrived.clear();
        world.until(&mut [&mut stays, &mut goes], |world| {
            world.count(FabricsEvent::Complete { index }) == 1 && world.initiator.in_progress() == 0
        });
    }
}

over_each!(
    /// Fault 14: a removal drops writes in flight, also their outcomes.
    a_target_that_is_removed_under_load_has_each_grain_that_ends_well,
    removed_under_load
);

fn removed_under_load<T: Transport + 'static>(info: &Info<T>) {
    let (mut target, mut world) = (target(info, 9), world(info, 9, FabricsAttr { transfers: 8, ..ATTR }));
    let key = world.reach(&mut target);
    for index in 0..8 {
        world.write(&mut [], index, false);
        let _ = world.initiator.send_grain(index, 0..17).unwrap();
    }
    world.initiator.remove_target(key).unwrap();
    world.ended.clear();
    world.until(&mut [&mut target], |world| world.ended.contains(&InitiatorEvent::Removed { target: key }));
    let (mut sent, mut passed) = (Vec::new(), 0);
    for event in &world.ended {
        match *event {
            InitiatorEvent::Ended { start, result: Ok(()), .. } => sent.push(start),
            InitiatorEvent::Passed { from, to, .. } => passed += to - from,
            InitiatorEvent::Removed { .. } => {}
            event => panic!("{event:?}"),
        }
    }
    assert_eq!(sent.len() as u64 + passed, 8, "{:?}", world.ended);
    let complete =
        |world: &World<T, _>| sent.iter().all(|index| world.count(FabricsEvent::Complete { index: *index }) == 1);
    world.until(&mut [&mut target], complete);
    assert_eq!(world.arrived.len(), sent.len(), "{:?}", world.arrived);
}

const BOUNDED: FabricsAttr = FabricsAttr { connect: 100_000_000, retry: 0, ..ATTR };

/// Sends to a target that does not answer, beside one that does.
fn ends_in_time<T: Transport + 'static>(
    world: &mut World<T, Vec<u8>>,
    missing: TargetKey,
    runs: &mut FabricsTarget<'static, T, Vec<u8>>,
    from: u64,
) {
    world.ended.clear();
    let failed = |world: &World<T, Vec<u8>>| matches!(world.initiator.status(missing), Some(TargetStatus::Failed(_)));
    let mut index = from;
    while !failed(world) || index < from + 20 {
        world.write(&mut [&mut *runs], index, false);
        let _ = world.initiator.send_grain(index, 0..17).unwrap();
        world.until(&mut [&mut *runs], |world| world.count(FabricsEvent::Complete { index }) == 1);
        verify(runs, index);
        index += 1;
        if index > from + 3 {
            world.until(&mut [&mut *runs], failed);
        }
    }
    world.initiator.remove_target(missing).unwrap();
    world.until(&mut [&mut *runs], |world| world.ended.contains(&InitiatorEvent::Removed { target: missing }));
    world.until(&mut [&mut *runs], |world| world.initiator.in_progress() == 0);
}

over_each!(an_unknown_address_fails_in_time_and_delays_no_other, unknown_address);

fn unknown_address<T: Transport + 'static>(info: &Info<T>) {
    let (mut runs, gone) = (target(info, 5), target(info, 5));
    let mut world = world(info, 40, BOUNDED);
    world.reach(&mut runs);
    let mut unknown = gone.info().unwrap();
    let digit = unknown.fabric_address.iter_mut().rev().find(|byte| byte.is_ascii_digit()).unwrap();
    *digit = if *digit == b'9' { b'8' } else { b'9' };
    let key = world.initiator.add_target(unknown).unwrap();
    ends_in_time(&mut world, key, &mut runs, 0);
    let report =
        |event: &InitiatorEvent| matches!(event, InitiatorEvent::Target { target, result: Err(_) } if *target == key);
    assert!(world.ended.iter().any(report), "{:?}", world.ended);
}

over_each!(a_target_that_goes_away_fails_in_time_and_delays_no_other, goes_away);

fn goes_away<T: Transport + 'static>(info: &Info<T>) {
    let (mut runs, mut gone) = (target(info, 5), target(info, 5));
    let mut world = world(info, 40, BOUNDED);
    world.reach(&mut runs);
    let key = world.reach(&mut gone);
    for index in 0..3 {
        world.write(&mut [], index, false);
        let _ = world.initiator.send_grain(index, 0..17).unwrap();
    }
    world.until(&mut [&mut runs, &mut gone], |world| world.arrived.contains(&FabricsEvent::Complete { index: 0 }));
    drop(gone);
    ends_in_time(&mut world, key, &mut runs, 3);
    let ended =
        world.ended.iter().filter(|event| matches!(event, InitiatorEvent::Ended { target, .. } if *target == key));
    assert!(ended.count() >= 1, "{:?}", world.ended);
}

/// Writes of the software transport complete without their target. Over `shm`, those in flight keep
/// their slots.
#[cfg(feature = "libfabric")]
#[test]
fn a_target_that_hangs_goes_on_after_its_failure() {
    let info = &shm();
    let (mut runs, mut hung) = (target(info, 5), target(info, 5));
    let mut world = world(info, 5, FabricsAttr { retry: 1, ..BOUNDED });
    world.reach(&mut runs);
    let key = world.reach(&mut hung);
    world.write(&mut [], 0, false);
    let _ = world.initiator.send_grain(0, 0..17).unwrap();
    let is_failed =
        |event: &InitiatorEvent| matches!(event, InitiatorEvent::Target { target, result: Err(_) } if *target == key);
    world.until(&mut [&mut runs], |world| world.ended.iter().any(is_failed));
    // It answers again.
    let mut index = 1;
    world.arrived.clear();
    let mut arrived = Vec::new();
    while !arrived.iter().any(|event| matches!(event, FabricsEvent::Complete { index } if *index > 0)) {
        if let Some(slot) = world.initiator.grain(index).unwrap() {
            fill(slot, index, false);
            let _ = world.initiator.send_grain(index, 0..17).unwrap();
            index += 1;
        }
        world.turn(&mut [&mut runs]);
        while let Some(event) = hung.poll().unwrap() {
            if let FabricsEvent::Complete { index } = event {
                verify(&hung, index);
            }
            arrived.push(event);
        }
    }
}

over_each!(a_slow_target_reports_each_grain_once_as_complete_or_lapped, slow);

fn slow<T: Transport + 'static>(info: &Info<T>) {
    for ends in [&[17][..], &[4, 9, 17]] {
        let (mut target, mut world) = (target(info, 3), world(info, 40, FabricsAttr { transfers: 32, ..ATTR }));
        world.reach(&mut target);
        let mut index = 0;
        for burst in [1, 3, 4, 11, 30, 2, 1] {
            for _ in 0..burst {
                world.write(&mut [], index, false);
                for (start, end) in [0].iter().chain(ends).zip(ends) {
                    let _ = world.initiator.send_grain(index, *start..*end).unwrap();
                }
                index += 1;
            }
            let newest = FabricsEvent::Complete { index: index - 1 };
            while world.arrived.last() != Some(&newest) {
                world.turn(&mut [&mut target]);
                if let Some(FabricsEvent::Complete { index }) = world.arrived.last() {
                    verify(&target, *index);
                }
            }
        }
        let (next, arrived, lapped) = reported_once(world.arrived, 0);
        assert_eq!((next, arrived + lapped), (index, index));
    }
}

over_each!(bad_immediate_data_is_rejected_and_numbers_begin_anew, bad_data);

fn bad_data<T: Transport + 'static>(info: &Info<T>) {
    let mut target = target(info, 5);
    let domain = domain(info);
    let (av, cq) = (Av::open(&domain, 1).unwrap(), Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(16)).unwrap());
    let endpoint = cq.endpoint(&av).unwrap();
    let TargetInfo { fabric_address, regions, .. } = target.info().unwrap();
    let address = EndpointAddr::new(domain.info().attributes().addr_format, &fabric_address).unwrap();
    let peer = av.insert(&address).unwrap();
    let header = |index| {
        let header = GrainHeader { index, is_invalid: false, grain_size: 0, total: 17, valid: 17 };
        [&header.to_bytes()[..], &vec![0; GRAIN.len() as usize - 28]].concat()
    };
    let until = Instant::now() + LIMIT;
    let write = |target: &mut FabricsTarget<'static, T, Vec<u8>>, slot: usize, offset, bytes, data: u64| {
        let of = regions[slot];
        let region = RemoteRegion {
            base: loom_core::vocabulary::RemoteAddr(of.addr),
            len: of.len,
            key: loom_core::vocabulary::MemoryKey(of.rkey),
            access: Access::REMOTE_WRITE,
        };
        let (mut bytes, mut key, mut event) = (Some(bytes), None, None);
        while key.is_none() || event.is_none() {
            assert!(Instant::now() < until);
            // The target's polls make room.
            event = event.or(target.poll().unwrap());
            if let Some(refused) = bytes.take() {
                match endpoint.write_data(peer, &region, offset, ImmediateData(data), refused) {
                    Ok(posted) => key = Some(posted),
                    Err(rejected) => bytes = Some(rejected.value),
                }
            }
            cq.progress().unwrap();
        }
        cq.finish(key.unwrap(), until).unwrap().result().unwrap();
        event.unwrap()
    };
    for (slot, offset, bytes, data) in [
        (0, 0, vec![1; 8], 0xffff_ffff),
        (0, 0, vec![1; 8], 5),
        // Slices without the header of their grain.
        (2, 8192, vec![1; 256], 2 | 9 << 16),
        (0, 0, header(u64::MAX), 17 << 16),
        (3, 0, header(2), 3 | 17 << 16),
        (2, 0, header(2), 2 | 18 << 16),
    ] {
        assert_eq!(write(&mut target, slot, offset, bytes, data), FabricsEvent::Rejected { data });
    }
    let complete = |index| FabricsEvent::Complete { index };
    assert_eq!(write(&mut target, 2, 0, header(12), 2 | 17 << 16), complete(12));
    // A grain that has arrived, and an earlier one.
    for (slot, index) in [(2, 12), (1, 11)] {
        let data = slot as u64 | 17 << 16;
        assert_eq!(write(&mut target, slot, 0, header(index), data), FabricsEvent::Rejected { data });
    }
    target.disconnect();
    assert_eq!(target.poll(), Ok(Some(FabricsEvent::Detached { error: None })));
    assert_eq!(target.poll(), Ok(None));
    assert_eq!(write(&mut target, 1, 0, header(1), 1 | 17 << 16), complete(1));
}

over_each!(targets_of_other_flows_providers_and_addresses_are_refused, refused);

fn refused<T: Transport + 'static>(info: &Info<T>) {
    let target = target(info, 5);
    let mut world = world(info, 5, BOUNDED);
    let found = target.info().unwrap();
    assert_eq!(found.address_format, 9);
    let other = |change: fn(&mut TargetInfo)| {
        let mut info = found.clone();
        change(&mut info);
        info
    };
    for info in [
        other(|info| info.provider = "efa".into()),
        other(|info| info.address_format = 12),
        other(|info| info.fabric_address.clear()),
        other(|info| info.fabric_address = vec![b'1'; 513]),
        other(|info| info.regions.iter_mut().for_each(|region| region.len += 1)),
    ] {
        assert!(world.initiator.add_target(info).is_err());
    }
    // Text that names no endpoint.
    let key = world.initiator.add_target(other(|info| info.fabric_address = b"no\0name".into())).unwrap();
    world.until::<Vec<u8>>(&mut [], |world| world.initiator.status(key) != Some(TargetStatus::Connecting));
    world.write(&mut [], 0, false);
    let _ = world.initiator.send_grain(0, 0..17).unwrap();
    world.until::<Vec<u8>>(&mut [], |world| matches!(world.initiator.status(key), Some(TargetStatus::Failed(_))));
    world.initiator.remove_target(key).unwrap();
    world.until::<Vec<u8>>(&mut [], |world| world.ended.contains(&InitiatorEvent::Removed { target: key }));
    let parsed = TargetInfo::parse(&found.to_string()).unwrap();
    world.initiator.add_target(parsed).unwrap();
    assert!(world.initiator.add_target(found).is_err(), "it was added");
}

#[cfg(feature = "libfabric")]
#[test]
fn one_constructor_takes_both_types_of_endpoints() {
    let domains = [super::Domain::new(), super::Domain::new()];
    let [mut from, mut to] = [&domains[0], &domains[1]].map(|domain| domain.writer(&super::video()));
    let fabric = domain(&shm());
    let mut target = FabricsTarget::open_flow(&fabric, &to, ATTR).unwrap();
    let initiator = FabricsInitiator::open_flow(&fabric, &domains[0].reader(), 0, ATTR).unwrap();
    let mut world = World::new(initiator);
    world.reach(&mut target);
    for index in 1000..1020 {
        from.grain(index).unwrap().copy_from(8192, &super::payload(index)).unwrap();
        from.commit_grain(index, 17, false).unwrap();
        world.until(&mut [&mut target], |world| world.initiator.in_progress() == 0);
        let _ = world.initiator.send_grain(index, 0..17).unwrap();
        world.until(&mut [&mut target], |world| world.count(FabricsEvent::Complete { index }) == 1);
        to.commit_grain(index, 17, false).unwrap();
        let mut slot = vec![0; super::SLOT];
        domains[1].reader().read_grain(index, 17, &mut slot, core::time::Duration::ZERO).unwrap();
        assert_eq!(slot[8192..], super::payload(index));
    }
}

/// Faults 16 and 18: states without their endpoint, and objects that stay. The network has few
/// endpoints and regions.
#[test]
fn a_thousand_targets_and_initiators_are_opened_and_closed() {
    over_soft(&[Faults { reorder: 3, ..Faults::new(1) }], |info| {
        for cycle in 0..1000 {
            let (mut target, mut world) = (target(info, 3), world(info, 3, ATTR));
            if cycle % 5 > 0 {
                world.reach(&mut target);
                world.write(&mut [], 0, false);
                let _ = world.initiator.send_grain(0, 0..17).unwrap();
            }
            match cycle % 5 {
                // The other way round, with writes in flight.
                2 => drop((world, target)),
                3 => drop((target, world)),
                4 => world
                    .until(&mut [&mut target], |world| world.arrived.contains(&FabricsEvent::Complete { index: 0 })),
                _ => {}
            }
        }
    });
}
