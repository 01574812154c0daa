//! Transfers of many pieces of registered memory over one or several network cards.
//!
//! An [`Engine`] writes to and reads from peers' memory over its rails, each a domain. A
//! [`Request`] names the peer, both memories and a [`Plan`]: one range, a list of ranges, pages by
//! number, strides. The engine posts its operations without blocking, and reports one [`Outcome`].
//!
//! The receiver counts the writes of a transfer by their immediate data ([`Engine::wait`]), in any
//! order, or one [signal](Request::signal) after them.
//!
//! ```
//! use loom_core::allocator_api2::alloc::Global;
//! use loom_core::{Access, Domain};
//! use loom_transfer::{Engine, EngineAttr, Event, Pages, Plan, RemoteMemory, Request, Wait};
//! # use loom_core::soft::{Network, NetworkAttr};
//! # let network = Network::new(NetworkAttr::default())?;
//!
//! # // Two rails on each side.
//! # let domains = [Domain::open(&network.info())?, Domain::open(&network.info())?];
//! # let attr = EngineAttr { piece: 4096, ..EngineAttr::default() };
//! # let mut source = Engine::open_in(&domains, attr, Global)?;
//! # let mut target = Engine::<_, _, Pages<[u32; 3]>, _>::open_in(&domains, attr, Global)?;
//! let pages = source.register(vec![7_u8; 16 * 4096], Access::empty())?;
//! let cache = target.register(vec![0_u8; 16 * 4096], Access::REMOTE_WRITE)?;
//!
//! // The target sends its addresses and the record of its memory, by any way.
//! # let mut address = [0; 2048];
//! let len = target.address(&mut address)?;
//! let record = target.remote(cache)?.to_bytes();
//!
//! let peer = source.insert_peer(&address[..len])?;
//! let remote = RemoteMemory::from_bytes(&record)?;
//! let plan = Pages::new([1, 4, 9], [0, 1, 2], 4096).expect("as many pages on both sides");
//! let arrived = target.wait(Wait::new(5, plan.operations(target.piece())))?;
//! source.submit(Request::write(peer, pages, &remote, plan).data(5))?;
//!
//! # let (mut sent, mut received) = (false, false);
//! # while !sent || !received {
//! if let Some(Event::Ended(outcome)) = source.poll(0)? { sent = outcome.result()? == 3 * 4096; }
//! if let Some(Event::Arrived(event)) = target.poll(0)? { received = event.key == arrived; }
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # What it promises
//! - **Exact division.** The operations of a plan cover each block once, for every length, number
//!   of rails and piece.
//! - **One outcome** for each transfer: done, failed with the first error, cancelled, or ended at
//!   its deadline. After an error, the outcome follows when all operations in flight have
//!   completed. A deadline, a failed queue or the loss of the peer ends it earlier, with the
//!   number of operations in flight.
//! - **No operation of a rail uses the key, descriptor or address of another rail.**
//! - **After opening, no allocation**, except for [`Engine::register`].
//! - **Notifications follow their data**, once each, in any order of arrival, and failed transfers
//!   are reported to the receiver too ([control messages](Engine#control-messages)).
//!
//! # Features
//!
//! ## `std`
//! `Agent`, the topology of this machine, and affinity of threads (Linux).

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

#[cfg(feature = "std")]
mod agent;
mod attr;
mod control;
mod engine;
mod event;
mod link;
mod memory;
mod peers;
mod plan;
mod queue;
mod rail;
mod remote;
mod request;
pub mod topology;
mod transfers;

#[cfg(feature = "std")]
pub use self::agent::{Agent, AgentAttr, Counters, Message, PeerChange, Submission, metadata};
pub use self::attr::EngineAttr;
pub use self::control::{Notification, NotificationKey};
pub use self::engine::{Engine, Wait};
pub use self::event::{Ending, Event, Outcome, TransferKey};
pub use self::memory::MemoryKey;
pub use self::peers::PeerKey;
pub use self::plan::{Block, Blocks, Pages, Plan, Strided, Subset};
pub use self::remote::{MAX_RAILS, RemoteMemory};
pub use self::request::Request;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
