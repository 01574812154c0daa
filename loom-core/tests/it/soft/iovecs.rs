//! Operations of the software transport with several buffers: any number on either side, short and
//! long, before and after the receive. No place, cell or buffer is lost.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::buffer::{Buffer, IoVecs, Lent, SourceBuffer, TargetBuffer};
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{CompletionLevel, ReadOptions, RecvOptions, SendOptions};
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::Direction;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::PostError;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Access, Errno, ImmediateData, Tag};

const EAGER: u32 = 128;
const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 2, tx_depth: 2, rx_depth: 5, eager_size: EAGER, regions: 0, ..NetworkAttr::DEFAULT };

/// A number of buffers that is known at run time.
#[derive(Clone, Debug, PartialEq)]
struct Many(Vec<Box<[u8]>>);

// SAFETY: the boxes' bytes stay in place.
#[allow(unsafe_code, reason = "implements the unsafe trait `Buffer`")]
unsafe impl Buffer for Many {
    fn lend(&mut self) -> Lent {
        match self.0.as_mut_slice() {
            [only] => only.lend(),
            _ => ().lend(),
        }
    }

    fn lend_pieces(&mut self, pieces: &mut IoVecs) {
        self.0.iter_mut().for_each(|buf| buf.lend_pieces(pieces));
    }
}
impl SourceBuffer for Many {}
impl TargetBuffer for Many {}

impl Many {
    /// Cuts `bytes` into `count` buffers of different lengths, some of them empty.
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

struct Pair {
    domain: Domain<'static, Soft<'static>>,
    cq: Cq<'static, Soft<'static>, Many>,
    sender: Endpoint<'static, Soft<'static>, Many>,
    receiver: Endpoint<'static, Soft<'static>, Many>,
    to: Peer,
}

fn with_pair(attr: NetworkAttr, test: impl FnOnce(Pair)) {
    let network = Network::new(attr).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::open(&domain, CqAttr::new(8)).unwrap();
    let (sender, receiver) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
    let to = av.insert(&receiver.address().unwrap()).unwrap();
    test(Pair { domain, cq, sender, receiver, to });
}

impl Pair {
    fn send(&self, buf: Many) -> OpKey {
        self.sender.tagged_send_with(self.to, Tag(1), SendOptions::default(), buf).map_err(PostError::from).unwrap()
    }

    fn receive(&self, buf: Many) -> Result<OpKey, PostError> {
        self.receiver.tagged_recv_with(Source::Any, Tag(1), RecvOptions::default(), buf).map_err(PostError::from)
    }

    fn end(&self, key: OpKey) -> (Vec<u8>, Result<usize, Errno>) {
        let (buf, result) = self.cq.wait(key, Spins(100)).unwrap().unwrap().into_parts();
        (buf.0.concat(), result.map(|transfer| transfer.len).map_err(|error| error.errno))
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
fn longer_message_is_truncated() {
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
            // Refused with two places too few.
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
fn closing_in_between_loses_no_buffer() {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let cq = Cq::<_, Many>::open(&domain, CqAttr::new(8)).unwrap();
    for round in 0..100 {
        let (sender, receiver) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
        let to = av.insert(&receiver.address().unwrap()).unwrap();
        let long = Many::cut(&bytes(1000, 1), 3, round);
        let sent = sender.tagged_send_with(to, Tag(1), SendOptions::default(), long.clone()).unwrap();
        let room = Many::cut(&[0; 8], 4, round);
        let waits = receiver.tagged_recv_with(Source::Any, Tag(2), RecvOptions::default(), room.clone()).unwrap();
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
    let attr = NetworkAttr { eager_size: 63, ..ATTR };
    with_pair(attr, |pair| {
        assert_eq!(pair.domain.info().attributes().tx.iov_limit, 1);
        let two = Many::cut(&bytes(8, 1), 2, 0);
        let rejected = pair.sender.tagged_send_with(pair.to, Tag(1), SendOptions::default(), two.clone()).unwrap_err();
        assert_eq!((rejected.error, rejected.value), (PostError::TooManyPieces { limit: 1 }, two));
    });
}

#[test]
fn as_many_buffers_are_granted_as_there_are_places_for() {
    for (rx_depth, limit) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4), (100, 4)] {
        with_pair(NetworkAttr { rx_depth, ..ATTR }, |pair| {
            assert_eq!(pair.domain.info().attributes().rx.iov_limit, limit);
            let most = pair.receive(Many::cut(&[0; 8], limit, 0)).unwrap();
            let sent = pair.send(Many::cut(&bytes(8, 1), 4, 0));
            assert_eq!(pair.end(most), (bytes(8, 1), Ok(8)));
            assert_eq!(pair.end(sent).1, Ok(8));
            let more = pair.receive(Many::cut(&[0; 8], limit + 1, 0));
            assert_eq!(more, Err(PostError::TooManyPieces { limit }));
        });
    }
}

/// Such a message is offered, however short. Its sender's operation completes when it has been
/// received.
#[test]
fn delivery_out_of_several_buffers_is_awaited_by_every_kind_of_receive() {
    with_pair(ATTR, |pair| {
        let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
        for len in [0, 1, 50, 128, 300] {
            let message = bytes(len, 3);
            let out = || Many::cut(&message, 3, 1);
            for into in 1..=4 {
                let sent = pair.sender.tagged_send_with(pair.to, Tag(1), options, out()).unwrap();
                assert!(pair.cq.poll().unwrap().is_none(), "nobody has received it");
                let received = if into > 1 {
                    pair.receive(Many::cut(&vec![0; len], into, 2)).unwrap()
                } else {
                    let key = pair.receiver.tagged_peek_claim(Source::Any, Tag(1)).unwrap();
                    let found = pair.cq.wait_peek(key, Spins(10)).unwrap().unwrap().message().unwrap().unwrap();
                    assert_eq!(found.len, len);
                    pair.receiver.tagged_claim(found.claim.unwrap(), Many::cut(&vec![0; len], 1, 0)).unwrap()
                };
                assert_eq!(pair.end(received), (message.clone(), Ok(len)));
                assert_eq!(pair.end(sent), (message.clone(), Ok(len)));
            }
            let sent = pair.sender.tagged_send_with(pair.to, Tag(1), options, out()).unwrap();
            let key = pair.receiver.tagged_peek_discard(Source::Any, Tag(1)).unwrap();
            assert!(pair.cq.wait_peek(key, Spins(10)).unwrap().unwrap().message().unwrap().is_some());
            assert_eq!(pair.end(sent), (message.clone(), Ok(len)));

            let sent = pair.sender.send_with(pair.to, options, out()).unwrap();
            let filled = pair.receiver.multi_recv(Source::Any, Many::cut(&[0; 400], 1, 0)).unwrap();
            let Some(Completion::Piece(piece)) = pair.cq.poll().unwrap() else { panic!("a piece") };
            assert_eq!(piece.bytes(), &message[..]);
            drop(piece);
            assert_eq!(pair.end(sent), (message.clone(), Ok(len)));
            pair.receiver.cancel(filled).unwrap();
            assert_eq!(pair.end(filled).1, Err(Errno::ECANCELED));
        }
        assert_eq!(pair.cq.in_flight(), 0);
    });
}

#[test]
fn offers_that_are_taken_back_leave_their_receive_waiting() {
    with_pair(ATTR, |pair| {
        for round in 0..200 {
            let room = || pair.receive(Many::cut(&[0; 300], 4, 0)).unwrap();
            let before = (round % 2 == 0).then(room);
            let sent = pair.send(Many::cut(&bytes(300, 1), 3, 0));
            pair.sender.cancel(sent).unwrap();
            assert_eq!(pair.end(sent).1, Err(Errno::ECANCELED));
            let received = before.unwrap_or_else(room);
            let sent = pair.send(Many::cut(&bytes(300, 2), 2, 0));
            assert_eq!(pair.end(received), (bytes(300, 2), Ok(300)));
            assert_eq!(pair.end(sent).1, Ok(300));
            assert!(pair.cq.poll().unwrap().is_none());
        }
    });
}

#[test]
fn several_parts_are_looked_at_before_any_is_written() {
    with_pair(NetworkAttr { regions: 2, ..ATTR }, |pair| {
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let open = |access| Mr::open(&pair.domain, Box::<[u8]>::from(vec![0; 100]), access).unwrap();
        let (first, second) = (open(access), open(Access::REMOTE_READ));
        let told = second.remote();
        let claimed = RemoteRegion { base: told.base, len: told.len, key: told.key, access };
        let parts = [first.remote().part(10, 50).unwrap(), claimed.part(0, 50).unwrap()];
        let out = Many::cut(&bytes(100, 1), 3, 1);
        let key = pair.sender.write_with(pair.to, &parts, SendOptions::default(), out).unwrap();
        assert_eq!(pair.end(key).1, Err(Errno::EACCES));
        let mut there = [1; 100];
        first.window().copy_to(0, &mut there).unwrap();
        assert_eq!(there, [0; 100], "the first part is not written either");

        let second = [first.remote().part(0, 10).unwrap(), first.remote().part(60, 40).unwrap()];
        let options = SendOptions { data: Some(ImmediateData(5)), ..SendOptions::default() };
        let key = pair.sender.write_with(pair.to, &second, options, Many::cut(&bytes(50, 2), 4, 3)).unwrap();
        assert_eq!(pair.end(key).1, Ok(50));
        let Some(Completion::Remote(event)) = pair.cq.poll_direction(Direction::Receive).unwrap() else {
            panic!("the peer is told")
        };
        assert_eq!((event.data(), event.len), (Some(ImmediateData(5)), 50));
        let key = pair.sender.read_with(pair.to, &second, ReadOptions::default(), Many::cut(&[0; 50], 2, 1)).unwrap();
        assert_eq!(pair.end(key), (bytes(50, 2), Ok(50)));
    });
}

/// A returned cell belongs to its sender. A receive into several buffers ends without it.
#[test]
fn threads_reuse_cells_while_receives_of_several_buffers_end() {
    const MESSAGES: u64 = 30_000;
    let attr = NetworkAttr { tx_depth: 1, rx_depth: 12, ..ATTR };
    let network = &Network::new(attr).unwrap();
    let (tell, hear) = std::sync::mpsc::channel();
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let domain = Domain::open(&network.info()).unwrap();
            let av = Av::open(&domain, 2).unwrap();
            let cq = Cq::<_, Many>::open(&domain, CqAttr::new(8)).unwrap();
            let sender = cq.endpoint(&av).unwrap();
            let to = av.insert(&hear.recv().unwrap()).unwrap();
            let mut number = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let bytes = number.to_ne_bytes();
                let tagged = number % 2 == 1;
                let sent = if tagged { sender.tagged_inject(to, Tag(1), &bytes) } else { sender.inject(to, &bytes) };
                match sent {
                    Ok(()) => number += 1,
                    // Lets the other thread run, in case both share a processor.
                    Err(error) if error.is_transient() => std::thread::yield_now(),
                    // The receiver has closed.
                    Err(_) => break,
                }
            }
        });
        // Stops the sender, also when an assertion fails.
        struct Stop<'s>(&'s AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(stop);
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let cq = Cq::<_, Many>::open(&domain, CqAttr::new(16)).unwrap();
        let receiver = cq.endpoint(&av).unwrap();
        tell.send(receiver.address().unwrap()).unwrap();
        let post = |tagged: bool, buf| {
            let options = RecvOptions::default();
            let posted = match tagged {
                true => receiver.tagged_recv_with(Source::Any, Tag(1), options, buf),
                false => receiver.recv_with(Source::Any, options, buf),
            };
            posted.map_err(PostError::from).unwrap();
        };
        for tagged in [false, true, false, true] {
            post(tagged, Many::cut(&[0; 8], 2, 0));
        }
        let (mut number, mut last) = (0, Instant::now());
        while number < MESSAGES {
            assert!(last.elapsed() < Duration::from_secs(20), "stuck after {number} messages");
            let Some(completion) = cq.poll().unwrap() else {
                std::thread::yield_now();
                continue;
            };
            let Completion::Op(done) = completion else { panic!("{completion:?}") };
            let got = done.buf().0.concat();
            assert_eq!(got, number.to_ne_bytes(), "message {number}");
            post(number % 2 == 1, done.into_buf());
            (number, last) = (number + 1, Instant::now());
        }
    });
}

/// Without room in cells no data is in them, so an address at the end of the last cell is other
/// memory.
#[test]
fn a_message_from_behind_the_last_cell_is_no_list() {
    let attr = NetworkAttr { eager_size: 0, tx_depth: 1, ..ATTR };
    let len = attr.layout::<&Behind<'_>>().unwrap().size();
    // The network's block, and the message right behind it, as in an arena.
    let mut memory = vec![0_u8; len + 128 + 4096].into_boxed_slice();
    let arena = Behind(Mutex::new(&mut memory));
    let network = Network::new_in(attr, &arena).unwrap();
    let message = arena.rest();
    message.iter_mut().enumerate().for_each(|(at, byte)| *byte = u8::try_from(at % 251).unwrap());
    let expected = message.to_vec();
    scope(|s| {
        let domain = s.open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let cq = Cq::<_, &mut [u8]>::open(&domain, CqAttr::new(8)).unwrap();
        let endpoints = [(); 2].map(|()| cq.endpoint(&av).unwrap());
        let [to_first, to_second] = [0, 1].map(|at: usize| av.insert(&endpoints[at].address().unwrap()).unwrap());
        let mut out = message;
        // From either endpoint, because one has the last cell.
        for (from, into, to) in [(0, 1, to_second), (1, 0, to_first)] {
            let room = vec![0; expected.len()].leak();
            let received = endpoints[into].recv(Source::Any, room).map_err(PostError::from).unwrap();
            let sent = endpoints[from].send(to, out).map_err(PostError::from).unwrap();
            let done = cq.wait(received, Spins(100)).unwrap().unwrap();
            assert_eq!(*done.into_buf(), expected[..], "what was sent, and nothing else");
            out = cq.wait(sent, Spins(100)).unwrap().unwrap().into_buf();
        }
    });
}

/// Allocator for one aligned block. The memory behind it is available.
struct Behind<'m>(Mutex<&'m mut [u8]>);

impl<'m> Behind<'m> {
    /// Returns the 128 bytes right behind the block.
    fn rest(&self) -> &'m mut [u8] {
        core::mem::take(&mut *self.0.lock().unwrap()).split_at_mut(128).0
    }
}

// SAFETY: the block is part of the slice, and lives as long.
#[allow(unsafe_code, reason = "implements the unsafe trait `Allocator`")]
unsafe impl loom_core::allocator_api2::alloc::Allocator for &Behind<'_> {
    fn allocate(
        &self,
        layout: core::alloc::Layout,
    ) -> Result<core::ptr::NonNull<[u8]>, loom_core::allocator_api2::alloc::AllocError> {
        let mut memory = self.0.lock().unwrap();
        let slice = core::mem::take(&mut *memory);
        let skip = slice.as_ptr().align_offset(layout.align());
        let (given, rest) = slice.split_at_mut(skip).1.split_at_mut(layout.size());
        *memory = rest;
        Ok(core::ptr::NonNull::from_mut(given))
    }

    unsafe fn deallocate(&self, _: core::ptr::NonNull<u8>, _: core::alloc::Layout) {}
}
