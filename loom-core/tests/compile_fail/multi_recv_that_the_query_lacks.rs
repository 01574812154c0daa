//! A receive of many messages, and a query for messages.

use loom_core::endpoint::OnlyEndpoint;
use loom_core::query::{Messages, Rdm};
use loom_core::Source;
use loom_core::soft::Soft;

type Wanted = (Messages, Rdm);

fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>) {
    endpoint.multi_recv(Source::Any, vec![0; 800]).unwrap();
}

fn main() {}
