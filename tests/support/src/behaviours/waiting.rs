//! Queues: waits for one operation, cancels, depth, two provider queues.

use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr, CqError, Driving};
use loom_core::deadline::{Deadline, Spins};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::Direction;
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Errno, Tag};

use crate::behaviours::needs::{Behaviour, MSG, tags};
use crate::behaviours::pair::{
    Bytes, LIMIT, OrCut, Pair, is_strict, is_tested, limit, most, on_pair, on_pair_with, pattern, retry, room,
};
use crate::memory::allocator;
use crate::posting::or_less;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        (
            "waiting_ends_at_the_deadline_and_leaves_the_operation",
            MSG,
            waiting_ends_at_the_deadline_and_leaves_the_operation,
        ),
        ("waiting_for_one_keeps_the_others", MSG, waiting_for_one_keeps_the_others),
        ("taken_completion_is_unknown_afterwards", MSG, taken_completion_is_unknown_afterwards),
        ("cancelled_receive_gives_its_buffer_back", MSG, cancelled_receive_gives_its_buffer_back),
        ("cancel_leaves_other_receives_alone", MSG, cancel_leaves_other_receives_alone),
        ("cancelled_sends_make_room_for_others", MSG, cancelled_sends_make_room_for_others),
        ("full_queue_gives_the_buffer_back", MSG, full_queue_gives_the_buffer_back),
        ("completions_that_hold_all_slots_end_a_post", MSG, completions_that_hold_all_slots_end_a_post),
        ("two_queues_of_one_thread_are_driven_together", MSG, two_queues_of_one_thread_are_driven_together),
        ("each_direction_has_a_queue_of_its_own", MSG, each_direction_has_a_queue_of_its_own),
        ("one_queue_can_be_polled_by_direction", MSG, one_queue_can_be_polled_by_direction),
        ("many_endpoints_share_a_queue", MSG, many_endpoints_share_a_queue),
        ("empty_queue_returns_no_completion", MSG, empty_queue_returns_no_completion),
    ]
}

/// Length of a send that does not complete before its receive.
pub const LONG: usize = 1 << 16;

/// Number that exceeds the messages that a sender can have in flight.
pub fn more_than_there_are() -> usize {
    or_less(500, 150)
}

/// Returns `true` if receives can be cancelled. Datagrams of `udp` cannot.
pub fn cancels_receives<T: Transport + 'static>(info: &Info<T>) -> bool {
    info.provider() != "udp"
}

/// Returns `true` if an endpoint and its scope can be closed with posted receives, and notes it
/// otherwise. Over an untested provider, an endpoint is closed after their end, and a scope that
/// cannot close ends the process.
pub fn closes_with_receives<T: Transport + 'static>(info: &Info<T>) -> bool {
    let ends = is_tested(info) || cancels_receives(info);
    if !ends {
        crate::report::not_run(
            "Receives cannot be cancelled: their buffers stay with the queue, and a scope ends the process",
        );
    }
    ends
}

/// Returns `true` if a send can be cancelled before its receive, and notes it otherwise.
pub fn cancels_sends<T: Transport + 'static>(info: &Info<T>) -> bool {
    let cancels = info.provider() == "soft" && !is_strict(info);
    if info.provider() == "udp" {
        crate::report::not_run("A send ends at once and cannot be cancelled");
    } else if is_strict(info) {
        crate::report::not_granted();
    } else if !cancels {
        crate::report::not_run("The provider cancels no sends, only receives (`…-send-is-not-cancelled`)");
    }
    cancels
}

fn waiting_ends_at_the_deadline_and_leaves_the_operation<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let received = pair.post(room(16), |buf| pair.b.recv(Source::Any, buf));
        let begin = Instant::now();
        let waited = pair.cq.wait(received, begin + Duration::from_millis(20)).or_cut("the queue works");
        assert!(waited.is_none());
        assert!(begin.elapsed() >= Duration::from_millis(20));
        assert!(pair.cq.wait(received, Spins(100)).or_cut("the queue works").is_none());
        assert_eq!(pair.cq.in_flight(), 1);
        let sent = pair.post(pattern(16, 1), |buf| pair.a.send(pair.to_b, buf));
        assert_eq!(pair.finish(received).0, pattern(16, 1));
        pair.finish(sent);
        assert_eq!(pair.cq.in_flight(), 0);
    });
}

fn waiting_for_one_keeps_the_others<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let receives: Vec<_> = (0..8).map(|tag| pair.receive(tag, 8)).collect();
        let sends: Vec<_> = (0..8).map(|tag| pair.send(tag, pattern(8, usize::try_from(tag).unwrap()))).collect();
        // The last first: the wait completes all others too.
        assert_eq!(pair.finish(receives[7]).0, pattern(8, 7));
        let mut keys: Vec<_> = receives[..7].iter().chain(&sends).copied().collect();
        let mut deadline = limit();
        while !keys.is_empty() {
            assert!(!deadline.passed(), "everything that was kept comes out of poll");
            if let Some(Completion::Op(done)) = pair.cq.poll().or_cut("the queue works") {
                let at = keys.iter().position(|key| *key == done.key()).expect("each completion comes once");
                keys.swap_remove(at);
                done.result().or_cut("the operation succeeds");
            }
        }
    });
}

fn taken_completion_is_unknown_afterwards<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let received = pair.post(room(16), |buf| pair.b.recv(Source::Any, buf));
        let sent = pair.post(pattern(16, 1), |buf| pair.a.send(pair.to_b, buf));
        pair.finish(received);
        pair.finish(sent);
        assert_eq!(pair.cq.wait(received, limit()).expect_err("it was taken"), CqError::UnknownKey);
        assert_eq!(pair.b.cancel(received), Err(Errno::ENOENT));
    });
}

fn cancelled_receive_gives_its_buffer_back<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        if !cancels_receives(info) {
            return is_not_cancelled(pair);
        }
        for tagged in [false, true].into_iter().take(1 + usize::from(tags(info))) {
            let received = pair.post(pattern(16, 5), |buf| match tagged {
                false => pair.b.recv(Source::Any, buf),
                true => pair.b.tagged_recv(Source::Any, Tag(1), buf),
            });
            pair.b.cancel(received).expect("in flight");
            let (buf, _) = pair.fail(received, Errno::ECANCELED);
            assert_eq!(buf, pattern(16, 5), "nothing was received");
        }
        pair.warm_up();
    });
}

/// Checks that a receive that cannot be cancelled continues unchanged.
fn is_not_cancelled<T: Transport + 'static>(pair: &Pair<'_, '_, T>) {
    crate::report::not_granted();
    let received = pair.receive(1, 8);
    assert_eq!(pair.b.cancel(received), Err(Errno::ENOSYS));
    assert_eq!(pair.cq.in_flight(), 1);
    let sent = pair.send(1, pattern(8, 1));
    assert_eq!(pair.finish(received).0, pattern(8, 1));
    pair.finish(sent);
    assert_eq!(pair.b.cancel(received), Err(Errno::ENOENT), "it is over");
}

fn cancel_leaves_other_receives_alone<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        if !cancels_receives(info) {
            return is_not_cancelled(pair);
        }
        let keys: Vec<_> = (0..5).map(|_| pair.receive(1, 8)).collect();
        pair.b.cancel(keys[2]).expect("in flight");
        pair.fail(keys[2], Errno::ECANCELED);
        assert_eq!(pair.a.cancel(keys[1]), Err(Errno::ENOENT), "it is another endpoint's");
        for (seed, key) in [0, 1, 3, 4].into_iter().enumerate() {
            let sent = pair.send(1, pattern(8, seed));
            assert_eq!(pair.finish(keys[key]).0, pattern(8, seed), "in the order of the receives that are left");
            pair.finish(sent);
        }
    });
}

fn cancelled_sends_make_room_for_others<T: Transport + 'static>(info: &Info<T>) {
    if !cancels_sends(info) || !tags(info) {
        return;
    }
    on_pair(info, |pair| {
        let kept = pair.post(pattern(LONG, 1), |buf| pair.a.tagged_send(pair.to_b, Tag(1), buf));
        for round in 0..more_than_there_are() {
            let sent = pair.post(pattern(LONG, round), |buf| pair.a.tagged_send(pair.to_b, Tag(1), buf));
            if round.is_multiple_of(2) {
                // It has arrived, without a receive.
                pair.cq.progress().or_cut("the queue works");
            }
            let cancelled = pair.a.cancel(sent);
            let (buf, _) = pair.fail(sent, Errno::ECANCELED);
            cancelled.expect("in flight");
            assert!(buf == pattern(LONG, round), "the buffer comes back");
        }
        pair.warm_up();
        let received = pair.post(room(LONG), |buf| pair.b.tagged_recv(Source::Any, Tag(1), buf));
        assert!(pair.finish(received).0 == pattern(LONG, 1), "the one that was not cancelled");
        pair.finish(kept);
    });
}

fn full_queue_gives_the_buffer_back<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with(info, CqAttr::new(4), |pair| {
        assert_eq!(pair.cq.capacity(), 4);
        let keys: Vec<_> = (0..4).map(|_| pair.receive(1, 8)).collect();
        let rejected = pair.b.recv(Source::Any, pattern(8, 3)).expect_err("full");
        assert_eq!(rejected.error, PostError::Full);
        assert_eq!(rejected.value, pattern(8, 3));
        if cancels_receives(info) {
            pair.b.cancel(keys[0]).expect("in flight");
            pair.fail(keys[0], Errno::ECANCELED);
        } else {
            // An injected message is not an operation of the queue.
            pair.a.inject(pair.to_b, &pattern(8, 9)).expect("injected");
            assert_eq!(pair.finish(keys[0]).0, pattern(8, 9));
        }
        // One more has room: the message for the second receive.
        let sent = pair.send(1, pattern(8, 1));
        assert_eq!(pair.finish(keys[1]).0, pattern(8, 1));
        pair.finish(sent);
    });
}

fn completions_that_hold_all_slots_end_a_post<T: Transport + 'static>(info: &Info<T>) {
    const DEPTH: usize = 4;
    on_pair_with(info, CqAttr::new(DEPTH), |pair| {
        pair.warm_up();
        let is_refused = || {
            let rejected = pair.cq.post(pattern(8, 9), limit(), |buf| pair.b.recv(Source::Any, buf)).expect_err("full");
            if rejected.error == PostError::Full {
                pair.cq.progress().or_cut("the queue works");
            }
            assert_eq!((rejected.error, &*rejected.value), (PostError::Kept, &*pattern(8, 9)));
        };
        for round in 0..3 {
            for _ in 0..DEPTH {
                pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
            }
            assert_eq!((pair.cq.in_flight(), pair.cq.free_slots()), (DEPTH, 0));
            retry(pair.cq, || pair.a.inject(pair.to_b, &pattern(8, round)));
            // All slots have operations in flight. One completes, and its completion holds the
            // slot.
            is_refused();
            for message in 1..DEPTH {
                retry(pair.cq, || pair.a.inject(pair.to_b, &pattern(8, round + message)));
            }
            let mut deadline = limit();
            while pair.cq.in_flight() > 0 {
                assert!(!deadline.passed(), "the messages arrive");
                pair.cq.progress().or_cut("the queue works");
            }
            assert_eq!(pair.cq.free_slots(), 0, "completions hold the slots");
            let begin = Instant::now();
            is_refused();
            assert!(begin.elapsed() < LIMIT / 2, "{:?}", begin.elapsed());
            // Each taken completion makes room for one operation.
            for message in 0..DEPTH {
                let Some(Completion::Op(done)) = pair.cq.poll().or_cut("the queue works") else { panic!("it is kept") };
                done.result().or_cut("the message arrives");
                assert_eq!(done.into_buf(), pattern(8, round + message), "in their order");
                assert_eq!(pair.cq.free_slots(), message + 1);
            }
        }
        pair.warm_up();
    });
}

fn two_queues_of_one_thread_are_driven_together<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let queues: [Cq<'_, T, Bytes>; 2] = [0; 2].map(|_| Cq::open_in(&domain, 16, allocator()).expect("queue"));
    let sides = queues.each_ref().map(|cq| cq.endpoint(&av).expect("endpoint"));
    let peers = sides.each_ref().map(|side| av.insert(&side.address().expect("address")).expect("in the vector"));
    let progress = |at: usize| queues[at].progress();
    // The first post of each direction requires a connection, and a long message requires both
    // sides until it has ended.
    for (round, len) in [8, LONG, 8].into_iter().enumerate() {
        for (from, to) in [(0, 1), (1, 0)] {
            let (here, there) = (&queues[from], &queues[to]);
            // Longer messages both ways crash a provider (`shm-longer-messages-both-ways-crash`).
            let len = if from == 0 { most(info, len) } else { 8 };
            let until = Driving::new(limit(), || progress(from));
            let received = there.post(room(len), until, |buf| sides[to].recv(Source::Any, buf));
            let received = received.map_err(|rejected| rejected.error).or_cut("the receive is posted");
            let until = Driving::new(limit(), || progress(to));
            let sent = here.post(pattern(len, round), until, |buf| sides[from].send(peers[to], buf));
            let sent = sent.map_err(|rejected| rejected.error).or_cut("the send is posted");
            let mut until = Driving::new(limit(), || progress(to));
            here.finish(sent, &mut until).or_cut("the send ends").result().or_cut("the message is sent");
            assert_eq!(until.result(), Ok(()));
            let done = there.finish(received, Driving::new(limit(), || progress(from))).or_cut("the receive ends");
            assert!(done.into_buf() == pattern(len, round), "the message arrives");
            let until = Driving::new(limit(), || progress(to));
            let injected = here.retry(until, || sides[from].inject(peers[to], b"short"));
            injected.or_cut("the message is injected");
            let until = Driving::new(limit(), || progress(from));
            let received = there.post(room(5), until, |buf| sides[to].recv(Source::Any, buf));
            let received = received.map_err(|rejected| rejected.error).or_cut("the receive is posted");
            let done = there.finish(received, Driving::new(limit(), || progress(from))).or_cut("the receive ends");
            assert_eq!(*done.into_buf(), *b"short");
        }
    }
}

fn each_direction_has_a_queue_of_its_own<T: Transport + 'static>(info: &Info<T>) {
    on_pair_with(info, CqAttr { separate: true, ..CqAttr::new(64) }, check_directions);
}

fn one_queue_can_be_polled_by_direction<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, check_directions);
}

fn check_directions<T: Transport + 'static>(pair: &Pair<'_, '_, T>) {
    for seed in 0..10 {
        let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
        let sent = pair.post(pattern(8, seed), |buf| pair.a.send(pair.to_b, buf));
        let mut deadline = limit();
        let (mut tx, mut rx) = (None, None);
        while tx.is_none() || rx.is_none() {
            assert!(!deadline.passed(), "both complete");
            if let Some(completion) = pair.cq.poll_direction(Direction::Transmit).or_cut("the queue works") {
                assert!(tx.replace(completion).is_none(), "one transmit completes");
            }
            if let Some(completion) = pair.cq.poll_direction(Direction::Receive).or_cut("the queue works") {
                assert!(rx.replace(completion).is_none(), "one receive completes");
            }
        }
        let (Some(Completion::Op(tx)), Some(Completion::Op(rx))) = (tx, rx) else {
            panic!("both are operations of this side");
        };
        assert_eq!((tx.key(), rx.key()), (sent, received));
        assert_eq!(rx.into_buf(), pattern(8, seed));
    }
    // Both in one poll.
    let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
    let sent = pair.post(pattern(8, 1), |buf| pair.a.send(pair.to_b, buf));
    let mut keys = vec![received, sent];
    let mut deadline = limit();
    while !keys.is_empty() {
        assert!(!deadline.passed(), "both complete");
        if let Some(Completion::Op(done)) = pair.cq.poll().or_cut("the queue works") {
            keys.retain(|key| *key != done.key());
        }
    }
}

fn many_endpoints_share_a_queue<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let others: Vec<_> = (0..4).map(|_| pair.cq.endpoint(pair.av).expect("endpoint")).collect();
        for (seed, other) in others.iter().enumerate() {
            let to_other = pair.av.insert(&other.address().expect("address")).expect("in the vector");
            let received = pair.post(room(32), |buf| other.recv(Source::Any, buf));
            let sent = pair.post(pattern(32, seed), |buf| pair.a.send(to_other, buf));
            assert_eq!(pair.finish(received).0, pattern(32, seed));
            pair.finish(sent);
        }
    });
}

fn empty_queue_returns_no_completion<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        for _ in 0..1000 {
            assert!(pair.cq.poll().or_cut("the queue works").is_none());
        }
        assert_eq!(pair.cq.in_flight(), 0);
    });
}
