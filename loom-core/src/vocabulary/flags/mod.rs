//! libfabric reuses the 64 bits, so each meaning has its own type.

/// Defines a flag type that retains unknown bits. Its text has the names joined with ` | `, then
/// unnamed bits in hexadecimal, or is `0` if empty.
///
/// Constants of several bits must follow the single bits.
macro_rules! flags {
    ($(#[$($meta:tt)*])* pub struct $Flags:ident: $Bits:ty {
        $($(#[$($flag_meta:tt)*])* const $NAME:ident = $bits:expr;)+
    }) => {
        bitflags::bitflags! {
            $(#[$($meta)*])*
            #[repr(transparent)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
            pub struct $Flags: $Bits {
                $($(#[$($flag_meta)*])* const $NAME = $bits;)+
                const _ = !0;
            }
        }

        impl core::fmt::Display for $Flags {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                if self.is_empty() {
                    f.write_str("0")
                } else {
                    bitflags::parser::to_writer(self, f)
                }
            }
        }
    };
}

mod capability;
mod counted;
mod memory;
mod operation;
mod order;

pub use capability::{Caps, Mode};
pub use counted::Counted;
pub use memory::{Access, MrFlags, MrMode};
pub use operation::{CompletionFlags, OpFlags};
pub use order::{CompOrder, MsgOrder};
