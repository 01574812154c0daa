//! Multi-receives of the software transport. For any order of messages and buffers, every message
//! arrives once, in its sender's order, and no place in a queue is lost. With and without tags.

use std::collections::VecDeque;

use loom_core::av::Av;
use loom_core::completion::{Completion, Piece};
use loom_core::cq::{Cq, CqAttr, PEER_EVENTS};
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{EndpointOption, Errno, ImmediateData, Tag, TagMatch};

type Bytes = Box<[u8]>;

const EAGER: u32 = 64;
const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 3, tx_depth: 256, rx_depth: 8, eager_size: EAGER, regions: 0, ..NetworkAttr::DEFAULT };
const DEPTH: usize = 8;
/// Places for events in the receiver's queue.
const PLACES: usize = DEPTH + PEER_EVENTS;

/// Knuth's linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Message of a sender with this number. Its bytes depend on sender, number and position.
fn message(sender: usize, number: usize, len: usize) -> Bytes {
    (0..len).map(|at| u8::try_from((sender * 101 + number * 7 + at) % 256).unwrap()).collect()
}

struct World {
    receiver: Endpoint<'static, Soft<'static>, Bytes>,
    rx: Cq<'static, Soft<'static>, Bytes>,
    tx: Cq<'static, Soft<'static>, Bytes>,
    senders: [Endpoint<'static, Soft<'static>, Bytes>; 2],
    to: Peer,
    from: [Peer; 2],
    av: Av<'static, Soft<'static>>,
    tagged: bool,
}

fn with_world(min: usize, mut test: impl FnMut(&World)) {
    for tagged in [false, true] {
        with_messages(tagged, min, &mut test);
    }
}

fn with_messages(tagged: bool, min: usize, test: impl FnOnce(&World)) {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 3).unwrap();
    let rx = Cq::open(&domain, CqAttr::new(DEPTH)).unwrap();
    let tx = Cq::open(&domain, CqAttr::new(1024)).unwrap();
    let receiver = rx.endpoint(Binding::to(&av).option(EndpointOption::MIN_MULTI_RECV, min)).unwrap();
    let senders = [(); 2].map(|()| tx.endpoint(&av).unwrap());
    let to = av.insert(&receiver.address().unwrap()).unwrap();
    let from = senders.each_ref().map(|sender| av.insert(&sender.address().unwrap()).unwrap());
    test(&World { receiver, rx, tx, senders, to, from, av, tagged });
}

impl World {
    fn send(&self, sender: usize, number: usize, len: usize) -> OpKey {
        let message = message(sender, number, len);
        if self.tagged {
            self.senders[sender].tagged_send(self.to, Tag(0xf0 | number as u64 & 0xf), message).unwrap()
        } else {
            self.senders[sender].send(self.to, message).unwrap()
        }
    }

    fn post(&self, len: usize) -> OpKey {
        let room = vec![0; len].into();
        if self.tagged {
            self.receiver.tagged_multi_recv(Source::Any, TagMatch { tag: Tag(0xf0), ignore: 0xf }, room).unwrap()
        } else {
            self.receiver.multi_recv(Source::Any, room).unwrap()
        }
    }

    fn received(&self) -> (Vec<Piece<'static, Bytes>>, Vec<(OpKey, Bytes)>) {
        let (mut pieces, mut over) = (Vec::new(), Vec::new());
        while let Some(completion) = self.rx.poll().unwrap() {
            match completion {
                Completion::Piece(piece) => pieces.push(piece),
                Completion::Op(done) => {
                    let key = done.key();
                    let (buf, result) = done.into_parts();
                    assert_eq!(result.unwrap().len, 0);
                    over.push((key, buf));
                }
                other => panic!("{other:?}"),
            }
        }
        (pieces, over)
    }
}

#[test]
fn messages_beyond_the_queues_places_wait_for_the_next_buffer() {
    with_world(1, |world| {
        for round in 0..3 {
            let many = 2 * PLACES;
            for number in 0..many {
                world.send(0, number, 3);
            }
            assert!(world.rx.poll().unwrap().is_none(), "nobody receives, and they wait at the receiver");
            let (mut seen, mut buffers) = (0, 0);
            loop {
                let key = world.post(1 << 12);
                buffers += 1;
                let (pieces, over) = world.received();
                assert!(over.is_empty(), "its pieces are held");
                for piece in &pieces {
                    assert_eq!(piece.bytes(), &message(0, seen, 3)[..], "round {round}");
                    seen += 1;
                }
                drop(pieces);
                if seen == many {
                    world.receiver.cancel(key).unwrap();
                    let Some(Completion::Op(done)) = world.rx.poll().unwrap() else { panic!("the last buffer") };
                    assert_eq!(done.result().unwrap_err().errno, Errno::ECANCELED);
                    break;
                }
                assert_eq!(world.received().1.len(), 1, "a buffer goes back when its queue is full");
                assert!(buffers <= 4, "{seen} messages in {buffers} buffers");
            }
            assert!(buffers > 1, "there are fewer places than messages");
            assert_eq!(world.rx.in_flight(), 0);
            while world.tx.poll().unwrap().is_some() {}
        }
    });
}

#[test]
fn messages_wait_in_line_while_the_queue_is_full() {
    with_world(1, |world| {
        let key = world.post(1 << 14);
        let many = 2 * PLACES;
        for number in 0..many {
            world.send(0, number, 5);
        }
        for number in 0..many {
            let Some(Completion::Piece(piece)) = world.rx.poll().unwrap() else { panic!("message {number}") };
            assert_eq!((piece.key(), piece.bytes()), (key, &message(0, number, 5)[..]));
        }
        assert!(world.rx.poll().unwrap().is_none());
    });
}

#[test]
fn whatever_is_sent_arrives_once_and_in_order() {
    const MIN: usize = 100;
    let mut truncated = 0;
    for seed in 0..40 {
        let random = &mut Random(seed);
        with_world(MIN, |world| {
            let mut sent = [(); 2].map(|()| VecDeque::new());
            let mut numbers = [0; 2];
            let mut held: Vec<(Piece<'static, Bytes>, Bytes)> = Vec::new();
            let (mut posted, mut back) = (0, 0);
            for step in 0..600 {
                match random.below(5) {
                    0 | 1 if sent.iter().all(|sent| sent.len() < 60) => {
                        let sender = random.below(2);
                        // Mostly no longer than the rest of a buffer, sometimes an offer.
                        let longest = if random.below(20) == 0 { 3 * MIN } else { MIN };
                        // The two senders use different lengths, so that a truncated message shows
                        // its sender, too.
                        let len = random.below(longest / 2) * 2 + sender;
                        world.send(sender, numbers[sender], len);
                        sent[sender].push_back((numbers[sender], len));
                        numbers[sender] += 1;
                    }
                    2 if posted - back < 4 => {
                        world.post(MIN + random.below(1000));
                        posted += 1;
                    }
                    3 => drop(held.pop()),
                    _ => {
                        let (pieces, over) = world.received();
                        back += over.len();
                        for piece in pieces {
                            let result = piece.result();
                            // The contents show the sender. Each sender's messages arrive in order.
                            let whose = sent.iter().enumerate().position(|(sender, sent)| {
                                let Some((number, len)) = sent.front().copied() else { return false };
                                match result {
                                    Ok(_) => *piece.bytes() == *message(sender, number, len),
                                    Err(error) => {
                                        error.len.zip(error.overflow).is_some_and(|(fits, rest)| fits + rest == len)
                                    }
                                }
                            });
                            let whose = whose.unwrap_or_else(|| panic!("seed {seed}, step {step}: {piece:?}"));
                            let (number, len) = sent[whose].pop_front().unwrap();
                            match result {
                                Ok(_) => held.push((piece, message(whose, number, len))),
                                Err(error) => {
                                    assert_eq!(error.errno, Errno::ETRUNC);
                                    assert!(len > MIN, "seed {seed}: what fits is not truncated");
                                    truncated += 1;
                                }
                            }
                        }
                    }
                }
                for (piece, expected) in &held {
                    assert_eq!(
                        piece.bytes(),
                        &expected[..],
                        "seed {seed}, step {step}: a piece that is held has changed"
                    );
                }
                while world.tx.poll().unwrap().is_some() {}
            }
            held.clear();
            back += world.received().1.len();
            assert!(numbers[0] + numbers[1] > 50 && back > 5, "seed {seed}: too little has happened");
        });
    }
    assert!(truncated > 20, "only {truncated} messages were too long");
}

#[test]
fn a_peek_at_a_full_queue_loses_no_message() {
    with_world(1, |world| {
        let key = world.post(1 << 14);
        let many = 3 * PLACES;
        let mut seen = 0;
        for number in 0..many / 2 {
            world.send(0, number, 5);
        }
        let Some(Completion::Piece(piece)) = world.rx.poll().unwrap() else { panic!("message 0") };
        drop(piece);
        seen += 1;
        for number in many / 2..many {
            world.send(0, number, 5);
        }
        let mut asked = 0;
        while seen < many {
            match world.receiver.tagged_peek(Source::Any, TagMatch::exact(Tag(7))) {
                Ok(_) => asked += 1,
                Err(error) => assert!(error.is_transient()),
            }
            for _ in 0..5 {
                match world.rx.poll().unwrap() {
                    Some(Completion::Piece(piece)) => {
                        assert_eq!((piece.key(), piece.bytes()), (key, &message(0, seen, 5)[..]), "message {seen}");
                        seen += 1;
                    }
                    Some(Completion::Peek(peek)) => assert!(peek.message().unwrap().is_none()),
                    None if seen == many => break,
                    other => panic!("{other:?} at {seen}"),
                }
            }
        }
        assert!(asked > 0);
    });
}

#[test]
fn offers_that_are_taken_back_leave_no_trace() {
    with_world(1, |world| {
        let key = world.post(1 << 14);
        // More rounds than places in the queue.
        for number in 0..2 * PLACES {
            let sent = world.send(0, number, EAGER as usize + 1);
            world.senders[0].cancel(sent).unwrap();
            assert!(world.rx.poll().unwrap().is_none(), "nothing has come");
            while world.tx.poll().unwrap().is_some() {}
        }
        for number in 0..2 * PLACES {
            world.send(0, number, 5);
        }
        for number in 0..2 * PLACES {
            let Some(Completion::Piece(piece)) = world.rx.poll().unwrap() else { panic!("message {number}") };
            assert_eq!((piece.key(), piece.bytes()), (key, &message(0, number, 5)[..]));
        }
    });
}

/// The oldest multi-receive that accepts a message by tag, mask and source takes it.
#[test]
fn tags_masks_and_sources_decide_which_buffer_is_filled() {
    with_messages(true, 1, |world| {
        let two = world.from[1];
        let masked = TagMatch { tag: Tag(0x100), ignore: 0xff };
        let post =
            |from: Source, tag: TagMatch| world.receiver.tagged_multi_recv(from, tag, vec![0; 100].into()).unwrap();
        let exact = post(Source::Any, Tag(0x105).into());
        let of_two = post(two.into(), masked);
        let any = post(Source::Any, masked);
        let plain = world.receiver.recv(Source::Any, vec![0; 8].into()).unwrap();
        let send = |sender: usize, tag| {
            let (data, bytes) = (ImmediateData(tag + 1), message(sender, usize::try_from(tag).unwrap(), 3));
            world.senders[sender].tagged_send_data(world.to, Tag(tag), data, bytes).unwrap();
        };
        for (sender, tag) in [(0, 0x105), (1, 0x106), (0, 0x106), (1, 0x105), (0, 0x1ff), (1, 0x200)] {
            send(sender, tag);
        }
        let (pieces, over) = world.received();
        let told: Vec<_> = pieces
            .iter()
            .map(|piece| {
                let transfer = piece.result().unwrap();
                let (tag, peer) = (transfer.tag.unwrap(), world.av.peer(transfer.source.unwrap()));
                let sender = world.from.iter().position(|from| Some(*from) == peer).unwrap();
                assert_eq!(transfer.data, Some(ImmediateData(tag.0 + 1)));
                assert_eq!(piece.bytes(), &message(sender, usize::try_from(tag.0).unwrap(), 3)[..]);
                (piece.key(), sender, tag.0)
            })
            .collect();
        let expected = [(exact, 0, 0x105), (of_two, 1, 0x106), (any, 0, 0x106), (exact, 1, 0x105), (any, 0, 0x1ff)];
        assert_eq!((told, over.len()), (expected.to_vec(), 0));
        drop(pieces);
        // The unaccepted message waits, and the plain receive is still posted.
        let last = world.receiver.tagged_recv(Source::Any, Tag(0x200), vec![0; 8].into()).unwrap();
        assert!(matches!(world.rx.poll().unwrap(), Some(Completion::Op(done)) if done.key() == last));
        for key in [plain, exact, of_two, any] {
            world.receiver.cancel(key).unwrap();
            let Some(Completion::Op(done)) = world.rx.poll().unwrap() else { panic!("the end of {key:?}") };
            assert_eq!((done.key(), done.result().unwrap_err().errno), (key, Errno::ECANCELED));
        }
    });
}

/// A claimed message belongs to its claim. A multi-receive that accepts it takes the messages
/// behind it.
#[test]
fn a_claimed_message_takes_no_room_from_a_multi_receive() {
    with_messages(true, 1, |world| {
        for fetched in [true, false] {
            for number in 0..3 {
                world.send(0, number, 10);
            }
            let peek = world.receiver.tagged_peek_claim(Source::Any, Tag(0xf1)).unwrap();
            let Some(Completion::Peek(answer)) = world.rx.poll().unwrap() else { panic!("an answer") };
            assert_eq!(answer.key, peek);
            let found = answer.message().unwrap().expect("it is there");
            let claim = found.claim.expect("it is claimed");
            // Room for exactly two messages.
            let key = world.post(20);
            let (pieces, over) = world.received();
            let numbers: Vec<_> = pieces.iter().map(|piece| piece.result().unwrap().tag.unwrap().0 & 0xf).collect();
            assert_eq!((numbers, over.len()), (vec![0, 2], 0));
            drop(pieces);
            assert_eq!(world.received().1[0].0, key, "it is full");
            if fetched {
                let claimed = world.receiver.tagged_claim(claim, vec![0; 10].into()).unwrap();
                let Some(Completion::Op(done)) = world.rx.poll().unwrap() else { panic!("the message") };
                assert_eq!((done.key(), &done.buf()[..]), (claimed, &message(0, 1, 10)[..]));
            } else {
                world.receiver.tagged_discard(claim).unwrap();
                assert!(matches!(world.rx.poll().unwrap(), Some(Completion::Peek(_))));
            }
            assert_eq!(world.rx.in_flight(), 0);
            // A peek finds no message, because a multi-receive has taken it.
            let key = world.post(100);
            world.send(1, 4, 10);
            world.receiver.tagged_peek(Source::Any, TagMatch::ANY).unwrap();
            let (mut pieces, mut answers) = (0, 0);
            while let Some(completion) = world.rx.poll().unwrap() {
                match completion {
                    Completion::Piece(_) => pieces += 1,
                    Completion::Peek(answer) => {
                        assert!(answer.message().unwrap().is_none());
                        answers += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!((pieces, answers), (1, 1));
            world.receiver.cancel(key).unwrap();
            assert!(matches!(world.rx.poll().unwrap(), Some(Completion::Op(done)) if done.key() == key));
            while world.tx.poll().unwrap().is_some() {}
        }
    });
}
