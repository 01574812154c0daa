//! Slabs in the memory of a device. This machine has no device, and the software transport refuses
//! device memory, so the buffer claims to be of a device only after its registration.

use std::cell::Cell;

use loom_alloc::Owner;
use loom_alloc::allocator_api2::alloc::Global;
use loom_alloc::registered::{DeviceLease, DeviceSlab, NotJoined, Slab, SlabAttr};
use loom_core::RangeError;
use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::error::{OpenError, PostError};
use loom_core::registered::Registered;
use loom_core::scope;
use loom_core::vocabulary::HmemIface;

use crate::registered::network;

struct Later(Box<[u8]>, Cell<HmemIface>);

// SAFETY: the bytes stay where they are.
unsafe impl Buffer for Later {
    fn lend(&mut self) -> Lent {
        Lent { kind: self.1.replace(HmemIface::CUDA), ..self.0.lend() }
    }
}

#[test]
fn leases_of_a_devices_memory_are_posted_as_such() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let memory = || Registered::new(&domain, Later(vec![0; 300].into(), Cell::new(HmemIface::SYSTEM))).unwrap();
    let attr = SlabAttr::new(3, 100).align(1);
    let refused = Slab::over(memory(), attr, Global).unwrap_err();
    assert_eq!(refused.error, OpenError::Access, "the host does not see it");
    let slab = DeviceSlab::<_, _, _, Owner>::over(refused.value, attr, Global).unwrap();
    assert_eq!((slab.count(), slab.size()), (3, 100));
    let mut lease = slab.lease().unwrap();
    let begin = lease.as_ptr();
    let room = lease.lend();
    assert_eq!((room.kind, room.len, room.readable), (HmemIface::CUDA, 100, false));
    assert_eq!(lease.set_len(101), Err(RangeError::OutOfWindow));
    lease.set_len(60).unwrap();
    let data = lease.lend();
    assert_eq!((data.kind, data.len, data.readable), (HmemIface::CUDA, 60, true));
    assert_eq!((data.ptr.as_ptr(), data.descriptor), (begin, Some(lease.descriptor())));
    let (mut first, mut second) = lease.split(50).unwrap();
    assert_eq!((first.len(), second.len(), second.is_empty(), second.capacity()), (50, 10, false, 50));
    assert_eq!((first.as_ptr(), second.as_ptr()), (begin, begin.wrapping_add(50)));
    let whole = first.rejoin(second).unwrap();
    assert_eq!((whole.len(), whole.capacity()), (60, 100));
    let av = Av::open(&domain, 2).unwrap();
    scope(|s| {
        let cq = Cq::<_, DeviceLease<'_>>::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let rejected = endpoint.recv(Source::Any, whole).unwrap_err();
        assert_eq!((rejected.error, rejected.value.len()), (PostError::DeviceMemory, 60));
    });
    assert_eq!(slab.into_memory().0.len(), 300);
}

/// Control of the address: it would be wrong if the data of the second part replaced that of the
/// whole.
#[test]
fn a_devices_lease_begins_with_its_data() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let memory = Registered::new(&domain, Later(vec![0; 300].into(), Cell::new(HmemIface::SYSTEM))).unwrap();
    let attr = SlabAttr::new(3, 100).align(1);
    let refused = Slab::over(memory, attr, Global).unwrap_err();
    let slab = DeviceSlab::<_, _, _, Owner>::over(refused.value, attr, Global).unwrap();
    let mut lease = slab.lease().unwrap();
    let begin = lease.as_ptr();
    let (first, mut second) = lease.split(60).unwrap();
    second.set_len(10).unwrap();
    let NotJoined { lease: first, other: second } = first.rejoin(second).unwrap_err();
    let NotJoined { lease: mut second, other: mut first } = second.rejoin(first).unwrap_err();
    assert_eq!((first.as_ptr(), first.len(), second.as_ptr(), second.len()), (begin, 0, begin.wrapping_add(60), 10));
    second.set_len(0).unwrap();
    first.set_len(5).unwrap();
    let mut whole = second.rejoin(first).unwrap();
    assert_eq!((whole.as_ptr(), whole.len(), whole.capacity()), (begin, 5, 100));
}

#[test]
fn the_hosts_memory_is_no_devices() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let memory = Registered::new(&domain, vec![0_u8; 300]).unwrap();
    let refused = DeviceSlab::<_, _, _, Owner>::over(memory, SlabAttr::new(1, 100), Global).unwrap_err();
    assert_eq!((refused.error, refused.value.len()), (OpenError::Access, 300));
}
