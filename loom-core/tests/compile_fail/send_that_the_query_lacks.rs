//! A message without tag, and a query for tagged messages.

use loom_core::endpoint::OnlyEndpoint;
use loom_core::query::{Rdm, Tagged};
use loom_core::Peer;
use loom_core::soft::Soft;

type Wanted = (Rdm, Tagged);

fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
    endpoint.send(peer, vec![0; 8]).unwrap();
}

fn main() {}
