use loom_core::completion::Done;
use loom_core::cq::PEER_EVENTS;
use loom_core::engine::op_table::OpKey;
use loom_core::vocabulary::Errno;

use super::step::{Faults, Setting};
use crate::memory::{Memory, drops};

const NUMBERED: usize = 31;

#[derive(Debug)]
pub struct Op {
    pub key: OpKey,
    pub kind: Kind,
    buffer: Option<usize>,
    pub end: Option<End>,
    pub cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Send(usize, usize),
    Receive(Channel),
    Write,
    Fetch,
    Peek(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Got(usize),
    Failed(Errno),
}

pub type Channel = (usize, Option<u64>);

#[derive(Debug)]
struct Message {
    channel: Channel,
    len: usize,
    /// Position among all posts.
    sent: Option<usize>,
}

struct Added {
    before: Option<u64>,
    operand: u64,
}

pub struct Book {
    setting: Setting,
    pub ops: Vec<Op>,
    messages: Vec<Message>,
    added: Vec<(OpKey, Added)>,
    notified: Vec<u32>,
    written: Vec<OpKey>,
    pub closing: bool,
}

fn bytes(number: usize, len: usize) -> Vec<u8> {
    let head = u32::try_from(number).unwrap().to_le_bytes();
    let rest = (head.len()..len).map(|at| (number * NUMBERED + at) as u8);
    head.into_iter().chain(rest).collect()
}

impl Book {
    pub fn new(setting: Setting) -> Self {
        let (ops, messages, added, notified, written) = Default::default();
        Book { setting, ops, messages, added, notified, written, closing: false }
    }

    pub fn draft(&mut self, channel: Channel, len: usize) -> (usize, Memory) {
        let number = self.messages.len();
        self.messages.push(Message { channel, len, sent: None });
        (number, Memory::new(&bytes(number, len)))
    }

    pub fn posted(&mut self, key: OpKey, kind: Kind, buffer: Option<usize>) {
        assert!(self.op(key).is_none(), "no two operations have one key");
        if let Kind::Send(number, _) = kind {
            let before = self.messages[number].sent.replace(self.ops.len());
            assert!(before.is_none(), "it is posted once");
        }
        self.ops.push(Op { key, kind, buffer, end: None, cancelled: false });
    }

    pub fn op(&self, key: OpKey) -> Option<&Op> {
        self.ops.iter().rev().find(|op| op.key == key)
    }

    fn op_mut(&mut self, key: OpKey) -> &mut Op {
        self.ops.iter_mut().rev().find(|op| op.key == key).expect("it was posted")
    }

    pub fn cancels(&mut self, key: OpKey) {
        self.op_mut(key).cancelled = true;
    }

    pub fn ended(&mut self, key: OpKey, end: End) {
        let op = self.op_mut(key);
        assert!(op.end.is_none(), "it ends once: {op:?}");
        op.end = Some(end);
    }

    pub fn done(&mut self, done: Done<Memory>) {
        let (key, result) = (done.key(), done.result());
        let buf = done.into_buf();
        let op = self.op(key).expect("it was posted");
        let (kind, cancelled) = (op.kind, op.cancelled);
        assert_eq!(op.buffer, Some(buf.id), "it is its own buffer");
        assert_eq!(drops(buf.id), 0);
        let end = match (result, kind) {
            (Ok(transfer), Kind::Receive(channel)) => End::Got(self.received(channel, &buf.bytes()[..transfer.len])),
            (Ok(_), _) => End::Done,
            (Err(error), _) => {
                self.may_fail(kind, error.errno, cancelled);
                End::Failed(error.errno)
            }
        };
        self.ended(key, end);
    }

    pub fn may_fail(&self, kind: Kind, errno: Errno, cancelled: bool) {
        let expected = match errno {
            Errno::ECANCELED => cancelled || self.closing,
            Errno::EIO | Errno::ECONNABORTED => self.setting.faults == Faults::Failing,
            Errno::ECONNRESET | Errno::EHOSTUNREACH => self.setting.faults == Faults::Killing,
            _ => false,
        };
        assert!(expected || self.closing, "{kind:?} ended with {errno:?}");
    }

    fn received(&mut self, channel: Channel, got: &[u8]) -> usize {
        let head = got.first_chunk().expect("each message has a number");
        let number = usize::try_from(u32::from_le_bytes(*head)).unwrap();
        let message = self.messages.get(number).expect("a number of a message");
        assert_eq!(message.channel, channel, "it is what was received for");
        assert!(message.sent.is_some(), "it was sent");
        assert_eq!(got, bytes(number, message.len), "it is unchanged");
        assert!(!self.ops.iter().any(|op| op.end == Some(End::Got(number))), "it comes once");
        number
    }

    pub fn found(&self, channel: Channel, len: usize) {
        let mut messages = self.messages.iter().filter(|message| message.channel == channel && message.sent.is_some());
        assert!(messages.any(|message| message.len == len), "there was such a message");
    }

    pub fn adds(&mut self, key: OpKey, operand: u64) {
        self.added.push((key, Added { before: None, operand }));
    }

    pub fn added(&mut self, key: OpKey, before: u64) {
        let (_, added) = self.added.iter_mut().find(|(of, _)| *of == key).expect("it was posted");
        added.before = Some(before);
    }

    pub fn next_write(&mut self) -> usize {
        self.notified.push(0);
        self.notified.len() - 1
    }

    pub fn writes(&mut self, key: OpKey) {
        self.written.push(key);
    }

    pub fn may_have_too_many_events(&self) -> bool {
        self.ops.iter().filter(|op| matches!(op.kind, Kind::Write | Kind::Peek(_))).count() >= PEER_EVENTS
    }

    pub fn notified(&mut self, data: u64) {
        let notified = self.notified.get_mut(usize::try_from(data).unwrap()).expect("it was written");
        *notified += 1;
        assert_eq!(*notified, 1, "it is notified once");
    }

    pub fn check_settled(&self) {
        if !self.setting.faults.keep_promises() || self.setting.forgets {
            return;
        }
        let written = self.written.iter().filter(|key| self.op(**key).is_some_and(|op| op.end == Some(End::Done)));
        let notified = self.notified.iter().sum::<u32>();
        assert!(usize::try_from(notified).unwrap() >= written.count(), "a peer is notified of each write");
        let channels = self.messages.iter().map(|message| message.channel);
        for channel in channels.filter(|channel| self.is_exact(*channel)) {
            let waiting = self.receives(channel).filter(|op| !op.has_gone()).count();
            let got = self.receives(channel).filter(|op| op.has_gone() && !op.was_cancelled()).count();
            let sent = self.sends(channel).filter(|op| !op.was_cancelled()).count();
            assert!(got <= sent, "each message is received once");
            assert!(
                waiting == 0 || got == sent,
                "{waiting} receives wait of {channel:?} for {sent} messages less {got}: {:#?}",
                self.ops
            );
        }
    }

    /// `false` while a cancelled operation of the channel lacks a result.
    fn is_exact(&self, channel: Channel) -> bool {
        !self.receives(channel).chain(self.sends(channel)).any(|op| op.cancelled && op.end.is_none())
    }

    fn receives(&self, channel: Channel) -> impl Iterator<Item = &Op> {
        self.ops.iter().filter(move |op| op.kind == Kind::Receive(channel))
    }

    fn sends(&self, channel: Channel) -> impl Iterator<Item = &Op> {
        let of = move |number: usize| self.messages[number].channel == channel;
        self.ops.iter().filter(move |op| matches!(op.kind, Kind::Send(number, _) if of(number)))
    }

    pub fn is_lent(&self, key: OpKey) {
        let op = self.op(key).expect("it was posted");
        assert!(op.end.is_some() || op.buffer.is_none_or(|buffer| drops(buffer) == 0), "{op:?} is waited for");
    }

    pub fn check_end(&self, total: u64) {
        self.check_order();
        self.check_sums(total);
    }

    fn check_order(&self) {
        let mut last: Vec<(Channel, usize)> = Vec::new();
        for op in &self.ops {
            let (Kind::Receive(channel), Some(End::Got(number))) = (op.kind, op.end) else { continue };
            let sent = self.messages[number].sent.expect("it was sent");
            match last.iter_mut().find(|(of, _)| *of == channel) {
                Some((_, before)) => {
                    assert!(*before < sent, "messages of {channel:?} come in their order");
                    *before = sent;
                }
                None => last.push((channel, sent)),
            }
        }
    }

    fn check_sums(&self, total: u64) {
        let fetched = |(_, added): &(OpKey, Added)| added.before.map(|before| (before, added.operand));
        let mut known: Vec<(u64, u64)> = self.added.iter().filter_map(fetched).collect();
        known.sort_unstable();
        let all = known.len() == self.added.len();
        let mut end = 0;
        for (before, operand) in known {
            assert!(before >= end && (!all || before == end), "two additions began with one number, or one is missing");
            end = before + operand;
        }
        assert!(end <= total && (!all || end == total), "{total} is not what was added up to");
    }
}

impl Op {
    /// Returns `true` if the operation has ended, or its unclaimed buffer was dropped.
    fn has_gone(&self) -> bool {
        self.end.is_some() || self.buffer.is_some_and(|buffer| drops(buffer) > 0)
    }

    fn was_cancelled(&self) -> bool {
        self.end == Some(End::Failed(Errno::ECANCELED))
    }

    pub fn may_take_long(&self) -> bool {
        match self.kind {
            Kind::Send(_, len) => len > super::EAGER,
            Kind::Receive(_) => true,
            Kind::Write | Kind::Fetch | Kind::Peek(_) => false,
        }
    }
}
