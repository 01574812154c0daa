//! Peeks, claims and discards of the software transport, with senders that cancel and endpoints
//! that close.

use loom_core::av::Av;
use loom_core::completion::{Claim, Completion, Found, Peek};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::PostError;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Errno, Tag};

type Bytes = Box<[u8]>;

/// Messages of more than 8 bytes are offered. An endpoint has two cells, and places for two
/// receives.
const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 2, tx_depth: 2, rx_depth: 2, eager_size: 8, regions: 0, ..NetworkAttr::DEFAULT };
const LONG: usize = 100;
/// More than cells, and than places in a queue.
const ROUNDS: usize = 200;

struct Pair {
    cq: Cq<'static, Soft<'static>, Bytes>,
    av: Av<'static, Soft<'static>>,
    receiver: Endpoint<'static, Soft<'static>, Bytes>,
    to: Peer,
}

fn with_receiver(test: impl FnOnce(Pair)) {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::open(&domain, CqAttr::new(8)).unwrap();
    let receiver = cq.endpoint(&av).unwrap();
    let to = av.insert(&receiver.address().unwrap()).unwrap();
    test(Pair { cq, av, receiver, to });
}

impl Pair {
    fn sender(&self) -> Endpoint<'static, Soft<'static>, Bytes> {
        self.cq.endpoint(&self.av).unwrap()
    }

    fn send(&self, sender: &Endpoint<'static, Soft<'static>, Bytes>, len: usize) -> OpKey {
        sender.tagged_send(self.to, Tag(1), vec![7; len].into()).unwrap()
    }

    fn answer(&self, key: OpKey) -> Option<Found> {
        let peek: Peek = self.cq.wait_peek(key, Spins(10)).unwrap().unwrap();
        peek.message().unwrap()
    }

    fn claim(&self) -> Claim {
        let key = self.receiver.tagged_peek_claim(Source::Any, Tag(1)).unwrap();
        self.answer(key).unwrap().claim.unwrap()
    }

    /// Returns the result of an operation.
    fn end(&self, key: OpKey) -> Result<usize, Errno> {
        let done = self.cq.wait(key, Spins(100)).unwrap().unwrap();
        done.result().map(|transfer| transfer.len).map_err(|error| error.errno)
    }

    fn fetch(&self, claim: Claim) -> Result<usize, Errno> {
        let key = self.receiver.tagged_claim(claim, vec![0; LONG].into()).unwrap();
        self.end(key)
    }
}

#[test]
fn claims_do_not_count_as_in_flight_and_keep_their_places_in_the_queue() {
    with_receiver(|pair| {
        // Posts until the queue is full.
        let fill = || {
            let posts = (0..=pair.cq.capacity()).map(|_| pair.receiver.tagged_peek(Source::Any, Tag(9)));
            let taken = posts.take_while(|post| *post != Err(PostError::Full)).filter(Result::is_ok).count();
            assert_eq!(pair.cq.in_flight(), taken);
            while pair.cq.poll().unwrap().is_some() {}
            assert_eq!(pair.cq.in_flight(), 0);
            taken
        };
        assert_eq!(fill(), pair.cq.capacity());
        let sender = pair.sender();
        sender.tagged_inject(pair.to, Tag(1), &[7; 4]).unwrap();
        let peek = pair.receiver.tagged_peek_claim(Source::Any, Tag(1)).unwrap();
        assert_eq!(pair.cq.in_flight(), 1, "the peek is");
        let claim = pair.answer(peek).unwrap().claim.unwrap();
        assert_eq!(pair.cq.in_flight(), 0, "the claim is not");
        assert_eq!(fill(), pair.cq.capacity() - 1, "it has a place");
        let fetch = pair.receiver.tagged_claim(claim, vec![0; 4].into()).unwrap();
        assert_eq!(pair.cq.in_flight(), 1, "the fetch is");
        assert_eq!(pair.end(fetch), Ok(4));
        assert_eq!(pair.cq.in_flight(), 0);
        assert_eq!(fill(), pair.cq.capacity(), "the place is free again");
    });
}

#[test]
fn a_claimed_offer_can_be_taken_back() {
    with_receiver(|pair| {
        let sender = pair.sender();
        for _ in 0..ROUNDS {
            let sent = pair.send(&sender, LONG);
            let claim = pair.claim();
            sender.cancel(sent).unwrap();
            assert_eq!(pair.end(sent), Err(Errno::ECANCELED));
            assert_eq!(pair.fetch(claim), Err(Errno::ENOMSG), "it is not there any more");
        }
    });
}

#[test]
fn a_claimed_message_of_a_closed_sender() {
    with_receiver(|pair| {
        for round in 0..ROUNDS {
            let sender = pair.sender();
            let sends = [pair.send(&sender, 8), pair.send(&sender, LONG)];
            let claims = [pair.claim(), pair.claim()];
            assert_eq!(pair.end(sends[0]), Ok(8));
            drop(sender);
            assert_eq!(pair.end(sends[1]), Err(Errno::ECANCELED));
            assert_eq!(pair.fetch(claims[0]), Ok(8), "round {round}: a short one has been sent");
            assert_eq!(pair.fetch(claims[1]), Err(Errno::ENOMSG));
            let key = pair.receiver.tagged_peek(Source::Any, Tag(1)).unwrap();
            assert!(pair.answer(key).is_none());
            // Possible late events of the closed endpoint keep their room until the queue was seen
            // empty.
            assert!(pair.cq.poll().unwrap().is_none());
        }
    });
}

#[test]
fn a_discarded_offer_completes_for_its_sender() {
    with_receiver(|pair| {
        let sender = pair.sender();
        for round in 0..ROUNDS {
            for len in [8, LONG] {
                let sent = pair.send(&sender, len);
                let key = if round % 2 == 0 {
                    pair.receiver.tagged_peek_discard(Source::Any, Tag(1)).unwrap()
                } else {
                    let claim = pair.claim();
                    pair.receiver.tagged_discard(claim).unwrap()
                };
                assert_eq!(pair.answer(key).unwrap().len, len);
                assert_eq!(pair.end(sent), Ok(len));
            }
        }
    });
}

#[test]
fn claims_of_a_closed_endpoint_give_their_messages_up() {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::open(&domain, CqAttr::new(8)).unwrap();
    let sender = cq.endpoint(&av).unwrap();
    for _ in 0..ROUNDS {
        let receiver = cq.endpoint(&av).unwrap();
        let to = av.insert(&receiver.address().unwrap()).unwrap();
        let pair = Pair { cq: cq.clone(), av: av.clone(), receiver, to };
        let sends = [pair.send(&sender, 8), pair.send(&sender, LONG)];
        let (_, _) = (pair.claim(), pair.claim());
        drop(pair.receiver);
        let results = sends.map(|sent| {
            let done = cq.wait(sent, Spins(100)).unwrap().unwrap();
            done.result().map(|transfer| transfer.len).map_err(|error| error.errno)
        });
        assert_eq!(results, [Ok(8), Err(Errno::ECONNRESET)]);
        assert!(av.remove(to));
        assert_eq!(cq.in_flight(), 0);
    }
}

#[test]
fn a_claim_takes_the_place_of_a_receive() {
    with_receiver(|pair| {
        let sender = pair.sender();
        for _ in 0..ROUNDS {
            let _ = [pair.send(&sender, 8), pair.send(&sender, 8)].map(|sent| pair.end(sent));
            let claims = [pair.claim(), pair.claim()];
            let refused = pair.receiver.tagged_peek_claim(Source::Any, Tag(1));
            assert_eq!(refused, Err(PostError::Again));
            let rejected = pair.receiver.tagged_recv(Source::Any, Tag(1), vec![0; 8].into()).unwrap_err();
            assert_eq!(rejected.error, PostError::Again);
            for claim in claims {
                assert_eq!(pair.fetch(claim), Ok(8));
            }
            while let Some(completion) = pair.cq.poll().unwrap() {
                assert!(!matches!(completion, Completion::Unclaimed(_)));
            }
        }
    });
}

#[test]
fn a_revoked_offer_is_neither_seen_nor_discarded() {
    with_receiver(|pair| {
        let sender = pair.sender();
        for round in 0..ROUNDS {
            let sent = pair.send(&sender, LONG);
            let by_claim = round % 3 == 0;
            let claim = by_claim.then(|| pair.claim());
            if !by_claim {
                let key = pair.receiver.tagged_peek(Source::Any, Tag(1)).unwrap();
                assert_eq!(pair.answer(key).unwrap().len, LONG);
            }
            sender.cancel(sent).unwrap();
            let key = match claim {
                Some(claim) => pair.receiver.tagged_discard(claim).unwrap(),
                None if round % 3 == 1 => pair.receiver.tagged_peek_discard(Source::Any, Tag(1)).unwrap(),
                None => pair.receiver.tagged_peek(Source::Any, Tag(1)).unwrap(),
            };
            assert!(pair.answer(key).is_none(), "round {round}");
            assert_eq!(pair.end(sent), Err(Errno::ECANCELED));
            assert!(pair.cq.poll().unwrap().is_none());
        }
    });
}
