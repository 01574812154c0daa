//! Rules 1 and 2: address of a buffer, and the time of its access.

use core::cell::Cell;
use core::ptr::NonNull;
use std::rc::Rc;

use loom_core::buffer::{Buffer, Lent};
use loom_core::engine::op_table::{ContextKind, Kind};
use loom_core::error::PostError;

use super::{KINDS, TX, Verbs, done, success};
use crate::engine::op_table::world::{complete, table};

/// A buffer that lends itself, so that the pointer shows its address at that time.
struct Inline {
    bytes: [u8; 8],
    asked: Rc<Cell<u32>>,
}

// SAFETY: the range is valid while the value stays in place. These tests do not move it while it is
// lent, and do not access it.
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
                assert!(inside.contains(&lent.ptr.addr().get()), "lent from its slot");
                Ok(())
            });
            assert!(posted.is_ok());
        }
        assert_eq!(asked.get(), 2, "each buffer was asked once");
        table.drop_all();
    }
}

#[test]
fn a_full_table_lends_no_buffer() {
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
        at = Some((lent.ptr, context.addr()));
        Ok(())
    });
    let (ptr, context) = at.unwrap();
    // SAFETY: four bytes, lent for writing, and the operation is in flight.
    unsafe { ptr.cast::<[u8; 4]>().write(*b"loom") };
    let done = done(complete(&table, &success(context, 4)));
    assert_eq!((done.key(), &done.buf()[..]), (key.unwrap(), &b"loom"[..]));
}
