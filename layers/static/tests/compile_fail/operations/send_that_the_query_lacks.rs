//! A message without tag, and a query for tagged messages.

use loom_core::Peer;
use loom_core::soft::Soft;
use loom_static::OnlyEndpoint;
use loom_static::protocol::MsgSend;
use loom_static::query::{Rdm, Tagged};

type Wanted = (Rdm, Tagged);

fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
    endpoint.send(peer, vec![0; 8]).unwrap();
}

fn main() {}
