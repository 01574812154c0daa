//! Peers without a sign of life. Their transfers end, and they return.

use std::time::Instant;

use loom_core::soft::{Every, Plan as Faults};
use loom_core::{CqError, Error};
use loom_fabric::loom_core;
use loom_transfer::{Ending, EngineAttr, Event, Outcome, Request};
use support::posting::LIMIT;

use super::messages::{Seen, pages, submit, talking};
use super::sides::{Sides, block, faulty, network, rails, soft};

#[test]
fn a_peer_that_is_silent_fails_and_returns() {
    let mut sides = soft(1, EngineAttr { silence: 1000, ..talking() });
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    // Peers answer while both are polled.
    for now in (0..20_000).step_by(100) {
        seen.now = now;
        let mut rounds = 0;
        while rounds < 10 {
            seen.until(&mut sides, |_, _| true);
            for side in [&mut sides.initiator, &mut sides.target] {
                assert!(side.poll(now).unwrap().is_none(), "{now}");
            }
            rounds += 1;
        }
    }
    submit(&mut sides, &pages(), b"early");
    let until = Instant::now() + LIMIT;
    let mut events = Vec::new();
    for now in (20_000..).step_by(100) {
        events.extend(sides.initiator.poll(now).unwrap());
        if events.len() == 2 {
            break;
        }
        assert!(Instant::now() < until, "within {LIMIT:?}");
    }
    let silent = Err(Error::Queue(CqError::TimedOut));
    for event in events {
        match event {
            // All bytes were posted before.
            Event::Ended(outcome) => assert_eq!(outcome.ending, Ending::Done),
            Event::Peer { peer, result } => assert_eq!((peer, result), (sides.peer, silent)),
            other => panic!("{other:?}"),
        }
    }
    // The target answers now.
    seen = Seen { now: 30_000, ..Seen::default() };
    seen.until(&mut sides, |seen, _| seen.peers[0].last().is_some_and(|report| report.1.is_ok()));
    submit(&mut sides, &pages(), b"again");
    seen.until(&mut sides, |seen, _| seen.notified.len() == 2);
    assert!(seen.notified.iter().map(|notified| &notified.0[..]).eq([&b"early"[..], b"again"]));
}

#[test]
fn a_peer_that_fails_while_it_is_greeted_returns_whatever_had_arrived() {
    let mut failed = 0;
    for seed in 0..200 {
        let faults = Faults { delay: 20, refuse: Every::About(2), ..Faults::new(seed) };
        let info = network().info_with_faults(faults);
        let mut sides =
            Sides::open(&rails(&info, 3), &rails(&info, 3), EngineAttr { silence: 1000, batch: 2, ..talking() });
        let (mut seen, mut polls) = (Seen::default(), 0);
        while polls < seed % 50 {
            polls += 1;
            for side in [&mut sides.initiator, &mut sides.target] {
                let event = side.poll(1).unwrap();
                assert!(matches!(event, None | Some(Event::Peer { result: Ok(()), .. })), "{event:?}");
            }
        }
        // The initiator is greeted, and the target is silent.
        seen.now = 1500;
        let Some(Event::Peer { peer, result }) = sides.initiator.poll(1500).unwrap() else { continue };
        if result.is_err() {
            failed += 1;
            seen.until(&mut sides, |seen, _| !seen.peers[0].is_empty());
            assert_eq!(seen.peers[0], [(peer, Ok(()))], "seed {seed}");
            submit(&mut sides, &pages(), b"greeted");
            seen.until(&mut sides, |seen, _| seen.notified.len() == 1);
        }
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn transfers_that_a_silent_peer_did_not_learn_of_take_no_room_of_later_ones() {
    let mut sides = soft(1, EngineAttr { silence: 1000, ..talking() });
    for round in 1..4 {
        let mut seen = Seen { now: 100_000 * round, ..Seen::default() };
        let peer = sides.peer;
        seen.until(&mut sides, |_, sides| sides.initiator.can_notify(peer));
        // The target does not answer. Transfers of the poll that finds it are not posted.
        let (until, mut failed) = (Instant::now() + LIMIT, false);
        for now in (seen.now..).step_by(100) {
            let late = now >= seen.now + 1000;
            if late && sides.initiator.can_notify(peer) {
                while sides.initiator.can_notify(peer) {
                    submit(&mut sides, &block(0, 0, 10), b"lost");
                }
                assert!(!sides.initiator.can_notify(peer));
                failed = matches!(sides.initiator.poll(now + 2000).unwrap(), Some(Event::Ended(outcome)) if outcome.result().is_err());
                break;
            }
            assert!(sides.initiator.poll(now).unwrap().is_none(), "round {round}");
            assert!(Instant::now() < until, "within {LIMIT:?}");
        }
        assert!(failed, "round {round}: nothing was posted");
        seen = Seen { now: 100_000 * round + 10_000, ..Seen::default() };
        seen.until(&mut sides, |seen, _| seen.peers[0].last().is_some_and(|report| report.1.is_ok()));
        assert!(sides.initiator.can_notify(peer), "round {round}");
        submit(&mut sides, &block(0, 0, 10), b"again");
        seen.until(&mut sides, |seen, _| seen.notified.len() == 1);
        assert_eq!(seen.notified[0].0, b"again");
        seen.until(&mut sides, |seen, _| seen.outcomes.last().is_some_and(|outcome| outcome.result().is_ok()));
    }
}

#[test]
fn a_silent_peer_ends_every_transfer_whatever_is_in_flight() {
    // Writes or messages complete late.
    let (mut writing, mut sending) = (0, 0);
    for seed in 0..60 {
        let faults = Faults { reorder: 8 + (seed % 40) as u32, delay: 1000, ..Faults::new(seed) };
        let mut sides = faulty(1, faults, EngineAttr { silence: 1000, ..talking() });
        let mut seen = Seen::default();
        seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
        let request = Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 10));
        sides.initiator.submit_and_notify(request, &[7; 3000]).unwrap();
        let until = Instant::now() + LIMIT;
        let outcome = (0..).step_by(50).find_map(|now| {
            assert!(Instant::now() < until, "within {LIMIT:?}, seed {seed}");
            match sides.initiator.poll(now).unwrap() {
                Some(Event::Ended(outcome)) => Some(outcome),
                _ => None,
            }
        });
        match outcome.unwrap() {
            Outcome { ending: Ending::Done, .. } => {}
            Outcome { ending: Ending::Failed(Error::Queue(CqError::TimedOut)), in_flight, operations, .. } => {
                assert_eq!(sides.initiator.in_flight(sides.local), Some(in_flight));
                writing += in_flight;
                sending += u32::from(operations == 1);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(writing > 0 && sending > 0, "{writing} {sending}");
}
