//! Executors that sleep, and wakers that use the work.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};

use loom_core::driver::{Drive, Sleepable, Unclaimed};
use loom_core::endpoint::Connectionless;
use loom_core::{Binding, Counted, Counter, CounterAttr, CqAttr, Source, WaitObj};
use loom_deferred::{Deferred, DeferredDriver, Work};

use super::executor::{Flag, Task, turns, woken};
use super::pair::{ATTR, Pair};

fn fd_pair() -> Pair<Vec<u8>> {
    Pair::with(ATTR, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) }, Unclaimed::Drop, None)
}

#[test]
fn deferred_work_wakes_the_driver() {
    let pair = fd_pair();
    let Pair { driver, bob, to_bob, cq, av, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    let carol = cq.endpoint(Binding::to(av).counter(Counted::RECV, &counter)).unwrap();
    let deferred = Deferred::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    let _ = bob;
    let both = (driver, works);
    let flag = Arc::<Flag>::default();
    turns(&both);
    assert!(both.may_sleep(&Waker::from(flag.clone())).unwrap());
    let mut t = Task::new(async {
        let key = deferred.post((&counter, 0), &carol, Work::send(*to_bob), vec![1]).unwrap();
        works.finish(key).await.unwrap();
    });
    t.run();
    assert!(t.future.is_none() || woken(&flag) > 0, "executor sleeps on; work is due");
}

#[test]
fn dropped_future_of_completed_work_wakes_the_executor() {
    let pair = Pair::with(ATTR, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) }, Unclaimed::Keep, None);
    let Pair { driver, alice, bob, to_bob, cq, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    let deferred = Deferred::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    let both = (driver, works);
    let work = deferred.post((&counter, 0), bob, Work::recv(Source::Any), vec![0; 1]).unwrap();
    turns(&both);
    let mut received = Task::new(async { drop(works.finish(work).await) });
    received.run();
    alice.inject(*to_bob, &[1]).unwrap();
    turns(&both);
    let flag = Arc::<Flag>::default();
    assert!(both.may_sleep(&Waker::from(flag.clone())).unwrap());
    assert_eq!(woken(&flag), 0);
    received.future = None;
    assert_eq!(woken(&flag), 1, "the executor sleeps on");
    turns(&both);
    assert_eq!(driver.take_unclaimed().unwrap().into_buf(), [1]);
}

#[test]
fn executor_stays_awake_while_work_waits() {
    let pair = fd_pair();
    let Pair { driver, cq, domain, .. } = &pair;
    let [start, sum] = [(); 2].map(|()| Counter::open(domain, CounterAttr::default()).unwrap());
    let deferred = Deferred::<_, _, _, Connectionless<'_, _>>::open(cq, 4).unwrap();
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    deferred.add((&start, 1), &sum, 5).unwrap();
    assert_eq!(works.may_sleep(Waker::noop()), Ok(false));
    start.add(1).unwrap();
    works.turn(8);
    assert_eq!((sum.read(), works.may_sleep(Waker::noop())), (5, Ok(true)));
}

#[test]
fn completed_work_is_counted_before_the_executor_sleeps() {
    for examined_before in 0..3 {
        let pair = fd_pair();
        let Pair { driver, alice, bob, to_bob, cq, domain, .. } = &pair;
        let [start, received] = [(); 2].map(|()| Counter::open(domain, CounterAttr::default()).unwrap());
        let deferred = Deferred::open(cq, 2).unwrap();
        let works = DeferredDriver::new(&deferred, driver).unwrap();
        deferred.post((&start, 0), alice, Work::recv(Source::Any), vec![0; 1]).unwrap();
        deferred.post_then((&start, 0), bob, Work::recv(Source::Any), &received, vec![0; 1]).unwrap();
        works.turn(8);
        for _ in 0..examined_before {
            assert_eq!(works.may_sleep(Waker::noop()), Ok(true));
        }
        alice.inject(*to_bob, &[1]).unwrap();
        turns(driver);
        assert_eq!((works.may_sleep(Waker::noop()), received.read()), (Ok(false), 1));
        assert_eq!(works.may_sleep(Waker::noop()), Ok(true));
    }
}

thread_local! { static HOOK: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) }; }

/// Calls the hook once.
struct Calls;
impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        if let Some(mut hook) = HOOK.with(|hook| hook.borrow_mut().take()) {
            hook();
        }
    }
}

#[test]
fn waker_that_uses_deferred_work_may_be_woken_by_its_cancelling() {
    let pair = Pair::<Vec<u8>>::with(ATTR, CqAttr { wait: WaitObj::FD, ..CqAttr::new(4) }, Unclaimed::Drop, None);
    let Pair { driver, bob, cq, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    let deferred = Rc::new(Deferred::open(cq, 4).unwrap());
    let works = DeferredDriver::new(&deferred, driver).unwrap();
    let work = deferred.post((&counter, 0), bob, Work::recv(Source::Any), vec![0; 1]).unwrap();
    let both = (driver, works);
    turns(&both);
    assert!(both.may_sleep(&Waker::from(Arc::new(Calls))).unwrap(), "the receive is posted");
    let (seen, of) = (Rc::new(Cell::new(None)), deferred.clone());
    let told = seen.clone();
    HOOK.set(Some(Box::new(move || told.set(Some(of.len())))));
    deferred.cancel(work).unwrap();
    assert_eq!(seen.take(), Some(1), "its completion is still to come");
}
