//! Models of cells.

use loom::sync::Arc;
use loom::thread;

use super::{Cells, Plain, open_inbox};
use crate::soft::shared::cell::{MessageCell, State};
use crate::soft::shared::list::Returns;

#[test]
fn an_eager_cell_comes_home() {
    eager_model(MessageCell::come_home);
}

fn eager_model(come_home: fn(&MessageCell)) {
    loom::model(move || {
        let (inbox, generation) = open_inbox();
        let shared = Arc::new((inbox, MessageCell::new(0), Cells::new(1)));
        let receiver = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (inbox, head, cells) = &*shared;
                for cell in cells.follow(inbox.take(generation)) {
                    assert_eq!(cells.carried(cell).read(), 5);
                    come_home(head);
                }
            })
        };
        let (inbox, head, cells) = &*shared;
        for _ in 0..2 {
            if head.is(State::Home) {
                cells.carried(0).write(5);
                head.set(State::Eager);
                assert!(inbox.push(generation, 0, cells.link(0)));
            }
        }
        receiver.join().unwrap();
    });
}

struct Offer {
    cell: MessageCell,
    buffer: Plain,
}

impl Offer {
    fn new() -> Arc<Self> {
        let offer = Offer { cell: MessageCell::new(0), buffer: Plain::new(0) };
        offer.buffer.write(5);
        offer.cell.set(State::Offered);
        Arc::new(offer)
    }

    fn receive(&self) -> bool {
        let claimed = self.cell.claim(State::Copying);
        if claimed {
            assert_eq!(self.buffer.read(), 5);
            self.cell.finish();
        }
        claimed
    }

    fn take_back(&self) -> bool {
        let revoked = self.cell.claim(State::Revoked);
        if !revoked {
            self.cell.wait_for_copy();
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

#[test]
fn an_offer_through_both_lists() {
    loom::model(|| {
        let (inbox, generation) = open_inbox();
        let offer = MessageCell::new(0);
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
                    returns.push(cell, cells.link(cell));
                }
                copied
            })
        };
        let (inbox, returns, cells, offer, buffer) = &*shared;
        buffer.write(5);
        offer.set(State::Offered);
        assert!(inbox.push(generation, 0, cells.link(0)));
        let home = cells.follow(returns.take());
        if home == [0] {
            assert!(offer.is(State::Done), "the offer was not revoked");
            buffer.write(6);
        }
        let copied = receiver.join().unwrap();
        assert_eq!(offer.is(State::Done), copied);
    });
}

#[test]
#[should_panic]
fn control_home_without_release() {
    eager_model(|head| head.set(State::Home));
}

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
                    // Relaxed. The real `finish` releases.
                    offer.cell.set(State::Done);
                }
            })
        };
        let _ = offer.take_back();
        receiver.join().unwrap();
    });
}

#[test]
#[should_panic]
fn control_sender_that_does_not_wait() {
    loom::model(|| {
        let offer = Offer::new();
        let receiver = {
            let offer = offer.clone();
            thread::spawn(move || offer.receive())
        };
        let _ = offer.cell.claim(State::Revoked);
        offer.buffer.write(6);
        receiver.join().unwrap();
    });
}

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
