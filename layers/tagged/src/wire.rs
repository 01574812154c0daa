//! Header of a packet: its layout and its checks.
//!
//! All numbers are little-endian. Fields that a kind does not use are zero.
//!
//! | offset | bytes | field | used by |
//! |---|---|---|---|
//! | 0 | 2 | magic: `LT` | all |
//! | 2 | 1 | version: 1 | all |
//! | 3 | 1 | kind | all |
//! | 4 | 4 | sequence number of the packet, from 0, modulo 2^32 | all |
//! | 8 | 4 | message credit: total of message packets that the receiver may send, modulo 2^32 | all |
//! | 12 | 4 | control credit: total of all other packets, modulo 2^32 | all |
//! | 16 | 4 | bytes that follow the header | all |
//! | 20 | 1 | flags (bit 0: has immediate data) | eager, request |
//! | 21 | 3 | zero | |
//! | 24 | 8 | tag | eager, request |
//! | 32 | 8 | immediate data | eager, request |
//! | 40 | 8 | bytes of a packet (hello), of the message (request), or of the wanted part (clear) | hello, request, clear |
//! | 48 | 8 | the sender's operation, or the receiver's (segment) | request, clear, segment, withdraw, withdrawn |
//! | 56 | 8 | the receiver's operation | clear |
//!
//! | kind | | credit | bytes follow |
//! |---|---|---|---|
//! | 1 | hello: first packet of either side, with its packet length and first credits | control | no |
//! | 2 | eager: a whole message | message | yes |
//! | 3 | request to send a message that does not fit | message | no |
//! | 4 | clear to send it, up to a length | control | no |
//! | 5 | segment: its next bytes | control | at least one |
//! | 6 | withdraw: the sender withdraws its request | control | no |
//! | 7 | withdrawn: the receiver confirms | control | no |
//! | 8 | credit: credits only | control | no |

use loom_core::vocabulary::{ImmediateData, Tag};

use crate::error::Violation;

/// Bytes of a header.
pub const HEADER_LEN: usize = 64;

const MAGIC: [u8; 2] = *b"LT";
const VERSION: u8 = 1;
const HAS_DATA: u8 = 1;

/// Header in front of a packet's bytes.
///
/// ```
/// use loom_core::Tag;
/// use loom_tagged::wire::{Body, HEADER_LEN, Header};
///
/// // A message of five bytes, as a packet.
/// let header = Header { seq: 1, credits: [16, 16], body: Body::Eager { tag: Tag(7), data: None } };
/// let mut packet = [0; HEADER_LEN + 5];
/// packet[..HEADER_LEN].copy_from_slice(&header.encode(5));
/// packet[HEADER_LEN..].copy_from_slice(b"hello");
/// assert_eq!(Header::decode(&packet)?, (header, &b"hello"[..]));
/// # Ok::<_, loom_tagged::Violation>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Sequence number.
    pub seq: u32,
    /// Totals of message packets and of other packets that the peer may send.
    pub credits: [u32; 2],
    /// Kind, with its fields.
    pub body: Body,
}

/// Kind of a packet, with its fields.
///
/// ```
/// use loom_core::Tag;
/// use loom_tagged::wire::Body;
///
/// /// How many bytes of a message a packet announces that does not carry them.
/// fn announced(body: &Body) -> Option<u64> {
///     match body {
///         Body::Request { len, .. } => Some(*len),
///         _ => None,
///     }
/// }
///
/// let body = Body::Request { tag: Tag(7), data: None, len: 100_000, sender: 1 };
/// assert_eq!((announced(&body), announced(&Body::Credit)), (Some(100_000), None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// First packet of either side.
    Hello {
        /// Bytes of the sender's packets.
        packet_size: u64,
    },
    /// A whole message.
    Eager {
        /// Tag.
        tag: Tag,
        /// Immediate data.
        data: Option<ImmediateData>,
    },
    /// A message that does not fit.
    Request {
        /// Tag.
        tag: Tag,
        /// Immediate data.
        data: Option<ImmediateData>,
        /// Length in bytes.
        len: u64,
        /// The sender's operation.
        sender: u64,
    },
    /// The answer to a request.
    Clear {
        /// Bytes wanted, from the beginning.
        len: u64,
        /// The sender's operation.
        sender: u64,
        /// The receiver's operation.
        receiver: u64,
    },
    /// The next bytes of a cleared message.
    Segment {
        /// The receiver's operation.
        receiver: u64,
    },
    /// The sender withdraws a request.
    Withdraw {
        /// The sender's operation.
        sender: u64,
    },
    /// The receiver will not answer a withdrawn request.
    Withdrawn {
        /// The sender's operation.
        sender: u64,
    },
    /// Credits only.
    Credit,
}

impl Header {
    /// Encodes the header of a packet with `follow` more bytes.
    #[must_use]
    pub fn encode(&self, follow: u32) -> [u8; HEADER_LEN] {
        let fields = self.body.fields();
        let mut bytes = [0; HEADER_LEN];
        let parts: [(usize, &[u8]); 12] = [
            (0, &MAGIC),
            (2, &[VERSION, self.body.kind()]),
            (4, &self.seq.to_le_bytes()),
            (8, &self.credits[0].to_le_bytes()),
            (12, &self.credits[1].to_le_bytes()),
            (16, &follow.to_le_bytes()),
            (20, &[fields.flags]),
            (24, &fields.tag.to_le_bytes()),
            (32, &fields.data.to_le_bytes()),
            (40, &fields.len.to_le_bytes()),
            (48, &fields.first.to_le_bytes()),
            (56, &fields.second.to_le_bytes()),
        ];
        for (at, part) in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
        }
        bytes
    }

    /// Decodes a packet into its header and the bytes that follow, exactly as
    /// [encoded](Self::encode).
    ///
    /// # Errors
    /// [`Violation::Short`], [`Violation::Magic`], [`Violation::Version`], [`Violation::Kind`],
    /// [`Violation::Length`], [`Violation::Unused`].
    pub fn decode(packet: &[u8]) -> Result<(Self, &[u8]), Violation> {
        let (header, follow) =
            packet.split_first_chunk::<HEADER_LEN>().ok_or(Violation::Short { len: packet.len() })?;
        if header[0..2] != MAGIC {
            return Err(Violation::Magic);
        }
        if header[2] != VERSION {
            return Err(Violation::Version(header[2]));
        }
        let fields = Fields {
            flags: header[20],
            tag: number(header, 24),
            data: number(header, 32),
            len: number(header, 40),
            first: number(header, 48),
            second: number(header, 56),
        };
        let body = Body::of(header[3], fields)?;
        if body.fields() != fields || header[21..24] != [0; 3] {
            return Err(Violation::Unused);
        }
        let has_bytes = match body {
            Body::Eager { .. } => true,
            Body::Segment { .. } => !follow.is_empty(),
            _ => follow.is_empty(),
        };
        if !has_bytes || usize::try_from(short(header, 16)) != Ok(follow.len()) {
            return Err(Violation::Length);
        }
        Ok((Header { seq: short(header, 4), credits: [short(header, 8), short(header, 12)], body }, follow))
    }
}

/// Zero where a body does not use them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Fields {
    flags: u8,
    tag: u64,
    data: u64,
    len: u64,
    first: u64,
    second: u64,
}

impl Body {
    const fn kind(&self) -> u8 {
        match self {
            Body::Hello { .. } => 1,
            Body::Eager { .. } => 2,
            Body::Request { .. } => 3,
            Body::Clear { .. } => 4,
            Body::Segment { .. } => 5,
            Body::Withdraw { .. } => 6,
            Body::Withdrawn { .. } => 7,
            Body::Credit => 8,
        }
    }

    fn fields(&self) -> Fields {
        let none = Fields::default();
        let message = |tag: Tag, data: Option<ImmediateData>| Fields {
            flags: if data.is_some() { HAS_DATA } else { 0 },
            tag: tag.0,
            data: data.map_or(0, u64::from),
            ..none
        };
        match *self {
            Body::Hello { packet_size } => Fields { len: packet_size, ..none },
            Body::Eager { tag, data } => message(tag, data),
            Body::Request { tag, data, len, sender } => Fields { len, first: sender, ..message(tag, data) },
            Body::Clear { len, sender, receiver } => Fields { len, first: sender, second: receiver, ..none },
            Body::Segment { receiver } => Fields { first: receiver, ..none },
            Body::Withdraw { sender } | Body::Withdrawn { sender } => Fields { first: sender, ..none },
            Body::Credit => none,
        }
    }

    /// Ignores fields that the kind does not use.
    fn of(kind: u8, fields: Fields) -> Result<Self, Violation> {
        let Fields { flags, tag, data, len, first, second } = fields;
        let tag = Tag(tag);
        let data = (flags & HAS_DATA != 0).then_some(ImmediateData(data));
        Ok(match kind {
            1 => Body::Hello { packet_size: len },
            2 => Body::Eager { tag, data },
            3 => Body::Request { tag, data, len, sender: first },
            4 => Body::Clear { len, sender: first, receiver: second },
            5 => Body::Segment { receiver: first },
            6 => Body::Withdraw { sender: first },
            7 => Body::Withdrawn { sender: first },
            8 => Body::Credit,
            kind => return Err(Violation::Kind(kind)),
        })
    }
}

fn number(header: &[u8; HEADER_LEN], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn short(header: &[u8; HEADER_LEN], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[at..at + 4]);
    u32::from_le_bytes(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn body() -> impl Strategy<Value = Body> {
        let message =
            || (any::<u64>(), any::<Option<u64>>()).prop_map(|(tag, data)| (Tag(tag), data.map(ImmediateData)));
        prop_oneof![
            any::<u64>().prop_map(|packet_size| Body::Hello { packet_size }),
            message().prop_map(|(tag, data)| Body::Eager { tag, data }),
            (message(), any::<[u64; 2]>()).prop_map(|((tag, data), [len, sender])| Body::Request {
                tag,
                data,
                len,
                sender
            }),
            any::<[u64; 3]>().prop_map(|[len, sender, receiver]| Body::Clear { len, sender, receiver }),
            any::<u64>().prop_map(|receiver| Body::Segment { receiver }),
            any::<u64>().prop_map(|sender| Body::Withdraw { sender }),
            any::<u64>().prop_map(|sender| Body::Withdrawn { sender }),
            Just(Body::Credit),
        ]
    }

    fn packet(header: &Header, follow: &[u8]) -> Vec<u8> {
        [&header.encode(u32::try_from(follow.len()).unwrap()), follow].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn encoded_headers_are_decoded(seq: u32, credits: [u32; 2], body in body(), bytes: Vec<u8>) {
            let header = Header { seq, credits, body };
            let follow = match body {
                Body::Eager { .. } => bytes,
                Body::Segment { .. } => [&[1], &*bytes].concat(),
                _ => Vec::new(),
            };
            let packet = packet(&header, &follow);
            prop_assert_eq!(Header::decode(&packet), Ok((header, &*follow)));
        }

        #[test]
        fn decoded_headers_encode_to_the_same_bytes(body in body(), at in 0..HEADER_LEN, byte: u8) {
            let header = Header { seq: 1, credits: [2, 3], body };
            let follow: &[u8] = if matches!(body, Body::Eager { .. } | Body::Segment { .. }) { b"bytes" } else { b"" };
            let mut bytes = packet(&header, follow);
            bytes[at] = byte;
            if let Ok((header, follow)) = Header::decode(&bytes) {
                prop_assert_eq!(packet(&header, follow), bytes);
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>) {
            let _ = Header::decode(&bytes);
        }
    }

    #[test]
    fn invalid_packets_are_refused() {
        let good = packet(&Header { seq: 0, credits: [1, 1], body: Body::Credit }, b"");
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Header::decode(&bytes).unwrap_err()
        };
        assert_eq!(Header::decode(&good[..63]), Err(Violation::Short { len: 63 }));
        assert_eq!(with(0, 0), Violation::Magic);
        assert_eq!(with(2, 2), Violation::Version(2));
        assert_eq!(with(3, 0), Violation::Kind(0));
        assert_eq!(with(3, 9), Violation::Kind(9));
        assert_eq!(with(16, 1), Violation::Length);
        for unused in [20, 21, 23, 24, 39, 40, 48, 63] {
            assert_eq!(with(unused, 1), Violation::Unused, "{unused}");
        }
        assert_eq!(Header::decode(&[&good[..], &[0]].concat()), Err(Violation::Length));
        let segment = packet(&Header { seq: 0, credits: [1, 1], body: Body::Segment { receiver: 1 } }, b"");
        assert_eq!(Header::decode(&segment), Err(Violation::Length));
    }
}
