//! A receive of many messages, and a query for messages.

use loom_core::Source;
use loom_core::soft::Soft;
use loom_static::OnlyEndpoint;
use loom_static::query::{Messages, Rdm};

type Wanted = (Messages, Rdm);

fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>) {
    endpoint.multi_recv(Source::Any, vec![0; 800]).unwrap();
}

fn main() {}
