//! Slab that threads share.

use std::sync::mpsc;
use std::thread;

use loom_alloc::allocator_api2::alloc::Global;
use loom_alloc::registered::{SharedLease, SharedSlab, SlabAttr};
use loom_core::domain::Domain;

use crate::registered::network;

/// Number of leases that each thread takes.
const EACH: u32 = if cfg!(debug_assertions) { 1_000 } else { 10_000 };

/// Writes a message that consists of the writer's number.
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
    thread::scope(|scope| {
        let (to_first, first) = mpsc::channel::<(u8, SharedLease<'_>)>();
        let (to_second, second) = mpsc::channel::<(u8, SharedLease<'_>)>();
        let takers = [0, 1, 2].map(|number| {
            let (to_first, to_second) = (to_first.clone(), to_second.clone());
            scope.spawn(move || {
                for round in 0..EACH {
                    let by = u8::try_from(round % 80).unwrap() + 80 * number;
                    let mut lease = loop {
                        if let Some(lease) = slab.lease() {
                            break lease;
                        }
                        thread::yield_now();
                    };
                    assert_eq!(lease.capacity(), 96);
                    sign(&mut lease, by);
                    let (mut one, two) = lease.split(32).unwrap();
                    let (two, three) = two.split(32).unwrap();
                    assert!(is_signed(&two, by) && is_signed(&three, by));
                    to_first.send((by, two)).unwrap();
                    to_second.send((by, three)).unwrap();
                    one.data_mut().reverse();
                    assert!(is_signed(&one, by), "nobody else writes to it");
                }
            })
        });
        drop((to_first, to_second));
        let receivers = [first, second].map(|receiver| {
            scope.spawn(move || {
                for (by, mut part) in receiver {
                    assert!(is_signed(&part, by));
                    // Another owner's, if a buffer returned before its last part.
                    part.data_mut().fill(by);
                    thread::yield_now();
                    assert!(is_signed(&part, by));
                }
            })
        });
        // All threads are joined explicitly, because ThreadSanitizer does not see the wait of a
        // scope.
        for thread in takers.into_iter().chain(receivers) {
            thread.join().unwrap();
        }
    });
    let all: Vec<_> = std::iter::from_fn(|| slab.lease()).collect();
    assert_eq!(all.len(), 4, "all parts of all buffers have come back");
}
