use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::common::{Boxed, Idle, Pair, bounded, next_round, waker};
use loom_async::clock::StdClock;
use loom_async::timers::Timers;
use loom_async::window::{Window, transfer_each};
use loom_async::{LocalExecutor, block_on};
use loom_core::{Access, Mr, Source, Tag};

struct Gate;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator.
unsafe impl GlobalAlloc for Gate {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.with(|taken| taken.set(taken.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` comes from `System`, and the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) };
    }
}

#[global_allocator]
static GATE: Gate = Gate;

fn allocations(call: impl FnOnce()) -> usize {
    let before = TAKEN.get();
    call();
    TAKEN.get() - before
}

#[test]
fn control_an_allocation_is_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn tasks_that_move_messages_and_sleep_allocate_no_memory() {
    const ROUNDS: usize = 10_000;
    let Pair { alice, bob, to_bob, to_alice, driver, .. } = Pair::open(16);
    let timers = Timers::new(StdClock::new());
    let sent = Cell::new(0);
    let executor = LocalExecutor::<Boxed<'_>>::new(4).unwrap();
    executor
        .spawn(Box::pin(async {
            let mut message = vec![0; 64];
            loop {
                let room = driver.run(message, |room| bob.tagged_recv(Source::Any, Tag(1), room)).await.unwrap();
                let answer = room.into_buf();
                let sent = driver.run(answer, |message| bob.tagged_send(to_alice, Tag(2), message)).await.unwrap();
                message = sent.into_buf();
            }
        }))
        .unwrap();
    executor
        .spawn(Box::pin(async {
            let mut message = vec![7; 64];
            loop {
                let done = driver.run(message, |message| alice.tagged_send(to_bob, Tag(1), message)).await.unwrap();
                let room = driver.run(done.into_buf(), |room| alice.tagged_recv(Source::Any, Tag(2), room));
                message = timers.timeout(Duration::from_secs(60), room).await.unwrap().unwrap().into_buf();
                assert_eq!(message, [7; 64]);
                sent.set(sent.get() + 1);
            }
        }))
        .unwrap();
    executor
        .spawn(Box::pin(async {
            loop {
                timers.sleep(Duration::from_micros(10)).await;
                drop(waker().await);
            }
        }))
        .unwrap();
    let drive = bounded((&timers, &driver));
    let until = |goal| {
        executor.run_until(&drive, async {
            while sent.get() < goal {
                next_round().await;
            }
        });
    };
    until(10);
    assert_eq!(allocations(|| until(10 + ROUNDS)), 0);
    assert!(sent.get() >= 10 + ROUNDS);
}

#[test]
fn places_are_used_again_and_spawning_allocates_no_memory() {
    let executor = LocalExecutor::new(2).unwrap();
    let made = allocations(|| {
        for _ in 0..10_000 {
            executor.spawn(next_round()).unwrap();
            executor.spawn(next_round()).unwrap();
            executor.run(&Idle::default());
        }
        block_on(&Idle::default(), next_round());
    });
    assert_eq!(made, 0);
}

#[test]
fn transfers_of_many_parts_allocate_no_memory() {
    const PARTS: usize = 10_000;
    let Pair { domain, alice, to_bob, driver, .. } = &Pair::open(16);
    let region = Mr::open(domain, vec![0; 64], Access::REMOTE_WRITE).unwrap();
    let at = region.remote();
    let buffers = RefCell::new(vec![vec![3; 64]; 5]);
    let write = |parts| {
        let bufs = (0..parts).map(|_| buffers.borrow_mut().pop().unwrap());
        let post = |_, buf| alice.write(*to_bob, &at, 0, buf);
        let each = |_, done: loom_core::Done<_>| buffers.borrow_mut().push(done.into_buf());
        let outcome = block_on(&bounded(driver), transfer_each(driver, Window::<4>, bufs, post, each));
        assert_eq!(outcome.result(), Ok(parts * 64));
    };
    write(10);
    assert_eq!(allocations(|| write(PARTS as u64)), 0);
}
