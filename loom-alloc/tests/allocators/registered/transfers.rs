//! Leases in every operation, over domains with and without local registration.

use std::time::Duration;

use loom_alloc::allocator_api2::alloc::Global;
use loom_alloc::registered::{Lease, SharedLease, SharedSlab, Slab, SlabAttr};
use loom_core::av::Av;
use loom_core::buffer::Prefixed;
use loom_core::completion::Transfer;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::endpoint::{RecvOptions, SendOptions};
use loom_core::engine::op_table::OpKey;
use loom_core::error::PostError;
use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::soft::{RequiredModes, Soft};
use loom_core::vocabulary::{Access, Tag};

use crate::registered::{domains, network};

fn finish<'s>(cq: &Cq<'s, Soft<'static>, Lease<'s>>, key: OpKey) -> (Lease<'s>, Transfer) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let (buf, result) = cq.wait(key, deadline).unwrap().expect("it ends in time").into_parts();
    (buf, result.unwrap())
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 7 + seed) % 251).unwrap()).collect()
}

#[test]
fn leases_serve_every_operation() {
    let network = network();
    for domain in domains(&network) {
        let slab = Slab::open_in(&domain, SlabAttr::new(2, 100_000), Global).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let mut memory = vec![0; 100_000];
        scope(|s| {
            let domain = s.domain(&domain);
            let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
            let region = Mr::open(&domain, &mut memory[..], access).unwrap();
            let cq = Cq::open(&domain, CqAttr::new(16)).unwrap();
            let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
            let to_b = av.insert(&b.address().unwrap()).unwrap();
            for (seed, len) in [1, 64, 5000, 100_000].into_iter().enumerate() {
                for tagged in [false, true] {
                    let (into, mut out) = (slab.lease().unwrap(), slab.lease().unwrap());
                    assert!(slab.lease().is_none(), "those of the last round are back");
                    out.append(&pattern(len, seed)).unwrap();
                    let [received, sent] = if tagged {
                        [b.tagged_recv(Source::Any, Tag(4), into), a.tagged_send(to_b, Tag(4), out)]
                    } else {
                        [b.recv(Source::Any, into), a.send(to_b, out)]
                    }
                    .map(|posted| posted.map_err(PostError::from).unwrap());
                    let (mut into, transfer) = finish(&cq, received);
                    into.set_len(transfer.len).unwrap();
                    assert!(into[..] == pattern(len, seed), "{len} bytes, tagged {tagged}");
                    assert!(finish(&cq, sent).0[..] == pattern(len, seed));
                }
                let (mut into, mut out) = (slab.lease().unwrap(), slab.lease().unwrap());
                out.append(&pattern(len, seed + 1)).unwrap();
                let written = a.write(to_b, &region.remote(), 0, out).map_err(PostError::from).unwrap();
                drop(finish(&cq, written));
                // A read fills the data, so the lease requires a length.
                into.set_len(len).unwrap();
                let read = a.read(to_b, &region.remote(), 0, into).map_err(PostError::from).unwrap();
                let (into, _) = finish(&cq, read);
                assert!(into[..] == pattern(len, seed + 1), "{len} bytes");
            }
        });
    }
}

#[test]
fn a_lease_without_data_is_not_sent() {
    let network = network();
    for domain in domains(&network) {
        let slab = Slab::open_in(&domain, SlabAttr::new(1, 64), Global).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        scope(|s| {
            let cq = Cq::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
            let endpoint = cq.endpoint(&av).unwrap();
            let me = av.insert(&endpoint.address().unwrap()).unwrap();
            let rejected = endpoint.send(me, slab.lease().unwrap()).unwrap_err();
            assert_eq!((rejected.error, rejected.value.room()), (PostError::Access, 64));
        });
    }
}

#[test]
fn parts_of_a_lease_are_several_messages_or_one() {
    let network = network();
    for domain in domains(&network) {
        let slab = Slab::open_in(&domain, SlabAttr::new(3, 64), Global).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        scope(|s| {
            let cq = Cq::<_, [Lease<'_>; 2]>::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
            let endpoint = cq.endpoint(&av).unwrap();
            let me = av.insert(&endpoint.address().unwrap()).unwrap();
            let [mut out, other, third] = [(); 3].map(|()| slab.lease().unwrap());
            out.append(b"head, and the body").unwrap();
            let (head, body) = out.split(4).unwrap();
            // The message is received in two other parts: 14 bytes, and the rest.
            let (front, back) = (third.split(14).unwrap().0, other);
            let received = endpoint
                .recv_with(Source::Any, RecvOptions::default(), [front, back])
                .map_err(PostError::from)
                .unwrap();
            let sent = endpoint.send_with(me, SendOptions::default(), [body, head]).map_err(PostError::from).unwrap();
            let deadline = std::time::Instant::now() + Duration::from_secs(60);
            let (parts, result) = cq.wait(received, deadline).unwrap().unwrap().into_parts();
            assert_eq!(result.unwrap().len, 18);
            let [mut front, mut back] = parts;
            front.set_len(14).unwrap();
            back.set_len(4).unwrap();
            assert_eq!((&front[..], &back[..]), (&b", and the body"[..], &b"head"[..]));
            let [body, head] = cq.wait(sent, deadline).unwrap().unwrap().into_buf();
            let whole = body.rejoin(head).unwrap();
            assert_eq!((&whole[..], whole.capacity()), (&b"head, and the body"[..], 64));
            let NotNeighbours = whole.rejoin(back).map_err(|_| NotNeighbours).unwrap_err();
        });
    }
}

#[derive(Debug)]
struct NotNeighbours;

#[test]
fn a_queue_gives_its_leases_back_when_it_ends() {
    let network = network();
    for domain in domains(&network) {
        let slab = SharedSlab::open_in(&domain, SlabAttr::new(4, 64), Global).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        scope(|s| {
            let cq = Cq::<_, SharedLease<'_>>::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
            let endpoint = cq.endpoint(&av).unwrap();
            for lease in std::iter::from_fn(|| slab.lease()) {
                endpoint.recv(Source::Any, lease).map_err(PostError::from).unwrap();
            }
        });
        assert_eq!(std::iter::from_fn(|| slab.lease()).collect::<Vec<_>>().len(), 4);
    }
}

#[test]
fn leases_have_room_for_providers_in_front() {
    let network = network();
    let asks = RequiredModes::PREFIXES | RequiredModes::LOCAL_REGISTRATION;
    let domain = Domain::open(&network.info_requiring(asks)).unwrap();
    let room = domain.info().attributes().endpoint.msg_prefix_size;
    assert!(room > 0);
    let slab = Slab::open_in(&domain, SlabAttr::new(2, 128), Global).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    scope(|s| {
        let cq = Cq::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let me = av.insert(&endpoint.address().unwrap()).unwrap();
        let (inbox, mut outbox) = (slab.lease().unwrap(), slab.lease().unwrap());
        outbox.commit(room).unwrap();
        outbox.append(b"hello").unwrap();
        let received = endpoint.recv(Source::Any, Prefixed { buf: inbox, room }).map_err(PostError::from).unwrap();
        let sent = endpoint.send(me, Prefixed { buf: outbox, room }).map_err(PostError::from).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let (buf, result) = cq.wait(received, deadline).unwrap().unwrap().into_parts();
        let mut inbox = buf.buf;
        inbox.commit(room + result.unwrap().len).unwrap();
        inbox.consume(room).unwrap();
        assert_eq!(&inbox[..], b"hello");
        assert_eq!(cq.wait(sent, deadline).unwrap().unwrap().buf().bytes(), b"hello");
    });
}
