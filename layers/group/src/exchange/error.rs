//! Errors of writing and reading records.

use core::fmt;

use loom_core::Error;
use loom_core::vocabulary::EndpointAddr;

use super::Record;

/// Reason why a record was not encoded. No bytes were written.
///
/// ```
/// use loom_core::vocabulary::{AddressFormat, EndpointAddr};
/// use loom_group::exchange::{EncodeError, Record};
///
/// let address = EndpointAddr::new(AddressFormat::ADDR_STR, b"fi_shm://1\0").expect("it is short");
/// let record = Record::new(address, 4, 0x5eed, &[]);
/// assert!(matches!(record.encode(&mut [0; 4]), Err(EncodeError::BufferTooShort { .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The buffer is too short for the record.
    BufferTooShort {
        /// Length of the record in bytes.
        needed: usize,
    },
    /// The record has more than [`Record::MAX_REGIONS`] regions.
    TooManyRegions {
        /// Number of regions.
        count: usize,
    },
}

/// Reason why bytes are not a record.
///
/// ```
/// use loom_core::vocabulary::{AddressFormat, EndpointAddr};
/// use loom_group::exchange::{DecodeError, Record};
///
/// let address = EndpointAddr::new(AddressFormat::ADDR_STR, b"fi_shm://1\0").expect("it is short");
/// let record = Record::new(address, 4, 0x5eed, &[]);
/// let mut bytes = vec![0; record.encoded_len()];
/// record.encode(&mut bytes).expect("they are as many as it needs");
/// // What a peer sends is checked: a record that was cut off is an error, and no panic.
/// let cut_off: Result<_, DecodeError> = Record::decode(&bytes[..8]);
/// assert!(cut_off.is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end before the record.
    Truncated {
        /// Minimum length of the record in bytes.
        needed: usize,
    },
    /// The bytes do not start with the magic of a record.
    Magic,
    /// The library does not support this version.
    Version(u16),
    /// The address has more than [`EndpointAddr::MAX_LEN`] bytes.
    AddressTooLong {
        /// Length of the address in bytes.
        len: usize,
    },
    /// The stated length of the record differs from the length of its parts.
    LengthMismatch {
        /// Stated length in bytes.
        stated: usize,
        /// Length of header, address and regions in bytes.
        parts: usize,
    },
    /// More bytes follow the record.
    TrailingBytes {
        /// Number of bytes after the record.
        count: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooShort { needed } => write!(f, "buffer too short: the record needs {needed} bytes"),
            Self::TooManyRegions { count } => {
                write!(f, "{count} regions in a record, which takes at most {}", Record::MAX_REGIONS)
            }
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed } => write!(f, "record ends early: it needs at least {needed} bytes"),
            Self::Magic => f.write_str("the bytes are not a record"),
            Self::Version(version) => write!(f, "record of the unknown version {version}"),
            Self::AddressTooLong { len } => {
                write!(f, "address of {len} bytes in a record, which takes at most {}", EndpointAddr::MAX_LEN)
            }
            Self::LengthMismatch { stated, parts } => {
                write!(f, "record states a length of {stated} bytes, its parts have {parts}")
            }
            Self::TrailingBytes { count } => write!(f, "{count} bytes follow the record"),
        }
    }
}

impl core::error::Error for EncodeError {}
impl core::error::Error for DecodeError {}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::BufferTooShort { .. } => Error::Full("the buffer for the record of a peer"),
            EncodeError::TooManyRegions { .. } => Error::Full("the regions in the record of a peer"),
        }
    }
}

/// Maps to [`Error::Invalid`], without the numbers.
impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Error::Invalid(match error {
            DecodeError::Truncated { .. } => "the record of a peer ends early",
            DecodeError::Magic => "the bytes of a peer are not a record",
            DecodeError::Version(_) => "the record of a peer has an unknown version",
            DecodeError::AddressTooLong { .. } => "the address in the record of a peer is too long",
            DecodeError::LengthMismatch { .. } => "the lengths in the record of a peer contradict each other",
            DecodeError::TrailingBytes { .. } => "further bytes follow the record of a peer",
        })
    }
}
