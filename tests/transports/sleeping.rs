//! Queues on which a program sleeps until they have something, where the transport can wake it up.

use std::time::{Duration, Instant};

use loom_core::completion::Completion;
use loom_core::error::OpenError;
use loom_core::objects::cq::{Cq, CqAttr, CqError};
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::Source;
use loom_core::objects::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Errno, WaitObj};

use crate::Case;
use crate::pair::{Bytes, LIMIT, Pair, limit, on_pair, on_pair_with, pattern, room};

pub(crate) fn cases<T: Transport>() -> Vec<(&'static str, Case<T>)> {
    vec![
        ("sleeping_ends_when_the_time_is_over", sleeping_ends_when_the_time_is_over),
        ("sleeping_ends_with_a_completion", sleeping_ends_with_a_completion),
        ("a_program_may_sleep_on_the_descriptor_of_an_idle_queue", a_program_may_sleep_on_an_idle_queue),
        ("what_was_not_opened_for_it_is_not_slept_on", what_was_not_opened_for_it_is_not_slept_on),
        ("objects_that_cannot_be_slept_on_are_refused", objects_that_cannot_be_slept_on_are_refused),
    ]
}

/// Runs a test on a queue with a file descriptor; where there is none, opening one says so.
fn on_sleepy_pair<T: Transport>(info: &Info<T>, test: impl FnOnce(&Pair<'_, '_, T>)) {
    let attr = CqAttr::<64>::new().with_fd();
    let domain = Domain::open(info).expect("domain");
    let opened = Cq::<T, Bytes>::open(&domain, attr).map(drop);
    match opened {
        Ok(()) => on_pair_with(info, attr, test),
        Err(error) => {
            println!("{}: skipped, it has nothing to sleep on: {error}", info.provider());
            assert!(matches!(error, OpenError::Errno(Errno::ENOSYS)), "{error:?}");
            assert_ne!(info.provider(), "tcp;ofi_rxm");
        }
    }
}

fn sleeping_ends_when_the_time_is_over<T: Transport>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        let (begin, time) = (Instant::now(), Duration::from_millis(30));
        // It may wake up for nothing.
        while begin.elapsed() < time {
            assert!(pair.cq.poll_for(time).expect("the queue works").is_none());
        }
        assert!(begin.elapsed() < LIMIT);
        assert!(pair.cq.poll_for(Duration::ZERO).expect("the queue works").is_none());
    });
}

fn sleeping_ends_with_a_completion<T: Transport>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        for round in 0..20 {
            let received = pair.post(room(300), |buf| pair.b.recv(Source::Any, buf));
            let sent = pair.post(pattern(300, round), |buf| pair.a.send(pair.to_b, buf));
            let (deadline, mut left) = (limit(), vec![received, sent]);
            while !left.is_empty() {
                assert!(Instant::now() < deadline, "{left:?} never came");
                let Some(completion) = pair.cq.poll_for(LIMIT).expect("the queue works") else { continue };
                let Completion::Op(done) = completion else { panic!("{completion:?}") };
                let at = left.iter().position(|key| *key == done.key()).expect("each once");
                if left.swap_remove(at) == received {
                    assert_eq!(done.result().expect("it succeeds").len(), 300);
                    assert_eq!(done.into_buf(), pattern(300, round));
                }
            }
        }
    });
}

fn a_program_may_sleep_on_an_idle_queue<T: Transport>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        pair.warm_up();
        assert!(pair.cq.wait_fd().expect("a descriptor") >= 0);
        let deadline = limit();
        // What connections still have to say to each other is read on the way.
        while !pair.cq.may_sleep().expect("the queue works") {
            assert!(Instant::now() < deadline, "never idle");
            assert!(pair.cq.poll().expect("the queue works").is_none());
        }
        // What waiting for another operation has kept is there to be polled, and nobody would wake the program up for it.
        let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
        let sent = pair.post(pattern(8, 1), |buf| pair.a.send(pair.to_b, buf));
        pair.finish(received);
        while pair.cq.in_flight() > 0 {
            assert!(Instant::now() < deadline, "the send never ends");
            pair.cq.progress().expect("the queue works");
        }
        assert!(!pair.cq.may_sleep().expect("the queue works"), "the end of the send is kept");
        pair.finish(sent);
    });
}

fn what_was_not_opened_for_it_is_not_slept_on<T: Transport>(info: &Info<T>) {
    on_pair(info, |pair| {
        assert!(matches!(pair.cq.poll_for(LIMIT), Err(CqError::CannotSleep)));
        assert!(matches!(pair.cq.wait_fd(), Err(CqError::CannotSleep)));
        assert!(matches!(pair.cq.may_sleep(), Err(CqError::CannotSleep)));
    });
}

fn objects_that_cannot_be_slept_on_are_refused<T: Transport>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let open = |wait| {
        let attr = CqAttr::<8> { wait, ..CqAttr::new() };
        Cq::<T, Bytes>::open(&domain, attr).map(drop)
    };
    for wait in [WaitObj::SET, WaitObj::POLLFD, WaitObj::from_raw(99)] {
        assert!(matches!(open(wait), Err(OpenError::Errno(_))), "{wait}");
    }
    // Providers whose queues yield do not survive it.
    for wait in [WaitObj::UNSPEC, WaitObj::YIELD, WaitObj::FD] {
        let opened = open(wait);
        println!("{}: {wait}: {opened:?}", info.provider());
        assert!(opened.is_err() || !matches!(info.provider(), "soft" | "shm"), "{wait}");
    }
    open(WaitObj::NONE).expect("a queue that is polled");
}
