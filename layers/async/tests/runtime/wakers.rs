use std::alloc::Layout;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::thread;

use crate::common::{Boxed, Idle, Threads, next_round, waker};
use allocator_api2::alloc::{AllocError, Allocator, Global};
use loom_async::LocalExecutor;
use loom_core::error::OpenError;

#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn blocks(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

// SAFETY: every block comes from `Global`, and clones share it.
unsafe impl Allocator for Counted {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: `ptr` comes from `Global`, and the caller keeps the contract of `deallocate`.
        unsafe { Global.deallocate(ptr, layout) };
    }
}

struct Bell {
    waker: AtomicPtr<Waker>,
    rung: AtomicU32,
}

impl Bell {
    fn new() -> Self {
        Bell { waker: AtomicPtr::new(null_mut()), rung: AtomicU32::new(0) }
    }

    fn exchange(&self, waker: Option<Box<Waker>>) -> Option<Box<Waker>> {
        let before = self.waker.swap(waker.map_or(null_mut(), Box::into_raw), Ordering::AcqRel);
        // SAFETY: a non-null pointer comes from `Box::into_raw`, and the swap takes it once.
        (!before.is_null()).then(|| unsafe { Box::from_raw(before) })
    }

    fn ring(&self) {
        self.rung.fetch_add(1, Ordering::AcqRel);
        if let Some(waker) = self.exchange(None) {
            waker.wake();
        }
    }

    fn heard(self: Arc<Self>, times: u32) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            drop(self.exchange(Some(Box::new(cx.waker().clone()))));
            if self.rung.load(Ordering::Acquire) >= times { Poll::Ready(()) } else { Poll::Pending }
        })
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        drop(self.exchange(None));
    }
}

#[test]
fn no_wake_up_of_other_threads_is_lost() {
    const TASKS: usize = 16;
    const THREADS: u32 = 3;
    const RINGS: u32 = 400;
    for seed in 0..5u32 {
        let bells: Vec<_> = (0..TASKS).map(|_| Arc::new(Bell::new())).collect();
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let bells = bells.clone();
                thread::spawn(move || {
                    let mut random = seed.wrapping_mul(THREADS).wrapping_add(number) | 1;
                    let mut left = [RINGS; TASKS];
                    while left.iter().any(|left| *left > 0) {
                        random ^= random << 13;
                        random ^= random >> 17;
                        random ^= random << 5;
                        let task = random as usize % TASKS;
                        if left[task] > 0 {
                            left[task] -= 1;
                            bells[task].ring();
                        }
                        if random >> 28 == 0 {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let heard = Cell::new(0);
        let listens = |bell: Arc<Bell>| {
            let heard = &heard;
            async move {
                // Waits for every count, so that each ring matters.
                for times in 1..=THREADS * RINGS {
                    bell.clone().heard(times).await;
                    heard.set(heard.get() + 1);
                }
            }
        };
        let executor = LocalExecutor::new(TASKS).unwrap();
        for bell in &bells {
            executor.spawn(listens(bell.clone())).unwrap();
        }
        executor.run(&Threads::run());
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(heard.get(), TASKS * (THREADS * RINGS) as usize);
    }
}

#[test]
fn future_beside_the_tasks_is_woken_by_another_thread() {
    let executor = LocalExecutor::<Boxed<'_>>::new(0).unwrap();
    let bell = Arc::new(Bell::new());
    let ringer = thread::spawn({
        let bell = bell.clone();
        move || {
            for _ in 0..1000 {
                bell.ring();
                thread::yield_now();
            }
        }
    });
    executor.run_until(&Threads::run(), async {
        for times in 1..=1000 {
            bell.clone().heard(times).await;
        }
    });
    ringer.join().unwrap();
}

#[test]
fn block_is_freed_by_the_last_waker_on_whichever_thread() {
    let alloc = Counted::default();
    let executor = LocalExecutor::<Boxed<'_>>::new_in(4, alloc.clone()).unwrap();
    let kept = executor.run_until(&Idle::default(), waker());
    let clone = kept.clone();
    let spawner = executor.spawner();
    assert!(kept.will_wake(&clone));
    drop(executor);
    kept.wake_by_ref();
    drop(spawner);
    assert_eq!(alloc.blocks(), 1, "the wakers need it");
    let threads = [kept, clone].map(|waker| thread::spawn(move || waker.wake()));
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(alloc.blocks(), 0);
}

#[test]
fn wakers_are_cloned_used_and_dropped_by_threads_while_the_executor_closes() {
    for _ in 0..200 {
        let alloc = Counted::default();
        let executor = LocalExecutor::<Boxed<'_>>::new_in(2, alloc.clone()).unwrap();
        let given = Arc::new(Bell::new());
        let keeper = given.clone();
        executor.spawn(Box::pin(keeper.heard(u32::MAX))).unwrap();
        executor.round(&Idle::default());
        let threads = [(); 2].map(|()| {
            let waker =
                given.exchange(None).map_or_else(|| executor.run_until(&Idle::default(), waker()), |waker| *waker);
            thread::spawn(move || {
                for _ in 0..10 {
                    let other = waker.clone();
                    waker.wake_by_ref();
                    other.wake();
                }
            })
        });
        executor.round(&Idle::default());
        drop((executor, given));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(alloc.blocks(), 0);
    }
}

#[test]
fn stale_waker_wakes_the_next_task_of_the_place_and_does_no_harm() {
    let (kept, polls, flag) = (Cell::new(None), Cell::new(0), Cell::new(false));
    let executor = LocalExecutor::<Boxed<'_>>::new(1).unwrap();
    executor.spawn(Box::pin(async { kept.set(Some(waker().await)) })).unwrap();
    executor.run(&Idle::default());
    let stale = kept.take().unwrap();
    stale.wake_by_ref();
    assert_eq!(executor.round(&Idle::default()).polled, 0);
    executor
        .spawn(Box::pin(poll_fn(|cx| {
            polls.set(polls.get() + 1);
            kept.set(Some(cx.waker().clone()));
            if flag.get() { Poll::Ready(()) } else { Poll::Pending }
        })))
        .unwrap();
    executor.round(&Idle::default());
    executor.round(&Idle::default());
    assert_eq!(polls.get(), 1);
    stale.wake_by_ref();
    stale.wake_by_ref();
    executor.round(&Idle::default());
    assert_eq!(polls.get(), 2, "once more than it needs");
    flag.set(true);
    // A wake-up by a stale waker before the task's own waker is used is not lost.
    stale.wake();
    kept.take().unwrap().wake();
    assert_eq!(executor.round(&Idle::default()).polled, 1);
    assert!(executor.is_empty());
}

#[test]
fn task_that_ended_while_it_was_woken_leaves_the_place_usable() {
    let executor = LocalExecutor::new(1).unwrap();
    let task = || async {
        waker().await.wake();
    };
    for _ in 0..3 {
        executor.spawn(task()).unwrap();
        assert_eq!(executor.round(&Idle::default()).polled, 1);
        assert!(executor.is_empty());
    }
    assert_eq!(executor.round(&Idle::default()).polled, 0);
}

#[test]
fn allocator_without_room_is_an_error_and_the_layout_reports_the_size() {
    struct None;
    // SAFETY: `allocate` always fails.
    unsafe impl Allocator for None {
        fn allocate(&self, _: Layout) -> Result<NonNull<[u8]>, AllocError> {
            Err(AllocError)
        }

        unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout) {
            unreachable!("there is nothing to give back");
        }
    }
    assert_eq!(LocalExecutor::<Boxed<'_>>::new_in(4, None).unwrap_err(), OpenError::OutOfMemory);
    assert_eq!(LocalExecutor::<Boxed<'_>>::new(usize::MAX).unwrap_err(), OpenError::Size);
    assert_eq!(LocalExecutor::<[u64; 1 << 40]>::layout::<None>(1 << 30).unwrap_err(), OpenError::Size);
    // Task numbers have 32 bits, and two are reserved.
    let most = u32::MAX as usize - 2;
    assert!(LocalExecutor::<()>::layout::<None>(most).is_ok());
    assert_eq!(LocalExecutor::<()>::layout::<None>(most + 1).unwrap_err(), OpenError::Size);
    let layout = |tasks| LocalExecutor::<Boxed<'_>>::layout::<None>(tasks).unwrap().size();
    assert!(layout(100) - layout(0) <= 100 * 48, "{} bytes", layout(100));
}

#[test]
fn yielding_task_clones_no_waker() {
    let alloc = Counted::default();
    let executor = LocalExecutor::new_in(1, alloc.clone()).unwrap();
    executor.spawn(next_round()).unwrap();
    executor.run(&Idle::default());
    drop(executor);
    assert_eq!(alloc.blocks(), 0);
}
