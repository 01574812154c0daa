//! Immediate data of the last write alone, over providers that order writes.

use loom_core::soft::{Every, Plan as Faults};
use loom_core::{Error, Transport};
use loom_fabric::loom_core;
use loom_transfer::{Ending, EngineAttr, Plan, Request, Wait};

use super::messages::{Seen, pages, talking};
use super::moving::plans;
use super::sides::{Sides, block, faulty, moved, network, rails, small, soft};

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
    for (batch, depth) in [(1, 16), (1, 1), (4, 16), (4, 2)] {
        check(&mut soft(1, EngineAttr { piece: 1000, batch, depth, ..small() }));
        // Two times of three, posts are refused.
        let faults = Faults { refuse: Every::About(2), ..Faults::new(7) };
        check(&mut faulty(1, faults, EngineAttr { piece: 1000, batch, depth, ..small() }));
    }
}

#[cfg(feature = "libfabric")]
#[test]
fn a_signal_arrives_once_after_all_bytes_over_providers_of_libfabric() {
    use loom_core::vocabulary::{EndpointAttributes, EndpointType, MsgOrder, TxAttributes};
    use loom_core::{Caps, Hints};
    use loom_fabric::{Local, Ofi};

    for provider in ["shm", "tcp;ofi_rxm"] {
        let node = (provider != "shm").then_some("127.0.0.1");
        let hints = Hints {
            caps: Caps::MSG | Caps::RMA,
            provider: Some(provider),
            node,
            listen: node.is_some(),
            endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
            tx_attr: TxAttributes { msg_order: MsgOrder::WAW, ..TxAttributes::default() },
            ..Hints::default()
        };
        let info = Ofi::<Local>::query(&hints).unwrap().next().expect("every libfabric has it");
        for batch in [1, 8] {
            check(&mut Sides::open(&rails(&info, 1), &rails(&info, 1), EngineAttr { piece: 9000, batch, ..small() }));
        }
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
fn a_signal_is_refused_where_writes_have_no_order() {
    let unordered = Faults { unordered: true, ..Faults::new(1) };
    let reordered = Faults { reorder: 3, ..Faults::new(1) };
    let network = network();
    let infos = [network.info_with_faults(unordered), network.info_with_faults(reordered), network.info()];
    for (info, count) in infos.iter().zip([1, 1, 2]) {
        let mut sides = Sides::open(&rails(info, count), &rails(&network.info(), count), small());
        let request = Request::write(sides.peer, sides.local, &sides.remote, pages());
        let refused = sides.initiator.submit(request.clone().signal(3)).unwrap_err();
        assert!(matches!(refused.error, Error::Invalid(text) if text.contains("Request::data")));
        sides.initiator.submit(request.data(3)).unwrap();
        assert_eq!(sides.ended().ending, Ending::Done);
    }
}
