//! Models of revoked offers.

use std::vec;
use std::vec::Vec;

use loom::sync::Arc;
use loom::thread;

use super::{Cells, open_inbox};
use crate::soft::shared::cell::{MessageCell, Revocations, State};
use crate::soft::shared::list::Inbox;
use crate::util::sync::{AtomicBool, Ordering};

struct Receiver {
    inbox: Inbox,
    generation: u32,
    revocations: Revocations,
    word: AtomicBool,
    cells: Cells,
    offers: [MessageCell; 2],
}

#[derive(Clone, Copy)]
struct Way {
    notify: fn(&Receiver),
    take: fn(&Receiver) -> bool,
    looks_on_arrival: bool,
}

impl Way {
    const RIGHT: Way = Way {
        notify: |receiver| receiver.revocations.notify(),
        take: |receiver| receiver.revocations.take(),
        looks_on_arrival: true,
    };
}

impl Receiver {
    fn new() -> Arc<Self> {
        let (inbox, generation) = open_inbox();
        let offers = [MessageCell::new(0), MessageCell::new(1)];
        for offer in &offers {
            offer.set(State::Offered);
        }
        let (revocations, word) = (Revocations::new(), AtomicBool::new(false));
        Arc::new(Receiver { inbox, generation, revocations, word, cells: Cells::new(2), offers })
    }

    fn revoke(&self, cell: u32, way: Way) {
        assert!(self.offers[cell as usize].claim(State::Revoked));
        (way.notify)(self);
    }

    fn advance(&self, unexpected: &mut Vec<u32>, way: Way) {
        let stands = |cell: &u32| !self.offers[*cell as usize].is(State::Revoked);
        if (way.take)(self) {
            unexpected.retain(stands);
        }
        let arrived = self.cells.follow(self.inbox.take(self.generation));
        unexpected.extend(arrived.into_iter().rev().filter(|cell| !way.looks_on_arrival || stands(cell)));
    }
}

fn two_revocations_model(way: Way) {
    loom::model(move || {
        let receiver = Receiver::new();
        let senders = [0, 1].map(|cell| {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.revoke(cell, way))
        });
        let mut unexpected = vec![0, 1];
        receiver.advance(&mut unexpected, way);
        for sender in senders {
            sender.join().unwrap();
        }
        receiver.advance(&mut unexpected, way);
        assert_eq!(unexpected, [], "kept for ever");
    });
}

#[test]
fn unexpected_offers_are_let_go_when_they_are_revoked() {
    two_revocations_model(Way::RIGHT);
}

fn revocation_on_the_way_model(way: Way) {
    loom::model(move || {
        let receiver = Receiver::new();
        let sender = {
            let receiver = receiver.clone();
            thread::spawn(move || {
                for cell in [0, 1] {
                    assert!(receiver.inbox.push(receiver.generation, cell, receiver.cells.link(cell)));
                    receiver.revoke(cell, way);
                }
            })
        };
        let mut unexpected = vec![];
        receiver.advance(&mut unexpected, way);
        receiver.advance(&mut unexpected, way);
        sender.join().unwrap();
        receiver.advance(&mut unexpected, way);
        assert_eq!(unexpected, [], "kept for ever");
    });
}

#[test]
fn offers_are_let_go_that_are_revoked_on_the_way() {
    revocation_on_the_way_model(Way::RIGHT);
}

const BY_HAND: Way = Way {
    notify: |receiver| {
        receiver.word.swap(true, Ordering::Release);
    },
    take: |receiver| receiver.word.swap(false, Ordering::Acquire),
    looks_on_arrival: true,
};

#[test]
fn revocations_by_hand() {
    two_revocations_model(BY_HAND);
    revocation_on_the_way_model(BY_HAND);
}

#[test]
#[should_panic(expected = "kept for ever")]
fn control_word_without_release() {
    let notify = |receiver: &Receiver| {
        receiver.word.swap(true, Ordering::Relaxed);
    };
    two_revocations_model(Way { notify, ..BY_HAND });
}

#[test]
#[should_panic(expected = "kept for ever")]
fn control_word_that_is_stored() {
    let notify = |receiver: &Receiver| receiver.word.store(true, Ordering::Release);
    two_revocations_model(Way { notify, ..BY_HAND });
}

/// Loads and then clears the word, and so clears a value that it has not read.
#[test]
#[should_panic(expected = "kept for ever")]
fn control_word_that_is_taken_in_two_steps() {
    let take = |receiver: &Receiver| {
        let pending = receiver.word.load(Ordering::Acquire);
        if pending {
            receiver.word.store(false, Ordering::Relaxed);
        }
        pending
    };
    two_revocations_model(Way { take, ..BY_HAND });
}

#[test]
#[should_panic(expected = "kept for ever")]
fn control_word_without_acquire() {
    two_revocations_model(Way { take: |receiver| receiver.word.swap(false, Ordering::Relaxed), ..BY_HAND });
}

/// Accepts messages without checking for revocation. The word may have been set before the message
/// arrived.
#[test]
#[should_panic(expected = "kept for ever")]
fn control_no_look_on_arrival() {
    revocation_on_the_way_model(Way { looks_on_arrival: false, ..Way::RIGHT });
}
