//! A connection, and a query for an endpoint without one.

use loom_core::MsgEndpoint;
use loom_core::query::{Messages, Rdm};
use loom_core::transport::Connected;

type Wanted = (Messages, Rdm);

fn narrow<T: Connected>(endpoint: &MsgEndpoint<'_, T, &'static [u8]>) {
    endpoint.only::<Wanted>().unwrap();
}

fn main() {}
