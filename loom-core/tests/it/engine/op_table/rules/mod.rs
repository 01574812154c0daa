//! Rules of the op table, one behaviour for each test.

mod capacity;
mod closing;
mod contexts;
mod kept;
mod lending;
mod lengths;
mod multi;
mod peek;
mod reuse;
mod rx_cq_data;
mod user_code;
mod values;

use loom_core::buffer::Buffer;
use loom_core::completion::Done;
use loom_core::engine::op_table::{ContextKind, Direction, OpKey, OpTable, Resolution, Taken};
use loom_core::error::Rejected;
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno};

use crate::engine::op_table::world::kind;

const KINDS: [ContextKind; 2] = [ContextKind::Word, ContextKind::Space];
const TX: Direction = Direction::Transmit;
const RX: Direction = Direction::Receive;

/// Actions on a table, without the words that a transport needs.
trait Verbs<B> {
    /// Posts, and returns the key and the context.
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
        // SAFETY: these tests lend no memory to a provider.
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
fn done<B>(resolution: Resolution<'_, B>) -> Done<B> {
    match resolution {
        Resolution::Done(done, ..) => done,
        Resolution::Piece(piece) => panic!("{piece:?}"),
        Resolution::Peek(peek) => panic!("{peek:?}"),
        Resolution::Value(fetched) => panic!("{fetched:?}"),
        Resolution::Unwanted(error) => panic!("{error:#}"),
        Resolution::Continues => panic!("not over"),
        Resolution::Stale => panic!("stale"),
        Resolution::Foreign => panic!("foreign"),
    }
}

#[track_caller]
fn taken<B>(taken: Taken<B>) -> Done<B> {
    match taken {
        Taken::Done(done) => done,
        Taken::InFlight => panic!("in flight"),
        Taken::Draining => panic!("draining"),
        Taken::Unknown => panic!("unknown"),
    }
}

#[track_caller]
fn assert_cancelled<B>(done: &Done<B>) {
    let error = done.result().unwrap_err();
    assert_eq!((error.errno, error.len, error.overflow), (Errno::ECANCELED, None, None));
}
