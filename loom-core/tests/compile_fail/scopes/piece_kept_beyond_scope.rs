//! A piece of a multi-receive that is carried out of its queue's scope.

use loom_core::completion::Completion;
use loom_core::cq::Cq;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let piece = scope(|s| {
        let domain = s.open(&network.info()).unwrap();
        let cq = Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap();
        match cq.poll().unwrap() {
            Some(Completion::Piece(piece)) => Some(piece),
            _ => None,
        }
    });
    assert!(piece.is_none());
}
