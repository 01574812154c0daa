//! A connection, and a query for an endpoint without one.

use loom_core::MsgEndpoint;
use loom_core::transport::Connected;
use loom_static::query::{Messages, Query, Rdm};

type Wanted = (Messages, Rdm);

fn narrow<T: Connected>(endpoint: &MsgEndpoint<'_, T, &'static [u8]>) {
    <Wanted as Query>::only(endpoint).unwrap();
}

fn main() {}
