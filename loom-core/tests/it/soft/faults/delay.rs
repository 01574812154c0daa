//! Messages that arrive later.

use loom_core::completion::Completion;
use loom_core::endpoint::Source;
use loom_core::mr::Mr;
use loom_core::soft::{Every, Plan};
use loom_core::vocabulary::{Access, Errno, ImmediateData, Tag, TagMatch};

use crate::soft::faults::{LONG, World, bytes, end, next, post, under};

#[test]
fn messages_keep_the_order_of_their_sender_and_others_overtake_them() {
    let mut overtaken = false;
    for seed in 0..20 {
        under(Plan { delay: 9, ..Plan::new(seed) }, |world| {
            let to_b = world.to_b;
            for number in 0..10 {
                // Short and long messages, from two senders.
                for side in [&world.a, &world.c] {
                    let len = if number % 3 == 0 { LONG } else { 8 };
                    post(side.cq(), bytes(number, len), |buf| side.send(to_b, buf));
                }
            }
            let receives: Vec<_> = (0..20).map(|_| world.b.recv(Source::Any, bytes(0, LONG)).unwrap()).collect();
            let mut from = [Vec::new(), Vec::new()];
            let mut order = Vec::new();
            for key in receives {
                let (buf, result) = end(world.b.cq(), key);
                let transfer = result.unwrap();
                let sender = usize::from(world.a.av().peer(transfer.source.unwrap()) != Some(world.to_a));
                order.push(sender);
                from[sender].push(buf[..transfer.len].to_vec());
            }
            for messages in from {
                assert_eq!(messages.len(), 10);
                for (number, message) in messages.iter().enumerate() {
                    assert_eq!(message[..], bytes(number, message.len())[..], "seed {seed}: in turn");
                }
            }
            overtaken |= order.chunks(2).any(|pair| pair != [0, 1]);
            assert!(world.injected().delayed > 0);
        });
    }
    assert!(overtaken, "messages of two senders are on their way for different times");
}

#[test]
fn a_message_arrives_within_the_planned_number_of_polls() {
    let mut waits = Vec::new();
    for seed in 0..30 {
        under(Plan { delay: 6, ..Plan::new(seed) }, |world| {
            world.a.inject(world.to_b, &[7]).unwrap();
            world.b.recv(Source::Any, bytes(0, 8)).unwrap();
            let polls = (1..).find(|_| next(world.b.cq(), 1).is_some()).unwrap();
            waits.push(polls);
        });
    }
    waits.sort_unstable();
    assert!(waits[0] == 1 && waits[waits.len() - 1] == 7, "{waits:?}");
}

#[test]
fn a_plan_without_delays_keeps_the_order_of_messages() {
    under(Plan { fail: Every::Nth(1000), ..Plan::new(1) }, |world| {
        for senders in [[&world.a, &world.b], [&world.b, &world.a]] {
            for (number, sender) in (1..).zip(senders) {
                sender.inject(world.to_b, &[number]).unwrap();
            }
            for number in 1..=2 {
                let key = world.b.recv(Source::Any, bytes(0, 8)).unwrap();
                assert_eq!(end(world.b.cq(), key).0[0], number, "in the order in which they were sent");
            }
        }
    });
}

#[test]
fn sent_message_arrives_after_its_sender_has_closed() {
    under(Plan { delay: 50, ..Plan::new(3) }, |world| {
        world.b.recv(Source::Any, bytes(0, 8)).unwrap();
        let d = world.a.cq().endpoint(world.a.av()).unwrap();
        d.inject(world.to_b, &[7]).unwrap();
        drop(d);
        let done = next(world.b.cq(), 100).expect("it is on its way");
        assert_eq!(done.result().unwrap().len, 1);
    });
}

#[test]
fn an_offer_that_is_taken_back_on_its_way_never_arrives() {
    under(Plan { delay: 20, ..Plan::new(3) }, |world| {
        world.b.recv(Source::Any, bytes(0, LONG)).unwrap();
        let key = world.a.send(world.to_b, bytes(1, LONG)).unwrap();
        world.a.cancel(key).unwrap();
        let (buf, result) = end(world.a.cq(), key);
        assert_eq!((buf, result.unwrap_err().errno), (bytes(1, LONG), Errno::ECANCELED));
        drop(end(world.a.cq(), world.a.send(world.to_a, bytes(1, 8)).unwrap()));
        assert!(next(world.b.cq(), 100).is_none());
        // Its cell is free again, so every cell can be used.
        for _ in 0..crate::soft::faults::ATTR.tx_depth - 1 {
            world.a.inject(world.to_b, &[1]).unwrap();
        }
    });
}

#[test]
fn a_receiver_that_closes_refuses_messages_in_flight() {
    under(Plan { delay: 50, ..Plan::new(3) }, |world| {
        let d = world.b.cq().endpoint(world.b.av()).unwrap();
        let to_d = world.a.av().insert(&d.address().unwrap()).unwrap();
        let offered = world.a.send(to_d, bytes(1, LONG)).unwrap();
        world.a.inject(to_d, &[1]).unwrap();
        // One message has arrived, and one has not.
        assert!(world.b.cq().poll().unwrap().is_none());
        let late = world.a.send(to_d, bytes(2, LONG)).unwrap();
        drop(d);
        for (seed, key) in [(1, offered), (2, late)] {
            let (buf, result) = end(world.a.cq(), key);
            assert_eq!((buf, result.unwrap_err().errno), (bytes(seed, LONG), Errno::ECONNRESET));
        }
        // Another endpoint gets the port, and does not receive these messages.
        let d = world.b.cq().endpoint(world.b.av()).unwrap();
        d.recv(Source::Any, bytes(0, LONG)).unwrap();
        world.quiet(100);
        for _ in 0..crate::soft::faults::ATTR.tx_depth {
            world.a.inject(world.to_b, &[1]).unwrap();
        }
    });
}

#[test]
fn the_news_of_a_write_stays_between_messages() {
    under(Plan { delay: 9, ..Plan::new(3) }, |world| {
        let region = Mr::open(&world.domain, bytes(0, 64), Access::REMOTE_WRITE).unwrap();
        let World { a, b, to_b, .. } = world;
        let peeked = |tag| {
            b.tagged_peek(Source::Any, TagMatch::exact(Tag(tag))).unwrap();
            let Some(Completion::Peek(peek)) = b.cq().poll().unwrap() else { panic!("an answer") };
            peek.message().unwrap().is_some()
        };
        a.tagged_inject(*to_b, Tag(1), &[1]).unwrap();
        a.inject_write_data(*to_b, &region.remote(), 0, ImmediateData(5), &[9]).unwrap();
        a.tagged_inject(*to_b, Tag(2), &[2]).unwrap();
        let mut told = false;
        for _ in 0..100 {
            match b.cq().poll().unwrap() {
                None => assert!(told || !peeked(2), "the later message is not there before the news"),
                Some(Completion::Remote(event)) => {
                    assert_eq!(event.data(), Some(ImmediateData(5)));
                    assert!(peeked(1), "the earlier message is there");
                    told = true;
                }
                Some(other) => panic!("{other:?}"),
            }
        }
        assert!(told && peeked(2));
    });
}
