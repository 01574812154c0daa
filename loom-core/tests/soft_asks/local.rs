//! Local registration (`FI_MR_LOCAL`).

use core::ptr::NonNull;

use loom_core::buffer::{Buffer, Descriptor, Lent, SourceBuffer, TargetBuffer};
use loom_core::error::{OpenError, PostError};
use loom_core::objects::av::Av;
use loom_core::objects::cq::{self, Cq, CqAttr};
use loom_core::objects::deadline::Spins;
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::Source;
use loom_core::objects::registered::Registered;
use loom_core::soft::{Asks, Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Errno, HmemIface, MrMode, Tag};

type Bytes = Box<[u8]>;

fn bytes(len: usize) -> Bytes {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// A buffer that is registered or not.
enum Either<'d, 'n> {
    Registered(Registered<'d, Soft<'n>, Bytes>),
    Plain(Bytes),
    /// Bytes with the descriptor of others.
    Lying(Bytes, Descriptor),
}

// SAFETY: each variant's bytes stay where they are. (The lying one breaks the rule of descriptors, which the transport is to
// notice.)
unsafe impl Buffer for Either<'_, '_> {
    fn lend(&mut self) -> Lent {
        let lent = |bytes: &mut Bytes| Lent::both(NonNull::from_mut(&mut **bytes).cast(), bytes.len());
        match self {
            Either::Registered(buf) => buf.lend(),
            Either::Plain(bytes) => lent(bytes),
            Either::Lying(bytes, descriptor) => lent(bytes).with_descriptor(*descriptor),
        }
    }
}
impl SourceBuffer for Either<'_, '_> {}
impl TargetBuffer for Either<'_, '_> {}

#[test]
fn what_is_posted_has_to_be_registered() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let info = network.info_that_asks(Asks::nothing().for_local_registration());
    assert!(info.attributes().domain.mr_mode.contains(MrMode::LOCAL));
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    cq::scope(&domain, CqAttr::<16>::new(), |cq: &Cq<'_, Soft<'_>, Either<'_, '_>>| {
        let (a, b) = (cq.endpoint(&av).enable().unwrap(), cq.endpoint(&av).enable().unwrap());
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
            assert!(matches!(rejected.buf, Either::Plain(_)), "the buffer comes back");
        }
        // No bytes need none, and neither do those that are copied.
        let received = b.recv(Source::Any, plain(0)).map_err(PostError::from).unwrap();
        a.inject(to_b, &[]).unwrap();
        assert_eq!(cq.wait(received, Spins(100)).unwrap().unwrap().result().unwrap().len(), 0);
        let registered = |len| Either::Registered(Registered::new(&domain, bytes(len)).unwrap());
        for len in [8, 100_000] {
            let received = b.tagged_recv(Source::Any, Tag(1), registered(len)).map_err(PostError::from).unwrap();
            let sent = a.tagged_send(to_b, Tag(1), registered(len)).map_err(PostError::from).unwrap();
            let done = cq.wait(received, Spins(100)).unwrap().unwrap();
            assert_eq!(done.result().unwrap().len(), len);
            assert!(cq.wait(sent, Spins(100)).unwrap().unwrap().result().is_ok());
        }
    })
    .unwrap();
}

/// The transport looks itself: a buffer of somebody else's making may say what is not so.
#[test]
fn a_descriptor_has_to_be_that_of_an_open_region_around_the_buffer() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_that_asks(Asks::nothing().for_local_registration())).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    cq::scope(&domain, CqAttr::<16>::new(), |cq: &Cq<'_, Soft<'_>, Either<'_, '_>>| {
        let endpoint = cq.endpoint(&av).enable().unwrap();
        let other = Registered::new(&domain, bytes(8)).unwrap();
        let descriptor = other.descriptor();
        let refused = endpoint.recv(Source::Any, Either::Lying(bytes(8), descriptor)).unwrap_err();
        assert_eq!(refused.error, PostError::Errno(Errno::EFAULT));
        let freed = other.into_inner();
        let refused = endpoint.recv(Source::Any, Either::Lying(freed, descriptor)).unwrap_err();
        assert_eq!(refused.error, PostError::Errno(Errno::ENOKEY));
    })
    .unwrap();
}

#[test]
fn what_is_only_read_is_registered_for_reading() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_that_asks(Asks::nothing().for_local_registration())).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let shared = bytes(100);
    cq::scope(&domain, CqAttr::<16>::new(), |cq: &Cq<'_, Soft<'_>, Registered<'_, Soft<'_>, &[u8]>>| {
        let endpoint = cq.endpoint(&av).enable().unwrap();
        let me = av.insert(&endpoint.address().unwrap()).unwrap();
        let mut buf = Registered::new(&domain, &shared[..]).unwrap();
        assert!(buf.bytes_mut().is_none());
        let sent = endpoint.send(me, buf).map_err(PostError::from).unwrap();
        assert!(cq.wait(sent, Spins(100)).unwrap().unwrap().result().is_ok());
    })
    .unwrap();
}

#[test]
fn a_buffer_that_cannot_be_registered_comes_back() {
    let attr = NetworkAttr { regions: 1, ..NetworkAttr::default() };
    let network = Network::new(attr).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let first = Registered::new(&domain, bytes(8)).unwrap();
    let refused = Registered::new(&domain, bytes(9)).unwrap_err();
    assert_eq!((refused.error, refused.buf), (OpenError::Errno(Errno::ENOMR), bytes(9)));
    drop(first);
    assert_eq!(Registered::new(&domain, bytes(9)).unwrap().into_inner(), bytes(9));
}

/// The domain asks for it, whatever info an endpoint is opened from.
#[test]
fn an_endpoint_of_another_info_takes_registered_buffers_only_too() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_that_asks(Asks::nothing().for_local_registration())).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let info = network.info();
    cq::scope(&domain, CqAttr::<16>::new(), |cq: &Cq<'_, Soft<'_>, Either<'_, '_>>| {
        let endpoint = cq.endpoint(&av).info(&info).enable().unwrap();
        let rejected = endpoint.recv(Source::Any, Either::Plain(bytes(8))).unwrap_err();
        assert_eq!(rejected.error, PostError::NotRegistered);
    })
    .unwrap();
}

/// Bytes that are said to be those of a device.
#[derive(Debug)]
struct OnDevice(Bytes);

// SAFETY: the bytes stay where they are.
unsafe impl Buffer for OnDevice {
    fn lend(&mut self) -> Lent {
        Lent::both(NonNull::from_mut(&mut *self.0).cast(), self.0.len()).in_memory_of(HmemIface::CUDA)
    }
}

#[test]
fn what_cannot_be_registered_by_itself_is_refused() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let refused = Registered::new(&domain, OnDevice(bytes(8))).unwrap_err();
    assert_eq!(refused.error, OpenError::Errno(Errno::EOPNOTSUPP), "it could be looked at, as if it were the host's");
    let refused = Registered::new(&domain, [bytes(8), bytes(8)]).unwrap_err();
    assert_eq!(refused.error, OpenError::Access, "each of them is to be registered");
}
