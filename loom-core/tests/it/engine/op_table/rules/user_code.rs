//! Rule 6: user code.

use core::cell::RefCell;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::rc::Rc;

use loom_core::buffer::{Buffer, Lent};
use loom_core::engine::op_table::{ContextKind, OpTable};

use super::{KINDS, RX, TX, Verbs, done, success, taken};
use crate::engine::op_table::world::{Counted, Ledger, complete, park, table};

/// Action of a buffer when it lends, and when it is dropped.
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

// SAFETY: an empty range keeps no memory valid.
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

/// Rule 5 also holds when `lend` posts while the queue can still contain events of closed
/// endpoints.
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
                // The operation before its post does not have an endpoint to close yet.
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
