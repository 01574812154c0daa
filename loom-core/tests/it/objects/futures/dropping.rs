//! Dropped futures. Their operations continue, and their buffers are dropped or returned, once.

use loom_core::completion::Peek;
use loom_core::cq::CqError;
use loom_core::driver::{CqDriver, Drive, Unclaimed};
use loom_core::{Completion, Errno, Source, Tag};

use crate::executor::{Task, block_on, poll_once, run};
use crate::memory::{Memory, assert_dropped_once, begin, drops};
use crate::objects::futures::{Pair, S};

/// Polls until no event is left.
fn settle(driver: &CqDriver<'static, S, Memory>) {
    while driver.turn(8) > 0 {}
}

#[test]
fn buffer_of_a_dropped_future_is_dropped_when_its_operation_completes() {
    begin();
    let pair = Pair::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, cq, .. } = &pair;
    for polled in [false, true] {
        let room = Memory::new(&[0; 4]);
        let id = room.id;
        let mut received = driver.finish(bob.recv(Source::Any, room).unwrap());
        if polled {
            assert!(poll_once(&mut received).is_pending());
        }
        drop(received);
        settle(driver);
        assert_eq!((drops(id), cq.in_flight()), (0, 1), "it is still lent");
        alice.inject(*to_bob, &[1; 4]).unwrap();
        settle(driver);
        assert_eq!((drops(id), cq.in_flight()), (1, 0));
        assert!(driver.take_unclaimed().is_none());
    }
}

#[test]
fn buffer_of_a_dropped_future_is_taken_back_once() {
    begin();
    let pair = Pair::open(4, Unclaimed::Keep);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let ids = [1, 2, 3].map(|number| {
        let room = Memory::new(&[0; 1]);
        let id = room.id;
        // Each future is in another state: never polled, waiting, and completed but not polled
        // again.
        let mut received = driver.finish(bob.recv(Source::Any, room).unwrap());
        if number > 1 {
            assert!(poll_once(&mut received).is_pending());
        }
        let early = (number < 3).then(|| drop(received));
        alice.inject(*to_bob, &[number]).unwrap();
        settle(driver);
        assert!(early.is_some() || drops(id) == 0);
        id
    });
    let mut back = Vec::new();
    block_on(driver, async {
        for _ in 0..3 {
            let done = driver.next_unclaimed().await.unwrap();
            assert!(done.result().is_ok());
            back.push((done.buf().id, done.buf().bytes()[0]));
        }
    });
    assert_eq!(back, [(ids[0], 1), (ids[1], 2), (ids[2], 3)]);
    assert!(driver.take_unclaimed().is_none());
    assert!(ids.iter().all(|id| drops(*id) == 1));
}

#[test]
fn operation_that_was_given_up_can_be_waited_for_again_by_its_key() {
    for claimed in 0..3 {
        let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Keep);
        let Pair { driver, alice, bob, to_bob, .. } = &pair;
        let keys: Vec<_> = (0..3).map(|_| bob.recv(Source::Any, vec![0]).unwrap()).collect();
        for key in &keys {
            let mut given_up = driver.finish(*key);
            assert!(poll_once(&mut given_up).is_pending());
        }
        for number in 0..3 {
            alice.inject(*to_bob, &[number]).unwrap();
        }
        while driver.turn(8) > 0 {}
        // The first, the second or the last is claimed by its key. Its slot is then reused.
        let done = block_on(driver, driver.finish(keys[usize::from(claimed)])).unwrap();
        assert_eq!(done.into_buf(), [claimed]);
        drop(driver.finish(bob.recv(Source::Any, vec![0]).unwrap()));
        alice.inject(*to_bob, &[9]).unwrap();
        while driver.turn(8) > 0 {}
        let back: Vec<u8> = std::iter::from_fn(|| driver.take_unclaimed()).map(|done| done.into_buf()[0]).collect();
        let others = (0..3).filter(|number| *number != claimed);
        assert_eq!(back, others.chain([9]).collect::<Vec<_>>());
    }
}

#[test]
fn abandoned_operation_is_returned_after_waits_of_another_kind() {
    let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Keep);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let key = bob.recv(Source::Any, vec![0]).unwrap();
    drop(driver.finish(key));
    alice.inject(*to_bob, &[4]).unwrap();
    while driver.turn(8) > 0 {}
    assert_eq!(block_on(driver, driver.finish_peek(key)).unwrap_err(), CqError::UnknownKey);
    assert_eq!(block_on(driver, driver.finish_value(key)).unwrap_err(), CqError::UnknownKey);
    assert_eq!(driver.take_unclaimed().unwrap().into_buf(), [4]);
}

#[test]
fn old_key_does_not_affect_the_operation_in_its_slot() {
    begin();
    let pair = Pair::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, cq, .. } = &pair;
    let old = bob.recv(Source::Any, Memory::new(&[0])).unwrap();
    alice.inject(*to_bob, &[1]).unwrap();
    drop(block_on(driver, driver.finish(old)).unwrap());
    // In the same slot.
    let given_up = bob.recv(Source::Any, Memory::new(&[0])).unwrap();
    drop(driver.finish(given_up));
    assert_eq!(block_on(driver, driver.finish(old)).unwrap_err(), CqError::UnknownKey);
    alice.inject(*to_bob, &[2]).unwrap();
    settle(driver);
    assert_eq!(cq.in_flight(), 0);
    assert_dropped_once();
}

#[test]
fn key_that_was_kept_is_not_given_up() {
    let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let mut received = driver.finish(bob.recv(Source::Any, vec![0]).unwrap());
    assert!(poll_once(&mut received).is_pending());
    let key = received.into_key();
    alice.inject(*to_bob, &[4]).unwrap();
    while driver.turn(8) > 0 {}
    assert_eq!(block_on(driver, driver.finish(key)).unwrap().into_buf(), [4]);
}

#[test]
fn cancelled_operation_is_awaited_whatever_becomes_of_it() {
    begin();
    let pair = Pair::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    for arrives in [false, true] {
        let received = driver.finish(bob.recv(Source::Any, Memory::new(&[0; 1])).unwrap());
        if arrives {
            alice.inject(*to_bob, &[1]).unwrap();
            settle(driver);
        }
        let done = block_on(driver, received.cancel(bob)).unwrap();
        match done.result() {
            Ok(transfer) => assert!(arrives && transfer.len == 1),
            Err(error) => assert!(!arrives && error.errno == Errno::ECANCELED),
        }
    }
}

#[test]
fn call_of_cancel_cancels_and_its_future_has_no_borrows() {
    fn kept<F: Future + 'static>(future: F) -> F {
        future
    }
    begin();
    let pair = Pair::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let [first, second, third] = [1, 2, 3].map(|byte| bob.recv(Source::Any, Memory::new(&[byte])).unwrap());
    // One future is kept without polls, one is dropped.
    let cancelled = kept(driver.finish(first).cancel(bob));
    drop(driver.finish(second).cancel(bob));
    alice.inject(*to_bob, &[9]).unwrap();
    assert_eq!(block_on(driver, driver.finish(third)).unwrap().buf().bytes(), [9], "the others take no message");
    let outcome = block_on(driver, cancelled).unwrap().result();
    assert_eq!(outcome.unwrap_err().errno, Errno::ECANCELED);
    assert_eq!(driver.cq().in_flight(), 0);
}

#[test]
fn answer_to_a_peek_with_a_dropped_future_is_an_event_with_its_claim() {
    let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    alice.tagged_inject(*to_bob, Tag(1), &[1]).unwrap();
    block_on(driver, async {
        loop {
            let key = driver.retry(|| bob.tagged_peek_claim(Source::Any, Tag(1))).await.unwrap();
            let mut peek = driver.finish_peek(key);
            if poll_once(&mut peek).is_pending() {
                drop(peek);
                let Completion::Peek(peek) = driver.next_event().await.unwrap() else { panic!("no other event") };
                if let Some(found) = peek.message().unwrap() {
                    let claim = found.claim.unwrap();
                    let done = driver.run(vec![0], |room| bob.tagged_claim(claim, room)).await.unwrap();
                    assert_eq!(done.into_buf(), [1]);
                    return;
                }
            }
        }
    });
}

#[test]
fn futures_and_driver_can_be_dropped_in_any_order() {
    begin();
    let pair = Pair::open(4, Unclaimed::Keep);
    let Pair { driver, alice, bob, to_bob, cq, .. } = pair;
    let room = Memory::new(&[0; 1]);
    let id = room.id;
    let mut received = driver.finish(bob.recv(Source::Any, room).unwrap());
    assert!(poll_once(&mut received).is_pending());
    let mut event = Box::pin(driver.next_event());
    assert!(poll_once(&mut event).is_pending());
    drop((driver, alice));
    let _ = to_bob;
    drop((bob, event));
    drop(cq);
    assert_eq!(drops(id), 0);
    drop(received);
    assert_eq!(drops(id), 1);
}

#[test]
fn forgotten_future_keeps_its_queue_and_delays_no_other_wait() {
    let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let mut forgotten = driver.finish(bob.recv(Source::Any, vec![0]).unwrap());
    assert!(poll_once(&mut forgotten).is_pending());
    core::mem::forget(forgotten);
    let next = bob.recv(Source::Any, vec![0]).unwrap();
    run(
        driver,
        [Task::new(async {
            driver.retry(|| alice.inject(*to_bob, &[1])).await.unwrap();
            driver.retry(|| alice.inject(*to_bob, &[2])).await.unwrap();
            assert_eq!(driver.finish(next).await.unwrap().into_buf(), [2]);
        })],
    );
}

/// A peek with a kept answer, and its woken future. The slot of the peek is already free.
fn answered(pair: &Pair<Vec<u8>>) -> (impl Future<Output = Result<Peek, CqError>> + Unpin, usize) {
    let Pair { driver, bob, cq, .. } = pair;
    let mut peek = driver.finish_peek(bob.tagged_peek(Source::Any, Tag(1)).unwrap());
    assert!(poll_once(&mut peek).is_pending());
    while driver.turn(8) > 0 {}
    (peek, cq.in_flight())
}

#[test]
fn answered_peek_does_not_disturb_the_next_operation_of_its_slot() {
    for dropped in [false, true] {
        let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Drop);
        let Pair { driver, alice, bob, to_bob, .. } = &pair;
        let (mut peek, in_flight) = answered(&pair);
        assert_eq!(in_flight, 0);
        let received = driver.finish(bob.recv(Source::Any, vec![0]).unwrap());
        let mut waits = Task::new(async { assert_eq!(received.await.unwrap().into_buf(), [9]) });
        waits.run();
        if dropped {
            drop(peek);
        } else {
            assert!(poll_once(&mut peek).is_ready());
        }
        alice.inject(*to_bob, &[9]).unwrap();
        run(driver, [waits]);
    }
}

#[test]
fn answer_is_an_event_also_if_the_peek_is_dropped_after_it_came() {
    let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Drop);
    let Pair { driver, bob, .. } = &pair;
    let (peek, _) = answered(&pair);
    assert!(driver.take_event().is_none(), "it is the future's");
    drop(peek);
    assert!(matches!(driver.take_event(), Some(Completion::Peek(_))));

    // Another operation has its slot when the answer arrives.
    let mut peek = driver.finish_peek(bob.tagged_peek(Source::Any, Tag(1)).unwrap());
    assert!(poll_once(&mut peek).is_pending());
    drop(peek);
    while driver.turn(8) > 0 {}
    let mut received = driver.finish(bob.recv(Source::Any, vec![0]).unwrap());
    assert!(poll_once(&mut received).is_pending());
    assert!(matches!(driver.take_event(), Some(Completion::Peek(_))));
}
