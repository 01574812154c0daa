//! Kept completions, taken later.

use loom_core::engine::op_table::{ContextKind, ParkedCompletion, Taken};

use super::{KINDS, RX, TX, Verbs, success, taken};
use crate::engine::op_table::world::{Counted, Ledger, park, table};

#[test]
fn kept_completions_come_oldest_first_in_each_direction() {
    for kind in KINDS {
        let table = table::<Counted, 6>(kind, 8);
        let ledger = Ledger::new();
        let posted: Vec<_> = [TX, RX, TX, RX, TX, RX].map(|side| table.put(0, side, ledger.buffer(1)).unwrap()).into();
        for op in [5, 4, 1, 0, 3, 2] {
            assert!(park(&table, &success(posted[op].1, 1)).is_none());
        }
        for (direction, order) in [(TX, [4, 0, 2]), (RX, [5, 1, 3])] {
            for op in order {
                assert_eq!(table.take_parked(direction).and_then(ParkedCompletion::done).unwrap().key(), posted[op].0);
            }
            assert!(table.take_parked(direction).and_then(ParkedCompletion::done).is_none());
        }
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn kept_completions_can_be_taken_from_anywhere() {
    // Some of four are taken by key first. The others follow in order.
    for kind in KINDS {
        for first in 0..4 {
            for second in (0..4).filter(|second| *second != first) {
                let table = table::<Counted, 4>(kind, 8);
                let ledger = Ledger::new();
                let posted: Vec<_> = (0..4).map(|_| table.put(0, RX, ledger.buffer(1)).unwrap()).collect();
                for (_, context) in &posted {
                    assert!(park(&table, &success(*context, 1)).is_none());
                }
                for op in [first, second] {
                    assert_eq!(taken(table.take(posted[op].0)).key(), posted[op].0);
                    assert!(matches!(table.take(posted[op].0), Taken::Unknown));
                }
                for op in (0..4).filter(|op| *op != first && *op != second) {
                    assert_eq!(table.take_parked(RX).and_then(ParkedCompletion::done).unwrap().key(), posted[op].0);
                }
                assert!(table.take_parked(RX).and_then(ParkedCompletion::done).is_none());
                ledger.assert_all_dropped_once();
            }
        }
    }
}

#[test]
fn keys_of_another_table_are_unknown_or_in_flight_but_never_wrong() {
    let ours = table::<Counted, 1>(ContextKind::Word, 4);
    let theirs = table::<Counted, 8>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    for _ in 0..7 {
        theirs.put(0, TX, ledger.buffer(1)).unwrap();
    }
    let (beyond, _) = theirs.put(0, TX, ledger.buffer(1)).unwrap();
    assert!(matches!(ours.take(beyond), Taken::Unknown));
    assert!(ours.context_of(beyond, 0).is_none());
    theirs.drop_all();
    ledger.assert_all_dropped_once();
}
