//! The event that proves a connection cannot be changed into that of another endpoint.

use loom_core::eq::ConnectedEvent;
use loom_core::transport::connected::Fid;

fn forged(mut event: ConnectedEvent, other: Fid) {
    event.endpoint = other;
}

fn main() {}
