//! Futures of deferred work.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::cq::CqError;
use loom_core::driver::{Drive, Unclaimed};
use loom_core::endpoint::Connectionless;
use loom_core::error::PostError;
use loom_core::soft::{Every, Plan};
use loom_core::{Binding, Counted, Counter, CounterAttr, CqAttr, Errno, Source};
use loom_deferred::{Deferred, DeferredDriver, Work};

use super::executor::{Task, block_on, poll_once, run, turns};
use super::memory::{Memory, begin, drops};
use super::pair::{ATTR, Pair};

#[test]
fn work_is_awaited_until_its_operation_completes() {
    let pair = Pair::<Vec<u8>>::open(32, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, cq, av, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    let carol = cq.endpoint(Binding::to(av).counter(Counted::RECV, &counter)).unwrap();
    let to_carol = av.insert(&carol.address().unwrap()).unwrap();
    let deferred = Deferred::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    // When carol has received two messages, she sends one to bob, and the counter is raised.
    let answer = deferred.post((&counter, 2), &carol, Work::send(*to_bob), b"both are here".to_vec()).unwrap();
    let raised = deferred.add((&counter, 2), &counter, 10).unwrap();
    let gone = av.insert(&alice.address().unwrap()).unwrap();
    assert!(av.remove(gone));
    let refused = deferred.post((&counter, 12), &carol, Work::send(gone), vec![5]).unwrap();
    let waits = [
        Task::new(async {
            let done = works.finish(answer).await.unwrap().unwrap();
            assert_eq!(done.into_buf(), b"both are here");
        }),
        Task::new(async { assert!(works.finish(raised).await.unwrap().is_none()) }),
        Task::new(async {
            let Err(rejected) = works.finish(refused).await else { panic!("nobody is there") };
            assert_eq!((rejected.error, rejected.value), (PostError::UnknownPeer.into(), Some(vec![5])));
        }),
    ];
    let talks = Task::new(async {
        let answered = driver.post(vec![0; 13], |room| bob.recv(Source::Any, room)).await.unwrap();
        for _ in 0..2 {
            let received = driver.post(vec![0; 1], |room| carol.recv(Source::Any, room)).await.unwrap();
            driver.retry(|| alice.inject(to_carol, &[1])).await.unwrap();
            driver.finish(received).await.unwrap().result().unwrap();
        }
        assert_eq!(driver.finish(answered).await.unwrap().into_buf(), b"both are here");
    });
    run(&(driver, works), waits.into_iter().chain([talks]));
    assert_eq!(counter.read(), 12);
    assert!(deferred.is_empty());
}

#[test]
fn work_with_a_dropped_future_is_cancelled_or_continues() {
    begin();
    let pair = Pair::open(32, Unclaimed::Drop);
    let Pair { driver, bob, to_bob, cq, av, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    let carol = cq.endpoint(Binding::to(av).counter(Counted::RECV, &counter)).unwrap();
    let deferred = Deferred::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    let work = |id: &mut usize| {
        let buf = Memory::new(&[7; 4]);
        *id = buf.id;
        deferred.post((&counter, 1), &carol, Work::send(*to_bob), buf).unwrap()
    };
    let (mut early, mut late) = (0, 0);
    let mut first = Box::pin(works.finish(work(&mut early)));
    assert!(poll_once(&mut first).is_pending());
    drop(first);
    assert_eq!((drops(early), deferred.len()), (1, 0), "it had not started");
    let mut second = Box::pin(works.finish(work(&mut late)));
    assert!(poll_once(&mut second).is_pending());
    counter.add(1).unwrap();
    works.turn(1);
    drop(second);
    let received = bob.recv(Source::Any, Memory::new(&[0; 4])).unwrap();
    let done = block_on(&(driver, works), driver.finish(received)).unwrap();
    assert_eq!(done.buf().bytes(), [7; 4]);
    for _ in 0..20 {
        (driver, works).turn(8);
    }
    assert_eq!(drops(late), 1);
}

#[test]
fn cancelled_work_and_work_of_another_queue_get_an_error() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let other = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, bob, to_alice, cq, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    let deferred = Deferred::open(cq, 4).unwrap();
    assert_eq!(DeferredDriver::new(&deferred, &other.driver).unwrap_err(), Errno::EINVAL.into());
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    let keys: Vec<_> = (0..3_u8)
        .map(|number| deferred.post((&counter, 1), bob, Work::send(*to_alice), vec![number]).unwrap())
        .collect();
    let waits = keys.iter().map(|key| {
        let works = &works;
        Task::new(async move {
            let Err(rejected) = works.finish(*key).await else { panic!("it was flushed") };
            assert_eq!(rejected.error, PostError::Errno(Errno::ECANCELED).into());
            assert!(rejected.value.is_some());
        })
    });
    let flushes = Task::new(async { assert_eq!(deferred.flush(None), 3) });
    run(&(driver, works), waits.chain([flushes]));
    assert!(block_on(&(driver, works), works.finish(keys[0])).unwrap().is_none(), "it is over");
}

#[test]
fn returned_work_leaves_no_entry_when_its_future_is_dropped() {
    for (unclaimed, left) in [(Unclaimed::Drop, 0), (Unclaimed::Keep, 1)] {
        let pair = Pair::<Vec<u8>>::open(8, unclaimed);
        let Pair { driver, bob, to_alice, cq, domain, .. } = &pair;
        let counter = Counter::open(domain, CounterAttr::default()).unwrap();
        let deferred = Deferred::open(cq, 4).unwrap();
        let works = DeferredDriver::new(&deferred, driver).unwrap();
        let key = deferred.post((&counter, 1), bob, Work::send(*to_alice), vec![1]).unwrap();
        deferred.cancel(key).unwrap();
        drop(works.finish(key));
        assert_eq!(deferred.len(), left, "{unclaimed:?}");
    }
}

#[test]
fn second_future_of_work_dropped_before_a_poll_does_not_cancel_it() {
    let pair = Pair::<Vec<u8>>::open(32, Unclaimed::Drop);
    let Pair { driver, to_bob, cq, av, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    let carol = cq.endpoint(Binding::to(av).counter(Counted::RECV, &counter)).unwrap();
    let deferred = Deferred::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    let key = deferred.post((&counter, 1), &carol, Work::send(*to_bob), vec![1]).unwrap();
    let mut first = Box::pin(works.finish(key));
    assert!(poll_once(&mut first).is_pending());
    drop(works.finish(key));
    assert_eq!(deferred.len(), 1, "a future that never waited cancels what another one waits for");
}

#[test]
fn chain_of_work_goes_on_of_which_only_the_end_is_awaited() {
    let pair = Pair::<Vec<u8>>::open(32, Unclaimed::Drop);
    let Pair { driver, bob, to_bob, cq, av, domain, .. } = &pair;
    let [c1, c2] = [(); 2].map(|()| Counter::open(domain, CounterAttr::default()).unwrap());
    let carol = cq.endpoint(Binding::to(av)).unwrap();
    let deferred = Deferred::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    for _ in 0..2 {
        let _ = bob.recv(Source::Any, vec![0; 4]).unwrap();
    }
    let _first = deferred.post_then((&c1, 0), &carol, Work::send(*to_bob), &c2, vec![7; 4]).unwrap();
    let second = deferred.post((&c2, 1), &carol, Work::send(*to_bob), vec![8; 4]).unwrap();
    let mut t = Task::new(async {
        works.finish(second).await.unwrap();
    });
    for _ in 0..100 {
        t.run();
        driver.turn(8);
        works.turn(8);
    }
    assert!(t.future.is_none(), "the first is over ({} counted), the second never starts", c2.read());
}

#[test]
fn work_that_fails_without_a_waiter_counts_as_a_failure() {
    let pair = Pair::<Vec<u8>>::open(32, Unclaimed::Drop);
    let Pair { driver, cq, av, domain, .. } = &pair;
    let [c1, c2] = [(); 2].map(|()| Counter::open(domain, CounterAttr::default()).unwrap());
    let carol = cq.endpoint(Binding::to(av)).unwrap();
    let deferred = Deferred::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    let first = deferred.post_then((&c1, 0), &carol, Work::recv(Source::Any), &c2, vec![7; 4]).unwrap();
    let mut f = Box::pin(works.finish(first));
    assert!(poll_once(&mut f).is_pending());
    works.turn(8);
    assert!(poll_once(&mut f).is_pending());
    drop(f);
    deferred.cancel(first).unwrap();
    for _ in 0..100 {
        driver.turn(8);
        works.turn(8);
    }
    assert_eq!((c2.read(), c2.read_error()), (0, 1), "it was cancelled");
}

/// Buffer that drops a value when it is posted.
struct Dropping {
    at_post: Rc<RefCell<Option<Box<dyn Any>>>>,
    lent: Rc<Cell<u32>>,
}

// SAFETY: no bytes.
#[allow(unsafe_code, reason = "implements the unsafe trait `Buffer`")]
unsafe impl Buffer for Dropping {
    fn lend(&mut self) -> Lent {
        drop(self.at_post.take());
        self.lent.set(self.lent.get() + 1);
        ().lend()
    }
}
impl SourceBuffer for Dropping {}
impl TargetBuffer for Dropping {}

/// A buffer may own, and drop, the future of its own work.
#[test]
fn work_with_a_future_dropped_in_its_post_goes_on_and_leaves_no_entry() {
    let (mut sent, mut cancelled) = (0, 0);
    for refused in [false, true] {
        for seed in 0..20 {
            let plan = Plan { refuse: Every::About(2), ..Plan::new(seed) };
            let pair = Pair::<Dropping>::with(ATTR, CqAttr::new(8), Unclaimed::Drop, Some(plan));
            let Pair { driver, alice, bob, to_alice, cq, av, domain, .. } = &pair;
            let counter = Counter::open(domain, CounterAttr::default()).unwrap();
            let deferred = Rc::new(Deferred::open(cq, 4).unwrap());
            let works = DeferredDriver::new(&deferred, driver).unwrap();
            let gone = cq.endpoint(av).unwrap();
            let to_gone = av.insert(&gone.address().unwrap()).unwrap();
            drop(gone);
            let to = if refused { to_gone } else { *to_alice };
            let (slot, lent) = (Rc::default(), Rc::new(Cell::new(0)));
            let buf = Dropping { at_post: Rc::clone(&slot), lent: lent.clone() };
            let work = deferred.post((&counter, 1), bob, Work::send(to), buf).unwrap();
            let (owned, driver_of) = (Rc::clone(&deferred), driver.clone());
            let mut future = Box::pin(async move {
                let works = DeferredDriver::new(&owned, &driver_of).unwrap();
                works.finish(work).await
            });
            assert!(poll_once(&mut future).is_pending());
            *slot.borrow_mut() = Some(Box::new(future));
            counter.add(1).unwrap();
            turns(&(driver, works));
            assert!(slot.borrow().is_none(), "it was posted");
            assert!(deferred.is_empty(), "seed {seed}");
            assert_eq!(Rc::strong_count(&lent), 1, "seed {seed}: its buffer was dropped");
            assert_eq!(lent.get(), 1, "seed {seed}: it was not tried again");
            // Counts the send if its message has reached alice. A transient refusal was cancelled.
            let room = Dropping { at_post: Rc::default(), lent: Rc::default() };
            let received =
                block_on(driver, driver.post(room, |room| alice.recv(Source::Any, room))).map_err(|_| "").unwrap();
            let mut received = driver.finish(received);
            let _ = poll_once(&mut received);
            turns(driver);
            if poll_once(&mut received).is_ready() { sent += 1 } else { cancelled += 1 }
        }
    }
    // Each seed had one final refusal.
    assert!(sent > 0 && cancelled > 20, "{sent} sent, {cancelled} refused: not all of one kind");
}

#[test]
fn dropped_future_of_work_leaves_it_to_its_other_waiters() {
    for starts_before in [false, true] {
        let pair = Pair::<Vec<u8>>::open(32, Unclaimed::Drop);
        let Pair { driver, alice, cq, av, domain, .. } = &pair;
        let counter = Counter::open(domain, CounterAttr::default()).unwrap();
        let carol = cq.endpoint(av).unwrap();
        let to_carol = av.insert(&carol.address().unwrap()).unwrap();
        let deferred = Deferred::open(cq, 4).unwrap();
        let works = DeferredDriver::new(&deferred, driver).unwrap();
        let work = deferred.post((&counter, 1), &carol, Work::recv(Source::Any), vec![0; 5]).unwrap();
        let mut first = Box::pin(works.finish(work));
        let mut second = Box::pin(works.finish(work));
        if starts_before {
            counter.add(1).unwrap();
            turns(&(driver, works));
            assert!(poll_once(&mut first).is_pending(), "the receive is posted");
        } else {
            assert!(poll_once(&mut first).is_pending());
            let awaited = poll_once(&mut second);
            let Poll::Ready(Err(awaited)) = awaited else { panic!("{awaited:?}") };
            assert_eq!(awaited.error, CqError::Awaited.into());
        }
        drop(second);
        counter.add(1).unwrap();
        turns(&(driver, works));
        alice.inject(to_carol, b"hello").unwrap();
        let done = block_on(&(driver, works), first).unwrap().expect("it was not cancelled");
        assert_eq!(done.into_buf(), b"hello");
        assert!(deferred.is_empty());
    }
}

#[test]
fn futures_are_woken_as_soon_as_their_work_no_longer_waits() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, bob, to_alice, cq, domain, .. } = &pair;
    let [start, far, sum] = [(); 3].map(|()| Counter::open(domain, CounterAttr::default()).unwrap());
    let deferred = Deferred::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    let send = |counter| deferred.post((counter, 1), bob, Work::send(*to_alice), vec![1]).unwrap();
    let [sent, cancelled, flushed] = [&start, &start, &far].map(send);
    let added = deferred.add((&start, 1), &sum, 5).unwrap();
    let mut tasks = [sent, cancelled, flushed, added].map(|work| {
        let mut task = Task::new(async move {
            let _ended = works.finish(work).await;
        });
        assert!(task.run());
        task
    });
    let mut expect = |number: usize| {
        for (other, task) in tasks.iter_mut().enumerate() {
            assert_eq!(task.run(), other == number, "{other} of {number}");
        }
    };
    deferred.cancel(cancelled).unwrap();
    expect(1);
    assert_eq!(deferred.flush(Some(&far)), 1);
    expect(2);
    start.add(1).unwrap();
    works.turn(8);
    assert_eq!(sum.read(), 5);
    let [sent, .., added] = &mut tasks;
    assert!(sent.run() && added.run() && added.future.is_none());
}

/// Waker that panics.
struct Panics;
impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("in a waker")
    }
}

#[test]
fn waker_that_panics_costs_no_work() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, cq, domain, .. } = &pair;
    let [start, sum] = [(); 2].map(|()| Counter::open(domain, CounterAttr::default()).unwrap());
    let deferred = Deferred::<_, _, _, Connectionless<'_, _>>::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    let [first, second] = [1, 10].map(|value| deferred.add((&start, 1), &sum, value).unwrap());
    let mut waits = works.finish(first);
    let waker = Waker::from(Arc::new(Panics));
    assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(&waker)).is_pending());
    start.add(1).unwrap();
    catch_unwind(AssertUnwindSafe(|| works.turn(8))).unwrap_err();
    assert_eq!((sum.read(), deferred.len()), (1, 1));
    assert!(block_on(&(driver, works), works.finish(second)).unwrap().is_none());
    assert!(matches!(poll_once(&mut waits), Poll::Ready(Ok(None))));
    assert_eq!((sum.read(), deferred.len()), (11, 0));
}

#[test]
fn work_with_a_dropped_future_can_be_awaited_again() {
    let pair = Pair::<Vec<u8>>::open(32, Unclaimed::Drop);
    let Pair { driver, alice, cq, av, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    let carol = cq.endpoint(av).unwrap();
    let to_carol = av.insert(&carol.address().unwrap()).unwrap();
    let deferred = Deferred::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    let work = deferred.post((&counter, 0), &carol, Work::recv(Source::Any), vec![0; 5]).unwrap();
    turns(&(driver, works));
    let mut first = Box::pin(works.finish(work));
    assert!(poll_once(&mut first).is_pending());
    drop(first);
    let mut again = Box::pin(works.finish(work));
    assert!(poll_once(&mut again).is_pending());
    alice.inject(to_carol, b"hello").unwrap();
    let done = block_on(&(driver, works), again).unwrap().expect("a future waits for it");
    assert_eq!(done.into_buf(), b"hello");
}
