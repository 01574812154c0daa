//! Rule 3: contexts.

use loom_core::buffer::{Buffer, Lent};
use loom_core::engine::op_table::{ContextKind, Kind, Resolution, Taken};
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno};

use super::{KINDS, RX, TX, Verbs, done, success, taken};
use crate::engine::op_table::world::{Counted, Ledger, complete, park, table};

#[test]
fn contexts_are_never_zero_and_never_shared() {
    for kind in KINDS {
        let table = table::<Counted, 4>(kind, 4);
        let ledger = Ledger::new();
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(table.put(0, TX, ledger.buffer(1)).unwrap().1);
        }
        assert!(seen.iter().all(|context| *context != 0));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4);
        table.drop_all();
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn words_are_generation_and_index() {
    let table = table::<(), 2>(ContextKind::Word, 4);
    for generation in [1, 3, 5, 7] {
        let (_, context) = table.put(0, TX, ()).unwrap();
        assert_eq!(context, generation << 32, "odd, so that it is never zero");
        let _ = done(complete(&table, &success(context, 0)));
    }
}

#[test]
fn space_is_aligned_and_large_enough_for_the_provider() {
    let table = table::<Byte, 3>(ContextKind::Space, 4);
    let end = (&raw const *table).addr() + size_of_val(&*table);
    for _ in 0..3 {
        let (_, context) = table.put(0, TX, Byte(7)).unwrap();
        let context = usize::try_from(context).unwrap();
        assert!(context.is_multiple_of(align_of::<u64>()) && context + 64 <= end);
    }
}

/// A buffer with the weakest alignment.
struct Byte(#[expect(dead_code, reason = "takes room in the slot")] u8);

// SAFETY: an empty range keeps no memory valid.
unsafe impl Buffer for Byte {
    fn lend(&mut self) -> Lent {
        ().lend()
    }
}

#[test]
fn the_provider_may_write_the_whole_space_while_in_flight() {
    let table = table::<Counted, 3>(ContextKind::Space, 4);
    let ledger = Ledger::new();
    let mut posted = Vec::new();
    for len in 1..=3 {
        let key = table.post(0, Kind::Receive, ledger.buffer(len), |_, context| {
            // SAFETY: the space of 64 bytes is the provider's while the operation is in flight.
            unsafe { context.as_ptr().cast::<[u8; 64]>().write([0xff; 64]) };
            posted.push((context.addr(), len));
            Ok(())
        });
        assert!(key.is_ok());
    }
    for (context, len) in posted {
        let done = done(complete(&table, &success(context, len)));
        assert_eq!(done.result().unwrap().len, len);
    }
    ledger.assert_all_dropped_once();
}

#[test]
fn foreign_contexts_belong_to_no_operation() {
    for kind in KINDS {
        let table = table::<Counted, 3>(kind, 4);
        let ledger = Ledger::new();
        let contexts: Vec<u64> = (0..3).map(|_| table.put(0, TX, ledger.buffer(1)).unwrap().1).collect();
        let mut foreign: Vec<u64> = vec![0, 1, 2, u64::MAX, u64::MAX >> 1, 0xdead_beef];
        match kind {
            ContextKind::Word => {
                // Index out of range, with an existing generation.
                foreign.extend([1 << 32 | 3, 1 << 32 | u64::from(u32::MAX)]);
            }
            ContextKind::Space => {
                // Unaligned into a slot, anywhere else in it, and one slot before and after the
                // table.
                let stride = contexts[1] - contexts[0];
                for context in &contexts {
                    foreign.extend((1..stride).map(|offset| context + offset));
                }
                foreign.extend([contexts[0] - 1, contexts[0] - stride, contexts[2] + stride, contexts[2] + 2 * stride]);
                foreign.extend([contexts[0] | 1 << 63, contexts[0].wrapping_add(stride << 40)]);
            }
        }
        for (nth, context) in foreign.iter().enumerate() {
            assert!(matches!(complete(&table, &success(*context, 1)), Resolution::Foreign), "{kind:?} {context:#x}");
            assert!(matches!(park(&table, &success(*context, 1)), Some(Resolution::Foreign)), "{kind:?} {context:#x}");
            assert_eq!(table.strays(), 2 * (nth as u64 + 1));
        }
        assert_eq!(table.in_flight(), 3);
        for context in contexts {
            assert!(done(complete(&table, &success(context, 1))).result().is_ok());
        }
        ledger.assert_all_dropped_once();
    }
}

/// Context of `Context::NONE`. A failed injected message is reported with it, and must not be taken
/// for a late event of an operation (`Completion::Unclaimed`).
#[test]
fn the_context_of_no_operation_is_foreign() {
    for kind in KINDS {
        let table = table::<(), 2>(kind, 4);
        let failure = Event::failure(0, CompletionFlags::SEND, Errno::EIO);
        assert!(matches!(complete(&table, &failure), Resolution::Foreign), "{kind:?}, an unused table");
        let (_, context) = table.put(0, TX, ()).unwrap();
        assert!(matches!(park(&table, &failure), Some(Resolution::Foreign)), "{kind:?}, an operation in flight");
        let _ = done(complete(&table, &success(context, 0)));
        assert!(matches!(complete(&table, &failure), Resolution::Foreign), "{kind:?}, an operation that is over");
    }
}

#[test]
fn a_second_event_is_stale() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        let ledger = Ledger::new();
        let (_, context) = table.put(0, TX, ledger.buffer(1)).unwrap();
        let _ = done(complete(&table, &success(context, 1)));
        assert!(matches!(complete(&table, &success(context, 1)), Resolution::Stale));
        assert!(matches!(park(&table, &success(context, 1)), Some(Resolution::Stale)));
        assert_eq!(table.strays(), 2);
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn a_second_event_while_the_first_is_parked_is_ignored() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        let ledger = Ledger::new();
        let (key, context) = table.put(0, RX, ledger.buffer(5)).unwrap();
        assert!(park(&table, &success(context, 4)).is_none());
        assert!(matches!(park(&table, &success(context, 3)), Some(Resolution::Stale)));
        assert!(matches!(complete(&table, &success(context, 3)), Resolution::Stale));
        assert_eq!(taken(table.take(key)).result().unwrap().len, 4);
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn a_word_of_an_earlier_generation_is_stale_while_its_slot_is_in_use() {
    let table = table::<Counted, 1>(ContextKind::Word, 4);
    let ledger = Ledger::new();
    let mut words = Vec::new();
    for _ in 0..4 {
        let (key, context) = table.put(0, TX, ledger.buffer(1)).unwrap();
        for old in &words {
            assert!(matches!(complete(&table, &success(*old, 1)), Resolution::Stale));
        }
        assert!(matches!(table.take(key), Taken::InFlight));
        assert_eq!(done(complete(&table, &success(context, 1))).key(), key);
        words.push(context);
    }
    // A future generation of the slot.
    assert!(matches!(complete(&table, &success(99 << 32, 1)), Resolution::Stale));
    ledger.assert_all_dropped_once();
}
