//! loom: Rust access to OpenFabrics Interfaces (libfabric), and to a software fabric that needs nothing but memory.
//!
//! One safe API for messages, tagged messages and remote memory access, written once in [`loom_core`] and generic over the
//! transport. This package adds what needs an operating system: the libfabric transport, in the module `ofi` with the
//! feature `libfabric`.
//!
//! Two endpoints over the software transport, in one thread; over libfabric only the line that makes the info differs:
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use loom_fabric::loom_core::error::PostError;
//! use loom_fabric::loom_core::objects::{av::Av, cq, cq::CqAttr, domain::Domain, endpoint::Source};
//! use loom_fabric::loom_core::soft::{Network, NetworkAttr};
//! use loom_fabric::loom_core::vocabulary::Tag;
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let info = network.info();
//! // Over libfabric: let info = Ofi::<Local>::query(&Hints { provider: Some("shm"), ..Hints::default() })?.next();
//!
//! let domain = Domain::open(&info)?;
//! let av = Av::open(&domain, 16)?;
//! let (mut inbox, mut outbox) = ([0; 64], *b"hello");
//! let (into, from) = (&mut inbox[..], &mut outbox[..]);
//! cq::scope(&domain, CqAttr::<64>::new(), |cq| {
//!     let alice = cq.endpoint(&av).enable()?;
//!     let bob = cq.endpoint(&av).enable()?;
//!     let to_bob = av.insert(&bob.address()?)?;
//!
//!     // Buffers move into posts and come back out of completions.
//!     let received = bob.tagged_recv(Source::Any, Tag(7), into).map_err(PostError::from)?;
//!     let sent = alice.tagged_send(to_bob, Tag(7), from).map_err(PostError::from)?;
//!
//!     let deadline = Instant::now() + Duration::from_secs(5);
//!     let (bytes, result) = cq.wait(received, deadline)?.ok_or("nothing came in time")?.into_parts();
//!     assert_eq!(&bytes[..result?.len()], b"hello");
//!     cq.wait(sent, deadline)?.ok_or("not sent in time")?.result()?;
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })??;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! - `std` (default): the standard library, for clocks and the global allocator.
//! - `libfabric`: the libfabric transport, module `ofi`. Building it needs libfabric 1.17 or newer with its headers,
//!   libclang and pkg-config; running it needs a libfabric at least as new as those headers.

#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]

#[cfg(any(test, feature = "std"))]
extern crate std;

pub use loom_core;

#[cfg(feature = "libfabric")]
pub mod ofi;

/// The code in the README compiles and runs.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
