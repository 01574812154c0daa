//! Fault plans: writes out of order, early news, refusals, failed and lost completions.

use std::time::Instant;

use loom_core::soft::{Every, Plan as Faults};
use loom_fabric::loom_core;
use loom_transfer::{Ending, EngineAttr, Event, Pages, Plan, Request};
use support::posting::LIMIT;

use super::sides::{AnyPlan, Sides, block, faulty, moved, small};

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
        let rails = 1 + seed as usize % 4;
        let mut sides = faulty(rails, faults, EngineAttr { piece: 300, batch: 1 + seed as usize % 3, ..small() });
        for (value, plan) in [(1, pages()), (2, block(5, 70_000, 9999))] {
            let operations = plan.operations(sides.target.piece());
            sides.target.arrivals().wait_for(value, operations).unwrap();
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
            // The count alone states that the data is complete.
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
fn a_batch_that_is_refused_in_its_middle_is_flushed() {
    let faults = Faults { refuse: Every::Nth(5), ..Faults::new(1) };
    let mut sides = faulty(2, faults, EngineAttr { piece: 100, batch: 16, ..small() });
    let key = sides.initiator.submit(Request::write(sides.peer, sides.local, &sides.remote, pages())).unwrap();
    assert!(sides.initiator.poll(0).unwrap().is_none());
    // No operation follows: those that were announced are flushed all the same.
    assert!(sides.initiator.cancel(key));
    let outcome = sides.ended();
    assert_eq!((outcome.key, outcome.ending), (key, Ending::Cancelled));
    for _ in 0..100 {
        assert!(sides.initiator.poll(0).unwrap().is_none());
        sides.drive_target();
    }
    assert_eq!(sides.initiator.in_flight(sides.local), Some(0));
}
