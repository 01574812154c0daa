//! Several buffers in one operation of the software transport: any number on either side, short and long, before and after
//! the receive; and no place, cell or buffer is lost.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

use loom_core::buffer::{Buffer, Lent, Pieces, SourceBuffer, TargetBuffer};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::PostError;
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr, CqOwner};
use loom_core::objects::deadline::Spins;
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::{Endpoint, Source};
use loom_core::objects::options::{RecvOptions, SendOptions};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Errno, Tag};

const EAGER: u32 = 128;
const ATTR: NetworkAttr = NetworkAttr { endpoints: 2, tx_depth: 2, rx_depth: 5, eager_size: EAGER, regions: 0 };

/// A number of buffers that is known at run time.
#[derive(Clone, Debug, PartialEq)]
struct Many(Vec<Box<[u8]>>);

// SAFETY: the boxes' bytes stay where they are.
#[allow(unsafe_code, reason = "implements the unsafe trait `Buffer`")]
unsafe impl Buffer for Many {
    fn lend(&mut self) -> Lent {
        match self.0.as_mut_slice() {
            [only] => only.lend(),
            _ => ().lend(),
        }
    }

    fn lend_pieces(&mut self, pieces: &mut Pieces) {
        self.0.iter_mut().for_each(|buf| buf.lend_pieces(pieces));
    }
}
impl SourceBuffer for Many {}
impl TargetBuffer for Many {}

impl Many {
    /// So many buffers of `len` bytes together, the first ones longer or shorter; some may have none.
    fn cut(bytes: &[u8], count: usize, seed: usize) -> Self {
        let mut rest = bytes;
        let mut list: Vec<Box<[u8]>> = Vec::new();
        for left in (1..=count).rev() {
            let len = if left == 1 { rest.len() } else { (rest.len() / left + seed * 13 % 40).min(rest.len()) };
            let (piece, behind) = rest.split_at(len);
            list.push(piece.into());
            rest = behind;
        }
        Many(list)
    }
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 7 + seed) % 251).unwrap()).collect()
}

struct Pair<'p, 'd, 'n> {
    cq: &'p Cq<'d, Soft<'n>, Many>,
    sender: Endpoint<'p, 'd, Soft<'n>, Many>,
    receiver: Endpoint<'p, 'd, Soft<'n>, Many>,
    to: Peer,
}

fn with_pair(attr: NetworkAttr, test: impl FnOnce(Pair<'_, '_, '_>)) {
    let network = Network::new(attr).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let owner: CqOwner<'_, _, Many, _, 8> = Cq::open(&domain, CqAttr::new()).unwrap();
    let (sender, receiver) = (owner.endpoint(&av).enable().unwrap(), owner.endpoint(&av).enable().unwrap());
    let to = av.insert(&receiver.address().unwrap()).unwrap();
    test(Pair { cq: &owner, sender, receiver, to });
}

impl Pair<'_, '_, '_> {
    fn send(&self, buf: Many) -> OpKey {
        self.sender.tagged_sendmsg(self.to, Tag(1), SendOptions::new(), buf).map_err(PostError::from).unwrap()
    }

    fn receive(&self, buf: Many) -> Result<OpKey, PostError> {
        self.receiver.tagged_recvmsg(Source::Any, Tag(1), RecvOptions::new(), buf).map_err(PostError::from)
    }

    fn end(&self, key: OpKey) -> (Vec<u8>, Result<usize, Errno>) {
        let (buf, result) = self.cq.wait(key, Spins(100)).unwrap().unwrap().into_parts();
        (buf.0.concat(), result.map(|transfer| transfer.len()).map_err(|error| error.errno))
    }
}

#[test]
fn any_number_of_buffers_meets_any_other() {
    with_pair(ATTR, |pair| {
        let mut seed = 0;
        for (out, into) in (1..=4).flat_map(|out| (1..=4).map(move |into| (out, into))) {
            for len in [0, 1, 50, 128, 129, 1000] {
                for unexpected in [false, true] {
                    seed += 1;
                    let message = bytes(len, seed);
                    let room = Many::cut(&vec![0; len + 3], into, seed);
                    let buf = Many::cut(&message, out, seed);
                    let (sent, received) = if unexpected {
                        let sent = pair.send(buf);
                        assert!(
                            pair.cq.wait(sent, Spins(2)).unwrap().is_some() == (len <= 128),
                            "it waits at the receiver"
                        );
                        (sent, pair.receive(room).unwrap())
                    } else {
                        let received = pair.receive(room).unwrap();
                        (pair.send(buf), received)
                    };
                    let (got, result) = pair.end(received);
                    assert_eq!(result, Ok(len), "{out} into {into}, {len} bytes");
                    assert_eq!(got[..len], message[..], "{out} into {into}, {len} bytes");
                    assert_eq!(got[len..], [0; 3], "what is behind the message is not touched");
                    if !unexpected || len > 128 {
                        assert_eq!(pair.end(sent), (message, Ok(len)));
                    }
                }
            }
        }
        assert!(pair.cq.poll().unwrap().is_none() && pair.cq.in_flight() == 0);
    });
}

#[test]
fn what_does_not_fit_is_truncated() {
    with_pair(ATTR, |pair| {
        for len in [100, 1000] {
            let received = pair.receive(Many::cut(&[0; 60], 3, 1)).unwrap();
            let sent = pair.send(Many::cut(&bytes(len, 1), 4, 2));
            let (got, result) = pair.end(received);
            assert_eq!((got, result), (bytes(60, 1), Err(Errno::ETRUNC)));
            assert_eq!(pair.end(sent).1, Ok(len));
        }
    });
}

#[test]
fn a_receive_takes_a_place_for_each_buffer_and_gives_it_back() {
    with_pair(ATTR, |pair| {
        for round in 0..100 {
            let four = || Many::cut(&[0; 8], 4, 0);
            let held = pair.receive(four()).unwrap();
            assert_eq!(
                pair.receive(Many::cut(&[0; 8], 1, 0)),
                Err(PostError::Again),
                "round {round}: five places are taken"
            );
            match round % 2 {
                0 => {
                    pair.receiver.cancel(held).unwrap();
                    assert_eq!(pair.end(held).1, Err(Errno::ECANCELED));
                }
                _ => {
                    let sent = pair.send(Many::cut(&bytes(8, round), 2, 0));
                    assert_eq!(pair.end(held), (bytes(8, round), Ok(8)));
                    assert_eq!(pair.end(sent).1, Ok(8));
                }
            }
            // Refused when two more are missing than there are.
            let two = pair.receive(Many::cut(&[0; 8], 2, 0)).unwrap();
            assert_eq!(pair.receive(four()), Err(PostError::Again));
            let one = pair.receive(Many::cut(&[0; 8], 1, 0)).unwrap();
            for key in [two, one] {
                pair.receiver.cancel(key).unwrap();
                assert_eq!(pair.end(key).1, Err(Errno::ECANCELED));
            }
        }
    });
}

#[test]
fn closing_in_between_loses_nothing() {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq: CqOwner<'_, _, Many, _, 8> = Cq::open(&domain, CqAttr::new()).unwrap();
    for round in 0..100 {
        let (sender, receiver) = (cq.endpoint(&av).enable().unwrap(), cq.endpoint(&av).enable().unwrap());
        let to = av.insert(&receiver.address().unwrap()).unwrap();
        let long = Many::cut(&bytes(1000, 1), 3, round);
        let sent = sender.tagged_sendmsg(to, Tag(1), SendOptions::new(), long.clone()).unwrap();
        let room = Many::cut(&[0; 8], 4, round);
        let waits = receiver.tagged_recvmsg(Source::Any, Tag(2), RecvOptions::new(), room.clone()).unwrap();
        if round % 2 == 0 {
            drop(sender);
            drop(receiver);
        } else {
            drop(receiver);
            drop(sender);
        }
        for (key, buf) in [(sent, long), (waits, room)] {
            let done = cq.wait(key, Spins(100)).unwrap().unwrap();
            assert!(done.result().is_err());
            assert_eq!(*done.buf(), buf, "round {round}");
        }
        assert!(av.remove(to));
        assert!(cq.poll().unwrap().is_none());
    }
}

#[test]
fn cells_that_are_too_small_for_a_list_take_one_buffer() {
    let attr = NetworkAttr { eager_size: 64, ..ATTR };
    with_pair(attr, |pair| {
        assert_eq!(pair.cq.domain().attributes().tx.iov_limit, 1);
        let two = Many::cut(&bytes(8, 1), 2, 0);
        let rejected = pair.sender.tagged_sendmsg(pair.to, Tag(1), SendOptions::new(), two.clone()).unwrap_err();
        assert_eq!((rejected.error, rejected.buf), (PostError::TooManyPieces { limit: 1 }, two));
    });
}
