//! Slabs that are exposed to peers.

use std::time::Duration;

use loom_alloc::allocator_api2::alloc::Global;
use loom_alloc::registered::{
    ExposedSlab, Lease, NotJoined, SharedExposedSlab, SharedLease, SharedSlab, Slab, SlabAttr,
};
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::error::{OpenError, PostError};
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::scope;
use loom_core::soft::RequiredModes;
use loom_core::vocabulary::Access;

use crate::registered::{domains, network};

const BOTH: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

#[test]
fn peers_reach_each_buffer_and_part_at_its_own_place() {
    let network = network();
    for domain in domains(&network) {
        let slab = ExposedSlab::open_in(&domain, SlabAttr::new(4, 50), BOTH, Global).unwrap();
        assert_eq!((slab.count(), slab.size()), (4, 50));
        let av = Av::open(&domain, 2).unwrap();
        {
            let cq = Cq::<_, &[u8]>::open(&domain, CqAttr::new(16)).unwrap();
            let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
            let to_b = av.insert(&b.address().unwrap()).unwrap();
            let tell = |region: RemoteRegion| RemoteRegion::from_bytes(&region.to_bytes());
            let mut parts = vec![];
            for lease in std::iter::from_fn(|| slab.lease()) {
                assert_eq!((lease.capacity(), lease.window().len(), lease.remote().len), (50, 50, 50));
                assert_eq!(lease.key(), lease.remote().key);
                let (first, rest) = lease.split(20).unwrap();
                parts.extend([first, rest]);
            }
            assert_eq!(parts.len(), 8);
            for (part, fill) in parts.iter().zip(1..) {
                let remote = tell(part.remote());
                let bytes = vec![fill; part.capacity()];
                a.inject_write(to_b, &remote, 0, &bytes).unwrap();
                let beyond = a.inject_write(to_b, &remote, 1, &bytes).unwrap_err();
                assert_eq!(beyond, PostError::OutOfBounds);
            }
            for (part, fill) in parts.iter().zip(1..) {
                let mut bytes = vec![0; part.capacity()];
                part.window().copy_to(0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|byte| *byte == fill), "nobody else's bytes");
            }
            // Joined again.
            let last = parts.pop().unwrap();
            let NotJoined { lease: last, other: first } = last.rejoin(parts.remove(0)).unwrap_err();
            let whole = parts.pop().unwrap().rejoin(last).unwrap();
            assert_eq!((whole.capacity(), first.capacity()), (50, 20));
        }
        let memory = slab.into_region().close();
        assert!(memory.is_ok(), "nobody reaches it any more");
    }
}

#[test]
fn a_mailbox_is_sent_on_while_its_writer_keeps_away() {
    let network = network();
    for domain in domains(&network) {
        let slab = SharedExposedSlab::open_in(&domain, SlabAttr::new(1, 64), BOTH, Global).unwrap();
        let other = SharedSlab::open_in(&domain, SlabAttr::new(1, 64), Global).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        scope(|s| {
            let cq = Cq::<_, SharedLease<'_>>::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
            let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
            let (to_a, to_b) = (av.insert(&a.address().unwrap()).unwrap(), av.insert(&b.address().unwrap()).unwrap());
            let mailbox = slab.lease().unwrap();
            let remote = mailbox.remote();
            a.inject_write(to_b, &remote, 2, b"hello").unwrap();
            // SAFETY: no other write follows before the lease is exposed again.
            let mut message = unsafe { mailbox.into_lease() };
            assert_eq!((message.capacity(), message.len(), message.remote()), (64, 64, Some(remote)));
            message.consume(2).unwrap();
            message.set_len(5).unwrap();
            assert_eq!(&message[..], b"hello");
            let room = other.lease().unwrap();
            assert_eq!(room.remote(), None);
            let received = a.recv(Source::Any, room).map_err(PostError::from).unwrap();
            let sent = b.send(to_a, message).map_err(PostError::from).unwrap();
            let deadline = std::time::Instant::now() + Duration::from_secs(60);
            let (mut inbox, result) = cq.wait(received, deadline).unwrap().unwrap().into_parts();
            inbox.set_len(result.unwrap().len).unwrap();
            assert_eq!(&inbox[..], b"hello");
            let inbox = inbox.expose().expect_err("no peer reaches that one");
            assert_eq!(&inbox[..], b"hello");
            let mailbox = cq.wait(sent, deadline).unwrap().unwrap().into_buf().expose().unwrap();
            assert_eq!(mailbox.remote(), remote);
            a.inject_write(to_b, &remote, 0, b"again").unwrap();
            let mut again = [0; 5];
            mailbox.window().copy_to(0, &mut again).unwrap();
            assert_eq!(&again, b"again");
        });
    }
}

/// Data of the leases does not prevent the join after they are exposed again.
#[test]
fn exposed_neighbours_are_joined() {
    let network = network();
    let [domain, _] = domains(&network);
    let slab = ExposedSlab::open_in(&domain, SlabAttr::new(1, 64), BOTH, Global).unwrap();
    let (first, second) = slab.lease().unwrap().split(32).unwrap();
    // SAFETY: no peer has its address.
    let mut first = unsafe { first.into_lease() };
    first.set_len(3).unwrap();
    let first = first.expose().unwrap();
    // SAFETY: as above. All of it is data then.
    let second = unsafe { second.into_lease() }.expose().unwrap();
    assert_eq!(first.rejoin(second).unwrap().capacity(), 64);
}

#[test]
fn regions_opened_in_another_way_are_cut_up_too() {
    let network = network();
    // Endpoint-bound regions.
    let domain = Domain::open(&network.info_requiring(RequiredModes::ENDPOINT_REGIONS)).unwrap();
    let attr = SlabAttr::new(2, 50).align(1);
    let refused = ExposedSlab::open_in(&domain, attr, BOTH, Global).unwrap_err();
    assert_eq!(refused, OpenError::NeedsEndpoint);
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::<_, &[u8]>::open(&domain, CqAttr::new(16)).unwrap();
    let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let short = Mr::open_for(&domain, &b, vec![0; 99], BOTH).unwrap();
    let refused = ExposedSlab::over(short, attr, Global).unwrap_err();
    assert_eq!((refused.error, refused.value.remote().len), (OpenError::Size, 99));
    let region = Mr::open_for(&domain, &b, vec![0; 100], BOTH).unwrap();
    let slab = ExposedSlab::over(region, attr, Global).unwrap();
    let (one, two) = (slab.lease().unwrap(), slab.lease().unwrap());
    for (lease, byte) in [(&one, 1), (&two, 2)] {
        a.inject_write(to_b, &lease.remote(), 49, &[byte]).unwrap();
        assert_eq!(lease.window().load(49, core::sync::atomic::Ordering::Relaxed), Ok(byte));
    }
    drop((one, two));
    let memory = slab.into_region().close().map_err(|_| "not closed").unwrap();
    assert_eq!((memory[49].min(memory[99]), memory[49].max(memory[99])), (1, 2));
}

#[test]
fn memory_that_may_not_be_written_is_refused() {
    let network = network();
    let [domain, _] = domains(&network);
    static BYTES: [u8; 64] = [0; 64];
    let region = Mr::open(&domain, &BYTES[..], Access::REMOTE_READ).unwrap();
    let refused = ExposedSlab::over(region, SlabAttr::new(1, 1), Global).unwrap_err();
    assert_eq!(refused.error, OpenError::Access);
}

/// A lease of a slab without remote access has no remote region.
#[test]
fn local_slabs_have_no_remote_regions() {
    let network = network();
    for domain in domains(&network) {
        let slab = Slab::open_in(&domain, SlabAttr::new(1, 1), Global).unwrap();
        let lease: Lease<'_> = slab.lease().unwrap();
        assert!(lease.remote().is_none());
        assert!(lease.expose().is_err());
        assert!(slab.lease().is_some(), "it came back, and was dropped");
    }
}
