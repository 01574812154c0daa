//! Multi-receives: rule 8.

use loom_core::engine::op_table::{ContextKind, Kind, OpKey, OpTable, ParkedCompletion, Piece, Resolution, Taken};
use loom_core::error::PostError;
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno};

use super::{KINDS, RX, TX, Verbs, assert_cancelled, done, success, taken};
use crate::engine::op_table::world::{Counted, Ledger, complete, park, table};

const RECEIVED: CompletionFlags = CompletionFlags::MSG.union(CompletionFlags::RECV);

/// A multi-receive: its key, its context, and the start of its memory.
struct Posted {
    key: OpKey,
    context: u64,
    start: usize,
}

fn post(table: &OpTable<Counted>, endpoint: u16, buf: Counted) -> Posted {
    let (mut context, mut start) = (0, 0);
    let key = table
        .post(endpoint, Kind::MultiReceive, buf, |lent, given| {
            (context, start) = (given.addr(), lent.ptr.addr().get());
            Ok(())
        })
        .unwrap();
    Posted { key, context, start }
}

impl Posted {
    /// Returns the event of a message of `len` bytes at `offset`.
    fn message(&self, offset: usize, len: usize) -> Event {
        let mut event = Event::success(self.context, RECEIVED, len);
        event.overflow_or_place = self.start + offset;
        event
    }

    fn last(&self, offset: usize, len: usize) -> Event {
        let mut event = self.message(offset, len);
        event.flags |= CompletionFlags::MULTI_RECV;
        event
    }

    /// Returns the event that releases the buffer without a message.
    fn release(&self) -> Event {
        Event::success(self.context, CompletionFlags::MULTI_RECV, 0)
    }

    fn cancelled(&self, flags: CompletionFlags) -> Event {
        Event::failure(self.context, RECEIVED | flags, Errno::ECANCELED)
    }
}

#[track_caller]
fn piece<'t>(resolution: Resolution<'t, Counted>) -> Piece<'t, Counted> {
    match resolution {
        Resolution::Piece(piece) => piece,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_are_pieces_and_the_buffer_comes_back_with_the_last() {
    for kind in KINDS {
        for released_alone in [false, true] {
            let table = table::<Counted, 2>(kind, 4);
            let ledger = Ledger::new();
            let op = post(&table, 0, ledger.buffer(32));
            let first = piece(complete(&table, &op.message(0, 10)));
            assert_eq!((first.key(), first.bytes().len(), first.result().unwrap().len), (op.key, 10, 10));
            let second = piece(complete(&table, &op.message(10, 0)));
            assert!(second.bytes().is_empty());
            drop(first);
            assert!(matches!(table.take(op.key), Taken::InFlight));
            let third = if released_alone {
                let third = piece(complete(&table, &op.message(10, 22)));
                assert!(matches!(complete(&table, &op.release()), Resolution::Continues));
                third
            } else {
                piece(complete(&table, &op.last(10, 22)))
            };
            assert_eq!(table.in_flight(), 0, "the provider has released it");
            assert!(table.context_of(op.key, 0).is_none(), "there is nothing to cancel");
            drop(second);
            assert!(!table.needs_slow_poll() && table.take_parked(RX).and_then(ParkedCompletion::done).is_none());
            assert!(matches!(table.take(op.key), Taken::Draining));
            drop(third);
            assert!(table.needs_slow_poll());
            let done = table.take_parked(RX).and_then(ParkedCompletion::done).unwrap();
            assert_eq!((done.key(), done.result().unwrap().len), (op.key, 0));
            drop(done);
            ledger.assert_all_dropped_once();
        }
    }
}

#[test]
fn a_buffer_without_pieces_comes_back_at_once() {
    for kind in KINDS {
        for keep in [false, true] {
            let table = table::<Counted, 1>(kind, 4);
            let ledger = Ledger::new();
            for cancelled in [false, true] {
                let op = post(&table, 0, ledger.buffer(8));
                let event = if cancelled { op.cancelled(CompletionFlags::MULTI_RECV) } else { op.release() };
                let done = if keep {
                    assert!(park(&table, &event).is_none());
                    taken(table.take(op.key))
                } else {
                    done(complete(&table, &event))
                };
                assert_eq!(done.key(), op.key);
                assert_eq!(done.result().is_err(), cancelled);
            }
            ledger.assert_all_dropped_once();
        }
    }
}

#[test]
fn a_cancelled_one_that_is_still_being_filled_goes_on() {
    for kind in KINDS {
        let table = table::<Counted, 1>(kind, 4);
        let ledger = Ledger::new();
        let op = post(&table, 0, ledger.buffer(8));
        table.cancelling(op.key, true);
        assert!(matches!(complete(&table, &op.cancelled(CompletionFlags::empty())), Resolution::Continues));
        assert_eq!(table.in_flight(), 1);
        let last = piece(complete(&table, &op.last(0, 8)));
        assert_eq!(last.bytes().len(), 8);
        drop(last);
        assert!(table.take_parked(RX).and_then(ParkedCompletion::done).unwrap().result().is_ok());
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn a_cancelled_receive_ends_with_the_next_event_if_no_flag_marks_its_end() {
    for kind in KINDS {
        let table = table::<Counted, 1>(kind, 4);
        let ledger = Ledger::new();
        let op = post(&table, 0, ledger.buffer(8));
        table.cancelling(op.key, false);
        let done = done(complete(&table, &op.cancelled(CompletionFlags::empty())));
        assert_eq!((done.key(), done.result().unwrap_err().errno), (op.key, Errno::ECANCELED));
        drop(done);
        ledger.assert_all_dropped_once();
        // The next operation in the slot was not cancelled.
        let next = post(&table, 0, ledger.buffer(8));
        table.cancelling(op.key, false);
        assert!(piece(complete(&table, &next.cancelled(CompletionFlags::empty()))).result().is_err());
        assert_eq!(table.in_flight(), 1);
    }
}

/// The sender closes in the middle of a message.
#[test]
fn a_message_lost_with_its_sender_leaves_the_buffer_with_the_transport() {
    for kind in KINDS {
        let table = table::<Counted, 1>(kind, 4);
        let ledger = Ledger::new();
        let op = post(&table, 0, ledger.buffer(8));
        let failed = piece(complete(&table, &op.cancelled(CompletionFlags::empty())));
        assert_eq!((failed.result().unwrap_err().errno, failed.bytes().len()), (Errno::ECANCELED, 0));
        drop(failed);
        assert!(matches!(table.take(op.key), Taken::InFlight));
        drop(piece(complete(&table, &op.last(0, 8))));
        assert!(table.take_parked(RX).and_then(ParkedCompletion::done).unwrap().result().is_ok());
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn message_outside_the_buffer_is_an_error() {
    for kind in KINDS {
        let table = table::<Counted, 1>(kind, 4);
        let ledger = Ledger::new();
        let op = post(&table, 0, ledger.buffer(16));
        let at = |place: usize, len| {
            let mut event = op.message(0, len);
            event.overflow_or_place = place;
            event
        };
        let wild = [
            at(op.start, 17),
            at(op.start + 16, 1),
            at(op.start - 1, 4),
            at(0, 1),
            at(usize::MAX, 2),
            at(op.start + 1, usize::MAX),
        ];
        for event in wild {
            let piece = piece(complete(&table, &event));
            assert_eq!(piece.result().unwrap_err().errno, Errno::EOTHER, "{event:?}");
            assert!(piece.bytes().is_empty());
        }
        let nothing = piece(complete(&table, &at(0, 0)));
        assert_eq!(nothing.result().unwrap().len, 0, "no bytes lie anywhere");
        drop(nothing);
        let mut failed = Event::failure(op.context, RECEIVED, Errno::ETRUNC);
        (failed.len, failed.overflow_or_place) = (100, 84);
        let piece = piece(complete(&table, &failed));
        let error = piece.result().unwrap_err();
        assert_eq!((error.errno, error.len, error.overflow), (Errno::ETRUNC, Some(16), Some(84)));
        assert_eq!(table.in_flight(), 1, "only the message has failed");
        drop(piece);
        table.close_endpoint(0);
        assert_cancelled(&table.take_parked(RX).and_then(ParkedCompletion::done).unwrap());
    }
}

#[test]
fn kept_pieces_count_as_out() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        let ledger = Ledger::new();
        let op = post(&table, 0, ledger.buffer(16));
        let Some(Resolution::Piece(one)) = park(&table, &op.message(0, 4)) else { panic!("a piece") };
        let Some(Resolution::Piece(two)) = park(&table, &op.last(4, 12)) else { panic!("a piece") };
        drop(one);
        assert!(table.take_parked(RX).and_then(ParkedCompletion::done).is_none());
        drop(two);
        assert_eq!(table.take_parked(RX).and_then(ParkedCompletion::done).unwrap().key(), op.key);
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn a_closed_endpoint_waits_for_pieces_too() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 3);
        let ledger = Ledger::new();
        let op = post(&table, 7, ledger.buffer(16));
        let held = piece(complete(&table, &op.message(0, 4)));
        assert_eq!(table.posted_on(7).count(), 1);
        table.close_endpoint(7);
        assert_eq!(table.posted_on(7).count(), 0);
        assert!(table.take_parked(RX).and_then(ParkedCompletion::done).is_none());
        // A late event belongs to no operation.
        assert!(matches!(complete(&table, &op.message(4, 4)), Resolution::Stale));
        assert_eq!(held.bytes().len(), 4);
        drop(held);
        assert_cancelled(&table.take_parked(RX).and_then(ParkedCompletion::done).unwrap());
        ledger.assert_all_dropped_once();
    }
}

/// A multi-receive can have several late events, so with pointers its slot is not reused before the
/// horizon.
#[test]
fn late_events_of_a_multi_receive_never_meet_another_operation() {
    let table = table::<Counted, 1>(ContextKind::Space, 3);
    let ledger = Ledger::new();
    let op = post(&table, 0, ledger.buffer(16));
    table.close_endpoint(0);
    assert_cancelled(&table.take_parked(RX).and_then(ParkedCompletion::done).unwrap());
    for left in (1..=3).rev() {
        let rejected = table.put(0, TX, ledger.buffer(1)).unwrap_err();
        assert_eq!(rejected.error, PostError::Full, "{left} events to go");
        assert!(matches!(complete(&table, &success(op.context, 1)), Resolution::Stale));
    }
    table.put(0, TX, ledger.buffer(1)).unwrap();
    table.drop_all();
    ledger.assert_all_dropped_once();
}

#[test]
fn buffers_are_dropped_with_the_table_while_pieces_are_forgotten() {
    for kind in KINDS {
        for step in 0..4 {
            let table = table::<Counted, 2>(kind, 4);
            let ledger = Ledger::new();
            let op = post(&table, 0, ledger.buffer(16));
            if step > 0 {
                core::mem::forget(piece(complete(&table, &op.message(0, 4))));
            }
            match step {
                2 => drop(complete(&table, &op.release())),
                3 => table.close_endpoint(0),
                _ => {}
            }
            table.drop_all();
            ledger.assert_all_dropped_once();
        }
    }
}

#[test]
fn a_refused_multi_receive_gives_its_buffer_back() {
    let table = table::<Counted, 1>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    let rejected = table.post(0, Kind::MultiReceive, ledger.buffer(4), |_, _| Err(PostError::Again)).unwrap_err();
    assert_eq!(rejected.error, PostError::Again);
    let op = post(&table, 0, rejected.value);
    let full = table.post(0, Kind::MultiReceive, ledger.buffer(4), |_, _| panic!("there is no slot")).unwrap_err();
    assert_eq!(full.error, PostError::Full);
    drop(done(complete(&table, &op.release())));
    drop(full);
    ledger.assert_all_dropped_once();
}
