//! A tagged send, and a query for messages without tags.

use loom_core::soft::Soft;
use loom_core::{Peer, Tag};
use loom_static::OnlyEndpoint;
use loom_static::protocol::TaggedSend;
use loom_static::query::{Messages, Rdm};

type Wanted = (Messages, Rdm);

fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
    endpoint.tagged_send(peer, Tag(7), vec![0; 8]).unwrap();
}

fn main() {}
