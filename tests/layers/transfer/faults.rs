//! Fault plans: writes out of order, early news, refusals, failed and lost completions.

use std::time::Instant;

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Every, Plan as Faults, RequiredModes};
use loom_core::{Access, CqError, Errno, Error, scope};
use loom_fabric::loom_core;
use loom_transfer::{Block, Ending, Engine, EngineAttr, Event, Pages, Plan, Request, Wait};
use support::posting::{LIMIT, pattern};

use super::sides::{AnyPlan, Sides, block, faulty, moved, network, rails, small};

fn pages() -> AnyPlan {
    AnyPlan::Pages(Pages::new((0..60).collect(), (0..60).rev().collect(), 1000).unwrap())
}

#[test]
fn when_the_count_is_reached_every_byte_has_arrived_in_any_order() {
    for seed in 0..40 {
        let faults = Faults {
            reorder: 7,
            delay: 5,
            refuse: Every::About(3),
            unordered: true,
            narrow_data: true,
            ..Faults::new(seed)
        };
        // Writes of every other seed consume receives.
        let (required, remote_writes) = match seed % 4 {
            1 => (RequiredModes::RX_CQ_DATA, 1),
            3 => (RequiredModes::RX_CQ_DATA, 4),
            _ => (RequiredModes::empty(), 256),
        };
        let (count, network) = (1 + seed as usize / 4 % 4, network());
        let here = rails(&network.info_with_faults(Faults { required, ..faults }), count);
        let there = rails(&network.info_requiring(required), count);
        let attr = EngineAttr { piece: 300, batch: 1 + seed as usize % 3, remote_writes, ..small() };
        let mut sides = Sides::open(&here, &there, attr);
        for (value, plan) in [(1, pages()), (2, block(5, 70_000, 9999))] {
            let operations = plan.operations(sides.target.piece());
            sides.target.wait(Wait::new(value, operations)).unwrap();
            let request = Request::write(sides.peer, sides.local, &sides.remote, plan.clone()).data(value);
            sides.initiator.submit(request).unwrap();
            let (until, before) = (Instant::now() + LIMIT, sides.arrived);
            let mut outcome = None;
            while sides.arrived == before {
                sides.drive_target();
                if let Some(Event::Ended(ended)) = sides.initiator.poll(0).unwrap() {
                    outcome = Some(ended);
                }
                assert!(Instant::now() < until, "arrived within {LIMIT:?}, seed {seed}");
            }
            // The count alone implies that the data is complete.
            let mut expected = sides.exposed_bytes();
            moved(&plan, &sides.local_bytes(), &mut expected, false);
            assert!(sides.exposed_bytes() == expected, "seed {seed}");
            let outcome = outcome.unwrap_or_else(|| sides.ended());
            assert_eq!((outcome.ending, outcome.operations), (Ending::Done, operations));
        }
    }
}

#[test]
fn a_failed_operation_ends_its_transfer_once_and_the_next_succeeds() {
    for seed in 0..60 {
        let (fail, lose) =
            if seed % 2 == 0 { (Every::About(50), Every::Nth(0)) } else { (Every::Nth(0), Every::About(50)) };
        let faults = Faults { fail, lose, reorder: 3, ..Faults::new(seed) };
        let mut sides = faulty(2, faults, EngineAttr { piece: 500, batch: 4, ..small() });
        let (mut failed, mut done) = (0, 0);
        for _ in 0..20 {
            let request = Request::write(sides.peer, sides.local, &sides.remote, pages()).data(1);
            let key = sides.initiator.submit(request).unwrap();
            let outcome = sides.ended();
            assert_eq!((outcome.key, outcome.in_flight), (key, 0));
            match outcome.ending {
                Ending::Done => {
                    done += 1;
                    assert_eq!(outcome.operations, 120);
                }
                Ending::Failed(_) => {
                    failed += 1;
                    assert!(outcome.operations < 120);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(sides.initiator.in_flight(sides.local), Some(0));
        }
        assert!(failed > 0 && failed + done == 20, "seed {seed}");
    }
}

#[test]
fn an_engine_is_dropped_amid_operations() {
    for seed in 0..20 {
        let faults = Faults { reorder: 1000, ..Faults::new(seed) };
        let mut sides: Sides<_> = faulty(3, faults, EngineAttr { piece: 100, ..small() });
        for _ in 0..8 {
            sides.initiator.submit(Request::write(sides.peer, sides.local, &sides.remote, pages())).unwrap();
        }
        assert!(sides.initiator.poll(0).unwrap().is_none());
        assert!(sides.initiator.in_flight(sides.local).unwrap() > 0);
        if seed % 2 == 0 {
            drop(sides.target);
            drop(sides.initiator);
        }
    }
}

#[test]
fn an_engine_with_bound_regions_is_dropped_amid_operations_in_a_scope() {
    let faults = Faults { reorder: 1000, required: RequiredModes::ENDPOINT_REGIONS, ..Faults::new(1) };
    let info = network().info_with_faults(faults);
    let (mut memory, mut target) = (pattern(1000, 3), vec![0; 1000]);
    scope(|s| {
        let domains = [s.open(&info)?];
        let mut engine = Engine::<_, &mut [u8], Block, _>::open_in(&domains, small(), Global)?;
        let key = engine.register(&mut memory[..], Access::REMOTE_WRITE)?;
        let mut other = Engine::<_, &mut [u8], Block, _>::open_in(&domains, small(), Global)?;
        let exposed = other.register(&mut target[..], Access::REMOTE_WRITE)?;
        let mut record = [0; 1024];
        let len = other.address(&mut record)?;
        let (peer, remote) = (engine.insert_peer(&record[..len])?, other.remote(exposed)?);
        let whole = Block { local: 0, remote: 0, len: 1000 };
        engine.submit(Request::write(peer, key, &remote, whole)).map_err(|rejected| rejected.error)?;
        assert!(engine.poll(0)?.is_none() && engine.in_flight(key) == Some(1));
        Ok::<_, loom_core::Error>(())
    })
    .unwrap();
    assert_eq!(memory, pattern(1000, 3));
}

#[test]
fn a_failed_queue_ends_transfers_and_is_reported_once() {
    let faults = Faults { overrun: Every::Nth(10), ..Faults::new(1) };
    let mut sides = faulty(1, faults, EngineAttr { piece: 100, ..small() });
    let keys = [(); 2]
        .map(|()| sides.initiator.submit(Request::write(sides.peer, sides.local, &sides.remote, pages())).unwrap());
    let (mut errors, mut outcomes) = (0, Vec::new());
    for _ in 0..1000 {
        match sides.initiator.poll(0) {
            Ok(Some(Event::Ended(outcome))) => outcomes.push(outcome),
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, Error::Queue(CqError::Queue(Errno::EOVERRUN)));
                errors += 1;
            }
        }
        sides.drive_target();
    }
    assert_eq!(errors, 1);
    assert!(keys.iter().all(|key| outcomes.iter().filter(|outcome| outcome.key == *key).count() == 1));
    assert!(outcomes.iter().all(|outcome| matches!(outcome.ending, Ending::Failed(Error::Queue(_)))));
    let request = Request::write(sides.peer, sides.local, &sides.remote, pages());
    assert!(matches!(sides.initiator.submit(request).unwrap_err().error, Error::Invalid(_)));
}

#[test]
fn announced_operations_are_flushed_on_each_rail() {
    for seed in 0..40 {
        let refuse = Every::About([0, 4][seed as usize % 2]);
        let faults = Faults { doorbell: true, refuse, ..Faults::new(seed) };
        let (count, network) = (1 + seed as usize / 2 % 4, network());
        let here = rails(&network.info_with_faults(faults), count);
        let attr = EngineAttr { piece: 300, batch: 2 + seed as usize % 7, ..small() };
        let mut sides = Sides::open(&here, &rails(&network.info(), count), attr);
        for plan in [pages(), block(5, 70_000, 999)] {
            let operations = plan.operations(sides.target.piece());
            let request = Request::write(sides.peer, sides.local, &sides.remote, plan.clone()).data(1);
            sides.initiator.submit(request).unwrap();
            let outcome = sides.ended();
            assert_eq!((outcome.ending, outcome.operations), (Ending::Done, operations), "seed {seed}");
            let mut expected = sides.exposed_bytes();
            moved(&plan, &sides.local_bytes(), &mut expected, false);
            assert!(sides.exposed_bytes() == expected, "seed {seed}");
        }
        assert!(network.injected().reordered > 0, "operations waited for a doorbell");
        assert_eq!(sides.initiator.in_flight(sides.local), Some(0));
    }
}

#[test]
fn a_batch_that_is_refused_in_its_middle_is_flushed() {
    let faults = Faults { refuse: Every::Nth(5), doorbell: true, ..Faults::new(1) };
    let mut sides = faulty(2, faults, EngineAttr { piece: 100, batch: 16, ..small() });
    let key = sides.initiator.submit(Request::write(sides.peer, sides.local, &sides.remote, pages())).unwrap();
    assert!(sides.initiator.poll(0).unwrap().is_none());
    // No operation follows, but announced ones are flushed.
    assert!(sides.initiator.cancel(key));
    let outcome = sides.ended();
    assert_eq!((outcome.key, outcome.ending), (key, Ending::Cancelled));
    for _ in 0..100 {
        assert!(sides.initiator.poll(0).unwrap().is_none());
        sides.drive_target();
    }
    assert_eq!(sides.initiator.in_flight(sides.local), Some(0));
}
