//! Regions with more attributes than access: an endpoint, a requested key.

use loom_core::Error;
use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent};
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::error::{OpenError, Rejected};
use loom_core::info::Info;
use loom_core::mr::{Mr, MrAttr, RemoteRegion};
use loom_core::registered::Registered;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, Errno, HmemIface, MemoryKey, MrMode};

use super::pair::{Bytes, OrCut, Pair, limit, on_pair, pattern, room};
use crate::behaviours::needs::{Behaviour, RMA};
use crate::memory::allocator;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("region_for_an_endpoint_is_reached_through_it", RMA, region_for_an_endpoint_is_reached_through_it),
        ("key_is_chosen_where_the_provider_leaves_it", RMA, key_is_chosen_where_the_provider_leaves_it),
        ("invalid_region_attributes_are_refused", RMA, invalid_region_attributes_are_refused),
    ]
}

const PEER_ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

/// Writes into a region of `b` until its bytes are visible there.
fn write_and_see<T: Transport + 'static, M: Buffer + Send, H>(
    pair: &Pair<'_, '_, T>,
    region: &Mr<'_, T, M, H>,
    remote: &RemoteRegion,
    seed: usize,
) {
    let written = pair.post(pattern(64, seed), |buf| pair.a.write(pair.to_b, remote, 8, buf));
    pair.finish(written);
    let mut deadline = limit();
    let mut seen = room(64);
    while seen != pattern(64, seed) {
        assert!(!deadline.passed(), "the bytes arrive");
        pair.cq.progress().or_cut("the queue works");
        region.window().copy_to(8, &mut seen).expect("within the window");
    }
}

fn region_for_an_endpoint_is_reached_through_it<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        let open = || Mr::open_for(pair.domain, &pair.b, room(100), PEER_ACCESS).expect("region");
        for seed in 0..3 {
            let region = open();
            write_and_see(pair, &region, &region.remote(), seed);
            match region.close() {
                Ok(memory) => assert!(memory[8..72] == *pattern(64, seed), "the memory comes back"),
                Err(Rejected { value: Some(region), error: Error::StillReached }) => drop(region),
                Err(error) => panic!("{error:?}"),
            }
        }
        let regions = [open(), open()];
        for (seed, region) in regions.iter().enumerate() {
            write_and_see(pair, region, &region.remote(), seed);
        }
    });
}

fn key_is_chosen_where_the_provider_leaves_it<T: Transport + 'static>(info: &Info<T>) {
    let attributes = &info.attributes().domain;
    on_pair(info, |pair| {
        pair.warm_up();
        let key = MemoryKey(0x4242);
        let open = || Mr::open(pair.domain, room(100), MrAttr::new(PEER_ACCESS).key(key));
        if attributes.mr_mode.intersects(MrMode::PROV_KEY | MrMode::BASIC) {
            assert_eq!(open().unwrap_err(), OpenError::KeyNotAvailable);
            return;
        }
        let region = open().expect("a region with this key");
        assert_eq!(region.remote().key, key);
        let told = region.remote();
        assert!(attributes.mr_mode.contains(MrMode::VIRT_ADDR) || told.base.0 == 0);
        write_and_see(pair, &region, &RemoteRegion { base: told.base, len: 100, key, access: told.access }, 1);
        assert_eq!(open().unwrap_err(), OpenError::KeyTaken);
        // No other way to it exists.
        let again = Mr::open_for(pair.domain, &pair.b, room(100), MrAttr::new(PEER_ACCESS).key(key));
        assert_eq!(again.unwrap_err(), OpenError::KeyTaken);
        write_and_see(pair, &region, &told, 2);
        // SAFETY: the writes have ended.
        #[allow(unsafe_code, reason = "closes a region while endpoints are open")]
        unsafe { region.close_finished() }.expect("the provider closes it");
        let region = open().expect("the key is free again");
        write_and_see(pair, &region, &region.remote(), 3);
        // Keys that are not requested pass over taken ones.
        let next = Mr::open_in(pair.domain, room(8), PEER_ACCESS, allocator()).expect("region").remote().key;
        let taken = MemoryKey(next.0 + 1);
        let _taken = Mr::open(pair.domain, room(8), MrAttr::new(PEER_ACCESS).key(taken)).expect("region");
        let others = [(); 3].map(|()| Mr::open_in(pair.domain, room(8), PEER_ACCESS, allocator()).expect("region"));
        assert!(others.iter().all(|other| other.remote().key != taken));
    });
}

/// Bytes that are reported as those of a device.
#[derive(Debug)]
struct OnDevice(Bytes);

// SAFETY: the bytes do not move.
#[allow(unsafe_code, reason = "implements the unsafe trait `Buffer`")]
unsafe impl Buffer for OnDevice {
    fn lend(&mut self) -> Lent {
        Lent { kind: HmemIface::CUDA, ..self.0.lend() }
    }
}

fn invalid_region_attributes_are_refused<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let other = Domain::open(info).expect("another domain");
    let counters = [&domain, &other].map(|domain| Counter::open(domain, CounterAttr::default()).expect("counter"));
    let [counter, foreign] = &counters;
    let region = Mr::open_in(&domain, room(8), PEER_ACCESS, allocator()).expect("region");
    assert_eq!(region.refresh(0, 8), Ok(()));
    assert_eq!(region.refresh(8, 0), Ok(()));
    assert_eq!(region.refresh(1, 8), Err(Errno::EINVAL));
    assert_eq!(region.refresh(usize::MAX, 2), Err(Errno::EINVAL));

    let elsewhere = Mr::open(&domain, room(8), MrAttr::new(PEER_ACCESS).counter(foreign));
    assert_eq!(elsewhere.unwrap_err(), OpenError::OtherDomain);
    let nothing = Mr::open(&domain, room(8), MrAttr::new(Access::REMOTE_READ).counter(counter));
    assert_eq!(nothing.unwrap_err(), OpenError::Counters);
    if !info.caps().contains(Caps::RMA_EVENT) {
        let uncounted = Mr::open(&domain, room(8), MrAttr::new(PEER_ACCESS).counter(counter));
        assert_eq!(uncounted.unwrap_err(), OpenError::Errno(Errno::EOPNOTSUPP));
    }
    assert!(!info.caps().contains(Caps::HMEM), "nobody asked for it");
    let device = Mr::open_in(&domain, OnDevice(room(8)), PEER_ACCESS, allocator());
    assert_eq!(device.unwrap_err(), OpenError::DeviceMemory);
    let device = Registered::new(&domain, OnDevice(room(8)));
    assert_eq!(device.unwrap_err().error, OpenError::DeviceMemory);
    // SAFETY: no memory is exported, and none is registered.
    #[allow(unsafe_code, reason = "the caller says what the descriptor names")]
    let exported = unsafe { MrAttr::new(PEER_ACCESS).dmabuf(0, 0) };
    assert_eq!(Mr::open(&domain, room(8), exported).unwrap_err(), OpenError::DeviceMemory);
    let av = Av::open_in(&other, 8, allocator()).expect("address vector");
    let cq = Cq::<T, Bytes>::open_in(&other, CqAttr::new(4), allocator()).expect("queue");
    let endpoint = cq.endpoint(&av).expect("endpoint");
    let elsewhere = Mr::open_for(&domain, &endpoint, room(8), PEER_ACCESS);
    assert_eq!(elsewhere.unwrap_err(), OpenError::OtherDomain);
    drop(Mr::open_for(&other, &endpoint, room(8), PEER_ACCESS).expect("a region for an endpoint of its domain"));
}
