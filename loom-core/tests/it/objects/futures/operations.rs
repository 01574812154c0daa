//! Each kind of operation, awaited.

use loom_core::atomic::FetchOp;
use loom_core::driver::{AwaitedArrivals, CounterDriver, Unclaimed};
use loom_core::{Access, TagMatch};
use loom_core::{Binding, Completion, Counted, Counter, CounterAttr, ImmediateData, Mr, Source, Tag};

use crate::executor::{Task, block_on, run};
use crate::objects::futures::Pair;

#[test]
fn messages_arrive() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_alice, to_bob, .. } = &pair;
    let server = async {
        for number in 0..100 {
            let done = driver.run(vec![0; 200], |room| bob.recv(Source::Any, room)).await.unwrap();
            let (mut message, result) = done.into_parts();
            assert_eq!(result.unwrap().len, 1 + number);
            message.truncate(1 + number);
            driver.run(message, |message| bob.send(*to_alice, message)).await.unwrap().result().unwrap();
        }
    };
    let client = async {
        for number in 0..100_u8 {
            let answered = driver.post(vec![0; 200], |room| alice.recv(Source::Any, room)).await.unwrap();
            let message = vec![number; 1 + usize::from(number)];
            driver.run(message.clone(), |message| alice.send(*to_bob, message)).await.unwrap().result().unwrap();
            let (answer, result) = driver.finish(answered).await.unwrap().into_parts();
            assert_eq!(answer[..result.unwrap().len], message);
        }
    };
    run(driver, [Task::new(server), Task::new(client)]);
    assert_eq!(pair.cq.in_flight(), 0);
}

#[test]
fn tagged_messages_and_peeks_are_awaited() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    block_on(driver, async {
        driver.retry(|| alice.tagged_inject(*to_bob, Tag(7), b"seven")).await.unwrap();
        let found = loop {
            let peeked = driver.retry(|| bob.tagged_peek(Source::Any, TagMatch::exact(Tag(7)))).await.unwrap();
            if let Some(found) = driver.finish_peek(peeked).await.unwrap().message().unwrap() {
                break found;
            }
        };
        assert_eq!((found.len, found.tag), (5, Tag(7)));
        let peeked = driver.retry(|| bob.tagged_peek(Source::Any, Tag(8))).await.unwrap();
        assert!(driver.finish_peek(peeked).await.unwrap().message().unwrap().is_none());
        let done = driver.run(vec![0; 5], |room| bob.tagged_recv(Source::Any, Tag(7), room)).await.unwrap();
        assert_eq!(done.into_buf(), b"seven");
    });
}

#[test]
fn memory_of_peers_is_read_and_written_and_counted_in() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, to_bob, domain, .. } = &pair;
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let region = Mr::open(domain, vec![0; 64], access).unwrap();
    let remote = region.remote();
    block_on(driver, async {
        let data = ImmediateData(0x1234);
        let written = driver.run(vec![9; 16], |bytes| alice.write_data(*to_bob, &remote, 8, data, bytes));
        written.await.unwrap().result().unwrap();
        let Completion::Remote(event) = driver.next_event().await.unwrap() else { panic!("it is told of the write") };
        assert_eq!(event.data(), Some(data));
        let read = driver.run(vec![0; 18], |bytes| alice.read(*to_bob, &remote, 7, bytes)).await.unwrap();
        assert_eq!(read.into_buf(), [&[0][..], &[9; 16], &[0]].concat());
        let add = domain.query_atomic(FetchOp::<u64>::SUM).unwrap();
        for before in [0, 5] {
            let key = driver.retry(|| alice.fetch_value(*to_bob, &remote, 0, add, 5)).await.unwrap();
            assert_eq!(driver.finish_value(key).await.unwrap().value::<u64>().unwrap(), Some(before));
        }
    });
}

#[test]
fn counter_is_waited_for_by_several() {
    let pair = Pair::<Vec<u8>>::open(32, Unclaimed::Drop);
    let Pair { driver, alice, cq, av, domain, .. } = &pair;
    let counter = Counter::open(domain, CounterAttr::default()).unwrap();
    let carol = cq.endpoint(Binding::to(av).counter(Counted::RECV, &counter)).unwrap();
    let to_carol = av.insert(&carol.address().unwrap()).unwrap();
    let counted = CounterDriver::open(&counter).unwrap();
    let waits = [3, 1, 9].map(|threshold| {
        let counted = &counted;
        Task::new(async move {
            let reached = counted.reached(threshold).await.unwrap();
            assert!((threshold..=9).contains(&reached));
        })
    });
    let sends = Task::new(async {
        for number in 0..9 {
            let received = driver.post(vec![0; 3], |room| carol.recv(Source::Any, room)).await.unwrap();
            driver.run(vec![number; 3], |message| alice.send(to_carol, message)).await.unwrap().result().unwrap();
            assert_eq!(driver.finish(received).await.unwrap().into_buf(), [number; 3]);
        }
    });
    run(&(driver, &counted), waits.into_iter().chain([sends]));
    assert_eq!(counter.read(), 9);
}

#[test]
fn pieces_of_a_multi_receive_are_events_and_its_end_is_awaited() {
    let pair = Pair::<Vec<u8>>::open(8, Unclaimed::Drop);
    let Pair { driver, alice, bob, to_bob, .. } = &pair;
    let filled = bob.multi_recv(Source::Any, vec![0; 128]).unwrap();
    // After the fifth message the room is too small for another.
    let over = std::cell::Cell::new(false);
    let kept = std::cell::RefCell::new(Vec::new());
    let takes = Task::new(async {
        for number in 0..5 {
            let Completion::Piece(piece) = driver.next_event().await.unwrap() else { panic!("no other event") };
            assert_eq!(piece.bytes(), [number; 16]);
            kept.borrow_mut().push(piece);
        }
        // The last piece wakes the waiter for the end.
        assert!(!over.get());
        kept.borrow_mut().clear();
    });
    let sends = Task::new(async {
        for number in 0..5 {
            driver.run(vec![number; 16], |message| alice.send(*to_bob, message)).await.unwrap().result().unwrap();
        }
    });
    let ends = Task::new(async {
        assert_eq!(driver.finish(filled).await.unwrap().into_buf().len(), 128);
        over.set(true);
    });
    run(driver, [ends, takes, sends]);
}

#[test]
fn immediate_data_is_waited_for_by_several_each_for_a_total_of_its_own() {
    let pair = Pair::<Vec<u8>>::open(32, Unclaimed::Drop);
    let Pair { driver, alice, to_bob, domain, .. } = &pair;
    let region = Mr::open(domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let remote = region.remote();
    let arrivals = AwaitedArrivals::open(4, 5).unwrap();
    let waits = [(1, 3), (1, 10), (2, 1), (1, 10), (3, 0)].map(|(value, threshold)| {
        let arrivals = &arrivals;
        Task::new(async move {
            let total = arrivals.reached(value, threshold).await.unwrap();
            assert!((threshold..=10).contains(&total), "{total} of {threshold}");
        })
    });
    let counts = Task::new(async {
        for _ in 0..11 {
            let Completion::Remote(event) = driver.next_event().await.unwrap() else { panic!("no other event") };
            arrivals.count(event.data().unwrap().0).unwrap();
            // A dropped waiter leaves its place.
            let mut dropped = arrivals.reached(0, 1);
            assert!(crate::executor::poll_once(&mut dropped).is_pending());
        }
    });
    let writes = Task::new(async {
        for value in core::iter::repeat_n(1, 10).chain([2]) {
            let data = ImmediateData(value);
            let written = driver.run(vec![1], |byte| alice.write_data(*to_bob, &remote, 0, data, byte)).await;
            written.unwrap().result().unwrap();
        }
    });
    run(driver, waits.into_iter().chain([counts, writes]));
    assert_eq!((arrivals.total(1), arrivals.total(2)), (Ok(10), Ok(1)));
    assert!(block_on(driver, arrivals.reached(4, 1)).is_err(), "there is no such value");
    let full: Vec<_> = (0..6).map(|_| Box::pin(arrivals.reached(0, 9))).collect();
    let pending = full.into_iter().map(|mut it| (crate::executor::poll_once(&mut it).is_pending(), it));
    assert_eq!(pending.collect::<Vec<_>>().iter().filter(|(pending, _)| *pending).count(), 5, "no room for a sixth");
}
