//! Allocators for loom: memory for its objects from where the program says, with neither `std` nor `alloc`.
//!
//! Every object of `loom_core` takes its memory once, when it is opened, from an
//! [`Allocator`](allocator_api2::alloc::Allocator) that the caller passes. This crate has such allocators:
//!
//! - [`Arena`] hands out memory of the caller, from its begin to its end. One thread uses it.
//! - [`StaticArena`] is an arena in a `static`, for programs without an operating system and for objects which are
//!   never closed.
//! - `os::Mapping` (feature `os`, Linux) is pages of the operating system: huge ones, locked, on a NUMA node, guarded.
//! - `V02` (feature `allocator-api2-02`) admits allocators that were written for allocator-api2 0.2, as bumpalo's.
//!
//! Memory that is registered once, for providers that ask for that and all others: [`registered`] has slabs of buffers, whose
//! leases are posted, and a heap.
//!
//! # Example
//!
//! A software network with a domain, an address vector and a queue, all in an array:
//!
//! ```
//! use core::mem::MaybeUninit;
//!
//! use loom_alloc::Arena;
//! use loom_core::error::PostError;
//! use loom_core::objects::{av::Av, cq::{self, CqAttr}, deadline::Forever, domain::Domain, endpoint::Source};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::vocabulary::Tag;
//!
//! let mut memory = [MaybeUninit::uninit(); 32 * 1024];
//! let arena = Arena::new(&mut memory);
//!
//! let attr = NetworkAttr { endpoints: 2, tx_depth: 8, rx_depth: 8, eager_size: 256, regions: 1, ..NetworkAttr::DEFAULT };
//! let network = Network::new_in(attr, &arena)?;
//! let domain = Domain::open(&network.info())?;
//! let av = Av::open_in(&domain, 2, &arena)?;
//! let (mut inbox, mut outbox) = ([0; 5], *b"hello");
//! let (inbox, outbox) = (&mut inbox[..], &mut outbox[..]);
//! cq::scope_in(&domain, CqAttr::<8>::new().endpoints(2), &arena, |cq| {
//!     let (alice, bob) = (cq.endpoint(&av).enable()?, cq.endpoint(&av).enable()?);
//!     let to_bob = av.insert(&bob.address()?)?;
//!     let opened = arena.used();
//!
//!     let received = bob.tagged_recv(Source::Any, Tag(7), inbox).map_err(PostError::from)?;
//!     alice.tagged_send(to_bob, Tag(7), outbox).map_err(PostError::from)?;
//!     let done = cq.wait(received, Forever)?.expect("there is no deadline");
//!     assert_eq!(&done.into_buf()[..], b"hello");
//!
//!     assert_eq!(arena.used(), opened, "what is open takes no more memory");
//!     Ok::<_, Box<dyn core::error::Error>>(())
//! })??;
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```

#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]

#[cfg(test)]
extern crate std;

pub use allocator_api2;

mod arena;
mod block;
mod budget;
mod fallback;
mod free_list;
mod ledger;
mod locked;
pub mod mr_cache;
#[cfg(all(feature = "os", target_os = "linux"))]
pub mod os;
mod owns;
#[cfg(not(loom_model))]
mod pool;
#[cfg(not(loom_model))]
pub mod registered;
// The model checker's atomics are no numbers in a block.
#[cfg(not(loom_model))]
mod sharing;
mod static_arena;
mod tally;
pub mod testing;
#[cfg(feature = "allocator-api2-02")]
mod v02;

pub use arena::{Arena, OwnedArena};
pub use budget::Budget;
pub use fallback::Fallback;
pub use ledger::{Account, Entry, Ledger, LedgerFull};
pub use locked::Locked;
pub use owns::Owns;
#[cfg(not(loom_model))]
pub use pool::{BlockPool, Pool, PoolAttr, PoolError, SharedPool, SizeClasses, Spill, StaticPool};
#[cfg(not(loom_model))]
pub use sharing::{Owner, Shared, Sharing};
pub use static_arena::StaticArena;
#[cfg(feature = "allocator-api2-02")]
pub use v02::{V02, V04};
