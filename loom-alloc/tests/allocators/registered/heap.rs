//! Boxes and vectors of registered memory.

use std::alloc::Layout;
use std::time::Duration;

use loom_alloc::Arena;
use loom_alloc::allocator_api2::alloc::{Allocator, Global};
use loom_alloc::allocator_api2::boxed::Box;
use loom_alloc::allocator_api2::vec::Vec;
use loom_alloc::registered::{HeapMemory, RegisteredHeap};
use loom_core::av::Av;
use loom_core::buffer::{Buffer, RegisteredAllocator};
use loom_core::cq::{Cq, CqAttr};
use loom_core::endpoint::Source;
use loom_core::error::{OpenError, PostError};
use loom_core::scope;
use loom_core::vocabulary::Tag;

use crate::registered::{domains, network};

const LAYOUT: Layout = Layout::new::<[u64; 4096]>();

#[test]
fn boxes_and_vectors_are_posted_without_registration() {
    let network = network();
    for domain in domains(&network) {
        let mut memory = HeapMemory::open_in(&domain, LAYOUT, Global).unwrap();
        let heap = RegisteredHeap::new(&mut memory, Arena::new);
        let av = Av::open(&domain, 2).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        scope(|s| {
            let cq = Cq::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
            let endpoint = cq.endpoint(&av).unwrap();
            let me = av.insert(&endpoint.address().unwrap()).unwrap();
            let mut room = Vec::new_in(&heap);
            room.resize(3000, 0);
            let mut message = Vec::new_in(&heap);
            message.extend((0..3000).map(|at| u8::try_from(at % 251).unwrap()));
            let sent = message.clone();
            let received = endpoint.recv(Source::Any, room).map_err(PostError::from).unwrap();
            endpoint.send(me, message).map_err(PostError::from).unwrap();
            let done = cq.wait(received, deadline).unwrap().unwrap();
            assert_eq!(done.result().unwrap().len, 3000);
            assert!(done.into_buf() == sent);
        });
        scope(|s| {
            let cq = Cq::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
            let endpoint = cq.endpoint(&av).unwrap();
            let me = av.insert(&endpoint.address().unwrap()).unwrap();
            let filled = |byte| {
                let mut vec = Vec::new_in(&heap);
                vec.resize(100, byte);
                let filled: Box<[u8], _> = vec.into_boxed_slice();
                filled
            };
            let received = endpoint.tagged_recv(Source::Any, Tag(1), filled(0)).map_err(PostError::from).unwrap();
            endpoint.tagged_send(me, Tag(1), filled(7)).map_err(PostError::from).unwrap();
            assert!(cq.wait(received, deadline).unwrap().unwrap().into_buf().iter().all(|byte| *byte == 7));
        });
        assert!(heap.inner().high_water() > 0, "the arena hands the memory out");
    }
}

#[test]
fn memory_outside_the_heap_has_no_descriptor() {
    let network = network();
    let [_, domain] = domains(&network);
    let mut memory = HeapMemory::open_in(&domain, LAYOUT, Global).unwrap();
    // Allocator that ignores the given memory.
    let heap = RegisteredHeap::new(&mut memory, |_| Global);
    let mut elsewhere = Vec::new_in(&heap);
    elsewhere.extend_from_slice(b"hello");
    assert_eq!(elsewhere.lend().descriptor, None);
    let av = Av::open(&domain, 2).unwrap();
    scope(|s| {
        let cq = Cq::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let me = av.insert(&endpoint.address().unwrap()).unwrap();
        let rejected = endpoint.send(me, elsewhere).unwrap_err();
        assert_eq!((rejected.error, &rejected.value[..]), (PostError::NotRegistered, &b"hello"[..]));
    });
}

#[test]
fn only_blocks_within_the_memory_have_a_descriptor() {
    let network = network();
    let [domain, _] = domains(&network);
    let mut memory = HeapMemory::open_in(&domain, LAYOUT, Global).unwrap();
    let heap = RegisteredHeap::new(&mut memory, Arena::new);
    let alloc = &heap;
    let block = alloc.allocate_zeroed(LAYOUT).unwrap();
    assert!(alloc.allocate(Layout::new::<u8>()).is_err(), "an error when it is full");
    assert_eq!(alloc.descriptor_of(block), Some(heap.descriptor()));
    let begin = block.cast::<u8>();
    let range = |from: isize, len| {
        let first = core::ptr::NonNull::new(begin.as_ptr().wrapping_offset(from)).unwrap();
        core::ptr::NonNull::slice_from_raw_parts(first, len)
    };
    for (from, len, inside) in [(0, 0, true), (0, 32768, true), (32768, 0, true), (-1, 8, false), (1, 32768, false)] {
        assert_eq!(alloc.descriptor_of(range(from, len)).is_some(), inside, "{len} bytes from {from} on");
    }
    assert_eq!(alloc.descriptor_of(range(1, usize::MAX)), None);
    // SAFETY: allocated above with this layout.
    unsafe { alloc.deallocate(begin, LAYOUT) };
    assert!(alloc.allocate(LAYOUT).is_ok());
}

#[test]
fn too_little_memory_is_an_error() {
    let network = network();
    let [domain, _] = domains(&network);
    let mut memory = [core::mem::MaybeUninit::uninit(); 100];
    let arena = Arena::new(&mut memory);
    assert_eq!(HeapMemory::open_in(&domain, LAYOUT, &arena).unwrap_err(), OpenError::OutOfMemory);
}
