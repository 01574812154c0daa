//! Awaited operations: a driver polls their queue, and a woken task continues.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::join;
use loom_core::atomic::FetchOp;
use loom_core::completion::Completion;
use loom_core::cq::CqAttr;
use loom_core::deadline::Deadline;
use loom_core::driver::{CqDriver, Drive, Unclaimed};
use loom_core::endpoint::Source;
use loom_core::endpoint::{CompletionLevel, SendOptions};
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, ImmediateData};

use crate::behaviours::needs::{ATOMIC, Behaviour, MSG, RMA};
use crate::behaviours::pair::{
    Bytes, LIMIT, OrCut, Pair, SIZES, carries_data, limit, most, on_pair, on_pair_with, pattern, room,
};
use crate::memory::allocator;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("awaited_messages_arrive_both_ways", MSG, awaited_messages_arrive_both_ways),
        ("posts_that_find_no_room_are_awaited", MSG, posts_that_find_no_room_are_awaited),
        ("awaited_reads_and_writes_move_bytes", RMA, awaited_reads_and_writes_move_bytes),
        ("awaited_values_are_fetched", ATOMIC, awaited_values_are_fetched),
        ("buffers_of_dropped_futures_are_taken_back", MSG, buffers_of_dropped_futures_are_taken_back),
    ]
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs a future. Polls it only after a wake.
fn block_on<V>(drive: &impl Drive, future: impl Future<Output = V>) -> V {
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(flag.clone());
    let (mut future, mut deadline) = (pin!(future), limit());
    loop {
        if flag.0.swap(false, Ordering::Acquire)
            && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return value;
        }
        if drive.turn(16) == 0 {
            assert!(!deadline.passed(), "nothing within {LIMIT:?}");
        }
    }
}

fn awaited_messages_arrive_both_ways<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let driver = CqDriver::open_in(pair.cq, Unclaimed::Drop, allocator()).expect("driver");
        let Pair { a, b, to_a, to_b, .. } = pair;
        for (seed, len) in SIZES.into_iter().enumerate() {
            let len = most(info, len);
            // Longer ones both ways crash libfabric 2's `shm` in one process.
            let back_len = len.min(64);
            let there = async {
                driver.run(pattern(len, seed), |buf| a.send(*to_b, buf)).await.or_cut("sent").result().or_cut("sent");
                let received = driver.run(room(back_len), |buf| a.recv(Source::Any, buf)).await.or_cut("received");
                received.result().or_cut("received");
                assert_eq!(received.into_buf(), pattern(back_len, seed + 1));
            };
            let back = async {
                let received = driver.run(room(len), |buf| b.recv(Source::Any, buf)).await.or_cut("received");
                received.result().or_cut("received");
                assert_eq!(received.into_buf(), pattern(len, seed));
                let sent = driver.run(pattern(back_len, seed + 1), |buf| b.send(*to_a, buf)).await.or_cut("sent");
                sent.result().or_cut("sent");
            };
            block_on(&driver, async { join!(there, back) });
        }
        assert_eq!(pair.cq.in_flight(), 0);
    });
}

fn posts_that_find_no_room_are_awaited<T: Transport + 'static>(info: &Info<T>) {
    const MESSAGES: usize = 50;
    on_pair_with(info, CqAttr::new(4), |pair| {
        let driver = CqDriver::open_in(pair.cq, Unclaimed::Drop, allocator()).expect("driver");
        let Pair { a, b, to_b, .. } = pair;
        let sends = (0..MESSAGES).map(|seed| {
            let driver = &driver;
            async move {
                let sent = driver.run(pattern(40, seed), |buf| a.send(*to_b, buf)).await.or_cut("sent");
                sent.result().or_cut("sent");
            }
        });
        let receives = async {
            // If a provider refuses posts for a while, waiting posts are retried in turn.
            let mut left: Vec<Bytes> = (0..MESSAGES).map(|seed| pattern(40, seed)).collect();
            while !left.is_empty() {
                let received = driver.run(room(40), |buf| b.recv(Source::Any, buf)).await.or_cut("received");
                received.result().or_cut("received");
                let message = received.into_buf();
                left.swap_remove(left.iter().position(|expected| *expected == message).expect("each once"));
            }
        };
        block_on(&driver, async { join!(futures_util::future::join_all(sends), receives) });
    });
}

fn awaited_reads_and_writes_move_bytes<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open_in(pair.domain, room(300), access, allocator()).expect("region");
        let remote = region.remote();
        let driver = CqDriver::open_in(pair.cq, Unclaimed::Drop, allocator()).expect("driver");
        let (a, to_b) = (&pair.a, pair.to_b);
        block_on(&driver, async {
            // The read may overtake a write that is not delivered.
            let (part, delivered) = (
                [remote.part(50, 200).expect("within")],
                SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() },
            );
            let write = |buf| a.write_with(to_b, &part, delivered, buf);
            let written = driver.run(pattern(200, 1), write).await.or_cut("written");
            written.result().or_cut("written");
            let read = driver.run(room(250), |buf| a.read(to_b, &remote, 0, buf)).await.or_cut("read");
            read.result().or_cut("read");
            assert_eq!(read.buf()[50..], pattern(200, 1)[..]);
            if carries_data(info) {
                let data = ImmediateData(0x0102_0304);
                let written = driver.run(pattern(8, 2), |buf| a.write_data(to_b, &remote, 0, data, buf));
                let (written, event) = join!(written, driver.next_event());
                written.or_cut("written").result().or_cut("written");
                let Completion::Remote(event) = event.or_cut("told") else { panic!("a peer's event") };
                assert_eq!(event.data(), Some(data));
            }
        });
    });
}

fn awaited_values_are_fetched<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let Ok(add) = pair.domain.query_atomic(FetchOp::<u64>::SUM) else { return crate::report::not_granted() };
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let memory: Bytes = vec![0; 16].into();
        let at = u64::try_from(memory.as_ptr().align_offset(8)).expect("few");
        let region = Mr::open_in(pair.domain, memory, access, allocator()).expect("region");
        let remote = region.remote();
        let driver = CqDriver::open_in(pair.cq, Unclaimed::Drop, allocator()).expect("driver");
        block_on(&driver, async {
            for before in [0, 7, 14] {
                let post = || pair.a.fetch_value(pair.to_b, &remote, at, add, 7);
                let key = driver.retry(post).await.or_cut("posted");
                let fetched = driver.finish_value(key).await.or_cut("ended").value::<u64>().or_cut("fetched");
                assert_eq!(fetched, Some(before));
            }
        });
    });
}

fn buffers_of_dropped_futures_are_taken_back<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let driver = CqDriver::open_in(pair.cq, Unclaimed::Keep, allocator()).expect("driver");
        let (a, b, to_b) = (&pair.a, &pair.b, pair.to_b);
        block_on(&driver, async {
            for seed in 0..10 {
                let key = driver
                    .post(room(30), |buf| b.recv(Source::Any, buf))
                    .await
                    .map_err(|refused| refused.error)
                    .or_cut("posted");
                let mut received = Box::pin(driver.finish(key));
                assert!(futures_util::poll!(&mut received).is_pending());
                drop(received);
                let sent = driver.run(pattern(30, seed), |buf| a.send(to_b, buf)).await.or_cut("sent");
                sent.result().or_cut("sent");
                let unclaimed = driver.next_unclaimed().await.or_cut("taken back");
                assert_eq!(unclaimed.key(), key);
                unclaimed.result().or_cut("received");
                assert_eq!(unclaimed.into_buf(), pattern(30, seed));
            }
        });
        assert_eq!(pair.cq.in_flight(), 0);
    });
}
