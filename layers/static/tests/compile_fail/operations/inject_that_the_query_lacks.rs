//! An injected message, and a query without inject.

use loom_core::Peer;
use loom_core::soft::Soft;
use loom_static::OnlyEndpoint;
use loom_static::protocol::Inject;
use loom_static::query::{Messages, Rdm};

type Wanted = (Messages, Rdm);

fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
    endpoint.inject(peer, b"copied").unwrap();
}

fn main() {}
