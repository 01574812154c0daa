//! Messages and ranges of a session, with their bytes.

use core::ops::Range;
use std::vec::Vec;

use loom_core::{Tag, TagMatch};

#[derive(Clone, Copy, Debug)]
pub(super) struct Lens {
    pub(super) short: usize,
    pub(super) long: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) tag: Option<u64>,
    pub(super) len: usize,
    pub(super) has_data: bool,
    pub(super) is_injected: bool,
    pub(super) is_delivered: bool,
    /// Its receive is posted after its arrival.
    pub(super) is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Message(usize),
    WriteRanges,
    WriteData,
    InjectWrite,
    Read,
    ReadRanges,
}

/// Steps of one side. Those with late receives are the last ones: a message without room holds up
/// all that follow.
pub(super) const STEPS: [Step; 15] = [
    Step::Message(0),
    Step::Message(1),
    Step::WriteRanges,
    Step::Message(2),
    Step::Read,
    Step::Message(3),
    Step::WriteData,
    Step::Message(4),
    Step::InjectWrite,
    Step::ReadRanges,
    Step::Message(5),
    Step::Message(6),
    Step::Message(7),
    Step::Message(8),
    Step::Message(9),
];

pub(super) fn messages(Lens { short, long }: Lens) -> [Message; 10] {
    let plain =
        Message { tag: None, len: short, has_data: false, is_injected: false, is_delivered: false, is_late: false };
    let delivered = Message { is_delivered: true, ..plain };
    let tagged = Message { tag: Some(0x700), ..plain };
    [
        Message { len: 0, ..plain },
        Message { has_data: true, ..plain },
        Message { len: long, ..plain },
        Message { is_injected: true, ..plain },
        Message { len: long, ..delivered },
        tagged,
        Message { tag: Some(0x842), has_data: true, ..delivered },
        Message { tag: Some(0x701), is_injected: true, ..tagged },
        Message { tag: Some(0x702), is_late: true, ..tagged },
        Message { len: long, is_late: true, ..delivered },
    ]
}

pub(super) fn accepted(tag: u64) -> TagMatch {
    if tag == 0x842 { TagMatch { tag: Tag(0x800), ignore: 0xff } } else { Tag(tag).into() }
}

/// Ranges of a region, with gaps between them.
pub(super) struct Areas {
    pub(super) ranges: [Range<usize>; 2],
    pub(super) data: Range<usize>,
    pub(super) injected: Range<usize>,
    pub(super) source: Range<usize>,
    pub(super) len: usize,
}

pub(super) fn areas(Lens { short, long }: Lens) -> Areas {
    const GAP: usize = 4;
    let mut end = 0;
    let mut next = |len| {
        let start = end + GAP;
        end = start + len;
        start..end
    };
    let (ranges, data, injected, source) = ([next(short), next(long)], next(long), next(short), next(long));
    Areas { ranges, data, injected, source, len: end + GAP }
}

#[derive(Clone, Copy)]
pub(super) enum Payload {
    Message(usize),
    WriteRanges,
    WriteData,
    InjectWrite,
    Source,
}

/// Bytes without zeros, which begin differently for each payload.
pub(super) fn pattern(seed: usize, side: usize, payload: Payload, len: usize) -> Vec<u8> {
    let number = match payload {
        Payload::Message(index) => index,
        Payload::WriteRanges => 10,
        Payload::WriteData => 11,
        Payload::InjectWrite => 12,
        Payload::Source => 13,
    };
    let start = seed * 37 + (side * 14 + number) * 9;
    (start..start + len).map(|at| (at % 251) as u8 + 1).collect()
}
