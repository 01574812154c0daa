//! An atomic operation, and a query for messages.

use loom_core::atomic::FetchOp;
use loom_core::endpoint::Granted;
use loom_core::soft::Soft;
use loom_core::{Peer, RemoteRegion};
use loom_static::OnlyEndpoint;
use loom_static::protocol::Atomics;
use loom_static::query::{Messages, Rdm};

type Wanted = (Messages, Rdm);

fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion, add: Granted<FetchOp<u64>>) {
    endpoint.fetch_value(peer, region, 0, add, 1).unwrap();
}

fn main() {}
