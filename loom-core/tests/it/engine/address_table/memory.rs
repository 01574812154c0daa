//! Memory of the address table. It takes one block from its own allocator, and an open table
//! allocates no memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
use std::ptr::NonNull;

use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};
use loom_core::engine::address_table::{AddressSet, AddressTableAttr, AddressTableMemory, Inserted, SymmetricRange};
use loom_core::vocabulary::{AddressFormat, EndpointAddr};

thread_local! {
    static GLOBAL: Cell<usize> = const { Cell::new(0) };
}

/// Counter of allocations, by thread.
struct Counted;

// SAFETY: forwards to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = GLOBAL.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

/// Log of an allocator's blocks.
#[derive(Default)]
struct Seen {
    bytes: Cell<usize>,
    blocks: Cell<usize>,
}

// SAFETY: forwards to the global allocator.
unsafe impl Allocator for &Seen {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.bytes.set(self.bytes.get() + layout.size());
        self.blocks.set(self.blocks.get() + 1);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        self.bytes.set(self.bytes.get() - layout.size());
        // SAFETY: the caller's promise.
        unsafe { Global.deallocate(ptr, layout) }
    }
}

#[test]
fn million_ipv4_peers_take_30_bytes_each() {
    const NUMBERS: u32 = 1_000_000;
    const PEERS: usize = NUMBERS as usize;
    let seen = Seen::default();
    let mut memory = AddressTableMemory::new_in(AddressTableAttr::new(PEERS), &seen).unwrap();
    let mut table = memory.table();
    let socket = |number: u32| SocketAddr::from((number.to_be_bytes(), 1 + u16::try_from(number % 60_000).unwrap()));
    for number in 0..NUMBERS {
        assert!(matches!(table.insert(socket(number)).unwrap(), Inserted::New(_)));
    }
    assert_eq!((table.len(), table.free_bytes()), (PEERS, AddressTableAttr::new(PEERS).bytes));
    for number in (0..NUMBERS).step_by(997) {
        let peer = table.find(socket(number)).unwrap();
        assert_eq!((peer.index(), table.socket(peer)), (number as usize, Some(socket(number))));
    }
    let each = seen.bytes.get() as f64 / PEERS as f64;
    println!("{each:.3} bytes each, in {} block", seen.blocks.get());
    assert!(each < 30.2 && seen.blocks.get() == 1, "{each} bytes, {} blocks", seen.blocks.get());
    drop(memory);
    assert_eq!(seen.bytes.get(), 0);
}

#[test]
fn members_of_a_range_take_eight_bytes_each() {
    const PEERS: usize = 1_000_000;
    let seen = Seen::default();
    let attr = AddressTableAttr { singles: 100, ..AddressTableAttr::new(PEERS) };
    let mut memory = AddressTableMemory::new_in(attr, &seen).unwrap();
    let mut table = memory.table();
    let range = SymmetricRange::new("10.0.0.1:5000".parse().unwrap(), 15_625, 64).unwrap();
    assert_eq!((table.insert_symmetric(range, |_| {}), table.ranges()), (Ok(PEERS), 1));
    let each = seen.bytes.get() as f64 / PEERS as f64;
    assert!(each < 8.2, "{each} bytes");
}

#[test]
fn open_table_allocates_no_memory() {
    let attr = AddressTableAttr { bytes: 4096, ..AddressTableAttr::new(64) };
    let mut memory = AddressTableMemory::new_in(attr, Global).unwrap();
    let mut sets = [(); 2].map(|()| AddressSet::new_in(64, 64, Global).unwrap());
    let raw = EndpointAddr::new(AddressFormat::ADDR_EFA, &[7; 32]).unwrap();
    let range = SymmetricRange::new("[fe80::1]:5000".parse().unwrap(), 4, 4).unwrap();
    let before = GLOBAL.get();
    let mut table = memory.table();
    for _ in 0..100 {
        let mut peers = [None; 40];
        for (port, place) in (1..20).zip(&mut peers) {
            *place = table.insert(SocketAddr::from(([10, 0, 0, 1], port))).ok();
        }
        let mut rest = peers.iter_mut().skip(20);
        table.insert_symmetric(range, |result| *rest.next().unwrap() = result.ok()).unwrap();
        *rest.next().unwrap() = table.insert(&raw).ok();
        for peer in peers.iter().flatten() {
            let peer = peer.peer();
            assert_eq!(table.find(&table.address(peer).unwrap()), Some(peer));
            sets[peer.index() % 2].insert(peer).unwrap();
        }
        let [a, b] = &mut sets;
        a.union(b).unwrap();
        a.difference(b);
        b.intersect(a);
        for peer in peers.iter().flatten() {
            assert!(table.remove(peer.peer()).is_some());
            a.remove(peer.peer());
        }
    }
    assert_eq!(GLOBAL.get() - before, 0);
    // Control: an allocation is counted.
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(GLOBAL.get() - before, 1);
}
