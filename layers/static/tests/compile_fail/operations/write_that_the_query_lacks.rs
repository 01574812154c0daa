//! A write, and a query for reads.

use loom_core::soft::Soft;
use loom_core::{Peer, RemoteRegion};
use loom_static::OnlyEndpoint;
use loom_static::protocol::RmaWrite;
use loom_static::query::{Rdm, Reads};

type Wanted = (Rdm, Reads);

fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion) {
    endpoint.write(peer, region, 0, vec![0; 8]).unwrap();
}

fn main() {}
