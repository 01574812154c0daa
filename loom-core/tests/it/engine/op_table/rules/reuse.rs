//! Rule 4: reuse of slots.

use loom_core::engine::op_table::{ContextKind, Direction, Resolution, Taken};
use loom_core::error::PostError;

use super::{KINDS, RX, TX, Verbs, assert_cancelled, done, success, taken};
use crate::engine::op_table::world::{Counted, Ledger, complete, park, table};

#[test]
fn a_slot_is_reused_after_its_event_many_times() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        let ledger = Ledger::new();
        for _ in 0..1000 {
            let (one, first) = table.put(0, TX, ledger.buffer(1)).unwrap();
            let (two, second) = table.put(0, RX, ledger.buffer(1)).unwrap();
            assert_eq!(done(complete(&table, &success(second, 1))).key(), two);
            assert_eq!(done(complete(&table, &success(first, 1))).key(), one);
        }
        assert_eq!((table.strays(), table.in_flight()), (0, 0));
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn words_of_a_closed_endpoint_free_their_slots_at_once() {
    let table = table::<Counted, 2>(ContextKind::Word, 100);
    let ledger = Ledger::new();
    let (first, word) = table.put(1, TX, ledger.buffer(1)).unwrap();
    table.close_endpoint(1);
    assert_cancelled(&taken(table.take(first)));
    // Capacity two and one ghost: one more operation can be in flight, in the same slot.
    let (second, next) = table.put(2, TX, ledger.buffer(1)).unwrap();
    assert_eq!(word & u64::from(u32::MAX), next & u64::from(u32::MAX), "the same slot");
    assert!(matches!(complete(&table, &success(word, 1)), Resolution::Stale));
    assert_eq!(done(complete(&table, &success(next, 1))).key(), second);
}

#[test]
fn pointers_of_a_closed_endpoint_keep_their_slot_until_their_event() {
    let table = table::<Counted, 1>(ContextKind::Space, 100);
    let ledger = Ledger::new();
    let (key, context) = table.put(1, TX, ledger.buffer(1)).unwrap();
    table.close_endpoint(1);
    assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Kept, "the completion is kept");
    assert_cancelled(&taken(table.take(key)));
    assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full, "the event may still come");
    assert!(matches!(complete(&table, &success(context, 1)), Resolution::Stale));
    let (_, again) = table.put(2, TX, ledger.buffer(1)).unwrap();
    assert_eq!(again, context);
    assert!(matches!(table.take(key), Taken::Unknown));
    assert!(done(complete(&table, &success(again, 1))).result().is_ok());
    ledger.assert_all_dropped_once();
}

#[test]
fn a_late_event_before_the_completion_is_taken_frees_the_slot_with_it() {
    let table = table::<Counted, 1>(ContextKind::Space, 100);
    let ledger = Ledger::new();
    let (key, context) = table.put(1, RX, ledger.buffer(1)).unwrap();
    table.close_endpoint(1);
    assert!(matches!(park(&table, &success(context, 1)), Some(Resolution::Stale)));
    assert_cancelled(&taken(table.take(key)));
    assert!(table.put(1, RX, ledger.buffer(1)).is_ok());
    table.drop_all();
    ledger.assert_all_dropped_once();
}

#[test]
fn pointers_of_a_closed_endpoint_are_reused_after_the_horizon() {
    const HORIZON: u32 = 3;
    let table = table::<Counted, 2>(ContextKind::Space, HORIZON);
    let ledger = Ledger::new();
    let (old, context) = table.put(1, TX, ledger.buffer(1)).unwrap();
    table.close_endpoint(1);
    let (_, other) = table.put(2, TX, ledger.buffer(1)).unwrap();
    assert_cancelled(&taken(table.take(old)));
    for _ in 0..HORIZON {
        assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full);
        assert!(matches!(complete(&table, &success(3, 1)), Resolution::Foreign), "any event counts");
    }
    let (_, again) = table.put(2, TX, ledger.buffer(1)).unwrap();
    assert_eq!(again, context);
    assert!(done(complete(&table, &success(other, 1))).result().is_ok());
    assert!(done(complete(&table, &success(again, 1))).result().is_ok());
    ledger.assert_all_dropped_once();
}

#[test]
fn the_oldest_orphan_is_reclaimed_first_and_any_can_end() {
    const HORIZON: u32 = 10;
    let table = table::<Counted, 4>(ContextKind::Space, HORIZON);
    let ledger = Ledger::new();
    let posted: Vec<_> = (0..4).map(|_| table.put(1, RX, ledger.buffer(1)).unwrap()).collect();
    table.close_endpoint(1);
    // Orphans in the order 2, 0, 3, 1, with one event between each.
    for op in [2, 0, 3, 1] {
        assert_cancelled(&taken(table.take(posted[op].0)));
        assert!(matches!(complete(&table, &success(3, 1)), Resolution::Foreign));
    }
    // An orphan leaves from the middle, then the last one. Their slots are free.
    for op in [3, 1] {
        assert!(matches!(complete(&table, &success(posted[op].1, 1)), Resolution::Stale));
        assert_eq!(table.put(2, RX, ledger.buffer(1)).unwrap().1, posted[op].1);
        assert_eq!(table.put(2, RX, ledger.buffer(1)).unwrap_err().error, PostError::Full);
    }
    // Six events since the first was taken. It is reclaimed at ten, the next at eleven.
    for op in [2, 0] {
        while table.strays() < u64::from(HORIZON) + u64::from(op == 0) {
            assert_eq!(table.put(2, RX, ledger.buffer(1)).unwrap_err().error, PostError::Full);
            assert!(matches!(complete(&table, &success(3, 1)), Resolution::Foreign));
        }
        assert_eq!(table.put(2, RX, ledger.buffer(1)).unwrap().1, posted[op].1);
    }
    table.drop_all();
    ledger.assert_all_dropped_once();
}

#[test]
fn an_orphan_after_all_others_left_begins_a_new_list() {
    let table = table::<Counted, 2>(ContextKind::Space, 1);
    let ledger = Ledger::new();
    for _ in 0..5 {
        let (one, _) = table.put(1, TX, ledger.buffer(1)).unwrap();
        let (two, second) = table.put(1, RX, ledger.buffer(1)).unwrap();
        table.close_endpoint(1);
        drop(taken(table.take(one)));
        drop(taken(table.take(two)));
        // The second leaves with its event, which also brings the first to its horizon.
        assert!(matches!(complete(&table, &success(second, 1)), Resolution::Stale));
    }
    ledger.assert_all_dropped_once();
}

/// All operations of a queue were in flight on a closed endpoint, and the provider does not report
/// them. If contexts are pointers, no post is possible before as many events as the horizon (rule
/// 4).
#[test]
fn a_table_of_orphans_needs_the_horizon_of_events() {
    let table = table::<Counted, 2>(ContextKind::Space, 2);
    let ledger = Ledger::new();
    let keys: Vec<_> = (0..2).map(|_| table.put(1, RX, ledger.buffer(1)).unwrap().0).collect();
    table.close_endpoint(1);
    for key in keys {
        drop(taken(table.take(key)));
    }
    assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full);
    table.drained(Direction::BOTH);
    assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full);
    for _ in 0..2 {
        assert!(matches!(complete(&table, &success(8, 1)), Resolution::Foreign));
    }
    assert!(table.put(2, TX, ledger.buffer(1)).is_ok());
    table.drop_all();
}
