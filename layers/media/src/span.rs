use loom_transfer::{Block, Plan};

use crate::layout::{GrainLayout, MAX_PLANES, SampleLayout};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Index of the initiator's record of the transfer.
    pub(crate) sending: u32,
    pub(crate) blocks: Blocks,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Blocks {
    /// Slices of a grain, at these offsets of both rings.
    Slices {
        layout: GrainLayout,
        local: u64,
        remote: u64,
        start: u16,
        end: u16,
    },
    Samples {
        from: SampleLayout,
        to: SampleLayout,
        start: u64,
        count: u32,
    },
}

impl Blocks {
    /// Samples from `at` on that are one block for each channel, or, with `true`, one for all.
    fn run(from: &SampleLayout, to: &SampleLayout, at: u64, left: u64) -> (u64, bool) {
        let period = u64::from(from.period);
        if from.period == to.period && from.run(at) == period && to.run(at) == period && left >= period {
            let whole = left.min(from.before_end(at)).min(to.before_end(at));
            return (whole - whole % period, true);
        }
        (from.run(at).min(to.run(at)).min(left), false)
    }
}

impl Plan for Span {
    fn blocks(&self) -> usize {
        match self.blocks {
            Blocks::Slices { layout, start, end, .. } => match (start, end) {
                (start, end) if start == end => usize::from(start == 0 && layout.header > 0),
                (0, end) if end == layout.slices => 1,
                _ => layout.planes(),
            },
            Blocks::Samples { from, to, start, count } => {
                let (mut at, end, mut blocks) = (start, start + u64::from(count), 0);
                while at < end {
                    let (samples, is_whole) = Blocks::run(&from, &to, at, end - at);
                    blocks += if is_whole { 1 } else { usize::from(from.channels) };
                    at += samples;
                }
                blocks
            }
        }
    }

    fn block(&self, index: usize) -> Block {
        match self.blocks {
            Blocks::Slices { layout, local, remote, start, end } => {
                let (offset, len) = if start == 0 && end == layout.slices {
                    (0, layout.len())
                } else {
                    let plane = index.min(MAX_PLANES - 1);
                    let first = if start == 0 && plane == 0 { 0 } else { layout.offset(plane, start) };
                    (first, layout.offset(plane, end) - first)
                };
                Block { local: local + offset, remote: remote + offset, len }
            }
            Blocks::Samples { from, to, start, count } => {
                let (mut at, end, mut index) = (start, start + u64::from(count), index as u64);
                loop {
                    let (samples, is_whole) = Blocks::run(&from, &to, at, end.saturating_sub(at));
                    let blocks = if is_whole { 1 } else { u64::from(from.channels) };
                    if index >= blocks && samples > 0 {
                        (at, index) = (at + samples, index - blocks);
                        continue;
                    }
                    #[expect(clippy::cast_possible_truncation, reason = "less than the number of channels")]
                    let channel = index as u16;
                    let channels = if is_whole { u64::from(from.channels) } else { 1 };
                    let len = samples * channels * u64::from(from.word);
                    return Block { local: from.offset(at, channel), remote: to.offset(at, channel), len };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn moved(blocks: Blocks, from: &[u8], to: &mut [u8]) -> usize {
        let span = Span { sending: 0, blocks };
        for index in 0..span.blocks() {
            let Block { local, remote, len } = span.block(index);
            let [local, remote, len] = [local, remote, len].map(|at| usize::try_from(at).expect("short"));
            to[remote..remote + len].copy_from_slice(&from[local..local + len]);
        }
        span.blocks()
    }

    #[test]
    fn samples_of_any_blocks_over_the_ends_of_both_rings_keep_their_channels() {
        let rings = [(48, 480), (480, 480), (24, 480), (7, 7 * 70), (96, 96 * 5)];
        for (from, to) in rings.iter().flat_map(|from| rings.iter().map(move |to| (from, to))) {
            let layout = |&(period, len)| SampleLayout { word: 4, channels: 3, period, len };
            let (from, to) = (layout(from), layout(to));
            for (start, count) in [(0, 48), (48, 96), (470, 30), (479, 1), (1000, 240), (960, 480), (5, 5), (48, 47)] {
                let mut source = vec![0; usize::try_from(from.bytes()).expect("short")];
                let mut target = vec![0; usize::try_from(to.bytes()).expect("short")];
                let name = |sample: u64, channel: u16| u32::try_from(sample * 3 + u64::from(channel) + 1).expect("few");
                let all: Vec<_> =
                    (start..start + u64::from(count)).flat_map(|sample| (0..3).map(move |of| (sample, of))).collect();
                let at = |layout: &SampleLayout, (sample, channel)| {
                    let at = usize::try_from(layout.offset(sample, channel)).expect("short");
                    at..at + 4
                };
                for &place in &all {
                    source[at(&from, place)].copy_from_slice(&name(place.0, place.1).to_le_bytes());
                }
                moved(Blocks::Samples { from, to, start, count }, &source, &mut target);
                for &place in &all {
                    assert_eq!(
                        target[at(&to, place)],
                        name(place.0, place.1).to_le_bytes(),
                        "{place:?} {from:?} {to:?}"
                    );
                }
                let written = target.chunks_exact(4).filter(|word| **word != [0; 4]).count();
                assert_eq!(written, all.len(), "and no other");
            }
        }
    }

    #[test]
    fn whole_periods_are_one_block_for_all_channels() {
        let layout = SampleLayout { word: 4, channels: 64, period: 48, len: 480 };
        let blocks = |start, count| {
            Span { sending: 0, blocks: Blocks::Samples { from: layout, to: layout, start, count } }.blocks()
        };
        assert_eq!([blocks(48, 48), blocks(480, 480), blocks(432, 96), blocks(24, 48)], [1, 1, 2, 128]);
    }

    #[test]
    fn slices_of_each_plane_and_the_header_are_covered_once() {
        let layout = GrainLayout { header: 5, slice_len: [3, 2, 0, 0], slices: 4, slot_align: 1 };
        let from: Vec<u8> = (1..=50).collect();
        let mut to = vec![0; 25];
        let count =
            |start, end, to: &mut [u8]| moved(Blocks::Slices { layout, local: 25, remote: 0, start, end }, &from, to);
        assert_eq!([count(0, 1, &mut to), count(1, 3, &mut to), count(3, 4, &mut to)], [2, 2, 2]);
        assert_eq!(to, from[25..]);
        let mut header = vec![0; 25];
        assert_eq!(count(0, 0, &mut header), 1);
        assert_eq!(header, [&from[25..30], &[0; 20]].concat());
        assert_eq!(count(0, 4, &mut [0; 25]), 1);
        assert_eq!(count(2, 2, &mut [0; 25]), 0);
    }
}
