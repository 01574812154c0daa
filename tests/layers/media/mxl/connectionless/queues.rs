//! Depths of queues: bursts, streams and overruns.

use std::time::Instant;

use loom_core::soft::{Every, Network, Plan as Faults, RequiredModes};
use loom_fabric::loom_core;
use loom_media::mxl::{FabricsAttr, FabricsEvent};
use loom_media::{InitiatorEvent, Rate, Stream, TargetStatus};
use support::posting::LIMIT;

use super::super::super::world::network;
use super::super::flows::{ATTR, fill, grains, verify};
use super::{BOUNDED, over_soft, target, world};

/// Fault 22: one completion for each call.
#[test]
fn one_poll_completes_a_burst() {
    over_soft(&[Faults::new(1)], |info| {
        let (mut target, mut world) = (target(info, 9), world(info, 9, FabricsAttr { transfers: 8, ..ATTR }));
        let key = world.initiator.add_target(target.info().unwrap()).unwrap();
        world.turn::<Vec<u8>>(&mut []);
        assert_eq!(world.initiator.status(key), Some(TargetStatus::Ready));
        for index in 0..8 {
            world.write(&mut [], index, false);
            assert_eq!(world.initiator.send_grain(index, 0..17).unwrap().submitted, 1);
        }
        assert_eq!(world.initiator.in_progress(), 8);
        world.turn::<Vec<u8>>(&mut []);
        assert_eq!(world.initiator.in_progress(), 0);
        world.until(&mut [&mut target], |world| world.count(FabricsEvent::Complete { index: 7 }) == 1);
    });
}

/// Two grains in two parts of two planes between two polls.
#[test]
fn depths_of_a_stream_take_all_its_transfers_between_two_polls() {
    let attr = FabricsAttr::for_stream(&Stream { layout: grains(9), rate: Rate::new(50, 1), part: 9 }, 2, 20_000_000);
    assert_eq!((attr.targets, attr.transfers, attr.depth), (2, 4, 18));
    over_soft(&[Faults::new(1)], |info| {
        let (mut targets, mut world) = ([target(info, 9), target(info, 9)], world(info, 9, attr));
        targets.iter_mut().for_each(|target| _ = world.reach(target));
        for first in (0..20).step_by(2) {
            for index in first..first + 2 {
                world.write(&mut [], index, false);
                for slices in [0..9, 9..17] {
                    let fanout = world.initiator.send_grain(index, slices).unwrap();
                    assert_eq!((fanout.submitted, fanout.deferred), (2, 0), "grain {index}");
                }
            }
            let [left, right] = &mut targets;
            let last = FabricsEvent::Complete { index: first + 1 };
            world.until(&mut [left, right], |world| world.count(last) == 2 && world.initiator.in_progress() == 0);
            // Each turn has one event.
            (0..8).for_each(|_| world.turn::<Vec<u8>>(&mut []));
        }
    });
}

fn overrun(nth: u32, required: RequiredModes) -> Faults {
    Faults { overrun: Every::Nth(nth), required, ..Faults::new(nth.into()) }
}

fn is_overrun(error: loom_core::Error) -> bool {
    format!("{error:#}").contains("EOVERRUN")
}

#[test]
fn a_target_that_overruns_its_queue_reports_it_and_delays_no_other() {
    for nth in [1, 4, 9] {
        let network: Network<'static> = network();
        // Receives that writes consume are its operations.
        let faulty = network.info_with_faults(overrun(nth, RequiredModes::RX_CQ_DATA));
        let (mut runs, mut fails) = (target(&network.info(), 40), target(&faulty, 40));
        let mut world = world(&network.info(), 40, BOUNDED);
        world.reach(&mut runs);
        let key = world.reach(&mut fails);
        let mut found = None;
        for index in 0..30 {
            world.write(&mut [&mut runs], index, false);
            let _ = world.initiator.send_grain(index, 0..17).unwrap();
            world.until(&mut [&mut runs], |world| world.count(FabricsEvent::Complete { index }) == 1);
            verify(&runs, index);
            while found.is_none() {
                match fails.poll() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => found = Some(error),
                }
            }
        }
        assert!(found.is_some_and(is_overrun), "{found:?}");
        assert!(fails.poll().is_err_and(is_overrun), "each poll reports it");
        drop(fails);
        world.initiator.remove_target(key).unwrap();
        world.until(&mut [&mut runs], |world| world.ended.contains(&InitiatorEvent::Removed { target: key }));
        world.until(&mut [&mut runs], |world| world.initiator.in_progress() == 0);
        let mut next = target(&network.info(), 40);
        world.reach(&mut next);
        for index in 30..35 {
            world.arrived.clear();
            world.write(&mut [&mut runs, &mut next], index, false);
            let _ = world.initiator.send_grain(index, 0..17).unwrap();
            world.until(&mut [&mut runs, &mut next], |world| world.count(FabricsEvent::Complete { index }) == 2);
            verify(&next, index);
        }
    }
}

#[test]
fn an_initiator_that_overruns_its_queue_reports_it_and_another_goes_on() {
    for nth in [1, 4, 9] {
        let network: Network<'static> = network();
        let mut target = target(&network.info(), 5);
        let faulty = network.info_with_faults(overrun(nth, RequiredModes::empty()));
        let mut fails = world(&faulty, 5, ATTR);
        fails.reach(&mut target);
        let (mut index, mut complete) = (0, Vec::new());
        let until = Instant::now() + LIMIT;
        let error = loop {
            assert!(index < 30 && Instant::now() < until, "{complete:?}");
            match fails.initiator.grain(index) {
                Ok(Some(slot)) => {
                    fill(slot, index, false);
                    let _ = fails.initiator.send_grain(index, 0..17).unwrap();
                    index += 1;
                }
                Ok(None) => {}
                Err(error) => break error,
            }
            if let Err(error) = fails.initiator.poll(0) {
                break error;
            }
            while let Some(event) = target.poll().unwrap() {
                let FabricsEvent::Complete { index } = event else { panic!("{event:?}") };
                verify(&target, index);
                complete.push(index);
            }
        };
        assert!(is_overrun(error), "{error}");
        drop(fails);
        // Those that had arrived.
        while let Some(event) = target.poll().unwrap() {
            let FabricsEvent::Complete { index } = event else { panic!("{event:?}") };
            complete.push(index);
        }
        assert_eq!(complete, (0..complete.len() as u64).collect::<Vec<_>>());
        let mut world = world(&network.info(), 5, ATTR);
        world.reach(&mut target);
        for index in index..index + 8 {
            world.write(&mut [&mut target], index, false);
            let _ = world.initiator.send_grain(index, 0..17).unwrap();
            world.until(&mut [&mut target], |world| world.count(FabricsEvent::Complete { index }) == 1);
            verify(&target, index);
        }
    }
}
