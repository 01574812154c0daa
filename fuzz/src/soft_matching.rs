//! Messages on the software transport: who gets which, and that every buffer comes back once.
//!
//! # The oracle
//!
//! The oldest receive that accepts a message takes it, and a receive takes the oldest message that it accepts. Both
//! sides rank by age, so who ends up with whom does not depend on when anything is looked at: it is what a loop over the
//! messages, oldest first, finds when each takes the oldest free receive that accepts it. Receives and offers that were
//! cancelled have met nobody and are left out.
//!
//! So the oracle writes down what was posted and what was reported, and compares at the end: for an endpoint that is
//! still open, exactly these pairs; for one that was closed, no others.

use core::ptr::NonNull;
use std::cell::RefCell;
use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::completion::{Completion, Done};
use loom_core::engine::op_table::{Direction, OpKey};
use loom_core::engine::peer_table::Peer;
use loom_core::error::{PostError, Rejected};
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr, CqError, CqOwner};
use loom_core::objects::deadline::Spins;
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::{Endpoint, Source};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Errno, FabricAddr, ImmediateData, Tag, TagMatch};

const ENDPOINTS: usize = 3;
const TX_DEPTH: usize = 4;
const RX_DEPTH: usize = 4;
const EAGER: usize = 8;
const DEPTH: usize = 12;
/// One queue for both directions, and one with a raw queue for each.
const QUEUES: usize = 2;

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Open { place: u8 },
    Close { place: u8 },
    Send { from: u8, to: u8, len: u8, tag: Option<u8>, data: Option<u64> },
    Inject { from: u8, to: u8, len: u8, tag: Option<u8>, data: Option<u64> },
    Receive { at: u8, from: Option<u8>, tag: Option<Wanted>, len: u8 },
    Cancel { nth: u8 },
    Poll { queue: u8, side: Side },
    Wait { nth: u8, spins: u8 },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Wanted {
    Any,
    Exact(u8),
    Masked(u8, u8),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Side {
    Both,
    Transmit,
    Receive,
}

thread_local! {
    /// How often each buffer was dropped.
    static DROPS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// A buffer that counts its drops.
#[derive(Debug)]
struct Memory {
    id: usize,
    bytes: Box<[u8]>,
}

impl Memory {
    fn new(bytes: Vec<u8>) -> Self {
        DROPS.with_borrow_mut(|drops| {
            drops.push(0);
            Memory { id: drops.len() - 1, bytes: bytes.into() }
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops[self.id] += 1);
    }
}

// SAFETY: the box owns its bytes, and their address does not depend on where the value is.
unsafe impl Buffer for Memory {
    fn lend(&mut self) -> Lent {
        Lent::both(NonNull::from_mut(&mut *self.bytes).cast(), self.bytes.len())
    }
}
impl SourceBuffer for Memory {}
impl TargetBuffer for Memory {}

/// An endpoint that was ever open.
struct Life {
    peer: Peer,
    addr: FabricAddr,
    queue: usize,
    open: bool,
}

/// A message that was handed to an inbox.
struct Message {
    from: usize,
    to: usize,
    tag: Option<u64>,
    data: Option<u64>,
    bytes: Vec<u8>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Its sender does not know, or no more than that it is on its way.
    Sent,
    /// Its sender was told that it was copied from the buffer.
    Copied,
    /// Taken back before anybody saw it.
    Revoked,
    /// The receiver closed first.
    Refused,
}

/// A receive that was posted.
struct Receive {
    at: usize,
    from: Option<usize>,
    tag: Option<TagMatch>,
    len: usize,
    end: End,
}

#[derive(Debug, PartialEq)]
enum End {
    Waiting,
    Got(Got),
    Cancelled,
    Closed,
}

/// What a receive says that it got.
#[derive(Debug, PartialEq)]
struct Got {
    tag: Option<u64>,
    data: Option<u64>,
    bytes: Vec<u8>,
    overflow: usize,
    /// Not told of a message that was cut short.
    source: Option<FabricAddr>,
}

/// What an operation in flight is.
struct Op {
    queue: usize,
    key: OpKey,
    buffer: usize,
    life: usize,
    what: What,
    cancelled: bool,
}

#[derive(Clone, Copy)]
enum What {
    Message(usize),
    /// To somebody who is gone: it fails.
    Unreachable,
    Receive(usize),
}

type Owner<'d, 'n> = CqOwner<'d, Soft<'n>, Memory, loom_core::allocator_api2::alloc::Global, DEPTH>;
type Ep<'q, 'd, 'n> = Endpoint<'q, 'd, Soft<'n>, Memory>;

struct World<'q, 'd, 'n> {
    queues: [&'q Cq<'d, Soft<'n>, Memory>; QUEUES],
    av: &'d Av<'d, Soft<'n>>,
    places: [Option<(usize, Ep<'q, 'd, 'n>)>; ENDPOINTS],
    lives: Vec<Life>,
    messages: Vec<Message>,
    receives: Vec<Receive>,
    ops: Vec<Op>,
    /// Whether an endpoint of the queue was ever closed: late events may then take room in its table.
    closed: [bool; QUEUES],
}

/// Sends, tagged sends, injections, directed and masked receives, cancels, truncation, unexpected messages, endpoints that
/// open and close in the middle of it, on two queues.
pub fn soft_matching(data: &[u8]) -> usize {
    const MOST: usize = 300;
    DROPS.take();
    let attr = NetworkAttr {
        endpoints: ENDPOINTS as u16,
        tx_depth: TX_DEPTH as u32,
        rx_depth: RX_DEPTH as u32,
        eager_size: EAGER as u32,
        regions: 0,
    };
    let network = Network::new(attr).expect("the sizes are small");
    let domain = Domain::open(&network.info()).expect("a network opens");
    let av = Av::open(&domain, ENDPOINTS).expect("the sizes are small");
    let mut played = 0;
    {
        let one: Owner<'_, '_> = Cq::open(&domain, CqAttr::new()).expect("the sizes are small");
        let two: Owner<'_, '_> = Cq::open(&domain, CqAttr::new().separate()).expect("the sizes are small");
        let mut world = World {
            queues: [&one, &two],
            av: &av,
            places: [const { None }; ENDPOINTS],
            lives: Vec::new(),
            messages: Vec::new(),
            receives: Vec::new(),
            ops: Vec::new(),
            closed: [false; QUEUES],
        };
        for place in 0..ENDPOINTS as u8 {
            world.play(Step::Open { place });
        }
        let mut bytes = Unstructured::new(data);
        while played < MOST && !bytes.is_empty() {
            let Ok(step) = bytes.arbitrary::<Step>() else { break };
            world.play(step);
            played += 1;
        }
        world.finish();
    }
    DROPS.with_borrow(|drops| assert!(drops.iter().all(|drops| *drops == 1), "drops of each buffer: {drops:?}"));
    played
}

impl<'q, 'd, 'n> World<'q, 'd, 'n> {
    fn play(&mut self, step: Step) {
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
        assert!(self.lives.iter().all(|life| life.addr != addr), "no two endpoints have one address");
        self.lives.push(Life { peer, addr, queue, open: true });
        self.places[place] = Some((self.lives.len() - 1, endpoint));
    }

    fn close(&mut self, place: usize) {
        let Some((life, endpoint)) = self.places[place].take() else { return };
        drop(endpoint);
        self.lives[life].open = false;
        self.closed[self.lives[life].queue] = true;
    }

    /// One of the endpoints that were ever open; mostly one of the last.
    fn some_life(&self, number: u8) -> usize {
        self.lives.len() - 1 - usize::from(number) % self.lives.len().min(2 * ENDPOINTS)
    }

    /// Whether no later endpoint has been in the same place.
    fn is_newest(&self, life: usize) -> bool {
        let place = |life: &Life| life.addr.0 as u32;
        !self.lives[life + 1..].iter().any(|later| place(later) == place(&self.lives[life]))
    }

    fn send(&mut self, from: u8, to: u8, len: u8, tag: Option<u8>, data: Option<u64>, inject: bool) {
        let to = self.some_life(to);
        let Some((from, endpoint)) = &self.places[usize::from(from) % ENDPOINTS] else { return };
        let from = *from;
        let len = usize::from(len) % (3 * EAGER);
        let bytes: Vec<u8> = (0..len).map(|at| (self.messages.len() * 31 + at) as u8).collect();
        let tag = tag.map(u64::from);
        let peer = self.lives[to].peer;
        let known = self.av.fabric_addr(peer).is_some();
        assert_eq!(known, self.is_newest(to), "a later endpoint takes the place of one before");
        let message = Message { from, to, tag, data, bytes: bytes.clone(), fate: Fate::Sent };
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
                    assert!(len <= EAGER && known && self.lives[to].open);
                    self.messages.push(message);
                }
                Err(PostError::TooLong { limit }) => assert!(limit == EAGER && len > EAGER),
                Err(PostError::UnknownPeer) => assert!(!known),
                Err(PostError::Errno(errno)) => {
                    assert!(errno == Errno::EHOSTUNREACH && known && !self.lives[to].open);
                }
                Err(error) => self.assert_transient(error, from, Direction::Transmit),
            }
            return;
        }

        let buf = Memory::new(bytes);
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
                let what = if self.lives[to].open {
                    self.messages.push(message);
                    What::Message(self.messages.len() - 1)
                } else {
                    What::Unreachable
                };
                self.ops.push(Op { queue: self.lives[from].queue, key, buffer, life: from, what, cancelled: false });
            }
            Err(Rejected { buf, error }) => {
                assert_eq!(buf.id, buffer);
                match error {
                    PostError::UnknownPeer => assert!(!known),
                    error => self.assert_transient(error, from, Direction::Transmit),
                }
            }
        }
    }

    /// A post was refused for lack of room: there must be a reason.
    fn assert_transient(&self, error: PostError, life: usize, direction: Direction) {
        let queue = self.lives[life].queue;
        match error {
            PostError::Full => {
                let in_flight = self.ops.iter().filter(|op| op.queue == queue).count();
                assert!(in_flight >= DEPTH || self.closed[queue], "{in_flight} operations are too many");
            }
            PostError::Again if direction == Direction::Transmit => {
                // Cells stay with the place, so those of earlier endpoints in it count. A cell is home for certain when
                // somebody has told of its message.
                let place = self.lives[life].addr.0 as u32;
                let told = |message: &Message| matches!(message.fate, Fate::Copied | Fate::Refused);
                let sent = self.messages.iter().filter(|message| self.lives[message.from].addr.0 as u32 == place);
                let away = sent.filter(|message| !told(message)).count();
                assert!(away >= TX_DEPTH, "{away} cells are away");
            }
            PostError::Again => {
                let posted = |op: &&Op| op.life == life && matches!(op.what, What::Receive(_));
                let posted = self.ops.iter().filter(posted).count();
                assert!(posted >= RX_DEPTH, "{posted} receives are posted");
            }
            error => panic!("refused: {error}"),
        }
    }

    fn receive(&mut self, at: u8, from: Option<u8>, tag: Option<Wanted>, len: u8) {
        let from = from.map(|from| self.some_life(from));
        let Some((at, endpoint)) = &self.places[usize::from(at) % ENDPOINTS] else { return };
        let at = *at;
        let tag = tag.map(|tag| match tag {
            Wanted::Any => TagMatch::any(),
            Wanted::Exact(tag) => TagMatch::exact(Tag(tag.into())),
            Wanted::Masked(tag, ignore) => TagMatch::masked(Tag(tag.into()), ignore.into()),
        });
        let len = usize::from(len) % (3 * EAGER);
        let buf = Memory::new(vec![0xee; len]);
        let buffer = buf.id;
        let source = from.map_or(Source::Any, |from| Source::Peer(self.lives[from].peer));
        let result = match tag {
            None => endpoint.recv(source, buf),
            Some(tag) => endpoint.tagged_recv(source, tag, buf),
        };
        match result {
            Ok(key) => {
                self.receives.push(Receive { at, from, tag, len, end: End::Waiting });
                let what = What::Receive(self.receives.len() - 1);
                self.ops.push(Op { queue: self.lives[at].queue, key, buffer, life: at, what, cancelled: false });
            }
            Err(Rejected { buf, error }) => {
                assert_eq!(buf.id, buffer);
                match error {
                    PostError::UnknownPeer => {
                        assert!(from.is_some_and(|from| self.av.fabric_addr(self.lives[from].peer).is_none()));
                    }
                    error => self.assert_transient(error, at, Direction::Receive),
                }
            }
        }
    }

    fn cancel(&mut self, nth: u8) {
        let Some(nth) = usize::from(nth).checked_rem(self.ops.len()) else { return };
        let op = &mut self.ops[nth];
        let mut open = self.places.iter().flatten();
        let Some((_, endpoint)) = open.find(|(life, _)| *life == op.life) else { return };
        // Its completion may be kept already, and then there is nothing to cancel.
        match endpoint.cancel(op.key) {
            Ok(()) => op.cancelled = true,
            Err(errno) => assert_eq!(errno, Errno::ENOENT),
        }
        for (_, other) in self.places.iter().flatten().filter(|(life, _)| *life != op.life) {
            if self.lives[op.life].queue == 0 && core::ptr::eq(other.cq(), self.queues[0]) {
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
                let op = self.taken(queue, done);
                match side {
                    Side::Both => {}
                    Side::Transmit => assert!(!matches!(op, What::Receive(_))),
                    Side::Receive => assert!(matches!(op, What::Receive(_))),
                }
                true
            }
            Some(other) => panic!("nobody posted for {other:?}"),
            None => false,
        }
    }

    fn wait(&mut self, nth: u8, spins: u8) {
        let Some(nth) = usize::from(nth).checked_rem(self.ops.len()) else { return };
        let Op { queue, key, .. } = self.ops[nth];
        match self.queues[queue].wait(key, Spins((spins % 4).into())) {
            Ok(Some(done)) => {
                assert_eq!(done.key(), key);
                self.taken(queue, done);
                assert!(matches!(self.queues[queue].wait(key, Spins(0)), Err(CqError::UnknownKey)));
            }
            Ok(None) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Writes down what a completion says.
    fn taken(&mut self, queue: usize, done: Done<Memory>) -> What {
        let at = self.ops.iter().position(|op| (op.queue, op.key) == (queue, done.key()));
        let op = self.ops.swap_remove(at.expect("a completion of an operation in flight, once"));
        let closed = !self.lives[op.life].open;
        let (buf, result) = done.into_parts();
        assert_eq!(buf.id, op.buffer);
        match op.what {
            What::Unreachable => {
                let errno = result.expect_err("nobody is there").errno;
                assert!(errno == Errno::EHOSTUNREACH || errno == Errno::ECANCELED && closed);
            }
            What::Message(message) => {
                let gone = !self.lives[self.messages[message].to].open;
                let message = &mut self.messages[message];
                assert!(buf.bytes[..] == message.bytes[..], "a source is not written");
                let offered = message.bytes.len() > EAGER;
                match result {
                    Ok(transfer) => {
                        assert_eq!(transfer.len(), message.bytes.len());
                        if offered {
                            message.fate = Fate::Copied;
                        }
                    }
                    Err(error) => match error.errno {
                        Errno::ECANCELED => {
                            assert!(offered && op.cancelled || closed);
                            if offered {
                                message.fate = Fate::Revoked;
                            }
                        }
                        Errno::ECONNRESET => {
                            assert!(offered && gone);
                            message.fate = Fate::Refused;
                        }
                        errno => panic!("a send ended with {errno}"),
                    },
                }
            }
            What::Receive(receive) => {
                let receive = &mut self.receives[receive];
                assert_eq!(receive.end, End::Waiting);
                receive.end = match result {
                    Ok(transfer) => {
                        assert!(
                            buf.bytes[transfer.len()..].iter().all(|byte| *byte == 0xee),
                            "written beyond its length"
                        );
                        End::Got(Got {
                            tag: transfer.tag().map(|tag| tag.0),
                            data: transfer.data().map(|data| data.0),
                            bytes: buf.bytes[..transfer.len()].to_vec(),
                            overflow: 0,
                            source: transfer.source(),
                        })
                    }
                    Err(error) if error.errno == Errno::ETRUNC => {
                        assert_eq!(error.len, receive.len);
                        let has_data = error.flags.contains(loom_core::vocabulary::CompletionFlags::REMOTE_CQ_DATA);
                        End::Got(Got {
                            tag: receive.tag.map(|_| error.tag.0),
                            data: has_data.then_some(error.data.0),
                            bytes: buf.bytes.to_vec(),
                            overflow: error.overflow,
                            source: None,
                        })
                    }
                    Err(error) => {
                        assert_eq!(error.errno, Errno::ECANCELED);
                        assert!(buf.bytes.iter().all(|byte| *byte == 0xee), "written although it was cancelled");
                        if op.cancelled {
                            End::Cancelled
                        } else {
                            assert!(closed);
                            End::Closed
                        }
                    }
                };
            }
        }
        op.what
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

    fn finish(mut self) {
        self.settle();
        self.check();
        for op in &self.ops {
            match op.what {
                // Nobody wants it yet.
                What::Message(message) => {
                    let message = &self.messages[message];
                    assert!(message.bytes.len() > EAGER && self.lives[message.to].open && self.lives[op.life].open);
                }
                What::Receive(_) => assert!(self.lives[op.life].open),
                What::Unreachable => panic!("it has failed"),
            }
        }
        for place in 0..ENDPOINTS {
            self.close(place);
        }
        self.settle();
        assert!(self.ops.is_empty(), "a closed endpoint has nothing in flight");
        assert!(self.queues.iter().all(|cq| cq.in_flight() == 0));
        self.check();
    }

    /// Compares what was reported with what the definition of matching says.
    fn check(&self) {
        for life in 0..self.lives.len() {
            let mut expected: BTreeMap<usize, usize> = BTreeMap::new();
            for (number, message) in self.messages.iter().enumerate() {
                if message.to != life || matches!(message.fate, Fate::Revoked | Fate::Refused) {
                    continue;
                }
                let taker = self.receives.iter().enumerate().find(|(number, receive)| {
                    receive.at == life
                        && receive.end != End::Cancelled
                        && !expected.contains_key(number)
                        && receive.from.is_none_or(|from| from == message.from)
                        && match (receive.tag, message.tag) {
                            (None, None) => true,
                            (Some(wanted), Some(tag)) => wanted.accepts(Tag(tag)),
                            _ => false,
                        }
                });
                if let Some((taker, _)) = taker {
                    expected.insert(taker, number);
                }
            }
            let open = self.lives[life].open;
            for (number, receive) in self.receives.iter().enumerate().filter(|(_, receive)| receive.at == life) {
                let expected = expected.get(&number).map(|message| &self.messages[*message]);
                match (&receive.end, expected) {
                    (End::Got(got), Some(message)) => {
                        let kept = message.bytes.len().min(receive.len);
                        let overflow = message.bytes.len() - kept;
                        let from = self.lives[message.from].addr;
                        let wanted = Got {
                            tag: message.tag,
                            data: message.data,
                            bytes: message.bytes[..kept].to_vec(),
                            overflow,
                            source: (overflow == 0).then_some(from),
                        };
                        assert_eq!(*got, wanted, "receive {number}");
                        if message.bytes.len() > EAGER && self.lives[message.from].open {
                            assert_eq!(message.fate, Fate::Copied);
                        }
                    }
                    (End::Got(got), None) => panic!("receive {number} made up {got:?}"),
                    (End::Waiting, Some(message)) => assert!(!open, "receive {number} waits for {:?}", message.bytes),
                    (End::Closed | End::Waiting, _) | (End::Cancelled, None) => {}
                    (End::Cancelled, Some(_)) => unreachable!("left out above"),
                }
            }
        }
    }
}
