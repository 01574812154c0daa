use crate::layout::{FlowLayout, Rate};

/// Load of a flow ([`MediaAttr::for_streams`](crate::MediaAttr::for_streams)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Layout of both rings.
    pub layout: FlowLayout,
    /// Grains or samples per second.
    pub rate: Rate,
    /// Slices or samples of a transfer, at least 1. Blocks of whole periods begin at one.
    pub part: u32,
}

impl Stream {
    /// Transfers to one target in two intervals, and those of the ring.
    pub(crate) const fn transfers(&self, poll_ns: u64) -> (usize, usize) {
        let (ring, per_unit, units_of_transfer) = match self.layout {
            FlowLayout::Grains(layout, slots) => {
                let parts = (layout.slices as u32).div_ceil(self.part);
                (slots as u64 * parts as u64, parts as u128, 1)
            }
            FlowLayout::Samples(layout) => (layout.len.div_ceil(self.part) as u64, 1, self.part as u128),
        };
        let units = poll_ns as u128 * self.rate.numerator as u128;
        let begun = units.div_ceil(1_000_000_000 * self.rate.denominator as u128 * units_of_transfer);
        let begun = if begun == 0 { 1 } else { begun };
        let wanted = 2 * per_unit * begun;
        (bounded(if wanted < ring as u128 { wanted } else { ring as u128 }), bounded(ring as u128))
    }

    /// Operations of a transfer in pieces of this length.
    pub(crate) const fn writes(&self, piece: u64) -> usize {
        let writes = match self.layout {
            FlowLayout::Grains(layout, _) if self.part >= layout.slices as u32 => layout.len().div_ceil(piece),
            FlowLayout::Grains(layout, _) => {
                let (mut writes, mut plane) = (0, 0);
                while plane < layout.planes() {
                    let header = if plane == 0 { layout.header as u64 } else { 0 };
                    writes += (header + layout.slice_len[plane] as u64 * self.part as u64).div_ceil(piece);
                    plane += 1;
                }
                writes
            }
            // The end of the ring may divide it.
            FlowLayout::Samples(layout) if self.part.is_multiple_of(layout.period) => {
                1 + (layout.byte_len(self.part) * layout.channels as u64).div_ceil(piece)
            }
            FlowLayout::Samples(layout) => {
                let runs = self.part.div_ceil(layout.period) as u64 + layout.byte_len(self.part).div_ceil(piece);
                runs * layout.channels as u64
            }
        };
        bounded(writes as u128)
    }
}

const fn bounded(count: u128) -> usize {
    if count > usize::MAX as u128 { usize::MAX } else { count as usize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MediaAttr;
    use crate::layout::{GrainLayout, SampleLayout};

    const MS: u64 = 1_000_000;

    #[test]
    fn depths_follow_from_rates_planes_channels_and_polls() {
        let depths = |streams: &[Stream], targets, poll_ns| {
            let attr = MediaAttr::for_streams(streams, targets, poll_ns);
            (attr.peers, attr.transfers, attr.depth)
        };
        let video = |part| Stream {
            layout: FlowLayout::Grains(GrainLayout::v210a(1920, 1080), 12),
            rate: Rate::new(60_000, 1001),
            part,
        };
        // A grain in each interval of up to 16.68 ms, in one operation or in two for each part.
        assert_eq!(depths(&[video(1080)], 1, 0), (1, 2, 2));
        assert_eq!(depths(&[video(1080)], 1, 16 * MS), (1, 2, 2));
        assert_eq!(depths(&[video(1080)], 3, 17 * MS), (3, 12, 12));
        assert_eq!(depths(&[video(108)], 1, MS), (1, 20, 40));
        assert_eq!(depths(&[video(700)], 1, MS), (1, 4, 8));
        // Not more than the ring.
        assert_eq!(depths(&[video(1080)], 2, 1000 * MS), (2, 24, 24));
        let audio = |period, part| Stream {
            layout: FlowLayout::Samples(SampleLayout { word: 4, channels: 64, period, len: 9600 }),
            rate: Rate::new(48_000, 1),
            part,
        };
        // Five blocks of 1 ms: each may pass the end of the ring.
        assert_eq!(depths(&[audio(48, 48)], 1, 5 * MS), (1, 10, 20));
        assert_eq!(depths(&[audio(9600, 48)], 1, 5 * MS), (1, 10, 10 * 2 * 64));
        assert_eq!(depths(&[audio(48, 100)], 1, MS), (1, 2, 2 * 4 * 64));
        assert_eq!(depths(&[video(1080), audio(48, 48)], 4, 5 * MS), (8, 4 * (2 + 10), 4 * (2 + 20)));
        // A longer grain has more pieces.
        let long = FlowLayout::Grains(GrainLayout::v210(3840, 2160), 12);
        assert_eq!(depths(&[Stream { layout: long, part: 2160, ..video(0) }], 1, 0), (1, 2, 6));
    }
}
