//! Types that a completion queue returns: buffers and results of operations.

pub use crate::cq::{Completion, Piece, RemoteEvent};
pub use crate::engine::op_table::{Claim, Done, Fetched, Found, OpError, Peek, Received, Transfer};
