//! The behaviours over the software transport once more, with every object in memory of other allocators than the global one: an
//! arena in a `static`, pools of several sizes, and bumpalo through the adapter for its version of the trait.
//!
//! One behaviour at a time uses an allocator, so that what it took and did not give back is its own.

#![allow(unsafe_code, reason = "allocators are unsafe to implement")]

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{LazyLock, Mutex, PoisonError};

use bumpalo::Bump;
use libtest_mimic::{Failed, Trial};
use loom_alloc::{Arena, Budget, Locked, PoolAttr, Shared, SharedPool, SizeClasses, Spill, StaticArena, V02};
use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};
use loom_core::objects::info::Info;
use loom_core::soft::{Network, NetworkAttr, Soft};

use crate::memory::{self, Memory, allocator};

/// Small, so that pools have room for it.
const ATTR: NetworkAttr = NetworkAttr { rx_depth: 256, ..NetworkAttr::DEFAULT };

/// These lose memory on purpose, or have destructors that panic, and a queue whose closing is cut short by one.
const LOSING: [&str; 2] = ["forgotten", "destructors_that_panic"];

/// It has room for all behaviours one after the other: where objects are not closed in the reverse order of opening, an arena
/// keeps what lies below the last one. What is never used is never touched.
fn arena() -> &'static Locked<Arena<'static>> {
    static MEMORY: StaticArena<{ 256 << 20 }> = StaticArena::new();
    MEMORY.take_shared().expect("it is taken once")
}

fn classes() -> &'static SizeClasses<Global, Shared, 5> {
    let pool = |size: usize, count| {
        let block = Layout::from_size_align(size, size.min(4096)).expect("a power of two");
        SharedPool::new_in(PoolAttr { block, count }, Global).expect("there is memory")
    };
    let pools = [pool(256, 512), pool(4 << 10, 128), pool(64 << 10, 64), pool(512 << 10, 16), pool(4 << 20, 4)];
    Box::leak(Box::new(SizeClasses::new(pools, Spill::ToLarger)))
}

/// A bump allocator for several threads.
struct Guarded(Mutex<Bump>);

// SAFETY: blocks are in chunks of the bump allocator, which stay as long as it; one thread at a time uses it.
unsafe impl Allocator for &Guarded {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        V02(&*self.0.lock().unwrap_or_else(PoisonError::into_inner)).allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { V02(&*self.0.lock().unwrap_or_else(PoisonError::into_inner)).deallocate(block, layout) }
    }
}

fn bump() -> &'static Guarded {
    Box::leak(Box::new(Guarded(Mutex::new(Bump::new()))))
}

/// Another allocator for the behaviours, and what is counted of it.
struct Placing {
    name: &'static str,
    memory: Memory,
    /// How many blocks are out.
    blocks: Box<dyn Fn() -> usize + Send + Sync>,
    /// Held by the behaviour that uses it.
    alone: Mutex<()>,
}

impl Placing {
    fn new<A: Allocator + Send + Sync + 'static>(name: &'static str, alloc: A) -> Self {
        let budget: &'static Budget<A> = Box::leak(Box::new(Budget::new(alloc, usize::MAX)));
        let memory = Box::leak(Box::new(budget));
        Placing { name, memory, blocks: Box::new(|| budget.blocks()), alone: Mutex::new(()) }
    }

    fn run(&self, name: &str, case: impl FnOnce()) -> Result<(), Failed> {
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let before = (self.blocks)();
        memory::place(self.memory, case);
        let left = (self.blocks)() - before;
        if left > 0 && !LOSING.iter().any(|losing| name.starts_with(losing)) {
            return Err(format!("{left} blocks are not given back").into());
        }
        Ok(())
    }
}

static PLACINGS: LazyLock<[Placing; 3]> = LazyLock::new(|| {
    [Placing::new("static-arena", arena()), Placing::new("pools", classes()), Placing::new("bumpalo", bump())]
});

/// Each of the behaviours, which `run` runs by its number, with each of the allocators.
pub(crate) fn trials(names: &[&'static str], run: fn(usize, &Info<Soft<'_>>)) -> Vec<Trial> {
    let mut trials = Vec::new();
    for placing in &*PLACINGS {
        for (number, name) in names.iter().copied().enumerate() {
            trials.push(Trial::test(format!("soft-{}::{name}", placing.name), move || {
                placing.run(name, || {
                    let network = Network::new_in(ATTR, allocator()).expect("there is room");
                    assert!((placing.blocks)() > 0, "the network is in its memory");
                    run(number, &network.info());
                })
            }));
        }
        // The control: what is lost is found.
        trials.push(Trial::test(format!("soft-{}::blocks_that_are_lost_are_found", placing.name), || {
            let lost = placing.run("control", || std::mem::forget(Network::new_in(ATTR, allocator())));
            match lost {
                Err(_) => Ok(()),
                Ok(()) => Err("nobody has noticed".into()),
            }
        }));
    }
    trials
}
