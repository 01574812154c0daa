use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::common::{Idle, Pair, bounded};
use loom_async::block_on;
use loom_async::window::{Failed, Outcome, Window, transfer, transfer_each};
use loom_core::cq::CqError;
use loom_core::driver::{Drive, Unclaimed};
use loom_core::error::{PostError, Rejected};
use loom_core::soft::{Every, Plan, Soft};
use loom_core::{Access, Errno, Error, ImmediateData, Mr, Source};

const PART: usize = 100;

fn part(number: usize) -> Vec<u8> {
    (0..PART).map(|byte| u8::try_from((byte + number * 7) % 251).unwrap()).collect()
}

fn region(pair: &Pair, parts: usize) -> Mr<'static, Soft<'static>, Vec<u8>> {
    Mr::open(&pair.domain, vec![0; parts * PART], Access::REMOTE_WRITE).unwrap()
}

fn arrived(region: &Mr<'static, Soft<'static>, Vec<u8>>, parts: usize) -> usize {
    let mut room = vec![0; PART];
    let mut is_there = |number: &usize| {
        region.window().copy_to(number * PART, &mut room).unwrap();
        room == part(*number)
    };
    (0..parts).filter(|number| is_there(number)).count()
}

/// Outcome, and the parts posted, in flight at most, arrived, and buffers returned.
fn transferred<const N: usize>(plan: Plan, depth: usize, parts: usize) -> (Outcome, usize, usize, usize, usize) {
    let pair = Pair::with(depth, Unclaimed::Drop, plan);
    let region = region(&pair, parts);
    let at = region.remote();
    let (posted, back, most) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let post = |number: usize, buf| {
        assert_eq!(number, posted.get(), "in order");
        let key = pair.alice.write(pair.to_bob, &at, (number * PART) as u64, buf)?;
        posted.set(posted.get() + 1);
        most.set(most.get().max(posted.get() - back.get()));
        Ok(key)
    };
    let each = |number, done: loom_core::Done<Vec<u8>>| {
        assert_eq!(done.into_buf(), part(number), "the buffer of this part");
        back.set(back.get() + 1);
    };
    let outcome =
        block_on(&bounded(&pair.driver), transfer_each(&pair.driver, Window::<N>, (0..parts).map(part), post, each));
    (outcome, posted.get(), most.get(), arrived(&region, parts), back.get())
}

#[test]
fn every_part_arrives_and_no_more_than_the_window_is_in_flight() {
    for seed in 0..10 {
        let plan = Plan { reorder: 9, ..Plan::new(seed) };
        let (outcome, posted, most, arrived, back) = transferred::<4>(plan, 16, 100);
        assert_eq!(outcome, Outcome { parts: 100, bytes: 100 * PART as u64, failed: None });
        assert_eq!((posted, arrived, back), (100, 100, 100));
        assert_eq!(most, 4);
    }
}

#[test]
fn parts_that_are_refused_for_the_moment_wait_and_a_queue_may_be_smaller_than_the_window() {
    for seed in 0..10 {
        let plan = Plan { refuse: Every::About(2), reorder: 5, ..Plan::new(seed) };
        let (outcome, posted, most, arrived, back) = transferred::<8>(plan, 3, 50);
        assert_eq!(outcome.result(), Ok(50 * PART as u64));
        assert_eq!((posted, arrived, back), (50, 50, 50));
        assert!((2..=3).contains(&most), "{most} in flight");
    }
}

#[test]
fn transfer_of_no_parts_ends_at_once() {
    let (outcome, ..) = transferred::<1>(Plan::new(1), 4, 0);
    assert_eq!(outcome, Outcome::default());
    assert_eq!(outcome.result(), Ok(0));
}

#[test]
fn transfer_stops_posting_after_an_error_and_awaits_posted_parts() {
    for seed in 0..50 {
        let plan = Plan { lose: Every::About(20), reorder: 9, refuse: Every::About(5), ..Plan::new(seed) };
        let (outcome, posted, most, arrived, back) = transferred::<6>(plan, 16, 1000);
        let Failed { part, error, key: None } = outcome.failed.unwrap() else { panic!("{outcome:?}") };
        assert!(matches!(error, Error::Operation(error) if error.errno == Errno::ECONNABORTED));
        assert!(posted < 1000 && part < posted);
        assert!(most <= 6);
        assert_eq!(back, posted, "seed {seed}: buffers of all that was posted");
        assert_eq!((outcome.parts, outcome.bytes), (arrived, (arrived * PART) as u64), "what was transferred, exactly");
        assert!(posted - arrived <= 6, "no more than what was in flight when the first one failed");
    }
}

#[test]
fn refused_part_ends_the_transfer_and_keeps_completed_parts() {
    let pair = Pair::with(16, Unclaimed::Drop, Plan { reorder: 9, ..Plan::new(1) });
    let region = region(&pair, 8);
    let at = region.remote();
    let mut parts = 0..20;
    let post = |number: usize, buf| match number {
        5 => Err(Rejected { value: buf, error: PostError::UnknownPeer }),
        _ => pair.alice.write(pair.to_bob, &at, (number * PART) as u64, buf),
    };
    let outcome = block_on(&bounded(&pair.driver), transfer(&pair.driver, Window::<3>, parts.by_ref().map(part), post));
    let failed = Failed { part: 5, error: Error::Post(PostError::UnknownPeer), key: None };
    assert_eq!(outcome, Outcome { parts: 5, bytes: 5 * PART as u64, failed: Some(failed) });
    assert_eq!(outcome.result(), Err(Error::Post(PostError::UnknownPeer)));
    assert_eq!((arrived(&region, 5), parts.next()), (5, Some(6)));
    assert!(failed.to_string().starts_with("part 5: not posted: "));
}

#[test]
fn queue_that_fails_ends_the_transfer() {
    for seed in 0..20 {
        let plan = Plan { overrun: Every::About(10), reorder: 3, ..Plan::new(seed) };
        let (outcome, posted, ..) = transferred::<4>(plan, 16, 1000);
        let failed = outcome.failed.unwrap();
        match (failed.error, failed.key) {
            (Error::Queue(CqError::Queue(_)), Some(_)) | (Error::Post(_), None) => {}
            other => panic!("seed {seed}: {other:?}"),
        }
        assert!(posted < 1000 && outcome.parts < posted + 1);
    }
}

#[test]
fn transfer_that_is_dropped_gives_its_operations_up() {
    let pair = Pair::with(16, Unclaimed::Keep, Plan { reorder: 9, ..Plan::new(3) });
    let region = region(&pair, 10);
    let at = region.remote();
    let dropped = RefCell::new(Vec::new());
    {
        let each = |number, _| dropped.borrow_mut().push(number);
        let post = |number: usize, buf| pair.alice.write(pair.to_bob, &at, (number * PART) as u64, buf);
        let mut transfer = pin!(transfer_each(&pair.driver, Window::<4>, (0..10).map(part), post, each));
        let waits = poll_fn(|cx| Poll::Ready(transfer.as_mut().poll(cx).is_pending()));
        assert!(block_on(&Idle::default(), waits));
    }
    let drive = bounded(&pair.driver);
    let mut kept = Vec::new();
    while kept.len() < 4 {
        drive.turn(8);
        kept.extend(std::iter::from_fn(|| pair.driver.take_unclaimed()));
    }
    assert!(dropped.borrow().is_empty());
    assert_eq!(arrived(&region, 10), 4);
    let mut bufs: Vec<_> = kept.into_iter().map(loom_core::Done::into_buf).collect();
    bufs.sort();
    let mut parts: Vec<_> = (0..4).map(part).collect();
    parts.sort();
    assert_eq!(bufs, parts);
}

#[test]
fn queue_that_stops_for_now_keeps_the_operation_that_is_named_and_no_other() {
    let pair = Pair::with(32, Unclaimed::Drop, Plan { reorder: 9, ..Plan::new(1) });
    let region = region(&pair, 1);
    let at = region.remote();
    let post = |_, buf| pair.alice.write_data(pair.to_bob, &at, 0, ImmediateData(7), buf);
    let parts = std::iter::repeat_with(|| part(0)).take(1000);
    let outcome = block_on(&bounded(&pair.driver), transfer(&pair.driver, Window::<8>, parts, post));
    let Some(Failed { error: Error::Queue(CqError::PeerEvents), key: Some(key), .. }) = outcome.failed else {
        panic!("{outcome:?}")
    };
    for _ in 0..64 {
        assert!(block_on(&bounded(&pair.driver), pair.driver.next_event()).is_ok());
    }
    assert!(block_on(&bounded(&pair.driver), pair.driver.finish(key)).unwrap().result().is_ok());
    for _ in 0..100 {
        pair.driver.turn(8);
    }
    let receives = std::iter::repeat_with(|| pair.bob.recv(Source::Any, vec![])).take_while(Result::is_ok);
    assert_eq!(receives.count(), 32, "every place of the queue is free");
}

#[test]
fn transfer_with_immediate_completions_yields_to_other_tasks() {
    let pair = Pair::open(16);
    let region = region(&pair, 1);
    let at = region.remote();
    let (parts, is_over, turns) = (4096, Cell::new(false), Cell::new(0));
    let writes = async {
        let post = |_, buf| pair.alice.write(pair.to_bob, &at, 0, buf);
        let bufs = std::iter::repeat_with(|| part(0)).take(parts);
        assert_eq!(transfer(&pair.driver, Window::<8>, bufs, post).await.parts, parts);
        is_over.set(true);
    };
    let other = async {
        while !is_over.get() {
            turns.set(turns.get() + 1);
            crate::common::next_round().await;
        }
    };
    block_on(&bounded(&pair.driver), futures_util::future::join(writes, other));
    assert!(turns.get() > 20, "{} turns beside {parts} writes", turns.get());
}
