//! Cache of registrations: a buffer with a cached region, compared with one that is registered for
//! each message, and with a map of ranges.

use std::collections::BTreeMap;
use std::hint::black_box;

use loom_alloc::mr_cache::{MrCache, MrCacheAttr, Notified};
use loom_core::allocator_api2::alloc::Global;
use loom_core::domain::Domain;
#[cfg(feature = "libfabric")]
use loom_core::info::Hints;
use loom_core::info::Info;
use loom_core::registered::Registered;
use loom_core::soft::{Network, NetworkAttr, RequiredModes};
use loom_core::transport::Transport;
#[cfg(feature = "libfabric")]
use loom_core::vocabulary::Caps;
#[cfg(feature = "libfabric")]
use loom_fabric::ofi::{Local, Ofi};

use crate::measure::{median, metric, per_operation, ratio};

/// Rounds of the median.
const ROUNDS: usize = 31;

/// Regions in the cache.
const REGIONS: u32 = 10_000;

/// Pages from one buffer to the next.
const STEPS: [usize; 3] = [1, 3, 16];

const PAGE: usize = 4096;

/// Bytes of a buffer.
const LEN: usize = 4000;

/// Buffers in a pseudorandom order, each on its own page.
fn shuffled(memory: &[u8], step: usize) -> Vec<&[u8]> {
    let first = memory.as_ptr().addr().next_multiple_of(PAGE) - memory.as_ptr().addr();
    let mut bufs: Vec<&[u8]> =
        memory[first..].chunks(step * PAGE).take(REGIONS as usize).map(|chunk| &chunk[..LEN]).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..bufs.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (at as u64 + 1)).expect("a place");
        bufs.swap(at, other);
    }
    bufs
}

/// Nanoseconds, in each round, of a buffer found and returned, of one registered and closed, and of
/// one found in a map of ranges.
fn rounds<T: Transport + 'static>(info: &Info<T>, step: usize) -> [Vec<f64>; 3] {
    let domain = Domain::open(info).expect("domain");
    let memory = vec![0; (REGIONS as usize + 1) * step * PAGE];
    let bufs = shuffled(&memory, step);
    // SAFETY: the memory lives until the cache is closed.
    let monitor = unsafe { Notified::new() };
    let cache = MrCache::open_in(&domain, MrCacheAttr::new(REGIONS), monitor, Global).expect("cache");
    for buf in &bufs {
        drop(cache.register(*buf).expect("registered"));
    }
    let starts_and_ends = bufs.iter().map(|buf| buf.as_ptr_range()).map(|range| (range.start.addr(), range.end.addr()));
    let map: BTreeMap<usize, usize> = starts_and_ends.collect();
    let (mut found, mut registered, mut in_map) = (vec![], vec![], vec![]);
    for round in 0..ROUNDS {
        found.push(per_operation(REGIONS, |_| {
            for buf in &bufs {
                drop(black_box(cache.register(black_box(*buf)).expect("found")));
            }
        }));
        registered.push(per_operation(500, |count| {
            for buf in bufs.iter().cycle().skip(round * 500).take(count as usize) {
                drop(black_box(Registered::new(&domain, black_box(*buf)).expect("registered")));
            }
        }));
        in_map.push(per_operation(REGIONS, |_| {
            for buf in &bufs {
                let range = black_box(*buf).as_ptr_range();
                let region = black_box(map.range(..=range.start.addr()).next_back());
                assert!(region.is_some_and(|(_, end)| range.end.addr() <= *end), "found");
            }
        }));
    }
    let stats = cache.stats();
    assert_eq!((stats.found, stats.hits), (REGIONS, u64::from(REGIONS) * ROUNDS as u64), "everything was found");
    [found, registered, in_map]
}

fn row(name: &str, [found, registered, in_map]: &[Vec<f64>; 3]) {
    println!("{name:<44} {:>10.1} {:>10.1} {:>10.1}", median(found), median(registered), median(in_map));
}

/// Measures libfabric's providers.
#[cfg(feature = "libfabric")]
fn over(provider: &str, name: &str, node: Option<&str>) {
    let hints = Hints {
        caps: Caps::MSG | Caps::TAGGED | Caps::RMA,
        provider: Some(provider),
        node,
        listen: node.is_some(),
        ..Hints::default()
    };
    let mut infos = Ofi::<Local>::query(&hints).expect("infos");
    let info = infos.next().expect("the provider is here");
    let figures = rounds(&info, 1);
    row(&format!("over {provider}"), &figures);
    metric(&format!("mr_cache.registering_over_hit.{name}"), ratio(&figures[1], &figures[0]), "ratio");
}

pub(crate) fn run() {
    println!(
        "{:<44} {:>10} {:>10} {:>10}",
        "a buffer of 10,000, in random order, ns", "is found", "registered", "BTreeMap"
    );
    let regions = u16::try_from(REGIONS + 1).expect("so many regions");
    let network = Network::new(NetworkAttr { regions, ..NetworkAttr::DEFAULT }).expect("network");
    let info = network.info_requiring(RequiredModes::LOCAL_REGISTRATION);
    for step in STEPS {
        let figures = rounds(&info, step);
        row(&format!("over soft, {step} pages from one to the next"), &figures);
        if step == 1 {
            metric("mr_cache.hit_ns.10000", median(&figures[0]), "ns");
            metric("mr_cache.hit_over_btree_map.10000", ratio(&figures[0], &figures[2]), "ratio");
        } else {
            metric(&format!("mr_cache.hit_ns.10000.step_{step}"), median(&figures[0]), "ns");
        }
    }
    #[cfg(feature = "libfabric")]
    {
        over("shm", "shm", None);
        over("tcp;ofi_rxm", "tcp_rxm", Some("127.0.0.1"));
        println!(
            "libfabric's own cache: of its providers those of hardware have one (verbs, efa, cxi, ...), and none that runs here"
        );
    }
    #[cfg(not(feature = "libfabric"))]
    println!("libfabric's providers: skipped, the feature `libfabric` is off");
}
