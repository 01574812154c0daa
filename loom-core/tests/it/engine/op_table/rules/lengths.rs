//! Lengths: the fields of an event that the table trusts.

use loom_core::engine::op_table::ContextKind;
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno};

use super::{KINDS, RX, TX, Verbs, done, success, taken};
use crate::engine::op_table::world::{Counted, Ledger, complete, park, prefixed_table, table};

#[test]
fn a_receive_of_more_than_was_lent_is_one_of_a_truncated_message() {
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
                assert_eq!((error.errno, error.len, error.overflow), (Errno::ETRUNC, Some(8), Some(overflow)));
            }
        }
    }
}

#[test]
fn a_receive_reports_the_received_length() {
    let table = table::<Counted, 1>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    for len in [0, 1, 7, 8] {
        let (_, context) = table.put(0, RX, ledger.buffer(8)).unwrap();
        assert_eq!(done(complete(&table, &success(context, len))).result().unwrap().len, len);
    }
}

#[test]
fn the_prefix_of_a_receive_does_not_count() {
    let table = prefixed_table::<Counted, 1>(ContextKind::Word, 4, 40);
    let ledger = Ledger::new();
    // A packet of the provider's own can be shorter than a prefix.
    for (claimed, len) in [(48, 8), (41, 1), (40, 0), (3, 0)] {
        let (_, context) = table.put(0, RX, ledger.buffer(8)).unwrap();
        assert_eq!(done(complete(&table, &success(context, claimed))).result().unwrap().len, len);
    }
    let (_, context) = table.put(0, RX, ledger.buffer(8)).unwrap();
    let error = done(complete(&table, &success(context, 49))).result().unwrap_err();
    assert_eq!((error.errno, error.overflow), (Errno::ETRUNC, Some(1)));
    let (_, context) = table.put(0, TX, ledger.buffer(8)).unwrap();
    assert_eq!(done(complete(&table, &success(context, 0))).result().unwrap().len, 8);
}

/// Providers set the length for receives only.
#[test]
fn a_transmit_reports_the_lent_length() {
    let table = table::<Counted, 1>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    for claimed in [0, 8, 9, usize::MAX] {
        let (_, context) = table.put(0, TX, ledger.buffer(8)).unwrap();
        assert_eq!(done(complete(&table, &success(context, claimed))).result().unwrap().len, 8);
    }
}

#[test]
fn an_error_never_claims_more_than_was_lent() {
    for direction in [TX, RX] {
        let table = table::<Counted, 1>(ContextKind::Word, 4);
        let ledger = Ledger::new();
        for (claimed, len, overflow) in [(0, 0, 77), (5, 5, 77), (9, 8, 1), (usize::MAX, 8, usize::MAX - 8)] {
            // The length of a transmit's event does not describe the message.
            let overflow = if direction == RX { overflow } else { 77 };
            let (_, context) = table.put(0, direction, ledger.buffer(8)).unwrap();
            let mut event = Event::failure(context, CompletionFlags::RECV, Errno::ETRUNC);
            (event.len, event.overflow_or_place) = (claimed, 77);
            let error = done(complete(&table, &event)).result().unwrap_err();
            assert_eq!((error.errno, error.len, error.overflow), (Errno::ETRUNC, Some(len), Some(overflow)));
        }
    }
}

#[test]
fn the_length_is_that_of_the_operation_and_not_of_its_slots_last() {
    let table = table::<Counted, 1>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    for lent in [8, 1, 5, 0] {
        let (_, context) = table.put(0, TX, ledger.buffer(lent)).unwrap();
        assert_eq!(done(complete(&table, &success(context, 3))).result().unwrap().len, lent);
    }
}

/// A queue first tries successes alone. The result is equal on both paths.
#[test]
fn a_success_is_the_same_by_itself_and_among_all_events() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        let ledger = Ledger::new();
        for (direction, len) in [(RX, 0), (RX, 5), (RX, 8), (TX, 3)] {
            let [by_itself, among_all] = [true, false].map(|by_itself| {
                let (_, context) = table.put(0, direction, ledger.buffer(8)).unwrap();
                let event = success(context, len);
                let ended = if by_itself {
                    // SAFETY: these tests lend no memory to a provider, so any event is true.
                    unsafe { table.succeed(&event) }.unwrap()
                } else {
                    // SAFETY: as above.
                    done(unsafe { table.complete(&event) })
                };
                let transfer = ended.result().unwrap();
                (transfer.len, transfer.flags)
            });
            assert_eq!(by_itself, among_all, "{kind:?} {direction:?} {len}");
        }
    }
}

/// Any other event is left to `complete`.
#[test]
fn only_a_success_of_an_operation_in_flight_is_one() {
    for kind in KINDS {
        let table = table::<Counted, 1>(kind, 4);
        let ledger = Ledger::new();
        let (_, context) = table.put(0, RX, ledger.buffer(8)).unwrap();
        let failed = Event::failure(context, CompletionFlags::RECV, Errno::EIO);
        for event in [success(context, 9), failed, success(context ^ 1 << 40, 1)] {
            // SAFETY: as above.
            assert!(unsafe { table.succeed(&event) }.is_none(), "{kind:?} {event:?}");
            assert_eq!((table.in_flight(), table.strays()), (1, 0), "nothing has happened");
        }
        assert!(done(complete(&table, &success(context, 8))).result().is_ok());
        // SAFETY: as above.
        assert!(unsafe { table.succeed(&success(context, 8)) }.is_none(), "it is over");
    }
}
