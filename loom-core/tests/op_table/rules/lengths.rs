//! Lengths: what is believed of an event.

use loom_core::engine::op_table::ContextKind;
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno};

use super::{KINDS, RX, TX, Verbs, done, success, taken};
use crate::world::{Counted, Ledger, complete, park, table};

#[test]
fn a_receive_that_claims_more_than_was_lent_is_an_error() {
    for kind in KINDS {
        for keep in [false, true] {
            let table = table::<Counted, 1>(kind, 4);
            let ledger = Ledger::new();
            for (claimed, overflow) in [(9, 1), (1000, 992), (usize::MAX, usize::MAX - 8)] {
                let (key, context) = table.put(0, RX, ledger.buffer(8)).unwrap();
                let event = success(context, claimed);
                let done = if keep {
                    assert!(park(&table, &event).is_none());
                    taken(table.take(key))
                } else {
                    done(complete(&table, &event))
                };
                let error = done.result().unwrap_err();
                assert_eq!((error.errno, error.len, error.overflow), (Errno::EOTHER, 0, overflow));
            }
        }
    }
}

#[test]
fn a_receive_reports_what_came() {
    let table = table::<Counted, 1>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    for len in [0, 1, 7, 8] {
        let (_, context) = table.put(0, RX, ledger.buffer(8)).unwrap();
        assert_eq!(done(complete(&table, &success(context, len))).result().unwrap().len(), len);
    }
}

/// Providers set the length for receives only.
#[test]
fn a_transmit_reports_what_was_lent() {
    let table = table::<Counted, 1>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    for claimed in [0, 8, 9, usize::MAX] {
        let (_, context) = table.put(0, TX, ledger.buffer(8)).unwrap();
        assert_eq!(done(complete(&table, &success(context, claimed))).result().unwrap().len(), 8);
    }
}

#[test]
fn an_error_never_claims_more_than_was_lent() {
    for direction in [TX, RX] {
        let table = table::<Counted, 1>(ContextKind::Word, 4);
        let ledger = Ledger::new();
        for (claimed, len) in [(0, 0), (5, 5), (9, 8), (usize::MAX, 8)] {
            let (_, context) = table.put(0, direction, ledger.buffer(8)).unwrap();
            let mut event = Event::failure(context, CompletionFlags::RECV, Errno::ETRUNC);
            (event.len, event.overflow) = (claimed, 77);
            let error = done(complete(&table, &event)).result().unwrap_err();
            assert_eq!((error.errno, error.len, error.overflow), (Errno::ETRUNC, len, 77));
        }
    }
}

#[test]
fn the_length_is_that_of_the_operation_and_not_of_its_slots_last() {
    let table = table::<Counted, 1>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    for lent in [8, 1, 5, 0] {
        let (_, context) = table.put(0, TX, ledger.buffer(lent)).unwrap();
        assert_eq!(done(complete(&table, &success(context, 3))).result().unwrap().len(), lent);
    }
}
