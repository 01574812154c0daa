//! loom: Rust access to OpenFabrics Interfaces (libfabric), and to a software fabric.
//!
//! The objects of [`loom_core`] are generic over the transport. This package adds libfabric: module
//! `ofi`, feature `libfabric`.
//!
//! Two endpoints in one thread:
//!
//! ```
//! use loom_fabric::{Av, Cq, Domain, Error, Forever, Info, Network, NetworkAttr, Source, Tag, Transport};
//!
//! fn hello<T: Transport + 'static>(info: &Info<T>) -> Result<Vec<u8>, Error> {
//!     let domain = Domain::open(info)?;
//!     let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//!     let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
//!     let to_bob = av.insert(&bob.address()?)?;
//!     let received = cq.post(vec![0; 5], Forever, |room| bob.tagged_recv(Source::Any, Tag(7), room))?;
//!     let sent = cq.post(b"hello".to_vec(), Forever, |message| alice.tagged_send(to_bob, Tag(7), message))?;
//!     cq.finish(sent, Forever)?.result()?;
//!     Ok(cq.finish(received, Forever)?.into_result()?.0)
//! }
//!
//! let network = Network::new(NetworkAttr::default())?;
//! assert_eq!(hello(&network.info())?, b"hello");
//! # #[cfg(feature = "libfabric")] {
//! # use loom_fabric::{Caps, Hints, Local, Ofi};
//! # let hints = Hints { caps: Caps::TAGGED, ..Hints::local("shm") };
//! # let info = Ofi::<Local>::query(&hints)?.next().expect("a list of infos is not empty");
//! # assert_eq!(hello(&info)?, b"hello");
//! # }
//! # Ok::<_, Error>(())
//! ```
//!
//! Over a libfabric provider, only the info differs:
//! `Ofi::<Local>::query(&Hints { caps: Caps::TAGGED, ..Hints::local("shm") })?`
//!
//! # Where to go on
//! - The guide, `docs/guide.md` in loom's repository, or `docs/from-c.md` for readers who know
//!   libfabric's C functions.
//! - [`loom_core`] (`loom-fabric-core`): the objects and the software transport.
//! - The guide lists the other packages, and the command `loom`.
//!
//! # Features
//!
//! ## `std` (default)
//! Clocks and the global allocator.
//!
//! ## `libfabric`
//! The libfabric transport, module `ofi`, for 64-bit Linux with glibc. The first query loads
//! libfabric 1.17 or newer (`ofi::Library`).
//!
//! ## `libfabric-linked`
//! Links libfabric instead, for other systems and static builds. Building requires its headers,
//! libclang and pkg-config. Running requires a libfabric at least as new as those headers.
//!
//! ## `tcp`
//! `AnyInfo` has offers of `loom_tcp`.
//!
//! ## `log`
//! Logs opened, closed and leaked objects and workarounds for providers through the crate `log`
//! ([targets and levels](loom_core#log)).
//!
//! ## `serde`
//! Addresses, remote regions, tags, flags and attributes as values of `serde` ([their
//! form](loom_core::vocabulary#the-form-of-values-with-serde)).

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]

#[cfg(feature = "std")]
extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

pub use loom_core;
#[cfg(feature = "std")]
pub use loom_core::Yielding;
// Items for programs over any transport.
pub use loom_core::soft::{Every, Network, NetworkAttr, Plan, Soft};
pub use loom_core::{
    Access, AddressError, Arrivals, Av, AvAttr, Binding, Buffer, Caps, Completion, CompletionLevel, Counted, Counter,
    CounterAttr, Cq, CqAttr, CqDriver, CqError, Deadline, Domain, Done, Driving, Endpoint, EndpointAddr,
    EndpointAttributes, EndpointType, EqAttr, EqEvent, Errno, Error, EventQueue, Forever, Hints, ImmediateData, Info,
    Mr, MrAttr, MsgEndpoint, MsgOrder, OpError, OpKey, OpenError, Peer, Piece, PostError, Rejected, RemoteEvent,
    RemoteRegion, RunError, Scope, SendOptions, Source, SourceBuffer, Spins, Tag, TagMatch, TargetBuffer, ThePeer,
    Transfer, Transport, Unclaimed, WaitObj, scope,
};

#[cfg(feature = "std")]
mod any_info;
#[cfg(feature = "libfabric")]
pub mod ofi;
#[cfg(feature = "std")]
pub use any_info::{AnyInfo, Program};
#[cfg(feature = "tcp")]
pub use loom_tcp;
#[cfg(feature = "libfabric")]
pub use ofi::{Local, Ofi, Shared};

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../docs/guide.md")]
struct GuideDoctests;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../docs/from-c.md")]
struct FromCDoctests;
