//! Tagged messages over plain ones (`loom_tagged`) between connectionless endpoints, which receive
//! from one peer at a time.

use std::time::Instant;

use loom_core::av::Av;
use loom_core::completion::Transfer;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, EndpointType, ImmediateData, Tag, TagMatch};
use loom_tagged::{LinkError, LinkId, Packet, Source, TaggedAttr, TaggedEndpoint, TaggedKey, WithPeer};

use crate::behaviours::needs::{Behaviour, MSG};
use crate::behaviours::pair::{Bytes, OrCut, limit, pattern, room};
use crate::memory::{Memory, allocator};

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![("tags_over_plain_messages_of_one_peer_each", MSG, tags_over_plain_messages_of_one_peer_each)]
}

type Layer<'d, T> = TaggedEndpoint<WithPeer<'d, T, Bytes>, Bytes, Memory>;

const ATTR: TaggedAttr =
    TaggedAttr { links: 2, packet_size: 1024, messages: 8, control: 8, sends: 8, ..TaggedAttr::DEFAULT };

fn packets() -> impl Iterator<Item = Bytes> {
    (0..ATTR.packets_per_link()).map(|_| room(ATTR.packet_size as usize))
}

/// Waits for an operation of one layer, while the others continue.
fn end<T: Transport + 'static>(layers: &mut [Layer<'_, T>; 3], at: usize, key: TaggedKey) -> (Bytes, Transfer) {
    let mut deadline = limit();
    while !deadline.passed() {
        for layer in layers.iter_mut() {
            layer.progress().or_cut("the queue works");
        }
        if let Some(done) = layers[at].wait(key, Instant::now()).or_cut("the queue works") {
            let (bytes, result) = done.into_parts();
            return (bytes, result.or_cut("it succeeds"));
        }
    }
    panic!("an operation of {at} has not ended");
}

/// Checks an endpoint with two peers, and a link to each.
fn tags_over_plain_messages_of_one_peer_each<T: Transport + 'static>(info: &Info<T>) {
    if info.attributes().endpoint.kind == EndpointType::DGRAM {
        return crate::report::not_run("Datagrams may be lost, so they carry no tags over plain messages");
    }
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 4, allocator()).expect("address vector");
    let queues =
        [(); 3].map(|()| Cq::<T, Packet<Bytes>>::open_in(&domain, CqAttr::new(128), allocator()).expect("queue"));
    let ends = [0, 1, 2].map(|at: usize| queues[at].endpoint(&av).expect("endpoint"));
    let peers = [0, 1, 2].map(|at: usize| av.insert(&ends[at].address().expect("address")).expect("a peer"));
    let mut layers =
        [0, 1, 2].map(|at: usize| Layer::<T>::open_in(queues[at].clone(), ATTR, allocator()).expect("an endpoint"));
    if !info.caps().contains(Caps::DIRECTED_RECV) || !T::quirks(info.raw()).directed_recv {
        crate::report::not_granted();
        let refused = layers[0].add_link(WithPeer::new(&ends[0], peers[1]), packets());
        assert_eq!(refused, Err(LinkError::Post(PostError::NotGranted(Caps::DIRECTED_RECV))));
        return;
    }
    let mut add = |at: usize, peer: usize| {
        let added = layers[at].add_link(WithPeer::new(&ends[at], peers[peer]), packets());
        let refused = |error| if let LinkError::Post(error) = error { error } else { panic!("a link: {error:?}") };
        added.map_err(refused).or_cut("a link")
    };
    let [to_b, to_c] = [add(0, 1), add(0, 2)];
    let [_, _] = [add(1, 0), add(2, 0)];
    let mut deadline = limit();
    while !(layers[0].is_up(to_b) && layers[0].is_up(to_c) && layers[1].is_up(to_b) && layers[2].is_up(to_b)) {
        assert!(!deadline.passed(), "no greeting");
        for layer in &mut layers {
            layer.progress().or_cut("the queue works");
        }
    }
    let mut send = |layers: &mut [Layer<'_, T>; 3], at: usize, to: LinkId, tag: u64, mut buf: Bytes| loop {
        match layers[at].tagged_send_data(to, Tag(tag), ImmediateData(tag), buf) {
            Ok(key) => return key,
            Err(rejected) => {
                if !rejected.error.is_transient() || deadline.passed() {
                    Err(rejected.error).or_cut("it is not sent")
                }
                buf = rejected.value;
                for layer in layers.iter_mut() {
                    layer.progress().or_cut("the queue works");
                }
            }
        }
    };
    let fits = ATTR.eager_size();
    for (seed, len) in [0, 8, fits, fits + 1, 30_000].into_iter().enumerate() {
        // From one of them, by tag, then from any, by mask, and in the other direction.
        let of_c =
            layers[0].tagged_recv(to_c, TagMatch::ANY, room(len)).map_err(|rejected| rejected.error).or_cut("posts");
        let any = layers[0]
            .tagged_recv(Source::Any, TagMatch { tag: Tag(0x10), ignore: 0xf }, room(len))
            .map_err(|rejected| rejected.error)
            .or_cut("posts");
        let sent_b = send(&mut layers, 1, to_b, 0x1b, pattern(len, seed));
        let sent_c = send(&mut layers, 2, to_b, 0x1c, pattern(len, seed + 50));
        let (bytes, transfer) = end(&mut layers, 0, of_c);
        assert_eq!((transfer.len, transfer.tag), (len, Some(Tag(0x1c))));
        assert!(bytes == pattern(len, seed + 50));
        let (bytes, transfer) = end(&mut layers, 0, any);
        assert_eq!((transfer.len, transfer.data), (len, Some(ImmediateData(0x1b))));
        assert!(bytes == pattern(len, seed));
        let back = send(&mut layers, 0, to_c, 7, pattern(len, seed));
        let received =
            layers[2].tagged_recv(Source::Any, Tag(7), room(len)).map_err(|rejected| rejected.error).or_cut("posts");
        assert!(end(&mut layers, 2, received).0 == pattern(len, seed));
        for (at, key) in [(1, sent_b), (2, sent_c), (0, back)] {
            end(&mut layers, at, key);
        }
    }
}
