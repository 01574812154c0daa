//! Transport over TCP sockets, wire-compatible with libfabric's provider `tcp`.
//!
//! Endpoints without connections (`FI_EP_RDM`) of this package and of libfabric exchange messages,
//! tagged messages and RMA. Programs need neither libfabric nor a C library.

#![cfg_attr(not(target_os = "linux"), allow(unused))]
#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

mod attr;
mod engine;
mod info;
mod memory;
#[cfg(test)]
mod strangers;
mod tcp;
pub mod wire;

pub use attr::TcpAttr;
pub use info::{TcpInfo, query};
pub use tcp::{Tcp, TcpAv, TcpCounter, TcpCq, TcpDomain, TcpEndpoint, TcpMr};
