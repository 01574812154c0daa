//! Behaviour of domains that threads share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use loom_core::AddressError;
use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, Errno, Tag};

use crate::behaviours::needs::{Behaviour, Case, MSG, tags};
use crate::behaviours::pair::{OrCut, fails_with, limit, most, pattern, post_on, room};
use crate::behaviours::waiting::{LONG, cancels_sends, more_than_there_are};
use crate::memory::allocator;
use crate::posting::or_less;
use crate::posting::threads::{hear, on_threads, tell};

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>>
where
    Domain<'static, T>: Sync,
    Av<'static, T>: Sync,
{
    vec![
        ("two_threads_exchange_messages", MSG, two_threads_exchange_messages::<T> as Case<T>),
        ("addresses_are_inserted_while_endpoints_come_and_go", MSG, addresses_are_inserted_while_endpoints_come_and_go),
        ("threads_close_in_the_middle_of_traffic", MSG, threads_close_in_the_middle_of_traffic),
        ("thread_that_polls_lets_go_of_cancelled_sends", MSG, thread_that_polls_lets_go_of_cancelled_sends),
    ]
}

fn two_threads_exchange_messages<T: Transport + 'static>(info: &Info<T>)
where
    Domain<'static, T>: Sync,
{
    let rounds = or_less(200, 20);
    let longest = most(info, 1 << 18);
    let domain = &Domain::open(info).expect("domain");
    // The allocator of this thread: other threads have the global one.
    let memory = allocator();
    let (to_left, from_right) = channel();
    let (to_right, from_left) = channel();
    let side = |seed: usize, to_other: Sender<_>, from_other: Receiver<_>| {
        let av = Av::open_in(domain, 4, memory).expect("address vector");
        let cq = Cq::open_in(domain, CqAttr::new(16), memory).expect("queue");
        let endpoint = cq.endpoint(&av).or_cut("endpoint");
        tell(&to_other, endpoint.address().expect("address"));
        let peer = av.insert(&hear(&from_other).expect("its address")).expect("in the vector");
        let finish = |key| {
            let done = cq.wait(key, limit()).or_cut("the queue works").expect("in time");
            done.result().or_cut("the operation succeeds");
            done.into_buf()
        };
        for round in 0..rounds {
            let len = if round % 10 == 9 { longest } else { 64 };
            let received = post_on(&cq, room(len), |buf| endpoint.recv(Source::Any, buf));
            let sent = post_on(&cq, pattern(len, round + seed), |buf| endpoint.send(peer, buf));
            finish(sent);
            assert!(finish(received) == pattern(len, round + 1000 - seed), "round {round} of side {seed}");
        }
        // No thread leaves while the other may still need it.
        tell(&to_other, endpoint.address().expect("address"));
        let mut deadline = limit();
        while from_other.try_recv().is_err() {
            assert!(!deadline.passed(), "the other side finishes");
            cq.progress().or_cut("the queue works");
        }
    };
    on_threads([Box::new(move || side(0, to_right, from_right)), Box::new(move || side(1000, to_left, from_left))]);
}

fn addresses_are_inserted_while_endpoints_come_and_go<T: Transport + 'static>(info: &Info<T>)
where
    Domain<'static, T>: Sync,
    Av<'static, T>: Sync,
{
    // Fewer if endpoints may stay open.
    let lives = if crate::behaviours::pair::is_tested(info) { or_less(100, 20) } else { 6 };
    let domain = &Domain::open(info).expect("domain");
    // The allocator of this thread: other threads have the global one.
    let memory = allocator();
    let av = &Av::open_in(domain, 256, memory).expect("address vector");
    // `Av::insert` refuses the address of an endpoint that has closed.
    let is_refused = info.provider() == "shm" || !crate::behaviours::pair::is_tested(info);
    let (to_inserter, from_opener) = channel();
    let inserts = move || {
        let mut heard = 0;
        while let Some(address) = hear(&from_opener) {
            heard += 1;
            match av.insert(&address) {
                Ok(peer) => assert!(av.address(peer).is_some(), "it is there"),
                Err(AddressError::Errno(errno)) => assert!(is_refused && errno == Errno::EADDRNOTAVAIL, "{errno}"),
                Err(full) => panic!("{full}"),
            }
        }
        assert_eq!(heard, lives);
    };
    let opens = move || {
        for _ in 0..lives {
            let cq = Cq::<T, crate::behaviours::pair::Bytes>::open_in(domain, CqAttr::new(16), memory).expect("queue");
            let endpoint = cq.endpoint(av).or_cut("endpoint");
            tell(&to_inserter, endpoint.address().expect("address"));
            cq.progress().or_cut("the queue works");
        }
    };
    on_threads([Box::new(inserts), Box::new(opens)]);
}

/// Sends and writes on one side much more than the other takes. The other opens, receives a little,
/// and closes endpoints, regions and queues, repeatedly.
fn threads_close_in_the_middle_of_traffic<T: Transport + 'static>(info: &Info<T>)
where
    Domain<'static, T>: Sync,
{
    let segments = info.provider() == "tcp;ofi_rxm" && !crate::behaviours::pair::is_old(info, info.provider());
    if segments {
        crate::report::partly(
            "Closing an endpoint while a message between 16 and 128 KiB arrives crashes, unless its sender has \
                `FI_OFI_RXM_SAR_LIMIT=16384` in the environment (`rxm-close-in-the-middle-of-segments-crashes`)",
        );
    }
    let longest = most(info, if segments { 1 << 18 } else { 1 << 16 });
    // Much more than is received, and less than the memory of providers that keep messages without
    // a receive.
    let most_sent = 30;
    // Fewer if closing waits a second for the messages of peers, and if endpoints may stay open and
    // are still driven.
    let is_slow = info.provider() == "sm2" || !crate::behaviours::pair::is_tested(info);
    let lives = if is_slow { 6 } else { or_less(30, 6) };
    let has_regions = info.caps().contains(Caps::RMA);
    let domain = &Domain::open(info).expect("domain");
    // The allocator of this thread: other threads have the global one.
    let memory = allocator();
    let stop = &AtomicBool::new(false);
    let (to_sender, from_other) = channel();
    let sends = move || {
        let mut deadline = limit();
        while let Some((address, region)) = hear(&from_other) {
            // A vector for each life: some have an address of an earlier one, at which `tcp` of
            // libfabric 2.5 crashes (`tcp-peer-that-goes-while-one-connects-crashes`).
            let av = Av::open_in(domain, 4, memory).expect("address vector");
            let cq = Cq::open_in(domain, CqAttr::new(16), memory).expect("queue");
            let endpoint = cq.endpoint(&av).or_cut("endpoint");
            let peer = av.insert(&address).expect("in the vector");
            let (mut seed, mut sent) = (0, 0);
            // Until the next life of the peer begins. Each failure has an error.
            while !stop.swap(false, Ordering::AcqRel) {
                assert!(!deadline.passed(), "the other side goes on");
                seed += 1;
                let len = if seed % 3 == 0 { longest } else { 256 };
                if sent < most_sent {
                    sent += usize::from(endpoint.send(peer, pattern(len, seed)).is_ok());
                    if let Some(region) = &region {
                        let _ = endpoint.write(peer, region, 0, pattern(len, seed));
                    }
                }
                while let Some(completion) = cq.poll().or_cut("the queue works") {
                    if let Completion::Op(done) = completion {
                        assert!(!done.buf().is_empty(), "the buffer comes back");
                    }
                }
                // The other side has to reach the code that drives endpoints of a domain together.
                std::thread::yield_now();
            }
        }
    };
    let closes = move || {
        for life in 0..lives {
            let av = Av::open_in(domain, 4, memory).expect("address vector");
            let open = || Mr::open_in(domain, room(longest), Access::REMOTE_WRITE, memory).expect("region");
            let region = has_regions.then(open);
            let cq = Cq::open_in(domain, CqAttr::new(16), memory).expect("queue");
            let endpoint = cq.endpoint(&av).or_cut("endpoint");
            let mut expected = 1 + life % 5;
            for _ in 0..8 {
                post_on(&cq, room(longest), |buf| endpoint.recv(Source::Any, buf));
            }
            tell(&to_sender, (endpoint.address().expect("address"), region.as_ref().map(|region| region.remote())));
            let mut deadline = limit();
            while expected > 0 {
                assert!(!deadline.passed(), "messages arrive");
                if let Some(Completion::Op(done)) = cq.poll().or_cut("the queue works") {
                    expected -= 1;
                    let (buf, result) = done.into_parts();
                    assert!(result.or_cut("received").len >= 256);
                    post_on(&cq, buf, |buf| endpoint.recv(Source::Any, buf));
                }
            }
            match life % 3 {
                0 => drop((region, endpoint, cq)),
                1 => drop((endpoint, region, cq)),
                // The endpoint is the last handle of its queue: both are closed at once.
                _ => drop((cq, endpoint)),
            }
            stop.store(true, Ordering::Release);
            while stop.load(Ordering::Acquire) {
                assert!(!deadline.passed(), "the other side notices");
                std::thread::yield_now();
            }
        }
        // Its channel ends here, and so does the other side.
        drop(to_sender);
    };
    on_threads([Box::new(sends), Box::new(closes)]);
}

/// Waits on one side for the last message. Others send messages that it does not receive, and
/// cancel them, or close.
fn thread_that_polls_lets_go_of_cancelled_sends<T: Transport + 'static>(info: &Info<T>)
where
    Domain<'static, T>: Sync,
{
    if !cancels_sends(info) || !tags(info) {
        return;
    }
    let domain = &Domain::open(info).expect("domain");
    // The allocator of this thread: other threads have the global one.
    let memory = allocator();
    let (to_first, at_first) = channel();
    let (to_second, at_second) = channel();
    let waits = move || {
        let av = Av::open_in(domain, 4, memory).expect("address vector");
        let cq = Cq::open_in(domain, CqAttr::new(16), memory).expect("queue");
        let endpoint = cq.endpoint(&av).or_cut("endpoint");
        let senders = [to_first, to_second];
        let wanted: Vec<_> = senders
            .iter()
            .map(|_| post_on(&cq, room(8), |buf| endpoint.tagged_recv(Source::Any, Tag(2), buf)))
            .collect();
        for sender in &senders {
            tell(sender, endpoint.address().expect("address"));
        }
        for wanted in wanted {
            let done = cq.wait(wanted, limit()).or_cut("the queue works").expect("in time");
            done.result().or_cut("received");
            assert_eq!(done.into_buf(), pattern(8, 1));
        }
    };
    let takes_back = move |from_receiver: Receiver<_>| {
        let av = Av::open_in(domain, 4, memory).expect("address vector");
        let peer = av.insert(&hear(&from_receiver).expect("its address")).expect("in the vector");
        let cq = Cq::open_in(domain, CqAttr::new(16), memory).expect("queue");
        let mut endpoint = cq.endpoint(&av).or_cut("endpoint");
        let mut closed = 0;
        for round in 0..more_than_there_are() {
            let sent = post_on(&cq, pattern(LONG, round), |buf| endpoint.tagged_send(peer, Tag(1), buf));
            if round % 7 == 6 {
                drop(endpoint);
                endpoint = cq.endpoint(&av).or_cut("endpoint");
                closed += 1;
            } else {
                endpoint.cancel(sent).expect("in flight");
            }
            let done = cq.wait(sent, limit()).or_cut("the queue works").expect("in time");
            fails_with(done.result(), Errno::ECANCELED);
            assert!(done.into_buf() == pattern(LONG, round), "the buffer comes back");
        }
        assert!(closed > 0);
        let last = post_on(&cq, pattern(8, 1), |buf| endpoint.tagged_send(peer, Tag(2), buf));
        cq.wait(last, limit()).or_cut("the queue works").expect("in time").result().or_cut("sent");
    };
    on_threads([Box::new(waits), Box::new(move || takes_back(at_first)), Box::new(move || takes_back(at_second))]);
}

/// Objects that threads may share, within the transport's threading level.
const _: () = {
    const fn shared<V: Sync>() {}
    shared::<Domain<'static, loom_core::soft::Soft<'_>>>();
    shared::<Av<'_, loom_core::soft::Soft<'_>>>();
    shared::<Mr<'_, loom_core::soft::Soft<'_>, Vec<u8>>>();
};
