//! Controls of the sanitizers: each plants the fault that a sanitizer must find. `.ci/run` runs
//! them with `--ignored` under the sanitizer, and fails without a report. No other run includes
//! them.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent, SourceBuffer};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::mr::Mr;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Access;

/// Reads freed memory, for AddressSanitizer.
#[test]
#[ignore = "a planted use after free, for AddressSanitizer"]
fn plants_a_use_after_free() {
    let freed = Box::into_raw(Box::new([0u8; 64]));
    // SAFETY: made by `Box::into_raw`.
    drop(unsafe { Box::from_raw(freed) });
    // SAFETY: violated on purpose.
    black_box(unsafe { freed.cast::<u8>().read() });
}

/// Writes a buffer of freed memory to a region of the software transport, for AddressSanitizer,
/// which has to check loom's own copies.
#[test]
#[ignore = "a planted use after free, for AddressSanitizer"]
fn plants_a_write_from_freed_memory() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE).unwrap();
    let cq = Cq::open(&domain, CqAttr::new(4)).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let itself = av.insert(&endpoint.address().unwrap()).unwrap();
    let freed = Freed(Box::into_raw(Box::new([0u8; 64])));
    // SAFETY: made by `Box::into_raw`.
    drop(unsafe { Box::from_raw(freed.0) });
    endpoint.write(itself, &region.remote(), 0, freed).unwrap();
}

/// A buffer that lends freed memory.
struct Freed(*mut [u8; 64]);

// SAFETY: violated on purpose.
unsafe impl Buffer for Freed {
    fn lend(&mut self) -> Lent {
        Lent::source(NonNull::new(self.0.cast()).unwrap(), 64)
    }
}

impl SourceBuffer for Freed {}

struct Shared(UnsafeCell<u64>);
// SAFETY: violated on purpose.
unsafe impl Sync for Shared {}

/// Writes one word from two threads without any order, for ThreadSanitizer.
#[test]
#[ignore = "a planted data race, for ThreadSanitizer"]
fn plants_a_data_race() {
    static WORD: Shared = Shared(UnsafeCell::new(0));
    // Relaxed: it only reports that both threads run, and orders no access.
    static THERE: AtomicU32 = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                THERE.fetch_add(1, Ordering::Relaxed);
                while THERE.load(Ordering::Relaxed) < 2 {
                    std::thread::yield_now();
                }
                for round in 0..1_000_000 {
                    // SAFETY: violated on purpose.
                    unsafe { *black_box(WORD.0.get()) = round };
                    // On a busy machine one thread would end before the other continues.
                    if round % 1024 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
}
