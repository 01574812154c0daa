use core::error::Error;
use core::fmt;

/// Error of a value that does not fit: a range of memory, or a layout of immediate data.
///
/// ```
/// use core::sync::atomic::AtomicU64;
/// use loom_core::{ImmediateData, RangeError, data_layout, exposed::Window, immediate::Layout};
///
/// let words = [const { AtomicU64::new(0) }; 2];
/// let window = Window::from(&words[..]);
/// assert_eq!(window.slice(8, 9).err(), Some(RangeError::OutOfWindow));
/// assert_eq!(window.element::<u64>(4).err(), Some(RangeError::Misaligned));
///
/// data_layout! { struct Ack { sequence: u16 = 12, last: bool = 1 } }
/// assert_eq!(Ack::decode(ImmediateData(1 << 13)).err(), Some(RangeError::BitsOutside { width: 13 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeError {
    /// The range does not lie within the window or lease.
    OutOfWindow,
    /// The bytes are not aligned for the element, or no multiple of its size.
    Misaligned,
    /// The window is not writable.
    ReadOnly,
    /// The processor cannot change an element of this size atomically.
    NotAtomic,
    /// A value has more bits than its field of the immediate data.
    ValueTooLarge {
        /// Name of the field.
        field: &'static str,
        /// Width of the field in bits.
        width: u32,
    },
    /// The bits of a field of the immediate data do not match any value.
    NoSuchValue {
        /// Name of the field.
        field: &'static str,
        /// Bits of the field.
        bits: u64,
    },
    /// The immediate data has bits beyond those of the layout.
    BitsOutside {
        /// Width of the layout in bits.
        width: u32,
    },
    /// The layout is wider than the provider's immediate data.
    TooWide {
        /// Width of the layout in bits.
        width: u32,
        /// Bytes that the provider carries (`cq_data_size`).
        limit: usize,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeError::OutOfWindow => f.write_str("the range does not lie within the window or lease"),
            RangeError::Misaligned => {
                f.write_str("the bytes are not aligned for the element, or no multiple of its size")
            }
            RangeError::ReadOnly => f.write_str("the window may not be written"),
            RangeError::NotAtomic => f.write_str("the processor changes no element of this size in one step"),
            RangeError::ValueTooLarge { field, width } => {
                write!(f, "the value of `{field}` has more bits than the {width} of that field of the immediate data")
            }
            RangeError::NoSuchValue { field, bits } => {
                write!(f, "`{field}` of the immediate data has no value with the bits {bits:#x}")
            }
            RangeError::BitsOutside { width } => {
                write!(f, "the immediate data has bits beyond the {width} of its layout")
            }
            RangeError::TooWide { width, limit } => {
                write!(f, "the layout has {width} bits, and the provider carries {limit} bytes of immediate data")
            }
        }
    }
}

impl Error for RangeError {}
