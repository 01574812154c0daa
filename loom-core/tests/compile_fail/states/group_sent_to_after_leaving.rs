//! A message to a multicast group that the endpoint has left.

use loom_core::endpoint::MulticastGroup;
use loom_core::transport::Multicast;

fn late<T: Multicast>(group: MulticastGroup<'_, T, &'static [u8]>) {
    group.leave().unwrap();
    group.send_with(Default::default(), b"too late").unwrap();
}

fn main() {}
