//! Objects of completion queues over a [script](crate::scripted), beside an [oracle]. Each buffer
//! is returned once, no length exceeds the lent memory, and each completion has an event. The
//! script's notes give the order of returns in each of three lines: peers, receives, transmits.

mod oracle;
mod play;
mod story;

use arbitrary::Unstructured;
use loom_core::av::Av;
use loom_core::completion::{Completion, Done, OpError, Piece};
use loom_core::cq::{Cq, CqAttr, CqError, PEER_EVENTS};
use loom_core::endpoint::Endpoint;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::scope;
use loom_core::transport::{Event, Refusal};
use loom_core::vocabulary::{
    AddressFormat, Attributes, Caps, CompletionFlags, EndpointAddr, EndpointAttributes, EndpointType, Errno,
    ImmediateData, Mode, RxAttributes, Tag, TxAttributes,
};

use self::oracle::{Ending, Told};
use self::story::{Posting, Setting, Step};
use crate::memory::{self, Memory};
use crate::scripted::{Noted, Said, Script, Scripted};

/// Operations of the queue.
const DEPTH: usize = 6;
const PREFIX: usize = 16;
const LONGEST: usize = 64;

pub fn play(data: &[u8]) -> usize {
    const MOST: usize = 24;
    let mut bytes = Unstructured::new(data);
    let Ok(setting) = bytes.arbitrary::<Setting>() else { return 0 };
    memory::begin();
    let script = Script::new(attributes(setting));
    let mut played = 0;
    scope(|s| {
        let domain = s.open(&script.info()).expect("a script opens");
        let av = Av::open(&domain, 2).expect("the size is small");
        let address = EndpointAddr::new(AddressFormat::ADDR_STR, b"peer").expect("it is short");
        let peer = av.insert(&address).expect("the script takes it");
        let attr = CqAttr { separate: setting.separate, ..CqAttr::new(DEPTH) };
        let cq = Cq::open(&domain, attr).expect("the sizes are small");
        let mut world = World::new(&script, setting, &cq, &av, peer);
        while played < MOST && !bytes.is_empty() {
            let Ok(step) = bytes.arbitrary::<Step>() else { break };
            world.step(step);
            played += 1;
        }
        world.finish();
    });
    memory::assert_dropped_once();
    played
}

fn attributes(setting: Setting) -> Attributes {
    let caps = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::MULTI_RECV | Caps::SOURCE;
    let mut mode = Mode::empty();
    mode.set(Mode::CONTEXT2, setting.spaces);
    mode.set(Mode::MSG_PREFIX, setting.prefixes);
    mode.set(Mode::RX_CQ_DATA, setting.consumes);
    Attributes {
        caps,
        mode,
        endpoint: EndpointAttributes {
            kind: EndpointType::RDM,
            max_msg_size: LONGEST,
            msg_prefix_size: if setting.prefixes { PREFIX } else { 0 },
            ..EndpointAttributes::default()
        },
        tx: TxAttributes { caps, mode, inject_size: 8, iov_limit: 4, rma_iov_limit: 4, ..TxAttributes::default() },
        rx: RxAttributes { caps, mode, iov_limit: 4, ..RxAttributes::default() },
        ..Attributes::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    InFlight,
    /// Used up by a peer's write, and due to be posted again.
    UsedUp,
    /// A completed multi-receive with pieces outstanding.
    Draining,
    /// A peek that has claimed a message.
    Claimed,
    /// Ended, up to completions that are due.
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    key: OpKey,
    context: u64,
    what: Posting,
    life: usize,
    buffer: Option<usize>,
    first: usize,
    lent: usize,
    state: State,
    /// An event of it is in a queue. (Contexts that are addresses are reported once for each post.)
    reported: bool,
    cancelled: bool,
    /// End of a multi-receive, and number of its outstanding pieces.
    end: Option<OpError>,
    pieces: usize,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    Op(usize, Ending),
    Piece(usize, Ending),
    Peek(usize, Result<Option<(usize, Tag, Option<ImmediateData>)>, OpError>),
    Remote(Told),
    Unclaimed(OpError),
}

#[derive(Clone, Copy, PartialEq)]
enum Line {
    Peers,
    Receives,
    Transmits,
}

struct World<'w, 'm, 's> {
    script: &'s Script,
    setting: Setting,
    cq: &'w Cq<'m, Scripted<'s>, Memory>,
    av: &'w Av<'m, Scripted<'s>>,
    peer: Peer,
    endpoints: [Option<(usize, Endpoint<'m, Scripted<'s>, Memory>)>; 2],
    lives: usize,
    ops: Vec<Op>,
    due: Vec<(u32, Due)>,
    batch: u32,
    pieces: Vec<(usize, Piece<'m, Memory>)>,
    claims: Vec<(usize, loom_core::completion::Claim)>,
    /// Cancelled operations can still take slots of the table.
    closed: bool,
}

impl<'w, 'm, 's> World<'w, 'm, 's> {
    fn new(
        script: &'s Script,
        setting: Setting,
        cq: &'w Cq<'m, Scripted<'s>, Memory>,
        av: &'w Av<'m, Scripted<'s>>,
        peer: Peer,
    ) -> Self {
        let mut world = World {
            script,
            setting,
            cq,
            av,
            peer,
            endpoints: [None, None],
            lives: 0,
            ops: Vec::new(),
            due: Vec::new(),
            batch: 0,
            pieces: Vec::new(),
            claims: Vec::new(),
            closed: false,
        };
        world.open(false);
        world.open(true);
        world
    }

    /// Returns the last operation with this context.
    fn by_context(&self, context: u64) -> Option<usize> {
        self.ops.iter().rposition(|op| op.context == context)
    }

    fn line(&self, due: &Due) -> Line {
        match due {
            Due::Op(op, _) if !self.ops[*op].what.is_receive() => Line::Transmits,
            Due::Op(..) => Line::Receives,
            _ => Line::Peers,
        }
    }

    fn expect(&mut self, due: Due) {
        self.due.push((self.batch, due));
    }

    /// Processes the notes of the last call. Returns the reason if a queue failed or had no event
    /// after an announcement, which ends a call.
    fn take_notes(&mut self) -> Option<Said> {
        let mut ended = None;
        for note in self.script.notes.take() {
            self.batch += 1;
            match note {
                Noted::Said(Said::Event(event) | Said::Error(event)) => self.event_is_read(&event),
                Noted::Said(said) => ended = Some(said),
                Noted::Posted { context, refused, .. } => self.posted_again(context, refused),
            }
        }
        ended
    }

    /// A used-up receive is in flight again, or was refused.
    fn posted_again(&mut self, context: u64, refused: Option<Refusal>) {
        let op = self.by_context(context).expect("it was posted before");
        assert_eq!(self.ops[op].state, State::UsedUp, "nothing else is posted by polling");
        self.ops[op].state = match refused {
            None => State::InFlight,
            Some(Refusal::Again) => State::UsedUp,
            Some(Refusal::Errno(errno)) => {
                self.cut_off(op, errno);
                State::Over
            }
        };
    }

    /// Ends an operation without an event.
    fn cut_off(&mut self, op: usize, errno: Errno) {
        let event = Event::failure(0, self.ops[op].what.cut_off_flags(), errno);
        self.ops[op].state = State::Over;
        self.expect(Due::Op(op, Err(oracle::error(&event, errno, 0, 0))));
    }

    fn event_is_read(&mut self, event: &Event) {
        let op = self.by_context(event.context);
        if let Some(op) = op {
            self.ops[op].reported = false;
        }
        let live = op.filter(|op| self.ops[*op].state == State::InFlight);
        if oracle::is_peers(event) {
            if let Some(op) = live.filter(|_| self.setting.consumes) {
                match self.ops[op].what {
                    Posting::Receive | Posting::Scatter => self.ops[op].state = State::UsedUp,
                    Posting::TaggedReceive => self.cut_off(op, Errno::ECANCELED),
                    _ => {}
                }
            }
            return self.expect(Due::Remote(oracle::of_peer(event)));
        }
        let Some(op) = live else {
            // An event of an ended operation is not reported. A number with the form of a context
            // is taken for one.
            let generation_and_index = (event.context >> 32, event.context & u64::from(u32::MAX));
            let like_ours =
                !self.setting.spaces && generation_and_index.0 != 0 && generation_and_index.1 < DEPTH as u64;
            if op.is_none() && !like_ours && event.is_error() {
                self.expect(Due::Unclaimed(oracle::error(event, event.errno, event.len, event.overflow_or_place)));
            }
            return;
        };
        let Op { what, first, lent, .. } = self.ops[op];
        match what {
            Posting::MultiReceive => self.multi_receive_goes_on(op, event, first, lent),
            _ if what.is_peek() => {
                let answer = match event.errno {
                    Errno::ENOMSG => Ok(None),
                    errno if event.is_error() => Err(oracle::error(event, errno, event.len, event.overflow_or_place)),
                    _ => Ok(Some((event.len, event.tag, oracle::transfer(event, 0).data))),
                };
                let claimed = what == Posting::PeekClaim && matches!(answer, Ok(Some(_)));
                self.ops[op].state = if claimed { State::Claimed } else { State::Over };
                self.expect(Due::Peek(op, answer));
            }
            _ => {
                self.ops[op].state = State::Over;
                let prefix = if self.setting.prefixes { PREFIX } else { 0 };
                self.expect(Due::Op(op, oracle::ending(event, what, lent, prefix)));
            }
        }
    }

    /// Rule 8 of the op table, for a transport that flags the end of a cancelled operation.
    fn multi_receive_goes_on(&mut self, op: usize, event: &Event, first: usize, lent: usize) {
        let released = event.flags.contains(CompletionFlags::MULTI_RECV);
        let cancelled = event.errno == Errno::ECANCELED && (released || self.ops[op].cancelled);
        if !cancelled && (event.is_error() || event.flags.contains(CompletionFlags::RECV)) {
            self.ops[op].pieces += 1;
            self.expect(Due::Piece(op, oracle::piece(event, first, lent)));
        }
        if released {
            let end = oracle::error(event, event.errno, 0, event.overflow_or_place);
            self.ops[op].end = cancelled.then_some(end);
            self.ops[op].state = State::Draining;
            self.drained(op);
        }
    }

    /// Makes a completed multi-receive due after all its pieces are returned.
    fn drained(&mut self, op: usize) {
        if self.ops[op].state == State::Draining && self.ops[op].pieces == 0 {
            self.ops[op].state = State::Over;
            let flags = CompletionFlags::MULTI_RECV;
            let success = Told { flags, len: 0, tag: None, data: None, source: None };
            self.expect(Due::Op(op, self.ops[op].end.map_or(Ok(success), Err)));
        }
    }

    /// Checks that the completion was due, and first in its line.
    fn took(&mut self, completion: Completion<'m, Memory>) {
        let completion = match completion {
            Completion::Op(done) => return self.done(done, true),
            other => other,
        };
        let at = match &completion {
            Completion::Piece(piece) => self.due.iter().position(
                |(_, due)| matches!(due, Due::Piece(op, end) if self.ops[*op].key == piece.key() && *end == piece.result().map(Told::from)),
            ),
            Completion::Peek(peek) => self.due.iter().position(|(_, due)| {
                let answer = peek.message().map(|message| message.map(oracle::found));
                matches!(due, Due::Peek(op, wanted) if self.ops[*op].key == peek.key && *wanted == answer)
            }),
            Completion::Remote(event) => {
                let told = Told::from(*event);
                self.due.iter().position(|(_, due)| matches!(due, Due::Remote(wanted) if *wanted == told))
            }
            Completion::Unclaimed(error) => {
                self.due.iter().position(|(_, due)| matches!(due, Due::Unclaimed(wanted) if wanted == error))
            }
            other => panic!("{other:?} is new"),
        };
        let at = at.unwrap_or_else(|| panic!("{completion:?} is not due: {:?}", self.due));
        self.is_first(at);
        let (_, due) = self.due.remove(at);
        match (completion, due) {
            (Completion::Piece(piece), Due::Piece(op, end)) => self.hold(op, piece, end),
            (Completion::Peek(peek), Due::Peek(op, _)) => self.answered(op, peek),
            _ => {}
        }
    }

    /// Checks that earlier ones of its line belong to the same event, or to closing.
    fn is_first(&self, at: usize) {
        let (batch, due) = &self.due[at];
        let line = self.line(due);
        let before = self.due[..at].iter().find(|(before, due)| before < batch && self.line(due) == line);
        assert!(before.is_none(), "{before:?} was to come before {due:?}");
    }

    fn hold(&mut self, op: usize, piece: Piece<'m, Memory>, end: Ending) {
        let Op { first, lent, .. } = self.ops[op];
        let bytes = piece.bytes();
        assert_eq!(bytes.len(), end.map_or(0, |told| told.len));
        let begin = bytes.as_ptr().addr();
        assert!(bytes.is_empty() || begin >= first && begin + bytes.len() <= first + lent);
        // Reads each byte, which must be valid memory.
        std::hint::black_box(bytes.iter().fold(0_u8, |sum, byte| sum ^ byte));
        self.pieces.push((op, piece));
    }

    fn answered(&mut self, op: usize, peek: loom_core::completion::Peek) {
        let claim = peek.message().ok().flatten().and_then(|found| found.claim);
        // Closing the endpoint ends the claim, but the answer still contains it.
        assert_eq!(claim.is_some(), self.ops[op].what == Posting::PeekClaim && matches!(peek.message(), Ok(Some(_))));
        self.claims.extend(claim.map(|claim| (op, claim)));
    }

    fn done(&mut self, done: Done<Memory>, in_line: bool) {
        let is_it = |(_, due): &(u32, Due)| matches!(due, Due::Op(op, _) if self.ops[*op].key == done.key());
        let at = self.due.iter().position(is_it).unwrap_or_else(|| panic!("{done:?} is not due: {:?}", self.due));
        if in_line {
            self.is_first(at);
        }
        let (_, Due::Op(op, wanted)) = self.due.remove(at) else { unreachable!("found above") };
        assert_eq!(done.result().map(Told::from), wanted, "{:?}", self.ops[op]);
        assert_eq!(Some(done.buf().id), self.ops[op].buffer);
        assert_eq!(memory::drops(done.buf().id), 0);
        assert!(done.buf().bytes().iter().all(|byte| *byte == 0xee), "nobody writes to it");
        if let Err(error) = done.result() {
            self.words_for(&error);
        }
    }

    /// The provider's text is cut, but not changed.
    fn words_for(&self, error: &OpError) {
        let text = self.script.text.borrow();
        let shown = &text[..text.len().min(128)];
        let valid = std::str::from_utf8(shown)
            .unwrap_or_else(|bad| std::str::from_utf8(&shown[..bad.valid_up_to()]).expect("as far as it is valid"));
        assert_eq!(self.cq.error_text(error).as_str(), valid);
        let mut data = [0; 8];
        let len = self.cq.error_data(error, &mut data);
        assert_eq!(data[..len], text[..text.len().min(8)]);
    }

    fn check(&self) {
        let in_flight = self.ops.iter().filter(|op| matches!(op.state, State::InFlight | State::UsedUp)).count();
        assert_eq!(self.cq.in_flight(), in_flight);
        for (_, due) in &self.due {
            if let Due::Op(op, _) = due {
                let buffer = self.ops[*op].buffer.expect("it has one");
                assert_eq!(memory::drops(buffer), 0, "it is kept until somebody asks");
            }
        }
    }
}
