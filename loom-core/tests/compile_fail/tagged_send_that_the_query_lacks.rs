//! A tagged send, and a query for messages without tags.

use loom_core::endpoint::OnlyEndpoint;
use loom_core::query::{Messages, Rdm};
use loom_core::soft::Soft;
use loom_core::{Peer, Tag};

type Wanted = (Messages, Rdm);

fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
    endpoint.tagged_send(peer, Tag(7), vec![0; 8]).unwrap();
}

fn main() {}
