//! Bytes on the wire: connect messages and frames of libfabric's provider `tcp`.
//!
//! Parsers take the bytes that have arrived and return `Ok(None)` if more are required, so that a
//! stream can be cut anywhere. A [`Violation`] ends the connection: the protocol has no error
//! message.
//!
//! ```
//! use loom_tcp::wire::{ByteOrder, Frame, Operation};
//!
//! // A message of 8 bytes, as libfabric sends it.
//! let stream = *b"\x03\0\0\0\0\0\x10\0\x18\0\0\0\0\0\0\0ABCDEFGH";
//! let (frame, len) = Frame::parse(&stream, ByteOrder::Little)?.expect("a whole header");
//! assert_eq!(frame.operation, Operation::Message { data: None });
//! assert_eq!((&stream[len..], frame.payload), (&b"ABCDEFGH"[..], 8));
//! # Ok::<_, loom_tcp::wire::Violation>(())
//! ```
//!
//! | release of libfabric | endpoints | version of RDM endpoints |
//! |---|---|---|
//! | 1.17 | `MSG` of `tcp`, `RDM` of `net` | 0 |
//! | 1.18, 1.19 | `MSG` and `RDM` of `tcp` | 0 |
//! | from 1.20 on | `MSG` and `RDM` of `tcp` | 1 |

mod connect;
mod frame;
#[cfg(test)]
mod vectors;
mod violation;

pub use connect::{ConnectKind, ConnectMessage, MAX_CONNECT_DATA, MAX_CONNECT_MESSAGE, RdmData};
pub(crate) use frame::Opcode;
pub use frame::{Frame, FrameFlags, MAX_HEADER, MAX_PARTS, Operation, RemoteRange};
pub use violation::Violation;

/// Order of the bytes of numbers in frames.
///
/// ```
/// use loom_tcp::wire::ByteOrder;
///
/// assert_eq!(ByteOrder::NATIVE == ByteOrder::Little, 1_u16.to_ne_bytes() == [1, 0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Lowest byte first.
    Little,
    /// Highest byte first.
    Big,
}

impl ByteOrder {
    /// Order of this machine.
    pub const NATIVE: ByteOrder = if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };
}
