//! A slab that threads share.

use std::sync::mpsc;
use std::thread;

use loom_alloc::allocator_api2::alloc::Global;
use loom_alloc::registered::{SharedLease, SharedSlab, SlabAttr};
use loom_core::objects::domain::Domain;

use crate::network;

const ROUNDS: u32 = if cfg!(debug_assertions) { 3_000 } else { 30_000 };

/// A message that says who has written it, and nothing else.
fn sign(lease: &mut SharedLease<'_>, by: u8) {
    let len = lease.room();
    lease.prepare(len).unwrap().fill(by);
    lease.commit(len).unwrap();
}

fn is_signed(lease: &SharedLease<'_>, by: u8) -> bool {
    lease.iter().all(|byte| *byte == by)
}

#[test]
fn leases_go_from_thread_to_thread_in_parts() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let slab = SharedSlab::open_in(&domain, SlabAttr::new(4, 96), Global).unwrap();
    let slab = &slab;
    let count = thread::scope(|scope| {
        let (to_first, first) = mpsc::channel::<(u8, SharedLease<'_>)>();
        let (to_second, second) = mpsc::channel::<(u8, SharedLease<'_>)>();
        let takers: [_; 3] = core::array::from_fn(|number| {
            let (to_first, to_second) = (to_first.clone(), to_second.clone());
            scope.spawn(move || {
                let mut taken = 0_u32;
                for round in 0..ROUNDS {
                    let by = u8::try_from(round % 80).unwrap() + 80 * u8::try_from(number).unwrap();
                    let Some(mut lease) = slab.lease() else {
                        thread::yield_now();
                        continue;
                    };
                    assert_eq!(lease.capacity(), 96);
                    sign(&mut lease, by);
                    taken += 1;
                    let (mut one, two) = lease.split(32).unwrap();
                    let (two, three) = two.split(32).unwrap();
                    assert!(is_signed(&two, by) && is_signed(&three, by));
                    to_first.send((by, two)).unwrap();
                    to_second.send((by, three)).unwrap();
                    one.data_mut().reverse();
                    assert!(is_signed(&one, by), "nobody else writes to it");
                }
                taken
            })
        });
        drop((to_first, to_second));
        // All threads are joined by name: how a scope waits for others, ThreadSanitizer does not see.
        let receivers = [first, second].map(|receiver| {
            scope.spawn(move || {
                for (by, mut part) in receiver {
                    assert!(is_signed(&part, by));
                    // Somebody else's, if a buffer came back before its last part.
                    part.data_mut().fill(by);
                    thread::yield_now();
                    assert!(is_signed(&part, by));
                }
            })
        });
        let count = takers.into_iter().map(|taker| taker.join().unwrap()).sum::<u32>();
        receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
        count
    });
    assert!(count > 100, "{count} leases: the test tests nothing");
    let all: Vec<_> = std::iter::from_fn(|| slab.lease()).collect();
    assert_eq!(all.len(), 4, "all parts of all buffers have come back");
}
