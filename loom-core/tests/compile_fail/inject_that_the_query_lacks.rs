//! An injected message, and a query that does not ask to inject.

use loom_core::endpoint::OnlyEndpoint;
use loom_core::query::{Messages, Rdm};
use loom_core::Peer;
use loom_core::soft::Soft;

type Wanted = (Messages, Rdm);

fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
    endpoint.inject(peer, b"copied").unwrap();
}

fn main() {}
