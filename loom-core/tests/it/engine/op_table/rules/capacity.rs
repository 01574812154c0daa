//! Rule 5: capacity.

use loom_core::engine::op_table::{ContextKind, Direction, Kind, ParkedCompletion, Resolution};
use loom_core::error::PostError;
use loom_core::vocabulary::Errno;

use super::{KINDS, RX, TX, Verbs, done, success};
use crate::engine::op_table::world::{Counted, Ledger, complete, park, table};

#[test]
fn a_full_table_returns_the_buffer() {
    for kind in KINDS {
        let table = table::<Counted, 3>(kind, 4);
        let ledger = Ledger::new();
        let posted: Vec<_> = (0..3).map(|_| table.put(0, TX, ledger.buffer(1)).unwrap()).collect();
        assert_eq!((table.in_flight(), table.capacity()), (3, 3));
        for _ in 0..3 {
            let buf = ledger.buffer(1);
            let id = buf.id;
            let rejected = table.put(0, RX, buf).unwrap_err();
            assert_eq!((rejected.error, rejected.value.id), (PostError::Full, id));
        }
        assert_eq!(ledger.made(), 6);
        let _ = done(complete(&table, &success(posted[1].1, 1)));
        assert!(table.put(0, RX, ledger.buffer(1)).is_ok());
        table.drop_all();
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn completions_that_are_kept_hold_their_slots() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        let ledger = Ledger::new();
        for _ in 0..2 {
            let (_, context) = table.put(0, TX, ledger.buffer(1)).unwrap();
            assert!(park(&table, &success(context, 1)).is_none());
        }
        assert_eq!((table.in_flight(), table.free_slots()), (0, 0));
        assert_eq!(table.put(0, TX, ledger.buffer(1)).unwrap_err().error, PostError::Kept);
        assert!(table.take_parked(TX).and_then(ParkedCompletion::done).is_some());
        assert!(table.put(0, TX, ledger.buffer(1)).is_ok());
        table.drop_all();
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn a_refused_post_returns_the_buffer_and_frees_the_slot() {
    for kind in KINDS {
        let table = table::<Counted, 1>(kind, 4);
        let ledger = Ledger::new();
        let mut refused = None;
        for error in [PostError::Again, PostError::UnknownPeer, PostError::Errno(Errno::EIO)] {
            let rejected = table
                .post(0, Kind::Receive, ledger.buffer(2), |lent, context| {
                    assert_eq!(lent.len, 2);
                    refused = Some(context.addr());
                    Err(error)
                })
                .unwrap_err();
            assert_eq!((rejected.error, table.in_flight()), (error, 0));
            assert_eq!(ledger.drops(rejected.value.id), 0);
        }
        let event = success(refused.unwrap(), 1);
        assert!(matches!(complete(&table, &event), Resolution::Stale), "it was never posted");
        assert!(table.put(0, RX, ledger.buffer(1)).is_ok());
        table.drop_all();
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn ghosts_count_until_the_queue_is_drained() {
    let table = table::<Counted, 3>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    for direction in [TX, RX, TX] {
        table.put(1, direction, ledger.buffer(1)).unwrap();
    }
    table.close_endpoint(1);
    while table
        .take_parked(TX)
        .and_then(ParkedCompletion::done)
        .or_else(|| table.take_parked(RX).and_then(ParkedCompletion::done))
        .is_some()
    {}
    ledger.assert_all_dropped_once();
    assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full, "three events may be queued");
    table.drained(Direction::BOTH);
    for _ in 0..3 {
        assert!(table.put(2, TX, ledger.buffer(1)).is_ok());
    }
    table.drop_all();
    ledger.assert_all_dropped_once();
}

#[test]
fn each_late_event_is_one_ghost_less() {
    let table = table::<Counted, 3>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    let words: Vec<_> = (0..3).map(|_| table.put(1, TX, ledger.buffer(1)).unwrap().1).collect();
    table.close_endpoint(1);
    while table.take_parked(TX).and_then(ParkedCompletion::done).is_some() {}
    for word in words {
        assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full);
        assert!(matches!(complete(&table, &success(word, 1)), Resolution::Stale));
        assert!(table.put(2, TX, ledger.buffer(1)).is_ok());
    }
    table.drop_all();
    ledger.assert_all_dropped_once();
}

#[test]
fn late_event_of_a_receive_is_one_ghost_less_among_the_receives() {
    let table = table::<Counted, 2>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    let [_, received] = [TX, RX].map(|direction| table.put(1, direction, ledger.buffer(1)).unwrap().1);
    table.close_endpoint(1);
    while table
        .take_parked(TX)
        .and_then(ParkedCompletion::done)
        .or_else(|| table.take_parked(RX).and_then(ParkedCompletion::done))
        .is_some()
    {}
    assert!(matches!(complete(&table, &success(received, 1)), Resolution::Stale));
    table.drained([RX]);
    assert!(table.put(2, TX, ledger.buffer(1)).is_ok());
    let rejected = table.put(2, TX, ledger.buffer(1)).unwrap_err();
    assert_eq!(rejected.error, PostError::Full, "the event of the send may still come");
    table.drained([TX]);
    assert!(table.put(2, TX, rejected.value).is_ok());
    table.drop_all();
    ledger.assert_all_dropped_once();
}
