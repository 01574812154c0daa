//! What happens between two steps of one operation, or at numbers that no test counts up to: tests that need the transport's
//! own functions.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use super::region::{Exposed, Reached, Region};
use super::rma::write_by;
use super::{Network, NetworkAttr, Soft};
use crate::error::OpenError;
use crate::objects::av::Av;
use crate::objects::cq::{Cq, CqAttr};
use crate::objects::domain::Domain;
use crate::objects::endpoint::Endpoint;
use crate::objects::mr::Mr;
use crate::transport::Refusal;
use crate::vocabulary::{Access, CompletionFlags, Errno, ImmediateData};

const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 2, tx_depth: 1, rx_depth: 2, eager_size: 8, regions: 2, ..NetworkAttr::DEFAULT };

/// What leads to a region through no endpoint has the number that would come next if they began again.
#[test]
fn domain_is_refused_when_the_network_has_no_number_for_it() {
    let network = Network::new(ATTR).unwrap();
    let info = network.info();
    let first = Domain::open(&info).unwrap();
    first.raw().net.opening.lock().leave_one_domain();
    let last = Domain::open(&info).unwrap();
    for _ in 0..3 {
        assert_eq!(Domain::open(&info).unwrap_err(), OpenError::Errno(Errno::EOVERFLOW));
    }
    drop(last);
    assert_eq!(Domain::open(&info).unwrap_err(), OpenError::Errno(Errno::EOVERFLOW), "numbers are not used again");
    assert_eq!(first.raw().number, 1);
}

/// A peer that tries an old key again and again does not keep the place from the next region.
#[test]
fn region_opens_in_a_place_where_a_peer_tries_the_key_of_the_one_before() {
    let network = Network::new(NetworkAttr { regions: 1, ..ATTR }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let first = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let (net, old) = (domain.raw().net, first.key());
    drop(first);
    let late = net.region(old).unwrap().count_late_user();
    let second = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).expect("the only place is free");
    assert_eq!(Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap_err(), OpenError::Errno(Errno::ENOMR));
    let region = net.region(second.key()).unwrap();
    assert!(region.enter(old).is_err() && region.enter(second.key()).is_ok());
    drop(late);
    assert!(region.enter(old).is_err() && region.enter(second.key()).is_ok());
    assert_eq!(second.close().unwrap(), [0; 8]);
}

/// Peers that copy are counted, and not only whether there is one.
#[test]
fn region_closes_when_the_last_of_its_users_has_left() {
    let mut byte = 0_u8;
    for (round, users) in (1..=100).zip((1..=5).cycle()) {
        let region = Region::new();
        let (ptr, reached) = (NonNull::from_mut(&mut byte), Reached::by_nobody());
        let key = region.open(0, round, Exposed { ptr, len: 1, access: Access::REMOTE_WRITE, domain: 1, reached });
        let guards: Vec<_> = (0..users).map(|_| region.enter(key).unwrap()).collect();
        let left = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let closed = scope.spawn(|| {
                region.close();
                left.load(Ordering::Relaxed)
            });
            // It has begun to close.
            while region.enter(key).is_ok() {
                std::thread::yield_now();
            }
            left.store(true, Ordering::Relaxed);
            drop(guards);
            assert!(closed.join().unwrap(), "closed under {users} users, in round {round}");
        });
    }
}

type Queue = Cq<'static, Soft<'static>, Box<[u8]>>;
type Side = Endpoint<'static, Soft<'static>, Box<[u8]>>;

/// A writer, which has one cell, and its peer.
fn pair(test: impl FnOnce(Side, &Queue, &Av<'static, Soft<'static>>)) {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let writes = Queue::open(&domain, CqAttr::new(4)).unwrap();
    let peers = Queue::open(&domain, CqAttr::new(4)).unwrap();
    test(writes.endpoint(&av).unwrap(), &peers, &av);
}

/// Writes with immediate data to a peer that closes when the bytes are there and the peer has not been told of them.
fn write_data_to_a_peer_that_closes(writer: &Side, peer: Side, context: Option<u64>) -> Result<(), Refusal> {
    let (raw, to) = (writer.raw(), peer.raw().port().own().addr.get());
    let close = || {
        drop(peer);
        Ok(())
    };
    write_by(&raw.net, raw.port(), (to, 8), Some(ImmediateData(7)), (context, None), close)
}

#[test]
fn write_with_data_fails_if_its_peer_closes_between_the_copy_and_the_news() {
    pair(|writer, peers, av| {
        let queue = writer.raw().port().own().tx();
        // More often than there are cells, and places in the queue.
        for round in 0..20 {
            let peer = peers.endpoint(av).unwrap();
            write_data_to_a_peer_that_closes(&writer, peer, Some(round)).unwrap();
            let event = *queue.pop().expect("the write has ended");
            assert_eq!((event.context, event.errno), (round, Errno::EHOSTUNREACH));
            assert_eq!(event.flags, CompletionFlags::RMA | CompletionFlags::WRITE);
            assert!(queue.pop().is_none(), "one event for one write");

            let peer = peers.endpoint(av).unwrap();
            let refused = write_data_to_a_peer_that_closes(&writer, peer, None).unwrap_err();
            assert!(
                matches!(refused, Refusal::Errno(Errno::EHOSTUNREACH)),
                "an injected write has no other way to say it"
            );
            assert!(queue.pop().is_none());
        }
    });
}

/// The only cell of the writer carries the next message, which arrives.
#[test]
fn cell_comes_home_when_the_peer_closes_between_the_copy_and_the_news() {
    pair(|writer, peers, av| {
        for context in [Some(1), None] {
            let peer = peers.endpoint(av).unwrap();
            let _ = write_data_to_a_peer_that_closes(&writer, peer, context);
            let next = peers.endpoint(av).unwrap();
            let to_next = av.insert(&next.address().unwrap()).unwrap();
            let received = next.recv(crate::objects::endpoint::Source::Any, Box::new([0; 8])).unwrap();
            writer.inject(to_next, &[5; 8]).unwrap();
            let done = peers.wait(received, crate::objects::deadline::Spins(10)).unwrap().expect("it is there");
            assert_eq!(done.result().unwrap().len(), 8);
        }
    });
}
