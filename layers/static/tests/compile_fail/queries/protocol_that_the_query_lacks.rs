//! Generic code that requires tagged messages, and an endpoint with another query.

use loom_core::soft::Soft;
use loom_core::{Peer, Tag};
use loom_static::OnlyEndpoint;
use loom_static::protocol::TaggedSend;
use loom_static::query::{Messages, Rdm};

type Wanted = (Messages, Rdm);

fn announce<P: TaggedSend<Buf = Vec<u8>>>(protocol: &mut P, to: P::To) {
    protocol.tagged_send(to, Tag(7), vec![0; 8]).unwrap();
}

fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
    announce(endpoint, peer);
}

fn main() {}
