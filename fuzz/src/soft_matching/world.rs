//! The driver: plays steps on the endpoints that are open, and has everything written down.

use loom_core::completion::Completion;
use loom_core::engine::op_table::Direction;
use loom_core::error::{PostError, Rejected};
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqError};
use loom_core::objects::deadline::Spins;
use loom_core::objects::endpoint::{Endpoint, Source};
use loom_core::soft::Soft;
use loom_core::vocabulary::{Errno, ImmediateData, Tag, TagMatch};

use super::record::{End, Fate, Life, Message, Op, Receive, Record, What};
use super::step::{Side, Step, Wanted};
use super::{EAGER, ENDPOINTS, QUEUES};
use crate::memory::Memory;

type Ep<'q, 'd, 'n> = Endpoint<'q, 'd, Soft<'n>, Memory>;

pub struct World<'q, 'd, 'n> {
    queues: [&'q Cq<'d, Soft<'n>, Memory>; QUEUES],
    av: &'d Av<'d, Soft<'n>>,
    places: [Option<(usize, Ep<'q, 'd, 'n>)>; ENDPOINTS],
    record: Record,
}

impl<'q, 'd, 'n> World<'q, 'd, 'n> {
    /// Every place has an endpoint.
    pub fn new(queues: [&'q Cq<'d, Soft<'n>, Memory>; QUEUES], av: &'d Av<'d, Soft<'n>>) -> Self {
        let mut world = World { queues, av, places: [const { None }; ENDPOINTS], record: Record::default() };
        for place in 0..ENDPOINTS {
            world.open(place);
        }
        world
    }

    pub fn play(&mut self, step: Step) {
        match step {
            Step::Open { place } => self.open(usize::from(place) % ENDPOINTS),
            Step::Close { place } => self.close(usize::from(place) % ENDPOINTS),
            Step::Send { from, to, len, tag, data } => self.send(from, to, len, tag, data, false),
            Step::Inject { from, to, len, tag, data } => self.send(from, to, len, tag, data, true),
            Step::Receive { at, from, tag, len } => self.receive(at, from, tag, len),
            Step::Cancel { nth } => self.cancel(nth),
            Step::Poll { queue, side } => {
                let queue = usize::from(queue) % QUEUES;
                self.poll(queue, side);
            }
            Step::Wait { nth, spins } => self.wait(nth, spins),
        }
    }

    fn open(&mut self, place: usize) {
        if self.places[place].is_some() {
            return;
        }
        let queue = place % QUEUES;
        let endpoint = self.queues[queue].endpoint(self.av).enable().expect("there is a place for each");
        let address = endpoint.address().expect("it is open");
        let peer = self.av.insert(&address).expect("an address of this network");
        let addr = self.av.fabric_addr(peer).expect("just inserted");
        assert!(self.record.lives.iter().all(|life| life.addr != addr), "no two endpoints have one address");
        self.record.lives.push(Life { peer, addr, queue, open: true });
        self.places[place] = Some((self.record.lives.len() - 1, endpoint));
    }

    fn close(&mut self, place: usize) {
        let Some((life, endpoint)) = self.places[place].take() else { return };
        drop(endpoint);
        self.record.lives[life].open = false;
    }

    fn send(&mut self, from: u8, to: u8, len: u8, tag: Option<u8>, data: Option<u64>, inject: bool) {
        let to = self.record.some_life(to);
        let Some((from, endpoint)) = &self.places[usize::from(from) % ENDPOINTS] else { return };
        let from = *from;
        let len = usize::from(len) % (3 * EAGER);
        let bytes: Vec<u8> = (0..len).map(|at| (self.record.messages.len() * 31 + at) as u8).collect();
        let tag = tag.map(u64::from);
        let peer = self.record.lives[to].peer;
        let known = self.av.fabric_addr(peer).is_some();
        assert_eq!(known, self.record.is_newest(to), "a later endpoint takes the place of one before");
        let message = Message { from, to, tag, data, bytes: bytes.clone(), fate: Fate::Sent, let_go: false };
        let immediate = data.map(ImmediateData);

        if inject {
            let result = match (tag, immediate) {
                (None, None) => endpoint.inject(peer, &bytes),
                (None, Some(data)) => endpoint.inject_data(peer, data, &bytes),
                (Some(tag), None) => endpoint.tagged_inject(peer, Tag(tag), &bytes),
                (Some(tag), Some(data)) => endpoint.tagged_inject_data(peer, Tag(tag), data, &bytes),
            };
            match result {
                Ok(()) => {
                    assert!(len <= EAGER && known && self.record.lives[to].open);
                    self.record.messages.push(message);
                }
                Err(PostError::TooLong { limit }) => assert!(limit == EAGER && len > EAGER),
                Err(PostError::UnknownPeer) => assert!(!known),
                Err(PostError::Errno(errno)) => {
                    assert!(errno == Errno::EHOSTUNREACH && known && !self.record.lives[to].open);
                }
                Err(error) => self.record.assert_transient(error, from, Direction::Transmit),
            }
            return;
        }

        let buf = Memory::new(&bytes);
        let buffer = buf.id;
        let result = match (tag, immediate) {
            (None, None) => endpoint.send(peer, buf),
            (None, Some(data)) => endpoint.send_data(peer, data, buf),
            (Some(tag), None) => endpoint.tagged_send(peer, Tag(tag), buf),
            (Some(tag), Some(data)) => endpoint.tagged_send_data(peer, Tag(tag), data, buf),
        };
        match result {
            Ok(key) => {
                assert!(known);
                let what = if self.record.lives[to].open {
                    self.record.messages.push(message);
                    What::Message(self.record.messages.len() - 1)
                } else {
                    What::Unreachable
                };
                self.record.ops.push(Op {
                    queue: self.record.lives[from].queue,
                    key,
                    buffer,
                    life: from,
                    what,
                    cancelled: false,
                });
            }
            Err(Rejected { buf, error }) => {
                assert_eq!(buf.id, buffer);
                match error {
                    PostError::UnknownPeer => assert!(!known),
                    error => self.record.assert_transient(error, from, Direction::Transmit),
                }
            }
        }
    }

    fn receive(&mut self, at: u8, from: Option<u8>, tag: Option<Wanted>, len: u8) {
        let from = from.map(|from| self.record.some_life(from));
        let Some((at, endpoint)) = &self.places[usize::from(at) % ENDPOINTS] else { return };
        let at = *at;
        let tag = tag.map(|tag| match tag {
            Wanted::Any => TagMatch::any(),
            Wanted::Exact(tag) => TagMatch::exact(Tag(tag.into())),
            Wanted::Masked(tag, ignore) => TagMatch::masked(Tag(tag.into()), ignore.into()),
        });
        let len = usize::from(len) % (3 * EAGER);
        let buf = Memory::new(&vec![0xee; len]);
        let buffer = buf.id;
        let source = from.map_or(Source::Any, |from| Source::Peer(self.record.lives[from].peer));
        let result = match tag {
            None => endpoint.recv(source, buf),
            Some(tag) => endpoint.tagged_recv(source, tag, buf),
        };
        match result {
            Ok(key) => {
                self.record.receives.push(Receive { at, from, tag, len, end: End::Waiting });
                let what = What::Receive(self.record.receives.len() - 1);
                self.record.ops.push(Op {
                    queue: self.record.lives[at].queue,
                    key,
                    buffer,
                    life: at,
                    what,
                    cancelled: false,
                });
            }
            Err(Rejected { buf, error }) => {
                assert_eq!(buf.id, buffer);
                match error {
                    PostError::UnknownPeer => {
                        assert!(from.is_some_and(|from| self.av.fabric_addr(self.record.lives[from].peer).is_none()));
                    }
                    error => self.record.assert_transient(error, at, Direction::Receive),
                }
            }
        }
    }

    fn cancel(&mut self, nth: u8) {
        let Some(nth) = usize::from(nth).checked_rem(self.record.ops.len()) else { return };
        let op = &mut self.record.ops[nth];
        let mut open = self.places.iter().flatten();
        let Some((_, endpoint)) = open.find(|(life, _)| *life == op.life) else { return };
        // Its completion may be kept already, and then there is nothing to cancel.
        match endpoint.cancel(op.key) {
            Ok(()) => op.cancelled = true,
            Err(errno) => assert_eq!(errno, Errno::ENOENT),
        }
        for (_, other) in self.places.iter().flatten().filter(|(life, _)| *life != op.life) {
            if self.record.lives[op.life].queue == 0 && core::ptr::eq(other.cq(), self.queues[0]) {
                assert_eq!(other.cancel(op.key), Err(Errno::ENOENT), "it is another endpoint's");
            }
        }
    }

    /// Takes one completion, if there is one.
    fn poll(&mut self, queue: usize, side: Side) -> bool {
        let cq = self.queues[queue];
        let polled = match side {
            Side::Both => cq.poll(),
            Side::Transmit => cq.poll_tx(),
            Side::Receive => cq.poll_rx(),
        };
        match polled.expect("the queue works") {
            Some(Completion::Op(done)) => {
                let op = self.record.taken(queue, done);
                match side {
                    Side::Both => {}
                    Side::Transmit => assert!(!matches!(op, What::Receive(_))),
                    Side::Receive => assert!(matches!(op, What::Receive(_))),
                }
                true
            }
            Some(other) => panic!("nobody posted for {other:?}"),
            None => {
                if matches!(side, Side::Both) {
                    self.record.moved_on(queue);
                }
                false
            }
        }
    }

    fn wait(&mut self, nth: u8, spins: u8) {
        let Some(nth) = usize::from(nth).checked_rem(self.record.ops.len()) else { return };
        let Op { queue, key, .. } = self.record.ops[nth];
        match self.queues[queue].wait(key, Spins((spins % 4).into())) {
            Ok(Some(done)) => {
                assert_eq!(done.key(), key);
                self.record.taken(queue, done);
                assert!(matches!(self.queues[queue].wait(key, Spins(0)), Err(CqError::UnknownKey)));
            }
            Ok(None) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Moves everything that can be moved.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 2 {
            quiet += 1;
            for queue in 0..QUEUES {
                while self.poll(queue, Side::Both) {
                    quiet = 0;
                }
            }
        }
    }

    /// Ends the story: all that can be over is, then all endpoints are closed.
    pub fn finish(mut self) {
        self.settle();
        self.record.check();
        self.record.assert_settled();
        for place in 0..ENDPOINTS {
            self.close(place);
        }
        self.settle();
        assert!(self.record.ops.is_empty(), "a closed endpoint has nothing in flight");
        assert!(self.queues.iter().all(|cq| cq.in_flight() == 0));
        self.record.check();
    }
}
