use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use crate::common::{Boxed, Pair, bounded, next_round};
use futures_core::Stream;
use futures_core::stream::FusedStream;
use loom_async::stream::{events, unclaimed};
use loom_async::{LocalExecutor, block_on};
use loom_core::cq::CqError;
use loom_core::driver::Unclaimed;
use loom_core::soft::{Every, Plan};
use loom_core::{Access, Completion, ImmediateData, Mr, Source, Tag};

fn next<S: Stream>(stream: Pin<&mut S>) -> impl Future<Output = Option<S::Item>> {
    let mut stream = stream;
    poll_fn(move |cx| stream.as_mut().poll_next(cx))
}

#[test]
fn writes_with_immediate_data_come_as_a_stream_in_order() {
    const WRITES: u64 = 300;
    let Pair { domain, alice, to_bob, driver, .. } = &Pair::open(8);
    let region = Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let at = region.remote();
    let executor = LocalExecutor::<Boxed<'_>>::new(1).unwrap();
    executor
        .spawn(Box::pin(async {
            for number in 0..WRITES {
                let data = ImmediateData(number);
                let written = driver.run(vec![1; 8], |buf| alice.write_data(*to_bob, &at, 0, data, buf)).await;
                written.unwrap().result().unwrap();
            }
        }))
        .unwrap();
    executor.run_until(&bounded(driver), async {
        let mut events = pin!(events(driver));
        for number in 0..WRITES {
            match next(events.as_mut()).await {
                Some(Ok(Completion::Remote(event))) => assert_eq!(event.data(), Some(ImmediateData(number))),
                other => panic!("{other:?}"),
            }
        }
        assert!(!events.is_terminated());
    });
}

#[test]
fn operations_that_were_given_up_come_as_a_stream_with_their_buffers() {
    let Pair { alice, bob, to_bob, driver, .. } = &Pair::with(8, Unclaimed::Keep, Plan::new(1));
    block_on(&bounded(driver), async {
        for byte in 1..=3u8 {
            let mut given_up = pin!(driver.run(vec![0], |room| bob.tagged_recv(Source::Any, Tag(byte.into()), room)));
            let waits = poll_fn(|cx| Poll::Ready(given_up.as_mut().poll(cx).is_pending())).await;
            assert!(waits);
        }
        let mut unclaimed = pin!(unclaimed(driver));
        for byte in [2u8, 1, 3] {
            let sent = driver.run(vec![byte], |message| alice.tagged_send(*to_bob, Tag(byte.into()), message)).await;
            sent.unwrap().result().unwrap();
            assert_eq!(next(unclaimed.as_mut()).await.unwrap().unwrap().into_buf(), [byte]);
        }
        let waits = poll_fn(|cx| Poll::Ready(unclaimed.as_mut().poll_next(cx).is_pending())).await;
        assert!(waits, "there are no more");
    });
}

#[test]
fn error_of_the_queue_is_the_last_item() {
    let Pair { alice, bob, to_bob, driver, .. } =
        &Pair::with(8, Unclaimed::Keep, Plan { overrun: Every::Nth(2), ..Plan::new(1) });
    let executor = LocalExecutor::<Boxed<'_>>::new(1).unwrap();
    executor
        .spawn(Box::pin(async {
            loop {
                let _ = driver.post(vec![0], |room| bob.recv(Source::Any, room)).await;
                let _ = driver.post(vec![0], |message| alice.send(*to_bob, message)).await;
                next_round().await;
            }
        }))
        .unwrap();
    executor.run_until(&bounded(driver), async {
        let (mut events, mut unclaimed) = (pin!(events(driver)), pin!(unclaimed(driver)));
        assert!(matches!(next(events.as_mut()).await, Some(Err(CqError::Queue(_)))));
        assert!(events.is_terminated() && next(events.as_mut()).await.is_none());
        assert!(matches!(next(unclaimed.as_mut()).await, Some(Err(CqError::Queue(_)))));
        assert!(next(unclaimed.as_mut()).await.is_none());
    });
}
