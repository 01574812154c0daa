//! The bytes of a piece that are read after it was dropped, when its buffer may be somebody else's.

use loom_core::completion::Completion;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let cq = Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap();
    if let Some(Completion::Piece(piece)) = cq.poll().unwrap() {
        let bytes = piece.bytes();
        drop(piece);
        assert!(bytes.is_empty());
    }
}
