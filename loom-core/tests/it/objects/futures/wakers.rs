//! Wakers with side effects: they panic, drive, or poll at once.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use loom_core::buffer::{Buffer, Lent, TargetBuffer};
use loom_core::driver::{CounterDriver, Drive, Unclaimed};
use loom_core::soft::{Every, Plan};
use loom_core::{Counter, CounterAttr, CqAttr, Source};

use crate::executor::{Flag, Task, poll_once, turns, woken};
use crate::objects::futures::{ATTR, Pair};

struct Panics;
impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("in a waker")
    }
}

#[test]
fn waker_that_panics_loses_no_other_wake_up() {
    let pair = Pair::<Vec<u8>>::open(1, Unclaimed::Drop);
    let counter = Counter::open(&pair.domain, CounterAttr::default()).unwrap();
    let counted = CounterDriver::open(&counter).unwrap();
    let mut first = Box::pin(counted.reached(1));
    let w = Waker::from(Arc::new(Panics));
    assert!(first.as_mut().poll(&mut Context::from_waker(&w)).is_pending());
    let mut t = Task::new(async {
        counted.reached(1).await.unwrap();
    });
    t.run();
    counter.add(1).unwrap();
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| counted.turn(8)));
    counter.add(1).unwrap();
    turns(&counted);
    t.run();
    assert!(t.future.is_none(), "threshold reached twice over, never woken");
}

thread_local! { static HOOK: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) }; }
struct Hooked;
impl Wake for Hooked {
    fn wake(self: Arc<Self>) {}
}
impl Drop for Hooked {
    fn drop(&mut self) {
        if let Some(mut h) = HOOK.with(|h| h.borrow_mut().take()) {
            h();
        }
    }
}

#[test]
fn waker_that_drives_on_drop_loses_no_wake_up() {
    let pair = Pair::<Vec<u8>>::open(4, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let key = bob.recv(Source::Any, vec![0; 1]).unwrap();
    let mut f = Box::pin(driver.finish(key));
    {
        let w = Waker::from(Arc::new(Hooked));
        assert!(f.as_mut().poll(&mut Context::from_waker(&w)).is_pending());
    }
    alice.inject(*to_bob, &[1]).unwrap();
    let d = driver.clone();
    HOOK.with(|h| *h.borrow_mut() = Some(Box::new(move || turns(&d))));
    let flag = Arc::<Flag>::default();
    let w = Waker::from(flag.clone());
    let p = f.as_mut().poll(&mut Context::from_waker(&w));
    turns(driver);
    assert!(p.is_ready() || woken(&flag) > 0, "pending, over, and not woken");
}

struct PollsAtOnce {
    polls: AtomicUsize,
    which: usize,
}
type Futures = Vec<Option<Pin<Box<dyn Future<Output = ()>>>>>;
thread_local! { static FUTS: RefCell<Futures> = const { RefCell::new(vec![]) }; }
impl Wake for PollsAtOnce {
    fn wake(self: Arc<Self>) {
        let n = self.polls.fetch_add(1, Ordering::Relaxed);
        assert!(n < 1000, "one turn polls for ever");
        let Some(mut f) = FUTS.with(|f| f.borrow_mut()[self.which].take()) else { return };
        let which = self.which;
        let w = Waker::from(self);
        if f.as_mut().poll(&mut Context::from_waker(&w)).is_pending() {
            FUTS.with(|s| s.borrow_mut()[which] = Some(f));
        }
    }
}
#[test]
fn wakers_that_poll_at_once_do_not_keep_a_turn_from_ending() {
    let pair = Pair::<Vec<u8>>::open(64, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    // 20 posts that are always refused.
    for which in 0..20 {
        let d = driver.clone();
        FUTS.with(|f| {
            f.borrow_mut().push(Some(Box::pin(async move {
                let _ = d.retry(|| Err::<(), _>(loom_core::error::PostError::Again)).await;
            })))
        });
        Arc::new(PollsAtOnce { polls: AtomicUsize::new(0), which }).wake();
    }
    for _ in 0..20 {
        let _ = bob.recv(Source::Any, vec![0; 1]).unwrap();
        alice.inject(*to_bob, &[1]).unwrap();
    }
    driver.turn(64);
    FUTS.with(|f| f.borrow_mut().clear());
}

/// Panics when it is dropped, if it is armed.
struct Fragile(Rc<Cell<bool>>);

// SAFETY: lends no bytes.
#[allow(unsafe_code, reason = "implements the unsafe trait `Buffer`")]
unsafe impl Buffer for Fragile {
    fn lend(&mut self) -> Lent {
        ().lend()
    }
}
impl TargetBuffer for Fragile {}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.0.replace(false), "in a buffer");
    }
}

#[test]
fn buffer_that_panics_on_drop_loses_no_other_wake_up() {
    let pair = Pair::<Fragile>::open(4, Unclaimed::Drop);
    let Pair { driver, cq, av, .. } = &pair;
    let carol = cq.endpoint(av).unwrap();
    let (breaks, lasts) = (Rc::new(Cell::new(false)), Rc::default());
    let [first, second] = [&breaks, &lasts].map(|it| carol.recv(Source::Any, Fragile(Rc::clone(it))).unwrap());
    {
        let mut given_up = driver.finish(first);
        assert!(poll_once(&mut given_up).is_pending());
    }
    let mut task = Task::new(async {
        assert!(driver.finish(second).await.unwrap().result().is_err());
    });
    assert!(task.run());
    // Both are returned.
    drop(carol);
    breaks.set(true);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| turns(driver)));
    assert!(unwound.is_err());
    turns(driver);
    task.run();
    assert!(task.future.is_none(), "over, and not woken");
}

#[test]
fn waker_that_panics_when_a_queue_fails_leaves_the_error_to_others() {
    let plan = Plan { overrun: Every::Nth(1), ..Plan::new(1) };
    let pair = Pair::<Vec<u8>>::with(ATTR, CqAttr::new(8), Unclaimed::Drop, Some(plan));
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let [first, second] = [(); 2].map(|()| bob.recv(Source::Any, vec![0]).unwrap());
    let mut breaks = Box::pin(driver.finish(first));
    assert!(breaks.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
    let mut tasks = [
        Task::new(async { assert!(driver.finish(second).await.is_err()) }),
        Task::new(async { assert!(driver.next_event().await.is_err()) }),
    ];
    assert!(tasks.iter_mut().all(Task::run));
    alice.inject(*to_bob, &[1]).unwrap();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| turns(driver)));
    assert!(unwound.is_err());
    for task in &mut tasks {
        task.run();
        assert!(task.future.is_none(), "it was not told of the error");
    }
}

/// More waiters than one batch of wake-ups.
#[test]
fn waker_that_panics_in_a_long_list_leaves_the_error_to_later_waiters() {
    let plan = Plan { overrun: Every::Nth(1), ..Plan::new(1) };
    let pair = Pair::<Vec<u8>>::with(ATTR, CqAttr::new(8), Unclaimed::Drop, Some(plan));
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let mut breaks = Box::pin(driver.next_event());
    assert!(breaks.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
    let mut tasks: Vec<_> = (0..50).map(|_| Task::new(async { assert!(driver.next_event().await.is_err()) })).collect();
    assert!(tasks.iter_mut().all(Task::run));
    let _ = bob.recv(Source::Any, vec![0]).unwrap();
    alice.inject(*to_bob, &[1]).unwrap();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| turns(driver))).is_err());
    for task in &mut tasks {
        task.run();
        assert!(task.future.is_none(), "it was not told of the error");
    }
}
