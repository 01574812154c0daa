//! Closes of contexts: during operations, repeated, of forgotten contexts, and of contexts that
//! cannot be closed.

use std::sync::mpsc::channel;

use loom_core::av::{Av, AvAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::ScalableEndpoint;
use loom_core::endpoint::Source;
use loom_core::error::OpenError;
use loom_core::info::Hints;
use loom_core::scope;
use loom_core::vocabulary::{Errno, Tag};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Shared};

use crate::scalable::posting::post;
use crate::scalable::{Queue, T, end, exchange, finish, info, pattern, sockets_hints, two_of_each};

/// Length that exceeds a connection's buffers. The provider reads 512 bytes at a time, and valgrind
/// waits for its turn with each.
const LONG: usize = crate::scalable::LONG / 8;

pub(crate) fn cases() -> crate::scalable::report::Cases {
    vec![
        ("a_thread_closes_its_contexts_while_others_go_on", a_thread_closes_its_contexts_while_others_go_on),
        ("contexts_close_in_the_middle", contexts_close_in_the_middle),
        (
            "queue_with_a_context_that_cannot_be_closed_leaks_itself",
            queue_with_a_context_that_cannot_be_closed_leaks_itself,
        ),
        ("contexts_are_opened_again_and_again", contexts_are_opened_again_and_again),
        ("forgotten_contexts_are_closed_with_their_queue", forgotten_contexts_are_closed_with_their_queue),
        (
            "forgotten_contexts_are_closed_in_the_middle_of_messages",
            forgotten_contexts_are_closed_in_the_middle_of_messages,
        ),
        ("forgotten_queue_leaves_its_endpoint_open", forgotten_queue_leaves_its_endpoint_open),
    ]
}

fn a_thread_closes_its_contexts_while_others_go_on() {
    const LIVES: usize = 20;
    let info = &info::<Shared>();
    let domain = &Domain::open(info).unwrap();
    let av = &Av::open(domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let [a, b] = &[(); 2].map(|()| ScalableEndpoint::open(av, info, two_of_each()).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let (tell, hear) = channel();
    // If an endpoint's last context is closed with operations in flight, it opens no other. One
    // thread opens its contexts first.
    let open = &std::sync::Barrier::new(2);
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let cq: &Queue<'_, Shared> = &Cq::open(domain, CqAttr::new(64)).unwrap();
            let (tx, rx) = (cq.tx_context(a, 0).unwrap(), cq.rx_context(b, 0).unwrap());
            open.wait();
            let mut seed = 0;
            while hear.try_recv().is_err() {
                exchange(&tx, (to_b, 0), &rx, 64, seed);
                seed += 1;
            }
            assert!(seed > 0);
        });
        threads.spawn(move || {
            open.wait();
            for life in 0..LIVES {
                // Closes a forgotten context.
                scope(|s| {
                    let cq: &Queue<'_, Shared> = &Cq::open(&s.domain(domain), CqAttr::new(64)).unwrap();
                    let (tx, rx) = (cq.tx_context(a, 1).unwrap(), cq.rx_context(b, 1).unwrap());
                    exchange(&tx, (to_b, 1), &rx, 300, life);
                    let received: Vec<_> =
                        (0..4).map(|_| post(cq, vec![0; 300], |buf| rx.recv(Source::Any, buf))).collect();
                    let sent: Vec<_> =
                        (0..4).map(|n| post(cq, pattern(300, n), |buf| tx.send(to_b.rx_context(1), buf))).collect();
                    if life % 2 == 0 {
                        drop(tx);
                    } else {
                        std::mem::forget(tx);
                    }
                    for (n, key) in received.into_iter().enumerate() {
                        assert!(finish(cq, key).0 == pattern(300, n), "what was sent arrives");
                    }
                    for key in sent {
                        finish(cq, key);
                    }
                });
            }
            tell.send(()).unwrap();
        });
    });
}

fn contexts_close_in_the_middle() {
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
    let to = av.insert(&b.address().unwrap()).unwrap();
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(64)).unwrap();
    let rx = [0, 1].map(|index| cq.rx_context(&b, index).unwrap());
    let stays = cq.tx_context(&a, 1).unwrap();
    for round in 0..6 {
        let tx = cq.tx_context(&a, 0).unwrap();
        exchange(&tx, (to, 1), &rx[1], 64, round);
        // Sends in flight end as usual.
        let received = post(cq, vec![0; LONG], |buf| rx[1].recv(Source::Any, buf));
        let sent = post(cq, pattern(LONG, round), |buf| tx.send(to.rx_context(1), buf));
        drop(tx);
        assert!(finish(cq, received).0 == pattern(LONG, round));
        assert!(finish(cq, sent).0 == pattern(LONG, round), "the buffer comes back");
        exchange(&stays, (to, 0), &rx[0], 64, round);
    }
    // Receives return.
    let [first, second] = rx;
    let waiting = [(); 3].map(|()| post(cq, vec![0; 8], |buf| second.recv(Source::Any, buf)));
    drop(second);
    for key in waiting {
        let (buf, result) = end(cq, key);
        assert_eq!((buf.len(), result.unwrap_err().errno), (8, Errno::ECANCELED));
    }
    exchange(&stays, (to, 0), &first, LONG, 7);
    let second = cq.rx_context(&b, 1).unwrap();
    exchange(&stays, (to, 1), &second, LONG, 8);
    // The last context of an endpoint closes with any operation in flight.
    let never = post(cq, vec![1; LONG], |buf| stays.send(to.rx_context(1), buf));
    drop((first, second, stays));
    assert_eq!(end(cq, never).0.len(), LONG);
    assert!(cq.tx_context(&b, 0).is_ok(), "the other endpoint is another");
}

/// Checks that the buffer of a send that never ends stays lent, whichever object is dropped.
fn queue_with_a_context_that_cannot_be_closed_leaks_itself() {
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
    let to = av.insert(&b.address().unwrap()).unwrap();
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(16)).unwrap();
    let (_another, _rx) = (cq.tx_context(&a, 1).unwrap(), cq.rx_context(&b, 0).unwrap());
    {
        let leaks: &Queue<'_> = &Cq::open(&domain, CqAttr::new(16)).unwrap();
        let tx = leaks.tx_context(&a, 0).unwrap();
        // The peer has not opened that context.
        post(leaks, pattern(300, 1), |buf| tx.send(to.rx_context(1), buf));
    }
    assert_eq!(cq.tx_context(&a, 0).unwrap_err(), OpenError::Errno(Errno::EBUSY), "it is still open");
    let late = cq.rx_context(&b, 1).unwrap();
    let received = post(cq, vec![0; 300], |buf| late.recv(Source::Any, buf));
    assert!(finish(cq, received).0 == pattern(300, 1), "the message was waiting");
}

fn contexts_are_opened_again_and_again() {
    // Exceeds the provider's entries for operations in flight.
    const TIMES: usize = 150;
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
    let to = av.insert(&b.address().unwrap()).unwrap();
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(16)).unwrap();
    let _others = (cq.tx_context(&a, 1).unwrap(), cq.rx_context(&b, 1).unwrap());
    for time in 0..TIMES {
        let (tx, rx) = (cq.tx_context(&a, 0).unwrap(), cq.rx_context(&b, 0).unwrap());
        exchange(&tx, (to, 0), &rx, 64, time);
    }
}

fn forgotten_contexts_are_closed_with_their_queue() {
    let info = info::<Local>();
    let at = {
        let domain = Domain::open(&info).unwrap();
        let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
        let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
        let to = av.insert(&b.address().unwrap()).unwrap();
        scope(|s| {
            let cq: &Queue<'_> = &Cq::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
            let (tx, rx) = (cq.tx_context(&a, 0).unwrap(), cq.rx_context(&b, 0).unwrap());
            exchange(&tx, (to, 0), &rx, 64, 1);
            rx.recv(Source::Any, vec![0; 64]).unwrap();
            std::mem::forget((tx, rx));
            assert_eq!(cq.tx_context(&a, 0).unwrap_err(), OpenError::Errno(Errno::EBUSY), "it is still open");
        });
        // Their numbers are free again.
        let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(16)).unwrap();
        let (tx, rx) = (cq.tx_context(&a, 0).unwrap(), cq.rx_context(&b, 0).unwrap());
        exchange(&tx, (to, 0), &rx, 64, 2);
        b.address().unwrap()
    };
    // The endpoint has closed, so another one can have its address.
    let hints = Hints { node: None, listen: false, source: Some(&at), addr_format: at.format(), ..sockets_hints() };
    let info = T::query(&hints).unwrap().next().unwrap();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let again = ScalableEndpoint::open(&av, &info, two_of_each()).unwrap();
    assert_eq!(again.address().unwrap().bytes(), at.bytes());
}

fn forgotten_contexts_are_closed_in_the_middle_of_messages() {
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    for round in 0..5 {
        let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
        let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
        let to = av.insert(&b.address().unwrap()).unwrap();
        scope(|s| {
            let cq: &Queue<'_> = &Cq::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
            let tx = [0, 1].map(|index| cq.tx_context(&a, index).unwrap());
            let rx = [0, 1].map(|index| cq.rx_context(&b, index).unwrap());
            exchange(&tx[0], (to, 0), &rx[0], 64, round);
            rx[1].tagged_recv(Source::Any, Tag(1), vec![0; 64]).unwrap();
            rx[0].recv(Source::Any, vec![0; LONG]).unwrap();
            post(cq, pattern(LONG, round), |buf| tx[0].send(to, buf));
            std::mem::forget((tx, rx));
        });
    }
}

fn forgotten_queue_leaves_its_endpoint_open() {
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
    let to = av.insert(&b.address().unwrap()).unwrap();
    let cq = Queue::open(&domain, CqAttr::new(16)).unwrap();
    {
        let (tx, rx) = (cq.tx_context(&a, 0).unwrap(), cq.rx_context(&b, 0).unwrap());
        exchange(&tx, (to, 0), &rx, 64, 1);
        std::mem::forget((tx, rx));
    }
    std::mem::forget(cq);
    // All objects are dropped here, in an order that closes no object below an open context.
}
