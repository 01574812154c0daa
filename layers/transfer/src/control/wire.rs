//! Form of control messages: a header of ten little-endian words of 32 bits, and a body.

use loom_core::vocabulary::Errno;
use loom_core::{EndpointAddr, Error, OpError};

use crate::event::Ending;
use crate::link::Number;
use crate::peers::PeerKey;

pub(crate) const HEADER: usize = 40;

/// Receiver and kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Sender's name at the receiver.
    pub(crate) to: PeerKey,
    pub(crate) kind: Kind,
}

/// Operations of a failure before a signal: the receiver does not count them.
pub(crate) const UNCOUNTED: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Greeting, with a [`Hello`].
    Hello,
    /// Refuses the hello of the receiver.
    Refuse(Refusal),
    /// Fragment of a notification.
    Notify {
        number: Number,
        fragment: u16,
        head: NotificationHead,
    },
    /// The receiver of notifications has released this number, and those in the body.
    Release(Number),
    /// Writes with this immediate data have failed. The others are as in [`NotificationHead`].
    Failure {
        value: u64,
        ending: EndingCode,
        late: u32,
        operations: u64,
    },
    Ping,
    Pong,
    /// Memory of a rail for writes of no bytes, with a [`RailBody`]. `epoch` is that of the
    /// sender's hello.
    Rail {
        rail: u32,
        epoch: u32,
        base: u64,
    },
    /// Requests released numbers: the sender waits for room.
    Wait,
}

/// Words that all fragments of a notification have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotificationHead {
    /// Length of the notification in bytes.
    pub(crate) len: u32,
    pub(crate) ending: EndingCode,
    /// Writes that may still arrive uncounted: failed, or in flight.
    pub(crate) late: u32,
    /// Number of successful writes.
    pub(crate) operations: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let (kind, [first, second, len, ending, late], value) = match self.kind {
            Kind::Hello => (1, [0; 5], 0),
            Kind::Refuse(reason) => (2, [reason as u32, 0, 0, 0, 0], 0),
            Kind::Notify { number: Number { index, generation }, fragment, head } => {
                let NotificationHead { len, ending, late, operations } = head;
                (3 | u32::from(fragment) << 16, [index, generation, len, ending.0, late], operations)
            }
            Kind::Release(Number { index, generation }) => (4, [index, generation, 0, 0, 0], 0),
            Kind::Failure { value, ending, late, operations } => {
                let [first, second] = halves(operations);
                (5, [first, second, 0, ending.0, late], value)
            }
            Kind::Ping => (6, [0; 5], 0),
            Kind::Pong => (7, [0; 5], 0),
            Kind::Rail { rail, epoch, base } => (8, [rail, epoch, 0, 0, 0], base),
            Kind::Wait => (9, [0; 5], 0),
        };
        let [low, high] = halves(value);
        let mut out = [0; HEADER];
        put(&mut out, &[kind, self.to.index, self.to.generation, first, second, len, ending, late, low, high]);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let ([kind, index, generation, first, second, len, ending, late, low, high], body) = take::<10>(bytes)?;
        let (to, number) = (PeerKey { index, generation }, Number { index: first, generation: second });
        let (ending, value) = (EndingCode(ending), whole([low, high]));
        #[expect(clippy::cast_possible_truncation, reason = "a word as two halves")]
        let (kind, fragment) = (kind as u16, (kind >> 16) as u16);
        let kind = match kind {
            1 => Kind::Hello,
            2 => Kind::Refuse(Refusal::decode(first)),
            3 => {
                let head = NotificationHead { len, ending, late, operations: value };
                Kind::Notify { number, fragment, head }
            }
            4 => Kind::Release(number),
            5 => Kind::Failure { value, ending, late, operations: whole([first, second]) },
            6 => Kind::Ping,
            7 => Kind::Pong,
            8 => Kind::Rail { rail: first, epoch: second, base: value },
            9 => Kind::Wait,
            _ => return None,
        };
        Some((Header { to, kind }, body))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Reason of another version.
    Other = 0,
    Version = 1,
    Layout = 2,
    DataWidth = 3,
    Full = 4,
    /// The address belongs to another peer, or one with another number of rails.
    Taken = 5,
}

impl Refusal {
    const fn decode(word: u32) -> Self {
        match word {
            1 => Refusal::Version,
            2 => Refusal::Layout,
            3 => Refusal::DataWidth,
            4 => Refusal::Full,
            5 => Refusal::Taken,
            _ => Refusal::Other,
        }
    }

    pub(crate) const fn error(self) -> Error {
        Error::Invalid(match self {
            Refusal::Version => "the peer's engine has another version: run one version of loom on both sides",
            Refusal::Layout => {
                "the peer's engine has another layout: set `EngineAttr::message`, `notifications` and `fragments` alike"
            }
            Refusal::DataWidth => {
                "immediate data is too narrow for both engines: reduce `EngineAttr::values` or `notifications`"
            }
            Refusal::Full => "the peer's engine has no room: increase its `EngineAttr::peers`",
            Refusal::Taken => "the peer's engine has this address for another peer: remove that peer there",
            Refusal::Other => "the peer's engine has a reason of its version: run one version of loom on both sides",
        })
    }
}

/// Kind of an [`Ending`] and, in the upper 24 bits, an error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndingCode(u32);

impl EndingCode {
    pub(crate) fn encode(ending: &Ending) -> Self {
        EndingCode(match ending {
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
        })
    }

    pub(crate) fn decode(self) -> Ending {
        match self.0 & 0xFF {
            0 => Ending::Done,
            2 => Ending::Cancelled,
            3 => Ending::Deadline,
            _ => Ending::Failed(Error::Provider(Errno::from_raw(i32::try_from(self.0 >> 8).unwrap_or(0)))),
        }
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
    /// Length without the address.
    pub(crate) const LEN: usize = 4 * WORDS;

    /// Writes the body, and returns its length.
    pub(crate) fn encode(&self, address: &EndpointAddr, out: &mut [u8]) -> usize {
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
        let (head, rest) = out.split_at_mut(Self::LEN);
        put(head, &words);
        Self::LEN + put_address(address, rest)
    }

    pub(crate) fn decode(body: &[u8]) -> Option<(Self, EndpointAddr)> {
        let ([name, version, index, generation, first, small, epoch, sizes, message], address) = take::<WORDS>(body)?;
        let [bits, width, rails, answers] = small.to_le_bytes();
        #[expect(clippy::cast_possible_truncation, reason = "a word as two halves")]
        let layout = Layout { notifications: sizes as u16, fragments: (sizes >> 16) as u16, message };
        let (from, answers) = (PeerKey { index, generation }, answers != 0);
        let hello = Hello { version, from, first, bits, width, rails, answers, epoch, layout };
        let (address, _) = EndpointAddr::decode(address).ok()?;
        (name == NAME).then_some((hello, address))
    }
}

/// Key of a rail's memory. The address of the rail follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RailBody {
    pub(crate) key: u64,
}

impl RailBody {
    /// Length without the address.
    pub(crate) const LEN: usize = 8;

    pub(crate) fn encode(self, address: &EndpointAddr, out: &mut [u8]) -> usize {
        let (head, rest) = out.split_at_mut(Self::LEN);
        head.copy_from_slice(&self.key.to_le_bytes());
        Self::LEN + put_address(address, rest)
    }

    pub(crate) fn decode(body: &[u8]) -> Option<(Self, EndpointAddr)> {
        let (key, address) = body.split_first_chunk()?;
        let (address, _) = EndpointAddr::decode(address).ok()?;
        Some((RailBody { key: u64::from_le_bytes(*key) }, address))
    }
}

fn put_address(address: &EndpointAddr, out: &mut [u8]) -> usize {
    // `check_message_len` has found that it fits.
    address.encode(out).unwrap_or(0)
}

#[expect(clippy::cast_possible_truncation, reason = "a word of 64 bits as two")]
const fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
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
