//! [`Frame`]: header of each message on an open connection, `struct xnet_base_hdr` of libfabric.
//!
//! ```text
//! byte  0     version
//!       1     op
//!       2–3   flags
//!       4     op_data: 2 in an acknowledgement, or the number of a rendezvous
//!       5     rma_iov_cnt: number of ranges
//!       6     hdr_size: length of the header
//!       7     id: number of the frame
//!       8–15  size: length of the frame with header and payload
//!      16–    words of 8 bytes: immediate data, tag, length of an announced message, ranges
//! ```
//!
//! Flags, size and words have the byte order of the connection.

use heapless::Vec;

use super::{ByteOrder, Violation};

/// Maximum number of ranges of remote memory in one operation.
pub const MAX_PARTS: usize = 4;

/// Maximum length of a header in bytes.
pub const MAX_HEADER: usize = BASE + 8 + MAX_PARTS * PART;

const BASE: usize = 16;
const PART: usize = 24;
const VERSION: u8 = 3;
/// Bit of the flags: a word of immediate data follows.
const HAS_DATA: u16 = 1;
/// `op_data` of an acknowledgement.
const ACKNOWLEDGEMENT: u8 = 2;
/// Numbers that no rendezvous has.
const UNUSED_NUMBERS: [u8; 2] = [0, 255];

bitflags::bitflags! {
    /// Requests of a sender for an acknowledgement.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FrameFlags: u16 {
        /// The payload is in the receiver's memory (`FI_DELIVERY_COMPLETE`,
        /// `FI_TRANSMIT_COMPLETE`).
        const DELIVERY_COMPLETE = 0x4;
        /// The payload is in persistent memory (`FI_COMMIT_COMPLETE`).
        const COMMIT_COMPLETE = 0x8;
    }
}

/// Range of the receiver's memory: `struct fi_rma_iov`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteRange {
    /// Offset in the region, or virtual address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Key of the region.
    pub key: u64,
}

/// Operation, as in byte 1 of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Opcode {
    /// Also an acknowledgement.
    Message = 0,
    Tagged = 1,
    ReadRequest = 2,
    ReadResponse = 3,
    Write = 4,
    ReadyToSend = 5,
    ClearToSend = 6,
    Rendezvous = 7,
}

impl Opcode {
    const fn parse(op: u8) -> Result<Self, Violation> {
        Ok(match op {
            0 => Opcode::Message,
            1 => Opcode::Tagged,
            2 => Opcode::ReadRequest,
            3 => Opcode::ReadResponse,
            4 => Opcode::Write,
            5 => Opcode::ReadyToSend,
            6 => Opcode::ClearToSend,
            7 => Opcode::Rendezvous,
            _ => return Err(Violation::Operation(op)),
        })
    }
}

/// Content of the frames with an opcode.
struct Shape {
    /// Number of words behind the immediate data, without those of ranges.
    words: usize,
    has_parts: bool,
    has_rendezvous_number: bool,
    /// `false` for rendezvous data, which repeats the flags of its announcement.
    may_have_data: bool,
    may_have_payload: bool,
}

impl Shape {
    const fn of(opcode: Opcode) -> Self {
        Shape {
            words: match opcode {
                Opcode::Tagged => 1,
                Opcode::ReadyToSend => 2,
                _ => 0,
            },
            has_parts: matches!(opcode, Opcode::ReadRequest | Opcode::Write),
            has_rendezvous_number: matches!(opcode, Opcode::ReadyToSend | Opcode::ClearToSend | Opcode::Rendezvous),
            may_have_data: matches!(opcode, Opcode::Message | Opcode::Tagged | Opcode::Write | Opcode::ReadyToSend),
            may_have_payload: !matches!(opcode, Opcode::ReadRequest | Opcode::ReadyToSend | Opcode::ClearToSend),
        }
    }
}

/// By opcode.
static SHAPES: [Shape; 8] = [
    Shape::of(Opcode::Message),
    Shape::of(Opcode::Tagged),
    Shape::of(Opcode::ReadRequest),
    Shape::of(Opcode::ReadResponse),
    Shape::of(Opcode::Write),
    Shape::of(Opcode::ReadyToSend),
    Shape::of(Opcode::ClearToSend),
    Shape::of(Opcode::Rendezvous),
];

/// Operation of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Message without a tag.
    Message {
        /// Immediate data.
        data: Option<u64>,
    },
    /// Message with a tag.
    Tagged {
        /// Tag.
        tag: u64,
        /// Immediate data.
        data: Option<u64>,
    },
    /// Acknowledgement of the oldest operation that requested one.
    Acknowledgement,
    /// Request for the bytes of these ranges.
    ReadRequest {
        /// Ranges.
        parts: Vec<RemoteRange, MAX_PARTS>,
    },
    /// Bytes of the oldest read request.
    ReadResponse,
    /// Bytes for these ranges.
    Write {
        /// Immediate data.
        data: Option<u64>,
        /// Ranges.
        parts: Vec<RemoteRange, MAX_PARTS>,
    },
    /// Announcement of a tagged message (rendezvous).
    ReadyToSend {
        /// Number of the rendezvous, from 1 to 254.
        id: u8,
        /// Tag.
        tag: u64,
        /// Length of the message in bytes.
        len: u64,
        /// Immediate data.
        data: Option<u64>,
    },
    /// Request for an announced message.
    ClearToSend {
        /// Number of the rendezvous.
        id: u8,
    },
    /// Bytes of an announced message.
    Rendezvous {
        /// Number of the rendezvous.
        id: u8,
    },
}

/// Header of a message on an open connection.
///
/// ```
/// use loom_tcp::wire::{ByteOrder, Frame, FrameFlags, MAX_HEADER, Operation};
///
/// let frame = Frame {
///     operation: Operation::Tagged { tag: 7, data: None },
///     flags: FrameFlags::empty(),
///     payload: 5,
/// };
/// let mut bytes = [0; MAX_HEADER];
/// let len = frame.encode(ByteOrder::NATIVE, 0, &mut bytes);
/// assert_eq!(len, 24);
///
/// assert_eq!(Frame::parse(&bytes[..20], ByteOrder::NATIVE), Ok(None));
/// assert_eq!(Frame::parse(&bytes[..24], ByteOrder::NATIVE), Ok(Some((frame, 24))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Operation.
    pub operation: Operation,
    /// Requests for an acknowledgement.
    pub flags: FrameFlags,
    /// Number of bytes behind the header.
    pub payload: u64,
}

impl Frame {
    /// Writes the header and returns its length in bytes. `frame_number` counts the frames of this
    /// direction of the connection, modulo 256: debug builds of libfabric compare it.
    #[must_use]
    pub fn encode(&self, order: ByteOrder, frame_number: u8, out: &mut [u8; MAX_HEADER]) -> usize {
        let mut words = Words { order, out, at: BASE };
        let (opcode, op_data, parts) = match &self.operation {
            Operation::Message { .. } => (Opcode::Message, 0, 0),
            Operation::Acknowledgement => (Opcode::Message, ACKNOWLEDGEMENT, 0),
            Operation::Tagged { .. } => (Opcode::Tagged, 0, 0),
            Operation::ReadRequest { parts } => (Opcode::ReadRequest, 0, parts.len()),
            Operation::ReadResponse => (Opcode::ReadResponse, 0, 0),
            Operation::Write { parts, .. } => (Opcode::Write, 0, parts.len()),
            Operation::ReadyToSend { id, .. } => (Opcode::ReadyToSend, *id, 0),
            Operation::ClearToSend { id } => (Opcode::ClearToSend, *id, 0),
            Operation::Rendezvous { id } => (Opcode::Rendezvous, *id, 0),
        };
        let data = self.operation.data();
        if let Some(data) = data {
            words.push(data);
        }
        match &self.operation {
            Operation::Tagged { tag, .. } => words.push(*tag),
            Operation::ReadyToSend { tag, len, .. } => {
                words.push(*tag);
                words.push(*len);
            }
            Operation::ReadRequest { parts } | Operation::Write { parts, .. } => {
                for part in parts {
                    words.push(part.addr);
                    words.push(part.len);
                    words.push(part.key);
                }
            }
            _ => {}
        }
        let len = words.at;
        let flags = self.flags.bits() | if data.is_some() { HAS_DATA } else { 0 };
        #[expect(clippy::cast_possible_truncation, reason = "a header has at most 120 bytes and 4 parts")]
        let (hdr_size, rma_iov_cnt) = (len as u8, parts as u8);
        let [flags0, flags1] = match order {
            ByteOrder::Little => flags.to_le_bytes(),
            ByteOrder::Big => flags.to_be_bytes(),
        };
        let op = opcode as u8;
        out[..8].copy_from_slice(&[VERSION, op, flags0, flags1, op_data, rma_iov_cnt, hdr_size, frame_number]);
        Words { order, out, at: 8 }.push(self.payload + len as u64);
        len
    }

    /// Reads a header from the front of `bytes`, and returns it with its length in bytes.
    /// `Ok(None)` if `bytes` is the beginning of a header. The version, and the number of the
    /// frame, are ignored, as libfabric does.
    ///
    /// # Errors
    /// [`Violation::Operation`], [`Violation::HeaderSize`], [`Violation::FrameSize`],
    /// [`Violation::Parts`], [`Violation::PartLengths`], and [`Violation::Unsolicited`] for a
    /// rendezvous number that is never used.
    #[inline(always)]
    pub fn parse(bytes: &[u8], order: ByteOrder) -> Result<Option<(Self, usize)>, Violation> {
        let Some(base) = bytes.first_chunk::<BASE>() else { return Ok(None) };
        let [_, op, flags0, flags1, op_data, rma_iov_cnt, hdr_size, _, size @ ..] = *base;
        let flags = match order {
            ByteOrder::Little => u16::from_le_bytes([flags0, flags1]),
            ByteOrder::Big => u16::from_be_bytes([flags0, flags1]),
        };
        let size = order.word(size);
        let opcode = Opcode::parse(op)?;
        let shape = &SHAPES[opcode as usize];
        let is_ack = opcode == Opcode::Message && op_data == ACKNOWLEDGEMENT;
        let has_data = flags & HAS_DATA != 0 && shape.may_have_data && !is_ack;
        let parts = if shape.has_parts { usize::from(rma_iov_cnt) } else { 0 };
        if parts > MAX_PARTS {
            return Err(Violation::Parts(rma_iov_cnt));
        }
        let least = BASE + 8 * (shape.words + 3 * parts + usize::from(has_data));
        let len = usize::from(hdr_size);
        if len < least || len > MAX_HEADER {
            return Err(Violation::HeaderSize(hdr_size));
        }
        let payload = size.checked_sub(len as u64).ok_or(Violation::FrameSize(size))?;
        if payload > 0 && (!shape.may_have_payload || is_ack) {
            return Err(Violation::FrameSize(size));
        }
        if shape.has_rendezvous_number && UNUSED_NUMBERS.contains(&op_data) {
            return Err(Violation::Unsolicited(op));
        }
        let Some(rest) = bytes.get(BASE..len) else { return Ok(None) };
        let mut words = rest;
        let mut next = || match words.split_first_chunk() {
            Some((word, behind)) => {
                words = behind;
                order.word(*word)
            }
            None => 0,
        };
        let data = has_data.then(&mut next);
        let operation = match opcode {
            Opcode::Message if is_ack => Operation::Acknowledgement,
            Opcode::Message => Operation::Message { data },
            Opcode::Tagged => Operation::Tagged { tag: next(), data },
            Opcode::ReadRequest => Operation::ReadRequest { parts: ranges(parts, &mut next)?.0 },
            Opcode::ReadResponse => Operation::ReadResponse,
            Opcode::Write => {
                let (parts, total) = ranges(parts, &mut next)?;
                if total != payload {
                    return Err(Violation::PartLengths);
                }
                Operation::Write { data, parts }
            }
            Opcode::ReadyToSend => Operation::ReadyToSend { id: op_data, tag: next(), len: next(), data },
            Opcode::ClearToSend => Operation::ClearToSend { id: op_data },
            Opcode::Rendezvous => Operation::Rendezvous { id: op_data },
        };
        let flags = if is_ack { FrameFlags::empty() } else { FrameFlags::from_bits_truncate(flags) };
        Ok(Some((Frame { operation, flags, payload }, len)))
    }
}

impl Operation {
    /// Immediate data, if the operation has any.
    #[must_use]
    pub fn data(&self) -> Option<u64> {
        match self {
            Operation::Message { data }
            | Operation::Tagged { data, .. }
            | Operation::Write { data, .. }
            | Operation::ReadyToSend { data, .. } => *data,
            _ => None,
        }
    }
}

/// Ranges in a header, and the sum of their lengths.
fn ranges(count: usize, mut next: impl FnMut() -> u64) -> Result<(Vec<RemoteRange, MAX_PARTS>, u64), Violation> {
    let mut total = 0_u64;
    let mut parts = Vec::new();
    for _ in 0..count.min(MAX_PARTS) {
        let part = RemoteRange { addr: next(), len: next(), key: next() };
        total = total.checked_add(part.len).ok_or(Violation::PartLengths)?;
        let _ = parts.push(part);
    }
    Ok((parts, total))
}

impl ByteOrder {
    fn word(self, bytes: [u8; 8]) -> u64 {
        match self {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    }
}

struct Words<'a> {
    order: ByteOrder,
    out: &'a mut [u8; MAX_HEADER],
    at: usize,
}

impl Words<'_> {
    fn push(&mut self, word: u64) {
        let bytes = match self.order {
            ByteOrder::Little => word.to_le_bytes(),
            ByteOrder::Big => word.to_be_bytes(),
        };
        if let Some(place) = self.out.get_mut(self.at..self.at + 8) {
            place.copy_from_slice(&bytes);
            self.at += 8;
        }
    }
}
