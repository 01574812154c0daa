//! MXL's fabrics over connections: an initiator and targets, over `tcp`.

mod ends;

use std::time::{Duration, Instant};

use loom_core::vocabulary::{EndpointAttributes, EndpointType};
use loom_core::{
    Access, Caps, Cq, CqAttr, Domain as FabricDomain, EndpointAddr, EqAttr, EqEvent, EventQueue, Hints, ImmediateData,
    Info, RemoteRegion, ThePeer,
};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use loom_media::mxl::{
    FabricsAttr, FabricsEvent, FabricsInitiator, FabricsTarget, FlowReader, GrainHeader, Ring, TargetInfo,
};
use loom_media::{FlowLayout, InitiatorEvent, SampleLayout};
use support::posting::LIMIT;

use super::flows::{self, ATTR, GRAIN, grains, reported_once, ring, verify};
use super::{Domain, payload, video};

type T = Ofi<Local>;
type Target<M = Vec<u8>> = FabricsTarget<'static, T, M>;
type Initiator<M = Vec<u8>> = FabricsInitiator<'static, T, M>;

type World<M = Vec<u8>> = flows::World<T, M>;

fn info(service: Option<&str>) -> Info<T> {
    let endpoint_attr = EndpointAttributes::of(EndpointType::MSG);
    let hints = Hints { caps: Caps::RMA, endpoint_attr, service, ..Hints::local("tcp") };
    T::query(&hints).unwrap().next().unwrap()
}

fn fabric() -> FabricDomain<'static, T> {
    FabricDomain::open(&info(None)).unwrap()
}

fn target(slots: u32) -> Target {
    Target::open(&fabric(), ring(&grains(slots)), grains(slots), ATTR).unwrap()
}

fn initiator(slots: u32, attr: FabricsAttr) -> Initiator {
    Initiator::open(&fabric(), ring(&grains(slots)), grains(slots), 0, attr).unwrap()
}

fn header_in_each_slot(header: &GrainHeader) -> Vec<u8> {
    let mut bytes = ring(&grains(5));
    bytes.chunks_exact_mut(GRAIN.len() as usize).for_each(|slot| slot[..28].copy_from_slice(&header.to_bytes()));
    bytes
}

#[test]
fn grains_arrive_whole_in_slices_and_as_headers_in_rings_of_other_lengths() {
    let (mut target, mut world) = (target(7), World::new(initiator(5, ATTR)));
    let key = world.connect(&mut target);
    for index in 100..140 {
        let is_invalid = index % 5 == 3;
        world.write(&mut [&mut target], index, is_invalid);
        let sent = match index % 5 {
            3 => world.initiator.send_invalid(index),
            1 => {
                for (slices, valid) in [(0..4, 4), (4..5, 5)] {
                    assert_eq!(world.initiator.send_grain(index, slices).unwrap().failed, 0);
                    let slices = FabricsEvent::Slices { index, valid };
                    world.until(&mut [&mut target], |world| world.arrived.contains(&slices));
                }
                world.initiator.send_grain(index, 5..17)
            }
            _ => world.initiator.send_grain(index, 0..17),
        };
        assert_eq!(sent.unwrap().connecting, 0);
        let last = if is_invalid { FabricsEvent::Invalid { index } } else { FabricsEvent::Complete { index } };
        world.until(&mut [&mut target], |world| world.arrived.contains(&last));
        if !is_invalid {
            verify(&target, index);
        }
        let grain = target.grain(index).unwrap();
        assert_eq!((grain.is_invalid, grain.valid), (is_invalid, if is_invalid { 0 } else { 17 }));
    }
    world.until(&mut [&mut target], |world| world.initiator.in_progress() == 0);
    let slices = |valid| world.count(FabricsEvent::Slices { index: 101, valid });
    assert_eq!([slices(4), slices(5), slices(17)], [1, 1, 0]);
    let lost = |event: &FabricsEvent| matches!(event, FabricsEvent::Lapped { .. } | FabricsEvent::Rejected { .. });
    assert!(!world.arrived.iter().any(lost), "{:?}", world.arrived);
    let is_ended = |event: &&InitiatorEvent| matches!(event, InitiatorEvent::Ended { result: Ok(()), target, .. } if *target == key);
    assert!(world.ended.iter().filter(is_ended).count() >= 40);
}

#[test]
fn samples_arrive_over_the_ends_of_both_rings() {
    for channels in [1, 2, 64] {
        let of = |len| SampleLayout { word: 4, channels, period: len, len };
        let (from, to) = (of(1500), of(1700));
        let [from, to] = [from, to].map(FlowLayout::Samples);
        let mut target = Target::open(&fabric(), ring(&to), to, ATTR).unwrap();
        let initiator = Initiator::open(&fabric(), ring(&from), from, 5000, ATTR).unwrap();
        let mut world = World::new(initiator);
        world.connect(&mut target);
        let value = |channel: u16, at: u64| ((at as u32) << 8 | u32::from(channel)).to_le_bytes();
        let (mut start, mut expected) = (5000_u64, 5000_u64);
        for count in (0..60).map(|turn| [1, 480, 47, 700][turn % 4]) {
            let samples = world.initiator.samples(start, count).unwrap();
            for channel in 0..channels {
                let bytes: Vec<u8> = (start..start + u64::from(count)).flat_map(|at| value(channel, at)).collect();
                samples.copy_from(channel, start, &bytes).unwrap();
            }
            let _ = world.initiator.send_samples(start, count).unwrap();
            start += u64::from(count);
            while expected < start {
                world.turn(&mut [&mut target]);
                for event in world.arrived.drain(..).filter(|event| *event != FabricsEvent::Attached) {
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

/// Faults 5 and 10 of MXL: data of a slow target is lost without an error. `fabrics::arrivals` has
/// tests of memory that is ahead of the queue.
#[test]
fn a_slow_target_reports_each_grain_once_as_complete_or_lapped() {
    for ends in [&[17][..], &[4, 9, 17]] {
        let (mut target, mut world) = (target(3), World::new(initiator(40, FabricsAttr { transfers: 32, ..ATTR })));
        world.connect(&mut target);
        world.arrived.clear();
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

#[test]
fn a_slow_target_reports_samples_once_as_arrived_or_lapped() {
    let layout = SampleLayout { word: 4, channels: 2, period: 100, len: 100 };
    let attr = FabricsAttr { batch: 20, transfers: 32, ..ATTR };
    let flow = FlowLayout::Samples(layout);
    let mut target = Target::open(&fabric(), ring(&flow), flow, attr).unwrap();
    let mut world = World::new(Initiator::open(&fabric(), ring(&flow), flow, 0, attr).unwrap());
    world.connect(&mut target);
    let mut start = 0;
    for burst in [1, 5, 6, 23, 2] {
        for _ in 0..burst {
            world.initiator.samples(start, 20).unwrap().copy_from(1, start, &[start as u8; 80]).unwrap();
            let _ = world.initiator.send_samples(start, 20).unwrap();
            start += 20;
        }
        let newest = FabricsEvent::Samples { start: start - 20, count: 20 };
        while world.arrived.last() != Some(&newest) {
            let before = world.arrived.len();
            world.turn(&mut [&mut target]);
            if let Some(FabricsEvent::Samples { start, .. }) = world.arrived.get(before) {
                let mut bytes = [0; 80];
                target.samples().unwrap().copy_to(1, *start, &mut bytes).unwrap();
                assert_eq!(bytes, [*start as u8; 80]);
            }
        }
    }
    let (next, arrived, lapped) = reported_once(world.arrived, 0);
    assert_eq!((next, arrived + lapped), (start, start));
}

/// Faults 6 and 11: bad immediate data ends the target, and slices without a header have the index
/// of another grain.
#[test]
fn immediate_data_that_fits_no_grain_is_rejected_and_the_target_goes_on() {
    for from_files in [false, true] {
        immediate_data_is_rejected(from_files);
    }
}

/// Checks that immediate data is rejected. Slots of a flow's files have headers from the beginning,
/// with index 0.
fn immediate_data_is_rejected(from_files: bool) {
    let mut target = target(5);
    if from_files {
        let header = GrainHeader { index: 0, is_invalid: false, grain_size: 6528, total: 17, valid: 0 };
        target = Target::open(&fabric(), header_in_each_slot(&header), grains(5), ATTR).unwrap();
    }
    let domain = fabric();
    let (cq, eq) = (
        Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(16)).unwrap(),
        EventQueue::open(&domain, EqAttr::default()).unwrap(),
    );
    let TargetInfo { fabric_address, regions, .. } = target.info().unwrap();
    let to = EndpointAddr::new(domain.info().attributes().addr_format, &fabric_address).unwrap();
    let mut connecting = Some(cq.msg_endpoint(&eq, domain.info()).unwrap().connect(&to, &[]).unwrap());
    let until = Instant::now() + LIMIT;
    let (mut connection, mut events) = (None, Vec::new());
    while connection.is_none() || events.is_empty() {
        assert!(Instant::now() < until);
        events.extend(target.poll().unwrap());
        if let Some(EqEvent::Connected(event)) = eq.poll().unwrap() {
            connection = connecting.take().and_then(|of| of.established(&event).ok());
        }
    }
    let connection = connection.unwrap();
    let region = |slot: usize| {
        let of = regions[slot];
        RemoteRegion {
            base: loom_core::vocabulary::RemoteAddr(of.addr),
            len: of.len,
            key: loom_core::vocabulary::MemoryKey(of.rkey),
            access: Access::REMOTE_WRITE,
        }
    };
    let header = |index| {
        let header = GrainHeader { index, is_invalid: false, grain_size: 0, total: 17, valid: 17 };
        [&header.to_bytes()[..], &[0; 8192 - 28]].concat()
    };
    let writes = [
        (0, 0, vec![1; 8], 0xffff_ffff),
        (0, 0, vec![1; 8], 5),
        (2, 8192, vec![1; 256], 2 | 9 << 16),
        (0, 8192, vec![1; 256], 17 << 16),
        // Index without a grain.
        (0, 0, header(u64::MAX), 17 << 16),
        // The header of another slot.
        (3, 0, header(2), 3 | 17 << 16),
        (2, 0, header(2), 2 | 18 << 16),
    ];
    for (slot, offset, bytes, data) in writes.clone() {
        let done = cq.post(bytes, until, |bytes| {
            connection.write_data(ThePeer, &region(slot), offset, ImmediateData(data), bytes)
        });
        let done = done.unwrap();
        events.clear();
        while events.is_empty() {
            assert!(Instant::now() < until);
            events.extend(target.poll().unwrap());
            cq.progress().unwrap();
        }
        cq.finish(done, until).unwrap().result().unwrap();
        assert_eq!(events, [FabricsEvent::Rejected { data }]);
    }
    // Its own slot.
    let _ = connection.write_data(ThePeer, &region(2), 8192, ImmediateData(2 | 17 << 16), vec![1; 256]).unwrap();
    events.clear();
    while events.is_empty() {
        assert!(Instant::now() < until);
        events.extend(target.poll().unwrap());
        cq.progress().unwrap();
    }
    assert_eq!(events, [FabricsEvent::Complete { index: 2 }]);
}

#[test]
fn flows_in_shared_memory_are_sent_and_received() {
    let domains = [Domain::new(), Domain::new()];
    let [mut from, mut to] = [&domains[0], &domains[1]].map(|domain| domain.writer(&video()));
    let mut target = Target::<Ring>::open_flow(&fabric(), &to, ATTR).unwrap();
    let reader: FlowReader = domains[0].reader();
    let mut world = World::new(Initiator::<Ring>::open_flow(&fabric(), &reader, 0, ATTR).unwrap());
    world.connect(&mut target);
    for index in 1000..1020 {
        from.grain(index).unwrap().copy_from(8192, &payload(index)).unwrap();
        from.commit_grain(index, 17, false).unwrap();
        world.until(&mut [&mut target], |world| world.initiator.in_progress() == 0);
        let _ = world.initiator.send_grain(index, 0..17).unwrap();
        world.until(&mut [&mut target], |world| world.count(FabricsEvent::Complete { index }) == 1);
        to.commit_grain(index, 17, false).unwrap();
        let mut slot = vec![0; super::SLOT];
        let header = domains[1].reader().read_grain(index, 17, &mut slot, Duration::ZERO).unwrap();
        assert_eq!((header.index, header.valid, &slot[8192..]), (index, 17, &payload(index)[..]));
    }
    drop((world, target));
}

#[test]
fn targets_of_other_flows_providers_and_addresses_are_refused() {
    let target = target(5);
    let mut initiator = initiator(5, ATTR);
    let info = target.info().unwrap();
    let other = |change: fn(&mut TargetInfo)| {
        let mut info = info.clone();
        change(&mut info);
        info
    };
    let refused = [
        other(|info| info.provider = "verbs".into()),
        other(|info| info.address_format = 1),
        other(|info| info.regions.iter_mut().for_each(|region| region.len += 1)),
        other(|info| info.regions.clear()),
    ];
    for info in refused {
        assert!(initiator.add_target(info).is_err());
    }
    // As JSON, too.
    initiator.add_target(TargetInfo::parse(&info.to_string()).unwrap()).unwrap();
    assert!(initiator.add_target(info).is_err(), "it was added");
    let refused = Target::open_connectionless(&fabric(), ring(&grains(3)), grains(3), ATTR);
    assert!(refused.is_err(), "the endpoints have connections");
}
