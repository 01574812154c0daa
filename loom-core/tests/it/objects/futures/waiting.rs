//! Wake-ups: their tasks, their events, and their order.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::atomic::Ordering;

use loom_core::cq::{CqError, PEER_EVENTS};
use loom_core::driver::{CqDriver, Drive, Unclaimed};
use loom_core::engine::op_table::Direction;
use loom_core::{Access, Completion, Errno, ImmediateData, Mr, OpKey, Source};

use crate::executor::{Task, block_on, poll_once, run};
use crate::objects::futures::Pair;

#[test]
fn event_wakes_only_the_waiter_for_its_operation() {
    const MANY: usize = 32;
    let pair = Pair::<Vec<u8>>::open(2 * MANY, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let mut tasks: Vec<Task<'_>> = (0..MANY)
        .map(|number| {
            let received = bob.recv(Source::Any, vec![0; 1]).unwrap();
            Task::new(async move {
                let number = u8::try_from(number).unwrap();
                assert_eq!(driver.finish(received).await.unwrap().into_buf(), [number]);
            })
        })
        .collect();
    tasks.iter_mut().for_each(|task| assert!(task.run()));
    let woken = |tasks: &[Task<'_>]| tasks.iter().map(|task| task.flag.times.load(Ordering::Relaxed)).sum::<usize>();
    for number in 0..MANY {
        alice.inject(*to_bob, &[u8::try_from(number).unwrap()]).unwrap();
        while driver.turn(1) == 0 {}
        assert_eq!(woken(&tasks), number + 1, "one is woken by each");
        assert!(tasks[number].run() && tasks[number].future.is_none());
    }
    assert_eq!(driver.turn(8), 0);
    assert_eq!(woken(&tasks), MANY);
}

#[test]
fn turn_takes_no_more_events_than_its_budget() {
    let pair = Pair::<Vec<u8>>::open(32, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    for _ in 0..10 {
        let _: OpKey = bob.recv(Source::Any, vec![0; 1]).unwrap();
        alice.inject(*to_bob, &[1]).unwrap();
    }
    let turns: Vec<usize> = (0..5).map(|_| driver.turn(3)).collect();
    assert_eq!(turns.iter().sum::<usize>(), 10);
    assert!(turns.iter().all(|events| *events <= 3), "{turns:?}");
}

#[test]
fn posts_that_find_no_room_are_taken_in_order_of_arrival() {
    const TASKS: usize = 40;
    let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let order = RefCell::new(Vec::new());
    let senders = (0..TASKS).map(|number| {
        let order = &order;
        Task::new(async move {
            let message = vec![u8::try_from(number).unwrap()];
            let key = driver.post(message, |message| alice.send(*to_bob, message)).await.unwrap();
            order.borrow_mut().push(number);
            driver.finish(key).await.unwrap().result().unwrap();
        })
    });
    let receiver = Task::new(async {
        for number in 0..TASKS {
            let done = driver.run(vec![0], |room| bob.recv(Source::Any, room)).await.unwrap();
            assert_eq!(done.into_buf(), [u8::try_from(number).unwrap()]);
        }
    });
    run(driver, core::iter::once(receiver).chain(senders));
    assert!(order.borrow().is_sorted(), "{:?}", order.borrow());
}

#[test]
fn dropped_waiter_for_room_does_not_delay_others() {
    let pair = Pair::<Vec<u8>>::open(1, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let blocks = bob.recv(Source::Any, vec![0; 1]).unwrap();
    let mut first = Task::new(async {
        driver.run(vec![1], |message| alice.send(*to_bob, message)).await.unwrap().result().unwrap();
    });
    let mut second = Task::new(async {
        driver.run(vec![2], |message| alice.send(*to_bob, message)).await.unwrap().result().unwrap();
    });
    assert!(first.run() && second.run());
    first.future = None;
    alice.inject(*to_bob, &[0]).unwrap();
    assert_eq!(block_on(driver, driver.finish(blocks)).unwrap().into_buf(), [0]);
    run(driver, [second]);
    let received = block_on(driver, driver.run(vec![0], |room| bob.recv(Source::Any, room))).unwrap();
    assert_eq!(received.into_buf(), [2]);
}

#[test]
fn one_future_waits_for_an_operation_and_a_second_gets_an_error() {
    let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let key = bob.recv(Source::Any, vec![0; 1]).unwrap();
    let (mut one, mut other) = (driver.finish(key), driver.finish(key));
    assert!(poll_once(&mut one).is_pending());
    let core::task::Poll::Ready(Err(CqError::Awaited)) = poll_once(&mut other) else { panic!("it is told") };
    drop(other);
    alice.inject(*to_bob, &[7]).unwrap();
    assert_eq!(block_on(driver, one).unwrap().into_buf(), [7]);
    let Err(CqError::UnknownKey) = block_on(driver, driver.finish(key)) else { panic!("it is over") };
    // A key of a slot that the queue does not have.
    let other = Pair::<Vec<u8>>::open(64, Unclaimed::Drop);
    let keys: Vec<OpKey> = (0..9).map(|_| other.bob.recv(Source::Any, vec![0]).unwrap()).collect();
    let Err(CqError::UnknownKey) = block_on(driver, driver.finish(keys[8])) else { panic!("it is of another queue") };
}

#[test]
fn driven_queue_is_polled_by_its_driver_alone() {
    let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, cq, .. } = pair;
    let key = bob.recv(Source::Any, vec![0; 1]).unwrap();
    alice.inject(to_bob, &[7]).unwrap();
    assert_eq!(cq.poll().unwrap_err(), CqError::Driven);
    assert_eq!(cq.poll_direction(Direction::Receive).unwrap_err(), CqError::Driven);
    assert_eq!(cq.wait(key, loom_core::Forever).unwrap_err(), CqError::Driven);
    while driver.turn(8) > 0 {}
    assert_eq!(cq.wait(key, loom_core::Forever).unwrap_err(), CqError::Driven, "also of what is over");
    let second = CqDriver::open(&cq, Unclaimed::Drop).unwrap_err();
    assert_eq!(second, Errno::EBUSY.into());
    let waits = driver.finish(key);
    drop(driver);
    assert_eq!(cq.poll().unwrap_err(), CqError::Driven, "the future is a handle of it");
    assert_eq!(waits.into_key(), key);
    let done = cq.finish(key, loom_core::Forever).unwrap();
    assert_eq!(done.into_buf(), [7]);
    assert!(cq.poll().unwrap().is_none());
    drop(CqDriver::open(&cq, Unclaimed::Drop).unwrap());
}

#[test]
fn completion_kept_by_blocking_progress_wakes_its_future() {
    let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, cq, .. } = &pair;
    let received = bob.recv(Source::Any, vec![0; 1]).unwrap();
    let mut task = Task::new(async {
        assert_eq!(driver.finish(received).await.unwrap().into_buf(), [3]);
    });
    assert!(task.run());
    alice.inject(*to_bob, &[3]).unwrap();
    while !cq.progress().unwrap() {}
    run(driver, [task]);
}

#[test]
fn untaken_events_of_peers_end_waits_but_not_operations() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, domain, .. } = &pair;
    let region = Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let remote = region.remote();
    let received = bob.recv(Source::Any, vec![0; 1]).unwrap();
    block_on(driver, async {
        let mut written = 0;
        let stopped = loop {
            match driver.retry(|| alice.inject_write_data(*to_bob, &remote, 0, ImmediateData(1), &[1])).await {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            if written > PEER_EVENTS {
                let Err(CqError::PeerEvents) = driver.finish(received).await else { panic!("nobody takes them") };
                break loom_core::error::PostError::Again;
            }
        };
        assert!(stopped.is_transient());
        let mut events = 0;
        while events < written {
            let Completion::Remote(_) = driver.next_event().await.unwrap() else { panic!("no other event") };
            events += 1;
        }
        driver.retry(|| alice.inject(*to_bob, &[5])).await.unwrap();
        assert_eq!(driver.finish(received).await.unwrap().into_buf(), [5]);
    });
}

/// The state of a `select!` loop that waits for an operation in another arm.
#[test]
fn future_of_events_that_is_held_and_not_polled_does_not_hold_up_the_others_for_ever() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, domain, .. } = &pair;
    let region = Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let remote = region.remote();
    let received = bob.recv(Source::Any, vec![0; 1]).unwrap();
    block_on(driver, async {
        let mut held = pin!(driver.next_event());
        assert!(poll_once(&mut held.as_mut()).is_pending());
        for _ in 0..=PEER_EVENTS {
            driver.retry(|| alice.inject_write_data(*to_bob, &remote, 0, ImmediateData(1), &[1])).await.unwrap();
        }
        driver.retry(|| alice.inject(*to_bob, &[5])).await.unwrap();
        let Err(CqError::PeerEvents) = driver.finish(received).await else { panic!("nobody takes them") };
        assert!(matches!(held.await, Ok(Completion::Remote(_))));
        for _ in 0..PEER_EVENTS {
            let Completion::Remote(_) = driver.next_event().await.unwrap() else { panic!("no other event") };
        }
        assert_eq!(driver.finish(received).await.unwrap().into_buf(), [5]);
    });
}

/// Runs more turns than a future may leave events untaken in a row.
#[test]
fn turns_without_room_for_events_fail_no_wait_if_events_are_taken() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, domain, .. } = &pair;
    let region = Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let remote = region.remote();
    let mut received = driver.finish(bob.recv(Source::Any, vec![0; 1]).unwrap());
    let mut held = pin!(driver.next_event());
    assert!(poll_once(&mut received).is_pending() && poll_once(&mut held.as_mut()).is_pending());
    for number in 0..3000 {
        alice.inject_write_data(*to_bob, &remote, 0, ImmediateData(number), &[1]).unwrap();
        driver.turn(8);
        assert!(poll_once(&mut received).is_pending(), "after {number} events");
        let Some(oldest) = number.checked_sub(PEER_EVENTS as u64) else { continue };
        let Some(Completion::Remote(event)) = driver.take_event() else { panic!("{oldest} is lost") };
        assert_eq!(event.data(), Some(ImmediateData(oldest)));
    }
}

#[test]
fn each_event_of_a_peer_goes_to_one_waiter() {
    const EVENTS: u64 = 300;
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, to_bob, domain, .. } = &pair;
    let region = Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let remote = region.remote();
    let seen = RefCell::new(Vec::new());
    let takers = (0..3).map(|_| {
        let seen = &seen;
        Task::new(async move {
            for _ in 0..EVENTS / 3 {
                let Completion::Remote(event) = driver.next_event().await.unwrap() else { panic!("no other event") };
                seen.borrow_mut().push(event.data().unwrap().0);
            }
        })
    });
    let writer = Task::new(async {
        for number in 0..EVENTS {
            let data = ImmediateData(number);
            driver
                .run(vec![1], |byte| alice.write_data(*to_bob, &remote, 0, data, byte))
                .await
                .unwrap()
                .result()
                .unwrap();
        }
    });
    run(driver, takers.chain([writer]));
    let mut seen = seen.into_inner();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..EVENTS));
}
