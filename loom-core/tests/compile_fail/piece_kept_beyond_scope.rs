//! A piece of a multi-receive that is carried out of its queue's scope.

use loom_core::completion::Completion;
use loom_core::objects::cq::{self, Cq, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::soft::{Network, NetworkAttr, Soft};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let piece = cq::scope(&domain, CqAttr::<4>::new(), |cq: &Cq<'_, Soft<'_>, Box<[u8]>>| match cq.poll().unwrap() {
        Some(Completion::Piece(piece)) => Some(piece),
        _ => None,
    });
    assert!(piece.unwrap().is_none());
}
