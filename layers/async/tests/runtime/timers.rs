use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::{Duration, Instant};

use crate::common::{Boxed, Idle, Pair, bounded, next_round};
use loom_async::clock::{Clock, ManualClock, StdClock};
use loom_async::timers::Timers;
use loom_async::{LocalExecutor, block_on};
use loom_core::driver::Drive;
use loom_core::{Errno, Source};

const MS: Duration = Duration::from_millis(1);

#[test]
fn sleeps_end_in_the_order_of_their_deadlines_and_not_before_them() {
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let ended = RefCell::new(Vec::new());
    let executor = LocalExecutor::<Boxed<'_>>::new(100).unwrap();
    for index in 0..100u32 {
        let (timers, clock, ended) = (&timers, &clock, &ended);
        let deadline = MS * ((index * 37) % 50 + 1);
        executor
            .spawn(Box::pin(async move {
                timers.sleep_until(deadline).await;
                assert_eq!(clock.now(), deadline);
                ended.borrow_mut().push((deadline, index));
            }))
            .unwrap();
    }
    executor.round(&timers);
    for elapsed in 1..=50 {
        assert_eq!(timers.next_deadline(), Some(MS * elapsed));
        clock.advance(MS);
        assert_eq!(executor.round(&timers).events, 2);
        executor.round(&timers);
    }
    assert!(executor.is_empty() && timers.next_deadline().is_none());
    assert_eq!(ended.borrow().len(), 100);
    assert!(ended.borrow().is_sorted(), "and those of one deadline as they were polled first");
}

#[test]
fn turn_wakes_no_more_than_its_budget_and_the_rest_in_the_next() {
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let executor = LocalExecutor::new(10).unwrap();
    for _ in 0..10 {
        executor.spawn(timers.sleep(MS)).unwrap();
    }
    executor.set_budget(4);
    executor.round(&timers);
    clock.advance(MS);
    let events: Vec<_> = (0..4).map(|_| executor.round(&timers).events).collect();
    assert_eq!(events, [4, 4, 2, 0]);
    assert!(executor.is_empty());
}

#[test]
fn sleep_of_no_time_ends_at_once_and_one_beyond_the_clock_never() {
    let clock = ManualClock::new();
    clock.advance(MS);
    let timers = Timers::new(&clock);
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(pin!(timers.sleep(Duration::ZERO)).poll(&mut context), Poll::Ready(()));
    assert_eq!(pin!(timers.sleep_until(Duration::ZERO)).poll(&mut context), Poll::Ready(()));
    let mut never = pin!(timers.sleep(Duration::MAX));
    assert_eq!(never.as_mut().poll(&mut context), Poll::Pending);
    clock.advance(Duration::MAX - MS * 2);
    assert_eq!(timers.turn(1), 0);
    assert_eq!(never.as_mut().poll(&mut context), Poll::Pending);
}

#[test]
fn sleeps_that_are_dropped_leave_the_others_in_order() {
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let mut context = Context::from_waker(Waker::noop());
    let mut sleeps: Vec<_> = (1..=20).map(|number| Box::pin(timers.sleep(MS * number))).collect();
    for sleep in &mut sleeps {
        assert!(sleep.as_mut().poll(&mut context).is_pending());
    }
    let mut number = 0;
    sleeps.retain(|_| {
        number += 1;
        number != 1 && number != 20 && number % 3 != 0
    });
    assert_eq!(timers.next_deadline(), Some(MS * 2));
    clock.advance(MS * 10);
    assert_eq!(timers.turn(usize::MAX), 6);
    for sleep in &mut sleeps {
        assert_eq!(sleep.as_mut().poll(&mut context).is_ready(), sleep.deadline() <= MS * 10);
    }
    sleeps.clear();
    assert_eq!(timers.next_deadline(), None);
}

struct Dropped<'a>(&'a Cell<bool>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn timeout_drops_the_future_when_its_time_has_come() {
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let dropped = Cell::new(false);
    let mut late = pin!(timers.timeout(MS, async {
        let _dropped = Dropped(&dropped);
        std::future::pending::<()>().await;
    }));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(late.as_mut().poll(&mut context), Poll::Pending);
    clock.advance(MS);
    assert_eq!(timers.turn(1), 1);
    assert!(!dropped.get());
    assert_eq!(late.as_mut().poll(&mut context), Poll::Ready(Err(Errno::ETIMEDOUT)));
    assert!(dropped.get(), "while the timeout is still there");
}

#[test]
fn future_that_is_ready_never_times_out() {
    let clock = ManualClock::new();
    clock.advance(MS);
    let timers = Timers::new(&clock);
    let drive = bounded((&timers, Idle::default()));
    assert_eq!(block_on(&drive, timers.timeout_at(Duration::ZERO, async { 5 })), Ok(5));
    assert_eq!(block_on(&drive, timers.timeout_at(Duration::ZERO, next_round())), Err(Errno::ETIMEDOUT));
    assert_eq!(block_on(&drive, timers.timeout(MS, next_round())), Ok(()));
    assert_eq!(timers.next_deadline(), None);
}

#[test]
fn receive_with_a_timeout_is_given_up_and_the_queue_goes_on() {
    let Pair { alice, bob, to_bob, driver, .. } = Pair::open(2);
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let executor = LocalExecutor::<Boxed<'_>>::new(0).unwrap();
    executor.run_until(&bounded((&timers, &driver)), async {
        let receive = driver.run(vec![0; 8], |room| bob.recv(Source::Any, room));
        let mut receive = pin!(timers.timeout(MS, receive));
        let waits = std::future::poll_fn(|cx| Poll::Ready(receive.as_mut().poll(cx).is_pending())).await;
        assert!(waits);
        clock.advance(MS);
        assert!(matches!(receive.await, Err(Errno::ETIMEDOUT)));
        // The abandoned receive takes the first message.
        for byte in [1, 2] {
            driver.run(vec![byte; 8], |message| alice.send(to_bob, message)).await.unwrap().result().unwrap();
        }
        let second = driver.run(vec![0; 8], |room| bob.recv(Source::Any, room));
        assert_eq!(timers.timeout(MS, second).await.unwrap().unwrap().into_buf(), [2; 8]);
    });
}

#[test]
fn waker_that_panics_leaves_the_timers_usable() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: std::sync::Arc<Self>) {
            panic!("as planned");
        }
    }
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let panics = Waker::from(std::sync::Arc::new(Panics));
    let mut sleeps: Vec<_> = (1..=3).map(|number| Box::pin(timers.sleep(MS * number))).collect();
    for sleep in &mut sleeps {
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
    }
    clock.advance(MS * 3);
    for _ in 0..3 {
        catch_unwind(AssertUnwindSafe(|| timers.turn(8))).unwrap_err();
    }
    assert_eq!(timers.turn(8), 0);
    for sleep in &mut sleeps {
        assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}

#[test]
fn sleep_is_woken_by_the_waker_that_polled_it_last() {
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let executor = LocalExecutor::<Boxed<'_>>::new(1).unwrap();
    let mut sleep = Box::pin(timers.sleep(MS));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    executor.spawn(sleep).unwrap();
    executor.round(&timers);
    clock.advance(MS);
    executor.round(&timers);
    assert_eq!(executor.round(&timers).polled, 1);
    assert!(executor.is_empty());
}

#[test]
fn sleep_that_is_polled_again_by_its_task_clones_no_waker() {
    static CLONES: AtomicU32 = AtomicU32::new(0);
    static COUNTS: RawWakerVTable = RawWakerVTable::new(
        |data| {
            CLONES.fetch_add(1, Ordering::Relaxed);
            RawWaker::new(data, &COUNTS)
        },
        |_| {},
        |_| {},
        |_| {},
    );
    // SAFETY: the functions of `COUNTS` do not use the pointer.
    let waker = unsafe { Waker::new(std::ptr::null(), &COUNTS) };
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let mut sleep = pin!(timers.sleep(MS));
    for _ in 0..3 {
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(CLONES.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn timers_may_move_when_no_sleep_is_left_or_all_were_forgotten() {
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let mut context = Context::from_waker(Waker::noop());
    for number in 1..=5 {
        let mut forgotten = Box::pin(timers.sleep(MS * number));
        assert!(forgotten.as_mut().poll(&mut context).is_pending());
        std::mem::forget(forgotten);
    }
    let moved = Box::new(timers);
    let mut sleep = pin!(moved.sleep(MS * 3));
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    clock.advance(MS * 4);
    assert_eq!(moved.turn(usize::MAX), 5);
    assert!(sleep.as_mut().poll(&mut context).is_ready());
    assert_eq!(moved.next_deadline(), Some(MS * 5));
}

#[test]
fn clock_of_the_standard_library_goes_on() {
    let timers = Timers::new(StdClock::new());
    let began = Instant::now();
    block_on(&bounded((&timers, Idle::default())), timers.sleep(MS * 3));
    assert!(began.elapsed() >= MS * 3);
    let before = timers.clock().now();
    assert!(timers.clock().now() >= before && before >= MS * 3);
}
