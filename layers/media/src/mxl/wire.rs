//! Headers and immediate data, in the byte order of the host.

use crate::layout::SampleLayout;

/// Bytes of a grain's header.
pub(super) const HEADER_LEN: u32 = 8192;

/// Immediate data of the last write of slices.
///
/// ```
/// use loom_media::mxl::Immediate;
///
/// let whole = Immediate { slot: 3, end: 1080 };
/// assert_eq!(whole.to_bits(), 0x0438_0003);
/// assert_eq!(Immediate::from_bits(0x0438_0003), whole);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Immediate {
    /// Slot of the target.
    pub slot: u16,
    /// Number of valid slices. 0 for a header alone.
    pub end: u16,
}

impl Immediate {
    /// The 32 bits on the wire.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.slot as u32 | (self.end as u32) << 16
    }

    /// Immediate data of these bits.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "two halves")]
    pub const fn from_bits(bits: u32) -> Self {
        Immediate { slot: bits as u16, end: (bits >> 16) as u16 }
    }
}

/// Fields of a grain's header. Bytes of the application follow.
///
/// ```
/// use loom_media::mxl::GrainHeader;
///
/// let header = GrainHeader { index: 7, is_invalid: false, grain_size: 4096, total: 4096, valid: 12 };
/// let bytes = header.to_bytes();
/// assert_eq!((&bytes[..4], &bytes[8..9]), (&[1, 0, 0, 0][..], &[7][..]));
/// assert_eq!(GrainHeader::from_bytes(&bytes), Some(header));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrainHeader {
    /// Index of the grain.
    pub index: u64,
    /// Mark of the writer.
    pub is_invalid: bool,
    /// Bytes of all planes.
    pub grain_size: u32,
    /// Number of slices.
    pub total: u16,
    /// Number of valid slices.
    pub valid: u16,
}

impl GrainHeader {
    /// Bytes.
    pub const LEN: usize = 28;

    /// Bytes of version 1.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        put(&mut bytes, 0, 1_u32.to_ne_bytes());
        put(&mut bytes, 4, 4096_u32.to_ne_bytes());
        put(&mut bytes, 8, self.index.to_ne_bytes());
        put(&mut bytes, 16, u32::from(self.is_invalid).to_ne_bytes());
        put(&mut bytes, 20, self.grain_size.to_ne_bytes());
        put(&mut bytes, 24, self.total.to_ne_bytes());
        put(&mut bytes, 26, self.valid.to_ne_bytes());
        bytes
    }

    /// Header of these bytes. `None` for another version.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let header = GrainHeader {
            index: u64::from_ne_bytes(take(bytes, 8)),
            is_invalid: u32::from_ne_bytes(take(bytes, 16)) & 1 != 0,
            grain_size: u32::from_ne_bytes(take(bytes, 20)),
            total: u16::from_ne_bytes(take(bytes, 24)),
            valid: u16::from_ne_bytes(take(bytes, 26)),
        };
        (u32::from_ne_bytes(take(bytes, 0)) == 1).then_some(header)
    }
}

/// Entries in which samples arrive.
///
/// ```
/// use loom_media::mxl::BounceBuffer;
/// use loom_media::{Rate, SampleLayout};
///
/// let ring = SampleLayout::mxl(4, 2, Rate::new(48_000, 1), 200_000_000);
/// assert_eq!(BounceBuffer::of(&ring, 480), BounceBuffer { entry_count: 41, entry_size: 3856 });
/// // Header of an entry with samples 48,000 to 48,480.
/// let header = BounceBuffer::entry_header(48_480, 480);
/// assert_eq!(header[..2], 48_480_u16.to_ne_bytes());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BounceBuffer {
    /// Number of entries.
    pub entry_count: u64,
    /// Bytes of an entry, with its header.
    pub entry_size: u64,
}

impl BounceBuffer {
    /// Bytes of an entry's header.
    pub const HEADER_LEN: u64 = 16;

    /// Bounce buffer with entries of `batch` samples.
    ///
    /// # Panics
    /// If `batch` is 0.
    #[must_use]
    pub const fn of(ring: &SampleLayout, batch: u32) -> Self {
        let entry_size = Self::HEADER_LEN + ring.word as u64 * ring.channels as u64 * batch as u64;
        BounceBuffer { entry_count: ring.len.div_ceil(batch) as u64, entry_size }
    }

    /// Header of an entry: the exclusive end of the samples, and their number.
    #[must_use]
    pub fn entry_header(head: u64, count: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        put(&mut bytes, 0, head.to_ne_bytes());
        put(&mut bytes, 8, count.to_ne_bytes());
        bytes
    }
}

/// Writes a field, if it lies within.
pub(super) fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(to) = bytes.get_mut(at..at + N) {
        to.copy_from_slice(&field);
    }
}

/// Reads a field, zeros behind the end.
pub(super) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}
