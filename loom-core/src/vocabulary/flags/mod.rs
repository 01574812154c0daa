//! Flag words, with libfabric's bit values.
//!
//! libfabric reuses the 64 bits with several meanings, so each meaning has its own type. All retain
//! unknown bits.

/// Defines the text of a flag type: names joined with ` | `, then unnamed bits in hexadecimal, or
/// `0` if empty.
///
/// Constants of several bits must follow the single bits, so that they are not printed in addition.
macro_rules! display_flags {
    ($($Flags:ty),+) => {$(
        impl core::fmt::Display for $Flags {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                if self.is_empty() {
                    f.write_str("0")
                } else {
                    bitflags::parser::to_writer(self, f)
                }
            }
        }
    )+};
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
