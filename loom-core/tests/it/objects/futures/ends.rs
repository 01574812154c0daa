//! Unrequested ends: endpoints that close, peers that are killed, queues that fail.

use loom_core::cq::CqError;
use loom_core::driver::{RunError, Unclaimed};
use loom_core::soft::{Every, Plan};
use loom_core::{Access, Completion, CqAttr, Errno, ImmediateData, Mr, Source, Tag};

use crate::executor::{Task, block_on, poll_once, run};
use crate::objects::futures::{ATTR, Pair};

#[test]
fn operations_of_an_endpoint_that_closes_end_their_futures() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = pair;
    let received = bob.recv(Source::Any, vec![0; 4]).unwrap();
    let peeked = bob.tagged_peek(Source::Any, Tag(1)).unwrap();
    let waits = Task::new(async {
        let (buf, result) = driver.finish(received).await.unwrap().into_parts();
        assert_eq!((buf.len(), result.unwrap_err().errno), (4, Errno::ECANCELED));
    });
    let looks = Task::new(async {
        // Answered before the close or ended by it, and reported in both cases.
        match driver.finish_peek(peeked).await {
            Ok(peek) => assert!(peek.message().unwrap().is_none()),
            Err(error) => assert_eq!(error, CqError::UnknownKey),
        }
    });
    let mut tasks = [waits, looks];
    tasks.iter_mut().for_each(|task| assert!(task.run()));
    drop(bob);
    run(&driver, tasks);
    let sent = block_on(&driver, driver.run(vec![1; 4], |message| alice.send(to_bob, message)));
    match sent {
        Ok(done) => assert!(done.result().is_err()),
        Err(RunError::Rejected(rejected)) => assert_eq!(rejected.value.len(), 4),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn queue_that_fails_ends_every_wait_with_its_error() {
    let plan = Plan { overrun: Every::Nth(3), ..Plan::new(1) };
    let pair = Pair::<Vec<u8>>::with(ATTR, CqAttr::new(8), Unclaimed::Drop, Some(plan));
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let errors = std::cell::Cell::new(0);
    let waits = (0..3).map(|_| {
        let (received, errors) = (bob.recv(Source::Any, vec![0]).unwrap(), &errors);
        Task::new(async move {
            // Completions from before the failure are reported.
            if let Err(error) = driver.finish(received).await {
                assert_eq!(error, CqError::Queue(Errno::EOVERRUN));
                errors.set(errors.get() + 1);
            }
        })
    });
    let event = Task::new(async { assert!(driver.next_event().await.is_err()) });
    let sends = Task::new(async {
        for _ in 0..100 {
            match driver.run(vec![1; 100], |message| alice.send(*to_bob, message)).await {
                Ok(_) => {}
                Err(RunError::Queue { error, .. }) => assert_eq!(error, CqError::Queue(Errno::EOVERRUN)),
                Err(RunError::Rejected(rejected)) => {
                    assert!(rejected.error.is_transient());
                    return;
                }
            }
        }
        panic!("it is told at some time");
    });
    run(driver, waits.chain([event, sends]));
    assert!((1..3).contains(&errors.get()), "of those who wait, some were told before: {}", errors.get());
}

#[test]
fn polling_a_future_after_its_end_returns_an_error() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    alice.inject(*to_bob, &[1]).unwrap();
    let mut received = Box::pin(driver.run(vec![0], |room| bob.recv(Source::Any, room)));
    let done = loop {
        match poll_once(&mut received) {
            core::task::Poll::Ready(done) => break done.unwrap(),
            core::task::Poll::Pending => loom_core::driver::Drive::turn(driver, 1),
        };
    };
    assert_eq!(done.into_buf(), [1]);
    assert!(matches!(poll_once(&mut received), core::task::Poll::Ready(Err(RunError::Queue { .. }))));
}

#[test]
fn events_found_when_an_endpoint_closes_are_reported() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, cq, av, domain, .. } = pair;
    let mut peek = driver.finish_peek(bob.tagged_peek(Source::Any, Tag(1)).unwrap());
    let mut looks = Task::new(async { assert!((&mut peek).await.unwrap().message().unwrap().is_none()) });
    assert!(looks.run());
    // Its answer is found, and its slot is reused before the answer is reported.
    drop(cq.endpoint(&av).unwrap());
    let received = bob.recv(Source::Any, vec![0]).unwrap();
    let mut waits = Task::new(async { assert_eq!(driver.finish(received).await.unwrap().into_buf(), [9]) });
    assert!(waits.run());
    run(&driver, [looks]);
    alice.inject(to_bob, &[9]).unwrap();
    run(&driver, [waits]);

    let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let mut event = Task::new(async {
        assert!(matches!(driver.next_event().await.unwrap(), Completion::Remote(_)));
    });
    assert!(event.run());
    alice.inject_write_data(to_bob, &region.remote(), 0, ImmediateData(1), &[1; 8]).unwrap();
    drop(cq.endpoint(&av).unwrap());
    run(&driver, [event]);
}
