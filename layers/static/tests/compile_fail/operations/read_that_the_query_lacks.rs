//! A read, and a query for writes.

use loom_core::soft::Soft;
use loom_core::{Peer, RemoteRegion};
use loom_static::OnlyEndpoint;
use loom_static::protocol::RmaRead;
use loom_static::query::{Rdm, Writes};

type Wanted = (Rdm, Writes);

fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion) {
    endpoint.read(peer, region, 0, vec![0; 8]).unwrap();
}

fn main() {}
