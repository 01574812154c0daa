//! Peeks at tagged messages over a connection, before their receives.

use std::time::Instant;

use loom_core::completion::Found;
use loom_core::endpoint::ThePeer;
use loom_core::engine::op_table::OpKey;
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::vocabulary::{Caps, Tag, TagMatch};

use super::Case;
use super::sides::{LIMIT, Sides, T, pattern, room, with_sides};

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![("a_peek_finds_claims_and_discards_over_a_connection", a_peek_finds_claims_and_discards_over_a_connection)]
}

fn answer(sides: &Sides<'_, '_>, key: OpKey) -> Option<Found> {
    let peek = sides.cq.wait_peek(key, Instant::now() + LIMIT).expect("the queue works");
    peek.expect("an answer in time").message().expect("the peek works")
}

/// Polls until a message has arrived.
fn find(sides: &Sides<'_, '_>, ask: impl Fn() -> Result<OpKey, PostError>) -> Found {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if let Some(found) = answer(sides, ask().expect("a peek")) {
            return found;
        }
    }
    panic!("no message within {LIMIT:?}");
}

fn a_peek_finds_claims_and_discards_over_a_connection(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        if !info.caps().contains(Caps::TAGGED) {
            let refused = server.tagged_peek(ThePeer, TagMatch::ANY);
            assert!(matches!(refused, Err(PostError::NotGranted(caps)) if caps.contains(Caps::TAGGED)));
            return crate::connected::report::not_granted();
        }
        let nothing = server.tagged_peek(ThePeer, TagMatch::ANY).expect("a peek");
        assert!(answer(sides, nothing).is_none(), "nothing has come");
        let sent =
            [1, 2, 3].map(|tag| sides.post(pattern(8, tag), |buf| client.tagged_send(ThePeer, Tag(tag as u64), buf)));
        // They are queued in order of arrival, so the peek for the last one is first.
        for tag in [3, 2, 1] {
            let found = find(sides, || server.tagged_peek(ThePeer, Tag(tag)));
            assert_eq!((found.len, found.tag, found.claim), (8, Tag(tag), None));
        }
        // The server's endpoint was opened for a request, which does not name its client
        // everywhere.
        let claimed = find(sides, || server.tagged_peek_claim(ThePeer, Tag(1))).claim.expect("a claim");
        let gone = server.tagged_peek(ThePeer, Tag(1)).expect("a peek");
        assert!(answer(sides, gone).is_none(), "a claimed message is nobody else's");
        let discarded = find(sides, || server.tagged_peek_discard(ThePeer, Tag(2)));
        assert_eq!(discarded.tag, Tag(2));
        let third = find(sides, || server.tagged_peek_claim(ThePeer, Tag(3))).claim.expect("a claim");
        let fetched = sides.post(room(8), |buf| server.tagged_claim(claimed, buf));
        assert_eq!(sides.finish(fetched).0, pattern(8, 1));
        let thrown = server.tagged_discard(third).expect("a discard");
        answer(sides, thrown);
        let nothing = server.tagged_peek(ThePeer, TagMatch::ANY).expect("a peek");
        assert!(answer(sides, nothing).is_none(), "all of them are gone");
        for (sent, tag) in sent.into_iter().zip(1..) {
            assert_eq!(sides.finish(sent).0, pattern(8, tag));
        }
    });
}
