//! Threads that wake another one, which sleeps on a queue.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::info::Info;
use loom_core::transport::Signals;

use crate::behaviours::needs::{Behaviour, MSG};
use crate::behaviours::pair::{Bytes, LIMIT, Pair, pattern, room};
use crate::behaviours::sleeping::{has_descriptor, on_sleepy_pair, sleeps_on};
use crate::memory::allocator;

pub fn cases<T: Signals + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("a_signal_wakes_the_sleeper_up", MSG, a_signal_wakes_the_sleeper_up),
        ("a_signal_without_a_sleeper_ends_one_sleep", MSG, a_signal_without_a_sleeper_ends_one_sleep),
        ("a_signal_makes_the_descriptor_readable", MSG, a_signal_makes_the_descriptor_readable),
        ("queue_is_signalled_after_an_endpoint_was_closed", MSG, queue_is_signalled_after_an_endpoint_was_closed),
        ("signals_lose_no_completion", MSG, signals_lose_no_completion),
        ("a_queue_that_cannot_sleep_cannot_be_signalled", MSG, a_queue_that_cannot_sleep_cannot_be_signalled),
    ]
}

/// Signals before the sleep, at its begin, and during it.
fn a_signal_wakes_the_sleeper_up<T: Signals + 'static>(info: &Info<T>) {
    const ROUNDS: usize = 300;
    on_sleepy_pair(info, |pair| {
        let signaller = pair.cq.signaller().expect("a signaller");
        let (go, going) = mpsc::channel();
        let signalled = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in going {
                    for _ in 0..round * 50 {
                        std::hint::spin_loop();
                    }
                    signalled.fetch_add(1, Ordering::Relaxed);
                    signaller.signal().expect("signals");
                }
            });
            let mut latest = Duration::ZERO;
            for round in 0..ROUNDS {
                go.send(round).expect("the other thread listens");
                let begin = Instant::now();
                assert!(pair.cq.poll_for(LIMIT).expect("the queue works").is_none());
                latest = latest.max(begin.elapsed());
                assert_eq!(signalled.load(Ordering::Relaxed), round + 1, "woken up by something else");
            }
            println!("{}: the latest wake-up took {latest:?}", info.provider());
            assert!(latest < LIMIT / 2, "{latest:?}");
            drop(go);
        });
    });
}

fn a_signal_without_a_sleeper_ends_one_sleep<T: Signals + 'static>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        let signaller = pair.cq.signaller().expect("a signaller");
        // Two signals are one.
        for _ in 0..2 {
            signaller.signal().expect("signals");
        }
        let sleep = |time| {
            let begin = Instant::now();
            assert!(pair.cq.poll_for(time).expect("the queue works").is_none());
            begin.elapsed()
        };
        assert!(sleep(LIMIT) < LIMIT / 2);
        // The rest of the signal at the provider may take a part of this time.
        let time = Duration::from_millis(100);
        let slept = sleep(time);
        assert!(slept > time / 2, "{slept:?}");
        // A completion is first, and the signal waits.
        let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
        pair.post(pattern(8, 1), |buf| pair.a.send(pair.to_b, buf));
        signaller.signal().expect("signals");
        let deadline = Instant::now() + LIMIT;
        let mut signals = 0;
        while pair.cq.in_flight() > 0 {
            assert!(Instant::now() < deadline, "{received:?} never comes");
            signals += usize::from(pair.cq.poll_for(LIMIT).expect("the queue works").is_none());
        }
        if signals == 0 {
            assert!(sleep(LIMIT) < LIMIT / 2);
        }
        assert!(signals <= 1);
    });
}

fn a_signal_makes_the_descriptor_readable<T: Signals + 'static>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        if !has_descriptor(pair.domain, pair.cq) {
            return;
        }
        let signaller = pair.cq.signaller().expect("a signaller");
        let deadline = Instant::now() + LIMIT;
        for _ in 0..20 {
            while !pair.cq.may_sleep().expect("the queue works") {
                assert!(Instant::now() < deadline, "never idle");
                assert!(pair.cq.poll().expect("the queue works").is_none());
            }
            std::thread::scope(|scope| {
                scope.spawn(|| signaller.signal().expect("signals"));
                assert!(!sleeps_on(pair.cq, LIMIT), "not woken up");
            });
            assert!(!pair.cq.may_sleep().expect("the queue works"), "it tells of the signal");
        }
    });
}

fn queue_is_signalled_after_an_endpoint_was_closed<T: Signals + 'static>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        pair.warm_up();
        let signaller = pair.cq.signaller().expect("a signaller");
        drop(pair.cq.endpoint(pair.av).expect("a third endpoint"));
        for _ in 0..3 {
            std::thread::scope(|scope| {
                scope.spawn(|| signaller.signal().expect("signals"));
                let begin = Instant::now();
                assert!(pair.cq.poll_for(LIMIT).expect("the queue works").is_none());
                assert!(begin.elapsed() < LIMIT / 2, "not woken up");
            });
            pair.warm_up();
        }
    });
}

fn signals_lose_no_completion<T: Signals + 'static>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        pair.warm_up();
        let signaller = pair.cq.signaller().expect("a signaller");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        signaller.signal().expect("signals");
                        std::thread::yield_now();
                    }
                });
            }
            let end = Ends(&done);
            for round in 0..50 {
                exchange(pair, round);
            }
            drop(end);
        });
        // The rest of the signals at the provider does not last.
        let time = Duration::from_millis(100);
        let deadline = Instant::now() + LIMIT;
        loop {
            let begin = Instant::now();
            assert!(pair.cq.poll_for(time).expect("the queue works").is_none());
            if begin.elapsed() > time / 2 {
                break;
            }
            assert!(begin < deadline, "it does not sleep any more");
        }
    });
}

/// Guard that stops the other threads, also when this one panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn exchange<T: Signals + 'static>(pair: &Pair<'_, '_, T>, round: usize) {
    let received = pair.post(room(300), |buf| pair.b.recv(Source::Any, buf));
    let sent = pair.post(pattern(300, round), |buf| pair.a.send(pair.to_b, buf));
    let (deadline, mut left) = (Instant::now() + LIMIT, vec![received, sent]);
    while !left.is_empty() {
        assert!(Instant::now() < deadline, "{left:?} never came");
        let Some(completion) = pair.cq.poll_for(LIMIT).expect("the queue works") else { continue };
        let Completion::Op(done) = completion else { panic!("{completion:?}") };
        let at = left.iter().position(|key| *key == done.key()).expect("each once");
        if left.swap_remove(at) == received {
            assert_eq!(done.into_buf(), pattern(300, round));
        }
    }
}

fn a_queue_that_cannot_sleep_cannot_be_signalled<T: Signals + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    for attr in [CqAttr::new(8), CqAttr { separate: true, ..CqAttr::new(8) }] {
        let cq = Cq::<T, Bytes>::open_in(&domain, attr, allocator()).expect("queue");
        assert_eq!(cq.signaller().map(drop), Err(CqError::NotOpenedFor));
    }
}
