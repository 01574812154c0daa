//! One test for each rule of slabs and leases.

use std::cell::Cell;
use std::mem;

use loom_alloc::allocator_api2::alloc::Global;
use loom_alloc::registered::{HeapMemory, SharedSlab, Slab, SlabAttr};
use loom_alloc::testing::fail_at_each;
use loom_alloc::{Arena, Budget};
use loom_core::RangeError;
use loom_core::buffer::{Buffer, Lent};
use loom_core::domain::Domain;
use loom_core::error::OpenError;
use loom_core::registered::Registered;
use loom_core::vocabulary::HmemIface;

use crate::registered::network;

#[test]
fn a_lease_is_filled_and_read_piece_by_piece() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let slab = Slab::open_in(&domain, SlabAttr::new(1, 10), Global).unwrap();
    let mut lease = slab.lease().unwrap();
    assert_eq!((lease.capacity(), lease.room(), lease.len()), (10, 10, 0));
    assert_eq!(lease.prepare(11).unwrap_err(), RangeError::OutOfWindow);
    lease.prepare(4).unwrap().copy_from_slice(b"abcd");
    assert_eq!(lease.len(), 0, "what is prepared is no data yet");
    lease.commit(3).unwrap();
    assert_eq!((&lease[..], lease.room()), (&b"abc"[..], 7));
    lease.append(b"ef").unwrap();
    assert_eq!(lease.append(&[0; 6]).unwrap_err(), RangeError::OutOfWindow);
    assert_eq!(lease.commit(6).unwrap_err(), RangeError::OutOfWindow);
    lease[0] = b'A';
    lease.consume(1).unwrap();
    assert_eq!((&lease[..], lease.room()), (&b"bcef"[..], 5), "consumed bytes are no room");
    assert_eq!(lease.consume(5).unwrap_err(), RangeError::OutOfWindow);
    assert_eq!(lease.set_len(10).unwrap_err(), RangeError::OutOfWindow, "one byte is consumed");
    lease.set_len(2).unwrap();
    assert_eq!(lease.data_mut(), b"bc");
    lease.consume(2).unwrap();
    assert_eq!((lease.len(), lease.room()), (0, 10), "without data, all is room");
    lease.append(b"again").unwrap();
    lease.clear();
    assert_eq!((lease.len(), lease.room()), (0, 10));
    lease.set_len(10).unwrap();
    assert_eq!(lease.data(), b"again\0\0\0\0\0", "what was in the room is in the data");
}

#[test]
fn a_lease_posts_its_data_or_else_its_room() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let slab = Slab::open_in(&domain, SlabAttr::new(1, 64), Global).unwrap();
    let mut lease = slab.lease().unwrap();
    let room = lease.lend();
    assert!(room.writable && !room.readable, "old bytes are nobody's message");
    assert_eq!((room.len, room.descriptor), (64, Some(slab.descriptor())));
    lease.append(b"hello").unwrap();
    lease.consume(2).unwrap();
    let data = lease.lend();
    assert!(data.writable && data.readable);
    assert_eq!((data.ptr.addr().get() - room.ptr.addr().get(), data.len), (2, 3));
    assert_eq!(data.descriptor, room.descriptor);
}

#[test]
fn buffers_are_aligned_and_do_not_overlap() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    for (count, size, align) in [(1, 1, 1), (7, 100, 64), (3, 4096, 4096), (5, 63, 1), (2, 65, 64)] {
        let attr = SlabAttr::new(count, size).align(align);
        let slab = Slab::open_in(&domain, attr, Global).unwrap();
        assert_eq!((slab.count(), slab.size()), (count, size));
        let mut leases: Vec<_> = std::iter::from_fn(|| slab.lease()).collect();
        assert_eq!(leases.len(), count);
        let mut begins: Vec<_> = leases.iter_mut().map(|lease| lease.lend().ptr.addr().get()).collect();
        begins.sort_unstable();
        assert!(begins.iter().all(|begin| begin % align == 0), "{attr:?}");
        assert!(begins.windows(2).all(|pair| pair[0] + size <= pair[1]), "{attr:?}");
        assert!(leases.iter_mut().all(|lease| lease.prepare(size).unwrap().iter().all(|byte| *byte == 0)));
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let too_long = usize::try_from(1_u64 << 32).unwrap();
    for attr in [
        SlabAttr::new(0, 1),
        SlabAttr::new(1, 0),
        SlabAttr::new(1, too_long),
        SlabAttr::new(too_long, 1),
        SlabAttr::new(1, 1).align(3),
        SlabAttr::new(1, 1).align(0),
        SlabAttr::new(1 << 31, (1 << 31) + 1).align(1 << 31),
        SlabAttr::new(1, 1).align(1 << 63),
    ] {
        assert_eq!(attr.memory().map(|_| ()).unwrap_err(), OpenError::Size, "{attr:?}");
        assert_eq!(Slab::open_in(&domain, attr, Global).unwrap_err(), OpenError::Size);
    }
    let mut memory = [mem::MaybeUninit::uninit(); 1000];
    let arena = Arena::new(&mut memory);
    assert_eq!(Slab::open_in(&domain, SlabAttr::new(10, 100), &arena).unwrap_err(), OpenError::OutOfMemory);
    // Room for the buffers, without room for the table.
    assert_eq!(Slab::open_in(&domain, SlabAttr::new(14, 1).align(64), &arena).unwrap_err(), OpenError::OutOfMemory);
    assert!(arena.used() < 64, "what was taken is given back, but for what aligned it");
    assert!(arena.high_water() > 800);
}

/// Bytes that count their drops, and may claim another kind of memory, or to be read-only.
struct Told<'a>(Box<[u8]>, &'a Cell<u32>, HmemIface, bool);

// SAFETY: the bytes stay where they are.
unsafe impl Buffer for Told<'_> {
    fn lend(&mut self) -> Lent {
        let lent = self.0.lend();
        let lent = if self.3 { lent } else { Lent::source(lent.ptr, lent.len) };
        Lent { kind: self.2, ..lent }
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.1.set(self.1.get() + 1);
    }
}

#[test]
fn memory_of_the_caller_is_cut_up_and_given_back() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let drops = Cell::new(0);
    let told = |len| Registered::new(&domain, Told(vec![7; len].into(), &drops, HmemIface::SYSTEM, true)).unwrap();
    let attr = SlabAttr::new(3, 100).align(1);
    // The required length, and one byte less.
    let refused = Slab::over(told(299), attr, Global).unwrap_err();
    assert_eq!((refused.error, refused.value.0.len(), drops.get()), (OpenError::Size, 299, 0));
    drop(refused);
    assert_eq!(drops.replace(0), 1);
    let slab = Slab::over(told(300), attr, Global).unwrap();
    let mut leases = [slab.lease().unwrap(), slab.lease().unwrap(), slab.lease().unwrap()];
    for lease in &mut leases {
        assert!(lease.prepare(100).unwrap().iter().all(|byte| *byte == 7));
        lease.append(b"left").unwrap();
    }
    mem::forget(leases);
    assert!(slab.lease().is_none(), "what is forgotten is lost");
    let memory = slab.into_memory();
    assert_eq!((drops.get(), &memory.0[..4], &memory.0[200..204]), (0, &b"left"[..], &b"left"[..]));
    drop(Slab::over(memory, attr, Global).unwrap());
    assert_eq!(drops.get(), 1);
}

#[test]
fn memory_at_any_address_loses_its_alignment_padding() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let mut memory = vec![0_u8; 4 * 64 + 63];
    for begin in 0..64 {
        for end in [begin + 3 * 64 + 10, begin + 4 * 64 - 1] {
            let part = &mut memory[begin..end];
            let (address, len) = (part.as_ptr().addr(), part.len());
            let fits = address.next_multiple_of(64) - address + 2 * 64 + 60 <= len;
            let slab = Slab::over(Registered::new(&domain, part).unwrap(), SlabAttr::new(3, 60), Global);
            assert_eq!(slab.is_ok(), fits, "{len} bytes at {address:x}");
            let Ok(slab) = slab else { continue };
            for mut lease in std::iter::from_fn(|| slab.lease().map(mem::ManuallyDrop::new)) {
                let lent = lease.lend();
                let at = lent.ptr.addr().get();
                assert!(at % 64 == 0 && at >= address && at + lent.len <= address + len);
            }
        }
    }
}

#[test]
fn memory_without_bytes_of_the_host_is_refused() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let drops = Cell::new(0);
    let read_only = Registered::new(&domain, Told(vec![7; 100].into(), &drops, HmemIface::SYSTEM, false)).unwrap();
    assert_eq!(Slab::over(read_only, SlabAttr::new(1, 1), Global).unwrap_err().error, OpenError::Access);
    let mut room = [mem::MaybeUninit::uninit(); 100];
    let uninitialised = Registered::new(&domain, &mut room[..]).unwrap();
    assert_eq!(SharedSlab::over(uninitialised, SlabAttr::new(1, 1), Global).unwrap_err().error, OpenError::Access);
}

#[test]
fn all_memory_comes_from_the_allocator_in_the_reported_size() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let attr = SlabAttr::new(10, 100);
    let budget = Budget::new(Global, usize::MAX);
    let alloc = &budget;
    let slab = SharedSlab::open_in(&domain, attr, alloc).unwrap();
    let footprint = attr.memory().unwrap().size() + attr.table().unwrap().size();
    assert_eq!((budget.used(), budget.blocks()), (footprint, 2));
    let lease = slab.lease().unwrap();
    drop(lease.split(10).unwrap());
    assert_eq!(budget.high_water(), footprint, "leases take nothing");
    drop(slab.into_memory());
    assert_eq!(budget.used(), 0);
    let layout = core::alloc::Layout::from_size_align(1000, 64).unwrap();
    drop(HeapMemory::open_in(&domain, layout, alloc).unwrap());
    assert_eq!(budget.high_water(), footprint.max(1000));
}

#[test]
fn a_failed_allocation_is_an_error_and_leaves_no_region_open() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let attr = SlabAttr::new(10, 100);
    let allocations = fail_at_each(Global, |alloc| Slab::open_in(&domain, attr, alloc).map(drop));
    assert_eq!(allocations, 2);
    // All regions of the network are free, without a loss.
    let free = |domain: &Domain<'_, _>| {
        let regions = std::iter::from_fn(|| Registered::new(domain, vec![0_u8; 8]).ok());
        regions.collect::<Vec<_>>().len()
    };
    let before = free(&domain);
    fail_at_each(Global, |alloc| Slab::open_in(&domain, attr, alloc).map(drop));
    assert_eq!(free(&domain), before);
}

#[cfg(feature = "bytemuck")]
#[test]
fn views_are_aligned_and_whole_or_errors() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let slab = Slab::open_in(&domain, SlabAttr::new(1, 18), Global).unwrap();
    let mut lease = slab.lease().unwrap();
    assert_eq!(lease.prepare_as::<u64>(3).unwrap_err(), RangeError::OutOfWindow);
    assert_eq!(lease.prepare_as::<u64>(usize::MAX).unwrap_err(), RangeError::OutOfWindow);
    lease.prepare_as::<u64>(2).unwrap().copy_from_slice(&[1, u64::MAX]);
    lease.commit(16).unwrap();
    assert_eq!(lease.data_as::<u64>().unwrap(), [1, u64::MAX]);
    lease.data_as_mut::<u32>().unwrap()[1] = 7;
    assert_eq!(lease.data_as::<[u64; 2]>().unwrap(), [[7 << 32 | 1, u64::MAX]]);
    lease.consume(1).unwrap();
    assert!(matches!(lease.data_as::<u64>(), Err(RangeError::Misaligned)), "not aligned");
    assert_eq!(lease.data_as::<u8>().unwrap().len(), 15);
    lease.consume(7).unwrap();
    lease.set_len(7).unwrap();
    assert!(matches!(lease.data_as_mut::<u64>(), Err(RangeError::Misaligned)), "a byte is missing");
    assert!(matches!(lease.prepare_as::<u16>(1), Err(RangeError::Misaligned)), "room that is not aligned");
}

#[cfg(feature = "bytes")]
#[test]
fn buf_and_buf_mut_are_data_and_room() {
    use bytes::{Buf, BufMut};

    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let slab = Slab::open_in(&domain, SlabAttr::new(1, 10), Global).unwrap();
    let mut lease = slab.lease().unwrap();
    assert_eq!((lease.remaining(), lease.remaining_mut()), (0, 10));
    lease.put_u64(0x0102_0304_0506_0708);
    assert_eq!((lease.remaining(), lease.remaining_mut(), &lease[..2]), (8, 2, &[1, 2][..]));
    assert_eq!(lease.get_u16(), 0x0102);
    assert_eq!((lease.chunk(), lease.remaining_mut()), (&[3, 4, 5, 6, 7, 8][..], 2));
    lease.advance(6);
    assert_eq!((lease.remaining(), lease.remaining_mut()), (0, 10));
    lease.put_bytes(9, 10);
    assert_eq!(&lease[..], [9; 10]);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lease.advance(11))).is_err());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lease.put_u8(0))).is_err());
    assert_eq!(&lease[..], [9; 10], "as it was");
}
