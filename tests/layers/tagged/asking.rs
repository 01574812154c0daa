//! Requirements of the transport on packets (contexts, registered buffers, prefixes), and the
//! source of packets.

use std::iter;
use std::panic::{self, AssertUnwindSafe};

use loom_core::av::Av;
use loom_core::buffer::Prefixed;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::error::PostError;
use loom_core::registered::Registered;
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};
use loom_core::vocabulary::Tag;
use loom_tagged::{LinkError, Packet, Source, TaggedEndpoint, WithPeer};

use super::world::nodes::{Buf, SMALL, packets, pattern, room};

/// Sends a long message over a network with this requirement. Packets that are too short are
/// refused.
macro_rules! over {
    ($asks:expr, $P:ty, |$domain:ident, $bytes:ident| $packet:expr) => {{
        let network = Network::new(NetworkAttr::DEFAULT).unwrap();
        let $domain = &Domain::open(&network.info_requiring($asks)).unwrap();
        let av = Av::open($domain, 2).unwrap();
        let [alice, bob] = [(); 2].map(|()| Cq::<_, Packet<$P>>::open($domain, CqAttr::new(64)).unwrap());
        let ends = [&alice, &bob].map(|cq| cq.endpoint(&av).unwrap());
        let peers = [0, 1].map(|at: usize| av.insert(&ends[at].address().unwrap()).unwrap());
        let packets = |len: usize| {
            (0..SMALL.packets_per_link()).map(move |_| {
                let $bytes = vec![0; len];
                $packet
            })
        };
        let size = SMALL.packet_size as usize;
        let mut a = TaggedEndpoint::<_, Vec<u8>, _>::open(alice, SMALL).unwrap();
        let mut b = TaggedEndpoint::<_, Vec<u8>, _>::open(bob, SMALL).unwrap();
        let refused = a.add_link(WithPeer::new(&ends[0], peers[1]), packets(size - 1));
        assert_eq!(refused, Err(LinkError::Packet));
        let refused = a.add_link(WithPeer::new(&ends[0], peers[1]), packets(size).skip(1));
        assert_eq!(refused, Err(LinkError::TooFewPackets { needed: SMALL.packets_per_link() }));
        let refused = a.add_link(WithPeer::new(&ends[1], peers[0]), packets(size));
        assert_eq!(refused, Err(LinkError::OtherQueue));
        let link = a.add_link(WithPeer::new(&ends[0], peers[1]), packets(size)).unwrap();
        b.add_link(WithPeer::new(&ends[1], peers[0]), packets(size)).unwrap();
        let refused = a.add_link(WithPeer::new(&ends[0], peers[1]), packets(size));
        assert_eq!(refused, Err(LinkError::TooMany));
        for _ in 0..4 {
            a.progress().unwrap();
            b.progress().unwrap();
        }
        assert!(a.is_up(link));
        for len in [5, 5000] {
            a.tagged_send(link, Tag(1), pattern(len, len)).unwrap();
            let received = b.tagged_recv(Source::Any, Tag(1), room(len)).unwrap();
            let done = (0..1000).find_map(|_| {
                a.progress().unwrap();
                b.wait(received, Spins(0)).unwrap()
            });
            assert_eq!(done.expect("it arrives").into_buf(), pattern(len, len));
        }
    }};
}

#[test]
fn packets_are_buffers_that_the_transport_requires() {
    let nothing = RequiredModes::empty();
    over!(nothing, Vec<u8>, |_domain, bytes| bytes);
    over!(RequiredModes::LARGE_CONTEXTS, Vec<u8>, |_domain, bytes| bytes);
    over!(RequiredModes::LOCAL_REGISTRATION, Registered<'_, Soft<'_>, Vec<u8>>, |domain, bytes| {
        Registered::new(domain, bytes).map_err(|refused| refused.error).unwrap()
    });
    over!(RequiredModes::PREFIXES, Prefixed<Vec<u8>>, |_domain, bytes| Prefixed {
        buf: [vec![0; 64], bytes].concat(),
        room: 64
    });
}

#[test]
fn a_queue_without_room_for_all_packets_refuses_a_link_at_once() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 1).unwrap();
    let cq = Cq::<_, Packet<Buf>>::open(&domain, CqAttr::new(7)).unwrap();
    let end = cq.endpoint(&av).unwrap();
    let peer = av.insert(&end.address().unwrap()).unwrap();
    let mut layer = TaggedEndpoint::<_, Vec<u8>, _>::open(cq, SMALL).unwrap();
    // A refused link does not count.
    for _ in 0..=SMALL.links {
        let added = layer.add_link(WithPeer::new(&end, peer), packets(&SMALL));
        assert_eq!(added, Err(LinkError::Post(PostError::Full)));
    }
    assert!(layer.poll().unwrap().is_none());
}

/// Packets taken before the panic belong to a link that never opened, so their completions would go
/// unreported.
#[test]
fn packets_of_an_iterator_that_panics_are_not_used_for_another_link() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let [alice, bob] = [(); 2].map(|()| Cq::<_, Packet<Buf>>::open(&domain, CqAttr::new(64)).unwrap());
    let ends = [&alice, &bob].map(|cq| cq.endpoint(&av).unwrap());
    let peers = [0, 1].map(|at: usize| av.insert(&ends[at].address().unwrap()).unwrap());
    let [mut a, mut b] = [alice, bob].map(|cq| TaggedEndpoint::<_, Vec<u8>, _>::open(cq, SMALL).unwrap());
    for given in [1, SMALL.sends as usize, SMALL.packets_per_link() - 1] {
        let broken = packets(&SMALL).take(given).chain(iter::from_fn(|| panic!("there are no more")));
        let link = || a.add_link(WithPeer::new(&ends[0], peers[1]), broken);
        assert!(panic::catch_unwind(AssertUnwindSafe(link)).is_err());
    }
    let link = a.add_link(WithPeer::new(&ends[0], peers[1]), packets(&SMALL)).unwrap();
    b.add_link(WithPeer::new(&ends[1], peers[0]), packets(&SMALL)).unwrap();
    for _ in 0..4 {
        a.progress().unwrap();
        b.progress().unwrap();
    }
    for len in [5, 5000] {
        let sent = a.tagged_send(link, Tag(1), pattern(len, len)).unwrap();
        b.tagged_recv(Source::Any, Tag(1), room(len)).unwrap();
        let done = (0..1000).find_map(|_| {
            b.progress().unwrap();
            a.wait(sent, Spins(0)).unwrap()
        });
        assert_eq!(done.expect("it ends").result().unwrap().len, len);
    }
}
