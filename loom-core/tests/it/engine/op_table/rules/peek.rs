//! Peeks and claims: rule 9.

use loom_core::completion::{Claim, Peek};
use loom_core::engine::op_table::{ContextKind, Kind, OpKey, OpTable, Resolution, Taken};
use loom_core::error::PostError;
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno, Tag};

use super::{KINDS, TX, Verbs, done, success};
use crate::engine::op_table::world::{Counted, Ledger, complete, park, table};

fn ask(table: &OpTable<Counted>, claims: bool) -> (OpKey, u64) {
    let mut word = 0;
    let key = table
        .post_empty(0, if claims { Kind::PeekClaim } else { Kind::Peek }, |context| {
            word = context.addr();
            Ok(())
        })
        .unwrap();
    (key, word)
}

fn found(context: u64, len: usize) -> Event {
    let mut event = Event::success(context, CompletionFlags::TAGGED | CompletionFlags::RECV, len);
    event.tag = Tag(3);
    event
}

#[track_caller]
fn peek(resolution: Resolution<'_, Counted>) -> Peek {
    match resolution {
        Resolution::Peek(peek) => peek,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn claim(table: &OpTable<Counted>) -> (Claim, u64) {
    let (_, context) = ask(table, true);
    let found = peek(complete(table, &found(context, 9))).message().unwrap().unwrap();
    (found.claim.unwrap(), context)
}

fn fetch(table: &OpTable<Counted>, claim: Claim, buf: Counted) -> Result<(OpKey, u64), PostError> {
    let mut word = 0;
    let key = table.post_claim(0, claim, buf, |_, context| {
        word = context.addr();
        Ok(())
    });
    key.map(|key| (key, word)).map_err(|rejected| rejected.error)
}

#[test]
fn a_peek_is_answered_once_and_its_slot_is_free_again() {
    for kind in KINDS {
        for keep in [false, true] {
            let table = table::<Counted, 1>(kind, 4);
            for none in [false, true] {
                let (key, context) = ask(&table, false);
                assert!(table.is_peeking(key) && table.in_flight() == 1);
                assert!(matches!(table.take(key), Taken::InFlight));
                assert_eq!(table.post_empty(0, Kind::Peek, |_| panic!("there is no slot")), Err(PostError::Full));
                let event = if none {
                    Event::failure(context, CompletionFlags::RECV, Errno::ENOMSG)
                } else {
                    found(context, 1 << 20)
                };
                let peek = if keep { peek(park(&table, &event).unwrap()) } else { peek(complete(&table, &event)) };
                assert_eq!(peek.key, key);
                let message = peek.message().unwrap();
                assert_eq!(message.map(|found| (found.len, found.tag)), (!none).then_some((1 << 20, Tag(3))));
                assert!(message.is_none_or(|found| found.claim.is_none()));
                assert!(!table.is_peeking(key) && table.in_flight() == 0);
                assert!(matches!(table.take(key), Taken::Unknown));
                assert!(matches!(complete(&table, &event), Resolution::Stale));
            }
        }
    }
}

#[test]
fn a_refused_peek_leaves_no_operation() {
    let table = table::<Counted, 1>(ContextKind::Word, 4);
    for _ in 0..3 {
        assert_eq!(table.post_empty(0, Kind::PeekClaim, |_| Err(PostError::Again)), Err(PostError::Again));
    }
    assert_eq!(table.in_flight(), 0);
    let (_, context) = ask(&table, false);
    let error =
        peek(complete(&table, &Event::failure(context, CompletionFlags::RECV, Errno::EIO))).message().unwrap_err();
    assert_eq!(error.errno, Errno::EIO);
}

#[test]
fn a_claim_is_fetched_under_its_peeks_context() {
    for kind in KINDS {
        let table = table::<Counted, 1>(kind, 4);
        let ledger = Ledger::new();
        let (claim, context) = claim(&table);
        assert_eq!(table.in_flight(), 0, "the peek is over");
        let full = table.put(0, TX, ledger.buffer(1)).unwrap_err();
        assert_eq!(full.error, PostError::Kept, "the slot is the claim's");
        drop(full);
        // A refused post leaves the claim valid.
        let rejected = table.post_claim(0, claim, ledger.buffer(4), |_, _| Err(PostError::Again)).unwrap_err();
        assert_eq!(rejected.error, PostError::Again);
        assert_eq!(
            table.post_claim(1, claim, rejected.value, |_, _| Ok(())).unwrap_err().error,
            PostError::UnknownClaim
        );
        let (key, again) = fetch(&table, claim, ledger.buffer(16)).unwrap();
        assert_eq!(again, context);
        assert_eq!(fetch(&table, claim, ledger.buffer(1)), Err(PostError::UnknownClaim));
        let done = done(complete(&table, &success(context, 9)));
        assert_eq!((done.key(), done.result().unwrap().len), (key, 9));
        drop(done);
        assert_eq!(fetch(&table, claim, ledger.buffer(1)), Err(PostError::UnknownClaim));
        table.put(0, TX, ledger.buffer(1)).unwrap();
        table.drop_all();
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn a_claim_is_discarded_under_its_peeks_context() {
    for kind in KINDS {
        let table = table::<Counted, 1>(kind, 4);
        let (claim, context) = claim(&table);
        assert_eq!(table.post_discard(0, claim, |_| Err(PostError::Again)), Err(PostError::Again));
        let key = table.post_discard(0, claim, |given| {
            assert_eq!(given.addr(), context);
            Ok(())
        });
        assert!(table.is_peeking(key.unwrap()));
        let answer = peek(complete(&table, &found(context, 9))).message().unwrap().unwrap();
        assert_eq!(answer.claim, None);
        assert_eq!(table.post_discard(0, claim, |_| Ok(())), Err(PostError::UnknownClaim));
    }
}

#[test]
fn claims_and_peeks_end_with_their_endpoint() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 2);
        let ledger = Ledger::new();
        let (claim, _) = claim(&table);
        let (asked, context) = ask(&table, false);
        table.close_endpoint(0);
        assert!(!table.is_peeking(asked));
        assert_eq!(fetch(&table, claim, ledger.buffer(1)), Err(PostError::UnknownClaim));
        // A late answer of the peek belongs to no operation.
        let (key, _) = table.put(1, TX, ledger.buffer(1)).unwrap();
        assert!(matches!(complete(&table, &found(context, 1)), Resolution::Stale));
        assert!(matches!(table.take(key), Taken::InFlight));
        table.put(1, TX, ledger.buffer(1)).unwrap();
        table.drop_all();
        ledger.assert_all_dropped_once();
    }
}

/// `lend` is user code.
#[test]
fn a_buffer_that_panics_when_lent_leaves_the_claim() {
    let table = table::<Counted, 1>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    let (claim, context) = claim(&table);
    // Longer than the static of these buffers, so that `lend` panics.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = fetch(&table, claim, ledger.buffer(1000));
    }));
    assert!(panicked.is_err());
    assert_eq!(table.in_flight(), 0);
    fetch(&table, claim, ledger.buffer(16)).unwrap();
    drop(done(complete(&table, &success(context, 9))));
    ledger.assert_all_dropped_once();
}
