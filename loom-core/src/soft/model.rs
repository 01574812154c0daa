//! The lock-free parts under the model checker `loom`: every interleaving, and every value that a load may see.
//!
//! ```text
//! RUSTFLAGS="--cfg loom_model" cargo test -p loom-fabric-core --lib model --release
//! ```
//!
//! What the atomics protect (cells' contents, senders' buffers, regions' memory) is plain memory that the checker does
//! not see. Each model therefore has shadows of it: `Plain` values which are read and written where the transport reads
//! and writes the real thing, and which fail the model if two threads are at one of them without an order between them.
//!
//! The last section has the same models with an order or a step taken away. Each must fail, or the models prove nothing.

#![allow(unsafe_code, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

use core::ptr::NonNull;
use std::vec;
use std::vec::Vec;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::cell::{MessageCell, State};
use super::list::{Inbox, Links, NIL, Returns};
use super::region::{Exposed, Region};
use super::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, spin_loop};
use crate::vocabulary::Access;

/// Plain memory, whose accesses are checked for an order between them.
struct Plain(UnsafeCell<u32>);

// SAFETY: it is what the models are about, and the checker fails on two accesses without order.
unsafe impl Sync for Plain {}
// SAFETY: as above.
unsafe impl Send for Plain {}

impl Plain {
    fn new(value: u32) -> Self {
        Plain(UnsafeCell::new(value))
    }

    fn read(&self) -> u32 {
        // SAFETY: the checker fails the model if somebody writes.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self, new: u32) {
        // SAFETY: the checker fails the model if somebody else is there.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

/// Links of cells, and what the cells carry.
struct Cells {
    links: Vec<AtomicU32>,
    carried: Vec<Plain>,
}

impl Cells {
    fn new(count: u32) -> Self {
        Cells {
            links: (0..count).map(|_| AtomicU32::new(0)).collect(),
            carried: (0..count).map(|_| Plain::new(0)).collect(),
        }
    }

    fn carried(&self, cell: u32) -> &Plain {
        &self.carried[cell as usize]
    }

    /// The cells of a list that was taken, in its order.
    fn follow(&self, mut cell: u32) -> Vec<u32> {
        let mut cells = vec![];
        while cell != NIL {
            cells.push(cell);
            assert!(cells.len() <= self.links.len(), "a list without end");
            cell = self.link(cell).load(Ordering::Relaxed);
        }
        cells
    }
}

impl Links for Cells {
    fn link(&self, cell: u32) -> &AtomicU32 {
        &self.links[cell as usize]
    }
}

// The inbox.

/// An inbox that is open for its first endpoint.
fn open_inbox() -> (Inbox, u32) {
    let inbox = Inbox::new();
    let generation = inbox.open();
    (inbox, generation)
}

#[test]
fn two_senders_and_an_owner_that_takes() {
    loom::model(|| {
        let (inbox, generation) = open_inbox();
        let shared = Arc::new((inbox, Cells::new(3)));
        let send = |cells: &'static [u32]| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (inbox, all) = &*shared;
                for cell in cells {
                    all.carried(*cell).write(10 + cell);
                    assert!(inbox.push(all, generation, *cell));
                }
            })
        };
        let senders = [send(&[0, 1]), send(&[2])];
        let (inbox, cells) = &*shared;
        let mut got = vec![];
        let take = |got: &mut Vec<u32>| {
            let newest_first = cells.follow(inbox.take(generation));
            for cell in newest_first.iter().rev() {
                assert_eq!(cells.carried(*cell).read(), 10 + cell);
                got.push(*cell);
            }
        };
        take(&mut got);
        take(&mut got);
        for sender in senders {
            sender.join().unwrap();
        }
        take(&mut got);
        let place = |cell| got.iter().position(|got| *got == cell).unwrap();
        assert!(place(0) < place(1), "the order of one sender");
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2], "each once");
        assert_eq!(inbox.take(generation), NIL);
    });
}

#[test]
fn a_push_that_meets_a_close_is_taken_or_refused() {
    loom::model(|| {
        let (inbox, generation) = open_inbox();
        let shared = Arc::new((inbox, Cells::new(2)));
        let senders = [0, 1].map(|cell| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (inbox, cells) = &*shared;
                cells.carried(cell).write(7);
                let taken = inbox.push(cells, generation, cell);
                if !taken {
                    // It is the sender's still.
                    cells.carried(cell).write(8);
                }
                taken
            })
        });
        let (inbox, cells) = &*shared;
        let got = cells.follow(inbox.close(generation));
        for cell in &got {
            assert_eq!(cells.carried(*cell).read(), 7);
        }
        assert!(!inbox.is_open(generation));
        for (cell, sender) in [0, 1].into_iter().zip(senders) {
            assert_eq!(sender.join().unwrap(), got.contains(&cell), "taken or refused, never lost");
        }
    });
}

#[test]
fn a_push_never_reaches_the_next_endpoint() {
    loom::model(|| {
        let (inbox, first) = open_inbox();
        let shared = Arc::new((inbox, Cells::new(1)));
        let sender = {
            let shared = shared.clone();
            thread::spawn(move || shared.0.push(&shared.1, first, 0))
        };
        let (inbox, cells) = &*shared;
        let got = cells.follow(inbox.close(first));
        let second = inbox.open();
        assert_ne!(first, second);
        let later = cells.follow(inbox.take(second));
        assert_eq!(later, [], "meant for the endpoint before");
        let taken = sender.join().unwrap();
        assert_eq!(taken, got == [0]);
        assert_eq!(inbox.take(second), NIL);
    });
}

// Cells that come back.

#[test]
fn two_receivers_return_cells() {
    loom::model(|| {
        let shared = Arc::new((Returns::new(), Cells::new(3)));
        let give = |cells: &'static [u32]| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (returns, all) = &*shared;
                for cell in cells {
                    let _ = all.carried(*cell).read();
                    returns.push(all, *cell);
                }
            })
        };
        let receivers = [give(&[0, 1]), give(&[2])];
        let (returns, cells) = &*shared;
        let mut got = vec![];
        for _ in 0..2 {
            for cell in cells.follow(returns.take()) {
                // Used again at once.
                cells.carried(cell).write(1);
                got.push(cell);
            }
        }
        for receiver in receivers {
            receiver.join().unwrap();
        }
        got.extend(cells.follow(returns.take()));
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2], "each once");
    });
}

/// A cell goes to and fro: what one side wrote is there for the other, and the list has no ABA.
#[test]
fn a_cell_that_goes_twice() {
    loom::model(|| {
        let (inbox, generation) = open_inbox();
        let shared = Arc::new((inbox, Returns::new(), Cells::new(2)));
        let receiver = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (inbox, returns, cells) = &*shared;
                let mut seen = 0;
                for _ in 0..2 {
                    for cell in cells.follow(inbox.take(generation)) {
                        assert_eq!(cells.carried(cell).read(), 5);
                        returns.push(cells, cell);
                        seen += 1;
                    }
                }
                seen
            })
        };
        let (inbox, returns, cells) = &*shared;
        let mut home = vec![0, 1];
        for _ in 0..2 {
            if let Some(cell) = home.pop() {
                cells.carried(cell).write(5);
                assert!(inbox.push(cells, generation, cell));
            }
            home.extend(cells.follow(returns.take()));
        }
        let seen = receiver.join().unwrap();
        home.extend(cells.follow(returns.take()));
        let left = cells.follow(inbox.take(generation));
        home.extend(&left);
        home.sort_unstable();
        assert_eq!(home, [0, 1], "each cell is somewhere once");
        assert!(seen + left.len() <= 2);
    });
}

/// An eager cell comes home by its mark: what `Net::is_away`, `set_away` and `set_home` do.
#[test]
fn a_mark_brings_an_eager_cell_home() {
    mark_model(Ordering::Release);
}

fn mark_model(home: Ordering) {
    loom::model(move || {
        let (inbox, generation) = open_inbox();
        let shared = Arc::new((inbox, AtomicBool::new(false), Cells::new(1)));
        let receiver = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (inbox, away, cells) = &*shared;
                for cell in cells.follow(inbox.take(generation)) {
                    assert_eq!(cells.carried(cell).read(), 5);
                    away.store(false, home);
                }
            })
        };
        let (inbox, away, cells) = &*shared;
        for _ in 0..2 {
            if !away.load(Ordering::Acquire) {
                cells.carried(0).write(5);
                away.store(true, Ordering::Relaxed);
                assert!(inbox.push(cells, generation, 0));
            }
        }
        receiver.join().unwrap();
    });
}

// Offers.

/// A sender's buffer that is offered in a cell.
struct Offer {
    cell: MessageCell,
    buffer: Plain,
}

impl Offer {
    fn new() -> Arc<Self> {
        let offer = Offer { cell: MessageCell::new(), buffer: Plain::new(0) };
        offer.buffer.write(5);
        offer.cell.set(State::Offered);
        Arc::new(offer)
    }

    /// What a receiver does: whether it has copied.
    fn receive(&self) -> bool {
        let claimed = self.cell.claim(State::Copying);
        if claimed {
            assert_eq!(self.buffer.read(), 5);
            self.cell.finish();
        }
        claimed
    }

    /// What a sender does that closes: whether it was in time. Its buffer is its own afterwards.
    fn take_back(&self) -> bool {
        let revoked = self.cell.revoke();
        if !revoked {
            while self.cell.is(State::Copying) {
                spin_loop();
            }
        }
        self.buffer.write(6);
        revoked
    }
}

#[test]
fn an_offer_is_copied_or_revoked() {
    loom::model(|| {
        let offer = Offer::new();
        let receiver = {
            let offer = offer.clone();
            thread::spawn(move || offer.receive())
        };
        let revoked = offer.take_back();
        let end = if revoked { State::Revoked } else { State::Done };
        assert!(offer.cell.is(end));
        assert_eq!(receiver.join().unwrap(), !revoked, "one of the two");
        assert!(offer.cell.is(end), "and it stays so");
    });
}

#[test]
fn an_offer_is_refused_or_revoked() {
    loom::model(|| {
        let offer = Offer::new();
        let receiver = {
            let offer = offer.clone();
            thread::spawn(move || offer.cell.claim(State::Refused))
        };
        let revoked = offer.take_back();
        assert_eq!(receiver.join().unwrap(), !revoked, "one of the two");
        assert!(offer.cell.is(if revoked { State::Revoked } else { State::Refused }));
    });
}

/// An offer from its post to its event: through the inbox, copied, and home by the returns.
#[test]
fn an_offer_through_both_lists() {
    loom::model(|| {
        let (inbox, generation) = open_inbox();
        let offer = MessageCell::new();
        let shared = Arc::new((inbox, Returns::new(), Cells::new(1), offer, Plain::new(0)));
        let receiver = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (inbox, returns, cells, offer, buffer) = &*shared;
                let mut copied = false;
                for cell in cells.follow(inbox.take(generation)) {
                    if offer.claim(State::Copying) {
                        assert_eq!(buffer.read(), 5);
                        offer.finish();
                        copied = true;
                    }
                    returns.push(cells, cell);
                }
                copied
            })
        };
        let (inbox, returns, cells, offer, buffer) = &*shared;
        buffer.write(5);
        offer.set(State::Offered);
        assert!(inbox.push(cells, generation, 0));
        let home = cells.follow(returns.take());
        if home == [0] {
            assert!(offer.is(State::Done), "nobody revoked it");
            buffer.write(6);
        }
        let copied = receiver.join().unwrap();
        assert_eq!(offer.is(State::Done), copied);
    });
}

// Regions.

fn exposed() -> Exposed {
    Exposed { ptr: NonNull::dangling(), len: 8, access: Access::REMOTE_WRITE, domain: 1 }
}

#[test]
fn nobody_is_in_a_region_after_it_closed() {
    loom::model(|| {
        let region = Region::new();
        let key = region.open(0, exposed());
        let shared = Arc::new((region, Plain::new(0)));
        let users = [(); 2].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (region, memory) = &*shared;
                let inside = region.enter(key);
                if let Ok(guard) = &inside {
                    assert!(guard.range(0, 8, Access::REMOTE_WRITE, 1).is_ok());
                    let _ = memory.read();
                }
                inside.is_ok()
            })
        });
        let (region, memory) = &*shared;
        region.close();
        memory.write(1);
        for user in users {
            user.join().unwrap();
        }
        assert!(region.enter(key).is_err());
        assert!(region.is_free());
    });
}

#[test]
fn a_key_never_opens_the_next_region_in_its_place() {
    loom::model(|| {
        let region = Region::new();
        let old = region.open(3, exposed());
        let shared = Arc::new(region);
        let user = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut inside = 0;
                for _ in 0..2 {
                    if let Ok(guard) = shared.enter(old) {
                        assert!(guard.range(0, 8, Access::REMOTE_WRITE, 1).is_ok(), "what the key was for");
                        inside += 1;
                    }
                }
                inside
            })
        };
        shared.close();
        let new = shared.open(3, Exposed { domain: 2, ..exposed() });
        assert_ne!(old, new);
        assert_eq!((Region::index(old), Region::index(new)), (3, 3));
        user.join().unwrap();
        assert!(shared.enter(old).is_err());
        assert!(shared.enter(new).is_ok());
        shared.close();
    });
}

/// One thread closes a region, another, which has heard nothing of it, opens the next one in the same place: what the
/// users of the first have read of it comes before what the second is.
#[test]
fn a_region_is_opened_by_another_thread_than_closed_it() {
    loom::model(|| {
        let region = Region::new();
        let key = region.open(0, exposed());
        let shared = Arc::new((region, Plain::new(0)));
        let user = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (region, description) = &*shared;
                if let Ok(_guard) = region.enter(key) {
                    let _ = description.read();
                }
            })
        };
        let closer = {
            let shared = shared.clone();
            thread::spawn(move || shared.0.close())
        };
        let (region, description) = &*shared;
        if region.is_free() {
            description.write(1);
            let _ = region.open(0, exposed());
        }
        user.join().unwrap();
        closer.join().unwrap();
    });
}

// Controls: what the models must find.

/// Returns whose push does not release.
#[test]
#[should_panic]
fn control_returns_without_release() {
    loom::model(|| {
        let shared = Arc::new((AtomicU32::new(NIL), Plain::new(0)));
        let receiver = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (returns, carried) = &*shared;
                let _ = carried.read();
                returns.compare_exchange(NIL, 0, Ordering::Relaxed, Ordering::Relaxed).unwrap();
            })
        };
        let (returns, carried) = &*shared;
        if returns.swap(NIL, Ordering::Acquire) == 0 {
            carried.write(1);
        }
        receiver.join().unwrap();
    });
}

/// A mark that is cleared without release.
#[test]
#[should_panic]
fn control_mark_without_release() {
    mark_model(Ordering::Relaxed);
}

/// A copy whose end is not released.
#[test]
#[should_panic]
fn control_finish_without_release() {
    loom::model(|| {
        let offer = Offer::new();
        let receiver = {
            let offer = offer.clone();
            thread::spawn(move || {
                if offer.cell.claim(State::Copying) {
                    let _ = offer.buffer.read();
                    // Relaxed, where `finish` releases.
                    offer.cell.set(State::Done);
                }
            })
        };
        let _ = offer.take_back();
        receiver.join().unwrap();
    });
}

/// A sender that takes its buffer back without waiting for the copy.
#[test]
#[should_panic]
fn control_sender_that_does_not_wait() {
    loom::model(|| {
        let offer = Offer::new();
        let receiver = {
            let offer = offer.clone();
            thread::spawn(move || offer.receive())
        };
        let _ = offer.cell.revoke();
        offer.buffer.write(6);
        receiver.join().unwrap();
    });
}

/// A revocation that looks and then stores, where the real one compares and exchanges.
#[test]
#[should_panic]
fn control_revocation_in_two_steps() {
    loom::model(|| {
        let offer = Offer::new();
        let receiver = {
            let offer = offer.clone();
            thread::spawn(move || offer.receive())
        };
        let revoked = offer.cell.is(State::Offered);
        if revoked {
            offer.cell.set(State::Revoked);
        }
        assert_eq!(receiver.join().unwrap(), !revoked);
    });
}

/// A close that loses what was pushed between its look and its swap.
#[test]
#[should_panic]
fn control_close_in_two_steps() {
    loom::model(|| {
        let (inbox, generation) = open_inbox();
        let shared = Arc::new((inbox, Cells::new(1)));
        let sender = {
            let shared = shared.clone();
            thread::spawn(move || shared.0.push(&shared.1, generation, 0))
        };
        let (inbox, cells) = &*shared;
        let got = cells.follow(inbox.take(generation));
        let _ = inbox.close(generation);
        assert_eq!(sender.join().unwrap(), got == [0]);
    });
}

/// A region that looks whether it is open before it counts its user.
#[test]
#[should_panic]
fn control_region_that_counts_too_late() {
    const OPEN: u64 = 1 << 31;
    loom::model(|| {
        let shared = Arc::new((AtomicU64::new(OPEN), Plain::new(0)));
        let user = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (state, memory) = &*shared;
                if state.load(Ordering::Acquire) & OPEN != 0 {
                    state.fetch_add(1, Ordering::Acquire);
                    let _ = memory.read();
                    state.fetch_sub(1, Ordering::Release);
                }
            })
        };
        let (state, memory) = &*shared;
        state.fetch_and(!OPEN, Ordering::Relaxed);
        while state.load(Ordering::Acquire) != 0 {
            spin_loop();
        }
        memory.write(1);
        user.join().unwrap();
    });
}
