//! A receive of many tagged messages, and a query for receives of many messages without tags.

use loom_core::Source;
use loom_core::soft::Soft;
use loom_core::vocabulary::Tag;
use loom_static::OnlyEndpoint;
use loom_static::query::{Messages, MultiRecvs, Rdm, Tagged};

type Wanted = (Messages, Rdm, Tagged, MultiRecvs);

fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>) {
    endpoint.tagged_multi_recv(Source::Any, Tag(7), vec![0; 800]).unwrap();
}

fn main() {}
