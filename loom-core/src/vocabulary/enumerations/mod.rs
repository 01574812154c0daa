/// Defines an enumeration: a transparent newtype over `u32` with named constants.
///
/// Each line is `NAME = number, "C name";`. Zero is the default, like in C.
macro_rules! enumeration {
    (
        $(#[$type_attribute:meta])*
        $Type:ident {
            $(
                $(#[$attribute:meta])*
                $NAME:ident = $number:literal, $c_name:literal;
            )+
        }
    ) => {
        $(#[$type_attribute])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $Type(u32);

        impl $Type {
            $(
                $(#[$attribute])*
                #[doc(alias = $c_name)]
                pub const $NAME: Self = Self($number);
            )+

            /// All named values, in numeric order.
            pub const NAMED: &'static [Self] = &[$(Self::$NAME),+];

            /// The value with libfabric's number, known or not.
            #[must_use]
            pub const fn from_raw(number: u32) -> Self {
                Self(number)
            }

            /// libfabric's number.
            #[must_use]
            pub const fn as_raw(self) -> u32 {
                self.0
            }

            /// libfabric's name without `FI_`, if known.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$NAME => $c_name.strip_prefix("FI_"),)+
                    _ => None,
                }
            }
        }

        impl core::fmt::Display for $Type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "unknown ({})", self.0),
                }
            }
        }

        impl core::fmt::Debug for $Type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($Type), "({})"), self)
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $Type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.name() {
                    Some(name) if serializer.is_human_readable() => serializer.serialize_str(name),
                    _ => serializer.serialize_u32(self.0),
                }
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $Type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let named = |text: &str| Self::NAMED.iter().find(|value| value.name() == Some(text)).map(|value| value.0);
                $crate::util::serial::named(deserializer, named).map(Self)
            }
        }
    };
}

pub(super) use enumeration;

mod domain;
mod endpoint;
mod queue;
mod system;

pub use domain::{AvType, HmemIface, Progress, ResourceMgmt, Threading};
pub use endpoint::{AddressFormat, EndpointType, Protocol, TrafficClass};
pub use queue::{CqFormat, EventKind, WaitObj};
pub use system::{BusType, LinkState, ParamType};
