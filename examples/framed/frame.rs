//! The bytes of a frame, apart from how they travel: the message, its length, and the CRC-32 of both.
//!
//! What the frame adds stands behind the message, so that a buffer of the message becomes one of the frame without moving a byte of it. Both
//! numbers are four bytes, little-endian.

use std::fmt;

/// Bytes that a frame has more than its message.
pub(crate) const TRAILER: usize = 8;

/// Why bytes are no frame, or a message goes into none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// The message is longer than the protocol was told to take.
    TooLong { limit: usize },
    /// Fewer bytes than the shortest frame has.
    Short { len: usize },
    /// The frame says another length than it has.
    Length { stated: u32, len: usize },
    /// The checksum is another.
    Checksum { stated: u32, computed: u32 },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { limit } => write!(f, "a frame takes at most {limit} bytes"),
            FrameError::Short { len } => write!(f, "{len} bytes are no frame, the shortest has {TRAILER}"),
            FrameError::Length { stated, len } => write!(f, "a frame of {len} bytes says that it has {stated}"),
            FrameError::Checksum { stated, computed } => {
                write!(f, "the checksum is {computed:#010x}, and the frame says {stated:#010x}")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// The longest message that the length of a frame can say.
pub(crate) const fn longest() -> usize {
    u32::MAX as usize
}

/// The frame of a message that is no longer than [`longest`].
pub(crate) fn seal(mut message: Vec<u8>) -> Vec<u8> {
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    message.extend_from_slice(&len.to_le_bytes());
    let checksum = crc32fast::hash(&message);
    message.extend_from_slice(&checksum.to_le_bytes());
    message
}

/// The length of the message in a frame, if the bytes are one.
pub(crate) fn open(frame: &[u8]) -> Result<usize, FrameError> {
    let short = FrameError::Short { len: frame.len() };
    let (sealed, checksum) = frame.split_last_chunk::<4>().ok_or(short)?;
    let (message, len) = sealed.split_last_chunk::<4>().ok_or(short)?;
    let (stated, computed) = (u32::from_le_bytes(*checksum), crc32fast::hash(sealed));
    let stated_len = u32::from_le_bytes(*len);
    if usize::try_from(stated_len) != Ok(message.len()) {
        return Err(FrameError::Length { stated: stated_len, len: message.len() });
    }
    if stated != computed {
        return Err(FrameError::Checksum { stated, computed });
    }
    Ok(message.len())
}
