//! Atomic operations on values: rule 11.

use loom_core::buffer::Lent;
use loom_core::engine::op_table::{ContextKind, Fetched, OpKey, OpTable, ParkedCompletion, Resolution, Taken};
use loom_core::error::PostError;
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno};

use super::{KINDS, TX};
use crate::engine::op_table::world::{Counted, complete, park, table};

/// Posts a fetching operation. Returns its key, its context, and the memory of its result.
fn ask(table: &OpTable<Counted>, operand: u64) -> Result<(OpKey, u64, Lent), PostError> {
    let mut posted = None;
    let key = table.post_values(0, (operand, !operand), true, |lent, context| {
        let [first, second] = [lent.operand, lent.compare].map(|lent| {
            // SAFETY: eight bytes that the table lends.
            unsafe { lent.ptr.cast::<u64>().read_unaligned() }
        });
        assert_eq!((first, second, lent.result.len), (operand, !operand, 8));
        posted = Some((context.addr(), lent.result));
        Ok(())
    })?;
    let (context, result) = posted.expect("it was submitted");
    Ok((key, context, result))
}

fn bring(context: u64, result: Lent, value: u64) -> Event {
    // SAFETY: lent for writing until the event is reported.
    unsafe { result.ptr.cast::<u64>().write_unaligned(value) };
    Event::success(context, CompletionFlags::ATOMIC | CompletionFlags::READ, 0)
}

#[track_caller]
fn fetched(resolution: Resolution<'_, Counted>) -> Fetched {
    match resolution {
        Resolution::Value(fetched) => fetched,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_comes_with_its_event_and_its_slots_are_free_again() {
    for kind in KINDS {
        let table = table::<Counted, 4>(kind, 8);
        let per_value = if kind == ContextKind::Space { 2 } else { 1 };
        for round in 0..20 {
            let (key, context, result) = ask(&table, round).unwrap();
            assert!(table.is_valued(key) && table.in_flight() == per_value);
            assert!(matches!(table.take(key), Taken::Unknown), "it has no buffer");
            let over = fetched(complete(&table, &bring(context, result, 1 << 40 | round)));
            assert_eq!((over.key, over.value::<u64>().unwrap()), (key, Some(1 << 40 | round)));
            assert_eq!(over.value::<u32>().unwrap(), None, "another size");
            assert!(!table.is_valued(key) && table.in_flight() == 0);
        }
    }
}

#[test]
fn as_many_values_are_in_flight_as_there_are_slots_for() {
    for kind in KINDS {
        let table = table::<Counted, 5>(kind, 8);
        let most = if kind == ContextKind::Space { 2 } else { 5 };
        let asked: Vec<_> = (0..most).map(|operand| ask(&table, operand).unwrap()).collect();
        assert_eq!(ask(&table, 9).map(|_| ()), Err(PostError::Full));
        for (operand, (key, context, result)) in asked.into_iter().enumerate() {
            let event = bring(context, result, 7 * operand as u64);
            if operand % 2 == 0 {
                assert!(park(&table, &event).is_none(), "it is kept");
                assert_eq!(table.take_value(key).unwrap().value().unwrap(), Some(7 * operand as u64));
                assert!(table.take_value(key).is_none(), "it was taken");
            } else {
                assert!(park(&table, &event).is_none(), "it is kept");
                let Some(ParkedCompletion::Value(over)) = table.take_parked(TX) else {
                    panic!("it comes to a poll, too")
                };
                assert_eq!((over.key, over.value().unwrap()), (key, Some(7 * operand as u64)));
            }
        }
        assert_eq!(table.in_flight(), 0);
    }
}

#[test]
fn a_refused_value_leaves_no_operation() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        for _ in 0..9 {
            let refused = table.post_values(0, (1_u8, 2), true, |_, _| Err(PostError::Again));
            assert_eq!(refused, Err(PostError::Again));
            assert_eq!(table.in_flight(), 0);
        }
    }
}

#[test]
fn a_value_of_a_closed_endpoint_is_cut_off_and_its_late_event_is_stale() {
    for kind in KINDS {
        let table = table::<Counted, 4>(kind, 8);
        let (key, context, result) = ask(&table, 3).unwrap();
        // SAFETY: no provider accesses the lent memory.
        unsafe { table.abandon(0) };
        assert_eq!(table.take_value(key).unwrap().result().unwrap_err().errno, Errno::ECANCELED);
        let _ = result;
        let late = Event::success(context, CompletionFlags::ATOMIC, 0);
        assert!(matches!(complete(&table, &late), Resolution::Stale));
        for round in 0..20 {
            let (_, context, result) = ask(&table, round).unwrap();
            assert_eq!(fetched(complete(&table, &bring(context, result, round))).value().unwrap(), Some(round));
        }
    }
}

/// Takes the event as a wait does, before the event is kept.
fn awaited(table: &OpTable<Counted>, key: OpKey, event: &Event) -> Option<Fetched> {
    // SAFETY: no provider accesses the lent memory.
    unsafe { table.succeed_value(key, event) }
}

#[test]
fn waiter_for_a_value_takes_its_own_and_no_other() {
    for kind in KINDS {
        let table = table::<Counted, 4>(kind, 8);
        for round in 0..20 {
            let [first, second] = [10, 20].map(|operand| ask(&table, operand).unwrap());
            let event = bring(second.1, second.2, round);
            assert!(awaited(&table, first.0, &event).is_none(), "it is another's");
            assert!(table.is_valued(first.0) && table.is_valued(second.0));
            let over = awaited(&table, second.0, &event).expect("its own");
            assert_eq!((over.key, over.value::<u64>().unwrap()), (second.0, Some(round)));
            assert!(awaited(&table, second.0, &event).is_none() && !table.is_valued(second.0));
            let event = bring(first.1, first.2, round + 1);
            assert_eq!(awaited(&table, first.0, &event).unwrap().value().unwrap(), Some(round + 1));
            assert_eq!(table.in_flight(), 0);
        }
    }
}

#[test]
fn a_failed_value_is_kept_for_its_waiter() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 8);
        let (key, context, _) = ask(&table, 1).unwrap();
        let event = Event::failure(context, CompletionFlags::ATOMIC, Errno::EIO);
        assert!(awaited(&table, key, &event).is_none(), "it says nothing of an error");
        assert!(park(&table, &event).is_none(), "it is kept");
        assert_eq!(table.take_value(key).unwrap().result().unwrap_err().errno, Errno::EIO);
        assert_eq!(table.in_flight(), 0);
    }
}

#[test]
fn length_of_a_failed_value_is_not_that_of_the_provider() {
    for kind in KINDS {
        for kept in [false, true] {
            let table = table::<Counted, 2>(kind, 8);
            let (key, context, _) = ask(&table, 1).unwrap();
            let event = Event { len: 1 << 40, ..Event::failure(context, CompletionFlags::ATOMIC, Errno::EIO) };
            let failed = if kept {
                assert!(park(&table, &event).is_none(), "it is kept");
                table.take_value(key).unwrap()
            } else {
                fetched(complete(&table, &event))
            };
            assert_eq!(failed.result().unwrap_err().len, None, "kept: {kept}");
        }
    }
}

#[test]
fn waiter_for_a_value_of_a_closed_endpoint_takes_no_late_event() {
    for kind in KINDS {
        let table = table::<Counted, 4>(kind, 8);
        let (key, context, result) = ask(&table, 3).unwrap();
        let late = bring(context, result, 5);
        // SAFETY: as above.
        unsafe { table.abandon(0) };
        assert!(awaited(&table, key, &late).is_none(), "the operation is over");
        assert_eq!(table.take_value(key).unwrap().result().unwrap_err().errno, Errno::ECANCELED);
        assert!(matches!(complete(&table, &late), Resolution::Stale));
    }
}
