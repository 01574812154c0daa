//! Hellos: engines that fit, that refuse each other, and that return.

use std::time::Instant;

use loom_core::allocator_api2::alloc::Global;
use loom_core::{Errno, Error};
use loom_fabric::loom_core;
use loom_transfer::{Ending, EngineAttr, Event};
use support::posting::LIMIT;

use super::messages::{Seen, pages, submit, talking};
use super::sides::{Side, address, network, network_of, rails, soft};

#[test]
fn engines_that_do_not_fit_refuse_each_other_with_the_reason() {
    let other = |message| Error::Invalid(message);
    let layout =
        other("the peer's engine has another layout: set `EngineAttr::message`, `notifications` and `fragments` alike");
    for attr in [
        EngineAttr { message: 2048, ..talking() },
        EngineAttr { notifications: 3, ..talking() },
        EngineAttr { fragments: 5, ..talking() },
    ] {
        let info = network().info();
        let mut initiator = Side::open_in(&rails(&info, 1), talking(), Global).unwrap();
        let mut target = Side::open_in(&rails(&info, 1), attr, Global).unwrap();
        let peer = initiator.insert_peer(&address(&target)).unwrap();
        let (until, mut refused) = (Instant::now() + LIMIT, None);
        while refused.is_none() {
            assert!(target.poll(0).unwrap().is_none());
            refused = initiator.poll(0).unwrap();
            assert!(Instant::now() < until, "within {LIMIT:?}");
        }
        let Some(Event::Peer { peer: reported, result }) = refused else { panic!("{refused:?}") };
        assert_eq!((reported, result), (peer, Err(layout)));
        assert_eq!(initiator.notify(peer, b"hello"), Err(layout));
    }
}

#[test]
fn an_engine_without_room_refuses_the_next_peer_with_the_reason() {
    let info = network().info();
    let mut target = Side::open_in(&rails(&info, 1), EngineAttr { peers: 1, ..talking() }, Global).unwrap();
    let mut reports = Vec::new();
    for _ in 0..3 {
        let mut initiator = Side::open_in(&rails(&info, 1), talking(), Global).unwrap();
        initiator.insert_peer(&address(&target)).unwrap();
        let until = Instant::now() + LIMIT;
        loop {
            let _ = target.poll(0).unwrap();
            if let Some(Event::Peer { result, .. }) = initiator.poll(0).unwrap() {
                reports.push(result);
                break;
            }
            assert!(Instant::now() < until, "within {LIMIT:?}");
        }
    }
    let full = Err(Error::Invalid("the peer's engine has no room: increase its `EngineAttr::peers`"));
    assert_eq!(reports, [Ok(()), full, full]);
}

#[test]
fn engines_that_greet_at_one_time_are_all_refused() {
    let info = network_of(32).info();
    let mut target = Side::open_in(&rails(&info, 1), talking(), Global).unwrap();
    let attr = EngineAttr { message: 2048, ..talking() };
    let mut others: Vec<_> = (0..9).map(|_| Side::open_in(&rails(&info, 1), attr, Global).unwrap()).collect();
    for side in &mut others {
        side.insert_peer(&address(&target)).unwrap();
        // All hellos are in flight.
        assert!(side.poll(0).unwrap().is_none());
    }
    let (mut refused, until) = (0, Instant::now() + LIMIT);
    while refused < others.len() {
        assert!(target.poll(0).unwrap().is_none());
        for side in &mut others {
            if let Some(event) = side.poll(0).unwrap() {
                assert!(matches!(event, Event::Peer { result: Err(Error::Invalid(_)), .. }), "{event:?}");
                refused += 1;
            }
        }
        assert!(Instant::now() < until, "within {LIMIT:?}: {refused}");
    }
    assert_eq!(target.strays(), 0);
    // A peer is served afterwards.
    let mut peer = Side::open_in(&rails(&info, 1), talking(), Global).unwrap();
    peer.insert_peer(&address(&target)).unwrap();
    while !matches!(target.poll(0).unwrap(), Some(Event::Peer { result: Ok(()), .. })) {
        let _ = peer.poll(0).unwrap();
        assert!(Instant::now() < until, "within {LIMIT:?}");
    }
}

#[test]
fn an_engine_at_the_address_of_another_peer_is_refused_with_the_reason() {
    let info = network().info();
    let mut target = Side::open_in(&rails(&info, 1), talking(), Global).unwrap();
    let mut initiator = Side::open_in(&rails(&info, 2), talking(), Global).unwrap();
    // The target has it with one of its two rails.
    let whole = address(&initiator);
    let len = (whole.len() - 10) / 3;
    let mut part = [&whole[..10 + len], &whole[10 + 2 * len..]].concat();
    part[8] = 1;
    target.insert_peer(&part).unwrap();
    let peer = initiator.insert_peer(&address(&target)).unwrap();
    let (until, mut report) = (Instant::now() + LIMIT, None);
    while report.is_none() {
        let _ = target.poll(0).unwrap();
        report = initiator.poll(0).unwrap();
        assert!(Instant::now() < until, "within {LIMIT:?}");
    }
    let taken = Error::Invalid("the peer's engine has this address for another peer: remove that peer there");
    assert!(
        matches!(report, Some(Event::Peer { peer: of, result }) if (of, result) == (peer, Err(taken))),
        "{report:?}"
    );
}

#[test]
fn a_peer_that_was_removed_returns_with_new_numbers() {
    let mut sides = soft(2, talking());
    for round in 0..20 {
        let mut seen = Seen::default();
        submit(&mut sides, &pages(), &[round]);
        submit(&mut sides, &pages(), &[round + 100]);
        seen.until(&mut sides, |seen, _| seen.notified.len() == 2 && seen.outcomes.len() == 2);
        assert!(sides.initiator.remove_peer(sides.peer));
        if round % 2 == 0 {
            let sender = seen.notified[0].1;
            assert!(sides.target.remove_peer(sender));
        }
        sides.peer = sides.initiator.insert_peer(&address(&sides.target)).unwrap();
    }
}

#[test]
fn a_peer_that_restarts_at_its_address_ends_transfers_to_its_former_engine() {
    let mut sides = soft(1, EngineAttr { depth: 4, budget: 4, ..talking() });
    let mut seen = Seen { now: 5, ..Seen::default() };
    submit(&mut sides, &pages(), b"former");
    seen.until(&mut sides, |seen, _| seen.notified.len() == 1 && seen.outcomes.len() == 1);
    submit(&mut sides, &pages(), b"cut");
    assert!(sides.initiator.poll(6).unwrap().is_none());
    // The target removes its peer, and greets it like a new engine.
    let sender = seen.peers[1][0].0;
    assert!(sides.target.remove_peer(sender));
    sides.target.insert_peer(&address(&sides.initiator)).unwrap();
    seen.until(&mut sides, |seen, _| seen.outcomes.len() == 2);
    let reset = Ending::Failed(Error::Provider(Errno::ECONNRESET));
    assert!(seen.outcomes.iter().any(|outcome| outcome.ending == reset), "{:?}", seen.outcomes);
    for round in 0..5 {
        submit(&mut sides, &pages(), &[round; 3000]);
        seen.until(&mut sides, |seen, _| seen.notified.len() == 2 + usize::from(round));
    }
}

#[test]
fn engines_that_greet_at_one_time_take_turns_in_the_address_vectors() {
    let info = network_of(32).info();
    let mut hub = Side::open_in(&rails(&info, 1), EngineAttr { peers: 8, addresses: 1, ..talking() }, Global).unwrap();
    let mut others: Vec<_> = (0..8).map(|_| Side::open_in(&rails(&info, 1), talking(), Global).unwrap()).collect();
    for side in &mut others {
        side.insert_peer(&address(&hub)).unwrap();
        // All hellos are in flight.
        assert!(side.poll(0).unwrap().is_none());
    }
    let (mut reports, until) = (0, Instant::now() + LIMIT);
    while reports < 16 {
        for side in others.iter_mut().chain([&mut hub]) {
            match side.poll(0).unwrap() {
                Some(Event::Peer { result, .. }) => {
                    assert_eq!(result, Ok(()));
                    reports += 1;
                }
                Some(event) => panic!("{event:?}"),
                None => {}
            }
        }
        assert!(Instant::now() < until, "within {LIMIT:?}: {reports}");
    }
}
