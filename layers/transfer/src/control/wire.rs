//! Form of control messages: a header of ten little-endian words of 32 bits, and a body.

use loom_core::vocabulary::Errno;
use loom_core::{Error, OpError};

use crate::event::Ending;
use crate::link::Number;
use crate::peers::PeerKey;

pub(crate) const HEADER: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hello = 1,
    /// Refuses the hello of the receiver. `number` is the [`Refusal`].
    Refuse = 2,
    /// Fragment of a notification.
    Notify = 3,
    /// The receiver of notifications has released them: `number`, and those in the body.
    Release = 4,
    /// Writes with the immediate data in `operations` have failed.
    Failure = 5,
    Ping = 6,
    Pong = 7,
    /// Address of a rail, after the key of its memory for writes of no bytes. `number` is the rail,
    /// `generation` the epoch of the sender's hello, `operations` the base of the memory.
    Rail = 8,
    /// Requests released numbers: the sender waits for room.
    Wait = 9,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Version = 1,
    Layout = 2,
    DataWidth = 3,
    Full = 4,
}

impl Refusal {
    pub(crate) const fn error(number: u32) -> Error {
        Error::Invalid(match number {
            1 => "the peer's engine has another version",
            2 => "the peer's engine has other `EngineAttr::message`, `notifications`, `fragments` or rails",
            3 => "immediate data is too narrow for the peer's `EngineAttr::values` and `notifications`",
            4 => "the peer's engine has no room: increase its `EngineAttr::peers`",
            _ => "the peer's engine refuses",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) fragment: u16,
    /// Sender's name at the receiver.
    pub(crate) to: PeerKey,
    /// Number of a notification or of a rail, or a [`Refusal`].
    pub(crate) number: u32,
    /// That of the number, or the epoch of a rail.
    pub(crate) generation: u32,
    /// Length of the notification in bytes.
    pub(crate) len: u32,
    /// By [`code`].
    pub(crate) ending: u32,
    /// Writes that may still arrive uncounted: failed, or in flight.
    pub(crate) late: u32,
    /// Number of successful writes, a value of immediate data, or the base of a rail's memory.
    pub(crate) operations: u64,
}

impl Header {
    pub(crate) const fn new(kind: Kind, to: PeerKey) -> Self {
        Header { kind, fragment: 0, to, number: 0, generation: 0, len: 0, ending: 0, late: 0, operations: 0 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a word of 64 bits as two")]
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let words = [
            self.kind as u32 | u32::from(self.fragment) << 16,
            self.to.index,
            self.to.generation,
            self.number,
            self.generation,
            self.len,
            self.ending,
            self.late,
            self.operations as u32,
            (self.operations >> 32) as u32,
        ];
        let mut out = [0; HEADER];
        put(&mut out, &words);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (words, body) = take::<10>(bytes)?;
        let [kind, index, peer, number, generation, len, ending, late, low, high] = words;
        #[expect(clippy::cast_possible_truncation, reason = "a word as two halves")]
        let (kind, fragment) = (kind as u16, (kind >> 16) as u16);
        let kind = match kind {
            1 => Kind::Hello,
            2 => Kind::Refuse,
            3 => Kind::Notify,
            4 => Kind::Release,
            5 => Kind::Failure,
            6 => Kind::Ping,
            7 => Kind::Pong,
            8 => Kind::Rail,
            9 => Kind::Wait,
            _ => return None,
        };
        let to = PeerKey { index, generation: peer };
        let operations = u64::from(low) | u64::from(high) << 32;
        Some((Header { kind, fragment, to, number, generation, len, ending, late, operations }, body))
    }
}

/// Form of a number in the body of a release.
impl Number {
    pub(crate) const LEN: usize = 8;

    pub(crate) fn encode(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        put(&mut out, &[self.index, self.generation]);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let ([index, generation], _) = take::<2>(bytes)?;
        Some(Number { index, generation })
    }
}

/// First words of a hello: its name and version. Later versions keep the place of the address.
const NAME: u32 = u32::from_le_bytes(*b"loom");
pub(crate) const VERSION: u32 = u32::from_le_bytes(*b"EH\x01\0");
const WORDS: usize = 9;

/// Limits of an engine, and numbers that it grants to a peer. The address of its control endpoint
/// follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    /// Receiver's name at the sender.
    pub(crate) from: PeerKey,
    /// Value of immediate data of the first number.
    pub(crate) first: u32,
    /// Bits of immediate data below the generation.
    pub(crate) bits: u8,
    /// Bytes of immediate data that the sender's rails carry.
    pub(crate) width: u8,
    pub(crate) rails: u8,
    /// The sender has received the receiver's hello.
    pub(crate) answers: bool,
    /// First generation of the numbers.
    pub(crate) epoch: u32,
    pub(crate) layout: Layout,
}

/// Sizes in which engines have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) notifications: u16,
    pub(crate) fragments: u16,
    pub(crate) message: u32,
}

impl Hello {
    pub(crate) const LEN: usize = 4 * WORDS;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let Layout { notifications, fragments, message } = self.layout;
        let words = [
            NAME,
            self.version,
            self.from.index,
            self.from.generation,
            self.first,
            u32::from_le_bytes([self.bits, self.width, self.rails, self.answers.into()]),
            self.epoch,
            u32::from(notifications) | u32::from(fragments) << 16,
            message,
        ];
        put(&mut out, &words);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let ([name, version, index, generation, first, small, epoch, sizes, message], address) = take::<WORDS>(bytes)?;
        let [bits, width, rails, answers] = small.to_le_bytes();
        #[expect(clippy::cast_possible_truncation, reason = "a word as two halves")]
        let layout = Layout { notifications: sizes as u16, fragments: (sizes >> 16) as u16, message };
        let (from, answers) = (PeerKey { index, generation }, answers != 0);
        let hello = Hello { version, from, first, bits, width, rails, answers, epoch, layout };
        (name == NAME).then_some((hello, address))
    }
}

fn put(out: &mut [u8], words: &[u32]) {
    for (chunk, word) in out.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
}

fn take<const N: usize>(bytes: &[u8]) -> Option<([u32; N], &[u8])> {
    let (head, rest) = bytes.split_at_checked(4 * N)?;
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(head.chunks_exact(4)) {
        *word = u32::from_le_bytes(chunk.try_into().ok()?);
    }
    Some((words, rest))
}

/// Kind of an ending and, in the upper 24 bits, an error number.
pub(crate) fn code(ending: &Ending) -> u32 {
    match ending {
        Ending::Done => 0,
        Ending::Failed(error) => {
            let errno = match error {
                Error::Operation(OpError { errno, .. }) | Error::Provider(errno) => *errno,
                _ => Errno::EIO,
            };
            1 | errno.as_raw().unsigned_abs() << 8
        }
        Ending::Cancelled => 2,
        Ending::Deadline => 3,
    }
}

pub(crate) fn ending(code: u32) -> Ending {
    match code & 0xFF {
        0 => Ending::Done,
        2 => Ending::Cancelled,
        3 => Ending::Deadline,
        _ => Ending::Failed(Error::Provider(Errno::from_raw(i32::try_from(code >> 8).unwrap_or(0)))),
    }
}
