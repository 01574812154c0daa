//! Flag words, with libfabric's bit values.
//!
//! libfabric reuses the same 64 bits in several meanings (bit 59 is `FI_DIRECTED_RECV`, `FI_CLAIM` and `FI_CONTEXT`), so
//! there is one type for each meaning. Unknown bits are retained by all of them.

/// Gives a flag type its text: names joined with ` | `, then what has no name in hexadecimal; `0` when nothing is set.
///
/// Constants that combine several bits must stand after the single bits: they are then never printed in addition to
/// them.
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
