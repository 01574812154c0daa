//! Models of regions.

use core::ptr::NonNull;

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::Plain;
use crate::soft::network::region::{Exposed, Region};
use crate::util::sync::{AtomicU64, Ordering, spin_loop};
use crate::vocabulary::Access;

fn exposed() -> Exposed {
    let (ptr, endpoint) = (NonNull::dangling(), AtomicU64::new(u64::MAX));
    Exposed { ptr, len: 8, access: Access::REMOTE_WRITE, domain: 1, reached_in: 1, endpoint }
}

#[test]
fn no_user_is_in_a_region_after_it_closed() {
    loom::model(|| {
        let region = Region::new();
        let key = region.open(0, 1, exposed());
        let shared = Arc::new((region, Plain::new(0)));
        let users = [(); 2].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (region, memory) = &*shared;
                let inside = region.enter(key);
                if let Ok(guard) = &inside {
                    assert!(guard.remote_range(0, 8, Access::REMOTE_WRITE, 1, 0).is_ok());
                    let _ = memory.read();
                }
                inside.is_ok()
            })
        });
        let (region, memory) = &*shared;
        region.close();
        memory.write(1);
        for user in users {
            user.join().unwrap();
        }
        assert!(region.enter(key).is_err());
    });
}

#[test]
fn a_key_never_opens_the_next_region_in_its_place() {
    loom::model(|| {
        let region = Region::new();
        let old = region.open(3, 1, exposed());
        let shared = Arc::new(region);
        let user = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut inside = 0;
                for _ in 0..2 {
                    if let Ok(guard) = shared.enter(old) {
                        assert!(guard.remote_range(0, 8, Access::REMOTE_WRITE, 1, 0).is_ok(), "what the key was for");
                        inside += 1;
                    }
                }
                inside
            })
        };
        shared.close();
        let new = shared.open(3, 2, Exposed { domain: 2, ..exposed() });
        assert_ne!(old, new);
        assert_eq!((Region::index(old), Region::index(new)), (3, 3));
        user.join().unwrap();
        assert!(shared.enter(old).is_err());
        assert!(shared.enter(new).is_ok());
        shared.close();
    });
}

#[test]
fn a_region_is_opened_by_another_thread_than_closed_it() {
    loom::model(|| {
        let region = Region::new();
        let key = region.open(0, 1, exposed());
        let shared = Arc::new((region, Plain::new(0), Mutex::new(())));
        let user = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (region, description, _) = &*shared;
                if let Ok(_guard) = region.enter(key) {
                    let _ = description.read();
                }
            })
        };
        let closer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (region, _, opening) = &*shared;
                region.close();
                let _opening = opening.lock().unwrap();
                region.taken.set(false);
            })
        };
        let (region, description, opening) = &*shared;
        let opening = opening.lock().unwrap();
        if !region.taken.get() {
            description.write(1);
            let _ = region.open(0, 2, exposed());
        }
        drop(opening);
        user.join().unwrap();
        closer.join().unwrap();
    });
}

/// A peer guesses the key of a region. It must see the exposed memory, which was written before,
/// without any other order: the peer's thread is older than the region.
#[test]
fn a_guessed_key_opens_previously_exposed_memory() {
    loom::model(|| {
        let shared = Arc::new((Region::new(), Plain::new(0)));
        let guessed = Region::new().open(0, 1, exposed());
        let user = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (region, description) = &*shared;
                if let Ok(guard) = region.enter(guessed) {
                    assert_eq!(description.read(), 1);
                    assert!(guard.remote_range(0, 8, Access::REMOTE_WRITE, 1, 0).is_ok());
                }
            })
        };
        let (region, description) = &*shared;
        description.write(1);
        assert_eq!(region.open(0, 1, exposed()), guessed);
        user.join().unwrap();
    });
}

#[test]
#[should_panic]
fn control_region_that_counts_too_late() {
    const OPEN: u64 = 1 << 31;
    loom::model(|| {
        let shared = Arc::new((AtomicU64::new(OPEN), Plain::new(0)));
        let user = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (state, memory) = &*shared;
                if state.load(Ordering::Acquire) & OPEN != 0 {
                    state.fetch_add(1, Ordering::Acquire);
                    let _ = memory.read();
                    state.fetch_sub(1, Ordering::Release);
                }
            })
        };
        let (state, memory) = &*shared;
        state.fetch_and(!OPEN, Ordering::Relaxed);
        while state.load(Ordering::Acquire) != 0 {
            spin_loop();
        }
        memory.write(1);
        user.join().unwrap();
    });
}
