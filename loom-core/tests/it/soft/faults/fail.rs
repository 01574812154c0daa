//! Operations reported as failed, whether done or not.

use loom_core::completion::Completion;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::CqError;
use loom_core::deadline::Spins;
use loom_core::endpoint::{Binding, Source};
use loom_core::mr::Mr;
use loom_core::soft::{Every, Network, NetworkAttr, Plan};
use loom_core::vocabulary::{Access, Counted, Errno, Tag, TagMatch};
use loom_core::{Av, Cq, CqAttr, Domain};

use crate::soft::faults::{LONG, bytes, end, next, under};

#[test]
fn every_third_operation_is_done_and_reported_as_failed() {
    under(Plan { fail: Every::Nth(3), ..Plan::new(1) }, |world| {
        for round in 0..12 {
            let received = world.b.recv(Source::Any, bytes(0, LONG)).unwrap();
            let len = if round % 2 == 0 { LONG } else { 8 };
            let sent = world.a.send(world.to_b, bytes(round, len)).unwrap();
            let (buf, result) = end(world.b.cq(), received);
            assert_eq!(buf[..result.unwrap().len], bytes(round, len)[..], "it has arrived");
            let (buf, result) = end(world.a.cq(), sent);
            assert_eq!(buf, bytes(round, len), "the buffer comes back");
            match result {
                Ok(transfer) => assert!(transfer.len == len && round % 3 != 2),
                Err(error) => {
                    assert_eq!((error.errno, error.len, error.overflow, round % 3), (Errno::EIO, Some(len), None, 2));
                    assert!(!world.a.cq().error_text(&error).as_str().is_empty());
                }
            }
        }
        assert_eq!(world.injected().failed, 4);
    });
}

#[test]
fn a_receive_that_fails_has_its_bytes() {
    under(Plan { fail: Every::Nth(1), ..Plan::new(1) }, |world| {
        for len in [0, 8, LONG] {
            let received = world.a.recv(Source::Any, bytes(0, LONG + 1)).unwrap();
            let sent = world.b.send(world.to_a, bytes(2, len)).unwrap();
            let (buf, result) = end(world.a.cq(), received);
            let error = result.unwrap_err();
            assert_eq!((error.errno, error.len.unwrap_or(0), error.overflow), (Errno::EIO, len, None));
            assert_eq!(buf[..len], bytes(2, len)[..]);
            assert!(end(world.b.cq(), sent).1.is_ok());
        }
        // An operation with an error of its own keeps this error.
        let received = world.a.recv(Source::Any, bytes(0, 3)).unwrap();
        world.b.inject(world.to_a, &[1; 5]).unwrap();
        let error = end(world.a.cq(), received).1.unwrap_err();
        assert_eq!((error.errno, error.len, error.overflow), (Errno::ETRUNC, Some(3), Some(2)));
    });
}

#[test]
fn pieces_of_a_buffer_fail_one_by_one() {
    for tagged in [false, true] {
        pieces_fail_one_by_one(tagged);
    }
}

fn pieces_fail_one_by_one(tagged: bool) {
    under(Plan { fail: Every::Nth(2), ..Plan::new(1) }, |world| {
        let key = match tagged {
            true => world.a.tagged_multi_recv(Source::Any, TagMatch::ANY, bytes(0, 350)),
            false => world.a.multi_recv(Source::Any, bytes(0, 350)),
        }
        .unwrap();
        let mut results = Vec::new();
        for seed in 0..6 {
            match tagged {
                true => world.b.tagged_inject(world.to_a, Tag(seed as u64), &bytes(seed, 50)).unwrap(),
                false => world.b.inject(world.to_a, &bytes(seed, 50)).unwrap(),
            }
            let told = (0..10).find_map(|_| world.a.cq().poll().unwrap());
            let Some(Completion::Piece(piece)) = told else { panic!("{told:?}") };
            assert_eq!(piece.key(), key);
            results.push(piece.result().map(|transfer| transfer.len).map_err(|error| (error.errno, error.overflow)));
            assert!(piece.result().is_err() || piece.bytes() == &bytes(seed, 50)[..]);
        }
        let failed = Err((Errno::EIO, None));
        assert_eq!(results, [Ok(50), failed, Ok(50), failed, Ok(50), failed]);
        // The rest of the buffer is too small for the next message.
        let (buf, result) = end(world.a.cq(), key);
        assert_eq!((buf.len(), result.unwrap().len), (350, 0));
    });
}

#[test]
fn failures_are_counted_as_failures() {
    under(Plan { fail: Every::Nth(2), ..Plan::new(1) }, |world| {
        let counter = Counter::open(&world.domain, CounterAttr::default()).unwrap();
        let av = loom_core::av::Av::open(&world.domain, 2).unwrap();
        let cq = crate::soft::faults::Queue::open(&world.domain, 16).unwrap();
        let d = cq.endpoint(Binding::to(&av).counter(Counted::SEND, &counter)).unwrap();
        let to_b = av.insert(&world.b.address().unwrap()).unwrap();
        for _ in 0..10 {
            let _ = end(&cq, d.send(to_b, bytes(1, 8)).unwrap());
        }
        assert_eq!((counter.read(), counter.read_error()), (5, 5));
    });
}

#[test]
fn lost_operations_have_no_effect() {
    under(Plan { lose: Every::Nth(2), ..Plan::new(1) }, |world| {
        let region = Mr::open(&world.domain, vec![0; 4].into_boxed_slice(), Access::REMOTE_WRITE).unwrap();
        for at in 0..4 {
            let written = world.a.write(world.to_b, &region.remote(), at, vec![9].into()).unwrap();
            let (buf, result) = end(world.a.cq(), written);
            assert_eq!(buf[..], [9], "the buffer comes back");
            if at % 2 == 1 {
                let error = result.unwrap_err();
                assert_eq!((error.errno, error.len), (Errno::ECONNABORTED, None));
            }
        }
        assert_eq!(region.close().unwrap()[..], [9, 0, 9, 0]);
        for _ in 0..4 {
            world.b.recv(Source::Any, bytes(0, LONG)).unwrap();
        }
        for seed in 0..8 {
            let sent = world.a.send(world.to_b, bytes(seed, LONG)).unwrap();
            let arrived = next(world.b.cq(), 10);
            assert_eq!(arrived.is_some(), seed % 2 == 0, "message {seed}");
            if let Some(done) = arrived {
                assert_eq!(done.into_buf(), bytes(seed, LONG));
            }
            let (buf, result) = end(world.a.cq(), sent);
            assert_eq!((buf, result.is_ok()), (bytes(seed, LONG), seed % 2 == 0));
        }
        // Injected messages are not lost, because their failure would not be reported.
        world.b.recv(Source::Any, bytes(0, LONG)).unwrap();
        world.b.recv(Source::Any, bytes(0, LONG)).unwrap();
        world.a.inject(world.to_b, &[1]).unwrap();
        world.a.inject(world.to_b, &[2]).unwrap();
        assert!(next(world.b.cq(), 10).is_some() && next(world.b.cq(), 10).is_some());
        assert_eq!(world.injected().lost, 6);
    });
}

#[test]
fn waiting_for_a_counter_reports_failures() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&network.info_with_faults(Plan { fail: Every::Nth(3), ..Plan::new(1) })).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(8)).unwrap();
    let received = Counter::open(&domain, CounterAttr::default()).unwrap();
    let b = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received)).unwrap();
    let sound = network.info();
    let a = cq.endpoint(Binding::to(&av).info(sound.clone())).unwrap();
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    for number in 1..=3 {
        b.recv(Source::Any, vec![0; 8]).unwrap();
        assert_eq!(cq.wait_counter(&received, number, Spins(10)), Ok(false));
        a.send(to_b, vec![1; 8]).unwrap();
        let expected = if number < 3 { Ok(true) } else { Err(CqError::CountedFailure) };
        assert_eq!(cq.wait_counter(&received, number, Spins(100)), expected);
    }
}
