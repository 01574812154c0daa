//! Protocols over the software transport, also over a strict one.

use loom_core::atomic::{CompareOp, FetchOp};
use loom_core::deadline::{Deadline, Spins};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::Caps;
use loom_core::{Access, Av, Cq, CqAttr, Domain, Endpoint, Hints, Info, Mr, Peer};
use loom_fabric::loom_core;
use loom_tagged::{Packet, TaggedAttr, TaggedEndpoint, WithPeer};

use crate::protocols::example::{self, Program as _};
use crate::protocols::framed::Framed;
use crate::protocols::generic::{self, Bytes};
use support::posting::Limit;

type End = Endpoint<'static, Soft<'static>, Bytes>;

fn infos() -> [Info<Soft<'static>>; 2] {
    [false, true].map(|strict| {
        let network = Network::new(NetworkAttr { strict, ..NetworkAttr::DEFAULT }).unwrap();
        let caps = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC;
        network.query(&Hints { caps, ..Hints::default() }).unwrap()
    })
}

fn ends(info: &Info<Soft<'static>>) -> (Domain<'static, Soft<'static>>, End, End, Peer) {
    let domain = Domain::open(info).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, CqAttr::new(64)).unwrap());
    let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    (domain, a, b, to_b)
}

#[test]
fn endpoints_have_every_protocol() {
    for info in infos() {
        let (domain, mut a, mut b, to_b) = ends(&info);
        generic::messages((&mut a, to_b), &mut b, true);
        generic::tagged((&mut a, to_b), &mut b);
        generic::injected((&mut a, to_b), &mut b);
        generic::tagged_injected((&mut a, to_b), &mut b);
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open(&domain, vec![0; 5000], access).unwrap();
        generic::remote_memory((&mut a, to_b), &mut b, &region.remote());
        let words = Mr::open(&domain, vec![0; 128], access).unwrap();
        let offset = words.window().as_ptr().align_offset(8) as u64;
        let ops =
            (domain.query_atomic(FetchOp::<u64>::SUM).unwrap(), domain.query_atomic(CompareOp::<u64>::CSWAP).unwrap());
        generic::atomics((&mut a, to_b), &mut b, (&words.remote(), offset), ops);
    }
}

#[test]
fn frames_travel_over_endpoints_and_over_frames() {
    for info in infos() {
        let (_domain, a, b, to_b) = ends(&info);
        let (mut a, mut b) = (Framed::new(a, 1 << 16), Framed::new(b, 1 << 16));
        generic::messages((&mut a, to_b), &mut b, true);
        generic::tagged((&mut a, to_b), &mut b);
        generic::injected((&mut a, to_b), &mut b);
        let (mut a, mut b) = (Framed::new(a, 1 << 15), Framed::new(b, 1 << 15));
        generic::messages((&mut a, to_b), &mut b, true);
        generic::tagged((&mut a, to_b), &mut b);
    }
}

#[test]
fn tagged_messages_of_a_carrier_are_a_protocol_and_carry_frames() {
    // Not strict, because links need directed receives.
    let network = Network::new(NetworkAttr { strict: false, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let queues = [(); 2].map(|()| Cq::<Soft<'_>, Packet<Bytes>>::open(&domain, 128).unwrap());
    let carriers = queues.each_ref().map(|cq| cq.endpoint(&av).unwrap());
    let peers = carriers.each_ref().map(|end| av.insert(&end.address().unwrap()).unwrap());
    let attr = TaggedAttr::DEFAULT;
    let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
    let [mut a, mut b] = queues.map(|queue| TaggedEndpoint::<_, Bytes, _>::open(queue, attr).unwrap());
    let to_b = a.add_link(WithPeer::new(&carriers[0], peers[1]), packets()).unwrap();
    b.add_link(WithPeer::new(&carriers[1], peers[0]), packets()).unwrap();
    let mut limit = Limit::new();
    while !a.is_up(to_b) {
        assert!(!limit.passed() && a.link_error(to_b).is_none(), "the link comes up");
        a.progress().unwrap();
        b.progress().unwrap();
    }
    generic::tagged((&mut a, to_b), &mut b);
    generic::tagged_injected((&mut a, to_b), &mut b);
    generic::tagged((&mut Framed::new(a, 1 << 16), to_b), &mut Framed::new(b, 1 << 16));
}

#[test]
fn an_operation_that_is_not_over_stays_in_flight() {
    use loom_core::cq::CqError;
    use loom_static::protocol::{Completes, MsgRecv, MsgSend, Receiver};

    let [info, _] = infos();
    let (_domain, mut a, mut b, to_b) = ends(&info);
    let key = MsgRecv::recv(&mut b, End::ANY, vec![0; 8]).unwrap();
    assert!(Completes::wait(&mut b, key, Spins(5)).unwrap().is_none());
    let sent = MsgSend::send(&mut a, to_b, vec![5; 8]).unwrap();
    assert_eq!(generic::outcome(&mut b, &mut a, key).buf, [5; 8]);
    assert_eq!(generic::outcome(&mut a, &mut b, sent).buf, [5; 8]);
    assert_eq!(Completes::wait(&mut b, key, Spins(5)).unwrap_err(), CqError::UnknownKey);
}

#[test]
fn the_example_gives_its_documented_result() {
    for info in infos() {
        check(&example::Frames.run(&info).unwrap());
    }
}

/// Checks the lines of the example.
pub(crate) fn check(lines: &str) {
    let expected = "a frame: hello\n\
                    a damaged frame: the frame has another checksum than it states\n\
                    a long message: a frame takes at most 64 bytes\n";
    assert_eq!(lines, expected);
}
