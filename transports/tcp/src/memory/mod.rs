//! Memory of others: the block of a domain, rings of queues, ranges lent with operations, and
//! memory shared with peers.
//!
//! The only module besides the implementation of the boundary that accesses memory by address. Its
//! types are made in `unsafe` functions whose callers guarantee the memory for as long as the value
//! exists. The engine drops a value before the event that ends the loan.

#![allow(unsafe_code, reason = "memory of the caller, and system calls on it")]

mod block;
mod pipe;
mod process;
mod ring;
mod spans;
mod syscall;

pub(crate) use block::Block;
pub(crate) use pipe::{Inconsistent, Offer, Pipe};
pub(crate) use process::Process;
pub(crate) use ring::Ring;
pub(crate) use spans::{Gather, Gathered, Ranges, Span, Spans};
pub(crate) use syscall::set_bind_address_no_port;
