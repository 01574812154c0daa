//! Models of the inbox and the list of returned cells.

use std::vec;
use std::vec::Vec;

use loom::sync::Arc;
use loom::thread;

use super::{Cells, Plain, open_inbox};
use crate::soft::shared::list::{NIL, Reach, Returns};
use crate::util::sync::{AtomicU32, Ordering};

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
                    assert!(inbox.push(generation, *cell, all.link(*cell)));
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
                let taken = inbox.push(generation, cell, cells.link(cell));
                if !taken {
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
            thread::spawn(move || shared.0.push(first, 0, shared.1.link(0)))
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

/// A peer guesses the address of an endpoint. It must see the endpoint's state, which was written
/// before, without any other order: the peer's thread is older than the endpoint.
#[test]
fn an_address_that_is_guessed_reaches_an_endpoint_that_is_set_up() {
    loom::model(|| {
        let shared = Arc::new((Reach::new(), Plain::new(0)));
        let peer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (reach, endpoint) = &*shared;
                if reach.domain(1).is_some() {
                    assert_eq!(endpoint.read(), 1);
                }
            })
        };
        let (reach, endpoint) = &*shared;
        endpoint.write(1);
        reach.open(1, 7);
        peer.join().unwrap();
    });
}

fn domain_model(domain: fn(&Reach, &AtomicU32, u32) -> Option<u32>) {
    loom::model(move || {
        let shared = Arc::new((Reach::new(), AtomicU32::new(1)));
        shared.0.open(1, 1);
        let peer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (reach, apart) = &*shared;
                let (second, first) = (domain(reach, apart, 2), domain(reach, apart, 1));
                assert!(matches!(first, None | Some(1)), "the first endpoint is not of {first:?}");
                assert!(matches!(second, None | Some(2)), "the second endpoint is not of {second:?}");
            })
        };
        let (reach, apart) = &*shared;
        reach.close();
        assert_eq!(reach.domain(1), None);
        apart.store(2, Ordering::Release);
        reach.open(2, 2);
        peer.join().unwrap();
    });
}

#[test]
fn an_endpoint_is_of_its_own_domain_and_not_of_another_ones_in_its_place() {
    domain_model(|reach, _, generation| reach.domain(generation));
}

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
                    returns.push(*cell, all.link(*cell));
                }
            })
        };
        let receivers = [give(&[0, 1]), give(&[2])];
        let (returns, cells) = &*shared;
        let mut got = vec![];
        for _ in 0..2 {
            for cell in cells.follow(returns.take()) {
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
                        returns.push(cell, cells.link(cell));
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
                assert!(inbox.push(generation, cell, cells.link(cell)));
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

#[test]
#[should_panic(expected = "the first endpoint is not of Some(2)")]
fn control_domain_after_a_look() {
    domain_model(|reach, apart, generation| reach.domain(generation).map(|_| apart.load(Ordering::Acquire)));
}

#[test]
#[should_panic(expected = "the second endpoint is not of Some(1)")]
fn control_domain_before_a_look() {
    domain_model(|reach, apart, generation| {
        let domain = apart.load(Ordering::Acquire);
        reach.domain(generation).map(|_| domain)
    });
}

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

#[test]
#[should_panic]
fn control_close_in_two_steps() {
    loom::model(|| {
        let (inbox, generation) = open_inbox();
        let shared = Arc::new((inbox, Cells::new(1)));
        let sender = {
            let shared = shared.clone();
            thread::spawn(move || shared.0.push(generation, 0, shared.1.link(0)))
        };
        let (inbox, cells) = &*shared;
        let got = cells.follow(inbox.take(generation));
        let _ = inbox.close(generation);
        assert_eq!(sender.join().unwrap(), got == [0]);
    });
}
