//! Immediate data of the last write alone, after the delivery of the others.

use loom_core::soft::{Every, Plan as Faults};
use loom_core::{Error, Transport};
use loom_fabric::loom_core;
use loom_transfer::{Blocks, Ending, EngineAttr, Event, Plan, Request, Wait};

use super::messages::{Seen, pages, talking};
use super::moving::plans;
use super::sides::{AnyPlan, Sides, block, faulty, moved, network, rails, small, soft};

/// Each plan is complete when its signal is counted.
fn check<T: Transport + 'static>(sides: &mut Sides<T>) {
    let mut expected = sides.exposed_bytes();
    for (value, plan) in (0..).zip(plans()).filter(|(_, plan)| plan.blocks() > 0) {
        moved(&plan, &sides.local_bytes(), &mut expected, false);
        sides.target.wait(Wait::new(value, sides.target.arrived(value) + 1)).unwrap();
        let request = Request::write(sides.peer, sides.local, &sides.remote, plan.clone()).signal(value);
        sides.initiator.submit(request).unwrap();
        let waits = sides.arrived + 1;
        let mut outcome = None;
        sides.arrive_with(waits, |ended| outcome = Some(ended));
        assert!(sides.exposed_bytes() == expected, "{plan:?}");
        let outcome = outcome.unwrap_or_else(|| sides.ended());
        assert_eq!((outcome.ending, outcome.bytes), (Ending::Done, plan.bytes()), "{plan:?}");
    }
    for value in 0..plans().len() as u64 {
        assert!(sides.target.arrived(value) <= 1);
    }
    assert_eq!((sides.target.strays(), sides.initiator.strays()), (0, 0));
}

#[test]
fn a_signal_arrives_once_after_all_bytes() {
    for (rails, batch, depth) in [(1, 1, 16), (2, 1, 1), (1, 4, 16), (4, 4, 2)] {
        check(&mut soft(rails, EngineAttr { piece: 1000, batch, depth, ..small() }));
    }
}

#[cfg(feature = "libfabric")]
#[test]
fn a_signal_arrives_once_after_all_bytes_over_providers_of_libfabric() {
    use loom_core::Caps;
    use loom_core::vocabulary::EndpointType;

    for (provider, count, batch) in [("shm", 1, 1), ("shm", 2, 8), ("tcp;ofi_rxm", 1, 8), ("tcp;ofi_rxm", 2, 1)] {
        let info = crate::protocols::libfabric::info(provider, EndpointType::RDM, Caps::MSG | Caps::RMA);
        let attr = EngineAttr { piece: 9000, batch, ..small() };
        check(&mut Sides::open(&rails(&info, count), &rails(&info, count), attr));
    }
}

#[cfg(feature = "tcp")]
#[test]
fn a_signal_arrives_once_after_all_bytes_over_tcp() {
    use loom_core::{Caps, Hints};
    use loom_fabric::loom_tcp::{TcpAttr, query};

    let info = query(&Hints { caps: Caps::MSG | Caps::RMA, ..Hints::default() }, TcpAttr::DEFAULT).unwrap();
    for (count, batch) in [(1, 1), (2, 8)] {
        let attr = EngineAttr { piece: 9000, batch, ..small() };
        check(&mut Sides::open(&rails(&info, count), &rails(&info, count), attr));
    }
}

#[test]
fn a_signal_to_the_engine_itself_is_counted_once() {
    let mut sides = soft(1, EngineAttr { piece: 1000, ..small() });
    let address = super::sides::address(&sides.initiator);
    let itself = sides.initiator.insert_peer(&address).unwrap();
    let exposed = sides.initiator.register(vec![0; 1 << 18], loom_core::Access::REMOTE_WRITE).unwrap();
    let remote = sides.initiator.remote(exposed).unwrap();
    for (number, plan) in (1..).zip([block(0, 5, 100_000), pages(), block(3, 0, 0)]) {
        let request = Request::write(itself, sides.local, &remote, plan.clone()).signal(3);
        sides.initiator.submit(request).unwrap();
        assert_eq!(sides.ended().result(), Ok(plan.bytes()));
        assert_eq!(sides.initiator.arrived(3), number);
    }
}

#[test]
fn a_signal_does_not_follow_a_failed_write() {
    let operations = pages().operations(talking().piece);
    for number in 1..operations {
        let faults = Faults { lose: Every::Nth(number as u32), ..Faults::new(number) };
        let mut sides = faulty(1, faults, EngineAttr { message: 0, ..talking() });
        let request = Request::write(sides.peer, sides.local, &sides.remote, pages()).signal(3);
        sides.initiator.submit(request).unwrap();
        let outcome = sides.ended();
        assert!(matches!(outcome.ending, Ending::Failed(_)) && outcome.operations < operations - 1, "write {number}");
        for _ in 0..100 {
            sides.drive_target();
        }
        assert_eq!(sides.target.arrived(3), 0, "write {number}");
    }
}

#[test]
fn a_failure_before_a_signal_ends_the_receivers_wait() {
    let mut sides = soft(1, talking());
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    sides.target.wait(Wait::new(3, 1)).unwrap();
    sides.target.deregister(sides.exposed).unwrap();
    let request = Request::write(sides.peer, sides.local, &sides.remote, pages()).signal(3);
    sides.initiator.submit(request).unwrap();
    seen.until(&mut sides, |seen, _| seen.outcomes.len() == 1 && seen.failed_waits.len() == 1);
    // Writes before a signal cannot be counted.
    assert_eq!((sides.target.arrived(3), &seen.late_writes[..]), (0, &[None][..]));
}

#[test]
fn a_signal_arrives_once_after_all_bytes_in_any_order() {
    for seed in 0..24 {
        let doorbell = seed % 3 == 2;
        let refuse = Every::About([0, 3][seed as usize % 2]);
        let faults =
            Faults { reorder: 7 * u32::from(!doorbell), doorbell, refuse, unordered: true, ..Faults::new(seed) };
        let (count, network) = (1 + seed as usize / 3 % 4, network());
        let here = rails(&network.info_with_faults(faults), count);
        let attr =
            EngineAttr { piece: 999, batch: 1 + seed as usize % 5, peer_depth: 1 + seed as usize % 7, ..small() };
        check(&mut Sides::open(&here, &rails(&network.info(), count), attr));
    }
}

#[test]
fn a_transfer_that_ends_before_its_signal_does_not_signal() {
    // Writes wait for many polls.
    let faults = Faults { reorder: 1000, ..Faults::new(5) };
    for cancels in [true, false] {
        let mut sides = faulty(2, faults, EngineAttr { piece: 100, ..small() });
        let plan = block(0, 0, 1000);
        let request = Request::write(sides.peer, sides.local, &sides.remote, plan).signal(3).deadline(10);
        let key = sides.initiator.submit(request).unwrap();
        assert!(sides.initiator.poll(0).unwrap().is_none());
        assert_eq!(sides.initiator.operations_in_flight(key), Some(9));
        let ending = if cancels {
            assert!(sides.initiator.cancel(key));
            sides.ended().ending
        } else {
            let Some(Event::Ended(outcome)) = sides.initiator.poll(10).unwrap() else { panic!("the deadline") };
            outcome.ending
        };
        assert_eq!(ending, if cancels { Ending::Cancelled } else { Ending::Deadline });
        for _ in 0..3000 {
            assert!(sides.initiator.poll(10).unwrap().is_none());
            sides.drive_target();
        }
        assert_eq!((sides.target.arrived(3), sides.initiator.operations_in_flight(key)), (0, None));
    }
}

#[test]
fn a_signal_without_a_write_is_refused() {
    let mut sides = soft(1, small());
    let request = Request::write(sides.peer, sides.local, &sides.remote, AnyPlan::List(Blocks(Vec::new()))).signal(3);
    assert!(matches!(sides.initiator.submit(request).unwrap_err().error, Error::Invalid(_)));
}
