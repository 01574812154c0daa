//! User code at the end of an object. Allocators are dropped with the last handle: they hold
//! handles themselves, open endpoints, and panic.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};
use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::error::OpenError;
use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Access, Counted};

/// The global allocator, with a value to drop.
struct With<V>(V);

// SAFETY: forwards.
unsafe impl<V> Allocator for With<V> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { Global.deallocate(ptr, layout) };
    }
}

fn network() -> Network<'static> {
    Network::new(NetworkAttr::default()).unwrap()
}

/// Function that runs at the drop.
struct OnDrop(fn());

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_region_that_the_allocator_of_its_domain_holds_is_not_used_after_its_scope() {
    let network = network();
    scope(|s| {
        let slot = Arc::new(Mutex::new(None));
        let counts = OnDrop(|| DROPS.set(DROPS.get() + 1));
        let domain = s.open_in(&network.info(), With((slot.clone(), counts))).unwrap();
        *slot.lock().unwrap() = Some(Mr::open(&domain, vec![0_u8; 64], Access::REMOTE_WRITE).unwrap());
    });
    assert_eq!(DROPS.get(), 0, "the allocator is leaked, with the region that it holds");
    // The region is closed and its place is free.
    let domain = Domain::open(&network.info()).unwrap();
    let open = || Mr::open(&domain, vec![0_u8; 8], Access::REMOTE_WRITE);
    let all: Vec<_> = (0..network.attr().regions).map(|_| open().unwrap()).collect();
    assert_eq!(open().map(drop).unwrap_err(), OpenError::Limit("NetworkAttr::regions"));
    drop(all);
}

#[test]
fn a_queue_that_the_allocator_of_its_domain_holds_is_closed_once() {
    let network = network();
    scope(|s| {
        let slot = Arc::new(Mutex::new(None));
        let domain = s.open_in(&network.info(), With(slot.clone())).unwrap();
        let av = Av::open(&domain, 1).unwrap();
        let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(4)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        endpoint.recv(Source::Any, vec![0; 8]).unwrap();
        *slot.lock().unwrap() = Some(cq.park([endpoint]).unwrap());
    });
    // Its endpoint is closed, and all ports of the network are free.
    let domain = Domain::open(&network.info()).unwrap();
    let (av, cq) = (Av::open(&domain, 1).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
    let all: Vec<_> = (0..network.attr().endpoints).map(|_| cq.endpoint(&av).unwrap()).collect();
    assert_eq!(cq.endpoint(&av).map(drop).unwrap_err(), OpenError::Limit("NetworkAttr::endpoints"));
    drop(all);
}

type Parts = (Cq<'static, Soft<'static>, Vec<u8>>, Av<'static, Soft<'static>>);

thread_local! {
    static PARTS: RefCell<Option<Parts>> = const { RefCell::new(None) };
    static OPENED: RefCell<Option<Endpoint<'static, Soft<'static>, Vec<u8>>>> = const { RefCell::new(None) };
    static DROPS: Cell<u32> = const { Cell::new(0) };
}

/// The closing endpoint's bond is the last handle of the counter.
#[test]
fn an_endpoint_that_is_opened_in_the_place_of_a_closing_one_keeps_its_receives() {
    let domain = Domain::open(&network().info()).unwrap();
    let (av, cq) = (Av::open(&domain, 4).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 16).unwrap());
    let opens = OnDrop(|| {
        if let Some((cq, av)) = PARTS.take() {
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, vec![0; 64]).unwrap();
            OPENED.set(Some(endpoint));
        }
    });
    let counter = Counter::open_in(&domain, CounterAttr::default(), With(opens)).unwrap();
    let old = cq.endpoint(Binding::to(&av).counter(Counted::SEND, &counter)).unwrap();
    let alice = cq.endpoint(&av).unwrap();
    drop(counter);
    PARTS.set(Some((cq.clone(), av.clone())));
    drop(old);
    let bob = OPENED.take().unwrap();
    assert!(cq.poll().unwrap().is_none(), "its receive is in flight");
    alice.inject(av.insert(&bob.address().unwrap()).unwrap(), &[7; 64]).unwrap();
    let Some(loom_core::completion::Completion::Op(done)) = cq.poll().unwrap() else { panic!("it arrives") };
    assert_eq!(done.into_buf(), [7; 64]);
}

#[test]
fn an_allocator_that_would_panic_does_not_keep_a_scope_from_closing_its_endpoints() {
    let domain = Domain::open(&network().info()).unwrap();
    let (av, cq) = (Av::open(&domain, 4).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 16).unwrap());
    let peer = cq.endpoint(&av).unwrap();
    let to = av.insert(&peer.address().unwrap()).unwrap();
    let buf = vec![1; 100_000];
    scope(|s| {
        let domain = s.domain(&domain);
        let cq = Cq::<_, &[u8]>::open(&domain, 16).unwrap();
        let panics = With(OnDrop(|| panic!("an allocator's drop")));
        let counter = Counter::open_in(&domain, CounterAttr::default(), panics).unwrap();
        let first = cq.endpoint(Binding::to(&av).counter(Counted::SEND, &counter)).unwrap();
        let second = cq.endpoint(&av).unwrap();
        second.send(to, &buf[..]).unwrap();
        drop(counter);
        forget((cq, first, second));
    });
    drop(buf);
    let received = peer.recv(Source::Any, vec![0; 100_000]).unwrap();
    assert!(cq.wait(received, Spins(1000)).unwrap().is_none(), "nobody sends what is not lent any more");
}

#[test]
fn an_allocator_that_panics_unwinds_when_everything_is_closed() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let (av, cq) = (Av::open(&domain, 4).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 16).unwrap());
    let panics = With(OnDrop(|| panic!("an allocator's drop")));
    let counts = With(OnDrop(|| DROPS.set(DROPS.get() + 1)));
    let counter = Counter::open_in(&domain, CounterAttr::default(), panics).unwrap();
    let other = Counter::open_in(&domain, CounterAttr::default(), counts).unwrap();
    let first = cq.endpoint(Binding::to(&av).counter(Counted::SEND, &counter)).unwrap();
    let second = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &other)).unwrap();
    let peer = cq.endpoint(&av).unwrap();
    second.recv(Source::Any, vec![0; 8]).unwrap();
    drop((counter, other));
    let unwound = catch_unwind(AssertUnwindSafe(|| drop(first)));
    assert_eq!(*unwound.unwrap_err().downcast::<&str>().unwrap(), "an allocator's drop");
    // All other operations continue, and end.
    let to = av.insert(&second.address().unwrap()).unwrap();
    peer.inject(to, &[3; 8]).unwrap();
    let Some(loom_core::completion::Completion::Op(done)) = cq.poll().unwrap() else { panic!("it arrives") };
    assert_eq!(done.into_buf(), [3; 8]);
    drop((second, peer));
    assert_eq!(DROPS.get(), 1);
    let all: Vec<_> = (0..network.attr().endpoints).map(|_| cq.endpoint(&av).unwrap()).collect();
    assert_eq!(all.len(), usize::from(network.attr().endpoints), "every place is free");
}
