//! Forms of values with the feature `serde`: text in human-readable formats, numbers and bytes in
//! others.
//!
//! 64-bit numbers are text, because common formats lack them (TOML, JavaScript). A number is also
//! accepted. Input is untrusted.

use core::fmt;
use core::str::FromStr;

use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};

pub(crate) fn decimal<N: FromStr>(text: &str) -> Option<N> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// Number of 64 bits, `0x2a` in human-readable formats. Also for fields (`#[serde(with)]`).
pub mod hexadecimal {
    use core::fmt;

    use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
    use serde::ser::Serializer;

    struct Hexadecimal(u64);

    impl fmt::Display for Hexadecimal {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:#x}", self.0)
        }
    }

    /// Writes a number.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&Hexadecimal(*number))
        } else {
            serializer.serialize_u64(*number)
        }
    }

    /// Reads a number, or its text.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of 64 bits, or its text such as 0x2a")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
                Ok(number)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
                u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
                let number = match text.strip_prefix("0x") {
                    Some(digits) if digits.starts_with('+') => None,
                    Some(digits) => u64::from_str_radix(digits, 16).ok(),
                    None => super::decimal(text),
                };
                number.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Number)
        } else {
            u64::deserialize(deserializer)
        }
    }
}

pub(crate) fn named<'de, D: Deserializer<'de>>(
    deserializer: D,
    named: impl Fn(&str) -> Option<u32>,
) -> Result<u32, D::Error> {
    struct Named<F>(F);
    impl<F: Fn(&str) -> Option<u32>> Visitor<'_> for Named<F> {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("libfabric's name without FI_, or its number of 32 bits")
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<u32, E> {
            u32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<u32, E> {
            u32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u32, E> {
            self.0(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }
    }
    if deserializer.is_human_readable() {
        deserializer.deserialize_any(Named(named))
    } else {
        serde::Deserialize::deserialize(deserializer)
    }
}

pub(crate) fn text<'de, D: Deserializer<'de>, R>(
    deserializer: D,
    expected: &'static str,
    read: impl FnOnce(&str) -> Option<R>,
) -> Result<R, D::Error> {
    struct Text<F>(&'static str, F);
    impl<R, F: FnOnce(&str) -> Option<R>> Visitor<'_> for Text<F> {
        type Value = R;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<R, E> {
            self.1(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self.0))
        }
    }
    deserializer.deserialize_str(Text(expected, read))
}

pub(crate) fn bytes<'de, const N: usize, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
) -> Result<([u8; N], usize), D::Error> {
    struct Bytes<const N: usize>(&'static str);
    impl<'de, const N: usize> Visitor<'de> for Bytes<N> {
        type Value = ([u8; N], usize);

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            let mut out = [0; N];
            let places = out.get_mut(..bytes.len()).ok_or_else(|| E::invalid_length(bytes.len(), &self))?;
            places.copy_from_slice(bytes);
            Ok((out, bytes.len()))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<Self::Value, A::Error> {
            let (mut out, mut len) = ([0; N], 0);
            while let Some(byte) = bytes.next_element()? {
                *out.get_mut(len).ok_or_else(|| A::Error::invalid_length(len + 1, &self))? = byte;
                len += 1;
            }
            Ok((out, len))
        }
    }
    deserializer.deserialize_bytes(Bytes(expected))
}
