//! Groups: one object that communicates with many peers.
//!
//! A [`Group`] addresses peers by number:
//! - over one connectionless endpoint, with [`Prepared`] and [`connect`](Prepared::connect),
//! - over a connection for each peer, where the provider has only those (`FI_EP_MSG`), with
//!   [`Connections`] and [`join`](Connections::join).
//!
//! Operations have three levels of control:
//! - *posted*: [`Group::send`] and its siblings return a key of the queue.
//! - *scoped*: [`Group::scope`] stores requests in places of the caller, and ends or cancels all.
//! - *waiting*: [`scatter_send`](Group::scatter_send), [`gather_recv`](Group::gather_recv),
//!   [`scatter_write`](Group::scatter_write), [`gather_read`](Group::gather_read),
//!   [`multicast_send`](Group::multicast_send) and [`exchange`](Group::exchange) return after all
//!   requests or the deadline.
//!
//! See also [`collective::Team`], and [`bootstrap`] for [`exchange`] records.
//!
//! # Example
//! Scatter and gather with a borrowed buffer, in a group that is twice this side:
//!
//! ```
//! use loom_core::{Domain, Error, Forever, scope};
//! use loom_group::{Place, Prepared};
//! # fixture::domain!(network, domain);
//!
//! let mut buf = *b"ab\0\0";
//! let (tx, rx) = buf.split_at_mut(2);
//! scope(|s| {
//! #   let prepared = Prepared::open(&s.domain(&domain), 2, 16)?;
//! #   let itself = prepared.address()?;
//!     let group = prepared.connect([&itself; 2])?;
//!     let mut places = [Place::EMPTY; 4];
//!     group.scope(&mut places, |s| {
//!         group.peers().zip(tx.chunks_mut(1)).try_for_each(|(peer, buf)| s.send(peer, buf).map(drop))?;
//!         group.peers().zip(rx.chunks_mut(1)).try_for_each(|(peer, buf)| s.recv(peer, buf).map(drop))?;
//!         Ok::<_, Error>(s.finish(Forever)?)
//!     })
//! })?;
//! assert_eq!(&buf, b"abab");
//! # Ok::<_, Error>(())
//! ```
//!
//! # Room and order
//! A request that is refused with a transient error (`FI_EAGAIN`, a full queue) waits in its place.
//! A scope posts requests to one address in order: receives in one order, all others in another. If
//! the transport limits room by endpoint and not by peer, like the software transport, a silent
//! peer may occupy all of it.
//!
//! # Beside ibverbs-rs
//! Counterparts of `MultiChannel` of ibverbs-rs (0.4.1).
//!
//! | ibverbs-rs | here | difference |
//! |---|---|---|
//! | `MultiChannel::builder`, `build`, `ProtectionDomain::create_multi_channel` | [`Prepared::open_in`], [`Connections::open_in`] | memory of the caller |
//! | `PreparedMultiChannel::endpoints` | [`Prepared::address`], [`Connections::address`] | one address for all peers |
//! | `PreparedMultiChannel::handshake` | [`Prepared::connect`], [`Connections::join`] | names a failing peer |
//! | `send`, `receive`, `write`, `read` | [`Cq::post`](loom_core::Cq::post) and [`Cq::finish`](loom_core::Cq::finish) with [`Group::send`] etc. | deadline, retries |
//! | `unsafe send_unpolled`, `receive_unpolled`, `write_unpolled`, `read_unpolled` | [`Group::send`], [`Group::recv`], [`Group::write`], [`Group::read`] | safe: the queue keeps the buffer |
//! | `scatter_send`, `scatter_write`, `gather_receive`, `gather_read`, `multicast_send` | [`Group::scatter_send`], [`Group::scatter_write`], [`Group::gather_recv`], [`Group::gather_read`], [`Group::multicast_send`] | deadline, one outcome for each peer, not limited by queue depth |
//! | `scope` | [`Group::scope`] | cancels unfinished requests, no allocation |
//! | `manual_scope` | [`Group::scope`] | does not poll until it ends |
//! | `post_send`, `post_receive`, `post_write`, `post_read` | [`Scope::send`], [`Scope::recv`], [`Scope::write`], [`Scope::read`] | requests wait for room |
//! | `with_immediate`, `only_immediate` | [`Scope::send_data`], [`Scope::write_data`], [`Group::write_data`] | empty buffer for data alone |
//! | `ScopedPendingWork::poll`, `spin_poll`, `PendingWork::poll`, `spin_poll`, `wr_id` | [`Scope::turn`] and [`Scope::outcome`], [`Scope::finish`], [`Cq::take`](loom_core::Cq::take), [`Cq::wait`](loom_core::Cq::wait) with an [`OpKey`](loom_core::OpKey) | after a queue error, the queue keeps and ends the loan |
//! | `sub_region_unchecked` | | every range is checked |
//! | `Channel` and its builder, scopes and operations | [`Endpoint`](loom_core::Endpoint), [`MsgEndpoint`](loom_core::MsgEndpoint), or a group of one | |
//!
//! # Features
//!
//! ## `std`
//! Constructors with the global allocator, and [exchanges](bootstrap) over TCP and over a directory
//! of files.
//!
//! ## `pmi`
//! Exchange through a launcher of MPI programs (PMI-2), on Unix. Enables `std`.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod bootstrap;
mod bulk;
pub mod collective;
mod connections;
mod error;
pub mod exchange;
mod group;
mod operation;
mod peer_index;
mod post_by_peer;
mod region;
mod request_slot;
mod routes;
pub mod schedule;
mod scope;

pub use self::connections::Connections;
pub use self::error::{CollectiveError, PeerError};
pub use self::group::{ConnectError, Group, GroupAttr, Prepared};
pub use self::peer_index::PeerIndex;
pub use self::region::PeerRegion;
pub use self::request_slot::{Outcome, Place};
pub use self::scope::{Request, Scope, Summary};

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
