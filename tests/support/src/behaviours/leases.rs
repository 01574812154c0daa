//! Leases of registered slabs, and memory of a registered heap.

use std::alloc::Layout;

use loom_alloc::Arena;
use loom_alloc::allocator_api2::vec::Vec as HeapVec;
use loom_alloc::registered::{ExposedSlab, HeapMemory, Lease, RegisteredHeap, Slab, SlabAttr};
use loom_core::av::Av;
use loom_core::completion::Transfer;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::mr::RemoteRegion;
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Tag};

use crate::behaviours::needs::{Behaviour, MSG, RMA, TAGGED_AND_RMA};
use crate::behaviours::pair::{OrCut, limit, pattern};
use crate::memory::allocator;
use crate::posting::post;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("leases_serve_every_operation", TAGGED_AND_RMA, leases_serve_every_operation),
        ("parts_of_a_lease_are_messages_of_their_own", MSG, parts_of_a_lease_are_messages_of_their_own),
        ("leases_are_given_back_with_their_queue", MSG, leases_are_given_back_with_their_queue),
        ("peers_reach_each_exposed_lease_at_its_place", RMA, peers_reach_each_exposed_lease_at_its_place),
        ("vectors_of_a_registered_heap_are_posted", MSG, vectors_of_a_registered_heap_are_posted),
    ]
}

const BOTH: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

fn finish<'s, T: Transport + 'static>(cq: &Cq<'_, T, Lease<'s>>, key: OpKey) -> (Lease<'s>, Transfer) {
    let done = cq.wait(key, limit()).or_cut("the queue works").expect("the operation ends in time");
    let (lease, result) = done.into_parts();
    (lease, result.or_cut("the operation succeeds"))
}

/// Returns a lease with these bytes.
fn filled<'s>(lease: Option<Lease<'s>>, bytes: &[u8]) -> Lease<'s> {
    let mut lease = lease.expect("one is left");
    lease.append(bytes).expect("there is room");
    lease
}

fn leases_serve_every_operation<T: Transport + 'static>(info: &Info<T>) {
    const LONG: usize = 1 << 20;
    let domain = Domain::open(info).expect("domain");
    let slab = Slab::open_in(&domain, SlabAttr::new(2, LONG).align(4096), allocator()).expect("slab");
    let exposed = ExposedSlab::open_in(&domain, SlabAttr::new(1, LONG), BOTH, allocator()).expect("exposed slab");
    let target = exposed.lease().expect("one is left");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    scope(|s| {
        let cq = &Cq::<T, Lease<'_>>::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let (a, b) = (cq.endpoint(&av).expect("a"), cq.endpoint(&av).expect("b"));
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        for (seed, len) in [1, 64, 5000, LONG].into_iter().enumerate() {
            let bytes = pattern(len, seed);
            for tagged in [false, true] {
                let into = slab.lease().expect("those of the last message are back");
                let received = post(cq, into, |into| {
                    if tagged { b.tagged_recv(Source::Any, Tag(4), into) } else { b.recv(Source::Any, into) }
                });
                let sent = post(cq, filled(slab.lease(), &bytes), |out| {
                    if tagged { a.tagged_send(to_b, Tag(4), out) } else { a.send(to_b, out) }
                });
                let (mut into, transfer) = finish(cq, received);
                into.set_len(transfer.len).expect("no more than there is room");
                assert!(into[..] == *bytes, "{len} bytes, tagged {tagged}");
                assert!(finish(cq, sent).0[..] == *bytes);
            }
            let written = post(cq, filled(slab.lease(), &bytes), |out| a.write(to_b, &target.remote(), 0, out));
            drop(finish(cq, written));
            // The completion of a write does not report that its bytes have arrived. A later read
            // finds them.
            let mut deadline = limit();
            loop {
                let mut into = slab.lease().expect("one is left");
                into.set_len(len).expect("there is room");
                into.fill(0xee);
                let read = post(cq, into, |into| a.read(to_b, &target.remote(), 0, into));
                if finish(cq, read).0[..] == *bytes {
                    break;
                }
                assert!(!deadline.passed(), "{len} bytes are written and read");
            }
        }
    });
}

fn parts_of_a_lease_are_messages_of_their_own<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let slab = Slab::open_in(&domain, SlabAttr::new(2, 64), allocator()).expect("slab");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    scope(|s| {
        let cq = &Cq::<T, Lease<'_>>::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let (a, b) = (cq.endpoint(&av).expect("a"), cq.endpoint(&av).expect("b"));
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        let bytes = pattern(64, 1);
        let (first, second) = filled(slab.lease(), &bytes).split(24).expect("two parts");
        let (into, rest) = slab.lease().expect("one is left").split(40).expect("two parts");
        for (into, out, range) in [(rest, first, 0..24), (into, second, 24..64)] {
            let received = post(cq, into, |into| b.recv(Source::Any, into));
            let sent = post(cq, out, |out| a.send(to_b, out));
            let (mut into, transfer) = finish(cq, received);
            into.set_len(transfer.len).expect("no more than there is room");
            assert_eq!(into[..], bytes[range]);
            drop((into, finish(cq, sent)));
        }
        let whole = [slab.lease(), slab.lease()].map(|lease| lease.expect("all parts are back").capacity());
        assert_eq!(whole, [64; 2]);
    });
}

fn leases_are_given_back_with_their_queue<T: Transport + 'static>(info: &Info<T>) {
    if !crate::behaviours::waiting::closes_with_receives(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let slab = Slab::open_in(&domain, SlabAttr::new(4, 100), allocator()).expect("slab");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    scope(|s| {
        let cq = &Cq::<T, Lease<'_>>::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        for lease in std::iter::from_fn(|| slab.lease()) {
            post(cq, lease, |lease| endpoint.recv(Source::Any, lease));
        }
    });
    assert_eq!(std::iter::from_fn(|| slab.lease()).map(std::mem::ManuallyDrop::new).count(), 4);
}

fn peers_reach_each_exposed_lease_at_its_place<T: Transport + 'static>(info: &Info<T>) {
    const LEN: usize = 40;
    let domain = Domain::open(info).expect("domain");
    let slab = ExposedSlab::open_in(&domain, SlabAttr::new(3, LEN), BOTH, allocator()).expect("slab");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    scope(|s| {
        let cq = &Cq::<T, Lease<'_>>::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let (a, b) = (cq.endpoint(&av).expect("a"), cq.endpoint(&av).expect("b"));
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        let mut targets: Vec<_> = std::iter::from_fn(|| slab.lease()).collect();
        // Another operation sends from one of them.
        let source = targets.pop().expect("three leases");
        // SAFETY: no peer has its address and key.
        let mut source = unsafe { source.into_lease() };
        let parts = targets.into_iter().map(|lease| lease.split(LEN / 2).expect("two parts"));
        let parts: Vec<_> = parts.flat_map(<[_; 2]>::from).collect();
        for (part, seed) in parts.iter().zip(0..) {
            let remote = RemoteRegion::from_bytes(&part.remote().to_bytes());
            source.clear();
            source.append(&pattern(LEN / 2, seed)).expect("there is room");
            let written = post(cq, source, |source| a.write(to_b, &remote, 0, source));
            (source, _) = finish(cq, written);
        }
        let mut deadline = limit();
        for (part, seed) in parts.iter().zip(0..) {
            let mut bytes = [0; LEN / 2];
            while bytes != *pattern(LEN / 2, seed) {
                assert!(!deadline.passed(), "part {seed} is written");
                cq.progress().or_cut("the queue works");
                part.window().copy_to(0, &mut bytes).expect("within the part");
            }
        }
        let exposed = source.expose().expect("its slab is one that peers reach");
        let beyond = exposed.remote();
        let local = exposed.split(1).expect("two parts").0;
        // SAFETY: no peer has its address and key.
        let rejected = a.write(to_b, &beyond, 40, unsafe { local.into_lease() }).expect_err("beyond the lease");
        assert_eq!(rejected.error, PostError::OutOfBounds);
    });
}

fn vectors_of_a_registered_heap_are_posted<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let mut memory = HeapMemory::open_in(&domain, Layout::new::<[u64; 512]>(), allocator()).expect("memory");
    let heap = RegisteredHeap::new(&mut memory, Arena::new);
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    scope(|s| {
        let cq = &Cq::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let (a, b) = (cq.endpoint(&av).expect("a"), cq.endpoint(&av).expect("b"));
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        let mut room = HeapVec::new_in(&heap);
        room.resize(1000, 0);
        let mut message = HeapVec::new_in(&heap);
        message.extend_from_slice(&pattern(1000, 3));
        let received = post(cq, room, |room| b.recv(Source::Any, room));
        let sent = post(cq, message, |message| a.send(to_b, message));
        for key in [received, sent] {
            let done = cq.wait(key, limit()).or_cut("the queue works").expect("the operation ends in time");
            let (bytes, result) = done.into_parts();
            result.or_cut("the operation succeeds");
            assert!(bytes[..] == *pattern(1000, 3));
        }
    });
}
