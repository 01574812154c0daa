//! Refusals, cancels, deadlines, removed peers, and memory in use.

use std::time::Instant;

use loom_core::allocator_api2::alloc::Global;
use loom_core::error::{OpenError, PostError};
use loom_core::soft::{Every, Plan as Faults, RequiredModes};
use loom_core::vocabulary::RangeError;
use loom_core::{Access, CqError, Domain, Errno, Error};
use loom_fabric::loom_core;
use loom_transfer::{Block, Blocks, Ending, EngineAttr, Event, RemoteMemory, Request};
use support::posting::LIMIT;

use super::sides::{AnyPlan, LEN, Side, Sides, address, block, faulty, network, rails, small, soft};

#[test]
fn a_request_that_cannot_succeed_is_returned_before_an_operation_is_posted() {
    let mut sides = soft(2, EngineAttr { piece: 1000, ..small() });
    let (peer, local, remote) = (sides.peer, sides.local, sides.remote);
    let whole = LEN as u64;
    let outside = |local, remote| AnyPlan::List(Blocks(vec![Block::default(), Block { local, remote, len: 8 }]));
    let read_only = sides.target.register(vec![0; 64], Access::REMOTE_READ).unwrap();
    let read_only = sides.target.remote(read_only).unwrap();
    let one_rail = soft(1, small()).remote;
    let refusals = [
        (Request::write(peer, local, &remote, outside(whole - 7, 0)), Error::Range(RangeError::OutOfWindow)),
        (Request::write(peer, local, &remote, outside(u64::MAX - 3, 0)), Error::Range(RangeError::OutOfWindow)),
        (Request::write(peer, local, &remote, outside(0, whole - 7)), Error::Post(PostError::OutOfBounds)),
        (Request::write(peer, local, &remote, outside(0, u64::MAX)), Error::Post(PostError::OutOfBounds)),
        (
            Request::write(peer, local, &read_only, block(0, 0, 8)),
            Error::Post(PostError::RemoteAccess(Access::REMOTE_WRITE)),
        ),
        (
            Request::write(peer, local, &one_rail, block(0, 0, 8)),
            Error::Invalid("the remote memory has another number of rails than the peer: use memory of that peer"),
        ),
        (
            Request::read(peer, local, &remote, block(0, 0, 8)).data(1),
            Error::Invalid("a read carries no immediate data: notify the peer after it"),
        ),
    ];
    for (request, expected) in refusals {
        let rejected = sides.initiator.submit(request).unwrap_err();
        assert_eq!(rejected.error, expected);
    }
    // A request is returned with its plan.
    for _ in 0..8 {
        sides.initiator.submit(Request::write(peer, local, &remote, block(0, 0, 8))).unwrap();
    }
    let rejected = sides.initiator.submit(Request::write(peer, local, &remote, block(1, 2, 3))).unwrap_err();
    assert_eq!(rejected.error, Error::Full("EngineAttr::transfers"));
    assert!(matches!(rejected.value.into_plan(), AnyPlan::One(Block { local: 1, remote: 2, len: 3 })));
    for _ in 0..8 {
        assert_eq!(sides.ended().result(), Ok(8));
    }
    assert!(sides.initiator.remove_peer(peer));
    let rejected = sides.initiator.submit(Request::write(peer, local, &remote, block(0, 0, 8))).unwrap_err();
    assert_eq!(rejected.error, Error::Post(PostError::UnknownPeer));
}

#[test]
fn wide_data_is_refused_when_the_engine_opens_or_a_transfer_is_submitted() {
    let narrow = Faults { narrow_data: true, ..Faults::new(1) };
    let domains = [Domain::open(&network().info_with_faults(narrow)).unwrap()];
    let attr = EngineAttr { values: 1 << 33, ..small() };
    let error = Side::open_in(&domains, attr, Global).map(drop).unwrap_err();
    assert_eq!(error, Error::Range(RangeError::TooWide { width: 33, limit: 4 }));

    let mut sides = faulty(1, narrow, small());
    let request = Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 8));
    let rejected = sides.initiator.submit(request.clone().data(1 << 32)).unwrap_err();
    assert_eq!(rejected.error, Error::Post(PostError::DataWidth { limit: 4 }));
    sides.initiator.submit(request.data(63)).unwrap();
    assert_eq!(sides.ended().result(), Ok(8));
}

#[test]
fn an_engine_needs_rails_and_positive_sizes() {
    let info = network().info();
    for attr in [
        EngineAttr { depth: 0, ..small() },
        EngineAttr { peer_depth: 0, ..small() },
        EngineAttr { piece: 0, ..small() },
        EngineAttr { batch: 0, ..small() },
        EngineAttr { budget: 0, ..small() },
    ] {
        let error = Side::open_in(&rails(&info, 1), attr, Global).map(drop).unwrap_err();
        assert_eq!(error, Error::Open(OpenError::Size));
    }
    let none: [Domain<'_, loom_core::soft::Soft<'_>>; 0] = [];
    assert_eq!(Side::open_in(&none, small(), Global).map(drop).unwrap_err(), Error::Open(OpenError::Size));
    let without = Faults { without: loom_core::Caps::RMA, ..Faults::new(1) };
    let domains = [Domain::open(&network().info_with_faults(without)).unwrap()];
    let error = Side::open_in(&domains, small(), Global).map(drop).unwrap_err();
    assert!(matches!(error, Error::Open(OpenError::NotGranted(_))), "{error:?}");
}

#[test]
fn damaged_records_are_refused() {
    let mut sides = soft(3, small());
    let good = address(&sides.target);
    for len in 0..good.len() {
        assert!(sides.initiator.insert_peer(&good[..len]).is_err(), "{len} bytes");
    }
    let mut longer = good.clone();
    longer.push(0);
    assert!(sides.initiator.insert_peer(&longer).is_err());
    for at in 0..9 {
        let mut bad = good.clone();
        bad[at] ^= 0x80;
        assert!(sides.initiator.insert_peer(&bad).is_err(), "byte {at}");
    }
    assert_eq!(sides.initiator.insert_peer(&good), Ok(sides.peer), "the same addresses are the same peer");

    let good = sides.remote.to_bytes();
    assert!(RemoteMemory::from_bytes(&good[1..]).is_err());
    // Name and version, piece, and number of rails.
    for (at, byte) in [(0, 0), (6, 2), (40, 0), (40, 17)] {
        let mut bad = good;
        bad[at] = byte;
        assert!(RemoteMemory::from_bytes(&bad).is_err(), "byte {at}");
    }
    let mut bad = good;
    bad[32..40].fill(0);
    assert!(RemoteMemory::from_bytes(&bad).is_err(), "no piece");
}

#[test]
fn forged_keys_and_ranges_fail_at_the_owner_with_one_outcome() {
    let mut sides = soft(2, EngineAttr { piece: 1000, ..small() });
    let mut forged = sides.remote.to_bytes();
    // Keys of both rails, and 0 is a key like others.
    forged[48..64].fill(0);
    let forged = RemoteMemory::from_bytes(&forged).unwrap();
    let request = Request::write(sides.peer, sides.local, &forged, block(0, 0, 50_000)).data(3);
    sides.initiator.submit(request).unwrap();
    let outcome = sides.ended();
    assert!(matches!(outcome.ending, Ending::Failed(Error::Operation(_))), "{outcome:?}");
    assert_eq!((outcome.bytes, outcome.in_flight), (0, 0));
    assert!(sides.exposed_bytes().iter().all(|byte| *byte == 0));
    assert_eq!(sides.target.arrived(3), 0);
    // The rails serve the next transfer.
    sides.initiator.submit(Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 50_000))).unwrap();
    assert_eq!(sides.ended().result(), Ok(50_000));
}

#[test]
fn keys_of_two_rails_in_the_wrong_order_fail_at_the_owner() {
    // The control of keys by rail: an endpoint permits only the keys of its own regions.
    let info = network().info_requiring(RequiredModes::ENDPOINT_REGIONS);
    let attr = EngineAttr { piece: 1000, ..small() };
    let mut sides = Sides::open(&rails(&info, 2), &rails(&info, 2), attr);
    let mut swapped = sides.remote.to_bytes();
    let (first, second) = swapped[48..64].split_at_mut(8);
    first.swap_with_slice(second);
    for (remote, arrives) in [(RemoteMemory::from_bytes(&swapped).unwrap(), false), (sides.remote, true)] {
        sides.initiator.submit(Request::write(sides.peer, sides.local, &remote, block(0, 0, 10_000))).unwrap();
        assert_eq!(sides.ended().bytes, if arrives { 10_000 } else { 0 });
    }
}

#[test]
fn a_cancelled_transfer_ends_once_with_the_bytes_that_went_out() {
    let mut sides = soft(1, EngineAttr { piece: 100, depth: 4, budget: 4, ..small() });
    let request = Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 100_000));
    let key = sides.initiator.submit(request.clone()).unwrap();
    for _ in 0..10 {
        assert!(sides.initiator.poll(0).unwrap().is_none());
    }
    assert!(sides.initiator.cancel(key));
    let outcome = sides.ended();
    assert_eq!((outcome.key, outcome.ending, outcome.bytes), (key, Ending::Cancelled, 100 * outcome.operations));
    assert!((1..1000).contains(&outcome.operations));
    assert_eq!(outcome.result(), Err(Error::Provider(Errno::ECANCELED)));
    assert!(!sides.initiator.cancel(key), "it has ended");
    // No operation has been posted.
    let key = sides.initiator.submit(request).unwrap();
    assert!(sides.initiator.cancel(key));
    let outcome = sides.ended();
    assert_eq!((outcome.key, outcome.ending, outcome.bytes), (key, Ending::Cancelled, 0));
    assert_eq!(sides.initiator.in_flight(sides.local), Some(0));
}

#[test]
fn a_deadline_ends_a_transfer_and_counts_its_operations_in_flight() {
    // Reordered writes complete after polls of the initiator.
    let faults = Faults { reorder: u32::MAX, ..Faults::new(7) };
    let mut sides = faulty(1, faults, EngineAttr { piece: 100, ..small() });
    let request = Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 10_000)).deadline(1000);
    let key = sides.initiator.submit(request).unwrap();
    for now in 0..1000 {
        assert!(sides.initiator.poll(now).unwrap().is_none());
    }
    let Some(Event::Ended(outcome)) = sides.initiator.poll(1000).unwrap() else { panic!("the deadline has passed") };
    assert_eq!((outcome.key, outcome.result()), (key, Err(Error::Queue(CqError::TimedOut))));
    assert!(outcome.in_flight > 0);
    // Memory and slot of the transfer are not reused yet.
    assert_eq!(sides.initiator.in_flight(sides.local), Some(outcome.in_flight));
    sides.initiator.deregister(sides.local).unwrap_err();
    assert!(sides.initiator.poll(2000).unwrap().is_none(), "one outcome");
    // Closing the engine with operations in flight returns the memory.
}

#[test]
fn a_removed_peer_ends_its_transfers_and_others_continue() {
    let mut sides = soft(2, EngineAttr { piece: 100, depth: 8, peer_depth: 4, ..small() });
    let mut other = Side::open_in(&sides.rails, small(), Global).unwrap();
    let exposed = other.register(vec![0; LEN], Access::REMOTE_WRITE).unwrap();
    let other_remote = other.remote(exposed).unwrap();
    let staying = sides.initiator.insert_peer(&address(&other)).unwrap();
    let leaving = Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 100_000));
    let leaving = sides.initiator.submit(leaving).unwrap();
    let staying = Request::write(staying, sides.local, &other_remote, block(0, 0, 100_000));
    let staying = sides.initiator.submit(staying).unwrap();
    for _ in 0..5 {
        assert!(sides.initiator.poll(0).unwrap().is_none());
    }
    assert!(sides.initiator.remove_peer(sides.peer));
    assert!(!sides.initiator.remove_peer(sides.peer), "it is removed");
    let mut ends = [sides.ended(), sides.ended()];
    ends.sort_by_key(|outcome| outcome.key == leaving);
    assert_eq!((ends[0].key, ends[0].result()), (staying, Ok(100_000)));
    assert_eq!((ends[1].key, ends[1].ending), (leaving, Ending::Failed(PostError::UnknownPeer.into())));
    assert!(ends[1].bytes < 100_000);
    // The peer returns.
    let peer = sides.initiator.insert_peer(&address(&sides.target)).unwrap();
    assert_ne!(peer, sides.peer);
    sides.initiator.submit(Request::write(peer, sides.local, &sides.remote, block(0, 0, 1000))).unwrap();
    assert_eq!(sides.ended().result(), Ok(1000));
}

#[test]
fn the_removal_of_a_peer_that_does_not_answer_ends_its_transfers() {
    // Reordered writes complete after polls of the initiator.
    for attr in [small(), EngineAttr { message: 1024, ..small() }] {
        let faults = Faults { reorder: u32::MAX, ..Faults::new(7) };
        let mut sides = faulty(1, faults, EngineAttr { piece: 100, peer_depth: 40, depth: 64, ..attr });
        // Its operations are posted in part, and posted as a whole.
        let parts = [10_000, 300].map(|len| Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, len)));
        let keys = parts.map(|request| sides.initiator.submit(request).unwrap());
        let until = Instant::now() + LIMIT;
        while keys.iter().any(|key| sides.initiator.operations_in_flight(*key) == Some(0)) {
            assert!(matches!(sides.initiator.poll(0).unwrap(), None | Some(Event::Peer { result: Ok(()), .. })));
            sides.drive_target();
            assert!(Instant::now() < until, "posted within {LIMIT:?}");
        }
        assert!(sides.initiator.remove_peer(sides.peer));
        for _ in keys {
            let event = sides.initiator.poll(0).unwrap();
            let Some(Event::Ended(outcome)) = event else { panic!("{event:?}") };
            assert_eq!(outcome.ending, Ending::Failed(PostError::UnknownPeer.into()));
            assert!(keys.contains(&outcome.key) && outcome.in_flight > 0);
            assert_eq!(sides.initiator.operations_in_flight(outcome.key), Some(outcome.in_flight));
        }
        sides.initiator.deregister(sides.local).unwrap_err();
    }
}

#[test]
fn a_record_with_another_peers_address_is_refused() {
    let mut sides = soft(2, small());
    let other = Side::open_in(&rails(&network().info(), 1), small(), Global).unwrap();
    let (theirs, one) = (address(&sides.target), address(&other));
    // Only the first address of the target.
    let len = (theirs.len() - 10) / 2;
    let mut part = theirs[..10 + len].to_vec();
    part[8] = 1;
    assert!(matches!(sides.initiator.insert_peer(&part), Err(Error::Invalid(_))));
    assert_eq!(one.len(), part.len());
    // The peer is unchanged.
    sides.initiator.submit(Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 50_000))).unwrap();
    assert_eq!(sides.ended().result(), Ok(50_000));
}

#[test]
fn peers_come_and_go_beyond_the_number_of_slots() {
    let network = network();
    let mut engine = Side::open_in(&rails(&network.info(), 1), EngineAttr { peers: 2, ..small() }, Global).unwrap();
    let stays = engine.insert_peer(&address(&engine)).unwrap();
    for _ in 0..50 {
        let peer = Side::open_in(&rails(&network.info(), 1), small(), Global).unwrap();
        let key = engine.insert_peer(&address(&peer)).unwrap();
        assert_ne!(key, stays);
        let third = Side::open_in(&rails(&network.info(), 1), small(), Global).unwrap();
        assert_eq!(engine.insert_peer(&address(&third)), Err(Error::Full("EngineAttr::peers")));
        assert!(engine.remove_peer(key));
    }
}

#[test]
fn memory_in_use_is_not_deregistered() {
    let mut sides = soft(1, small());
    sides.initiator.submit(Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 8))).unwrap();
    sides.initiator.deregister(sides.local).unwrap_err();
    assert_eq!(sides.ended().result(), Ok(8));
    sides.initiator.deregister(sides.local).unwrap();
    sides.initiator.deregister(sides.local).unwrap_err();
    let request = Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 8));
    let rejected = sides.initiator.submit(request).unwrap_err();
    assert_eq!(rejected.error, Error::Invalid("the memory is not registered: register it first"));
    // The slot's next memory has another key.
    let next = sides.initiator.register(vec![0; LEN], Access::empty()).unwrap();
    assert_ne!(next, sides.local);
    assert!(sides.initiator.window(sides.local).is_none());
}

/// Plan that passes validation. Afterwards, its block 5 panics.
struct Broken(std::cell::Cell<usize>);

impl loom_transfer::Plan for Broken {
    fn blocks(&self) -> usize {
        10
    }

    fn block(&self, index: usize) -> Block {
        self.0.set(self.0.get() + 1);
        assert!(self.0.get() <= 10 || index != 5, "block 5");
        Block { local: 0, remote: 0, len: 8 }
    }
}

#[test]
fn a_plan_that_panics_fails_its_transfer_alone() {
    let domains = rails(&network().info(), 1);
    let mut engine = loom_transfer::Engine::open_in(&domains, small(), Global).unwrap();
    let memory = engine.register(vec![0; 64], Access::REMOTE_WRITE).unwrap();
    let mut record = [0; 1024];
    let len = engine.address(&mut record).unwrap();
    let (itself, remote) = (engine.insert_peer(&record[..len]).unwrap(), engine.remote(memory).unwrap());
    for round in 0..2 {
        engine.submit(Request::write(itself, memory, &remote, Broken(Default::default()))).unwrap();
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| engine.poll(0)));
        assert!(polled.is_err(), "round {round}");
        let outcome = loop {
            if let Some(Event::Ended(outcome)) = engine.poll(0).unwrap() {
                break outcome;
            }
        };
        assert_eq!(
            (outcome.ending, outcome.operations),
            (Ending::Failed(Error::Invalid("the plan panicked: correct `Plan::block`")), 5)
        );
        assert_eq!(engine.in_flight(memory), Some(0));
    }
}

#[test]
fn a_value_beyond_the_table_is_counted_as_a_stray() {
    let mut sides = soft(1, small());
    let request = Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 8)).data(64);
    sides.initiator.submit(request).unwrap();
    assert_eq!(sides.ended().result(), Ok(8));
    while sides.target.strays() == 0 {
        sides.drive_target();
    }
    assert_eq!(sides.target.strays(), 1);
}

#[test]
fn a_killed_endpoint_ends_every_transfer() {
    let mut sides = faulty(1, Faults { kill: Every::Nth(20), ..Faults::new(1) }, EngineAttr { piece: 64, ..small() });
    sides
        .initiator
        .submit(Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 64 * 100)).deadline(10))
        .unwrap();
    let outcome = {
        let mut now = 0;
        loop {
            if let Ok(Some(Event::Ended(outcome))) = sides.initiator.poll(now) {
                break outcome;
            }
            now += 1;
            assert!(now < 100, "a deadline ends it");
        }
    };
    assert!(outcome.ending != Ending::Done && outcome.bytes <= 64 * 20, "{outcome:?}");
    let _: Sides<_> = sides;
}
