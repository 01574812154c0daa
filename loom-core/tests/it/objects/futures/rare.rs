//! Rare events: a queue full of answers, a counter that is set back, a peer that takes no message,
//! events that another wait has kept.

use std::cell::Cell;
use std::task::Poll;

use loom_core::cq::PEER_EVENTS;
use loom_core::driver::{CounterDriver, Drive, Unclaimed};
use loom_core::{Access, Completion, Counter, CounterAttr, CqAttr, ImmediateData, Mr, Source, Tag};

use crate::executor::{Task, poll_once, turns};
use crate::objects::futures::{ATTR, Pair};

#[test]
fn as_many_answers_as_a_queue_keeps_do_not_fail_it() {
    let pair = Pair::<Vec<u8>>::with(ATTR, CqAttr::new(PEER_EVENTS + 16), Unclaimed::Drop, None);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let answers = Cell::new(0);
    let mut tasks: Vec<_> = (0..PEER_EVENTS)
        .filter_map(|_| bob.tagged_peek(Source::Any, Tag(8)).ok())
        .map(|key| {
            let answers = &answers;
            Task::new(async move {
                match driver.finish_peek(key).await {
                    Ok(_) => answers.set(answers.get() + 1),
                    Err(e) => println!("{e:?}"),
                }
            })
        })
        .collect();
    for t in &mut tasks {
        t.run();
    }
    driver.turn(256);
    for _ in 0..50 {
        for t in &mut tasks {
            t.run();
        }
        driver.turn(64);
    }
    assert!(driver.take_event().is_none());
    let key = bob.recv(Source::Any, vec![0; 1]).unwrap();
    let mut r = driver.finish(key);
    let p = poll_once(&mut r);
    if let Poll::Ready(Err(e)) = &p {
        panic!("nothing is kept, and the queue says {e:?}");
    }
    alice.inject(*to_bob, &[1]).unwrap();
}

#[test]
fn event_kept_by_blocking_progress_wakes_its_future() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, to_bob, domain, cq, .. } = &pair;
    let region = Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let remote = region.remote();
    let mut t = Task::new(async {
        let Completion::Remote(_) = driver.next_event().await.unwrap() else { panic!() };
    });
    t.run();
    alice.inject_write_data(*to_bob, &remote, 0, ImmediateData(1), &[1]).unwrap();
    while cq.progress().unwrap() {}
    turns(driver);
    t.run();
    assert!(t.future.is_none(), "an event is kept and nobody was woken");
}

#[test]
fn event_kept_by_a_close_wakes_its_future() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, to_bob, domain, cq, av, .. } = &pair;
    let carol = cq.endpoint(av).unwrap();
    let region = Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let remote = region.remote();
    let mut t = Task::new(async {
        let Completion::Remote(_) = driver.next_event().await.unwrap() else { panic!() };
    });
    t.run();
    alice.inject_write_data(*to_bob, &remote, 0, ImmediateData(1), &[1]).unwrap();
    drop(carol);
    turns(driver);
    t.run();
    assert!(t.future.is_none(), "an event is kept and nobody was woken");
}

#[test]
fn answer_kept_by_a_close_wakes_its_future() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, bob, cq, av, .. } = &pair;
    let carol = cq.endpoint(av).unwrap();
    let key = bob.tagged_peek(Source::Any, Tag(1)).unwrap();
    let mut t = Task::new(async {
        let _ = driver.finish_peek(key).await.unwrap();
    });
    t.run();
    assert!(t.future.is_some());
    drop(carol);
    turns(driver);
    t.run();
    assert!(t.future.is_none(), "an answer is kept and nobody was woken");
}

#[test]
fn counter_that_is_set_back_wakes_later_waiters() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let counter = Counter::open(&pair.domain, CounterAttr::default()).unwrap();
    counter.set(7).unwrap();
    let counted = CounterDriver::open(&counter).unwrap();
    counter.set(5).unwrap();
    let mut t = Task::new(async {
        counted.reached(7).await.unwrap();
    });
    t.run();
    counter.add(2).unwrap();
    turns(&counted);
    t.run();
    assert!(t.future.is_none(), "threshold reached, not woken");
}

#[test]
fn post_behind_others_that_are_never_taken_is_tried_also_while_there_are_events() {
    use std::cell::Cell;
    let pair = Pair::<Vec<u8>>::open(32, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let tried = Cell::new(0);
    let tried = &tried;
    let stuck = || Err::<(), _>(loom_core::error::PostError::Again);
    let mut tasks: Vec<_> = (0..3)
        .map(|_| {
            Task::new(async {
                let _ = driver.retry(stuck).await;
            })
        })
        .collect();
    // A healthy peer, which takes every message.
    tasks.push(Task::new(async {
        driver
            .retry(|| {
                tried.set(tried.get() + 1);
                Ok::<_, loom_core::error::PostError>(())
            })
            .await
            .unwrap();
    }));
    for t in &mut tasks {
        t.run();
    }
    let mut received = Vec::new();
    for _ in 0..8 {
        received.push(bob.recv(Source::Any, vec![0; 1]).unwrap());
        alice.inject(*to_bob, &[1]).unwrap();
    }
    for _ in 0..10_000 {
        // Other traffic continues: one event each turn.
        let events = driver.turn(1);
        if events > 0 {
            let k = received.remove(0);
            let _ = poll_once(&mut driver.finish(k));
            received.push(bob.recv(Source::Any, vec![0; 1]).unwrap());
            alice.inject(*to_bob, &[1]).unwrap();
        }
        for t in &mut tasks {
            t.run();
        }
        if tasks[3].future.is_none() {
            break;
        }
    }
    assert!(tasks[3].future.is_none(), "never tried in 10000 turns");
}
