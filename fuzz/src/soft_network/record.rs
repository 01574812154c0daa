//! Posts and reports of a story, with the checks that need one report. The oracle checks the
//! matching at the end.

use core::cell::Cell;

use loom_core::completion::{Done, OpError, Piece, Transfer};
use loom_core::engine::op_table::{Direction, OpKey};
use loom_core::engine::peer_table::Peer;
use loom_core::error::PostError;
use loom_core::vocabulary::{CompletionFlags, Errno, FabricAddr, Tag, TagMatch};

use super::faults::Faults;
use super::got::Got;
use super::late::Late;
use super::{DEPTH, EAGER, ENDPOINTS, QUEUES, RX_DEPTH, TX_DEPTH};
use crate::memory::Memory;

/// Endpoint, open or closed.
pub struct Life {
    pub peer: Peer,
    pub addr: FabricAddr,
    pub place: usize,
    pub queue: usize,
    pub open: bool,
    /// A post has reported that the endpoint was killed.
    pub dead: Cell<bool>,
}

impl Life {
    /// Returns `true` if peers reach the endpoint.
    pub fn is_there(&self) -> bool {
        self.open && !self.dead.get()
    }
}

pub struct Message {
    pub from: usize,
    pub to: usize,
    pub tag: Option<u64>,
    pub data: Option<u64>,
    pub bytes: Vec<u8>,
    pub fate: Fate,
    /// Time of the withdrawal by its sender, if that was possible.
    pub gone_at: Option<usize>,
    /// The receiver has made progress since the withdrawal.
    pub let_go: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// In flight, for all that the sender can observe.
    Sent,
    /// Reported to the sender as copied from the buffer.
    Copied,
    /// Withdrawn before the receiver saw it.
    Revoked,
    /// The receiver closed first.
    Refused,
    /// Reported to the sender as lost.
    Lost,
    /// Unknown, because the sender was closed.
    Unsure,
}

pub struct Receive {
    pub at: usize,
    pub from: Option<usize>,
    pub tag: Option<TagMatch>,
    pub len: usize,
    pub multi: bool,
    pub sent_before: usize,
    pub end: End,
    pub got: Vec<Got>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Waiting,
    Over,
    Cancelled,
    Closed,
}

impl Receive {
    pub fn is_over(&self) -> bool {
        self.end != End::Waiting
    }

    pub fn accepts(&self, message: &Message) -> bool {
        message.to == self.at
            && self.from.is_none_or(|from| from == message.from)
            && match (self.tag, message.tag) {
                (None, None) => true,
                (Some(wanted), Some(tag)) => wanted.accepts(Tag(tag)),
                _ => false,
            }
    }
}

/// Peek and its answer.
pub struct Look {
    pub at: usize,
    pub from: Option<usize>,
    pub tag: TagMatch,
    pub what: super::step::Look,
    pub sent_before: usize,
    pub moment: usize,
    pub answer: Option<Option<(usize, u64, Option<u64>)>>,
    /// Result of the fetch of a claim. `None` inside if the message was withdrawn.
    pub fetched: Option<(usize, Option<Got>)>,
}

/// Lists of posts, in their order.
#[derive(Clone, Copy)]
pub enum Moment {
    Sent(usize),
    Received(usize),
    Looked(usize),
}

pub struct Op {
    pub queue: usize,
    pub key: OpKey,
    /// Buffer, except of a peek.
    pub buffer: Option<usize>,
    pub life: usize,
    pub what: What,
    pub cancelled: bool,
}

#[derive(Clone, Debug)]
pub enum What {
    Message(usize),
    /// Post to a closed peer, which fails.
    Unreachable,
    /// Receive, with its number of slots.
    Receive(usize, usize),
    Look(usize),
    /// Fetch of a claim, by the look that made it.
    Fetch(usize),
    DiscardClaim(usize),
    Write(Result<(), Errno>),
    /// Read, with these bytes as its result.
    Read(Result<Vec<u8>, Errno>),
    /// Write or read that takes effect at any time, of a life's region.
    Late {
        access: usize,
        to: usize,
    },
}

impl What {
    pub fn is_receive(&self) -> bool {
        matches!(self, What::Receive(..) | What::Look(_) | What::Fetch(_) | What::DiscardClaim(_))
    }
}

/// Counts of a place: successful sends, receives, reads and writes.
pub type Tally = [[u64; 4]; ENDPOINTS];

/// Record of the story. Numbers in it are indices of its lists.
pub struct Record {
    pub lives: Vec<Life>,
    pub messages: Vec<Message>,
    pub receives: Vec<Receive>,
    pub looks: Vec<Look>,
    pub moments: Vec<Moment>,
    pub ops: Vec<Op>,
    /// Open claims, with the looks that made them.
    pub claims: Vec<(usize, loom_core::completion::Claim)>,
    /// Writer and owner of writes with immediate data that were not reported, and may never be.
    pub untold: Vec<(usize, usize)>,
    pub tally: Tally,
    pub faults: Faults,
    /// Queues that have failed.
    pub overrun: [bool; QUEUES],
    /// Memory of regions with writes at any time.
    pub late: Late,
}

impl Record {
    pub fn new(faults: Faults) -> Self {
        Record {
            lives: Vec::new(),
            messages: Vec::new(),
            receives: Vec::new(),
            looks: Vec::new(),
            moments: Vec::new(),
            ops: Vec::new(),
            claims: Vec::new(),
            untold: Vec::new(),
            tally: Tally::default(),
            faults,
            overrun: [false; QUEUES],
            late: Late::default(),
        }
    }

    /// Selects an endpoint, mostly one of the last.
    pub fn some_life(&self, number: u8) -> usize {
        self.lives.len() - 1 - usize::from(number) % self.lives.len().min(2 * ENDPOINTS)
    }

    fn place(&self, life: usize) -> u32 {
        self.lives[life].addr.0 as u32
    }

    pub fn is_newest(&self, life: usize) -> bool {
        !(life + 1..self.lives.len()).any(|later| self.place(later) == self.place(life))
    }

    /// Checks that a refused post has a reason, usually lack of room. A receive needs `places`
    /// slots.
    pub fn assert_refused(&self, error: PostError, life: usize, direction: Direction, places: usize) {
        let queue = self.lives[life].queue;
        match error {
            PostError::Full | PostError::Kept => {
                let in_flight = self.ops.iter().filter(|op| op.queue == queue).count() + self.claims.len();
                // Late events of a closed endpoint may use the queue's table.
                let closed = self.lives.iter().any(|life| life.queue == queue && !life.open);
                assert!(in_flight >= DEPTH || closed, "{in_flight} operations are too many");
            }
            PostError::Again if self.faults.any() => {}
            PostError::Errno(Errno::ESHUTDOWN) if self.faults.kills() => self.lives[life].dead.set(true),
            PostError::NotGranted(_) | PostError::DataWidth { .. } | PostError::TooManyPieces { .. }
                if self.faults.grants_less() => {}
            PostError::Again if direction == Direction::Transmit => {
                // Cells belong to a place, so those of its earlier endpoints count. A cell is
                // certainly free when its message was reported, or its receiver has released it.
                let place = self.place(life);
                let told = |message: &Message| matches!(message.fate, Fate::Copied | Fate::Refused) || message.let_go;
                let sent = self.messages.iter().filter(|message| self.place(message.from) == place);
                let away = sent.filter(|message| !told(message)).count();
                let news = self.untold.iter().filter(|(from, _)| self.place(*from) == place).count();
                assert!(away + news >= TX_DEPTH, "{away} and {news} cells are away");
            }
            PostError::Again => {
                let places_of = |op: &Op| match op.what {
                    What::Receive(_, places) if op.life == life => places,
                    What::Look(_) | What::Fetch(_) if op.life == life => 1,
                    _ => 0,
                };
                let claims = self.claims.iter().filter(|(look, _)| self.looks[*look].at == life).count();
                let taken = self.ops.iter().map(places_of).sum::<usize>() + claims;
                assert!(taken + places > RX_DEPTH, "{taken} places are taken");
            }
            error => panic!("refused: {error:#}"),
        }
    }

    pub fn op(&self, queue: usize, key: OpKey) -> usize {
        let at = self.ops.iter().position(|op| (op.queue, op.key) == (queue, key));
        at.expect("of an operation in flight, once")
    }

    pub fn count(&mut self, life: usize, counter: usize) {
        self.tally[self.lives[life].place][counter] += 1;
    }

    pub fn taken(&mut self, queue: usize, done: Done<Memory>) -> What {
        let op = self.ops.swap_remove(self.op(queue, done.key()));
        let closed = !self.lives[op.life].open;
        let (buf, result) = done.into_parts();
        assert_eq!(Some(buf.id), op.buffer);
        match &op.what {
            What::Unreachable => {
                let errno = result.expect_err("nobody is there").errno;
                let lost = errno == Errno::ECONNABORTED && self.faults.loses();
                assert!(errno == Errno::EHOSTUNREACH || lost || errno == Errno::ECANCELED && closed);
            }
            What::Message(message) => self.sent(*message, &op, buf.bytes(), result),
            What::Receive(receive, _) => self.received(*receive, &op, buf.bytes(), result),
            What::Fetch(look) => {
                let fetched = match result {
                    Ok(transfer) => Some(Some(Got::whole(transfer, &buf.bytes()[..transfer.len]))),
                    Err(error) if error.errno == Errno::ENOMSG => Some(None),
                    Err(error) if error.errno == Errno::ECANCELED && closed => None,
                    Err(error) => Some(Some(Got::not_whole(error, buf.bytes()))),
                };
                // A message that was received and reported as failed is whole, too.
                if matches!(&fetched, Some(Some(got)) if got.overflow == 0 && got.failed.is_none()) {
                    self.count(op.life, 1);
                }
                self.looks[*look].fetched = fetched.map(|got| (buf.bytes().len(), got));
            }
            // The event may have been lost.
            What::Write(_) | What::Read(_) if self.faults.overruns() && closed && is(&result, Errno::ECANCELED) => {}
            What::Write(wanted) if wanted.is_ok() && is(&result, Errno::EIO) => assert!(self.faults.fails()),
            What::Write(wanted) => {
                let len = buf.bytes().len();
                assert_eq!(result.map(|transfer| transfer.len).map_err(|error| error.errno), wanted.map(|()| len));
                if wanted.is_ok() {
                    self.count(op.life, 3);
                }
            }
            What::Read(wanted) => match (result, wanted) {
                (Ok(transfer), Ok(bytes)) => {
                    assert_eq!((transfer.len, buf.bytes()), (bytes.len(), &bytes[..]));
                    self.count(op.life, 2);
                }
                (Err(error), Ok(bytes)) if error.errno == Errno::EIO => {
                    assert!(self.faults.fails());
                    assert_eq!((error.len.unwrap_or(0), buf.bytes()), (bytes.len(), &bytes[..]));
                }
                (Err(error), Err(errno)) => {
                    assert_eq!(error.errno, *errno);
                    assert!(buf.bytes().iter().all(|byte| *byte == 0xee), "read although it was refused");
                }
                (result, wanted) => panic!("{result:?} for {wanted:?}"),
            },
            What::Late { access, to } => {
                let errno = result.map_err(|error| error.errno).err();
                let explained = match errno {
                    None => true,
                    Some(Errno::EIO) => self.faults.fails(),
                    Some(Errno::ECONNABORTED) => self.faults.loses(),
                    Some(Errno::ECANCELED) => closed,
                    Some(Errno::EHOSTUNREACH) => !self.lives[*to].is_there(),
                    Some(Errno::ENOKEY) => !self.late.is_open(*access),
                    Some(_) => false,
                };
                assert!(explained, "a write or read ended with {errno:?}");
                let reads = self.late.ended(*access, errno, buf.bytes());
                if errno.is_none() {
                    self.count(op.life, if reads { 2 } else { 3 });
                }
            }
            What::Look(_) | What::DiscardClaim(_) => panic!("an answer has no buffer"),
        }
        op.what
    }

    fn sent(&mut self, message: usize, op: &Op, bytes: &[u8], result: Result<Transfer, OpError>) {
        let closed = !self.lives[op.life].open;
        let gone = !self.lives[self.messages[message].to].is_there();
        if result.is_ok() {
            self.count(op.life, 0);
        }
        let message = &mut self.messages[message];
        assert!(*bytes == message.bytes[..], "a source is not written");
        let offered = message.bytes.len() > EAGER;
        match result.map_err(|error| error.errno) {
            Ok(transfer) => {
                assert_eq!(transfer.len, message.bytes.len());
                if offered {
                    message.fate = Fate::Copied;
                }
            }
            Err(Errno::EIO) => {
                assert!(self.faults.fails());
                if offered {
                    message.fate = Fate::Copied;
                }
            }
            Err(Errno::ECONNABORTED) => {
                assert!(self.faults.loses());
                message.fate = Fate::Lost;
            }
            Err(Errno::ECANCELED) => {
                assert!(offered && op.cancelled || closed);
                if closed && !self.faults.leave_matching_alone() {
                    message.fate = Fate::Unsure;
                } else if offered {
                    assert!(message.gone_at.is_some());
                    message.fate = Fate::Revoked;
                }
            }
            Err(Errno::ECONNRESET) => {
                assert!(offered && gone);
                message.fate = Fate::Refused;
            }
            Err(errno) => panic!("a send ended with {errno}"),
        }
    }

    fn received(&mut self, receive: usize, op: &Op, bytes: &[u8], result: Result<Transfer, OpError>) {
        let closed = !self.lives[op.life].open;
        let cut_off = matches!(result, Err(error) if error.errno == Errno::ECANCELED);
        let receive = &mut self.receives[receive];
        assert_eq!(receive.end, End::Waiting);
        receive.end = match cut_off {
            // The event may have been lost before.
            true if op.cancelled && !(closed && self.faults.overruns()) => End::Cancelled,
            true => {
                assert!(closed);
                End::Closed
            }
            false => End::Over,
        };
        if receive.multi {
            if let Ok(transfer) = result {
                assert_eq!((transfer.len, transfer.flags), (0, CompletionFlags::MULTI_RECV));
            }
            let mut rest = bytes;
            for got in &receive.got {
                assert!(rest.starts_with(&got.bytes));
                rest = &rest[got.used()..];
            }
            let cut = receive.got.last().is_some_and(|got| got.overflow > 0);
            let untouched = rest.iter().all(|byte| *byte == 0xee);
            assert!(cut || untouched || receive.end == End::Closed && self.faults.overruns(), "beyond the messages");
            return;
        }
        match result {
            Ok(transfer) => {
                let (message, rest) = bytes.split_at(transfer.len);
                assert!(rest.iter().all(|byte| *byte == 0xee), "written beyond its length");
                receive.got.push(Got::whole(transfer, message));
                self.count(op.life, 1);
            }
            Err(_) if receive.end == End::Closed && self.faults.overruns() => {}
            Err(_) if cut_off => {
                assert!(bytes.iter().all(|byte| *byte == 0xee), "written although it was cancelled");
            }
            Err(error) => {
                let len = error.len.unwrap_or(0);
                assert!(error.errno == Errno::EIO && self.faults.fails() || len == receive.len);
                assert!(bytes[len..].iter().all(|byte| *byte == 0xee), "written beyond its length");
                receive.got.push(Got::not_whole(error, bytes));
            }
        }
    }

    pub fn piece(&mut self, queue: usize, piece: &Piece<'_, Memory>) {
        let op = self.op(queue, piece.key());
        let (life, What::Receive(receive, _)) = (self.ops[op].life, self.ops[op].what.clone()) else {
            panic!("{piece:?} of {:?}", self.ops[op].what)
        };
        let receive = &mut self.receives[receive];
        assert!(receive.multi && receive.end == End::Waiting);
        match piece.result() {
            Ok(transfer) => {
                receive.got.push(Got::whole(transfer, piece.bytes()));
                self.count(life, 1);
            }
            Err(error) => receive.got.push(Got::not_whole(error, piece.bytes())),
        }
    }

    /// Records that all endpoints of a queue have made progress to the end: they hold no messages
    /// that were withdrawn before.
    pub fn moved_on(&mut self, queue: usize) {
        for message in &mut self.messages {
            message.let_go |= message.fate == Fate::Revoked && self.lives[message.to].queue == queue;
        }
    }

    /// Checks that only operations that cannot complete yet are in flight.
    pub fn assert_settled(&self) {
        for op in self.ops.iter().filter(|op| self.is_driven(op.life)) {
            let open = self.lives[op.life].open;
            match &op.what {
                What::Message(message) => {
                    let message = &self.messages[*message];
                    assert!(message.bytes.len() > EAGER && self.lives[message.to].is_there() && open);
                }
                What::Receive(..) => assert!(open),
                what => panic!("{what:?} has ended"),
            }
        }
        // A write that is lost, or is late when its writer closes, is not reported.
        let may_not_come = self.faults.kills() || !self.faults.leave_rma_alone();
        for (from, to) in &self.untold {
            assert!(may_not_come || !self.is_driven(*to) || !self.lives[*to].open, "{from} has written to {to}");
        }
    }

    /// Returns `true` if operations of an endpoint continue: it was not killed, and its queue
    /// works.
    pub fn is_driven(&self, life: usize) -> bool {
        !self.lives[life].dead.get() && !self.overrun[self.lives[life].queue]
    }
}

fn is(result: &Result<Transfer, OpError>, errno: Errno) -> bool {
    result.is_err_and(|error| error.errno == errno)
}
