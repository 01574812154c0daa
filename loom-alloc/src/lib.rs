//! Allocators for loom: memory for its objects, without `std` or `alloc`.
//!
//! Sources of memory:
//! - [`Arena`], [`OwnedArena`] and [`StaticArena`], for several threads with [`Locked`].
//! - [`Pool`], [`SharedPool`], [`StaticPool`] and their [`SizeClasses`].
//! - `os::Mapping` (feature `os`) maps pages.
//!
//! Allocators over others:
//! - [`Budget`] enforces a limit.
//! - [`Fallback`] adds a second allocator.
//! - [`Ledger`] books each byte under a name.
//! - [`testing`] injects failures, and checks for leaks.
//!
//! All allocate only when opened. See also [`registered`] and [`mr_cache`].
//!
//! # Example
//! A software network, all in an array:
//!
//! ```
//! use core::mem::MaybeUninit;
//!
//! use loom_alloc::{Arena, Locked};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Av, Cq, CqAttr, scope};
//! # use loom_core::error::PostError;
//! # use loom_core::{Forever, Source, Tag};
//! # let attr = NetworkAttr { endpoints: 2, tx_depth: 8, rx_depth: 8, eager_size: 256, regions: 1, ..NetworkAttr::DEFAULT };
//! # let (mut inbox, mut outbox) = ([0; 5], *b"hello");
//! # let (inbox, outbox) = (&mut inbox[..], &mut outbox[..]);
//!
//! let mut memory = [MaybeUninit::uninit(); 64 * 1024];
//! let arena = Locked::new(Arena::new(&mut memory));
//! let network = Network::new_in(attr, &arena)?;
//! scope(|s| {
//!     let domain = s.open_in(&network.info(), &arena)?;
//!     let av = Av::open_in(&domain, 2, &arena)?;
//!     let cq = Cq::open_in(&domain, CqAttr { endpoints: 2, ..CqAttr::new(8) }, &arena)?;
//!     let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
//!     let opened = arena.used();
//!     // Messages are sent and received here.
//! #   let to_bob = av.insert(&bob.address()?)?;
//! #   let received = bob.tagged_recv(Source::Any, Tag(7), inbox).map_err(PostError::from)?;
//! #   cq.post(outbox, Forever, |outbox| alice.tagged_send(to_bob, Tag(7), outbox)).map_err(PostError::from)?;
//! #   assert_eq!(&cq.finish(received, Forever)?.into_buf()[..], b"hello");
//!     assert_eq!(arena.used(), opened);
//! #   Ok::<_, Box<dyn core::error::Error>>(())
//! })?;
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```
//!
//! # Features
//!
//! ## `os`
//! Pages of the operating system (`os::Mapping`) and notices of unmapped ones
//! (`mr_cache::Userfaultfd`), on Linux.
//!
//! ## `allocator-api2-02`
//! Adapters from and to allocators of allocator-api2 0.2 (`V02`, `V04`).
//!
//! ## `bytemuck`
//! Leases as slices of plain data.
//!
//! ## `bytes`
//! Leases as `bytes::Buf` and `bytes::BufMut`. The crate `bytes` requires `alloc`.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![cfg_attr(
    loom_model,
    allow(dead_code, unused_imports, reason = "what is built on the parts that are modelled is left out")
)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]

#[cfg(test)]
extern crate std;

pub use allocator_api2;

#[cfg(feature = "allocator-api2-02")]
mod allocator_api2_02;
mod arena;
mod block;
mod budget;
mod counted;
mod fallback;
mod free_list;
mod ledger;
mod locked;
#[cfg(not(loom_model))]
pub mod mr_cache;
#[cfg(loom_model)]
#[allow(dead_code, unreachable_pub, reason = "the models do not use all of it")]
#[path = "mr_cache/monitor/notices.rs"]
mod notices;
#[cfg(all(feature = "os", target_os = "linux"))]
pub mod os;
mod ownership;
#[cfg(not(loom_model))]
mod pool;
#[cfg(not(loom_model))]
pub mod registered;
#[cfg(not(loom_model))]
mod sharing;
mod static_arena;
pub mod testing;

#[cfg(feature = "allocator-api2-02")]
pub use self::allocator_api2_02::{V02, V04};
pub use arena::{Arena, BumpArena, OwnedArena};
pub use budget::Budget;
pub use fallback::Fallback;
pub use ledger::{Account, Ledger, LedgerEntry};
pub use locked::Locked;
pub use ownership::Owns;
#[cfg(not(loom_model))]
pub use pool::{BlockPool, Pool, PoolAttr, SharedPool, SizeClasses, Spill, StaticPool};
#[cfg(not(loom_model))]
pub use sharing::{Owner, Shared, Sharing};
pub use static_arena::StaticArena;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
