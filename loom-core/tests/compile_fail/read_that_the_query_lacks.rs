//! A read, and a query for writes.

use loom_core::endpoint::OnlyEndpoint;
use loom_core::query::{Rdm, Writes};
use loom_core::soft::Soft;
use loom_core::{Peer, RemoteRegion};

type Wanted = (Rdm, Writes);

fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion) {
    endpoint.read(peer, region, 0, vec![0; 8]).unwrap();
}

fn main() {}
