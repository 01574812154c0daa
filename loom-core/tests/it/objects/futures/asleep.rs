//! Executors that sleep. Every event without a descriptor wakes them up.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use loom_core::driver::{Sleepable, Unclaimed};
use loom_core::error::PostError;
use loom_core::{Completion, Counter, CounterAttr, CqAttr, Source, WaitObj};

use crate::executor::{Flag, Task, poll_once, turns, woken};
use crate::objects::futures::{ATTR, Pair};

fn asleep<D: Sleepable>(d: &D) -> Arc<Flag> {
    let flag = Arc::<Flag>::default();
    let waker = Waker::from(flag.clone());
    turns(d);
    assert!(d.may_sleep(&waker).unwrap());
    flag
}

fn fd_pair() -> Pair<Vec<u8>> {
    Pair::with(ATTR, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) }, Unclaimed::Drop, None)
}

#[test]
fn cancel_wakes_the_driver() {
    let pair = fd_pair();
    let Pair { driver, bob, .. } = &pair;
    let key = bob.recv(Source::Any, vec![0; 1]).unwrap();
    let mut f = driver.finish(key);
    assert!(poll_once(&mut f).is_pending());
    let flag = asleep(driver);
    let mut t = Task::new(async move {
        let _ = f.cancel(bob).await.unwrap();
    });
    t.run();
    assert!(t.future.is_none() || woken(&flag) > 0, "executor sleeps on, the operation is over");
}

#[test]
fn post_without_a_waiter_wakes_the_driver() {
    let pair = fd_pair();
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    alice.inject(*to_bob, &[1; 8]).unwrap();
    let flag = asleep(driver);
    let mut t = Task::new(async move {
        let _key = driver.post(vec![0; 64], |b| bob.multi_recv(Source::Any, b)).await.unwrap();
        let Completion::Piece(_) = driver.next_event().await.unwrap() else { panic!() };
    });
    t.run();
    t.run();
    let ok = t.future.is_none() || woken(&flag) > 0;
    turns(driver);
    t.run();
    assert!(ok, "executor sleeps on");
}

#[test]
fn last_piece_of_a_multi_receive_wakes_the_driver() {
    let pair = fd_pair();
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let key = bob.multi_recv(Source::Any, vec![0; 64]).unwrap();
    let mut t = Task::new(async move {
        let _ = driver.finish(key).await.unwrap();
    });
    t.run();
    for _ in 0..4 {
        alice.inject(*to_bob, &[1; 16]).unwrap();
        turns(driver);
    }
    let mut pieces = vec![];
    while let Some(p) = driver.take_event() {
        pieces.push(p);
    }
    assert!(!pieces.is_empty());
    t.run();
    let flag = asleep(driver);
    drop(pieces);
    let ok = woken(&flag) > 0;
    turns(driver);
    t.run();
    assert!(ok, "executor sleeps on");
}

#[test]
fn posts_that_wait_for_slots_let_an_executor_sleep_and_others_do_not() {
    let pair = Pair::<Vec<u8>>::with(ATTR, CqAttr { wait: WaitObj::FD, ..CqAttr::new(1) }, Unclaimed::Drop, None);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    // The queue has one slot.
    let received = bob.recv(Source::Any, vec![0; 1]).unwrap();
    let mut next = Task::new(async {
        let next = driver.run(vec![0; 1], |room| bob.recv(Source::Any, room)).await.unwrap();
        assert_eq!(next.into_buf(), [8]);
    });
    next.run();
    let _ = asleep(driver);
    assert_eq!(woken(&next.flag), 0, "there is no slot");
    {
        // The provider decides when this refusal ends.
        let mut refused = Task::new(async { driver.retry(|| Err::<(), _>(PostError::Again)).await.unwrap() });
        refused.run();
        turns(driver);
        assert!(woken(&refused.flag) > 0 && !driver.may_sleep(Waker::noop()).unwrap());
    }
    next.run();
    let told = woken(&next.flag);
    let _ = asleep(driver);
    assert_eq!(woken(&next.flag), told);
    alice.inject(*to_bob, &[7]).unwrap();
    turns(driver);
    assert!(woken(&next.flag) > told, "a receive is over");
    // Taking its completion frees its slot.
    assert!(poll_once(&mut driver.finish(received)).is_ready());
    next.run();
    alice.inject(*to_bob, &[8]).unwrap();
    turns(driver);
    next.run();
    assert!(next.future.is_none());
}

#[test]
fn operation_that_completes_at_once_wakes_the_driver() {
    let pair = fd_pair();
    let Pair { driver, alice, to_bob, .. } = &pair;
    let flag = asleep(driver);
    let mut sent = pin!(driver.run(vec![1], |message| alice.send(*to_bob, message)));
    assert!(sent.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(woken(&flag) > 0, "the transport may have handed over what others wait for");
}

#[test]
fn waiting_for_a_counter_wakes_the_driver() {
    let pair = fd_pair();
    let Pair { driver, alice, bob, to_bob, cq, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    counter.add(1).unwrap();
    let mut task = Task::new(async {
        assert_eq!(driver.run(vec![0; 1], |room| bob.recv(Source::Any, room)).await.unwrap().into_buf(), [7]);
    });
    assert!(task.run());
    let flag = asleep(driver);
    alice.inject(*to_bob, &[7]).unwrap();
    assert!(!cq.wait_counter(&counter, 2, std::time::Instant::now()).unwrap());
    assert!(woken(&flag) > 0, "the receive may be over");
    turns(driver);
    task.run();
    assert!(task.future.is_none());
}
