//! Endpoints of the software transport that share a queue take turns.

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::Tag;

type Bytes = Box<[u8]>;

/// Messages to the busy endpoint: more than one turn.
const FLOOD: usize = 60;

/// Returns the tags that a queue receives, in order, until it is empty.
fn received(cq: &Cq<'_, Soft<'_>, Bytes>) -> Vec<u64> {
    let mut tags = Vec::new();
    while let Some(Completion::Op(done)) = cq.poll().unwrap() {
        tags.extend(done.result().unwrap().tag.map(|tag| tag.0));
    }
    tags
}

#[test]
fn a_busy_endpoint_leaves_the_others_their_turn() {
    for flooded in [0, 1, 2] {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 8).unwrap();
        let [receivers, senders] = [(); 2].map(|()| Cq::<_, Bytes>::open(&domain, CqAttr::new(256)).unwrap());
        let sender = senders.endpoint(&av).unwrap();
        let endpoints = [(); 3].map(|()| receivers.endpoint(&av).unwrap());
        let peers = [0, 1, 2].map(|at: usize| av.insert(&endpoints[at].address().unwrap()).unwrap());
        for (at, endpoint) in endpoints.iter().enumerate() {
            let count = if at == flooded { FLOOD } else { 1 };
            for _ in 0..count {
                endpoint.tagged_recv(Source::Any, Tag(at as u64), vec![0; 8].into()).unwrap();
                sender.tagged_send(peers[at], Tag(at as u64), vec![1; 8].into()).unwrap();
            }
        }
        let tags = received(&receivers);
        assert_eq!(tags.len(), FLOOD + 2, "everything arrives");
        for other in (0..3).filter(|other| *other != flooded) {
            let at = tags.iter().position(|tag| *tag == other as u64).unwrap();
            assert!(at < FLOOD / 2, "{other} had to wait for {at} messages of {flooded}");
        }
    }
}

#[test]
fn refused_senders_find_every_cell_that_comes_home() {
    const DEPTH: u32 = 256;
    let network = Network::new(NetworkAttr { tx_depth: DEPTH, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::<_, Bytes>::open(&domain, CqAttr::new(1024)).unwrap();
    let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let send = |tag| a.tagged_send(to_b, Tag(tag), vec![0; 8].into());
    for tag in 0..DEPTH {
        send(tag.into()).unwrap();
    }
    while cq.poll().unwrap().is_some() {}
    assert!(send(0).unwrap_err().error.is_transient(), "all cells are kept by unexpected messages");
    // A cell in the middle returns. A few tries find it from any position of the search.
    for tag in [200, 3, 130] {
        let key = b.tagged_recv(Source::Any, Tag(tag), vec![0; 8].into()).unwrap();
        let tries = (1..=DEPTH).find(|_| send(1 << 20).is_ok());
        assert!(tries.is_some_and(|tries| tries <= DEPTH / 32), "{tries:?}");
        while let Some(completion) = cq.poll().unwrap() {
            let Completion::Op(done) = completion else { panic!("{completion:?}") };
            assert!(done.result().is_ok() || done.key() == key);
        }
    }
}
