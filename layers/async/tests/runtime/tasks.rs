use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use crate::common::{Boxed, Idle, Pair, bounded, next_round, waker};
use loom_async::clock::ManualClock;
use loom_async::timers::Timers;
use loom_async::{Full, LocalExecutor, Spawner, block_on};
use loom_core::driver::Drive;
use loom_core::{Error, Source, Tag};

fn payload(pair: u8, trip: u8) -> Vec<u8> {
    (0..100).map(|byte| byte ^ pair.wrapping_mul(31) ^ trip).collect()
}

#[test]
fn hundreds_of_tasks_send_and_receive_in_pairs_and_every_byte_arrives() {
    const PAIRS: u8 = 150;
    const TRIPS: u8 = 20;
    let Pair { alice, bob, to_bob, to_alice, driver, .. } = Pair::open(32);
    let arrived = Cell::new(0);
    let executor = LocalExecutor::<Boxed<'_>>::new(2 * usize::from(PAIRS)).unwrap();
    for pair in 0..PAIRS {
        let tag = Tag(pair.into());
        let (alice, bob, driver, arrived) = (&alice, &bob, &driver, &arrived);
        let there = async move {
            for trip in 0..TRIPS {
                let sent = driver.run(payload(pair, trip), |message| alice.tagged_send(to_bob, tag, message)).await;
                sent.unwrap().result().unwrap();
                let answer = driver.run(vec![0; 100], |room| alice.tagged_recv(Source::Any, tag, room)).await.unwrap();
                answer.result().unwrap();
                assert_eq!(answer.into_buf(), payload(pair, !trip));
                arrived.set(arrived.get() + 1);
            }
        };
        let back = async move {
            for trip in 0..TRIPS {
                let message = driver.run(vec![0; 100], |room| bob.tagged_recv(Source::Any, tag, room)).await.unwrap();
                message.result().unwrap();
                assert_eq!(message.into_buf(), payload(pair, trip));
                let sent = driver.run(payload(pair, !trip), |answer| bob.tagged_send(to_alice, tag, answer)).await;
                sent.unwrap().result().unwrap();
                arrived.set(arrived.get() + 1);
            }
        };
        executor.spawn(Box::pin(there)).unwrap();
        executor.spawn(Box::pin(back)).unwrap();
    }
    executor.run(&bounded(&driver));
    assert_eq!(arrived.get(), 2 * usize::from(PAIRS) * usize::from(TRIPS));
    assert!(executor.is_empty());
}

#[test]
fn future_alone_runs_without_an_executor() {
    let Pair { alice, bob, to_bob, driver, .. } = Pair::open(8);
    let received = block_on(&bounded(&driver), async {
        let room = driver.post(vec![0; 100], |room| bob.recv(Source::Any, room)).await.unwrap();
        driver.run(payload(1, 2), |message| alice.send(to_bob, message)).await.unwrap().result().unwrap();
        driver.finish(room).await.unwrap().into_buf()
    });
    assert_eq!(received, payload(1, 2));
}

#[test]
fn tasks_of_one_type_need_no_box() {
    let Pair { alice, bob, to_bob, driver, .. } = Pair::open(8);
    let sum = Cell::new(0);
    let task = |byte: u8| {
        let (alice, bob, driver, sum) = (&alice, &bob, &driver, &sum);
        async move {
            let tag = Tag(byte.into());
            let sent = driver.run(vec![byte], |message| alice.tagged_send(to_bob, tag, message)).await;
            sent.unwrap().result().unwrap();
            let room = driver.run(vec![0], |room| bob.tagged_recv(Source::Any, tag, room)).await.unwrap();
            sum.set(sum.get() + u32::from(room.into_buf()[0]));
        }
    };
    let executor = LocalExecutor::new(10).unwrap();
    for byte in 0..10 {
        executor.spawn(task(byte)).unwrap();
    }
    executor.run(&bounded(&driver));
    assert_eq!(sum.get(), 45);
}

#[test]
fn executor_that_is_full_gives_the_future_back() {
    let done = Cell::new(0);
    let mut futures: [_; 3] = std::array::from_fn(|_| {
        Box::pin(async {
            next_round().await;
            done.set(done.get() + 1);
        })
    });
    let [first, second, third] = futures.each_mut().map(|future| future.as_mut() as Pin<&mut dyn Future<Output = ()>>);
    let executor = LocalExecutor::new(2).unwrap();
    executor.spawn(first).unwrap();
    executor.spawn(second).unwrap();
    let Err(Full(third)) = executor.spawn(third) else { panic!("there is no place") };
    assert_eq!((executor.len(), executor.capacity()), (2, 2));
    executor.run(&Idle::default());
    assert_eq!(done.get(), 2);
    executor.spawn(third).unwrap();
    executor.run(&Idle::default());
    assert_eq!(done.get(), 3);
    assert_eq!(Error::from(Full(())).to_string(), "full: the executor: open it for more tasks");
}

#[test]
fn executor_without_tasks_runs_a_future() {
    let executor = LocalExecutor::<Boxed<'_>>::new(0).unwrap();
    assert!(executor.spawn(Box::pin(async {})).is_err());
    let rounds = executor.run_until(&Idle::default(), async {
        next_round().await;
        next_round().await;
        7
    });
    assert_eq!(rounds, 7);
}

async fn notes(name: char, rounds: usize, notes: &RefCell<String>) {
    for _ in 0..rounds {
        notes.borrow_mut().push(name);
        next_round().await;
    }
}

#[test]
fn each_round_polls_every_woken_task_once_in_the_order_of_wake_ups() {
    let said = RefCell::new(String::new());
    let executor = LocalExecutor::new(3).unwrap();
    for name in ['a', 'b', 'c'] {
        executor.spawn(notes(name, if name == 'b' { 1 } else { 3 }, &said)).unwrap();
    }
    let polled: Vec<_> = (0..5).map(|_| executor.round(&Idle::default()).polled).collect();
    assert_eq!(*said.borrow(), "abcacac");
    assert_eq!(polled, [3, 3, 2, 2, 0]);
}

#[test]
fn task_that_always_wakes_itself_starves_neither_tasks_nor_timers_nor_the_fabric() {
    let Pair { alice, bob, to_bob, driver, .. } = Pair::open(8);
    let clock = ManualClock::new();
    let timers = Timers::new(&clock);
    let (polls, slept) = (Cell::new(0u32), Cell::new(0));
    let executor = LocalExecutor::<Boxed<'_>>::new(3).unwrap();
    let greedy = executor.spawn(Box::pin(async {
        loop {
            polls.set(polls.get() + 1);
            clock.advance(std::time::Duration::from_millis(1));
            next_round().await;
        }
    }));
    executor
        .spawn(Box::pin(async {
            for _ in 0..50 {
                timers.sleep(std::time::Duration::from_millis(2)).await;
                slept.set(slept.get() + 1);
            }
        }))
        .unwrap();
    executor.run_until(&bounded((&timers, &driver)), async {
        for trip in 0..50 {
            let room = driver.post(vec![0; 100], |room| bob.recv(Source::Any, room)).await.unwrap();
            driver.run(payload(0, trip), |message| alice.send(to_bob, message)).await.unwrap().result().unwrap();
            assert_eq!(driver.finish(room).await.unwrap().into_buf(), payload(0, trip));
            timers.sleep(std::time::Duration::from_millis(2)).await;
        }
        while slept.get() < 50 {
            next_round().await;
        }
    });
    assert!(polls.get() < 1000, "it was polled {} times", polls.get());
    assert!(executor.contains(greedy.unwrap()), "it goes on");
}

#[test]
fn tasks_spawn_tasks_and_the_number_of_places_is_the_limit() {
    async fn tree(spawner: Spawner<Boxed<'static>>, depth: u32, leaves: Rc<Cell<u32>>, refused: Rc<Cell<u32>>) {
        if depth == 0 {
            leaves.set(leaves.get() + 1);
            return;
        }
        for _ in 0..2 {
            let branch = tree(spawner.clone(), depth - 1, leaves.clone(), refused.clone());
            let mut branch: Boxed<'static> = Box::pin(branch);
            while let Err(Full(back)) = spawner.spawn(branch) {
                branch = back;
                refused.set(refused.get() + 1);
                next_round().await;
            }
        }
    }
    let (leaves, refused) = <(Rc<Cell<u32>>, Rc<Cell<u32>>)>::default();
    let executor = LocalExecutor::new(40).unwrap();
    executor.spawn(Box::pin(tree(executor.spawner(), 6, leaves.clone(), refused.clone()))).unwrap();
    executor.run(&bounded(Idle::default()));
    assert_eq!(leaves.get(), 64);
    assert!(refused.get() > 0);
    assert_eq!(Rc::strong_count(&leaves), 1, "all futures were dropped");
}

#[test]
fn spawner_that_outlives_its_executor_gives_futures_back() {
    let executor = LocalExecutor::<Boxed<'_>>::new(1).unwrap();
    let spawner = executor.spawner();
    let kept = Rc::new(());
    let task = spawner.spawn(Box::pin({
        let (kept, spawner) = (kept.clone(), spawner.clone());
        async move {
            let _keeps = (kept, spawner);
            std::future::pending::<()>().await;
        }
    }));
    let task = task.unwrap();
    assert!(spawner.contains(task));
    drop(executor);
    assert_eq!(Rc::strong_count(&kept), 1, "tasks go with the executor");
    assert!(!spawner.contains(task) && !spawner.cancel(task));
    assert!(spawner.spawn(Box::pin(async {})).is_err());
}

struct Dropped<'a>(&'a Cell<u32>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn task_that_panics_is_dropped_and_the_others_go_on() {
    let dropped = Cell::new(0);
    let said = RefCell::new(String::new());
    let executor = LocalExecutor::<Boxed<'_>>::new(4).unwrap();
    executor.spawn(Box::pin(notes('a', 2, &said))).unwrap();
    let id = executor.spawn(Box::pin(async {
        let _dropped = Dropped(&dropped);
        next_round().await;
        panic!("as planned");
    }));
    executor.spawn(Box::pin(notes('b', 2, &said))).unwrap();
    executor.round(&Idle::default());
    let panicked = catch_unwind(AssertUnwindSafe(|| executor.round(&Idle::default())));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "as planned");
    assert_eq!((dropped.get(), executor.len()), (1, 2));
    assert!(!executor.contains(id.unwrap()));
    // The round left this task unpolled.
    executor.spawn(Box::pin(notes('c', 1, &said))).unwrap();
    executor.run(&Idle::default());
    assert_eq!(*said.borrow(), "ababc");
}

#[test]
fn futures_that_panic_on_drop_leave_the_executor_usable_and_are_dropped() {
    struct Panics<'a>(Dropped<'a>);
    impl Drop for Panics<'_> {
        fn drop(&mut self) {
            let Panics(Dropped(_)) = self;
            panic!("as planned");
        }
    }
    let dropped = Cell::new(0);
    let executor = LocalExecutor::<Boxed<'_>>::new(2).unwrap();
    let panics = || -> Boxed<'_> {
        let panics = Panics(Dropped(&dropped));
        Box::pin(async move {
            let _panics = panics;
        })
    };
    executor.spawn(panics()).unwrap();
    catch_unwind(AssertUnwindSafe(|| executor.round(&Idle::default()))).unwrap_err();
    assert_eq!((dropped.get(), executor.len()), (1, 0));
    executor.spawn(panics()).unwrap();
    let quiet = Dropped(&dropped);
    executor
        .spawn(Box::pin(async move {
            let _quiet = quiet;
            std::future::pending().await
        }))
        .unwrap();
    catch_unwind(AssertUnwindSafe(|| drop(executor))).unwrap_err();
    assert_eq!(dropped.get(), 3);
}

#[test]
fn task_is_cancelled_by_others_and_by_itself() {
    let (dropped, itself) = (Cell::new(0), Cell::new(None));
    let executor = LocalExecutor::<Boxed<'_>>::new(2).unwrap();
    let waits = |dropped| -> Boxed<'_> {
        let dropped = Dropped(dropped);
        Box::pin(async move {
            let _dropped = dropped;
            std::future::pending().await
        })
    };
    let task = executor.spawn(waits(&dropped)).unwrap();
    assert!(executor.cancel(task) && !executor.cancel(task));
    assert_eq!((dropped.get(), executor.len()), (1, 0));
    let (spawner, dropped, own) = (executor.spawner(), &dropped, &itself);
    let task = executor
        .spawn(Box::pin(async move {
            let _dropped = Dropped(dropped);
            assert!(spawner.cancel(own.take().unwrap()));
            assert_eq!(dropped.get(), 1, "not while it is polled");
            next_round().await;
            unreachable!("it is not polled again");
        }))
        .unwrap();
    itself.set(Some(task));
    executor.run(&bounded(Idle::default()));
    assert_eq!(dropped.get(), 2);
}

#[test]
fn id_of_a_completed_task_differs_from_that_of_the_next_in_its_place() {
    let executor = LocalExecutor::new(1).unwrap();
    let first = executor.spawn(next_round()).unwrap();
    executor.run(&Idle::default());
    assert!(!executor.contains(first) && !executor.cancel(first));
    let second = executor.spawn(next_round()).unwrap();
    assert!(!executor.contains(first) && !executor.cancel(first));
    assert!(executor.contains(second) && first != second);
    assert!(executor.cancel(second) && executor.is_empty());
}

#[test]
fn calls_within_tasks_run_the_others_and_lose_no_wake_up() {
    let said = RefCell::new(String::new());
    let executor = Rc::new(LocalExecutor::<Boxed<'_>>::new(4).unwrap());
    executor.spawn(Box::pin(notes('a', 4, &said))).unwrap();
    let inner = executor.clone();
    executor
        .spawn(Box::pin(async {
            let waker = waker().await;
            inner.run_until(&Idle::default(), async {
                next_round().await;
                // The running task cannot be polled again within its poll.
                waker.wake_by_ref();
                next_round().await;
            });
            drop(inner);
            said.borrow_mut().push('!');
            next_round().await;
            said.borrow_mut().push('?');
        }))
        .unwrap();
    let outer = executor.run_until(&bounded(Idle::default()), async {
        next_round().await;
        executor.run_until(&Idle::default(), next_round());
        for _ in 0..10 {
            next_round().await;
        }
        'o'
    });
    assert_eq!((outer, executor.len()), ('o', 0));
    assert_eq!(*said.borrow(), "aa!a?a");
}

#[test]
fn task_that_is_woken_and_runs_a_round_within_its_poll_is_polled_again() {
    let executor = Rc::new(LocalExecutor::<Boxed<'_>>::new(1).unwrap());
    let (inner, mut polled) = (executor.clone(), false);
    let task = std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        assert_eq!(inner.round(&Idle::default()).polled, 0);
        Poll::Pending
    });
    executor.spawn(Box::pin(task)).unwrap();
    executor.run(&Idle::default());
}

#[test]
fn round_reports_its_work_and_takes_events_up_to_its_budget() {
    struct Events(Cell<usize>);
    impl Drive for Events {
        fn turn(&self, budget: usize) -> usize {
            self.0.set(budget);
            budget.min(3)
        }
    }
    let executor = LocalExecutor::new(1).unwrap();
    executor.spawn(next_round()).unwrap();
    let events = Events(Cell::new(0));
    let round = executor.round(&events);
    assert_eq!((round.polled, round.events, events.0.get()), (1, 3, loom_async::BUDGET));
    executor.set_budget(2);
    let round = executor.round(&events);
    assert_eq!((round.polled, round.events, events.0.get()), (1, 2, 2));
    let mut main = pin!(next_round());
    executor.run_until(&events, main.as_mut());
}
