use core::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};

use super::EndpointAddr;
use super::wire::HEADER_LEN;
use crate::util::serial;

const ENCODED: usize = HEADER_LEN + EndpointAddr::MAX_LEN;

impl Serialize for EndpointAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_str(self);
        }
        let mut out = [0; ENCODED];
        let len = self.encode(&mut out).map_err(S::Error::custom)?;
        serializer.serialize_bytes(out.get(..len).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for EndpointAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = EndpointAddr;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the text of an address")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<EndpointAddr, E> {
                text.parse().map_err(E::custom)
            }
        }
        if deserializer.is_human_readable() {
            return deserializer.deserialize_str(Text);
        }
        let expected = "the bytes of an encoded address";
        let (bytes, len) = serial::bytes::<ENCODED, D>(deserializer, expected)?;
        let (addr, used) = Self::decode(bytes.get(..len).unwrap_or_default()).map_err(D::Error::custom)?;
        if used == len { Ok(addr) } else { Err(D::Error::invalid_length(len, &expected)) }
    }
}
