//! Transport over TCP sockets, wire-compatible with libfabric's provider `tcp`.
//!
//! Endpoints without connections (`FI_EP_RDM`), which also have tagged messages, and endpoints with
//! connections (`FI_EP_MSG`). Linux on x86-64 and aarch64.
//!
#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! - [`query`] returns an info with the sizes of [`TcpAttr`]. A domain takes all memory when it
//!   opens. Steady state does not allocate.
//! - An endpoint without connections listens at the address of its info, and has one connection to
//!   each peer, which is opened by the first operation. An operation is refused if the kernel has
//!   no route, and fails with the kernel's error number or, after [`TcpAttr::connect_timeout`],
//!   `ETIMEDOUT`.
//! - Progress is manual: polls send and receive. The first operation to a peer after a poll is sent
//!   at once if no completion waits. Others are sent together by a later poll, at the latest the
//!   16th, so a program polls after its last post.
//! - Long payloads go from and to the memory of the operation. Payloads of up to 512 bytes are
//!   copied.
//! - With [`TcpAttr::rendezvous_size`], the bytes of long tagged messages are sent when a receive
//!   accepts them, and hold up no other message.
//! - With [`TcpAttr::shared_memory`], endpoints of one host and user exchange all bytes through
//!   memory that both map when they connect. A byte on the socket wakes a peer that sleeps.
//! - A message without a receive is kept in [`TcpAttr::unexpected_size`]. One that does not fit, or
//!   whose sender is not in the address vector, holds up its connection until a receive accepts it,
//!   its sender is inserted or there is room. Claimed messages keep their room.
//!
//! # Security
//!
//! Bytes from the network are validated: each length, key, range, flag and order. A violation ends
//! its connection, and only [`OpError`](loom_core::OpError) of operations in flight has its text.
//! Keys of regions have 64 random bits. A connection takes at most a quarter of the memory for
//! messages. Connections of strangers that have reached neither a receive nor a region end when
//! others require their places.
//!
//! Shared memory belongs to one connection, and cannot shrink. Its peer may change it at any time:
//! positions are checked, and headers are copied before they are read.
//!
//! [`TcpAttr::allowed`] names the networks of peers. Connections of others are closed before a byte
//! is read. The protocol has neither encryption nor authentication: a program that can send from a
//! peer's IP address can take its place, and one that can read the network reads the keys.
//!
//! With the feature [`tls`](#tls), both sides have certificates, and the bytes of all connections
//! are encrypted and authenticated, except the end of a connection. A stranger costs a handshake of
//! the thread that polls.
//!
//! # Limits
//!
//! - No atomics, tags or multi-receives over connections, multi-receives with tags, or ranges of
//!   ports.
//!   [`loom-fabric-updates`](https://docs.rs/loom-fabric-updates) replaces atomics.
//! - No shared memory with TLS, over connections, or between containers that hide their processes
//!   from each other. A message longer than its rings moves while both sides poll.
//! - A request for a connection has no deadline, and ends when others require its place.
//! - A domain has one family of addresses. The domain and its objects stay on one thread.
//! - An endpoint that closes sends what the kernel takes at once. Completions of sends mean that
//!   the kernel has the bytes: use
//!   [`CompletionLevel::Delivery`](loom_core::CompletionLevel::Delivery) where that matters.
//! - A message that waits holds up acknowledgements and answers to reads on its connection, whose
//!   end is noticed afterwards.
//! - A peer's write or read of a region that was closed ends the connection. The next operation
//!   opens another one.
//! - A host that vanishes is noticed after 20 s, or, with bytes in flight, when the kernel gives up
//!   (`net.ipv4.tcp_retries2`, about 15 minutes).
//! - A connection has 32 reads in flight. Others wait.
//! - libfabric's `net` of 1.17 closes a connection after a truncated message, and reports tags
//!   without their highest bit.
//!
//! # Features
//!
//! ## `std` (default)
//! Names of hosts, and the global allocator.
//!
//! ## `tls`
//! `query_with_tls`: TLS 1.3 by `rustls` and `ring`, between endpoints of this package. Opening a
//! connection takes some milliseconds of the thread that polls, and memory of the global allocator.
//! Records are encrypted in the memory of the domain, without an allocation except when a key
//! changes, after 2^23 records. Building `ring` requires a C compiler.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("loom-fabric-tcp requires Linux on x86-64 or aarch64");
#[cfg(any(test, feature = "std"))]
extern crate std;

mod attr;
mod engine;
mod info;
mod interface;
mod memory;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod strangers;
mod tcp;
#[cfg_attr(not(feature = "tls"), path = "tls/absent.rs")]
mod tls;
pub mod wire;

pub use attr::{Subnet, TcpAttr};
pub use info::{TcpInfo, query};
#[cfg(feature = "tls")]
pub use rustls;
pub use tcp::{Tcp, TcpAv, TcpCounter, TcpCq, TcpDomain, TcpEndpoint, TcpEq, TcpMr, TcpPassiveEndpoint, TcpRequest};
#[cfg(feature = "tls")]
pub use tls::{Tls, query_with_tls};
