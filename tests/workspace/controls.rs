//! Controls of the sanitizers: each plants the fault that a sanitizer must see. `.ci/run` runs them with `--ignored` under
//! the sanitizer, and fails if nothing is reported. They are not run otherwise.

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

/// For AddressSanitizer: memory is read after it was freed.
#[test]
#[ignore = "a planted use after free, for AddressSanitizer"]
fn plants_a_use_after_free() {
    let freed = Box::into_raw(Box::new([0u8; 64]));
    // SAFETY: made by `Box::into_raw`.
    drop(unsafe { Box::from_raw(freed) });
    // SAFETY: none. That is the point.
    black_box(unsafe { freed.cast::<u8>().read() });
}

/// For AddressSanitizer, which has to see loom's own copies: a buffer that lends memory which was freed is written to a
/// region of the software transport.
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

/// Lends memory that is not there any more.
struct Freed(*mut [u8; 64]);

// SAFETY: none. That is the point.
unsafe impl Buffer for Freed {
    fn lend(&mut self) -> Lent {
        Lent::source(NonNull::new(self.0.cast()).unwrap(), 64)
    }
}

impl SourceBuffer for Freed {}

struct Shared(UnsafeCell<u64>);
// SAFETY: none. That is the point.
unsafe impl Sync for Shared {}

/// For ThreadSanitizer: two threads write one word without any order.
#[test]
#[ignore = "a planted data race, for ThreadSanitizer"]
fn plants_a_data_race() {
    static WORD: Shared = Shared(UnsafeCell::new(0));
    // Relaxed: both are there, and nothing is ordered by it.
    static THERE: AtomicU32 = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                THERE.fetch_add(1, Ordering::Relaxed);
                while THERE.load(Ordering::Relaxed) < 2 {
                    std::thread::yield_now();
                }
                for round in 0..1_000_000 {
                    // SAFETY: none. That is the point.
                    unsafe { *black_box(WORD.0.get()) = round };
                    // On a busy machine one thread would be through before the other goes on.
                    if round % 1024 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
}
