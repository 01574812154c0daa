//! What a completion queue gives back: the buffer, and what became of the operation.

pub use crate::engine::op_table::{Claim, Done, Fetched, Found, OpError, Peek, Received, Transfer};
pub use crate::objects::cq::{Completion, Piece, RemoteEvent};
