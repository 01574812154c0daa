//! [Forms of values](crate::vocabulary#the-form-of-values-with-serde) with the feature `serde`.
//!
//! 64-bit numbers are text, because TOML and JavaScript lack them. A number is also accepted.

use core::fmt;
use core::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Unexpected, Visitor};

pub(crate) fn decimal<N: FromStr>(text: &str) -> Option<N> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// Number of 64 bits, `0x2a` in human-readable formats. Also for fields (`#[serde(with)]`).
pub mod hexadecimal {
    use core::fmt;

    use serde::de::Deserializer;
    use serde::ser::Serializer;

    struct Hexadecimal(u64);

    impl fmt::Display for Hexadecimal {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:#x}", self.0)
        }
    }

    /// Writes a number.
    pub fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&Hexadecimal(*number))
        } else {
            serializer.serialize_u64(*number)
        }
    }

    /// Reads a number, or its text.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        super::number(deserializer, "a number of 64 bits, or its text such as 0x2a", |text| {
            match text.strip_prefix("0x") {
                Some(digits) if digits.starts_with('+') => None,
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => super::decimal(text),
            }
        })
    }
}

pub(crate) fn named<'de, D: Deserializer<'de>>(
    deserializer: D,
    named: impl Fn(&str) -> Option<u32>,
) -> Result<u32, D::Error> {
    number(deserializer, "libfabric's name without FI_, or its number of 32 bits", named)
}

fn number<'de, D: Deserializer<'de>, N: TryFrom<u64> + TryFrom<i64> + Deserialize<'de>>(
    deserializer: D,
    expected: &'static str,
    read: impl Fn(&str) -> Option<N>,
) -> Result<N, D::Error> {
    struct Number<F>(&'static str, F);
    impl<N: TryFrom<u64> + TryFrom<i64>, F: Fn(&str) -> Option<N>> Visitor<'_> for Number<F> {
        type Value = N;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<N, E> {
            N::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<N, E> {
            N::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<N, E> {
            self.1(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }
    }
    if deserializer.is_human_readable() {
        deserializer.deserialize_any(Number(expected, read))
    } else {
        N::deserialize(deserializer)
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
