//! A receive of many tagged messages, and a query for receives of many messages without tags.

use loom_core::endpoint::OnlyEndpoint;
use loom_core::query::{Messages, MultiRecvs, Rdm, Tagged};
use loom_core::soft::Soft;
use loom_core::vocabulary::Tag;
use loom_core::Source;

type Wanted = (Messages, Rdm, Tagged, MultiRecvs);

fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>) {
    endpoint.tagged_multi_recv(Source::Any, Tag(7), vec![0; 800]).unwrap();
}

fn main() {}
