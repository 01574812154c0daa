//! Messages between initiators and targets: notifications of engines, in little-endian bytes.

use crate::layout::{FlowLayout, GrainLayout, SampleLayout};

const VERSION: u8 = 1;

/// Number of a transfer among those of an attachment.
pub(crate) type Sequence = u32;

/// Name of an attachment, which the initiator chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Differs between initiators at one address.
    pub(crate) instance: u32,
    pub(crate) number: u32,
}

impl Token {
    /// Returns the token, and goes on to the next one.
    pub(crate) fn take(&mut self) -> Self {
        let token = *self;
        self.number = self.number.wrapping_add(1);
        token
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The initiator requests room from a number on, after so many transfers: to begin
    /// (`is_first`), instead of a failed attachment, or in one that goes on.
    Attach { flow: u32, token: Token, is_first: bool, layout: FlowLayout, next: u64, sequence: Sequence },
    /// The transfer wrote slices of a grain.
    Slices { flow: u32, token: Token, index: u64, start: u16, end: u16, invalid: bool, sequence: Sequence },
    /// The transfer wrote samples.
    Samples { flow: u32, token: Token, start: u64, count: u32, sequence: Sequence },
    /// The initiator has ended, after so many transfers.
    Detach { flow: u32, token: Token, sequence: Sequence },
    /// Grains or samples below the limit may be written. Transfers up to a sequence have been
    /// processed. `answers` an `Attach`.
    Granted { token: Token, limit: u64, processed: Sequence, answers: bool },
    /// The initiator may not write.
    Refused { token: Token, reason: Refusal },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Unknown,
    Layout,
    Busy,
    Protocol,
    Closed,
}

pub(crate) const MAX_LEN: usize = 64;

struct Writer {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Writer {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some(to) = self.bytes.get_mut(self.len..self.len + N) {
            to.copy_from_slice(&bytes);
            self.len += N;
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

pub(crate) fn encode_layout(layout: &FlowLayout) -> [u8; 28] {
    let words = match *layout {
        FlowLayout::Grains(GrainLayout { header, slice_len: [a, b, c, d], slices, slot_align }, slots) => {
            [0, header, a, b, c, d, slot_align.trailing_zeros() << 16 | u32::from(slices), slots]
        }
        FlowLayout::Samples(SampleLayout { word, channels, period, len }) => {
            [1, word.into(), channels.into(), period, len, 0, 0, 0]
        }
    };
    let mut bytes = [0; 28];
    // Above the two bytes of the number of slices.
    for (to, word) in bytes.chunks_exact_mut(4).zip(&words[1..]) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes[23] = if words[0] == 0 { 0 } else { 1 };
    bytes
}

pub(crate) fn decode_layout(bytes: [u8; 28]) -> Option<FlowLayout> {
    let mut words = [0; 7];
    for (word, from) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes(from.try_into().ok()?);
    }
    let [first, a, b, c, d, tagged, slots] = words;
    let short = |word| u16::try_from(word).ok();
    let layout = match tagged >> 24 {
        0 => {
            let (slices, slot_align) = (short(tagged & 0xffff)?, 1_u32.checked_shl(tagged >> 16)?);
            let layout = GrainLayout { header: first, slice_len: [a, b, c, d], slices, slot_align };
            FlowLayout::Grains(layout, slots)
        }
        1 => FlowLayout::Samples(SampleLayout { word: short(first)?, channels: short(a)?, period: b, len: c }),
        _ => return None,
    };
    layout.is_valid().then_some(layout)
}

impl Message {
    pub(crate) fn encode(&self) -> ([u8; MAX_LEN], usize) {
        let mut out = Writer { bytes: [0; MAX_LEN], len: 0 };
        let mut head = |kind: u8, flag: u8, token: Token| {
            out.put([VERSION, kind, flag, 0]);
            out.put(token.instance.to_le_bytes());
            out.put(token.number.to_le_bytes());
        };
        match *self {
            Message::Attach { flow, token, is_first, layout, next, sequence } => {
                head(0, is_first.into(), token);
                out.put(flow.to_le_bytes());
                out.put(sequence.to_le_bytes());
                out.put(next.to_le_bytes());
                out.put(encode_layout(&layout));
            }
            Message::Slices { flow, token, index, start, end, invalid, sequence } => {
                head(1, invalid.into(), token);
                out.put(flow.to_le_bytes());
                out.put(sequence.to_le_bytes());
                out.put(index.to_le_bytes());
                out.put(start.to_le_bytes());
                out.put(end.to_le_bytes());
            }
            Message::Samples { flow, token, start, count, sequence } => {
                head(2, 0, token);
                out.put(flow.to_le_bytes());
                out.put(sequence.to_le_bytes());
                out.put(start.to_le_bytes());
                out.put(count.to_le_bytes());
            }
            Message::Detach { flow, token, sequence } => {
                head(3, 0, token);
                out.put(flow.to_le_bytes());
                out.put(sequence.to_le_bytes());
            }
            Message::Granted { token, limit, processed, answers } => {
                head(4, answers.into(), token);
                out.put(limit.to_le_bytes());
                out.put(processed.to_le_bytes());
            }
            Message::Refused { token, reason } => head(5, reason as u8, token),
        }
        (out.bytes, out.len)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Reader(bytes);
        let [VERSION, kind, flag, 0] = bytes.take()? else { return None };
        let token = Token { instance: bytes.u32()?, number: bytes.u32()? };
        let message = match kind {
            0 => {
                let (flow, sequence, next) = (bytes.u32()?, bytes.u32()?, bytes.u64()?);
                Message::Attach {
                    flow,
                    token,
                    is_first: flag == 1,
                    layout: decode_layout(bytes.take()?)?,
                    next,
                    sequence,
                }
            }
            1 => {
                let (flow, sequence, index) = (bytes.u32()?, bytes.u32()?, bytes.u64()?);
                let (start, end, invalid) = (bytes.u16()?, bytes.u16()?, flag == 1);
                Message::Slices { flow, token, index, start, end, invalid, sequence }
            }
            2 => {
                let (flow, sequence, start, count) = (bytes.u32()?, bytes.u32()?, bytes.u64()?, bytes.u32()?);
                Message::Samples { flow, token, start, count, sequence }
            }
            3 => Message::Detach { flow: bytes.u32()?, token, sequence: bytes.u32()? },
            4 => Message::Granted { token, limit: bytes.u64()?, processed: bytes.u32()?, answers: flag == 1 },
            5 => {
                let reasons = [Refusal::Unknown, Refusal::Layout, Refusal::Busy, Refusal::Protocol, Refusal::Closed];
                Message::Refused { token, reason: *reasons.get(usize::from(flag))? }
            }
            _ => return None,
        };
        (bytes.0.is_empty() && flag <= Refusal::Closed as u8).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Message; 8] {
        let layout = FlowLayout::Grains(GrainLayout::v210a(1920, 1080).with_header(8192).with_slot_align(1 << 31), 12);
        let samples = FlowLayout::Samples(SampleLayout { word: 4, channels: 64, period: 48, len: 9600 });
        let token = Token { instance: 77, number: u32::MAX };
        [
            Message::Attach { flow: 3, token, is_first: false, layout, next: u64::MAX, sequence: 7 },
            Message::Attach { flow: 3, token, is_first: true, layout: samples, next: 0, sequence: 0 },
            Message::Slices { flow: 1, token, index: 1 << 40, start: 3, end: 1080, invalid: true, sequence: 9 },
            Message::Samples { flow: u32::MAX, token, start: 77, count: 48, sequence: 1 },
            Message::Detach { flow: 0, token, sequence: 5 },
            Message::Granted { token, limit: 99, processed: 6, answers: true },
            Message::Granted { token, limit: 99, processed: 6, answers: false },
            Message::Refused { token, reason: Refusal::Busy },
        ]
    }

    #[test]
    fn messages_survive_their_bytes() {
        for message in all() {
            let (bytes, len) = message.encode();
            assert_eq!(Message::decode(&bytes[..len]), Some(message));
        }
    }

    #[test]
    fn other_lengths_versions_and_kinds_are_refused() {
        for message in all() {
            let (bytes, len) = message.encode();
            for cut in 0..len {
                assert_eq!(Message::decode(&bytes[..cut]), None, "{message:?} without its end");
            }
            let mut long = bytes.to_vec();
            long.resize(len + 1, 0);
            assert_eq!(Message::decode(&long), None);
            for (at, byte) in [(0, 2), (1, 6), (2, 9), (3, 1)] {
                let mut other = bytes;
                other[at] = byte;
                assert_eq!(Message::decode(&other[..len]), None, "{message:?} with {byte} at {at}");
            }
        }
    }

    #[test]
    fn layouts_without_bytes_or_beyond_an_address_space_are_refused() {
        let none = GrainLayout { header: 0, slice_len: [0; 4], slices: 1, slot_align: 1 };
        let odd = SampleLayout { word: 4, channels: 2, period: 48, len: 50 };
        let long = GrainLayout { header: 0, slice_len: [u32::MAX; 4], slices: u16::MAX, slot_align: 1 };
        for layout in [
            FlowLayout::Grains(none, 1),
            FlowLayout::Samples(odd),
            FlowLayout::Grains(GrainLayout::smpte291(), 0),
            FlowLayout::Grains(long, u32::MAX),
        ] {
            assert_eq!(decode_layout(encode_layout(&layout)), None, "{layout:?}");
        }
    }
}
