//! A group of members, and a query for messages.

use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::address_table::AddressSet;
use loom_core::soft::Soft;
use loom_static::OnlyEndpoint;
use loom_static::query::{Messages, Rdm};

type Wanted = (Messages, Rdm);

fn join(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, members: &AddressSet<Global>) {
    endpoint.join_collective(members).unwrap();
}

fn main() {}
