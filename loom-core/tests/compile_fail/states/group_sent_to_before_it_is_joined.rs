//! A message to a multicast group that the endpoint is not in yet.

use loom_core::endpoint::{Joining, MulticastGroup};
use loom_core::transport::Multicast;

fn early<T: Multicast>(group: MulticastGroup<'_, T, &'static [u8], Joining>) {
    group.send_with(Default::default(), b"too early").unwrap();
}

fn main() {}
