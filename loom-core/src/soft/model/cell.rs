//! Cells: the mark by which an eager one comes home, and offers of a sender's buffer.

use loom::sync::Arc;
use loom::thread;

use super::{Cells, Plain, open_inbox};
use crate::soft::cell::{MessageCell, State};
use crate::soft::list::Returns;
use crate::soft::sync::{AtomicBool, Ordering, spin_loop};

// Marks.

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

// Controls: what the models must find.

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
