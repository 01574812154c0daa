/// Maximum number of planes of a grain.
pub const MAX_PLANES: usize = 4;

/// Layout of a grain: a header, then up to four planes of equal numbers of slices.
///
/// ```
/// use loom_media::{GrainLayout, Rate};
///
/// let hd = GrainLayout::v210(1920, 1080);
/// assert_eq!((hd.slice_len[0], hd.payload_len()), (5120, 5_529_600));
/// assert_eq!(hd.byte_rate(Rate::new(25, 1)), 138_240_000);
/// // With the header of an MXL grain.
/// assert_eq!(hd.with_header(8192).len(), 5_537_792);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrainLayout {
    /// Length of the header in bytes, 0 for none. It is sent with the first slice.
    pub header: u32,
    /// Length of a slice of each plane in bytes. 0 from the first absent plane on.
    pub slice_len: [u32; MAX_PLANES],
    /// Number of slices.
    pub slices: u16,
    /// Alignment of a slot in its ring in bytes: a power of two, 1 for slots without gaps. Rings of
    /// different alignments fit each other.
    pub slot_align: u32,
}

impl GrainLayout {
    /// Video of 10 bits and 4:2:2 (`video/v210`). A slice is a line: 128 bytes for each 48 pixels.
    #[must_use]
    pub const fn v210(width: u16, height: u16) -> Self {
        GrainLayout { header: 0, slice_len: [v210_line(width), 0, 0, 0], slices: height, slot_align: 1 }
    }

    /// [`v210`](Self::v210) with a plane of alpha (`video/v210a`): 4 bytes for each 3 pixels.
    #[must_use]
    pub const fn v210a(width: u16, height: u16) -> Self {
        let alpha = (width as u32).div_ceil(3) * 4;
        GrainLayout { header: 0, slice_len: [v210_line(width), alpha, 0, 0], slices: height, slot_align: 1 }
    }

    /// Ancillary data (`video/smpte291`): 4,096 slices of one byte.
    #[must_use]
    pub const fn smpte291() -> Self {
        GrainLayout { header: 0, slice_len: [1, 0, 0, 0], slices: 4096, slot_align: 1 }
    }

    /// Layout with a header.
    #[must_use]
    pub const fn with_header(self, bytes: u32) -> Self {
        GrainLayout { header: bytes, ..self }
    }

    /// Layout with other [`slot_align`](Self::slot_align).
    #[must_use]
    pub const fn with_slot_align(self, bytes: u32) -> Self {
        GrainLayout { slot_align: bytes, ..self }
    }

    /// Number of planes.
    #[must_use]
    pub const fn planes(&self) -> usize {
        let mut planes = 0;
        while planes < MAX_PLANES && self.slice_len[planes] > 0 {
            planes += 1;
        }
        planes
    }

    /// Offset of a slice in its grain. `slice` may be the number of slices, for the end of the
    /// plane.
    ///
    /// # Panics
    /// Without such a plane.
    #[must_use]
    pub const fn offset(&self, plane: usize, slice: u16) -> u64 {
        let (mut offset, mut before) = (self.header as u64, 0);
        while before < plane {
            offset += self.slice_len[before] as u64 * self.slices as u64;
            before += 1;
        }
        offset + self.slice_len[plane] as u64 * slice as u64
    }

    /// Length in bytes without the header.
    #[must_use]
    pub const fn payload_len(&self) -> u64 {
        self.len() - self.header as u64
    }

    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length in bytes, not a collection")]
    pub const fn len(&self) -> u64 {
        let (mut len, mut plane) = (self.header as u64, 0);
        while plane < self.planes() {
            len += self.slice_len[plane] as u64 * self.slices as u64;
            plane += 1;
        }
        len
    }

    /// Distance of the slots of a ring in bytes.
    #[must_use]
    pub const fn stride(&self) -> u64 {
        let last = (self.slot_align as u64).saturating_sub(1);
        self.len().saturating_add(last) & !last
    }

    /// Bytes of payload per second, rounded down.
    #[must_use]
    pub const fn byte_rate(&self, rate: Rate) -> u64 {
        rate.times(self.payload_len())
    }

    const fn is_valid(&self) -> bool {
        self.planes() > 0 && self.slices > 0 && self.slot_align.is_power_of_two()
    }
}

const fn v210_line(width: u16) -> u32 {
    (width as u32).div_ceil(48) * 128
}

/// Layout of a ring of samples. In each period, samples of a channel lie side by side.
///
/// A transfer of whole periods, between rings of the same period, is one operation for all
/// channels, others at least one for each. MXL's rings have one period.
///
/// ```
/// use loom_media::SampleLayout;
///
/// // 64 channels of 32 bits, 1 ms at 48 kHz in each period, for 200 ms.
/// let ring = SampleLayout { word: 4, channels: 64, period: 48, len: 200 * 48 };
/// assert_eq!((ring.bytes(), ring.offset(49, 1)), (2_457_600, (48 * 64 + 48 + 1) * 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleLayout {
    /// Length of a sample in bytes.
    pub word: u16,
    /// Number of channels.
    pub channels: u16,
    /// Samples of a channel in a period.
    pub period: u32,
    /// Samples of a channel in the ring: a multiple of the period.
    pub len: u32,
}

impl SampleLayout {
    /// Ring of MXL for a history in nanoseconds (MXL's default: 200 ms): twice as long, and a
    /// multiple of 4,096 bytes.
    ///
    /// # Panics
    /// If the word is 0 or longer than 4,096 bytes, or if the ring has 2<sup>32</sup> samples.
    #[must_use]
    pub const fn mxl(word: u16, channels: u16, sample_rate: Rate, history_ns: u64) -> Self {
        let samples =
            history_ns as u128 * sample_rate.numerator as u128 / (500_000_000 * sample_rate.denominator as u128);
        let page = 4096 / word as u128;
        let len = samples.div_ceil(page) * page;
        assert!(page > 0 && len <= u32::MAX as u128, "a ring has fewer samples than that");
        #[expect(clippy::cast_possible_truncation, reason = "the line above")]
        SampleLayout { word, channels, period: len as u32, len: len as u32 }
    }

    /// Offset in the ring of a sample of the flow.
    ///
    /// # Panics
    /// If the ring or its period is empty.
    #[must_use]
    pub const fn offset(&self, sample: u64, channel: u16) -> u64 {
        let (at, period) = (sample % self.len as u64, self.period as u64);
        let samples = (at - at % period) * self.channels as u64 + channel as u64 * period + at % period;
        samples * self.word as u64
    }

    /// Length of the ring in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.len as u64 * self.channels as u64 * self.word as u64
    }

    /// Bytes per second, rounded down.
    #[must_use]
    pub const fn byte_rate(&self, sample_rate: Rate) -> u64 {
        sample_rate.times(self.channels as u64 * self.word as u64)
    }

    /// Length in bytes of samples of a channel.
    pub(crate) const fn byte_len(&self, count: u32) -> u64 {
        self.word as u64 * count as u64
    }

    /// Number of samples from this one on that lie beside each other.
    pub(crate) const fn run(&self, sample: u64) -> u64 {
        self.period as u64 - sample % self.len as u64 % self.period as u64
    }

    /// Number of samples before the end of the ring.
    pub(crate) const fn before_end(&self, sample: u64) -> u64 {
        self.len as u64 - sample % self.len as u64
    }

    pub(crate) const fn is_valid(&self) -> bool {
        self.word > 0 && self.channels > 0 && self.period > 0 && self.len > 0 && self.len.is_multiple_of(self.period)
    }
}

/// Layout of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowLayout {
    /// Grains of video or data, in a ring of so many slots.
    Grains(GrainLayout, u32),
    /// Samples of audio.
    Samples(SampleLayout),
}

impl FlowLayout {
    /// Length of the ring: grains or samples.
    pub(crate) const fn ring(&self) -> u64 {
        match self {
            FlowLayout::Grains(_, slots) => *slots as u64,
            FlowLayout::Samples(layout) => layout.len as u64,
        }
    }

    /// Length of the ring in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        match self {
            FlowLayout::Grains(layout, slots) => layout.stride().saturating_mul(*slots as u64),
            FlowLayout::Samples(layout) => layout.bytes(),
        }
    }

    pub(crate) const fn is_valid(&self) -> bool {
        match self {
            FlowLayout::Grains(layout, slots) => {
                layout.is_valid() && *slots > 0 && layout.stride().checked_mul(*slots as u64).is_some()
            }
            FlowLayout::Samples(layout) => layout.is_valid(),
        }
    }

    /// Returns `true` if grains or samples of one can be written to the other.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (FlowLayout::Grains(own, _), FlowLayout::Grains(other, _)) => {
                own.with_slot_align(other.slot_align) == *other
            }
            (FlowLayout::Samples(own), FlowLayout::Samples(other)) => {
                (own.word, own.channels) == (other.word, other.channels)
            }
            _ => false,
        }
    }
}

/// Grains or samples per second: a fraction.
///
/// ```
/// use loom_media::Rate;
///
/// let ntsc = Rate::new(30_000, 1001);
/// // Nanoseconds since the SMPTE epoch, of International Atomic Time.
/// let index = ntsc.index_at(1_000_000_000_000);
/// assert_eq!((index, ntsc.time_of(index)), (29_970, 999_999_000_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Numerator.
    pub numerator: u32,
    /// Denominator.
    pub denominator: u32,
}

impl Rate {
    /// # Panics
    /// If one of them is 0.
    #[must_use]
    pub const fn new(numerator: u32, denominator: u32) -> Self {
        assert!(numerator > 0 && denominator > 0, "a rate is a positive fraction");
        Rate { numerator, denominator }
    }

    /// Index of the grain or sample nearest to a time in nanoseconds.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a u64 of nanoseconds has fewer grains for rates below 1 GHz")]
    pub const fn index_at(self, ns: u64) -> u64 {
        let unit = 1_000_000_000 * self.denominator as u128;
        ((ns as u128 * self.numerator as u128 + unit / 2) / unit) as u64
    }

    /// Time of a grain or sample in nanoseconds.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "times beyond 584 years")]
    pub const fn time_of(self, index: u64) -> u64 {
        let (unit, rate) = (1_000_000_000 * self.denominator as u128, self.numerator as u128);
        ((index as u128 * unit + rate / 2) / rate) as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "bytes per second")]
    const fn times(self, bytes: u64) -> u64 {
        (bytes as u128 * self.numerator as u128 / self.denominator as u128) as u64
    }

    /// Number of slots of MXL's ring for a history in nanoseconds (MXL's default: 200 ms).
    #[must_use]
    pub const fn grains_in(self, ns: u64) -> u64 {
        self.times(ns) / 1_000_000_000
    }
}

/// Bytes on a RoCEv2 network of `len` bytes of payload, for a maximum transmission unit in bytes:
/// packets of at most `mtu - 44` bytes of payload and 82 bytes of headers and gaps.
///
/// ```
/// use loom_media::{GrainLayout, wire_len};
///
/// let grain = GrainLayout::v210(1920, 1080).payload_len();
/// assert_eq!(wire_len(grain, 4096) * 25, 141_038_250);
/// ```
///
/// # Panics
/// If `mtu` is at most 44.
#[must_use]
pub const fn wire_len(len: u64, mtu: u32) -> u64 {
    assert!(mtu > 44, "a packet has headers");
    len + len.div_ceil(mtu as u64 - 44) * 82
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_mxl_are_reproduced() {
        assert_eq!(GrainLayout::v210(1280, 720).slice_len[0], 3456);
        assert_eq!(GrainLayout::v210a(1280, 720).slice_len[1], 1708);
        assert_eq!(GrainLayout::v210a(1920, 1080).payload_len(), 8_294_400);
        assert_eq!(GrainLayout::v210a(1920, 1080).byte_rate(Rate::new(25, 1)), 207_360_000);
        assert_eq!(GrainLayout::v210(3840, 2160).payload_len(), 22_118_400);
        assert_eq!(GrainLayout::v210(3840, 2160).byte_rate(Rate::new(60, 1)), 1_327_104_000);
        assert_eq!(GrainLayout::smpte291().byte_rate(Rate::new(60, 1)), 245_760);
        let audio = |rate| SampleLayout::mxl(4, 2, Rate::new(rate, 1), 200_000_000);
        assert_eq!((audio(48_000).len, audio(96_000).len), (19_456, 38_912));
        assert_eq!(audio(48_000).byte_rate(Rate::new(48_000, 1)), 384_000);
        let slots =
            [(25, 1), (30_000, 1001), (50, 1), (60, 1)].map(|(of, by)| Rate::new(of, by).grains_in(200_000_000));
        assert_eq!(slots, [5, 5, 10, 12]);
    }

    #[test]
    fn planes_follow_each_other() {
        let layout = GrainLayout { header: 8192, slice_len: [5120, 2560, 3, 0], slices: 1080, slot_align: 1 };
        assert_eq!((layout.planes(), layout.offset(0, 0), layout.offset(0, 7)), (3, 8192, 8192 + 7 * 5120));
        assert_eq!(layout.offset(1, 0), layout.offset(0, 1080));
        assert_eq!(layout.offset(2, 1080), layout.len());
        let aligned = layout.with_slot_align(4096);
        assert_eq!((layout.stride(), aligned.len(), aligned.stride()), (layout.len(), layout.len(), 8_306_688));
        assert!(FlowLayout::Grains(layout, 3).fits(&FlowLayout::Grains(aligned, 2)));
        assert!(!FlowLayout::Grains(layout.with_slot_align(3), 3).is_valid());
    }

    #[test]
    fn each_sample_has_a_place_of_its_own() {
        let layout = SampleLayout { word: 2, channels: 3, period: 4, len: 12 };
        let mut places: std::vec::Vec<_> =
            (100..112).flat_map(|sample| (0..3).map(move |channel| layout.offset(sample, channel))).collect();
        places.sort_unstable();
        assert_eq!(places, (0..36).map(|at| 2 * at).collect::<std::vec::Vec<_>>());
    }

    #[test]
    fn an_index_and_its_time_are_inverse() {
        for rate in [Rate::new(30_000, 1001), Rate::new(50, 1), Rate::new(48_000, 1), Rate::new(24_000, 1001)] {
            for index in (0..5000).chain(80_000_000_000..80_000_005_000) {
                assert_eq!(rate.index_at(rate.time_of(index)), index);
            }
        }
    }
}
