//! Atomic operations of several threads and endpoints on shared memory, together with its owner. No
//! update is lost.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use loom_core::atomic::{BaseOp, CompareOp, Complex, Element, FetchOp, ReadOp};
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Endpoint;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Access, Caps, EndpointAddr, Errno};
use loom_core::{Hints, Peer, Spins};

/// Threads beside the owner's, each with two endpoints.
const THREADS: u16 = 3;
const ENDPOINTS: u16 = 2;
/// Operations of each thread, including the owner's: a million in total.
const EACH: usize = 250_000;
const ALL: usize = EACH * (1 + THREADS as usize);
const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 1 + THREADS * ENDPOINTS, tx_depth: 8, rx_depth: 8, ..NetworkAttr::DEFAULT };

/// Time limit of a test.
const LIMIT: Duration = Duration::from_secs(120);

type Ports<'e> = (&'e Cq<'static, Soft<'static>, ()>, &'e [(Endpoint<'static, Soft<'static>, ()>, Peer)]);

/// Runs the owner and the threads at the same time. `thread` returns its result.
fn all_at_once<R: Send>(
    owner: impl FnOnce(&Mr<'static, Soft<'static>, Vec<u8>>, usize) -> R,
    thread: impl Fn(&Domain<'static, Soft<'static>>, Ports<'_>, (&RemoteRegion, u64)) -> R + Sync,
) -> (Vec<R>, [u64; 2]) {
    let network = Network::new(ATTR).unwrap();
    let hints = Hints { caps: Caps::MSG | Caps::RMA | Caps::ATOMIC, ..Hints::default() };
    let info = network.query(&hints).unwrap();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, 1).unwrap();
    let cq = Cq::<_, ()>::open(&domain, CqAttr::new(8)).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    let offset = region.window().as_ptr().align_offset(16);
    let (address, remote): (EndpointAddr, _) = (endpoint.address().unwrap(), region.remote());
    let together = Barrier::new(1 + usize::from(THREADS));

    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (info, address, remote, together, thread) = (&info, &address, remote, &together, &thread);
                scope.spawn(move || {
                    let domain = Domain::open(info).unwrap();
                    let av = Av::open(&domain, 1).unwrap();
                    let cq = Cq::open(&domain, CqAttr::new(8)).unwrap();
                    let ends: Vec<_> =
                        (0..ENDPOINTS).map(|_| (cq.endpoint(&av).unwrap(), av.insert(address).unwrap())).collect();
                    together.wait();
                    thread(&domain, (&cq, &ends), (&remote, offset as u64))
                })
            })
            .collect();
        together.wait();
        let mut results = vec![owner(&region, offset)];
        results.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        results
    });
    let elements = [0, 8].map(|at| region.window().element::<u64>(offset + at).unwrap().load());
    (results, elements)
}

#[test]
fn a_million_fetch_adds_of_threads_endpoints_and_the_owner_each_see_another_value() {
    let (results, [total, _]) = all_at_once(
        |region, offset| {
            let element = region.window().element::<u64>(offset).unwrap();
            (0..EACH).map(|_| element.fetch(FetchOp::<u64>::SUM, 1)).collect::<Vec<_>>()
        },
        |domain, (cq, ends), (region, offset)| {
            let add = domain.query_atomic(FetchOp::<u64>::SUM).unwrap();
            let until = Instant::now() + LIMIT;
            let fetch = |(endpoint, peer): &(Endpoint<'static, _, ()>, Peer)| {
                let key = cq.retry(until, || endpoint.fetch_value(*peer, region, offset, add, 1)).unwrap();
                cq.wait_value(key, until).unwrap().expect("in time").value::<u64>().unwrap().expect("a u64")
            };
            ends.iter().cycle().take(EACH).map(fetch).collect()
        },
    );
    assert_eq!(usize::try_from(total), Ok(ALL));
    let mut seen = vec![false; ALL];
    for values in results {
        assert!(values.is_sorted(), "what one thread sees only grows");
        for value in values {
            let seen = &mut seen[usize::try_from(value).unwrap()];
            assert!(!std::mem::replace(seen, true), "{value} was fetched twice");
        }
    }
    assert!(seen.into_iter().all(|seen| seen));
}

/// One word counts the operations that found their expected value, the other one all of them.
#[test]
fn a_million_compare_swaps_of_threads_endpoints_and_the_owner_all_count() {
    let (results, [swapped, tried]) = all_at_once(
        |region, offset| {
            let [word, tries] = [0, 8].map(|at| region.window().element::<u64>(offset + at).unwrap());
            let (mut expected, mut successes) = (0, 0);
            for _ in 0..EACH {
                let before = word.compare(CompareOp::<u64>::CSWAP, expected, expected + 1);
                successes += u64::from(before == expected);
                expected = if before == expected { expected + 1 } else { before };
                tries.fetch(FetchOp::<u64>::SUM, 1);
            }
            successes
        },
        |domain, (cq, ends), (region, offset)| {
            let swap = domain.query_atomic(CompareOp::<u64>::CSWAP).unwrap();
            let add = domain.query_atomic(BaseOp::<u64>::SUM).unwrap();
            let until = Instant::now() + LIMIT;
            let (mut expected, mut successes) = (0, 0);
            for (endpoint, peer) in ends.iter().cycle().take(EACH) {
                let post = || endpoint.compare_value(*peer, region, offset, swap, expected, expected + 1);
                let key = cq.retry(until, post).unwrap();
                let before = cq.wait_value(key, until).unwrap().expect("in time").value::<u64>().unwrap().unwrap();
                successes += u64::from(before == expected);
                expected = if before == expected { expected + 1 } else { before };
                cq.retry(until, || endpoint.inject_atomic(*peer, region, offset + 8, add, &[1])).unwrap();
            }
            successes
        },
    );
    assert_eq!(usize::try_from(tried), Ok(ALL));
    assert_eq!(swapped, results.iter().sum::<u64>(), "each success has counted once");
    assert!(results.iter().all(|successes| *successes > 0), "everybody takes part: {results:?}");
}

/// Two endpoints of a queue. The first one reaches the second.
fn pair(test: impl FnOnce(&Domain<'static, Soft<'static>>, Ports<'_>)) {
    let network = Network::new(ATTR).unwrap();
    let hints = Hints { caps: Caps::MSG | Caps::RMA | Caps::ATOMIC, ..Hints::default() };
    let domain = Domain::open(&network.query(&hints).unwrap()).unwrap();
    let av = Av::open(&domain, 1).unwrap();
    let cq = Cq::<_, ()>::open(&domain, CqAttr::new(8)).unwrap();
    let owner = cq.endpoint(&av).unwrap();
    let peer = av.insert(&owner.address().unwrap()).unwrap();
    test(&domain, (&cq, &[(cq.endpoint(&av).unwrap(), peer)]));
}

/// Leaked memory that begins this number of bytes behind a multiple of 16.
fn memory(begin: usize) -> &'static mut [u8] {
    let memory = vec![0; 64].leak();
    let aligned = memory.as_ptr().align_offset(16);
    &mut memory[aligned + begin..aligned + begin + 32]
}

#[test]
fn atomic_needs_an_aligned_address_wherever_its_region_begins() {
    pair(|domain, (cq, ends)| {
        let (endpoint, peer) = &ends[0];
        let add = domain.query_atomic(FetchOp::<u64>::SUM).unwrap();
        for begin in 0..16 {
            let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
            let region = Mr::open(domain, memory(begin), access).unwrap();
            // An unaligned offset is refused at once.
            for offset in [0, 8] {
                let key = endpoint.fetch_value(*peer, &region.remote(), offset, add, 3).unwrap();
                let value = cq.wait_value(key, Spins(10)).unwrap().unwrap().value::<u64>();
                let expected = if begin % 8 == 0 { Ok(()) } else { Err(Errno::EINVAL) };
                assert_eq!(value.map(|_| ()).map_err(|error| error.errno), expected, "{offset} behind {begin}");
            }
        }
    });
}

/// The processor can read 16 bytes in one step only by an instruction that writes.
#[test]
fn memory_that_may_only_be_read_is_read_in_elements_below_16_bytes() {
    fn read<E: Element>(
        domain: &Domain<'static, Soft<'static>>,
        (cq, ends): Ports<'_>,
        access: Access,
    ) -> Option<Errno> {
        let (endpoint, peer) = &ends[0];
        let region = Mr::open(domain, memory(0), access).unwrap();
        let (owned, all) = (region.remote(), Access::REMOTE_READ | Access::REMOTE_WRITE);
        // A forged record: this side's check accepts the operation.
        let forged = RemoteRegion { base: owned.base, len: owned.len, key: owned.key, access: all };
        let op = domain.query_atomic(ReadOp::<E>::READ).unwrap();
        let key = endpoint.read_value(*peer, &forged, 0, op).unwrap();
        cq.wait_value(key, Spins(10)).unwrap().unwrap().value::<E>().err().map(|error| error.errno)
    }
    pair(|domain, ports| {
        for access in [Access::REMOTE_READ, Access::REMOTE_READ | Access::REMOTE_WRITE] {
            let refused = (!access.contains(Access::REMOTE_WRITE)).then_some(Errno::EACCES);
            assert_eq!(read::<u64>(domain, ports, access), None);
            assert_eq!(read::<Complex<f32>>(domain, ports, access), None);
            assert_eq!(read::<u128>(domain, ports, access), refused);
            assert_eq!(read::<Complex<f64>>(domain, ports, access), refused);
        }
        assert_eq!(read::<u64>(domain, ports, Access::REMOTE_WRITE), Some(Errno::EACCES));
    });
}
