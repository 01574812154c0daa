//! Counters over libfabric's providers: sleeps on them, and operations of peers in this side's
//! memory.

use support::posting;
use support::shared_memory;

use std::time::{Duration, Instant};

use loom_alloc::Budget;
use loom_core::CqError;
use loom_core::allocator_api2::alloc::Global;
use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Source};
use loom_core::error::OpenError;
use loom_core::info::{Hints, Info};
use loom_core::mr::{Mr, MrAttr};
use loom_core::vocabulary::{Access, Caps, Counted, Errno, WaitObj};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use support::library_version;

use posting::{LIMIT, post};

type T = Ofi<Local>;

const PEER_ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

/// Returns the info of a provider, which every libfabric of a version has.
fn info(provider: &str, more: Caps) -> Info<T> {
    shared_memory::remove_at_exit();
    let node = (provider != "shm").then_some("127.0.0.1");
    let caps = Caps::MSG | Caps::RMA | more;
    let hints = Hints { caps, provider: Some(provider), node, listen: node.is_some(), ..Hints::default() };
    let mut infos = Ofi::<Local>::query(&hints).unwrap();
    infos.next().unwrap_or_else(|| panic!("libfabric {} has no {provider} with {caps}", library_version()))
}

fn sleeps_until_it_has_counted(provider: &str, wait: WaitObj, has_fd: bool) {
    let info = info(provider, Caps::empty());
    let domain = Domain::open(&info).unwrap();
    let counter = Counter::open(&domain, CounterAttr { wait });
    if !info.raw().is_tested() {
        assert_eq!(counter.map(drop), Err(OpenError::Errno(Errno::ENOSYS)));
        return;
    }
    let counter = counter.unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(16)).unwrap();
    let endpoint = cq.endpoint(Binding::to(&av).counter(Counted::RECV | Counted::SEND, &counter)).unwrap();
    let own = av.insert(&endpoint.address().unwrap()).unwrap();
    match counter.wait_fd() {
        Ok(fd) => assert!(has_fd && fd >= 0),
        Err(CqError::NotOpenedFor) => assert_ne!(wait, WaitObj::FD),
        Err(error) => assert_eq!((has_fd, error), (false, CqError::Counter(Errno::ENOSYS))),
    }
    let (before, time) = (Instant::now(), Duration::from_millis(20));
    assert_eq!(counter.wait_for(1, time), Ok(false), "nothing has ended");
    let forgets_to_wait = provider == "sockets" && library_version().major < 2;
    assert!(forgets_to_wait || before.elapsed() > time / 2, "{:?}", before.elapsed());

    post(&cq, vec![0; 8], |buf| endpoint.recv(Source::Any, buf));
    post(&cq, vec![1; 8], |buf| endpoint.send(own, buf));
    let deadline = Instant::now() + LIMIT;
    while !counter.wait_for(2, LIMIT).unwrap() {
        assert!(Instant::now() < deadline, "{} counted within {LIMIT:?}", counter.read());
    }
    assert_eq!((counter.read(), counter.read_error()), (2, 0));
}

#[test]
fn counters_of_tcp_can_be_slept_on() {
    for wait in [WaitObj::UNSPEC, WaitObj::FD] {
        sleeps_until_it_has_counted("tcp;ofi_rxm", wait, false);
    }
}

#[test]
fn counters_of_rxd_can_be_slept_on() {
    for wait in [WaitObj::UNSPEC, WaitObj::FD] {
        sleeps_until_it_has_counted("udp;ofi_rxd", wait, false);
    }
}

#[test]
fn counters_of_sockets_can_be_slept_on() {
    for wait in [WaitObj::UNSPEC, WaitObj::FD, WaitObj::MUTEX_COND] {
        sleeps_until_it_has_counted("sockets", wait, true);
    }
}

#[test]
fn counters_of_shm_cannot() {
    let domain = Domain::open(&info("shm", Caps::empty())).unwrap();
    for wait in [WaitObj::UNSPEC, WaitObj::FD, WaitObj::SET] {
        let refused = Counter::open(&domain, CounterAttr { wait }).unwrap_err();
        assert_eq!(refused, OpenError::Errno(Errno::ENOSYS));
    }
}

fn counts_operations_of_peers(provider: &str) {
    let domain = Domain::open(&info(provider, Caps::RMA_EVENT)).unwrap();
    let [reads, writes] = [(); 2].map(|()| Counter::open(&domain, CounterAttr::default()).unwrap());
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(16)).unwrap();
    let region = Mr::open(&domain, vec![0_u8; 64], Access::REMOTE_WRITE | Access::REMOTE_READ).unwrap();
    let remote = region.remote();
    let a = cq.endpoint(&av).unwrap();
    let bind = Binding::to(&av).counter(Counted::REMOTE_WRITE, &writes).counter(Counted::REMOTE_READ, &reads);
    let b = cq.endpoint(bind).unwrap();
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let deadline = Instant::now() + LIMIT;
    for round in 1..=3 {
        let written = post(&cq, vec![round; 8], |buf| a.write(to_b, &remote, 0, buf));
        cq.wait(written, deadline).unwrap().unwrap().result().unwrap();
        let read = post(&cq, vec![0; 8], |buf| a.read(to_b, &remote, 0, buf));
        let (bytes, result) = cq.wait(read, deadline).unwrap().unwrap().into_parts();
        result.unwrap();
        assert_eq!(bytes, [round; 8]);
        while (writes.read(), reads.read()) != (round.into(), round.into()) {
            assert!(Instant::now() < deadline, "{} writes, {} reads", writes.read(), reads.read());
            cq.progress().unwrap();
        }
    }
    assert_eq!((writes.read_error(), reads.read_error()), (0, 0));
}

#[test]
fn shm_counts_operations_of_peers() {
    counts_operations_of_peers("shm");
}

#[test]
fn sockets_count_operations_of_peers() {
    counts_operations_of_peers("sockets");
}

#[test]
fn rxd_counts_operations_of_peers() {
    counts_operations_of_peers("udp;ofi_rxd");
}

/// Checks that a counter of one of two regions counts the writes there, and no others.
#[test]
fn sockets_count_writes_of_peers_to_a_region() {
    let domain = Domain::open(&info("sockets", Caps::RMA_EVENT)).unwrap();
    let writes = Counter::open(&domain, CounterAttr::default()).unwrap();
    let counted = Mr::open(&domain, vec![0_u8; 64], MrAttr::new(PEER_ACCESS).counter(&writes)).unwrap();
    let other = Mr::open(&domain, vec![0_u8; 64], PEER_ACCESS).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(16)).unwrap();
    let [a, b] = [(); 2].map(|()| cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let deadline = Instant::now() + LIMIT;
    for round in 1..=3 {
        for remote in [other.remote(), counted.remote()] {
            let written = post(&cq, vec![round; 8], |buf| a.write(to_b, &remote, 16, buf));
            cq.wait(written, deadline).unwrap().unwrap().result().unwrap();
            let read = post(&cq, vec![0; 8], |buf| a.read(to_b, &remote, 16, buf));
            let (bytes, result) = cq.wait(read, deadline).unwrap().unwrap().into_parts();
            result.unwrap();
            assert_eq!(bytes, [round; 8]);
        }
        while writes.read() < round.into() {
            assert!(Instant::now() < deadline, "{} writes", writes.read());
            cq.progress().unwrap();
        }
        assert_eq!((writes.read(), writes.read_error()), (round.into(), 0));
    }
    // The counter may be closed after its region, which closes after the endpoints.
    drop((a, b));
    drop(cq);
    assert_eq!(counted.close().unwrap()[16..24], [3; 8]);
    drop(writes);
}

/// Closes a region under peers' operations. It keeps its counter until the endpoints close.
#[test]
fn a_region_that_is_closed_before_the_endpoints_keeps_its_counter_until_they_are() {
    let domain = Domain::open(&info("sockets", Caps::RMA_EVENT)).unwrap();
    let budget: &Budget<Global> = Box::leak(Box::new(Budget::new(Global, usize::MAX)));
    let writes = Counter::open_in(&domain, CounterAttr::default(), budget).unwrap();
    let region = Mr::open(&domain, vec![0_u8; 64], MrAttr::new(PEER_ACCESS).counter(&writes)).unwrap();
    let remote = region.remote();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(16)).unwrap();
    let [a, b] = [(); 2].map(|()| cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    drop(region);
    assert_eq!(writes.add(1), Ok(()));
    drop(writes);
    let deadline = Instant::now() + LIMIT;
    let written = post(&cq, vec![1; 8], |buf| a.write(to_b, &remote, 16, buf));
    // The write succeeds, or is refused because the region is closed.
    let _ = cq.wait(written, deadline).unwrap().unwrap().result();
    assert_eq!(budget.blocks(), 1);
    drop((a, b));
    assert_eq!(budget.blocks(), 0);
}

/// Checks a refusal: the info's grant is for endpoints, and other providers have no counters of
/// regions.
#[test]
fn others_have_no_counters_of_regions() {
    for provider in ["shm", "udp;ofi_rxd"] {
        let domain = Domain::open(&info(provider, Caps::RMA_EVENT)).unwrap();
        let budget: &Budget<Global> = Box::leak(Box::new(Budget::new(Global, usize::MAX)));
        let writes = Counter::open_in(&domain, CounterAttr::default(), budget).unwrap();
        let refused = Mr::open(&domain, vec![0_u8; 64], MrAttr::new(PEER_ACCESS).counter(&writes)).unwrap_err();
        assert_eq!(refused, OpenError::Errno(Errno::ENOSYS), "{provider}");
        // The refusal has no effect: the counter works, and its drop closes it.
        assert_eq!(writes.add(1), Ok(()), "{provider}");
        let av = Av::open(&domain, 4).unwrap();
        let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(16)).unwrap();
        let _endpoint = cq.endpoint(&av).unwrap();
        Mr::open(&domain, vec![0_u8; 64], MrAttr::new(PEER_ACCESS).counter(&writes)).unwrap_err();
        assert_eq!(writes.add(1), Ok(()), "{provider}: it never counted");
        drop(writes);
        assert_eq!(budget.blocks(), 0, "{provider}");
    }
}
