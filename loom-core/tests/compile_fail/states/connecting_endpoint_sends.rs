//! An endpoint that sends before it is connected.

use loom_core::endpoint::{Connecting, MsgEndpoint};
use loom_core::transport::Connected;

fn early<T: Connected>(endpoint: MsgEndpoint<'_, T, &'static [u8], Connecting>) {
    endpoint.send(b"too early").unwrap();
}

fn main() {}
