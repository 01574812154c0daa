//! Driver: plays steps on the open endpoints, and records them.

use core::cell::Cell;

use loom_core::av::Av;
use loom_core::completion::{Completion, Done, Piece};
use loom_core::counter::Counter;
use loom_core::cq::CqError;
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::endpoint::{RecvOptions, SendOptions};
use loom_core::engine::op_table::{Direction, OpKey};
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::info::Info;
use loom_core::soft::Soft;
use loom_core::vocabulary::{Counted, Errno, ImmediateData, Tag, TagMatch};

use super::faults::Faults;
use super::memory::{News, Regions};
use super::record::{End, Fate, Life, Message, Moment, Op, Receive, Record, What};
use super::step::{Side, Step, Wanted};
use super::{EAGER, ENDPOINTS, MIN_LEFT, QUEUES, Queue};
use crate::memory::Memory;

type Ep = Endpoint<'static, Soft<'static>, Memory>;

pub type Counters = [Counter<'static, Soft<'static>>; 4];

/// Factor between the number of a message and its first byte, which is unique in a story.
pub const NUMBERED: usize = 31;

pub const COUNTED: [Counted; 4] = [Counted::SEND, Counted::RECV, Counted::READ, Counted::WRITE];

pub struct Around<'w> {
    pub domain: &'w Domain<'static, Soft<'static>>,
    pub av: &'w Av<'static, Soft<'static>>,
    pub infos: &'w [Info<Soft<'static>>; ENDPOINTS],
    pub counters: &'w [Counters; ENDPOINTS],
}

pub struct World<'w> {
    pub queues: [Queue; QUEUES],
    around: Around<'w>,
    /// Denies multi-receives and peeks.
    pub prefixes: bool,
    pub places: [Option<(usize, Ep)>; ENDPOINTS],
    pub record: Record,
    pub regions: Regions<'w>,
    /// News of peers' writes, before their report.
    pub news: Vec<News>,
    /// Held pieces, with their bytes.
    pieces: Vec<(Piece<'static, Memory>, Vec<u8>)>,
}

impl<'w> World<'w> {
    /// Opens an endpoint at every place.
    pub fn new(queues: [Queue; QUEUES], around: Around<'w>, faults: Faults, prefixes: bool) -> Self {
        let domain = around.domain;
        let mut world = World {
            queues,
            around,
            prefixes,
            places: [const { None }; ENDPOINTS],
            record: Record::new(faults),
            regions: Regions::new(domain, faults.leave_rma_alone()),
            news: Vec::new(),
            pieces: Vec::new(),
        };
        world.regions.open(0, &mut world.record.late);
        for place in 0..ENDPOINTS {
            world.open(place);
        }
        world
    }

    pub fn counters(&self) -> &[Counters; ENDPOINTS] {
        self.around.counters
    }

    pub fn play(&mut self, step: Step) {
        match step {
            Step::Open { place } => self.open(usize::from(place) % ENDPOINTS),
            Step::Close { place } => self.close(usize::from(place) % ENDPOINTS),
            Step::Send { from, to, len, tag, data, cut } => self.send(from, to, len, (tag, data), Way::Lent(cut)),
            Step::Inject { from, to, len, tag, data } => self.send(from, to, len, (tag, data), Way::Injected),
            Step::Receive { at, from, tag, len, cut } => self.receive(at, from, tag, len, cut),
            Step::MultiReceive { at, from, len } => self.multi_receive(at, from, len),
            Step::Peek { at, from, tag, what } => self.peek(at, from, tag, what),
            Step::Fetch { nth, len } => self.fetch(nth, len),
            Step::DiscardClaim { nth } => self.discard_claim(nth),
            Step::Cancel { nth } => self.cancel(nth),
            Step::Poll { queue, side } => {
                let queue = usize::from(queue) % QUEUES;
                self.poll(queue, side);
            }
            Step::Wait { nth, spins } => self.wait(nth, spins),
            Step::DropPiece { nth } => {
                if let Some(nth) = usize::from(nth).checked_rem(self.pieces.len()) {
                    self.drop_piece(nth);
                }
            }
            Step::OpenRegion { place } => self.regions.open(place, &mut self.record.late),
            Step::CloseRegion { place } => self.regions.close(place, &mut self.record.late),
            Step::Rma { from, to, region, offset, len, what } => self.rma(from, to, (region, offset, len), what),
        }
    }

    fn open(&mut self, place: usize) {
        if self.places[place].is_some() {
            return;
        }
        let queue = place % QUEUES;
        let bind = Binding::to(self.around.av).info(self.around.infos[place].clone());
        let bind = COUNTED
            .iter()
            .zip(&self.around.counters[place])
            .fold(bind, |bind, (of, counter)| bind.counter(*of, counter));
        let endpoint = match self.queues[queue].endpoint(bind) {
            Err(OpenError::Errno(Errno::EOVERRUN)) if self.record.faults.overruns() => return,
            opened => opened.expect("there is a place for each"),
        };
        let address = endpoint.address().expect("it is open");
        let peer = self.around.av.insert(&address).expect("an address of this network");
        let addr = self.around.av.peer_table().addr(peer).expect("just inserted");
        assert!(self.record.lives.iter().all(|life| life.addr != addr), "no two endpoints have one address");
        self.record.lives.push(Life { peer, addr, place, queue, open: true, dead: Cell::new(false) });
        self.places[place] = Some((self.record.lives.len() - 1, endpoint));
    }

    fn close(&mut self, place: usize) {
        let Some((life, endpoint)) = self.places[place].take() else { return };
        drop(endpoint);
        let now = self.record.moments.len();
        self.record.lives[life].open = false;
        for message in self.record.messages.iter_mut().filter(|message| message.from == life) {
            message.gone_at.get_or_insert(now);
        }
        let (looks, claims) = (&self.record.looks, &mut self.record.claims);
        claims.retain(|(look, _)| looks[*look].at != life);
    }

    /// Peer of a life, and `true` if the address vector still has it.
    pub fn peer(&self, life: usize) -> (loom_core::engine::peer_table::Peer, bool) {
        let peer = self.record.lives[life].peer;
        let known = self.around.av.peer_table().addr(peer).is_some();
        assert_eq!(known, self.record.is_newest(life), "a later endpoint takes the place of one before");
        (peer, known)
    }

    pub fn source(&self, from: Option<usize>) -> Source {
        from.map_or(Source::Any, |from| Source::Peer(self.record.lives[from].peer))
    }

    pub fn not_received(&self, error: PostError, at: usize, from: Option<usize>, places: usize) {
        match error {
            PostError::UnknownPeer => assert!(from.is_some_and(|from| !self.peer(from).1)),
            error => self.record.assert_refused(error, at, Direction::Receive, places),
        }
    }

    pub fn posted(&mut self, life: usize, key: OpKey, buffer: Option<usize>, what: What) {
        let queue = self.record.lives[life].queue;
        self.record.ops.push(Op { queue, key, buffer, life, what, cancelled: false });
    }

    /// Length of a message. Where faults affect matching, messages are identified by their first
    /// byte.
    fn len(&self, len: u8) -> usize {
        let least = usize::from(!self.record.faults.leave_matching_alone());
        (usize::from(len) % (3 * EAGER)).max(least)
    }

    fn send(&mut self, from: u8, to: u8, len: u8, (tag, data): (Option<u8>, Option<u64>), way: Way) {
        let to = self.record.some_life(to);
        let (peer, known) = self.peer(to);
        let Some((from, endpoint)) = &self.places[usize::from(from) % ENDPOINTS] else { return };
        let from = *from;
        let len = self.len(len);
        let bytes: Vec<u8> = (0..len).map(|at| (self.record.messages.len() * NUMBERED + at) as u8).collect();
        let tag = tag.map(u64::from);
        let (fate, gone_at) = (Fate::Sent, None);
        let message = Message { from, to, tag, data, bytes: bytes.clone(), fate, gone_at, let_go: false };
        let open = self.record.lives[to].is_there();
        let immediate = data.map(ImmediateData);

        let Way::Lent(cut) = way else {
            let result = match (tag, immediate) {
                (None, None) => endpoint.inject(peer, &bytes),
                (None, Some(data)) => endpoint.inject_data(peer, data, &bytes),
                (Some(tag), None) => endpoint.tagged_inject(peer, Tag(tag), &bytes),
                (Some(tag), Some(data)) => endpoint.tagged_inject_data(peer, Tag(tag), data, &bytes),
            };
            match result {
                Ok(()) => {
                    assert!(len <= EAGER && known && open);
                    self.record.count(from, 0);
                    self.is_on_its_way(message);
                }
                Err(PostError::TooLong { limit }) => assert!(limit == EAGER && len > EAGER),
                Err(PostError::UnknownPeer) => assert!(!known),
                Err(PostError::Errno(Errno::EHOSTUNREACH)) => assert!(known && !open),
                Err(error) => self.record.assert_refused(error, from, Direction::Transmit, 0),
            }
            return;
        };

        let buf = cut.map_or_else(|| Memory::new(&bytes), |cut| Memory::in_two(&bytes, usize::from(cut) % (len + 1)));
        let buffer = buf.id;
        let options =
            immediate.map_or(SendOptions::default(), |data| SendOptions { data: Some(data), ..SendOptions::default() });
        let result = match (tag, immediate, cut) {
            (None, _, Some(_)) => endpoint.send_with(peer, options, buf),
            (Some(tag), _, Some(_)) => endpoint.tagged_send_with(peer, Tag(tag), options, buf),
            (None, None, _) => endpoint.send(peer, buf),
            (None, Some(data), _) => endpoint.send_data(peer, data, buf),
            (Some(tag), None, _) => endpoint.tagged_send(peer, Tag(tag), buf),
            (Some(tag), Some(data), _) => endpoint.tagged_send_data(peer, Tag(tag), data, buf),
        };
        match result {
            Ok(key) => {
                assert!(known);
                let what = if open { What::Message(self.is_on_its_way(message)) } else { What::Unreachable };
                self.posted(from, key, Some(buffer), what);
            }
            Err(Rejected { value: buf, error }) => {
                assert_eq!(buf.id, buffer);
                match error {
                    PostError::UnknownPeer => assert!(!known),
                    error => self.record.assert_refused(error, from, Direction::Transmit, 0),
                }
            }
        }
    }

    fn is_on_its_way(&mut self, message: Message) -> usize {
        let number = self.record.messages.len();
        self.record.messages.push(message);
        self.record.moments.push(Moment::Sent(number));
        number
    }

    fn receive(&mut self, at: u8, from: Option<u8>, tag: Option<Wanted>, len: u8, cut: Option<u8>) {
        let from = from.map(|from| self.record.some_life(from));
        let Some((at, endpoint)) = &self.places[usize::from(at) % ENDPOINTS] else { return };
        let at = *at;
        let tag = tag.map(TagMatch::from);
        let len = self.len(len);
        let room = vec![0xee; len];
        let buf = cut.map_or_else(|| Memory::new(&room), |cut| Memory::in_two(&room, usize::from(cut) % (len + 1)));
        let source = self.source(from);
        let (buffer, options) = (buf.id, RecvOptions::default());
        let result = match (tag, cut) {
            (None, None) => endpoint.recv(source, buf),
            (None, Some(_)) => endpoint.recv_with(source, options, buf),
            (Some(tag), None) => endpoint.tagged_recv(source, tag, buf),
            (Some(tag), Some(_)) => endpoint.tagged_recv_with(source, tag, options, buf),
        };
        // One slot for each buffer, and one for all.
        let places = if cut.is_some() { 3 } else { 1 };
        self.received(result, at, from, tag, (len, buffer, places));
    }

    fn multi_receive(&mut self, at: u8, from: Option<u8>, len: u8) {
        // Bits beside those of the endpoint.
        let tagged = at & 0x80 != 0;
        let from = from.map(|from| self.record.some_life(from));
        let Some((at, endpoint)) = &self.places[usize::from(at) % ENDPOINTS] else { return };
        let at = *at;
        let len = MIN_LEFT + usize::from(len);
        let buf = Memory::new(&vec![0xee; len]);
        let buffer = buf.id;
        // Accepts every other tag of the messages.
        let tag = tagged.then_some(TagMatch { tag: Tag(1), ignore: !1 });
        let result = match tag {
            Some(tag) => endpoint.tagged_multi_recv(self.source(from), tag, buf),
            None => endpoint.multi_recv(self.source(from), buf),
        };
        if let (Err(Rejected { error: PostError::NotGranted(_), .. }), true) = (&result, self.prefixes) {
            return;
        }
        let number = self.record.receives.len();
        self.received(result, at, from, tag, (len, buffer, 1));
        if let Some(receive) = self.record.receives.get_mut(number) {
            receive.multi = true;
        }
    }

    fn received(
        &mut self,
        result: Result<OpKey, Rejected<Memory>>,
        at: usize,
        from: Option<usize>,
        tag: Option<TagMatch>,
        (len, buffer, places): (usize, usize, usize),
    ) {
        match result {
            Ok(key) => {
                let (sent_before, number) = (self.record.messages.len(), self.record.receives.len());
                let (end, got) = (End::Waiting, Vec::new());
                self.record.receives.push(Receive { at, from, tag, len, multi: false, sent_before, end, got });
                self.record.moments.push(Moment::Received(number));
                self.posted(at, key, Some(buffer), What::Receive(number, places));
            }
            Err(Rejected { value: buf, error }) => {
                assert_eq!(buf.id, buffer);
                self.not_received(error, at, from, places);
            }
        }
    }

    fn cancel(&mut self, nth: u8) {
        let Some(nth) = usize::from(nth).checked_rem(self.record.ops.len()) else { return };
        let op = &mut self.record.ops[nth];
        let mut open = self.places.iter().flatten();
        let Some((_, endpoint)) = open.find(|(life, _)| *life == op.life) else { return };
        // A kept completion cannot be cancelled.
        match endpoint.cancel(op.key) {
            Ok(()) => {
                op.cancelled = true;
                if let What::Message(message) = op.what {
                    self.record.messages[message].gone_at.get_or_insert(self.record.moments.len());
                }
            }
            Err(errno) => assert_eq!(errno, Errno::ENOENT),
        }
        let op = &self.record.ops[nth];
        for (_, other) in self.places.iter().flatten().filter(|(life, _)| *life != op.life) {
            if self.record.lives[op.life].queue == 0 && *other.cq() == self.queues[0] {
                assert_eq!(other.cancel(op.key), Err(Errno::ENOENT), "it is another endpoint's");
            }
        }
    }

    fn poll(&mut self, queue: usize, side: Side) -> bool {
        let cq = &self.queues[queue];
        let polled = match side {
            Side::Both => cq.poll(),
            Side::Transmit => cq.poll_direction(Direction::Transmit),
            Side::Receive => cq.poll_direction(Direction::Receive),
        };
        if let (Err(CqError::Queue(Errno::EOVERRUN)), true) = (&polled, self.record.faults.overruns()) {
            self.record.overrun[queue] = true;
            return false;
        }
        match polled.expect("the queue works") {
            Some(Completion::Op(done)) => {
                let op = self.taken(queue, done);
                match side {
                    Side::Both => {}
                    Side::Transmit => assert!(!op.is_receive()),
                    Side::Receive => assert!(op.is_receive()),
                }
                true
            }
            Some(other) => {
                assert!(!matches!(side, Side::Transmit));
                match other {
                    Completion::Piece(piece) => {
                        self.record.piece(queue, &piece);
                        let shown = piece.bytes().to_vec();
                        self.pieces.push((piece, shown));
                    }
                    Completion::Peek(peek) => self.answered(queue, peek),
                    Completion::Remote(event) => self.written(queue, event),
                    other => panic!("nobody posted for {other:?}"),
                }
                true
            }
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
        let Op { queue, key, ref what, .. } = self.record.ops[nth];
        let spins = Spins((spins % 4).into());
        if let What::Look(_) | What::DiscardClaim(_) = what {
            match self.queues[queue].wait_peek(key, spins) {
                Ok(Some(peek)) => return self.answered(queue, peek),
                Err(CqError::Queue(Errno::EOVERRUN)) if self.record.faults.overruns() => return,
                other => panic!("a look is answered at once: {other:?}"),
            }
        }
        match self.queues[queue].wait(key, spins) {
            Ok(Some(done)) => {
                assert_eq!(done.key(), key);
                self.taken(queue, done);
                assert!(matches!(self.queues[queue].wait(key, Spins(0)), Err(CqError::UnknownKey)));
            }
            Ok(None) => {}
            Err(CqError::Queue(Errno::EOVERRUN)) if self.record.faults.overruns() => {}
            Err(CqError::PiecesOut) => {
                assert!(matches!(what, What::Receive(receive, _) if self.record.receives[*receive].multi));
            }
            Err(error) => panic!("{error:#}"),
        }
    }

    fn taken(&mut self, queue: usize, done: Done<Memory>) -> What {
        let what = self.record.taken(queue, done);
        if let What::Late { access, .. } = what
            && self.record.late.is_not_done(access)
        {
            self.not_written(access);
        }
        what
    }

    fn drop_piece(&mut self, nth: usize) {
        let (piece, shown) = self.pieces.swap_remove(nth);
        assert_eq!(piece.bytes(), shown, "nobody touches it any more");
    }

    fn settle(&mut self) {
        const MOST_TURNS: u32 = 10_000;
        // Upper bound of a delay. Messages of one sender are delayed one after the other.
        let enough = if self.record.faults.any() { 4 + 2 * self.record.faults.polls() } else { 2 };
        let mut quiet = 0;
        for turn in 0.. {
            assert!(turn < MOST_TURNS, "it does not end");
            if quiet == enough {
                break;
            }
            quiet += 1;
            for queue in 0..QUEUES {
                while self.poll(queue, Side::Both) {
                    quiet = 0;
                }
            }
            while !self.pieces.is_empty() {
                self.drop_piece(0);
                quiet = 0;
            }
        }
    }

    /// Ends the story: completes all that can complete, then closes all endpoints.
    pub fn finish(mut self) {
        self.settle();
        self.record.late.settled();
        self.record.check();
        self.record.assert_settled();
        for (place, counters) in self.around.counters.iter().enumerate() {
            // An injected write may fail later, and losses on the way to a queue are counted.
            if self.record.faults.reorders() || self.record.faults.overruns() {
                break;
            }
            assert_eq!(counters.each_ref().map(Counter::read), self.record.tally[place], "what is counted at {place}");
        }
        for place in 0..ENDPOINTS {
            self.close(place);
        }
        self.settle();
        assert!(self.record.ops.is_empty(), "a closed endpoint has nothing in flight");
        assert!(self.queues.iter().all(|cq| cq.in_flight() == 0));
        self.record.check();
        self.regions.check(&mut self.record.late);
    }
}

#[derive(Clone, Copy)]
enum Way {
    Injected,
    /// One buffer, or two.
    Lent(Option<u8>),
}

impl From<Wanted> for TagMatch {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Any => TagMatch::ANY,
            Wanted::Exact(tag) => TagMatch::exact(Tag(tag.into())),
            Wanted::Masked(tag, ignore) => TagMatch { tag: Tag(tag.into()), ignore: ignore.into() },
        }
    }
}
