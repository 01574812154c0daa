//! Memory that objects take from their allocator: the documented size, in the documented number of
//! blocks. A refused block is an error that leaves no object open, and open objects take no memory.

mod deployment;
mod sum;

use std::alloc::Layout;

use loom_alloc::Budget;
use loom_alloc::testing::{FailAt, Sealed};
use loom_core::allocator_api2::alloc::Global;
use loom_core::driver::{CounterDriver, CqDriver, Unclaimed};
use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory};
use loom_core::engine::tag_matcher::{TagMatcher, TagMatcherAttr};
use loom_core::error::OpenError;
use loom_core::info::Info;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::transport::Transport;
use loom_core::{Buffer, Counter, CounterAttr, Cq, Domain};
use loom_deferred::Deferred;

use support::alone::is_alone;

use deployment::{OBJECTS, deploy, parts};

/// Returns the number of open files of this process: half-open objects of libfabric would have
/// some.
fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Leaks a value, because long-lived objects require an allocator that lives as long as the
/// program.
fn forever<V>(value: V) -> &'static V {
    Box::leak(Box::new(value))
}

type Counting = &'static Budget<Global>;

fn counting() -> Counting {
    forever(Budget::new(Global, usize::MAX))
}

fn takes_its_documented_size<T: Transport + 'static>(name: &str, info: &Info<T>) {
    let budget = counting();
    let mut opened = 0;
    deploy(
        info,
        &budget,
        |step| {
            let part = parts::<T, Counting>(step.domain, step.av).swap_remove(opened);
            let taken = (budget.used() - step.before.0, budget.blocks() - step.before.1);
            println!("{name:<12} {:<28} {:>9} bytes in {} blocks", part.name, taken.0, taken.1);
            assert_eq!(taken, (part.bytes, part.blocks), "{name}: {}", part.name);
            opened += 1;
        },
        || (budget.used(), budget.blocks()),
    )
    .expect("it opens");
    assert_eq!(opened, OBJECTS);
    assert_eq!((budget.used(), budget.blocks()), (0, 0), "{name}: all is given back");
}

/// Fails every allocation once: the result is always an error, no block and no file is left, and
/// the next deployment works.
fn survives_every_failure<T: Transport + 'static>(name: &str, info: &Info<T>) {
    let budget = counting();
    let open = |nth| {
        let alloc = forever(FailAt::new(budget, nth));
        (deploy(info, &alloc, |_| (), || (0, 0)), alloc.failed())
    };
    // Objects that libfabric opens once for all.
    open(usize::MAX).0.expect("it opens");
    let before = files();
    let mut nth = 0;
    loop {
        let (opened, failed) = open(nth);
        assert_eq!((budget.used(), budget.blocks()), (0, 0), "{name}: allocation {nth}");
        assert_eq!(files(), before, "{name}: files after allocation {nth}");
        if !failed {
            break assert_eq!(opened, Ok(()), "{name}");
        }
        assert_eq!(opened, Err(OpenError::OutOfMemory), "{name}: allocation {nth}");
        nth += 1;
    }
    println!("{name}: {nth} allocations, each of which has failed once");
    assert!(nth >= OBJECTS);
}

/// Checks that open objects allocate no memory: the allocator panics at the first request after the
/// last opening.
fn works_under_a_seal<T: Transport + 'static>(name: &str, info: &Info<T>) {
    let budget = counting();
    let sealed = forever(Sealed::new(budget));
    let mut steps = 0;
    deploy(
        info,
        &sealed,
        |_| {
            steps += 1;
            // The last one transfers data.
            if steps == OBJECTS {
                sealed.seal();
            }
        },
        || (0, 0),
    )
    .expect("it opens");
    assert!(budget.blocks() == 0, "{name}");
}

macro_rules! over_each {
    ($($test:ident = $case:ident),*) => { $(
        #[test]
        fn $test() {
            if !is_alone(concat!("footprint::", stringify!($test))) {
                return;
            }
            let network = Network::new(NetworkAttr::DEFAULT).expect("the sizes are small");
            $case("soft", &network.info());
            #[cfg(feature = "libfabric")]
            for provider in ["shm", "tcp;ofi_rxm", "sockets"] {
                $case(provider, &libfabric(provider));
            }
        }
    )* };
}

over_each! {
    every_object_takes_its_documented_size = takes_its_documented_size,
    every_allocation_that_fails_is_an_error_and_leaks_no_block = survives_every_failure,
    open_objects_take_no_more_memory = works_under_a_seal
}

#[cfg(feature = "libfabric")]
fn libfabric(provider: &str) -> Info<loom_fabric::ofi::Ofi<loom_fabric::ofi::Local>> {
    use loom_core::info::Hints;
    use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
    let node = (provider != "shm").then_some("127.0.0.1");
    let hints = Hints {
        provider: Some(provider),
        node,
        listen: node.is_some(),
        caps: Caps::MSG | Caps::TAGGED | Caps::RMA,
        endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
        ..Hints::default()
    };
    loom_fabric::ofi::Ofi::query(&hints).ok().and_then(|mut infos| infos.next()).expect("every libfabric has it")
}

/// Sums up a network with as many endpoints as the vector has room for peers.
#[test]
fn the_sum_is_documented() {
    let network =
        Network::new(NetworkAttr { endpoints: 1024, tx_depth: 1, rx_depth: 1, eager_size: 0, ..NetworkAttr::DEFAULT });
    sum::is_documented("soft", &network.expect("there is memory").info());
    #[cfg(feature = "libfabric")]
    sum::is_documented("tcp;ofi_rxm", &libfabric("tcp;ofi_rxm"));
}

/// Checks objects without a domain: each takes one block, or is refused.
#[test]
fn objects_without_domain_take_documented_sizes_or_are_refused() {
    let network = NetworkAttr::DEFAULT;
    takes_one_block("network", network.layout::<Counting>(), |alloc| Network::new_in(network, alloc));
    let (matcher, table) = (TagMatcherAttr::DEFAULT, AddressTableAttr::new(1000));
    takes_one_block("matcher of tags", matcher.layout(), |alloc| TagMatcher::new_in(matcher, alloc));
    takes_one_block("address table", table.layout(), |alloc| AddressTableMemory::new_in(table, alloc));
}

/// Checks drivers of queues and counters, and deferred work.
#[test]
fn drivers_take_their_documented_size_or_are_refused() {
    let network = Network::new(NetworkAttr::DEFAULT).expect("there is memory");
    let domain = Domain::open(&network.info()).expect("it opens");
    let cq = Cq::<_, Box<[u8]>>::open(&domain, 1024).expect("it opens");
    let counter = Counter::open(&domain, CounterAttr::default()).expect("it opens");
    takes_one_block("driver of a queue", layout_of_driver(&cq), |alloc| CqDriver::open_in(&cq, Unclaimed::Drop, alloc));
    takes_one_block("driver of a counter", layout_of_counters(&counter), |alloc| {
        CounterDriver::open_in(&counter, alloc)
    });
    deferred_work_takes_its_layouts(&cq);
    assert!(layout_of_driver(&cq).is_ok_and(|layout| layout.size() <= 48 * 1024 + 512), "48 bytes for each operation");
}

fn layout_of_driver<T: Transport, B: Buffer>(cq: &Cq<'static, T, B>) -> Result<Layout, OpenError> {
    CqDriver::<T, B>::layout::<Counting>(cq.capacity())
}

fn layout_of_counters<T: Transport>(_: &Counter<'static, T>) -> Result<Layout, OpenError> {
    CounterDriver::<T>::layout::<Counting>()
}

/// Checks two blocks, or an error that leaves none.
fn deferred_work_takes_its_layouts<T: Transport, B: Buffer>(cq: &Cq<'static, T, B>) {
    let layouts = Deferred::<T, B, Counting>::layouts(1000, cq.capacity()).expect("the sizes are small");
    let (size, budget) = (layouts.iter().map(Layout::size).sum(), counting());
    let open = |budget| Deferred::<T, B, Counting>::open_in(cq, 1000, budget);
    let opened = open(budget).expect("there is memory");
    assert_eq!((budget.used(), budget.blocks()), (size, 2));
    drop(opened);
    assert_eq!((budget.used(), budget.blocks()), (0, 0));
    for room in [layouts[0].size() - 1, size - 1] {
        let scarce = forever(Budget::new(Global, room));
        assert_eq!(open(scarce).map(drop), Err(OpenError::OutOfMemory));
        assert_eq!((scarce.used(), scarce.refusals()), (0, 1));
    }
}

/// Checks objects of libfabric alone.
#[cfg(feature = "libfabric")]
#[test]
fn objects_of_libfabric_alone_take_their_documented_size_or_are_refused() {
    use loom_core::av::{Av, AvAttr};
    use loom_core::domain::Domain;
    use loom_core::endpoint::{Contexts, ScalableEndpoint};
    use loom_core::eq::{EqAttr, EventQueue};

    type T = loom_fabric::ofi::Ofi<loom_fabric::ofi::Local>;

    let info = libfabric("sockets");
    let domain = Domain::open(&info).expect("it opens");
    takes_one_block("event queue", EventQueue::<T>::layout::<Counting>(), |alloc| {
        EventQueue::open_in(&domain, EqAttr::default(), alloc)
    });
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).expect("it opens");
    takes_one_block("scalable endpoint", ScalableEndpoint::<T>::layout::<Counting>(), |alloc| {
        ScalableEndpoint::open_in(&av, &info, Contexts { tx: 1, rx: 1 }, alloc)
    });
}

fn takes_one_block<V>(name: &str, layout: Result<Layout, OpenError>, open: impl Fn(Counting) -> Result<V, OpenError>) {
    let (size, budget) = (layout.expect("the sizes are small").size(), counting());
    let opened = open(budget).expect("there is memory");
    assert_eq!((budget.used(), budget.blocks()), (size, 1), "{name}");
    drop(opened);
    assert_eq!((budget.used(), budget.blocks()), (0, 0), "{name}");
    let scarce = forever(Budget::new(Global, size - 1));
    assert_eq!(open(scarce).map(drop), Err(OpenError::OutOfMemory), "{name}");
    assert_eq!((scarce.used(), scarce.refusals()), (0, 1), "{name}");
}
