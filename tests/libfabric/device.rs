//! Memory of devices (`FI_HMEM`), as far as tests run without a device: over `shm`, which grants it
//! everywhere. The host's memory is then registered with attributes, too, and memory that is
//! reported as a device's is used as such.

use support::posting;
use support::shared_memory;

use std::time::Instant;

use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::error::{OpenError, PostError};
use loom_core::info::{Hints, Info};
use loom_core::mr::{Mr, MrAttr};
use loom_core::registered::Registered;
use loom_core::vocabulary::{Access, Caps, DomainAttributes, Errno, HmemIface, MemoryKey, MrMode, Version};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Library, Local, Ofi};

use posting::{LIMIT, post};

type T = Ofi<Local>;

const PEER_ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

fn info() -> Info<T> {
    shared_memory::remove_at_exit();
    let domain_attr = DomainAttributes { mr_mode: MrMode::HMEM, ..DomainAttributes::default() };
    let caps = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::HMEM | Caps::MULTI_RECV;
    let hints = Hints { caps, provider: Some("shm"), domain_attr, ..Hints::default() };
    let info = Ofi::<Local>::query(&hints).unwrap().next().unwrap();
    assert!(info.caps().contains(Caps::HMEM));
    info
}

/// Bytes that are reported as a device's.
#[derive(Debug)]
struct OnDevice(Vec<u8>);

/// Bytes that are reported as those of an unknown device.
struct OnUnknown(Vec<u8>);

// SAFETY: the bytes do not move.
unsafe impl Buffer for OnUnknown {
    fn lend(&mut self) -> Lent {
        Lent { kind: HmemIface::from_raw(4711), ..self.0.lend() }
    }
}

// SAFETY: the bytes do not move.
unsafe impl Buffer for OnDevice {
    fn lend(&mut self) -> Lent {
        Lent { kind: HmemIface::CUDA, ..self.0.lend() }
    }
}
impl SourceBuffer for OnDevice {}
impl TargetBuffer for OnDevice {}

/// Bytes of the host, with or without a descriptor.
enum Memory {
    Plain(Vec<u8>),
    Registered(Registered<'static, T, Vec<u8>>),
}

// SAFETY: the bytes do not move.
unsafe impl Buffer for Memory {
    fn lend(&mut self) -> Lent {
        match self {
            Memory::Plain(bytes) => bytes.lend(),
            Memory::Registered(bytes) => bytes.lend(),
        }
    }
}
impl SourceBuffer for Memory {}
impl TargetBuffer for Memory {}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Plain(bytes) => bytes,
            Memory::Registered(bytes) => bytes,
        }
    }
}

#[test]
fn the_hosts_memory_is_registered_and_moved_as_ever() {
    let domain = Domain::open(&info()).unwrap();
    let region = Mr::open(&domain, vec![0_u8; 100], PEER_ACCESS).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<T, Memory>::open(&domain, CqAttr::new(16)).unwrap();
    let [a, b] = [(); 2].map(|()| cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let deadline = Instant::now() + LIMIT;
    for round in 1..=4 {
        let [out, into] = [vec![round; 50], vec![0; 50]].map(|bytes| match round % 2 {
            0 => Memory::Registered(Registered::new(&domain, bytes).unwrap()),
            _ => Memory::Plain(bytes),
        });
        let received = post(&cq, into, |into| b.recv(Source::Any, into));
        let sent = post(&cq, out, |out| a.send(to_b, out));
        let (into, result) = cq.wait(received, deadline).unwrap().unwrap().into_parts();
        assert_eq!((result.unwrap().len, into.bytes()), (50, &[round; 50][..]));
        let (out, result) = cq.wait(sent, deadline).unwrap().unwrap().into_parts();
        result.unwrap();
        let written = post(&cq, out, |out| a.write(to_b, &region.remote(), 10, out));
        cq.wait(written, deadline).unwrap().unwrap().result().unwrap();
        let mut seen = [0; 50];
        while seen != [round; 50] {
            assert!(Instant::now() < deadline, "the bytes arrive");
            cq.progress().unwrap();
            region.window().copy_to(10, &mut seen).unwrap();
        }
    }
}

#[test]
fn a_key_of_ones_own_goes_with_the_attributes() {
    let domain = Domain::open(&info()).unwrap();
    let open = || Mr::open(&domain, vec![0_u8; 8], MrAttr::new(PEER_ACCESS).key(MemoryKey(4711)));
    let region = open().unwrap();
    assert_eq!(region.remote().key, MemoryKey(4711));
    assert_eq!(open().unwrap_err(), OpenError::KeyTaken);
}

#[test]
fn a_devices_memory_is_posted_with_a_registration_only() {
    let domain = Domain::open(&info()).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<T, OnDevice>::open(&domain, CqAttr::new(16)).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let me = av.insert(&endpoint.address().unwrap()).unwrap();
    let device = || OnDevice(vec![0; 8]);
    for rejected in [endpoint.send(me, device()).unwrap_err(), endpoint.recv(Source::Any, device()).unwrap_err()] {
        assert_eq!(rejected.error, PostError::NotRegistered);
        assert_eq!(rejected.value.0, [0; 8], "the buffer comes back");
    }
    // SAFETY: the post is refused, because its messages would be read in place.
    let rejected = unsafe { endpoint.multi_recv_unchecked(Source::Any, None, device()) }.unwrap_err();
    assert_eq!(rejected.error, PostError::DeviceMemory);
}

/// Checks an exported buffer: `shm` ignores the descriptor, but uses the exported address.
#[test]
fn an_exported_buffer_is_registered_by_its_address_since_1_20() {
    let domain = Domain::open(&info()).unwrap();
    // SAFETY: writes to the region reach the memory itself.
    let exported = unsafe { MrAttr::new(PEER_ACCESS).dmabuf(0, 0) };
    let region = Mr::open(&domain, vec![0_u8; 100], exported);
    if Library::get().unwrap().version() < Version::new(1, 20) {
        assert_eq!(region.unwrap_err(), OpenError::Errno(Errno::EOPNOTSUPP));
        return;
    }
    let region = region.unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(16)).unwrap();
    let [a, b] = [(); 2].map(|()| cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let deadline = Instant::now() + LIMIT;
    let written = post(&cq, vec![7; 50], |out| a.write(to_b, &region.remote(), 50, out));
    cq.wait(written, deadline).unwrap().unwrap().result().unwrap();
    let mut seen = vec![1; 100];
    while seen[50..] != [7; 50] {
        assert!(Instant::now() < deadline, "the bytes arrive");
        let read = post(&cq, seen, |into| a.read(to_b, &region.remote(), 0, into));
        seen = cq.finish(read, deadline).unwrap().into_buf();
    }
    assert_eq!(seen[..50], [0; 50]);
}

/// Checks that the provider receives the memory's device, and reports that its library does not
/// support it.
#[test]
fn a_devices_memory_is_registered_as_such() {
    let domain = Domain::open(&info()).unwrap();
    let refused = Mr::open(&domain, OnDevice(vec![0; 8]), PEER_ACCESS).unwrap_err();
    assert_eq!(refused, OpenError::Errno(Errno::ENOSYS));
    let refused = Mr::open(&domain, OnUnknown(vec![0; 8]), PEER_ACCESS).unwrap_err();
    assert_eq!(refused, OpenError::Errno(Errno::EOPNOTSUPP), "the provider is not asked");
    // SAFETY: the provider's library supports no device of the kind.
    let refused = unsafe { Registered::on_device(&domain, 1, OnDevice(vec![0; 8])) }.unwrap_err();
    assert_eq!((refused.error, refused.value.0), (OpenError::Errno(Errno::ENOSYS), vec![0; 8]));
}
