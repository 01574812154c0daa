//! Layouts of immediate data: named bit fields in the few bytes that travel with a message.
//!
//! [`data_layout!`](crate::data_layout) defines a struct with checked [encoding](Layout::encode)
//! and [decoding](Layout::decode). Providers carry 0, 4 or 8 bytes (`cq_data_size`), which
//! [`Info::carries`](crate::Info::carries) checks before opening.
//!
//! ```
//! use loom_core::{ImmediateData, RangeError, data_layout, immediate::Layout};
//!
//! data_layout! {
//!     /// Part of a transfer. The first field has the lowest bits.
//!     pub struct Part { pub transfer: u32 = 20, pub index: u16 = 12 }
//! }
//! let data = Part { transfer: 7, index: 1 }.encode()?;
//! assert_eq!(data, ImmediateData(7 | 1 << 20));
//! assert_eq!(Part::decode(data)?.index, 1);
//! let too_large = Part { transfer: 7, index: 4096 };
//! assert_eq!(too_large.encode(), Err(RangeError::ValueTooLarge { field: "index", width: 12 }));
//! # Ok::<_, RangeError>(())
//! ```
//!
//! More than 64 bits do not compile:
//!
//! ```compile_fail,E0080
//! loom_core::data_layout! {
//!     struct TooWide {
//!         all: u64 = 64,
//!         more: bool = 1,
//!     }
//! }
//! ```

use super::{ImmediateData, RangeError};

/// Value of a bit field: `u8` to `u64`, `bool`, and types of the program.
///
/// ```
/// use loom_core::{ImmediateData, RangeError, data_layout, immediate::{Field, Layout}};
///
/// /// Percentage: 7 bits, of which not all values are valid.
/// #[derive(Clone, Copy)]
/// struct Percent(u8);
/// impl Field for Percent {
///     fn to_bits(self) -> u64 { self.0.into() }
///     fn from_bits(bits: u64) -> Option<Self> { u8::try_from(bits).ok().filter(|bits| *bits <= 100).map(Percent) }
/// }
/// data_layout! { struct Progress { done: Percent = 7 } }
/// assert_eq!(Progress { done: Percent(40) }.encode()?, ImmediateData(40));
/// assert_eq!(Progress::decode(ImmediateData(101)).err(), Some(RangeError::NoSuchValue { field: "done", bits: 101 }));
/// # Ok::<_, RangeError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no bit field of immediate data",
    note = "`u8`, `u16`, `u32`, `u64` and `bool` are; implement `Field` for an enum or a number of your own"
)]
pub trait Field: Copy {
    /// Bits of the value, lowest first.
    fn to_bits(self) -> u64;
    /// Value with these bits, if it exists.
    fn from_bits(bits: u64) -> Option<Self>;
}

macro_rules! unsigned {
    ($($Type:ty),+) => {$(
        impl Field for $Type {
            #[inline]
            fn to_bits(self) -> u64 {
                self.into()
            }

            #[inline]
            fn from_bits(bits: u64) -> Option<Self> {
                bits.try_into().ok()
            }
        }
    )+};
}

unsigned!(u8, u16, u32, u64);

impl Field for bool {
    #[inline]
    fn to_bits(self) -> u64 {
        self.into()
    }

    #[inline]
    fn from_bits(bits: u64) -> Option<Self> {
        match bits {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Immediate data as named bit fields, defined by [`data_layout!`](crate::data_layout).
///
/// ```
/// use loom_core::{Forever, Source, data_layout, immediate::Layout};
///
/// data_layout! { struct Chunk { file: u16 = 16, number: u32 = 24 } }
/// assert_eq!((Chunk::WIDTH, Chunk::BYTES), (40, 5));
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let data = Chunk { file: 7, number: 1000 }.encode()?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.post(b"hello".to_vec(), Forever, |message| alice.send_data(to_bob, data, message))?;
/// let data = cq.finish(received, Forever)?.result()?.data.expect("the message has immediate data");
/// let Chunk { file, number } = Chunk::decode(data)?;
/// assert_eq!((file, number), (7, 1000));
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Layout: Sized {
    /// Number of bits of all fields.
    const WIDTH: u32;
    /// Number of bytes that a provider must carry.
    const BYTES: usize = self::bytes(Self::WIDTH);

    /// Immediate data with these values.
    ///
    /// # Errors
    /// [`RangeError::ValueTooLarge`]
    fn encode(self) -> Result<ImmediateData, RangeError>;

    /// Values of immediate data.
    ///
    /// # Errors
    /// [`RangeError::NoSuchValue`], [`RangeError::BitsOutside`]
    fn decode(data: ImmediateData) -> Result<Self, RangeError>;
}

const fn bytes(width: u32) -> usize {
    width.div_ceil(8) as usize
}

const fn mask(width: u32) -> u64 {
    if width >= u64::BITS { u64::MAX } else { (1 << width) - 1 }
}

/// Fields in the bits of immediate data, the first in the lowest bits. Used by
/// [`data_layout!`](crate::data_layout).
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields {
    pub bits: u64,
    pub at: u32,
}

impl Fields {
    /// Begins to decode a layout of that width.
    ///
    /// # Errors
    /// [`RangeError::BitsOutside`]
    #[inline]
    pub const fn decode(ImmediateData(bits): ImmediateData, width: u32) -> Result<Self, RangeError> {
        if bits > mask(width) { Err(RangeError::BitsOutside { width }) } else { Ok(Fields { bits, at: 0 }) }
    }

    /// Appends a field.
    ///
    /// # Errors
    /// [`RangeError::ValueTooLarge`]
    #[inline]
    pub fn append(self, field: &'static str, width: u32, value: impl Field) -> Result<Self, RangeError> {
        let bits = value.to_bits();
        if bits > mask(width) {
            return Err(RangeError::ValueTooLarge { field, width });
        }
        Ok(Fields { bits: self.bits | bits << self.at, at: self.at + width })
    }

    /// Takes the next field.
    ///
    /// # Errors
    /// [`RangeError::NoSuchValue`]
    #[inline]
    pub fn next<V: Field>(&mut self, field: &'static str, width: u32) -> Result<V, RangeError> {
        let bits = self.bits >> self.at & mask(width);
        self.at += width;
        V::from_bits(bits).ok_or(RangeError::NoSuchValue { field, bits })
    }
}

/// Defines a struct with bit fields of immediate data: a [`Layout`](super::immediate::Layout).
///
/// Each field has a type ([`Field`](super::immediate::Field)) and a constant width in bits, the
/// first at the lowest bits.
#[macro_export]
macro_rules! data_layout {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $Type:ty = $width:expr),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $Name {
            $($(#[$field_meta])* $field_vis $field: $Type,)+
        }

        impl $crate::vocabulary::immediate::Layout for $Name {
            const WIDTH: u32 = {
                $(::core::assert!(0 < $width && $width <= 64, "a field of immediate data has 1 to 64 bits");)+
                let total = 0 $(+ $width)+;
                ::core::assert!(total <= 64, "immediate data has 64 bits");
                total
            };

            #[inline]
            fn encode(self) -> ::core::result::Result<$crate::ImmediateData, $crate::RangeError> {
                let fields = <$crate::vocabulary::immediate::Fields as ::core::default::Default>::default();
                $(let fields = fields.append(::core::stringify!($field), $width, self.$field)?;)+
                ::core::result::Result::Ok($crate::ImmediateData(fields.bits))
            }

            #[inline]
            fn decode(
                data: $crate::ImmediateData,
            ) -> ::core::result::Result<Self, $crate::RangeError> {
                let width = <Self as $crate::vocabulary::immediate::Layout>::WIDTH;
                let mut fields = $crate::vocabulary::immediate::Fields::decode(data, width)?;
                ::core::result::Result::Ok($Name {
                    $($field: fields.next(::core::stringify!($field), $width)?,)+
                })
            }
        }

        // An invalid layout does not compile, even if it is unused.
        const _: u32 = <$Name as $crate::vocabulary::immediate::Layout>::WIDTH;
    };
}
