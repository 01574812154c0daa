//! Receives used up by writes and posted again: rule 10.

use core::cell::{Cell, RefCell};
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::rc::Rc;

use loom_core::buffer::{Buffer, Lent};
use loom_core::engine::op_table::{ContextKind, Kind, OpKey, OpTable, ParkedCompletion, Resolution, Taken};
use loom_core::error::PostError;
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno, FabricAddr};

use super::{KINDS, RX, TX, Verbs, done, success, taken};
use crate::engine::op_table::world::{Counted, Ledger, complete, table};

fn use_up<B>(table: &OpTable<B>, context: u64) {
    // SAFETY: these tests lend no memory to a provider.
    unsafe { table.use_up(context) };
}

/// Posts the waiting receives, with this answer. Returns endpoints, sources, lengths and contexts.
fn again<B: Buffer>(table: &OpTable<B>, answer: Result<(), PostError>) -> Vec<(u16, u64, usize, u64)> {
    let posts = RefCell::new(Vec::new());
    table.post_again(
        |_| true,
        |endpoint, from, pieces, context| {
            let len = pieces.iter().map(|piece| piece.len).sum();
            posts.borrow_mut().push((endpoint, from.0, len, context.addr()));
            answer
        },
    );
    posts.into_inner()
}

fn spare(table: &OpTable<Counted>, answer: Result<(), PostError>) -> Result<u64, PostError> {
    let word = Cell::new(0);
    table.post_empty(3, Kind::Spare, |context| {
        word.set(context.addr());
        answer
    })?;
    Ok(word.get())
}

#[test]
fn a_receive_keeps_key_and_context_until_it_has_received() {
    for kind in KINDS {
        let ledger = Ledger::new();
        let table = table::<Counted, 2>(kind, 8);
        let word = Cell::new(0);
        let receive = table.post(7, Kind::Receive, ledger.buffer(5), |_, context| {
            word.set(context.addr());
            table.note_source(context, FabricAddr(11));
            Ok(())
        });
        let (key, context) = (receive.unwrap(), word.get());
        assert!(!table.has_used_up());
        for _ in 0..3 {
            use_up(&table, context);
            // A second report has no effect.
            use_up(&table, context);
            assert!(table.has_used_up() && table.needs_slow_poll() && table.in_flight() == 1);
            assert!(matches!(table.take(key), Taken::InFlight));
            assert_eq!(table.posted_on(7).count(), 0, "the provider has nothing of it");
            // Neither an event nor a cancel finds it.
            assert!(matches!(complete(&table, &success(context, 1)), Resolution::Stale));
            assert!(table.context_of(key, 7).is_none());
            for _ in 0..2 {
                assert_eq!(again(&table, Err(PostError::Again)), [(7, 11, 5, context)]);
                assert!(table.has_used_up());
            }
            assert_eq!(again(&table, Ok(())), [(7, 11, 5, context)]);
            assert!(!table.has_used_up());
            assert_eq!(table.posted_on(7).count(), 1);
        }
        assert_eq!(ledger.drops(0), 0);
        let done = done(complete(&table, &success(context, 4)));
        assert_eq!((done.key(), done.result().unwrap().len), (key, 4));
        drop(done);
        assert_eq!(again(&table, Ok(())), []);
        assert_eq!(table.in_flight(), 0);
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn receives_keep_their_order_when_they_are_refused_for_the_moment() {
    for kind in KINDS {
        let ledger = Ledger::new();
        let table = table::<Counted, 4>(kind, 8);
        let contexts = Cell::new(Vec::new());
        for id in 0..3 {
            let receive = table.post(7, Kind::Receive, ledger.buffer(id), |_, context| {
                let mut words = contexts.take();
                words.push(context.addr());
                contexts.set(words);
                Ok(())
            });
            receive.unwrap();
        }
        let contexts = contexts.take();
        contexts.iter().for_each(|context| use_up(&table, *context));
        for _ in 0..3 {
            assert_eq!(again(&table, Err(PostError::Again)).len(), 1);
        }
        assert!(again(&table, Ok(())).into_iter().map(|(.., context)| context).eq(contexts.iter().copied()));
        for context in contexts {
            drop(done(complete(&table, &success(context, 0))));
        }
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn contexts_without_a_receive_are_not_used_up() {
    for kind in KINDS {
        let ledger = Ledger::new();
        let table = table::<Counted, 4>(kind, 8);
        let (_, sent) = table.put(0, TX, ledger.buffer(1)).unwrap();
        for context in [sent, 0, 1, u64::MAX, 77 << 32] {
            use_up(&table, context);
            assert!(!table.has_used_up());
        }
        drop(done(complete(&table, &success(sent, 1))));
        use_up(&table, sent);
        assert!(!table.has_used_up(), "it is over");
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn a_receive_that_cannot_be_posted_again_ends() {
    for kind in KINDS {
        let ledger = Ledger::new();
        let table = table::<Counted, 4>(kind, 8);
        let ends = |key: OpKey, errno: Errno| {
            let error = taken(table.take(key)).result().unwrap_err();
            assert_eq!((error.errno, error.len), (errno, None));
            assert_eq!(table.in_flight(), 0);
        };
        // A tagged receive.
        let word = Cell::new(0);
        let key = table.post(0, Kind::TaggedReceive, ledger.buffer(1), |_, context| {
            word.set(context.addr());
            Ok(())
        });
        use_up(&table, word.get());
        ends(key.unwrap(), Errno::ECANCELED);
        // A receive that the provider refuses.
        let (key, context) = table.put(0, RX, ledger.buffer(1)).unwrap();
        use_up(&table, context);
        again(&table, Err(PostError::Errno(Errno::EINVAL)));
        ends(key, Errno::EINVAL);
        // A receive of a full endpoint, and a cancelled one.
        for cancelled in [false, true] {
            let (key, context) = table.put(4, RX, ledger.buffer(1)).unwrap();
            assert!(!table.cancel_used_up(key, 4));
            use_up(&table, context);
            assert!(!table.cancel_used_up(key, 5));
            if cancelled {
                assert!(table.cancel_used_up(key, 4));
            } else {
                table.post_again(|endpoint| endpoint != 4, |_, _, _, _| panic!("it is closed"));
            }
            ends(key, Errno::ECANCELED);
            assert!(!table.cancel_used_up(key, 4));
        }
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn used_up_receives_end_with_their_endpoint_or_table() {
    for kind in KINDS {
        let ledger = Ledger::new();
        let table = table::<Counted, 4>(kind, 8);
        let keys = [1, 1, 2, 2].map(|endpoint| {
            let (key, context) = table.put(endpoint, RX, ledger.buffer(1)).unwrap();
            use_up(&table, context);
            key
        });
        table.end_used_up(1);
        for key in &keys[..2] {
            assert_eq!(taken(table.take(*key)).result().unwrap_err().errno, Errno::ECANCELED);
        }
        // No event is owed, so the slots are free at once.
        table.close_endpoint(1);
        let (_, context) = table.put(1, RX, ledger.buffer(1)).unwrap();
        use_up(&table, context);
        table.close_endpoint(2);
        assert_eq!(taken(table.take(keys[2])).result().unwrap_err().errno, Errno::ECANCELED);
        table.drop_all();
        ledger.assert_all_dropped_once();
        assert!(!table.has_used_up());
    }
}

#[test]
fn spare_receives_of_the_table_are_not_reported() {
    for kind in KINDS {
        let table = table::<Counted, 2>(kind, 4);
        assert_eq!(spare(&table, Err(PostError::Errno(Errno::EINVAL))), Err(PostError::Errno(Errno::EINVAL)));
        assert_eq!(table.in_flight(), 0);
        let one = spare(&table, Ok(())).unwrap();
        let two = spare(&table, Err(PostError::Again)).unwrap();
        assert_eq!(spare(&table, Ok(())), Err(PostError::Full));
        assert_eq!(again(&table, Ok(())), [(3, FabricAddr::UNSPEC.0, 0, two)]);
        for _ in 0..3 {
            use_up(&table, two);
            use_up(&table, one);
            let order = again(&table, Ok(())).into_iter().map(|(.., context)| context);
            assert!(order.eq([two, one]));
        }
        assert_eq!(table.posted_on(3).map(|posted| posted.kind).collect::<Vec<_>>(), [Kind::Spare; 2]);
        // A message without a receive.
        let Resolution::Unwanted(error) = complete(&table, &success(one, 0)) else { panic!("told") };
        assert_eq!(error.errno, Errno::ENOBUFS);
        assert_eq!(again(&table, Ok(())).len(), 1);
        let mut event = Event::failure(two, CompletionFlags::RECV, Errno::ETRUNC);
        event.overflow_or_place = 9;
        let Resolution::Unwanted(error) = complete(&table, &event) else { panic!("told") };
        assert_eq!((error.errno, error.overflow), (Errno::ETRUNC, Some(9)));
        // Cancelled, refused, and closed.
        let cancelled = Event::failure(one, CompletionFlags::RECV, Errno::ECANCELED);
        assert!(matches!(complete(&table, &cancelled), Resolution::Continues));
        assert_eq!(table.in_flight(), 1);
        // The table cannot drop these receives after any error of the post.
        assert_eq!(again(&table, Err(PostError::Errno(Errno::ENOMEM))).len(), 1);
        assert_eq!((table.in_flight(), table.has_used_up()), (1, true));
        let late = again(&table, Ok(())).first().map(|(.., context)| *context).unwrap();
        let waits = spare(&table, Ok(())).unwrap();
        use_up(&table, waits);
        table.close_endpoint(3);
        assert!(!table.has_used_up());
        assert_eq!(table.in_flight(), 0);
        if kind == ContextKind::Word {
            assert!(matches!(complete(&table, &success(late, 0)), Resolution::Stale));
        }
        assert!(table.take_parked(RX).and_then(ParkedCompletion::done).is_none());
    }
}

/// Action of a buffer when it lends for the second time.
struct Acting {
    asked: u32,
    act: Rc<dyn Fn()>,
    _counted: Counted,
}

// SAFETY: an empty range keeps no memory valid.
unsafe impl Buffer for Acting {
    fn lend(&mut self) -> Lent {
        self.asked += 1;
        if self.asked == 2 {
            (self.act)();
        }
        ().lend()
    }
}

#[test]
fn a_buffer_may_panic_or_use_the_table_when_it_lends_again() {
    for kind in KINDS {
        // Unwind: the receive has ended.
        let ledger = Ledger::new();
        let table: Rc<OpTable<Acting>> = table::<_, 3>(kind, 8).into();
        let acting = |act: Rc<dyn Fn()>| Acting { asked: 0, act, _counted: ledger.buffer(1) };
        let (key, context) = table.put(0, RX, acting(Rc::new(|| panic!("on purpose")))).unwrap();
        use_up(&table, context);
        assert!(catch_unwind(AssertUnwindSafe(|| again(&table, Ok(())))).is_err());
        assert_eq!(taken(table.take(key)).result().unwrap_err().errno, Errno::ECANCELED);
        assert!(!table.has_used_up() && table.in_flight() == 0);

        // Posts waiting receives, takes, cancels: the others are posted, and this one once.
        let (inner, own) = (Rc::downgrade(&table), Rc::new(Cell::new(None)));
        let (seen, own_key) = (Rc::new(Cell::new(0)), Rc::clone(&own));
        let count = Rc::clone(&seen);
        let act: Rc<dyn Fn()> = Rc::new(move || {
            let table = inner.upgrade().unwrap();
            let key = own_key.get().unwrap();
            assert!(matches!(table.take(key), Taken::InFlight));
            assert!(!table.cancel_used_up(key, 0) && table.context_of(key, 0).is_none());
            count.set(again(&table, Ok(())).len());
        });
        let (key, first) = table.put(0, RX, acting(act)).unwrap();
        own.set(Some(key));
        let (_, second) = table.put(0, RX, acting(Rc::new(|| {}))).unwrap();
        use_up(&table, first);
        use_up(&table, second);
        assert_eq!(again(&table, Ok(())).len(), 1);
        assert_eq!(seen.get(), 1);
        drop(done(complete(&table, &success(first, 0))));
        drop(done(complete(&table, &success(second, 0))));

        // Closes the endpoint, so that another one can have its place.
        let inner = Rc::downgrade(&table);
        let act: Rc<dyn Fn()> = Rc::new(move || inner.upgrade().unwrap().close_endpoint(0));
        let (key, context) = table.put(0, RX, acting(act)).unwrap();
        use_up(&table, context);
        assert_eq!(again(&table, Ok(())), []);
        assert_eq!(taken(table.take(key)).result().unwrap_err().errno, Errno::ECANCELED);
        assert_eq!(table.in_flight(), 0);
        ledger.assert_all_dropped_once();
    }
}
