//! Arenas and pools, compared with bumpalo, the system's allocator, `slab` and `sharded-slab`.

#![allow(clippy::unwrap_used, reason = "there is memory for all of it")]

use std::alloc::Layout;
use std::cell::RefCell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;

use bumpalo::Bump;
use loom_alloc::allocator_api2::alloc::{Allocator, Global};
use loom_alloc::{Arena, Pool, PoolAttr, SharedPool, SizeClasses, Spill, StaticPool};

use crate::measure::{median, metric, per_operation, ratio};
use crate::pin;

/// Rounds of the median.
const ROUNDS: usize = 31;

/// Blocks in a round.
const ROUND: u32 = 100_000;

/// Blocks taken before the first one is returned.
const BATCH: usize = 32;

/// Layout of a block: a small message.
const BLOCK: Layout = Layout::new::<[u64; 32]>();

const ATTR: PoolAttr = PoolAttr { block: BLOCK, count: 1024 };

/// Name of a side, and its work for a number of blocks.
type Side<'a> = (&'static str, Box<dyn FnMut(u32) + 'a>);

/// Runs the sides in turn, and prints a row for each. The first one is the reference.
fn measured(what: &str, sides: &mut [Side<'_>]) {
    let rounds = in_turn(sides.iter_mut().map(|(_, run)| move || per_operation(ROUND, &mut *run)));
    let names: Vec<_> = sides.iter().map(|(name, _)| *name).collect();
    print(what, &names, &rounds);
}

/// Runs the sides in turn. Returns the rounds that each of them reports.
fn in_turn<R: FnMut() -> f64>(sides: impl IntoIterator<Item = R>) -> Vec<Vec<f64>> {
    let mut sides: Vec<_> = sides.into_iter().collect();
    let mut rounds = vec![Vec::new(); sides.len()];
    for round in 0..=ROUNDS {
        for (run, figures) in sides.iter_mut().zip(&mut rounds) {
            let cost = run();
            // The first round warms up.
            if round > 0 {
                figures.push(cost);
            }
        }
    }
    rounds
}

fn print(what: &str, names: &[&str], rounds: &[Vec<f64>]) {
    println!("{what}");
    for (name, figures) in names.iter().zip(rounds) {
        println!("    {name:<24} {:>7.2} ns, {:.2} of the first", median(figures), ratio(figures, &rounds[0]));
        metric(name, median(figures), "ns");
    }
}

/// Takes a block, reads it, and returns it.
fn one_by_one(alloc: impl Allocator, count: u32) {
    for _ in 0..count {
        let block = black_box(alloc.allocate(black_box(BLOCK)).unwrap()).cast();
        // SAFETY: taken just now, with this layout.
        unsafe { alloc.deallocate(block, BLOCK) };
    }
}

/// Takes several blocks, and returns them in the same order.
fn in_batches(alloc: impl Allocator, count: u32) {
    let mut blocks = [NonNull::dangling(); BATCH];
    for _ in 0..count as usize / BATCH {
        for block in &mut blocks {
            *block = black_box(alloc.allocate(black_box(BLOCK)).unwrap()).cast();
        }
        for block in blocks {
            // SAFETY: taken just now, with this layout.
            unsafe { alloc.deallocate(block, BLOCK) };
        }
    }
}

static STATIC: StaticPool<256, 1024> = StaticPool::new();

fn pools() {
    let pool = Pool::new_in(ATTR, Global).unwrap();
    let shared = SharedPool::new_in(ATTR, Global).unwrap();
    let class = |size| PoolAttr { block: Layout::from_size_align(size, 8).unwrap(), count: 1024 };
    let classes = [64, 256, 1024, 4096].map(|size| Pool::new_in(class(size), Global).unwrap());
    let classes = SizeClasses::new(classes, Spill::Never);
    let slab = RefCell::new(slab::Slab::<[MaybeUninit<u64>; 32]>::with_capacity(1024));
    let sharded = sharded_slab::Slab::<u64>::new();
    // Slots for values instead of memory. The sharded slab identifies each by a number.
    let one_in_slab = |count: u32| {
        let mut slab = slab.borrow_mut();
        for _ in 0..count {
            let key = black_box(slab.insert([MaybeUninit::uninit(); 32]));
            black_box(&slab[key]);
            slab.remove(key);
        }
    };
    let one_in_sharded = |count: u32| {
        for number in 0..count {
            let key = black_box(sharded.insert(number.into()).unwrap());
            black_box(sharded.get(key).as_deref());
            sharded.remove(key);
        }
    };
    measured(
        "a block of 256 bytes, taken and given back",
        &mut [
            ("pool.ns", Box::new(|count| one_by_one(&pool, count))),
            ("pool.classes_ns", Box::new(|count| one_by_one(&classes, count))),
            ("pool.shared_ns", Box::new(|count| one_by_one(&shared, count))),
            ("pool.static_ns", Box::new(|count| one_by_one(&STATIC, count))),
            ("pool.global_ns", Box::new(|count| one_by_one(Global, count))),
            ("pool.slab_ns", Box::new(one_in_slab)),
            ("pool.sharded_slab_ns", Box::new(one_in_sharded)),
        ],
    );
    measured(
        "the same, 32 at a time",
        &mut [
            ("pool.batch.ns", Box::new(|count| in_batches(&pool, count))),
            ("pool.batch.shared_ns", Box::new(|count| in_batches(&shared, count))),
            ("pool.batch.global_ns", Box::new(|count| in_batches(Global, count))),
        ],
    );
}

/// Runs each side on its own thread and processor. Returns nanoseconds per block of the slower one.
fn on_two_threads(runs: [&(dyn Fn(u32) + Sync); 2]) -> f64 {
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let threads = [0, 1].map(|core| {
            let start = &start;
            scope.spawn(move || {
                // With one processor, or with another affinity of this program, the system places
                // the threads.
                let _ = pin::to(core);
                start.wait();
                per_operation(ROUND, runs[core])
            })
        });
        threads.map(|thread| thread.join().unwrap()).into_iter().fold(0.0, f64::max)
    })
}

/// Blocks in transfer from one thread to another.
struct Handover([AtomicPtr<u8>; 64]);

impl Handover {
    const fn new() -> Self {
        Handover([const { AtomicPtr::new(ptr::null_mut()) }; 64])
    }

    /// Spins until `done` returns `true`, and yields, because there may be fewer processors than
    /// threads.
    fn wait(mut done: impl FnMut() -> bool) {
        let mut tries = 0_u32;
        while !done() {
            tries += 1;
            if tries.is_multiple_of(1024) { thread::yield_now() } else { std::hint::spin_loop() }
        }
    }

    fn take_and_hand_on(&self, alloc: impl Allocator, count: u32) {
        for place in self.0.iter().cycle().take(count as usize) {
            let block = alloc.allocate(black_box(BLOCK)).unwrap().cast().as_ptr();
            Self::wait(|| place.load(Ordering::Acquire).is_null());
            place.store(block, Ordering::Release);
        }
    }

    fn give_back(&self, alloc: impl Allocator, count: u32) {
        for place in self.0.iter().cycle().take(count as usize) {
            let mut block = None;
            Self::wait(|| {
                block = NonNull::new(place.load(Ordering::Acquire));
                block.is_some()
            });
            place.store(ptr::null_mut(), Ordering::Release);
            // SAFETY: the other thread took it from this allocator with this layout, and has handed
            // it over.
            unsafe { alloc.deallocate(block.unwrap(), BLOCK) };
        }
    }
}

fn two_threads() {
    let shared = SharedPool::new_in(ATTR, Global).unwrap();
    let sharded = sharded_slab::Slab::<u64>::new();
    let in_sharded = |count: u32| {
        for number in 0..count {
            let key = black_box(sharded.insert(number.into()).unwrap());
            sharded.remove(key);
        }
    };
    let of_shared = |count: u32| one_by_one(&shared, count);
    let of_global = |count: u32| one_by_one(Global, count);
    let runs: [&(dyn Fn(u32) + Sync); 3] = [&of_shared, &of_global, &in_sharded];
    let rounds = in_turn(runs.map(|run| move || on_two_threads([run; 2])));
    let names = ["pool.contended.shared_ns", "pool.contended.global_ns", "pool.contended.sharded_slab_ns"];
    print("a block on each of two threads", &names, &rounds);
    metric("shared_pool_over_glibc.2threads", ratio(&rounds[0], &rounds[1]), "ratio");

    let of_shared = |count: u32| in_batches(&shared, count);
    let of_global = |count: u32| in_batches(Global, count);
    let runs: [&(dyn Fn(u32) + Sync); 2] = [&of_shared, &of_global];
    let rounds = in_turn(runs.map(|run| move || on_two_threads([run; 2])));
    print("the same, 32 at a time", &["pool.contended.batch.shared_ns", "pool.contended.batch.global_ns"], &rounds);
    metric("shared_pool_over_glibc.2threads_batch", ratio(&rounds[0], &rounds[1]), "ratio");

    let (way, other_way) = (Handover::new(), Handover::new());
    let to_shared = |count: u32| way.take_and_hand_on(&shared, count);
    let from_shared = |count: u32| way.give_back(&shared, count);
    let to_global = |count: u32| other_way.take_and_hand_on(Global, count);
    let from_global = |count: u32| other_way.give_back(Global, count);
    let runs: [[&(dyn Fn(u32) + Sync); 2]; 2] = [[&to_shared, &from_shared], [&to_global, &from_global]];
    let rounds = in_turn(runs.map(|runs| move || on_two_threads(runs)));
    print("a block that another thread gives back", &["pool.handed_on.shared_ns", "pool.handed_on.global_ns"], &rounds);
    metric("shared_pool_over_glibc.handed_on", ratio(&rounds[0], &rounds[1]), "ratio");
}

/// Takes blocks until the arena is full, and resets it.
fn arenas() {
    const EACH: usize = 1024;
    let mut memory = vec![MaybeUninit::uninit(); EACH * BLOCK.size()];
    let mut arena = Arena::new(&mut memory);
    let mut bump = Bump::with_capacity(EACH * BLOCK.size());
    measured(
        "a block of 256 bytes of an arena",
        &mut [
            (
                "arena.ns",
                Box::new(|count| {
                    for _ in 0..count as usize / EACH {
                        for _ in 0..EACH {
                            let _ = black_box((&arena).allocate(black_box(BLOCK)));
                        }
                        arena.reset();
                    }
                }),
            ),
            (
                "arena.bumpalo_ns",
                Box::new(|count| {
                    for _ in 0..count as usize / EACH {
                        for _ in 0..EACH {
                            let _ = black_box(bump.try_alloc_layout(black_box(BLOCK)));
                        }
                        bump.reset();
                    }
                }),
            ),
        ],
    );
}

pub(crate) fn run() {
    arenas();
    pools();
    two_threads();
}
