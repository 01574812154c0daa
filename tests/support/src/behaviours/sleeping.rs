//! Queues on which a program sleeps until an event, if the transport can wake it.

#![allow(unsafe_code, reason = "sleeps on a file descriptor by the system's own call")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::deadline::{Deadline, Spins};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::error::OpenError;
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Errno, WaitObj};

use crate::behaviours::needs::{Behaviour, Case, MSG};
use crate::behaviours::pair::{
    Bytes, LIMIT, OrCut, Pair, is_tested, limit, on_pair, on_pair_with, pattern, post_on, room,
};
use crate::memory::allocator;
use crate::posting::threads::{hear, on_threads, tell};
use crate::posting::{one_sleep, or_less};

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("sleeping_ends_when_the_time_has_passed", MSG, sleeping_ends_when_the_time_has_passed),
        ("sleeping_ends_at_the_deadline_whatever_wakes_it", MSG, sleeping_ends_at_the_deadline_whatever_wakes_it),
        ("sleeping_ends_with_a_completion", MSG, sleeping_ends_with_a_completion),
        ("a_program_may_sleep_on_the_descriptor_of_an_idle_queue", MSG, a_program_may_sleep_on_an_idle_queue),
        ("queue_not_opened_for_sleep_refuses_to_sleep", MSG, queue_not_opened_for_sleep_refuses_to_sleep),
        ("objects_that_cannot_be_slept_on_are_refused", MSG, objects_that_cannot_be_slept_on_are_refused),
    ]
}

/// Returns the behaviours that require a domain which threads share.
pub fn threaded_cases<T: Transport + 'static>() -> Vec<Behaviour<T>>
where
    Domain<'static, T>: Sync,
{
    vec![
        ("a_sleeper_is_woken_by_another_thread", MSG, a_sleeper_is_woken_by_another_thread::<T> as Case<T>),
        (
            "another_threads_message_makes_a_descriptor_readable",
            MSG,
            another_threads_message_makes_a_descriptor_readable,
        ),
    ]
}

/// Returns `true` if the transport has wait objects, and checks the refusal otherwise.
pub fn sleeps<T: Transport + 'static>(domain: &Domain<'_, T>) -> bool {
    let opened =
        Cq::<T, Bytes>::open_in(domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) }, allocator()).map(drop);
    // A waitable queue opens over every transport.
    let optional = CqAttr { wait: WaitObj::FD, wait_is_optional: true, ..CqAttr::new(64) };
    let waitable = Cq::<T, Bytes>::open_in(domain, optional, allocator()).expect("queue");
    let wait = if opened.is_ok() { WaitObj::FD } else { WaitObj::NONE };
    assert_eq!((waitable.wait_obj(), waitable.poll_for(Duration::ZERO).is_ok()), (wait, opened.is_ok()));
    let Err(error) = opened else { return true };
    crate::report::not_granted();
    assert!(matches!(error, OpenError::Errno(Errno::ENOSYS)), "{error:?}");
    assert!(domain.info().provider() != "tcp;ofi_rxm" || !is_tested(domain.info()));
    assert!(domain.info().provider() != "soft" || domain.info().domain() == "strict");
    false
}

pub fn on_sleepy_pair<T: Transport + 'static>(info: &Info<T>, test: impl FnOnce(&Pair<'_, '_, T>)) {
    let attr = CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) };
    let domain = Domain::open(info).expect("domain");
    if sleeps(&domain) {
        on_pair_with(info, attr, test);
    }
}

/// Returns `true` if the queue has a descriptor. A queue with a wait object may have none.
pub fn has_descriptor<T: Transport + 'static>(domain: &Domain<'_, T>, cq: &Cq<'_, T, Bytes>) -> bool {
    match cq.wait_fd() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, CqError::Queue(Errno::ENOSYS));
            assert!(!["tcp;ofi_rxm", "soft"].contains(&domain.info().provider()));
            crate::report::not_granted();
            false
        }
    }
}

/// Sleeps on the descriptor. Returns `true` after the whole time.
pub fn sleeps_on<T: Transport + 'static>(cq: &Cq<'_, T, Bytes>, time: Duration) -> bool {
    let fd = cq.wait_fd().expect("a descriptor");
    let mut fds = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, and the descriptor is open as long as the queue.
    let woken = unsafe { libc::poll(&raw mut fds, 1, i32::try_from(time.as_millis()).unwrap()) };
    assert!(woken >= 0, "poll takes the descriptor");
    assert_eq!(fds.revents & libc::POLLNVAL, 0, "an open one");
    woken == 0
}

fn sleeping_ends_when_the_time_has_passed<T: Transport + 'static>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        let (begin, time) = (Instant::now(), Duration::from_millis(30));
        // Spurious wakes are allowed.
        while begin.elapsed() < time {
            assert!(pair.cq.poll_for(time).or_cut("the queue works").is_none());
        }
        assert!(begin.elapsed() < LIMIT);
        assert!(pair.cq.poll_for(Duration::ZERO).or_cut("the queue works").is_none());
    });
}

/// Interrupts the calling thread by a signal of the system every 2 ms while `sleep` runs.
fn interrupted<R>(sleep: impl FnOnce() -> R) -> R {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: a handler of no flags and an empty mask, in memory of zeros, is valid.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the handler is empty, so any thread may run it at any time.
    assert_eq!(unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut()) }, 0);
    // SAFETY: an event in memory of zeros is valid.
    let mut event: libc::sigevent = unsafe { core::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGUSR2;
    // SAFETY: takes no argument.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer = core::ptr::null_mut();
    // SAFETY: the event names this thread, and the call writes the timer.
    assert_eq!(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) }, 0);
    let period = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    let every = libc::itimerspec { it_interval: period, it_value: period };
    // SAFETY: the timer exists.
    assert_eq!(unsafe { libc::timer_settime(timer, 0, &raw const every, core::ptr::null_mut()) }, 0);
    let slept = sleep();
    // SAFETY: the timer exists and is not used any more.
    assert_eq!(unsafe { libc::timer_delete(timer) }, 0);
    slept
}

fn sleeping_ends_at_the_deadline_whatever_wakes_it<T: Transport + 'static>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        let deadline = Instant::now() + Duration::from_millis(60);
        let slept = interrupted(|| pair.cq.poll_until(deadline)).or_cut("the queue works");
        assert!(slept.is_none() && Instant::now() >= deadline);
        assert!(deadline.elapsed() < LIMIT / 2, "{:?} late", deadline.elapsed());
        assert!(pair.cq.poll_until(deadline).or_cut("the queue works").is_none(), "it has passed");
        // A deadline without a known time is checked after each of some short sleeps.
        assert!(pair.cq.poll_until(Spins(2)).or_cut("the queue works").is_none());
    });
}

fn sleeping_ends_with_a_completion<T: Transport + 'static>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        for round in 0..20 {
            let received = pair.post(room(300), |buf| pair.b.recv(Source::Any, buf));
            let sent = pair.post(pattern(300, round), |buf| pair.a.send(pair.to_b, buf));
            let (mut deadline, mut left) = (limit(), vec![received, sent]);
            while !left.is_empty() {
                assert!(!deadline.passed(), "{left:?} never came");
                let Some(completion) = pair.cq.poll_for(one_sleep()).or_cut("the queue works") else { continue };
                let Completion::Op(done) = completion else { panic!("{completion:?}") };
                let at = left.iter().position(|key| *key == done.key()).expect("each once");
                if left.swap_remove(at) == received {
                    assert_eq!(done.result().or_cut("it succeeds").len, 300);
                    assert_eq!(done.into_buf(), pattern(300, round));
                }
            }
        }
    });
}

fn a_program_may_sleep_on_an_idle_queue<T: Transport + 'static>(info: &Info<T>) {
    on_sleepy_pair(info, |pair| {
        if !has_descriptor(pair.domain, pair.cq) {
            return;
        }
        pair.warm_up();
        let mut deadline = limit();
        // Messages that connections still exchange are read meanwhile.
        while !(pair.cq.may_sleep().or_cut("the queue works") && sleeps_on(pair.cq, Duration::from_millis(20))) {
            assert!(!deadline.passed(), "never idle");
            assert!(pair.cq.poll().or_cut("the queue works").is_none());
        }
        // The result that a wait for another operation has kept can be polled, and no event would
        // wake the program for it.
        let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
        let sent = pair.post(pattern(8, 1), |buf| pair.a.send(pair.to_b, buf));
        pair.finish(received);
        while pair.cq.in_flight() > 0 {
            assert!(!deadline.passed(), "the send never ends");
            pair.cq.progress().or_cut("the queue works");
        }
        assert!(!pair.cq.may_sleep().or_cut("the queue works"), "the end of the send is kept");
        pair.finish(sent);
    });
}

fn queue_not_opened_for_sleep_refuses_to_sleep<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        assert!(matches!(pair.cq.poll_for(LIMIT), Err(CqError::NotOpenedFor)));
        assert!(matches!(pair.cq.wait_fd(), Err(CqError::NotOpenedFor)));
        assert!(matches!(pair.cq.may_sleep(), Err(CqError::NotOpenedFor)));
    });
}

fn objects_that_cannot_be_slept_on_are_refused<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let open = |wait| {
        let attr = CqAttr { wait, ..CqAttr::new(8) };
        Cq::<T, Bytes>::open_in(&domain, attr, allocator()).map(drop)
    };
    for wait in [WaitObj::SET, WaitObj::POLLFD, WaitObj::from_raw(99)] {
        assert!(matches!(open(wait), Err(OpenError::Errno(_))), "{wait}");
    }
    // Providers with queues that yield do not survive it.
    for wait in [WaitObj::UNSPEC, WaitObj::YIELD, WaitObj::FD] {
        let opened = open(wait);
        println!("{}: {wait}: {opened:?}", info.provider());
        assert!(opened.is_err() || !matches!(info.provider(), "shm" | "sm2"), "{wait}");
        if info.provider() == "soft" {
            // The software transport does not yield, and a strict network has no wait objects.
            assert_eq!(opened.is_ok(), wait != WaitObj::YIELD && info.domain() != "strict", "{wait}");
        }
    }
    open(WaitObj::NONE).expect("a queue that is polled");
}

/// Runs two threads that answer each other, and sleep until the other's message arrives. Without a
/// wake, a sleeper sleeps for the whole `LIMIT`.
fn on_two_sleepers<T: Transport + 'static>(
    info: &Info<T>,
    sleep: fn(&Cq<'static, T, Bytes>) -> Option<Completion<'static, Bytes>>,
) where
    Domain<'static, T>: Sync,
{
    let rounds = or_less(100, 20);
    let domain = &Domain::open(info).expect("domain");
    if !sleeps(domain) {
        return;
    }
    // The allocator of this thread: other threads have the global one.
    let memory = allocator();
    let (to_left, from_right) = channel();
    let (to_right, from_left) = channel();
    let side = |first: bool, to_other: Sender<_>, from_other: Receiver<_>| {
        let av = Av::open_in(domain, 4, memory).expect("address vector");
        let cq = Cq::open_in(domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) }, memory).expect("queue");
        let endpoint = cq.endpoint(&av).or_cut("endpoint");
        tell(&to_other, endpoint.address().expect("address"));
        let peer = av.insert(&hear(&from_other).expect("its address")).expect("in the vector");
        let end = |key| {
            let mut deadline = limit();
            loop {
                assert!(!deadline.passed(), "it never ends");
                let Some(Completion::Op(done)) = sleep(&cq) else { continue };
                done.result().or_cut("the operation succeeds");
                if done.key() == key {
                    break done.into_buf();
                }
            }
        };
        let begin = Instant::now();
        for round in 0..rounds {
            let received = post_on(&cq, room(64), |buf| endpoint.recv(Source::Any, buf));
            if first {
                post_on(&cq, pattern(64, round), |buf| endpoint.send(peer, buf));
            }
            assert_eq!(end(received), pattern(64, round));
            if !first {
                post_on(&cq, pattern(64, round), |buf| endpoint.send(peer, buf));
            }
        }
        assert!(begin.elapsed() < LIMIT / 2, "sleepers are not woken up");
        // No thread leaves while the other may still need it.
        tell(&to_other, endpoint.address().expect("address"));
        let mut deadline = limit();
        while from_other.try_recv().is_err() {
            assert!(!deadline.passed(), "the other side finishes");
            cq.progress().or_cut("the queue works");
        }
    };
    on_threads([Box::new(move || side(true, to_right, from_right)), Box::new(move || side(false, to_left, from_left))]);
}

fn a_sleeper_is_woken_by_another_thread<T: Transport + 'static>(info: &Info<T>)
where
    Domain<'static, T>: Sync,
{
    on_two_sleepers(info, |cq| cq.poll_for(one_sleep()).or_cut("the queue works"));
}

fn another_threads_message_makes_a_descriptor_readable<T: Transport + 'static>(info: &Info<T>)
where
    Domain<'static, T>: Sync,
{
    let domain = Domain::open(info).expect("domain");
    if !sleeps(&domain) {
        return;
    }
    let cq = Cq::open_in(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) }, allocator()).expect("queue");
    if !has_descriptor(&domain, &cq) {
        return;
    }
    on_two_sleepers(info, |cq| {
        if cq.may_sleep().or_cut("the queue works") {
            sleeps_on(cq, one_sleep());
        }
        cq.poll().or_cut("the queue works")
    });
}
