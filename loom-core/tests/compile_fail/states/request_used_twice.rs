//! A connection request that is rejected twice.

use loom_core::eq::ConnectionRequest;
use loom_core::transport::Connected;

fn twice<T: Connected>(request: ConnectionRequest<'_, T>) {
    request.reject(b"no").unwrap();
    request.reject(b"no").unwrap();
}

fn main() {}
