//! Behaviours over the software transport with every object in memory of an allocator other than
//! the global one: an arena in a `static`, pools of several sizes, and bumpalo. Each behaviour has
//! a separate budget, which counts its allocations and frees.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{LazyLock, Mutex, PoisonError};

use bumpalo::Bump;
use libtest_mimic::{Failed, Trial};
use loom_alloc::{Arena, Budget, Locked, PoolAttr, Shared, SharedPool, SizeClasses, Spill, StaticArena, V02};
use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};
use loom_core::info::Info;
use loom_core::soft::{Network, NetworkAttr, Soft};

use crate::transports::memory::{self, Memory, allocator};

/// Small attributes, so that pools have room for the network.
const ATTR: NetworkAttr = NetworkAttr { rx_depth: 256, ..NetworkAttr::DEFAULT };

/// Behaviours that lose memory on purpose (one forgets a piece), or have destructors that panic,
/// and a queue with a closing that a panic interrupts.
const LOSING: [&str; 3] = ["forgotten", "a_closed_endpoint_gives_its_filled_buffer_back", "destructors_that_panic"];

/// Behaviours that open no object with memory. A counter and a fabric are values. One behaviour
/// ends at once, because its messages exceed the network's limit.
const OPENING_NOTHING: [&str; 2] =
    ["a_counter_is_set_and_added_to", "longest_message_arrives_and_a_longer_one_is_refused"];

/// Returns an arena for all behaviours: if objects are not closed in the reverse order of opening,
/// it keeps the memory below the last one.
fn arena() -> &'static Locked<Arena<'static>> {
    static MEMORY: StaticArena<{ 640 << 20 }> = StaticArena::new();
    MEMORY.take_shared().expect("it is taken once")
}

fn classes() -> &'static SizeClasses<Global, Shared, 5> {
    let pool = |size: usize, count| {
        let block = Layout::from_size_align(size, size.min(4096)).expect("a power of two");
        SharedPool::new_in(PoolAttr { block, count }, Global).expect("there is memory")
    };
    // The largest are for networks: in each of the behaviours that lose memory, a forgotten object
    // keeps its network.
    let pools = [pool(256, 512), pool(4 << 10, 128), pool(64 << 10, 64), pool(512 << 10, 16), pool(4 << 20, 9)];
    Box::leak(Box::new(SizeClasses::new(pools, Spill::ToLarger)))
}

/// A bump allocator for several threads. (ThreadSanitizer does not see the effect of a lock of
/// std.)
struct Guarded(spin::Mutex<Bump>);

// SAFETY: blocks are in chunks of the bump allocator, which live as long as it. One thread at a
// time uses it.
unsafe impl Allocator for &Guarded {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        V02(&*self.0.lock()).allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { V02(&*self.0.lock()).deallocate(block, layout) }
    }
}

fn bump() -> &'static Guarded {
    Box::leak(Box::new(Guarded(spin::Mutex::new(Bump::new()))))
}

struct Placing {
    name: &'static str,
    memory: Memory,
    /// Lock of the behaviour that uses it.
    alone: Mutex<()>,
}

impl Placing {
    fn new<A: Allocator + Send + Sync + 'static>(name: &'static str, alloc: A) -> Self {
        Placing { name, memory: Box::leak(Box::new(alloc)), alone: Mutex::new(()) }
    }

    fn run(&self, name: &str, case: impl FnOnce(&Info<Soft<'static>>)) -> Result<(), Failed> {
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let budget: &'static Budget<Memory> = Box::leak(Box::new(Budget::new(self.memory, usize::MAX)));
        let mut network_takes = 0;
        memory::place(Box::leak(Box::new(budget)), || {
            let network = Network::new_in(ATTR, allocator()).expect("there is room");
            network_takes = budget.used();
            case(&network.info());
        });
        assert!(network_takes > 0, "the network is in its memory");
        let is_one_of = |names: &[&str]| names.iter().any(|one| name.starts_with(one));
        if budget.blocks() > 0 && !is_one_of(&LOSING) {
            return Err(format!("{} blocks are not given back", budget.blocks()).into());
        }
        match (budget.high_water() > network_takes, is_one_of(&OPENING_NOTHING)) {
            (false, false) => Err("it has opened nothing in this memory but the network".into()),
            (true, true) => Err("it does open something: it need not be listed".into()),
            _ => Ok(()),
        }
    }
}

static PLACINGS: LazyLock<[Placing; 3]> = LazyLock::new(|| {
    [Placing::new("static-arena", arena()), Placing::new("pools", classes()), Placing::new("bumpalo", bump())]
});

pub(crate) fn trials(names: &[&'static str], run: fn(usize, &Info<Soft<'static>>)) -> Vec<Trial> {
    let mut trials = Vec::new();
    for placing in &*PLACINGS {
        for (number, name) in names.iter().copied().enumerate() {
            trials.push(Trial::test(format!("{}::soft-{}::{name}", super::SECTION, placing.name), move || {
                placing.run(name, |info| run(number, info))
            }));
        }
        // The controls: lost memory is found, and memory from elsewhere.
        let mut control = |name: &str, case: fn(), complaint: &'static str| {
            trials.push(Trial::test(format!("{}::soft-{}::{name}", super::SECTION, placing.name), move || {
                let found =
                    placing.run("control", |_| case()).map_err(|failed| failed.message().unwrap_or("").to_owned());
                match found {
                    Err(message) if message.contains(complaint) => Ok(()),
                    found => Err(format!("nobody has noticed: {found:?}").into()),
                }
            }));
        };
        let lose = || _ = allocator().allocate(Layout::new::<u64>()).expect("there is room");
        control("blocks_that_are_lost_are_found", lose, "1 blocks are not given back");
        let take_elsewhere = || drop(Box::new([0; 64]));
        control("memory_taken_elsewhere_is_noticed", take_elsewhere, "opened nothing in this memory");
    }
    trials
}
