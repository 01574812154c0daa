//! Datagrams (`FI_EP_DGRAM`): over `udp`, which has nothing else, and over `sockets`; and multicast groups.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

mod multicast;
mod posting;

use std::time::Instant;

use loom_core::completion::Transfer;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::PostError;
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::{Endpoint, Source};
use loom_core::objects::info::{Hints, Info};
use loom_core::objects::mr::Mr;
use loom_core::vocabulary::{Access, Caps, EndpointAttributes, EndpointType, Errno, Tag};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};

use posting::{LIMIT, post};

type T = Ofi<Local>;

const PROVIDERS: [&str; 2] = ["udp", "sockets"];

fn info(provider: &str) -> Info<T> {
    let endpoint_attr = EndpointAttributes { kind: EndpointType::DGRAM, ..EndpointAttributes::default() };
    let caps = Caps::MSG | Caps::SOURCE;
    let hints = Hints {
        caps,
        provider: Some(provider),
        node: Some("127.0.0.1"),
        listen: true,
        endpoint_attr,
        ..Hints::default()
    };
    let mut infos = T::query(&hints).unwrap_or_else(|error| panic!("{provider}: {error}"));
    infos.find(|info| info.attributes().endpoint.kind == EndpointType::DGRAM).expect("datagrams")
}

/// Two endpoints on a queue, which know each other.
struct Two<'q, 'd> {
    cq: &'q Cq<'d, T, Vec<u8>>,
    av: &'d Av<'d, T>,
    a: Endpoint<'q, 'd, T, Vec<u8>>,
    b: Endpoint<'q, 'd, T, Vec<u8>>,
    to_a: Peer,
    to_b: Peer,
}

/// Runs a test over each provider.
fn on_each(test: impl Fn(&str, &Two<'_, '_>)) {
    for provider in PROVIDERS {
        let domain = Domain::open(&info(provider)).unwrap();
        let av = Av::open(&domain, 8).unwrap();
        let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::<64>::new()).unwrap();
        let (a, b) = (cq.endpoint(&av).enable().unwrap(), cq.endpoint(&av).enable().unwrap());
        let (to_a, to_b) = (av.insert(&a.address().unwrap()).unwrap(), av.insert(&b.address().unwrap()).unwrap());
        test(provider, &Two { cq: &cq, av: &av, a, b, to_a, to_b });
    }
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at + 7 * seed) % 251).unwrap()).collect()
}

impl Two<'_, '_> {
    fn finish(&self, key: OpKey) -> (Vec<u8>, Transfer) {
        let (buf, result) = self.cq.wait(key, Instant::now() + LIMIT).unwrap().expect("in time").into_parts();
        (buf, result.unwrap())
    }

    fn receive(&self, len: usize) -> OpKey {
        post(self.cq, vec![0; len], |buf| self.b.recv(Source::Any, buf))
    }

    fn send(&self, from: &Endpoint<'_, '_, T, Vec<u8>>, len: usize, seed: usize) -> OpKey {
        post(self.cq, bytes(len, seed), |buf| from.send(self.to_b, buf))
    }
}

#[test]
fn datagrams_arrive_and_name_their_sender() {
    on_each(|provider, two| {
        let c = two.cq.endpoint(two.av).enable().unwrap();
        let to_c = two.av.insert(&c.address().unwrap()).unwrap();
        // 1472 is what a frame of Ethernet has room for: the most of `udp`.
        for (seed, len) in [1, 8, 100, 1472].into_iter().enumerate() {
            for (from, peer) in [(&two.a, two.to_a), (&c, to_c)] {
                let received = two.receive(1472);
                let sent = two.send(from, len, seed);
                let (buf, transfer) = two.finish(received);
                assert_eq!(transfer.len(), len, "{provider}");
                assert!(buf[..len] == bytes(len, seed), "{provider}: {len} bytes");
                let source = transfer.source().unwrap_or_else(|| panic!("{provider}: no source"));
                assert_eq!(two.av.peer(source), Some(peer), "{provider}");
                two.finish(sent);
            }
        }
    });
}

#[test]
fn datagrams_wait_for_their_receive_and_keep_their_bounds() {
    on_each(|provider, two| {
        let sends: Vec<_> = (0..10).map(|seed| two.send(&two.a, 10 + seed, seed)).collect();
        for send in sends {
            two.finish(send);
        }
        for seed in 0..10 {
            let received = two.receive(100);
            let (buf, transfer) = two.finish(received);
            assert_eq!(transfer.len(), 10 + seed, "{provider}: on the loopback they neither are lost nor overtake");
            assert!(buf[..10 + seed] == bytes(10 + seed, seed), "{provider}");
        }
    });
}

#[test]
fn injected_datagrams_can_be_reused_at_once() {
    on_each(|provider, two| {
        let mut from = bytes(64, 1);
        let received = two.receive(64);
        two.a.inject(two.to_b, &from).unwrap();
        from.fill(0);
        assert!(two.finish(received).0 == bytes(64, 1), "{provider}");
    });
}

#[test]
fn what_does_not_fit_into_a_datagram_is_refused() {
    on_each(|_, two| {
        let limit = two.cq.domain().attributes().endpoint.max_msg_size;
        let Some(longer) = limit.checked_add(1).filter(|longer| *longer < 1 << 20) else { return };
        let rejected = two.a.send(two.to_b, vec![1; longer]).unwrap_err();
        assert_eq!(rejected.error, PostError::TooLong { limit });
        assert_eq!(rejected.buf.len(), longer, "the buffer comes back");
    });
}

#[test]
fn a_datagram_that_is_longer_than_its_buffer_is_truncated_with_an_error() {
    on_each(|provider, two| {
        let received = two.receive(16);
        let sent = two.send(&two.a, 48, 1);
        let (buf, result) = two.cq.wait(received, Instant::now() + LIMIT).unwrap().expect("in time").into_parts();
        assert_eq!(buf.len(), 16, "{provider}");
        match result {
            Err(error) => assert_eq!(error.errno, Errno::ETRUNC, "{provider}"),
            // tests/faults: `udp-truncated-message-is-whole`.
            Ok(transfer) => assert_eq!((provider, transfer.len()), ("udp", 16)),
        }
        two.finish(sent);
    });
}

#[test]
fn what_was_posted_comes_back_when_an_endpoint_is_closed() {
    on_each(|provider, two| {
        let c = two.cq.endpoint(two.av).enable().unwrap();
        let keys: Vec<_> = (0..4).map(|_| post(two.cq, vec![0; 64], |buf| c.recv(Source::Any, buf))).collect();
        drop(c);
        for key in keys {
            let (buf, result) = two.cq.wait(key, Instant::now() + LIMIT).unwrap().expect("in time").into_parts();
            assert_eq!((result.unwrap_err().errno, buf.len()), (Errno::ECANCELED, 64), "{provider}");
        }
        assert_eq!(two.cq.in_flight(), 0, "{provider}");
    });
}

#[test]
fn what_a_datagram_cannot_do_is_refused() {
    on_each(|_, two| {
        let refused = two.a.tagged_send(two.to_b, Tag(1), vec![1; 8]).unwrap_err();
        assert_eq!(refused.error, PostError::NotGranted(Caps::TAGGED));
        let region = Mr::open(two.cq.domain(), vec![0; 8], Access::REMOTE_WRITE);
        if let Ok(region) = region {
            let refused = two.a.write(two.to_b, &region.remote(), 0, vec![1; 8]).unwrap_err();
            assert!(matches!(refused.error, PostError::NotGranted(caps) if caps.contains(Caps::RMA)));
        }
    });
}
