//! User code in destructors: of memory, and of the allocators of objects that end with a region or
//! an endpoint. It does not run under the lock of the domain, which another thread requires to open
//! an endpoint.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use loom_core::Error;
use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};
use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Binding;
use loom_core::error::Rejected;
use loom_core::mr::{Mr, MrAttr};
use loom_core::vocabulary::Counted;

use super::world::{Memory, Watched, World};
use super::{PEER_ACCESS, for_ever, queue};

/// Time limit of another thread to open an endpoint without the lock.
const WITHOUT_LOCK: Duration = Duration::from_secs(10);

/// A domain, and its number of runs of user code.
#[derive(Clone, Copy)]
struct Scene {
    world: &'static World,
    domain: &'static Domain<'static, Watched>,
    av: &'static Av<'static, Watched>,
    runs: &'static AtomicUsize,
}

impl Scene {
    fn of(world: &'static World) -> Self {
        let (domain, av) = for_ever(world);
        Scene { world, domain, av, runs: Box::leak(Box::default()) }
    }

    /// User code: another thread opens and closes an endpoint before this one continues.
    fn user_code(self) {
        let (opened, is_opened) = mpsc::channel();
        thread::spawn(move || {
            let queue = queue(self.domain);
            drop(queue.endpoint(self.av).unwrap());
            // Dropped before the other thread continues, because the thread that closes an object
            // after the last endpoint drops the kept regions.
            drop(queue);
            let _ = opened.send(());
        });
        if is_opened.recv_timeout(WITHOUT_LOCK).is_err() {
            self.world.wrong("user code runs under the lock");
        }
        self.runs.fetch_add(1, Ordering::SeqCst);
    }

    fn memory(self) -> Memory {
        Memory::that_drops(self.world, move || self.user_code())
    }

    fn counter(self) -> Counter<'static, Watched> {
        Counter::open_in(self.domain, CounterAttr::default(), Alloc(self)).unwrap()
    }

    /// A region with three destructors of the user, if its counter has no other handle left: of its
    /// memory, of its own allocator, and of its counter's.
    fn region(self) -> Mr<'static, Watched, Memory> {
        let counter = self.counter();
        Mr::open_in(self.domain, self.memory(), MrAttr::new(PEER_ACCESS).counter(&counter), Alloc(self)).unwrap()
    }

    /// Checks that user code has run this number of times since the last check, and not under the
    /// lock.
    fn expect(self, runs: usize) {
        assert_eq!((self.world.wrongs(), self.runs.swap(0, Ordering::SeqCst)), (vec![], runs));
    }
}

/// The global allocator, with a destructor.
struct Alloc(Scene);

impl Drop for Alloc {
    fn drop(&mut self) {
        self.0.user_code();
    }
}

// SAFETY: forwards.
unsafe impl Allocator for Alloc {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { Global.deallocate(ptr, layout) };
    }
}

#[test]
fn a_region_that_is_dropped_or_closed_runs_user_code_without_the_lock() {
    for world in [World::strict(), World::lenient()] {
        let scene = Scene::of(world);
        drop(scene.region());
        scene.expect(3);
        let memory = scene.region().close().unwrap();
        scene.expect(2);
        drop(memory);
        scene.expect(1);
    }
}

#[test]
fn a_region_that_is_kept_runs_user_code_without_the_lock() {
    for world in [World::strict(), World::lenient()] {
        let scene = Scene::of(world);
        let queue = queue(scene.domain);
        let endpoint = queue.endpoint(scene.av).unwrap();
        drop(scene.region());
        scene.expect(0);
        drop(endpoint);
        scene.expect(3);
    }
}

#[test]
fn a_region_that_fails_to_close_runs_user_code_without_the_lock() {
    for world in [World::strict(), World::lenient()] {
        let scene = Scene::of(world);
        let [dropped, closed] = [(); 2].map(|()| scene.region());
        world.fail_to_close();
        // The region is leaked, with its counter.
        drop(dropped);
        scene.expect(0);
        assert!(matches!(closed.close(), Err(Rejected { value: None, error: Error::Provider(_) })));
        scene.expect(0);
    }
}

#[test]
fn an_endpoint_that_is_closed_runs_user_code_without_the_lock() {
    let scene = Scene::of(World::strict());
    let cq = queue(scene.domain);
    let counter = scene.counter();
    let endpoint = cq.endpoint(Binding::to(scene.av).counter(Counted::SEND, &counter)).unwrap();
    drop(counter);
    drop(endpoint);
    scene.expect(1);
}
