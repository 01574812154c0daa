//! The rules of the op table, one behaviour for each test.

use core::cell::{Cell, RefCell};
use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;
use std::panic::catch_unwind;
use std::rc::Rc;

use loom_core::buffer::{Buffer, Lent};
use loom_core::completion::Done;
use loom_core::engine::op_table::{ContextKind, Direction, Kind, OpKey, OpTable, Resolution, Taken};
use loom_core::error::{PostError, Rejected};
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno};

use crate::world::{Counted, Ledger, complete, kind, park, table};

const KINDS: [ContextKind; 2] = [ContextKind::Word, ContextKind::Space];
const TX: Direction = Direction::Transmit;
const RX: Direction = Direction::Receive;

/// What the tests do to a table, without the words that a transport needs.
trait Verbs<B> {
    /// Posts, and tells the key and the context.
    fn put(&self, endpoint: u16, direction: Direction, buf: B) -> Result<(OpKey, u64), Rejected<B>>;
    fn close_endpoint(&self, endpoint: u16);
    fn drop_all(&self);
}

impl<B: Buffer> Verbs<B> for OpTable<B> {
    fn put(&self, endpoint: u16, direction: Direction, buf: B) -> Result<(OpKey, u64), Rejected<B>> {
        let mut word = 0;
        let key = self.post(endpoint, kind(direction), buf, |_, context| {
            word = context.addr();
            Ok(())
        })?;
        Ok((key, word))
    }

    fn close_endpoint(&self, endpoint: u16) {
        // SAFETY: nothing is lent to anybody in these tests.
        unsafe { self.abandon(endpoint) };
    }

    fn drop_all(&self) {
        // SAFETY: as above.
        unsafe { self.drop_buffers() };
    }
}

fn success(context: u64, len: usize) -> Event {
    Event::success(context, CompletionFlags::RECV, len)
}

#[track_caller]
fn done<B>(resolution: Resolution<B>) -> Done<B> {
    match resolution {
        Resolution::Done(done, ..) => done,
        Resolution::Stale => panic!("stale"),
        Resolution::Foreign => panic!("foreign"),
    }
}

#[track_caller]
fn taken<B>(taken: Taken<B>) -> Done<B> {
    match taken {
        Taken::Done(done) => done,
        Taken::InFlight => panic!("in flight"),
        Taken::Unknown => panic!("unknown"),
    }
}

#[track_caller]
fn assert_cancelled<B>(done: &Done<B>) {
    let error = done.result().unwrap_err();
    assert_eq!((error.errno, error.len, error.overflow), (Errno::ECANCELED, 0, 0));
}

// Rules 1 and 2: where a buffer is, and when it is looked at.

/// A buffer that lends itself, so that the pointer tells where it was at the time.
struct Inline {
    bytes: [u8; 8],
    asked: Rc<Cell<u32>>,
}

// SAFETY: the range is valid while the value stays where it is; these tests never move it while it is lent, and
// nobody reads or writes it.
unsafe impl Buffer for Inline {
    fn lend(&mut self) -> Lent {
        self.asked.set(self.asked.get() + 1);
        Lent::both(NonNull::from_mut(&mut self.bytes).cast(), self.bytes.len())
    }
}

#[test]
fn the_pointer_is_taken_in_the_slot() {
    for kind in KINDS {
        let table = table::<Inline, 2>(kind, 4);
        let inside = (&raw const *table).addr()..(&raw const *table).addr() + size_of_val(&*table);
        let asked = Rc::new(Cell::new(0));
        for _ in 0..2 {
            let buf = Inline { bytes: [1; 8], asked: asked.clone() };
            let posted = table.post(0, Kind::Send, buf, |lent, _| {
                assert!(inside.contains(&lent.ptr().addr().get()), "lent from its slot");
                Ok(())
            });
            assert!(posted.is_ok());
        }
        assert_eq!(asked.get(), 2, "each buffer was asked once");
        table.drop_all();
    }
}

#[test]
fn a_buffer_is_not_asked_when_the_table_is_full() {
    let table = table::<Inline, 1>(ContextKind::Word, 4);
    let asked = Rc::new(Cell::new(0));
    let buf = || Inline { bytes: [1; 8], asked: asked.clone() };
    assert!(table.put(0, TX, buf()).is_ok());
    assert_eq!(table.put(0, TX, buf()).unwrap_err().error, PostError::Full);
    assert_eq!(asked.get(), 1);
    table.drop_all();
}

#[test]
fn bytes_written_while_lent_come_back() {
    let mut memory = [0; 4];
    let table = table::<&mut [u8], 1>(ContextKind::Word, 4);
    let mut at = None;
    let key = table.post(0, Kind::Receive, &mut memory, |lent, context| {
        at = Some((lent.ptr(), context.addr()));
        Ok(())
    });
    let (ptr, context) = at.unwrap();
    // SAFETY: lent for writing, four bytes, and the operation is in flight.
    unsafe { ptr.cast::<[u8; 4]>().write(*b"loom") };
    let done = done(complete(&table, &success(context, 4)));
    assert_eq!((done.key(), &done.buf()[..]), (key.unwrap(), &b"loom"[..]));
}

// Rule 3: contexts.

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

// SAFETY: an empty range has nothing to keep valid.
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
            // SAFETY: the space is the provider's while the operation is in flight, 64 bytes.
            unsafe { context.as_ptr().cast::<[u8; 64]>().write([0xff; 64]) };
            posted.push((context.addr(), len));
            Ok(())
        });
        assert!(key.is_ok());
    }
    for (context, len) in posted {
        let done = done(complete(&table, &success(context, len)));
        assert_eq!(done.result().unwrap().len(), len);
    }
    ledger.assert_all_dropped_once();
}

#[test]
fn foreign_contexts_belong_to_nobody() {
    for kind in KINDS {
        let table = table::<Counted, 3>(kind, 4);
        let ledger = Ledger::new();
        let contexts: Vec<u64> = (0..3).map(|_| table.put(0, TX, ledger.buffer(1)).unwrap().1).collect();
        let mut foreign: Vec<u64> = vec![0, 1, 2, u64::MAX, u64::MAX >> 1, 0xdead_beef];
        match kind {
            ContextKind::Word => {
                // Index out of range, with a generation that exists.
                foreign.extend([1 << 32 | 3, 1 << 32 | u64::from(u32::MAX)]);
            }
            ContextKind::Space => {
                // Unaligned into a slot, anywhere else in it, and one slot before and after the table.
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

/// The context of `Context::NONE`: an injected message that failed is reported with it, and must not be taken for a
/// late event of an operation (`Completion::Unclaimed`).
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
fn a_second_event_while_the_first_is_parked_changes_nothing() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        let ledger = Ledger::new();
        let (key, context) = table.put(0, RX, ledger.buffer(5)).unwrap();
        assert!(park(&table, &success(context, 4)).is_none());
        assert!(matches!(park(&table, &success(context, 3)), Some(Resolution::Stale)));
        assert!(matches!(complete(&table, &success(context, 3)), Resolution::Stale));
        assert_eq!(taken(table.take(key)).result().unwrap().len(), 4);
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
    // One that the slot will have some day.
    assert!(matches!(complete(&table, &success(99 << 32, 1)), Resolution::Stale));
    ledger.assert_all_dropped_once();
}

// Rule 4: reuse of slots.

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
    // Capacity two, one ghost: one more may be in flight, in the very slot.
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
    assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full, "the completion is kept");
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
    // One leaves from the middle, then the last: their slots are free.
    for op in [3, 1] {
        assert!(matches!(complete(&table, &success(posted[op].1, 1)), Resolution::Stale));
        assert_eq!(table.put(2, RX, ledger.buffer(1)).unwrap().1, posted[op].1);
        assert_eq!(table.put(2, RX, ledger.buffer(1)).unwrap_err().error, PostError::Full);
    }
    // Six events since the first was taken: at ten it is reclaimed, at eleven the next.
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

// Rule 5: how many.

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
            assert_eq!((rejected.error, rejected.buf.id), (PostError::Full, id));
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
        assert_eq!(table.in_flight(), 0);
        assert_eq!(table.put(0, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full);
        assert!(table.take_parked(TX).is_some());
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
                    assert_eq!(lent.len(), 2);
                    refused = Some(context.addr());
                    Err(error)
                })
                .unwrap_err();
            assert_eq!((rejected.error, table.in_flight()), (error, 0));
            assert_eq!(ledger.drops(rejected.buf.id), 0);
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
    while table.take_parked(TX).or_else(|| table.take_parked(RX)).is_some() {}
    ledger.assert_all_dropped_once();
    assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full, "three events may be queued");
    table.drained();
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
    while table.take_parked(TX).is_some() {}
    for word in words {
        assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full);
        assert!(matches!(complete(&table, &success(word, 1)), Resolution::Stale));
        assert!(table.put(2, TX, ledger.buffer(1)).is_ok());
    }
    table.drop_all();
    ledger.assert_all_dropped_once();
}

// Closing an endpoint.

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
            while let Some(done) = table.take_parked(direction) {
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
        assert!(table.take_parked(TX).is_none() && table.take_parked(RX).is_none());
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn operations_in_flight_are_told_apart_by_endpoint_and_kind() {
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
        let ended = [TX, TX, TX].map(|direction| table.take_parked(direction).unwrap().result().unwrap_err().flags);
        assert_eq!(
            ended,
            [CompletionFlags::SEND, CompletionFlags::READ, CompletionFlags::READ],
            "a read ends on that side"
        );
        table.drop_all();
    }
}

#[test]
fn closing_an_endpoint_leaves_what_was_over_before_as_it_ended() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 8);
        let ledger = Ledger::new();
        let (kept, context) = table.put(1, RX, ledger.buffer(4)).unwrap();
        let (cut, _) = table.put(1, RX, ledger.buffer(4)).unwrap();
        assert!(park(&table, &success(context, 3)).is_none());
        table.close_endpoint(1);
        table.close_endpoint(1);
        let done = table.take_parked(RX).unwrap();
        assert_eq!((done.key(), done.result().unwrap().len()), (kept, 3));
        let done = table.take_parked(RX).unwrap();
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
        // One event before the completion is taken, one after, and all of them twice.
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

// What is kept.

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
                assert_eq!(table.take_parked(direction).unwrap().key(), posted[op].0);
            }
            assert!(table.take_parked(direction).is_none());
        }
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn kept_completions_can_be_taken_from_anywhere() {
    // Which of four are taken by key first; the others come in order.
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
                    assert_eq!(table.take_parked(RX).unwrap().key(), posted[op].0);
                }
                assert!(table.take_parked(RX).is_none());
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

// Lengths.

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

// Rule 6: user code.

/// What a buffer does when it is asked to lend, and when it is dropped.
type Act = Box<dyn FnOnce()>;

struct Acting {
    lend: Option<Act>,
    drop: Option<Act>,
    _counted: Counted,
}

impl Acting {
    fn quiet(ledger: &Ledger) -> Self {
        Acting { lend: None, drop: None, _counted: ledger.buffer(1) }
    }

    fn on_lend(ledger: &Ledger, act: impl FnOnce() + 'static) -> Self {
        let mut acting = Self::quiet(ledger);
        acting.lend = Some(Box::new(act));
        acting
    }

    fn on_drop(ledger: &Ledger, act: impl FnOnce() + 'static) -> Self {
        let mut acting = Self::quiet(ledger);
        acting.drop = Some(Box::new(act));
        acting
    }
}

// SAFETY: an empty range has nothing to keep valid.
unsafe impl Buffer for Acting {
    fn lend(&mut self) -> Lent {
        if let Some(act) = self.lend.take() {
            act();
        }
        ().lend()
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if let Some(act) = self.drop.take() {
            act();
        }
    }
}

#[test]
fn a_panic_in_lend_drops_the_buffer_and_frees_the_slot() {
    for kind in KINDS {
        let table = table::<Acting, 1>(kind, 4);
        let ledger = Ledger::new();
        for _ in 0..3 {
            let buf = Acting::on_lend(&ledger, || panic!("planted"));
            let result = catch_unwind(AssertUnwindSafe(|| table.put(0, TX, buf).is_ok()));
            assert!(result.is_err());
            assert_eq!(table.in_flight(), 0);
            ledger.assert_all_dropped_once();
        }
        let (_, context) = table.put(0, TX, Acting::quiet(&ledger)).unwrap();
        assert!(done(complete(&table, &success(context, 0))).result().is_ok());
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn a_panic_in_a_destructor_during_teardown_drops_all_the_others() {
    for kind in KINDS {
        for bad in 0..5 {
            let table = table::<Acting, 5>(kind, 4);
            let ledger = Ledger::new();
            for nth in 0..5 {
                let buf =
                    if nth == bad { Acting::on_drop(&ledger, || panic!("planted")) } else { Acting::quiet(&ledger) };
                let (_, context) = table.put(0, RX, buf).unwrap();
                if nth % 2 == 0 {
                    assert!(park(&table, &success(context, 0)).is_none());
                }
            }
            assert!(catch_unwind(AssertUnwindSafe(|| table.drop_all())).is_err());
            ledger.assert_all_dropped_once();
            drop(table);
            ledger.assert_all_dropped_once();
        }
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

/// The table is safe to ask after its buffers were dropped: `drop_buffers` asks nothing of its caller but that the
/// endpoints are closed.
#[test]
fn after_teardown_nothing_is_found() {
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
        assert!(table.take_parked(TX).is_none(), "{kind:?}");
        assert!(table.take_parked(RX).is_none(), "{kind:?}");
        ledger.assert_all_dropped_once();
    }
}

type Shared<const N: usize> = Rc<OpTable<Acting>>;

fn shared<const N: usize>(kind: ContextKind) -> Shared<N> {
    Rc::from(table::<Acting, N>(kind, 4))
}

#[test]
fn lend_may_post_to_the_same_table() {
    for kind in KINDS {
        let table = shared::<4>(kind);
        let ledger = Ledger::new();
        let inner = Rc::new(RefCell::new(Vec::new()));
        let buf = Acting::on_lend(&ledger, {
            let (table, ledger, inner) = (table.clone(), ledger.clone(), inner.clone());
            move || {
                for _ in 0..2 {
                    inner.borrow_mut().push(table.put(1, RX, Acting::quiet(&ledger)).unwrap());
                }
            }
        });
        let outer = table.put(0, TX, buf).unwrap();
        assert_eq!(table.in_flight(), 3);
        for (key, context) in inner.take().into_iter().chain([outer]) {
            assert_eq!(done(complete(&table, &success(context, 0))).key(), key);
        }
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn lend_may_fill_the_table() {
    for kind in KINDS {
        let table = shared::<3>(kind);
        let ledger = Ledger::new();
        let buf = Acting::on_lend(&ledger, {
            let (table, ledger) = (table.clone(), ledger.clone());
            move || {
                let mut posted = 0;
                while table.put(1, RX, Acting::quiet(&ledger)).is_ok() {
                    posted += 1;
                }
                assert_eq!(posted, 2);
            }
        });
        assert!(table.put(0, TX, buf).is_ok());
        assert_eq!(table.in_flight(), 3);
        table.drop_all();
        ledger.assert_all_dropped_once();
    }
}

/// Rule 5 holds, too, when `lend` posts while events of closed endpoints may still lie in the queue.
#[test]
fn lend_may_not_post_more_than_the_queue_holds() {
    let table = shared::<2>(ContextKind::Word);
    let ledger = Ledger::new();
    let (key, _) = table.put(1, TX, Acting::quiet(&ledger)).unwrap();
    table.close_endpoint(1);
    drop(taken(table.take(key)));
    let buf = Acting::on_lend(&ledger, {
        let (table, ledger) = (table.clone(), ledger.clone());
        move || drop(table.put(2, TX, Acting::quiet(&ledger)))
    });
    drop(table.put(2, TX, buf));
    assert!(table.in_flight() < 2, "{} in flight and one ghost, on a queue for two", table.in_flight());
    table.drop_all();
    ledger.assert_all_dropped_once();
}

#[test]
fn lend_may_complete_take_and_close() {
    for kind in KINDS {
        let table = shared::<4>(kind);
        let ledger = Ledger::new();
        let (first, context) = table.put(1, TX, Acting::quiet(&ledger)).unwrap();
        let (second, _) = table.put(2, RX, Acting::quiet(&ledger)).unwrap();
        let buf = Acting::on_lend(&ledger, {
            let table = table.clone();
            move || {
                assert_eq!(done(complete(&table, &success(context, 0))).key(), first);
                table.close_endpoint(2);
                assert_eq!(taken(table.take(second)).key(), second);
                // The operation that is about to be posted has no endpoint yet that could be closed.
                table.close_endpoint(3);
            }
        });
        let (third, context) = table.put(3, TX, buf).unwrap();
        assert_eq!(table.in_flight(), 1);
        assert_eq!(done(complete(&table, &success(context, 0))).key(), third);
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn a_destructor_of_a_completion_may_post() {
    for kind in KINDS {
        let table = shared::<1>(kind);
        let ledger = Ledger::new();
        let buf = Acting::on_drop(&ledger, {
            let (table, ledger) = (table.clone(), ledger.clone());
            move || assert!(table.put(0, TX, Acting::quiet(&ledger)).is_ok())
        });
        let (_, context) = table.put(0, TX, buf).unwrap();
        drop(complete(&table, &success(context, 0)));
        assert_eq!(table.in_flight(), 1);
        table.drop_all();
        ledger.assert_all_dropped_once();
    }
}

// Endpoints and directions do not matter to slots.

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

/// A queue whose whole table was in flight on an endpoint that closed, over a provider that reports nothing of it:
/// with pointers for contexts no post is possible until as many events as the horizon have come (rule 4).
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
    table.drained();
    assert_eq!(table.put(2, TX, ledger.buffer(1)).unwrap_err().error, PostError::Full);
    for _ in 0..2 {
        assert!(matches!(complete(&table, &success(8, 1)), Resolution::Foreign));
    }
    assert!(table.put(2, TX, ledger.buffer(1)).is_ok());
    table.drop_all();
}
