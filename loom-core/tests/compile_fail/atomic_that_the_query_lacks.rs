//! An atomic operation, and a query for messages.

use loom_core::endpoint::OnlyEndpoint;
use loom_core::query::{Messages, Rdm};
use loom_core::atomic::FetchOp;
use loom_core::granted::Granted;
use loom_core::soft::Soft;
use loom_core::{Peer, RemoteRegion};

type Wanted = (Messages, Rdm);

fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion, add: Granted<FetchOp<u64>>) {
    endpoint.fetch_value(peer, region, 0, add, 1).unwrap();
}

fn main() {}
