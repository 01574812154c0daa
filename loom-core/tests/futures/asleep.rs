//! Executors that sleep: whatever happens that no descriptor tells of wakes them.

use std::sync::Arc;
use std::task::Waker;

use loom_core::objects::deferred::{Deferred, Work};
use loom_core::objects::driver::{DeferredDriver, Sleepable, Unclaimed};
use loom_core::{Binding, Completion, Counted, Counter, CounterAttr, CqAttr, Source};

use crate::executor::{Flag, Task, poll_once, turns, woken};
use crate::{ATTR, Pair};

fn asleep<D: Sleepable>(d: &D) -> Arc<Flag> {
    let flag = Arc::<Flag>::default();
    let waker = Waker::from(flag.clone());
    turns(d);
    assert!(d.may_sleep(&waker).unwrap());
    flag
}

fn fd_pair() -> Pair<Vec<u8>> {
    Pair::with(ATTR, CqAttr::new(16).with_fd(), Unclaimed::Drop, None)
}

#[test]
fn cancel_wakes_who_drives() {
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
fn post_that_nobody_waits_for_wakes_who_drives() {
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
fn last_piece_of_a_multi_receive_wakes_who_drives() {
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
fn deferred_work_wakes_who_drives() {
    let pair = fd_pair();
    let Pair { driver, bob, to_bob, cq, av, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    let carol = cq.endpoint(Binding::to(av).counter(Counted::RECV, &counter)).unwrap();
    let deferred = Deferred::open(cq, 4).unwrap();
    let works = DeferredDriver::open(&deferred, driver).unwrap();
    let _ = bob;
    let both = (driver, &works);
    let flag = asleep(&both);
    let mut t = Task::new(async {
        let key = deferred.post((&counter, 0), &carol, Work::send(*to_bob), vec![1]).unwrap();
        works.finish(key).await.unwrap();
    });
    t.run();
    assert!(t.future.is_none() || woken(&flag) > 0, "executor sleeps on; work is due");
}
