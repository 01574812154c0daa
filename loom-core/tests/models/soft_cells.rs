//! Tests of states between two steps of an operation, and of large numbers, through the transport's
//! own functions.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use super::network::region::{Exposed, NO_DOMAIN, Region};
use super::rma::write_by;
use super::{Network, NetworkAttr, Soft};
use crate::av::Av;
use crate::cq::{Completion, Cq, CqAttr};
use crate::deadline::Spins;
use crate::domain::Domain;
use crate::endpoint::{Endpoint, Source};
use crate::error::OpenError;
use crate::mr::Mr;
use crate::transport::Refusal;
use crate::vocabulary::{Access, CompletionFlags, Errno, ImmediateData};

const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 2, tx_depth: 1, rx_depth: 2, eager_size: 8, regions: 2, ..NetworkAttr::DEFAULT };

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

#[test]
fn region_opens_in_a_place_where_a_peer_tries_the_key_of_the_one_before() {
    let network = Network::new(NetworkAttr { regions: 1, ..ATTR }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let first = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let (net, old) = (domain.raw().net, first.remote().key);
    drop(first);
    let late = net.region(old).unwrap().count_late_user();
    let second = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).expect("the only place is free");
    assert_eq!(
        Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap_err(),
        OpenError::Limit("NetworkAttr::regions")
    );
    let region = net.region(second.remote().key).unwrap();
    assert!(region.enter(old).is_err() && region.enter(second.remote().key).is_ok());
    drop(late);
    assert!(region.enter(old).is_err() && region.enter(second.remote().key).is_ok());
    assert_eq!(second.close().unwrap(), [0; 8]);
}

#[test]
fn region_closes_when_the_last_of_its_users_has_left() {
    let mut byte = 0_u8;
    for (round, users) in (1..=100).zip((1..=5).cycle()) {
        let region = Region::new();
        let (ptr, reached_in, endpoint) = (NonNull::from_mut(&mut byte), NO_DOMAIN, AtomicU64::new(u64::MAX));
        let key = region.open(
            0,
            round,
            Exposed { ptr, len: 1, access: Access::REMOTE_WRITE, domain: 1, reached_in, endpoint },
        );
        let guards: Vec<_> = (0..users).map(|_| region.enter(key).unwrap()).collect();
        let left = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let closed = scope.spawn(|| {
                region.close();
                left.load(Ordering::Relaxed)
            });
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

fn pair(test: impl FnOnce(Side, &Queue, &Av<'static, Soft<'static>>)) {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let writes = Queue::open(&domain, CqAttr::new(4)).unwrap();
    let peers = Queue::open(&domain, CqAttr::new(4)).unwrap();
    test(writes.endpoint(&av).unwrap(), &peers, &av);
}

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

#[test]
fn cell_comes_home_when_the_peer_closes_between_the_copy_and_the_news() {
    pair(|writer, peers, av| {
        for context in [Some(1), None] {
            let peer = peers.endpoint(av).unwrap();
            let _ = write_data_to_a_peer_that_closes(&writer, peer, context);
            let next = peers.endpoint(av).unwrap();
            let to_next = av.insert(&next.address().unwrap()).unwrap();
            let received = next.recv(Source::Any, Box::new([0; 8])).unwrap();
            writer.inject(to_next, &[5; 8]).unwrap();
            let done = peers.wait(received, Spins(10)).unwrap().expect("it is there");
            assert_eq!(done.result().unwrap().len, 8);
        }
    });
}

fn with_lanes(lanes: u16, test: impl FnOnce(&Queue, &Queue, &Av<'static, Soft<'static>>)) {
    let attr = NetworkAttr { endpoints: 4, tx_depth: 8, rx_depth: 8, eager_size: 64, lanes, ..NetworkAttr::DEFAULT };
    let network = Network::new(attr).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let queue = || Queue::open(&domain, CqAttr::new(16)).unwrap();
    test(&queue(), &queue(), &Av::open(&domain, 16).unwrap());
}

fn talk(from: &Side, to: &Side, (into, av): (&Queue, &Av<'static, Soft<'static>>), messages: u32) -> bool {
    let peer = av.insert(&to.address().unwrap()).unwrap();
    for _ in 0..messages {
        let key = to.recv(Source::Any, Box::new([0; 8])).unwrap();
        from.inject(peer, &[5; 8]).unwrap();
        assert_eq!(into.finish(key, Spins(100)).unwrap().result().unwrap().len, 8);
    }
    let address = to.raw().port().own().addr.get();
    from.raw().port().own().routes.lane_to(address).is_some()
}

#[test]
fn endpoint_has_a_lane_to_a_peer_that_it_talks_to() {
    with_lanes(2, |one, other, av| {
        let (from, to) = (one.endpoint(av).unwrap(), other.endpoint(av).unwrap());
        assert!(!talk(&from, &to, (other, av), 16));
        assert!(talk(&from, &to, (other, av), 48));
    });
    with_lanes(0, |one, other, av| {
        let (from, to) = (one.endpoint(av).unwrap(), other.endpoint(av).unwrap());
        assert!(!talk(&from, &to, (other, av), 200), "there are none");
    });
}

#[test]
fn lane_that_is_not_used_any_more_goes_to_a_peer_that_is_talked_to() {
    with_lanes(1, |one, other, av| {
        let from = one.endpoint(av).unwrap();
        let peers = [0; 3].map(|_| other.endpoint(av).unwrap());
        for _ in 0..5 {
            for peer in &peers {
                assert!(talk(&from, peer, (other, av), 200));
            }
            assert!(!talk(&from, &peers[0], (other, av), 0), "it has one lane");
        }
    });
}

#[test]
fn write_with_data_fails_if_its_peer_closes_before_the_news_go_by_their_lane() {
    with_lanes(2, |one, other, av| {
        let from = one.endpoint(av).unwrap();
        let queue = from.raw().port().own().tx();
        for round in 0..100 {
            let context = (round % 2 == 0).then_some(round);
            let peer = other.endpoint(av).unwrap();
            assert!(talk(&from, &peer, (other, av), 100));
            let result = write_data_to_a_peer_that_closes(&from, peer, context);
            match context {
                None => assert!(matches!(result, Err(Refusal::Errno(Errno::EHOSTUNREACH)))),
                Some(_) => assert_eq!(queue.pop().unwrap().errno, Errno::EHOSTUNREACH),
            }
            assert!(queue.pop().is_none());
        }
    });
}

#[test]
fn news_of_writes_keep_their_order_among_messages() {
    with_lanes(2, |one, other, av| {
        let (from, to) = (one.endpoint(av).unwrap(), other.endpoint(av).unwrap());
        assert!(talk(&from, &to, (other, av), 100));
        let (raw, address) = (from.raw(), to.raw().port().own().addr.get());
        let peer = av.insert(&to.address().unwrap()).unwrap();
        for round in 0..50 {
            let is_message = |number| number % 3 == round % 3 && number < 6;
            for number in 0..12 {
                let data = ImmediateData(number);
                if is_message(number) {
                    to.recv(Source::Any, Box::new([0; 8])).unwrap();
                    from.inject_data(peer, data, &[7]).unwrap();
                } else {
                    write_by(&raw.net, raw.port(), (address, 9), Some(data), (None, None), || Ok(())).unwrap();
                }
            }
            for number in 0..12 {
                let (data, message) = match other.poll().unwrap() {
                    Some(Completion::Op(op)) => (op.result().unwrap().data, true),
                    Some(Completion::Remote(event)) => {
                        assert_eq!(event.len, 9);
                        (event.data(), false)
                    }
                    nothing => panic!("{nothing:?}"),
                };
                assert_eq!((data, message), (Some(ImmediateData(number)), is_message(number)), "round {round}");
            }
        }
    });
}

#[test]
fn endpoint_has_lanes_to_peers_that_it_talks_to_in_turn() {
    with_lanes(3, |one, other, av| {
        let from = one.endpoint(av).unwrap();
        let peers = [0; 3].map(|_| other.endpoint(av).unwrap());
        for _ in 0..100 {
            for peer in &peers {
                talk(&from, peer, (other, av), 1);
            }
        }
        assert_eq!(peers.each_ref().map(|peer| talk(&from, peer, (other, av), 0)), [true; 3]);
    });
}

#[test]
fn lane_goes_to_a_peer_that_is_talked_to_though_another_is_not_given_back() {
    with_lanes(2, |one, other, av| {
        let (from, silent) = (one.endpoint(av).unwrap(), one.endpoint(av).unwrap());
        let (busy, next) = (other.endpoint(av).unwrap(), other.endpoint(av).unwrap());
        assert!(talk(&from, &busy, (other, av), 200) && talk(&from, &silent, (one, av), 200));
        for _ in 0..20 {
            assert!(talk(&from, &busy, (other, av), 16) && !talk(&from, &next, (other, av), 16));
        }
        assert!(talk(&from, &next, (other, av), 200), "the busy one is quiet now");
    });
}

#[test]
fn lanes_come_back_from_endpoints_that_close() {
    with_lanes(2, |one, other, av| {
        let (mut from, mut to) = (one.endpoint(av).unwrap(), other.endpoint(av).unwrap());
        for messages in (30..70).chain(30..70) {
            talk(&from, &to, (other, av), messages);
            if messages % 2 == 0 {
                from = one.endpoint(av).unwrap();
            } else {
                to = other.endpoint(av).unwrap();
            }
            assert!(one.poll().unwrap().is_none() && other.poll().unwrap().is_none());
        }
        assert!(talk(&from, &to, (other, av), 100));
        let net = from.raw().net;
        let (from_place, to_place) = (from.raw().port().own().index, to.raw().port().own().index);
        assert!(!net.port(from_place).own().routes.are_idle());
        drop((from, to));
        for place in 0..4 {
            let idle = net.port(place).own().routes.are_idle();
            assert!(idle, "place {place}; the last were {from_place} and {to_place}");
        }
    });
}
