//! Closing an endpoint, and the table.

use loom_core::engine::op_table::{Kind, ParkedCompletion, Resolution, Taken};
use loom_core::vocabulary::CompletionFlags;

use super::{KINDS, RX, TX, Verbs, assert_cancelled, done, success, taken};
use crate::engine::op_table::world::{Counted, Ledger, complete, park, table};

#[test]
fn abandoned_operations_come_back_once_each_by_direction() {
    for kind in KINDS {
        let table = table::<Counted, 6>(kind, 8);
        let ledger = Ledger::new();
        let mut expected = Vec::new();
        for (endpoint, direction) in [(1, TX), (2, TX), (1, RX), (2, RX), (1, TX)] {
            let buf = ledger.buffer(1);
            let id = buf.id;
            let (key, _) = table.put(endpoint, direction, buf).unwrap();
            expected.push((endpoint, direction, key, id));
        }
        table.close_endpoint(1);
        assert_eq!(table.in_flight(), 2);
        for direction in [TX, RX] {
            let mut wanted: Vec<_> =
                expected.iter().filter(|op| op.0 == 1 && op.1 == direction).map(|op| (op.2, op.3)).collect();
            while let Some(done) = table.take_parked(direction).and_then(ParkedCompletion::done) {
                assert_cancelled(&done);
                let at = wanted.iter().position(|op| *op == (done.key(), done.buf().id)).expect("once");
                wanted.remove(at);
            }
            assert!(wanted.is_empty());
        }
        for (_, _, key, _) in expected.iter().filter(|op| op.0 == 2) {
            assert!(matches!(table.take(*key), Taken::InFlight), "another endpoint's");
        }
        for (_, _, key, _) in expected.iter().filter(|op| op.0 == 1) {
            assert!(matches!(table.take(*key), Taken::Unknown), "taken already");
        }
        table.drop_all();
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn abandoned_operations_can_be_taken_by_key() {
    for kind in KINDS {
        let table = table::<Counted, 4>(kind, 8);
        let ledger = Ledger::new();
        let keys: Vec<_> = [TX, RX, TX, RX].map(|side| table.put(1, side, ledger.buffer(1)).unwrap().0).into();
        table.close_endpoint(1);
        for key in keys.iter().rev() {
            let done = taken(table.take(*key));
            assert_cancelled(&done);
            assert_eq!(done.key(), *key);
            assert!(matches!(table.take(*key), Taken::Unknown));
        }
        assert!(
            table.take_parked(TX).and_then(ParkedCompletion::done).is_none()
                && table.take_parked(RX).and_then(ParkedCompletion::done).is_none()
        );
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn operations_in_flight_are_counted_by_endpoint_and_kind() {
    for context_kind in KINDS {
        let ledger = Ledger::new();
        let table = table::<Counted, 8>(context_kind, 16);
        let posted = [(0, Kind::Send), (0, Kind::Read), (1, Kind::Read), (0, Kind::Receive), (0, Kind::Read)];
        for (endpoint, kind) in posted {
            table.post(endpoint, kind, ledger.buffer(4), |_, _| Ok(())).unwrap();
        }
        let counts = |endpoint| {
            [Kind::Send, Kind::Read, Kind::Receive]
                .map(|kind| table.posted_on(endpoint).filter(|op| op.kind == kind && op.len == 4).count())
        };
        assert_eq!((counts(0), counts(1), counts(2)), ([1, 2, 1], [0, 1, 0], [0, 0, 0]));
        table.close_endpoint(0);
        assert_eq!((counts(0), counts(1)), ([0, 0, 0], [0, 1, 0]));
        let ended = [TX, TX, TX].map(|direction| {
            table.take_parked(direction).and_then(ParkedCompletion::done).unwrap().result().unwrap_err().flags
        });
        assert_eq!(
            ended,
            [CompletionFlags::SEND, CompletionFlags::READ, CompletionFlags::READ],
            "a read ends on that side"
        );
        table.drop_all();
    }
}

#[test]
fn closing_an_endpoint_keeps_results_of_completed_operations() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 8);
        let ledger = Ledger::new();
        let (kept, context) = table.put(1, RX, ledger.buffer(4)).unwrap();
        let (cut, _) = table.put(1, RX, ledger.buffer(4)).unwrap();
        assert!(park(&table, &success(context, 3)).is_none());
        table.close_endpoint(1);
        table.close_endpoint(1);
        let done = table.take_parked(RX).and_then(ParkedCompletion::done).unwrap();
        assert_eq!((done.key(), done.result().unwrap().len), (kept, 3));
        let done = table.take_parked(RX).and_then(ParkedCompletion::done).unwrap();
        assert_eq!(done.key(), cut);
        assert_cancelled(&done);
    }
}

#[test]
fn late_events_never_reach_a_buffer() {
    for kind in KINDS {
        let table = table::<Counted, 3>(kind, 100);
        let ledger = Ledger::new();
        let posted: Vec<_> = (0..3).map(|_| table.put(1, RX, ledger.buffer(4)).unwrap()).collect();
        table.close_endpoint(1);
        // One event before the completion is taken, one after it, and each of them twice.
        assert!(matches!(complete(&table, &success(posted[0].1, 4)), Resolution::Stale));
        for (key, _) in &posted {
            assert_cancelled(&taken(table.take(*key)));
        }
        ledger.assert_all_dropped_once();
        for (_, context) in posted.iter().chain(&posted) {
            assert!(matches!(complete(&table, &success(*context, 4)), Resolution::Stale));
        }
        assert_eq!(table.strays(), 7);
        for _ in 0..3 {
            assert!(table.put(2, RX, ledger.buffer(4)).is_ok());
        }
        table.drop_all();
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn the_context_for_a_cancel_is_given_only_while_in_flight_and_only_to_its_endpoint() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        let ledger = Ledger::new();
        let (key, context) = table.put(3, RX, ledger.buffer(1)).unwrap();
        assert_eq!(table.context_of(key, 3).map(|context| context.addr()), Some(context));
        assert!(table.context_of(key, 4).is_none());
        assert!(park(&table, &success(context, 1)).is_none());
        assert!(table.context_of(key, 3).is_none());
        drop(taken(table.take(key)));
        assert!(table.context_of(key, 3).is_none());
        table.put(3, RX, ledger.buffer(1)).unwrap();
        assert!(table.context_of(key, 3).is_none(), "the slot is another operation's");
        table.drop_all();
    }
}

#[test]
fn every_endpoint_number_works() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        let ledger = Ledger::new();
        for endpoint in [0, 1, u16::MAX - 1, u16::MAX] {
            let (key, context) = table.put(endpoint, RX, ledger.buffer(1)).unwrap();
            assert!(table.context_of(key, endpoint).is_some());
            table.close_endpoint(endpoint.wrapping_add(1));
            assert_eq!(done(complete(&table, &success(context, 1))).key(), key);
        }
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn teardown_drops_posted_and_kept_buffers_once() {
    for kind in KINDS {
        let table = table::<Counted, 5>(kind, 4);
        let ledger = Ledger::new();
        let posted: Vec<_> = (0..4).map(|_| table.put(1, TX, ledger.buffer(1)).unwrap()).collect();
        assert!(park(&table, &success(posted[0].1, 1)).is_none());
        drop(done(complete(&table, &success(posted[1].1, 1))));
        table.put(2, RX, ledger.buffer(1)).unwrap();
        table.close_endpoint(1);
        drop(taken(table.take(posted[2].0)));
        table.drop_all();
        ledger.assert_all_dropped_once();
        table.drop_all();
        ledger.assert_all_dropped_once();
        drop(table);
        ledger.assert_all_dropped_once();
    }
}

/// `drop_buffers` only requires closed endpoints, so lookups stay safe after it.
#[test]
fn no_operation_is_found_after_teardown() {
    for kind in KINDS {
        let table = table::<Counted, 3>(kind, 4);
        let ledger = Ledger::new();
        let posted: Vec<_> = [TX, RX, TX].map(|side| table.put(1, side, ledger.buffer(1)).unwrap()).into();
        assert!(park(&table, &success(posted[0].1, 1)).is_none());
        assert!(park(&table, &success(posted[1].1, 1)).is_none());
        table.drop_all();
        ledger.assert_all_dropped_once();
        for (key, context) in posted {
            assert!(!matches!(table.take(key), Taken::Done(_)));
            assert!(!matches!(complete(&table, &success(context, 1)), Resolution::Done(..)));
        }
        assert!(table.take_parked(TX).and_then(ParkedCompletion::done).is_none(), "{kind:?}");
        assert!(table.take_parked(RX).and_then(ParkedCompletion::done).is_none(), "{kind:?}");
        ledger.assert_all_dropped_once();
    }
}
