//! Every kind of plan over one to 4 rails: bytes are verified, and arrivals counted.

use std::cell::Cell;
use std::time::Instant;

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::RequiredModes;
use loom_core::{Access, Transport};
use loom_fabric::loom_core;
use loom_transfer::{Block, Blocks, Ending, Engine, EngineAttr, Event, Pages, Plan, Request, Strided, Subset, Wait};
use support::posting::{LIMIT, pattern};

use super::sides::{AnyPlan, LEN, Side, Sides, address, block, moved, network, rails, small, soft};

pub(super) fn plans() -> Vec<AnyPlan> {
    let (local, remote) = ((0..50).map(|page| (page * 37) % 61).collect(), (0..50).rev().collect());
    let first = Block { local: 128, remote: 64, len: 100 };
    let strided = Strided { first, count: 40, local_pitch: 1000, remote_pitch: 100 };
    let list = [(7, 9, 1), (100, 10, 0), (4096, 16_385, 16_385), (0, 60_000, 8191)];
    vec![
        block(3, 5, 16_385),
        block(0, 0, LEN as u64),
        block(17, 1, 1),
        block(0, 0, 0),
        AnyPlan::Pages(Pages::new(local, remote, 3000).unwrap().strides(3001, 4096).offsets(1, 2)),
        AnyPlan::Strided(strided),
        AnyPlan::List(Blocks(list.map(|(local, remote, len)| Block { local, remote, len }).to_vec())),
        AnyPlan::List(Blocks(Vec::new())),
        AnyPlan::Subset(Subset { plan: strided, indices: vec![39, 0, 17, 3] }),
    ]
}

/// Runs writes, counted by the target, and reads of each plan.
fn check<T: Transport + 'static>(sides: &mut Sides<T>) {
    let (mut expected, mut waits) = (sides.exposed_bytes(), sides.arrived);
    let mut totals = [0; 64];
    for (value, plan) in (0..).zip(plans()) {
        let operations = plan.operations(sides.target.piece());
        totals[value] += operations;
        let value = value as u64;
        if operations > 0 {
            let total = sides.target.arrived(value) + operations;
            sides.target.wait(Wait::new(value, total)).unwrap();
            waits += 1;
        }
        moved(&plan, &sides.local_bytes(), &mut expected, false);
        let request = Request::write(sides.peer, sides.local, &sides.remote, plan.clone()).data(value);
        let key = sides.initiator.submit(request).unwrap();
        let outcome = sides.ended();
        assert_eq!((outcome.key, outcome.ending, outcome.in_flight), (key, Ending::Done, 0), "{plan:?}");
        assert_eq!((outcome.operations, outcome.bytes), (operations, plan.bytes()), "{plan:?}");
        sides.arrive(waits);
        assert_eq!(sides.target.arrived(value) % operations.max(1), 0);
        assert!(sides.exposed_bytes() == expected, "{plan:?}");
    }
    let room = sides.initiator.register(vec![0; LEN], Access::empty()).unwrap();
    let mut expected = vec![0; LEN];
    for plan in plans() {
        moved(&plan, &sides.exposed_bytes(), &mut expected, true);
        sides.initiator.submit(Request::read(sides.peer, room, &sides.remote, plan.clone())).unwrap();
        let outcome = sides.ended();
        assert_eq!((outcome.ending, outcome.bytes), (Ending::Done, plan.bytes()), "{plan:?}");
        assert!(Sides::bytes(&sides.initiator, room) == expected, "{plan:?}");
    }
    assert_eq!((sides.target.strays(), sides.initiator.strays()), (0, 0));
    sides.initiator.deregister(room).unwrap();
}

#[test]
fn all_plans_move_their_bytes_over_one_to_4_rails() {
    for (rails, piece, batch) in [(1, 1 << 20, 1), (1, 5000, 1), (2, 4096, 1), (3, 777, 4), (4, 8192, 32)] {
        check(&mut soft(rails, EngineAttr { piece, batch, ..small() }));
    }
}

#[test]
fn regions_that_are_bound_to_endpoints_move_all_bytes() {
    let info = network().info_requiring(RequiredModes::ENDPOINT_REGIONS);
    check(&mut Sides::open(&rails(&info, 2), &rails(&info, 2), EngineAttr { piece: 1000, ..small() }));
}

#[test]
fn writes_that_consume_receives_move_all_bytes() {
    let info = network().info_requiring(RequiredModes::RX_CQ_DATA);
    for (remote_writes, batch) in [(1, 1), (4, 1), (1, 8), (4, 8)] {
        let attr = EngineAttr { piece: 1000, remote_writes, batch, ..small() };
        check(&mut Sides::open(&rails(&info, 2), &rails(&info, 2), attr));
    }
}

#[test]
fn sides_with_different_numbers_of_rails_move_all_bytes() {
    for (here, there) in [(1, 4), (4, 1), (3, 2)] {
        let info = network().info();
        check(&mut Sides::open(&rails(&info, here), &rails(&info, there), EngineAttr { piece: 1000, ..small() }));
    }
}

#[cfg(feature = "libfabric")]
#[test]
fn all_plans_move_their_bytes_over_providers_of_libfabric() {
    use loom_core::Caps;
    use loom_core::vocabulary::EndpointType;

    for (provider, count, batch) in [("shm", 1, 1), ("shm", 2, 8), ("tcp;ofi_rxm", 1, 1), ("tcp;ofi_rxm", 2, 8)] {
        let info = crate::protocols::libfabric::info(provider, EndpointType::RDM, Caps::MSG | Caps::RMA);
        let attr = EngineAttr { piece: 9000, batch, ..small() };
        check(&mut Sides::open(&rails(&info, count), &rails(&info, count), attr));
    }
}

/// Runs transfers of an engine to itself, which are not posted.
fn check_loopback(attr: EngineAttr) {
    let domains = rails(&network().info(), 2);
    let mut side = Side::open_in(&domains, attr, Global).unwrap();
    let source = side.register(pattern(LEN, 4), Access::empty()).unwrap();
    let exposed = side.register(vec![0; LEN], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    let itself = side.insert_peer(&address(&side)).unwrap();
    let (mut expected, remote) = (vec![0; LEN], side.remote(exposed).unwrap());
    for plan in plans() {
        for (value, reads) in [(1, false), (2, true)] {
            let into = if reads { source } else { exposed };
            let request = if reads {
                Request::read(itself, source, &remote, plan.clone())
            } else {
                Request::write(itself, source, &remote, plan.clone()).data(value)
            };
            let before = Sides::bytes(&side, if reads { exposed } else { source });
            if reads {
                expected = Sides::bytes(&side, source);
            }
            moved(&plan, &before, &mut expected, reads);
            side.submit(request).unwrap();
            let until = Instant::now() + LIMIT;
            let outcome = loop {
                match side.poll(0).unwrap() {
                    Some(Event::Ended(outcome)) => break outcome,
                    Some(Event::Peer { result: Ok(()), .. }) | None => {}
                    other => panic!("{other:?}"),
                }
                assert_eq!(side.in_flight(source), Some(0));
                assert!(Instant::now() < until, "ended within {LIMIT:?}");
            };
            assert_eq!((outcome.ending, outcome.bytes), (Ending::Done, plan.bytes()), "{plan:?}");
            assert!(Sides::bytes(&side, into) == expected, "{plan:?}");
        }
        expected = Sides::bytes(&side, exposed);
    }
    let operations: u64 = plans().iter().map(|plan| plan.operations(side.piece())).sum();
    assert_eq!((side.arrived(1), side.strays()), (operations, 0));
}

#[test]
fn a_transfer_to_itself_is_a_copy_and_moves_all_bytes() {
    check_loopback(EngineAttr { piece: 1000, ..small() });
    check_loopback(EngineAttr { piece: 1000, message: 1024, budget: 7, ..small() });
}

#[test]
fn a_poll_copies_at_most_1_mib() {
    const WHOLE: usize = 10 << 20;
    let domains = rails(&network().info(), 1);
    // A piece takes three polls.
    let mut side = Side::open_in(&domains, EngineAttr { piece: 3 << 20, ..small() }, Global).unwrap();
    let source = side.register(pattern(WHOLE, 4), Access::empty()).unwrap();
    let exposed = side.register(vec![0; WHOLE], Access::REMOTE_WRITE).unwrap();
    let (itself, remote) = (side.insert_peer(&address(&side)).unwrap(), side.remote(exposed).unwrap());
    side.submit(Request::write(itself, source, &remote, block(0, 0, WHOLE as u64)).data(1)).unwrap();
    let mut arrived = Vec::new();
    let outcome = loop {
        let event = side.poll(0).unwrap();
        arrived.push(side.arrived(1));
        match event {
            Some(Event::Ended(outcome)) => break outcome,
            None => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(arrived, [0, 0, 1, 1, 1, 2, 2, 2, 3, 4]);
    assert_eq!((outcome.result(), outcome.operations), (Ok(WHOLE as u64), 4));
    // Transfers share a poll.
    let whole = Request::write(itself, source, &remote, block(0, 0, WHOLE as u64));
    let long = side.submit(whole).unwrap();
    let short = side.submit(Request::write(itself, source, &remote, block(0, 0, 1000))).unwrap();
    for key in [short, long] {
        let ended = (0..11).find_map(|_| side.poll(0).unwrap());
        assert!(matches!(&ended, Some(Event::Ended(outcome)) if outcome.key == key), "{ended:?}");
    }
    let mut bytes = vec![0; WHOLE];
    side.window(exposed).unwrap().copy_to(0, &mut bytes).unwrap();
    assert!(bytes == pattern(WHOLE, 4));
}

#[test]
fn a_request_is_submitted_again_from_its_outcome_without_a_walk_over_its_plan() {
    let info = network().info();
    let mut sides = Sides::open(&rails(&info, 1), &rails(&info, 1), EngineAttr { piece: 64, ..small() });
    let calls = Cell::new(0);
    let plan = Counted { plan: plans().remove(4), calls: &calls };
    let (mut expected, blocks) = (sides.exposed_bytes(), plan.blocks());
    moved(&plan.plan, &sides.local_bytes(), &mut expected, false);
    let mut initiator =
        Engine::<_, Vec<u8>, Counted<'_>, _>::open_in(&rails(&info, 1), EngineAttr { piece: 64, ..small() }, Global)
            .unwrap();
    let local = initiator.register(sides.local_bytes(), Access::empty()).unwrap();
    let peer = initiator.insert_peer(&address(&sides.target)).unwrap();
    let mut request = initiator.prepare(Request::write(peer, local, &sides.remote, plan)).unwrap();
    assert_eq!(calls.get(), blocks);
    for round in 1..=5 {
        initiator.submit(request).unwrap();
        let until = Instant::now() + LIMIT;
        request = loop {
            if let Some(Event::Ended(outcome)) = initiator.poll(0).unwrap() {
                assert_eq!(outcome.ending, Ending::Done);
                break outcome.request;
            }
            sides.drive_target();
            assert!(Instant::now() < until, "ended within {LIMIT:?}");
        };
        // One call for each post.
        assert_eq!(calls.get(), blocks + round * blocks);
    }
    assert!(sides.exposed_bytes() == expected);
}

/// Plan that counts the calls for a block.
#[derive(Debug)]
struct Counted<'c> {
    plan: AnyPlan,
    calls: &'c Cell<usize>,
}

impl Plan for Counted<'_> {
    fn blocks(&self) -> usize {
        self.plan.blocks()
    }

    fn block(&self, index: usize) -> Block {
        self.calls.set(self.calls.get() + 1);
        self.plan.block(index)
    }
}

#[test]
fn each_transfer_has_its_own_outcome_when_many_share_the_rails() {
    let mut sides = soft(2, EngineAttr { piece: 100, transfers: 8, ..small() });
    let mut keys: Vec<_> = (0..8)
        .map(|number| {
            let plan = block(number * 1000, number * 1000, 100 * (number + 1));
            let request = Request::write(sides.peer, sides.local, &sides.remote, plan).data(number);
            (sides.initiator.submit(request).unwrap(), 100 * (number + 1))
        })
        .collect();
    while !keys.is_empty() {
        let outcome = sides.ended();
        let at = keys.iter().position(|(key, _)| *key == outcome.key).expect("one outcome for each");
        assert_eq!(outcome.result(), Ok(keys.swap_remove(at).1));
    }
    for _ in 0..100 {
        sides.drive_target();
        assert!(sides.initiator.poll(0).unwrap().is_none());
    }
    for number in 0..8 {
        assert_eq!(sides.target.arrived(number), number + 1);
    }
}
