//! What a completion queue gives back: the buffer, and what became of the operation.

pub use crate::cq::{Completion, Piece, RemoteEvent};
pub use crate::engine::op_table::{Claim, Done, Fetched, Found, OpError, Peek, Received, Transfer};
