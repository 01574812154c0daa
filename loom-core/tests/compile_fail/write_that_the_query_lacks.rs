//! A write, and a query for reads.

use loom_core::endpoint::OnlyEndpoint;
use loom_core::query::{Rdm, Reads};
use loom_core::soft::Soft;
use loom_core::{Peer, RemoteRegion};

type Wanted = (Rdm, Reads);

fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion) {
    endpoint.write(peer, region, 0, vec![0; 8]).unwrap();
}

fn main() {}
