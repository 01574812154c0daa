//! Arenas and pools, beside bumpalo, the system's allocator, `slab` and `sharded-slab`.

#![allow(clippy::unwrap_used, reason = "there is memory for all of it")]

use std::alloc::Layout;
use std::cell::RefCell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::thread;

use bumpalo::Bump;
use loom_alloc::allocator_api2::alloc::{Allocator, Global};
use loom_alloc::{Arena, Pool, PoolAttr, SharedPool, SizeClasses, Spill, StaticPool};

use crate::measure::{median, metric, per_operation, ratio};

/// Rounds of which the median is taken.
const ROUNDS: usize = 31;

/// Blocks of a round.
const ROUND: u32 = 100_000;

/// Blocks that are taken before the first one is given back.
const BATCH: usize = 32;

/// What is taken: a small message.
const BLOCK: Layout = Layout::new::<[u64; 32]>();

const ATTR: PoolAttr = PoolAttr { block: BLOCK, count: 1024 };

/// One side: a name, and what it does for so many blocks.
type Side<'a> = (&'static str, Box<dyn FnMut(u32) + 'a>);

/// Runs the sides in turn, and prints a row for each. The first one is what the others are compared with.
fn measured(what: &str, sides: &mut [Side<'_>]) {
    println!("{what}");
    let mut rounds = vec![Vec::new(); sides.len()];
    for round in 0..=ROUNDS {
        for ((_, run), figures) in sides.iter_mut().zip(&mut rounds) {
            let cost = per_operation(ROUND, run);
            // The first one warms up.
            if round > 0 {
                figures.push(cost);
            }
        }
    }
    for ((name, _), figures) in sides.iter().zip(&rounds) {
        println!("    {name:<24} {:>7.2} ns, {:.2} of the first", median(figures), ratio(figures, &rounds[0]));
        metric(name, median(figures), "ns");
    }
}

/// Takes a block, has it looked at, and gives it back.
fn one_by_one(alloc: impl Allocator, count: u32) {
    for _ in 0..count {
        let block = black_box(alloc.allocate(black_box(BLOCK)).unwrap()).cast();
        // SAFETY: taken just now, with this layout.
        unsafe { alloc.deallocate(block, BLOCK) };
    }
}

/// Takes several blocks, and gives them back in the order in which they were taken.
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
    // Places of what they have, and not memory: the sharded one has a number for each.
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

/// Blocks that two threads take from the same allocator at once, and give back: nanoseconds of each block of one thread.
fn on_two_threads(run: impl Fn(u32) + Sync) -> impl FnMut(u32) {
    move |count| {
        let start = Barrier::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    run(count);
                });
            }
        });
    }
}

fn contended() {
    let shared = SharedPool::new_in(ATTR, Global).unwrap();
    let sharded = sharded_slab::Slab::<u64>::new();
    let in_sharded = |count: u32| {
        for number in 0..count {
            let key = black_box(sharded.insert(number.into()).unwrap());
            sharded.remove(key);
        }
    };
    measured(
        "a block on each of two threads",
        &mut [
            ("pool.contended.shared_ns", Box::new(on_two_threads(|count| one_by_one(&shared, count)))),
            ("pool.contended.global_ns", Box::new(on_two_threads(|count| one_by_one(Global, count)))),
            ("pool.contended.sharded_slab_ns", Box::new(on_two_threads(in_sharded))),
        ],
    );
}

/// Blocks that are taken until the memory is used up, which is then free again at once.
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
    contended();
}
