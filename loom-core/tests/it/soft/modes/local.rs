//! Local registration (`FI_MR_LOCAL`), and regions bound to an endpoint (`FI_MR_ENDPOINT`).
use core::ptr::NonNull;

use loom_core::av::Av;
use loom_core::buffer::{Buffer, Descriptor, Lent, SourceBuffer, TargetBuffer, bytes_mut};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Source};
use loom_core::error::{OpenError, PostError};
use loom_core::mr::Mr;
use loom_core::registered::Registered;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};
use loom_core::vocabulary::{Access, Errno, HmemIface, MrMode, Tag};

type Bytes = Box<[u8]>;

fn bytes(len: usize) -> Bytes {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

enum Either {
    Registered(Registered<'static, Soft<'static>, Bytes>),
    Plain(Bytes),
    /// Bytes with another region's descriptor.
    Lying(Bytes, Descriptor),
}

// SAFETY: each variant's bytes stay in place. (`Lying` breaks the rule of descriptors, which the
// transport must detect.)
unsafe impl Buffer for Either {
    fn lend(&mut self) -> Lent {
        let lent = |bytes: &mut Bytes| Lent::both(NonNull::from_mut(&mut **bytes).cast(), bytes.len());
        match self {
            Either::Registered(buf) => buf.lend(),
            Either::Plain(bytes) => lent(bytes),
            Either::Lying(bytes, descriptor) => Lent { descriptor: Some(*descriptor), ..lent(bytes) },
        }
    }
}
impl SourceBuffer for Either {}
impl TargetBuffer for Either {}

#[test]
fn posted_buffers_require_registration() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let info = network.info_requiring(RequiredModes::LOCAL_REGISTRATION);
    assert!(info.attributes().domain.mr_mode.contains(MrMode::LOCAL));
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<_, Either>::open(&domain, CqAttr::new(16)).unwrap();
    let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let plain = |len| Either::Plain(bytes(len));
    for rejected in [
        a.send(to_b, plain(8)).unwrap_err(),
        a.tagged_send(to_b, Tag(1), plain(8)).unwrap_err(),
        b.recv(Source::Any, plain(8)).unwrap_err(),
        b.tagged_recv(Source::Any, Tag(1), plain(8)).unwrap_err(),
        b.multi_recv(Source::Any, plain(8)).unwrap_err(),
    ] {
        assert_eq!(rejected.error, PostError::NotRegistered);
        assert!(matches!(rejected.value, Either::Plain(_)), "the buffer comes back");
    }
    // Empty and injected messages do not require registration.
    let received = b.recv(Source::Any, plain(0)).map_err(PostError::from).unwrap();
    a.inject(to_b, &[]).unwrap();
    assert_eq!(cq.wait(received, Spins(100)).unwrap().unwrap().result().unwrap().len, 0);
    let registered = |len| Either::Registered(Registered::new(&domain, bytes(len)).unwrap());
    for len in [8, 100_000] {
        let received = b.tagged_recv(Source::Any, Tag(1), registered(len)).map_err(PostError::from).unwrap();
        let sent = a.tagged_send(to_b, Tag(1), registered(len)).map_err(PostError::from).unwrap();
        let done = cq.wait(received, Spins(100)).unwrap().unwrap();
        assert_eq!(done.result().unwrap().len, len);
        assert!(cq.wait(sent, Spins(100)).unwrap().unwrap().result().is_ok());
    }
}

/// The transport checks descriptors itself, because a user's buffer can return a wrong one.
#[test]
fn a_descriptor_must_belong_to_an_open_region_around_the_buffer() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION)).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<_, Either>::open(&domain, CqAttr::new(16)).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let other = Registered::new(&domain, bytes(8)).unwrap();
    let descriptor = other.descriptor();
    let refused = endpoint.recv(Source::Any, Either::Lying(bytes(8), descriptor)).unwrap_err();
    assert_eq!(refused.error, PostError::Errno(Errno::EFAULT));
    let freed = other.into_inner();
    let refused = endpoint.recv(Source::Any, Either::Lying(freed, descriptor)).unwrap_err();
    assert_eq!(refused.error, PostError::Errno(Errno::ENOKEY));
}

#[test]
fn read_only_buffers_are_registered_for_reading() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION)).unwrap();
    let shared = bytes(100);
    scope(|s| {
        let domain = s.domain(&domain);
        let av = Av::open(&domain, 4).unwrap();
        let cq = Cq::open(&domain, CqAttr::new(16)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let me = av.insert(&endpoint.address().unwrap()).unwrap();
        let mut buf = Registered::new(&domain, &shared[..]).unwrap();
        assert!(bytes_mut(&mut buf).is_none());
        let sent = endpoint.send(me, buf).map_err(PostError::from).unwrap();
        assert!(cq.wait(sent, Spins(100)).unwrap().unwrap().result().is_ok());
    });
}

#[test]
fn a_buffer_that_cannot_be_registered_comes_back() {
    let attr = NetworkAttr { regions: 1, ..NetworkAttr::default() };
    let network = Network::new(attr).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let first = Registered::new(&domain, bytes(8)).unwrap();
    let refused = Registered::new(&domain, bytes(9)).unwrap_err();
    assert_eq!((refused.error, refused.value), (OpenError::Limit("NetworkAttr::regions"), bytes(9)));
    drop(first);
    assert_eq!(Registered::new(&domain, bytes(9)).unwrap().into_inner(), bytes(9));
}

/// The domain requires it, for an endpoint of any info.
#[test]
fn an_endpoint_of_another_info_takes_registered_buffers_only_too() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION)).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let info = network.info();
    let cq = Cq::<_, Either>::open(&domain, CqAttr::new(16)).unwrap();
    let endpoint = cq.endpoint(Binding::to(&av).info(info.clone())).unwrap();
    let rejected = endpoint.recv(Source::Any, Either::Plain(bytes(8))).unwrap_err();
    assert_eq!(rejected.error, PostError::NotRegistered);
}

/// Bytes that claim to be device memory.
#[derive(Debug)]
struct OnDevice(Bytes);

// SAFETY: the bytes stay in place.
unsafe impl Buffer for OnDevice {
    fn lend(&mut self) -> Lent {
        Lent { kind: HmemIface::CUDA, ..Lent::both(NonNull::from_mut(&mut *self.0).cast(), self.0.len()) }
    }
}

#[test]
fn registered_refuses_device_memory_and_several_buffers() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let refused = Registered::new(&domain, OnDevice(bytes(8))).unwrap_err();
    assert_eq!(refused.error, OpenError::DeviceMemory, "it could be looked at, as if it were the host's");
    let refused = Registered::new(&domain, [bytes(8), bytes(8)]).unwrap_err();
    assert_eq!(refused.error, OpenError::Access, "each of them is to be registered");
}

const PEER_ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

#[test]
fn a_region_of_an_endpoint_is_reached_through_no_other() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let info = network.info_requiring(RequiredModes::ENDPOINT_REGIONS);
    assert!(info.attributes().domain.mr_mode.contains(MrMode::ENDPOINT));
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<_, Bytes>::open(&domain, CqAttr::new(16)).unwrap();
    let [a, b, c] = [(); 3].map(|()| cq.endpoint(&av).unwrap());
    let [to_b, to_c] = [&b, &c].map(|endpoint| av.insert(&endpoint.address().unwrap()).unwrap());
    let region = Mr::open_for(&domain, &b, bytes(100), PEER_ACCESS).unwrap();
    let remote = region.remote();
    let end = |key| cq.wait(key, Spins(100)).unwrap().unwrap().into_parts();
    let (written, result) = end(a.write(to_b, &remote, 10, vec![7; 5].into()).unwrap());
    assert!(result.is_ok());
    let mut seen = [0; 5];
    region.window().copy_to(10, &mut seen).unwrap();
    assert_eq!(written[..], seen);
    let (read, result) = end(a.read(to_b, &remote, 8, bytes(4)).unwrap());
    assert_eq!((result.unwrap().len, &read[..]), (4, &[8, 9, 7, 7][..]));
    let (_, result) = end(a.write(to_c, &remote, 10, bytes(5)).unwrap());
    assert_eq!(result.unwrap_err().errno, Errno::ENOKEY, "it is not of this endpoint");
    assert_eq!(a.inject_write(to_c, &remote, 10, &[1]), Err(PostError::Errno(Errno::ENOKEY)));
    assert_eq!(region.close().unwrap()[..10], bytes(10)[..]);
    let (_, result) = end(a.write(to_b, &remote, 10, bytes(5)).unwrap());
    assert_eq!(result.unwrap_err().errno, Errno::ENOKEY, "it is closed");
    let _again = Mr::open_for(&domain, &b, bytes(100), PEER_ACCESS).unwrap();
    // All objects close in order, so the domain can be closed.
}

#[test]
fn a_region_with_peer_access_requires_an_endpoint() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::ENDPOINT_REGIONS)).unwrap();
    assert_eq!(Mr::open(&domain, bytes(8), PEER_ACCESS).unwrap_err(), OpenError::NeedsEndpoint);
    assert_eq!(Mr::open(&domain, bytes(8), Access::REMOTE_READ).unwrap_err(), OpenError::NeedsEndpoint);
    let mut memory = [0; 8];
    let borrowed = scope(|s| Mr::open(&s.domain(&domain), &mut memory[..], PEER_ACCESS).map(drop));
    assert_eq!(borrowed.unwrap_err(), OpenError::NeedsEndpoint);
    // A region for this side only does not require an endpoint.
    drop(Mr::open(&domain, bytes(8), Access::SEND | Access::RECV).unwrap());
    drop(Registered::new(&domain, bytes(8)).unwrap());
}

/// The region's own descriptor also serves posts under local registration.
#[test]
fn a_region_of_an_endpoint_is_one_for_this_side_too() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let asks = RequiredModes::ENDPOINT_REGIONS | RequiredModes::LOCAL_REGISTRATION;
    let domain = Domain::open(&network.info_requiring(asks)).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<_, Registered<'_, _, Bytes>>::open(&domain, CqAttr::new(16)).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let me = av.insert(&endpoint.address().unwrap()).unwrap();
    let region = Mr::open_for(&domain, &endpoint, bytes(100), PEER_ACCESS).unwrap();
    let buf = Registered::new(&domain, bytes(5)).unwrap();
    let key = endpoint.write(me, &region.remote(), 0, buf).map_err(PostError::from).unwrap();
    assert!(cq.wait(key, Spins(100)).unwrap().unwrap().result().is_ok());
}

/// A forgotten region keeps its endpoint open, the endpoint its queue, and the queue the domain. No
/// object closes before its children.
#[test]
fn a_forgotten_region_leaks_only_its_endpoint_queue_and_domain() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::ENDPOINT_REGIONS)).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let outer = Cq::<_, Bytes>::open(&domain, CqAttr::new(16)).unwrap();
    let writer = outer.endpoint(&av).unwrap();
    let (to, remote) = {
        let cq = Cq::<_, Bytes>::open(&domain, CqAttr::new(16)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let to = av.insert(&endpoint.address().unwrap()).unwrap();
        let region = Mr::open_for(&domain, &endpoint, bytes(100), PEER_ACCESS).unwrap();
        let remote = region.remote();
        std::mem::forget(region);
        // The operation in flight stays so after the drop of the other handle. The cancelled one is
        // returned.
        let [key, stays] = [(); 2].map(|()| endpoint.recv(Source::Any, bytes(8)).unwrap());
        endpoint.cancel(key).unwrap();
        drop(endpoint);
        assert_eq!(cq.wait(key, Spins(100)).unwrap().unwrap().result().unwrap_err().errno, Errno::ECANCELED);
        assert!(cq.wait(stays, Spins(100)).unwrap().is_none());
        (to, remote)
    };
    // The endpoint and the region are open, and no part of them was freed.
    let key = writer.write(to, &remote, 0, bytes(5)).unwrap();
    assert!(outer.wait(key, Spins(100)).unwrap().unwrap().result().is_ok());
    drop(writer);
    drop(outer);
    // Another domain of the network is not affected.
    let other = Domain::open(&network.info()).unwrap();
    drop(Mr::open(&other, bytes(8), PEER_ACCESS).unwrap());
}

/// The endpoint is open as long as one of its regions.
#[test]
fn a_region_of_an_endpoint_is_a_handle_of_it() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::ENDPOINT_REGIONS)).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<_, Bytes>::open(&domain, CqAttr::new(16)).unwrap();
    let [writer, endpoint] = [(); 2].map(|()| cq.endpoint(&av).unwrap());
    let to = av.insert(&endpoint.address().unwrap()).unwrap();
    let regions = [(); 2].map(|()| Mr::open_for(&domain, &endpoint, bytes(100), PEER_ACCESS).unwrap());
    let remotes = regions.each_ref().map(|region| region.remote());
    let received = endpoint.recv(Source::Any, bytes(8)).unwrap();
    drop(endpoint);
    for (region, remote) in regions.into_iter().zip(&remotes) {
        let key = writer.write(to, remote, 0, vec![7; 5].into()).unwrap();
        assert!(cq.wait(key, Spins(100)).unwrap().unwrap().result().is_ok());
        assert!(cq.wait(received, Spins(100)).unwrap().is_none(), "it is in flight");
        assert_eq!(region.close().unwrap()[..5], [7; 5]);
    }
    let ended = cq.wait(received, Spins(100)).unwrap().unwrap();
    assert_eq!((ended.result().unwrap_err().errno, ended.into_buf()), (Errno::ECANCELED, bytes(8)));
    assert_eq!(writer.inject(to, &[1]), Err(PostError::Errno(Errno::EHOSTUNREACH)));
}

/// The domain requires it, for an endpoint of any info.
#[test]
fn an_endpoint_of_another_info_has_regions_of_its_own_too() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::ENDPOINT_REGIONS)).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let info = network.info();
    let cq = Cq::<_, Bytes>::open(&domain, CqAttr::new(16)).unwrap();
    let endpoint = cq.endpoint(Binding::to(&av).info(info.clone())).unwrap();
    let me = av.insert(&endpoint.address().unwrap()).unwrap();
    let region = Mr::open_for(&domain, &endpoint, bytes(100), PEER_ACCESS).unwrap();
    assert_eq!(endpoint.inject_write(me, &region.remote(), 0, &[1]), Ok(()));
}

/// Borrowed buffers cannot be left to an endpoint that is never closed, so the process ends.
#[test]
fn a_scope_ends_the_process_over_a_forgotten_region_of_an_endpoint() {
    let role = ["--exact", "soft::modes::local::role_forgets_a_region_in_a_scope", "--ignored", "--nocapture"];
    let output = std::process::Command::new(std::env::current_exe().unwrap()).args(role).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("a memory region was forgotten that is bound to an endpoint of a scope"), "{said}");
}

#[test]
#[ignore = "a role of another test, in a process of its own"]
fn role_forgets_a_region_in_a_scope() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let info = network.info_requiring(RequiredModes::ENDPOINT_REGIONS);
    scope(|s| {
        let domain = s.open(&info).unwrap();
        let av = Av::open(&domain, 4).unwrap();
        let cq = Cq::<_, Bytes>::open(&domain, CqAttr::new(16)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        std::mem::forget(Mr::open_for(&domain, &endpoint, bytes(100), PEER_ACCESS).unwrap());
    });
    eprintln!("the scope has ended");
}
