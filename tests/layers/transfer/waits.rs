//! Waits that end by failures of writes and of peers, and at deadlines.

use std::time::Instant;

use loom_core::soft::Plan as Faults;
use loom_core::{CqError, Error, PostError};
use loom_fabric::loom_core;
use loom_transfer::{Ending, EngineAttr, Event, Request, Wait};
use support::posting::LIMIT;

use super::messages::{Seen, pages, talking};
use super::sides::{faulty, soft};

#[test]
fn a_failed_transfer_ends_the_waits_for_its_value() {
    let mut sides = soft(1, talking());
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    let sender = seen.peers[1][0].0;
    sides.target.wait(Wait { peer: Some(sender), ..Wait::new(3, 60) }).unwrap();
    sides.target.wait(Wait::new(3, 60)).unwrap();
    sides.target.wait(Wait::new(4, 1)).unwrap();
    // The owner ends the access of peers. The 16 writes that are posted at first fail.
    sides.target.deregister(sides.exposed).unwrap();
    let request = Request::write(sides.peer, sides.local, &sides.remote, pages()).data(3);
    sides.initiator.submit(request).unwrap();
    seen.until(&mut sides, |seen, _| seen.outcomes.len() == 1 && seen.failed_waits.len() == 2);
    assert!(matches!(seen.outcomes[0].ending, Ending::Failed(Error::Operation(_))));
    assert!(matches!(seen.failed_waits[..], [Error::Provider(first), Error::Provider(second)] if first == second));
    assert_eq!((seen.arrived, seen.late_writes), (0, vec![Some(16); 2]));
}

#[test]
fn a_failure_that_ended_no_wait_ends_later_ones_until_it_is_reported() {
    let mut sides = soft(1, EngineAttr { waits: 3, ..talking() });
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    let sender = seen.peers[1][0].0;
    sides.target.deregister(sides.exposed).unwrap();
    // One more than is kept.
    for value in 3..7 {
        let request = Request::write(sides.peer, sides.local, &sides.remote, pages()).data(value);
        sides.initiator.submit(request).unwrap();
        seen.until(&mut sides, |seen, _| seen.outcomes.len() as u64 == value - 2);
        for _ in 0..100 {
            assert!(sides.initiator.poll(0).unwrap().is_none() && sides.target.poll(0).unwrap().is_none());
        }
    }
    for value in 4..7 {
        let mut seen = Seen::default();
        sides.target.wait(Wait { peer: Some(sender), ..Wait::new(value, 60) }).unwrap();
        sides.target.wait(Wait::new(value, 60)).unwrap();
        seen.until(&mut sides, |seen, _| seen.failed_waits.len() == 2);
        assert!(matches!(seen.failed_waits[..], [Error::Provider(first), Error::Provider(second)] if first == second));
        assert_eq!(seen.late_writes, [Some(16); 2]);
    }
    // The failure of value 3 was replaced, and the others were reported.
    let waits = [3, 5].map(|value| sides.target.wait(Wait::new(value, 60)).unwrap());
    for _ in 0..100 {
        assert!(sides.initiator.poll(0).unwrap().is_none() && sides.target.poll(0).unwrap().is_none());
    }
    assert!(waits.into_iter().all(|wait| sides.target.end_wait(wait)));
}

#[test]
fn a_wait_that_ends_by_its_deadline_leaves_the_failure_to_the_next() {
    let mut sides = soft(1, talking());
    let mut seen = Seen { now: 1, ..Seen::default() };
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    sides.target.wait(Wait { deadline: 5, ..Wait::new(3, 60) }).unwrap();
    seen.now = 5;
    seen.until(&mut sides, |seen, _| seen.failed_waits.len() == 1);
    sides.target.deregister(sides.exposed).unwrap();
    let request = Request::write(sides.peer, sides.local, &sides.remote, pages()).data(3);
    sides.initiator.submit(request).unwrap();
    seen.until(&mut sides, |seen, _| seen.outcomes.len() == 1);
    sides.target.wait(Wait::new(3, 60)).unwrap();
    seen.until(&mut sides, |seen, _| seen.failed_waits.len() == 2);
    assert_eq!((seen.failed_waits[0], &seen.late_writes[..]), (CqError::TimedOut.into(), &[None, Some(16)][..]));
}

#[test]
fn a_wait_for_a_peer_that_has_failed_ends_at_once() {
    let mut sides = soft(1, EngineAttr { silence: 1000, ..talking() });
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    let until = Instant::now() + LIMIT;
    for now in (0..).step_by(100) {
        if let Some(Event::Peer { result, .. }) = sides.initiator.poll(now).unwrap() {
            assert_eq!(result, Err(CqError::TimedOut.into()));
            break;
        }
        assert!(Instant::now() < until, "within {LIMIT:?}");
    }
    let wait = sides.initiator.wait(Wait { peer: Some(sides.peer), ..Wait::new(4, 1) }).unwrap();
    let ended = sides.initiator.poll(5000).unwrap();
    let silent = Error::from(CqError::TimedOut);
    assert!(
        matches!(ended, Some(Event::WaitFailed { wait: ended, error, late_writes: None }) if (ended, error) == (wait, silent))
    );
}

#[test]
fn the_deadline_of_a_transfer_ends_its_receivers_wait_with_the_writes_that_may_arrive() {
    // Writes stay in flight beyond the deadline.
    let faults = Faults { reorder: 500, ..Faults::new(3) };
    let mut sides = faulty(1, faults, talking());
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    sides.target.wait(Wait::new(3, 60)).unwrap();
    let request = Request::write(sides.peer, sides.local, &sides.remote, pages()).data(3).deadline(10);
    sides.initiator.submit(request).unwrap();
    assert!(sides.initiator.poll(0).unwrap().is_none());
    seen.now = 10;
    seen.until(&mut sides, |seen, _| seen.outcomes.len() == 1 && seen.failed_waits.len() == 1);
    let outcome = &seen.outcomes[0];
    assert!(outcome.ending == Ending::Deadline && outcome.in_flight > 0);
    let writes = outcome.operations + u64::from(outcome.in_flight);
    assert_eq!((&seen.failed_waits[..], &seen.late_writes[..]), (&[CqError::TimedOut.into()][..], &[Some(writes)][..]));
    // All of them arrive.
    seen.until(&mut sides, |_, sides| sides.target.arrived(3) == writes);
}

#[test]
fn a_wait_ends_at_its_deadline_and_with_its_peer() {
    let mut sides = soft(1, talking());
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    let sender = seen.peers[1][0].0;
    sides.target.wait(Wait { deadline: 100, ..Wait::new(3, 1) }).unwrap();
    sides.target.wait(Wait { peer: Some(sender), ..Wait::new(4, 1) }).unwrap();
    seen.now = 99;
    assert!(sides.target.poll(99).unwrap().is_none());
    seen.now = 100;
    seen.until(&mut sides, |seen, _| seen.failed_waits.len() == 1);
    assert!(sides.target.remove_peer(sender));
    seen.until(&mut sides, |seen, _| seen.failed_waits.len() == 2);
    assert_eq!(seen.failed_waits, [Error::Queue(CqError::TimedOut), Error::Post(PostError::UnknownPeer)]);
    assert_eq!(sides.target.wait(Wait { peer: Some(sender), ..Wait::new(4, 1) }), Err(PostError::UnknownPeer.into()));
}

#[test]
fn the_removal_of_a_peer_drops_its_failures() {
    let mut sides = soft(1, talking());
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    sides.target.deregister(sides.exposed).unwrap();
    let request = Request::write(sides.peer, sides.local, &sides.remote, pages()).data(3);
    sides.initiator.submit(request).unwrap();
    seen.until(&mut sides, |seen, _| seen.outcomes.len() == 1);
    for _ in 0..100 {
        assert!(sides.initiator.poll(0).unwrap().is_none() && sides.target.poll(0).unwrap().is_none());
    }
    assert!(sides.target.remove_peer(seen.peers[1][0].0));
    let wait = sides.target.wait(Wait::new(3, 60)).unwrap();
    for _ in 0..100 {
        let event = sides.target.poll(0).unwrap();
        assert!(!matches!(event, Some(Event::WaitFailed { .. })), "{event:?}");
    }
    assert!(sides.target.end_wait(wait));
}
