//! Models of counters of remote operations.

use loom::sync::Arc;
use loom::thread;

use super::Plain;
use crate::soft::shared::gate::Gate;
use crate::soft::shared::peer_counts::{PeerCount, PeerCounters};
use crate::util::sync::{AtomicU64, Ordering};
use crate::vocabulary::Counted;

fn count_at(users: &Gate, generation: u64, counter: &Plain) -> bool {
    users.is_open() && users.enter(generation).is_some_and(|_user| counter.read() == 1)
}

#[test]
fn no_peer_counts_after_the_endpoint_has_closed() {
    for generation in [1, 2] {
        loom::model(move || {
            let shared = Arc::new((Gate::new(), [Plain::new(1), Plain::new(0)]));
            shared.0.open(1);
            let peer = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (users, counters) = &*shared;
                    count_at(users, generation, &counters[usize::from(generation == 2)])
                })
            };
            let (users, counters) = &*shared;
            users.close();
            counters[0].write(0);
            counters[1].write(1);
            users.open(2);
            peer.join().unwrap();
            assert!(!count_at(users, 1, &counters[0]) && count_at(users, 2, &counters[1]));
            users.close();
            counters[1].write(0);
        });
    }
}

#[test]
fn each_peer_counts_once_and_an_old_address_does_not_count() {
    loom::model(|| {
        let (counters, count) = (PeerCounters::new(), PeerCount::new());
        let shared = Arc::new((counters, count));
        // SAFETY: the count stays in place in the `Arc`.
        assert!(unsafe { shared.0.open(2, [None, Some(&shared.1)]) });
        let peer = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.0.count(1, Counted::REMOTE_WRITE);
                shared.0.count(2, Counted::REMOTE_WRITE);
            })
        };
        shared.0.count(2, Counted::REMOTE_WRITE);
        peer.join().unwrap();
        shared.0.count(2, Counted::REMOTE_READ);
        shared.0.close();
        shared.0.count(2, Counted::REMOTE_WRITE);
        assert_eq!(shared.1.get(), 2);
    });
}

fn bytes_model(count: fn(&PeerCount, &AtomicU64), counted: fn(&PeerCount, &AtomicU64) -> u64) {
    loom::model(move || {
        let shared = Arc::new((Plain::new(0), PeerCount::new(), AtomicU64::new(0)));
        let peer = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.0.write(1);
                count(&shared.1, &shared.2);
            })
        };
        if counted(&shared.1, &shared.2) == 1 {
            assert_eq!(shared.0.read(), 1);
        }
        peer.join().unwrap();
    });
}

#[test]
fn bytes_are_visible_when_they_are_counted() {
    bytes_model(|count, _| count.add_one(), |count, _| count.get());
}

#[test]
#[should_panic]
fn control_count_without_release() {
    let count = |_: &PeerCount, by_hand: &AtomicU64| {
        by_hand.fetch_add(1, Ordering::Relaxed);
    };
    bytes_model(count, |_, by_hand| by_hand.load(Ordering::Acquire));
}

#[test]
#[should_panic]
fn control_peer_that_counts_outside() {
    loom::model(|| {
        let shared = Arc::new((Gate::new(), Plain::new(1)));
        shared.0.open(1);
        let peer = {
            let shared = shared.clone();
            thread::spawn(move || shared.0.is_open() && shared.1.read() == 1)
        };
        shared.0.close();
        shared.1.write(0);
        peer.join().unwrap();
    });
}
