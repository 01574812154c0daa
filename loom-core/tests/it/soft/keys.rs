//! Keys of regions over the software transport. They are random, so that a peer cannot derive them.

use std::collections::HashSet;

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::error::PostError;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Access, Errno, MemoryKey};

/// Keys of regions of a network with this seed, in the order of opening. Some regions are open at a
/// time.
fn keys(seed: u64) -> Vec<MemoryKey> {
    let network = Network::new(NetworkAttr { seed, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let mut keys = Vec::new();
    for _ in 0..100 {
        let regions = [(); 3].map(|()| Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap());
        keys.extend(regions.iter().map(|region| region.remote().key));
    }
    keys
}

#[test]
fn keys_are_those_of_the_networks_seed() {
    let (seven, eight) = (keys(7), keys(8));
    assert_eq!(seven, keys(7), "the same seed is the same run");
    let all: HashSet<u64> = seven.iter().chain(&eight).map(|key| key.0).collect();
    assert_eq!(all.len(), 600, "each is drawn once, and another seed draws others");
}

/// Passes a test that a write with a key is accepted.
fn is_good(test: impl FnOnce(&dyn Fn(MemoryKey) -> bool, &Domain<'static, Soft<'static>>)) {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::<_, Box<[u8]>>::open(&domain, CqAttr::new(8)).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let me = av.insert(&endpoint.address().unwrap()).unwrap();
    let write = |key| {
        let region = RemoteRegion {
            base: loom_core::vocabulary::RemoteAddr(0),
            len: 8,
            key,
            access: Access::REMOTE_READ | Access::REMOTE_WRITE,
        };
        match endpoint.inject_write(me, &region, 0, &[1; 8]) {
            Ok(()) => true,
            Err(PostError::Errno(Errno::ENOKEY)) => false,
            Err(error) => panic!("{error:#}"),
        }
    };
    test(&write, &domain);
}

#[test]
fn keys_that_are_derived_from_a_valid_one_are_refused() {
    is_good(|is_good, domain| {
        let regions = [(); 64].map(|()| Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap());
        let keys: HashSet<u64> = regions.iter().map(|region| region.remote().key.0).collect();
        for key in &keys {
            assert!(is_good(MemoryKey(*key)));
            let bits = (0..64).map(|bit| key ^ 1 << bit);
            let counted = (0..64).flat_map(|bit| [key.wrapping_add(1 << bit), key.wrapping_sub(1 << bit)]);
            for other in bits.chain(counted).filter(|other| !keys.contains(other)) {
                assert!(!is_good(MemoryKey(other)), "{other:#x} beside {key:#x}");
            }
        }
        // The places, counted from zero, with few other bits.
        for guess in (0..1 << 12).chain((1..64).flat_map(|bit| (0..64).map(move |place| 1 << bit | place))) {
            assert!(!is_good(MemoryKey(guess)), "{guess:#x}");
        }
    });
}

#[test]
fn key_of_a_closed_region_stays_refused_while_others_are_in_its_place() {
    is_good(|is_good, domain| {
        let first = Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
        let closed = first.remote().key;
        drop(first);
        for _ in 0..1000 {
            assert!(!is_good(closed));
            let next = Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
            assert!(is_good(next.remote().key) && !is_good(closed));
        }
    });
}
