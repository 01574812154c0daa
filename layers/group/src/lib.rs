//! One object that talks to many peers.
//!
//! A [`Group`] is peers by their numbers, on either transport. It is opened in two steps, before and after the peers have exchanged addresses:
//! - over one connectionless endpoint: [`Prepared`] has an address, and [`connect`](Prepared::connect) takes those of the peers;
//! - over a connection for each peer, where the provider has only those (`FI_EP_MSG`): [`Connections`] has an address, and [`join`](Connections::join)
//!   takes those of the peers, and connects.
//!
//! The group is the same type, and has the same operations. All memory of loom's is taken when it is opened.
//!
//! Operations have three levels of control:
//! - *posted*: [`Group::send`] and the others by a peer's number return a key, for the program that polls the queue. Under a
//!   [driver](loom_core::driver) of the queue they are awaited as futures;
//! - *scoped*: [`Group::scope`] has requests in places of the caller's, which are looked at one by one, and leaves none behind;
//! - *waiting*: [`scatter_send`](Group::scatter_send), [`gather_recv`](Group::gather_recv), [`scatter_write`](Group::scatter_write),
//!   [`gather_read`](Group::gather_read), [`multicast_send`](Group::multicast_send) and [`exchange`](Group::exchange) end when all of their
//!   requests are over, or the deadline has passed.
//!
//! Members of a group act together in a [`collective::Team`]: barrier, broadcast, reduce, all-reduce, scan, gather, scatter and their like, several at a
//! time, by the algorithms of [`schedule`].
//!
//! What peers must know of each other before is an [`exchange`] record of bytes; [`bootstrap`] brings it to them.
//!
//! # Example
//!
//! Scatter and gather among peers that are this side itself. The buffer is borrowed:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Domain, Forever, scope};
//! use loom_group::{PeerIndex, Place, Prepared};
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let mut buf = *b"ab\0\0";
//! let (tx, rx) = buf.split_at_mut(2);
//! scope(|s| {
//!     let prepared = Prepared::open(&s.domain(&domain), 2, 16)?;
//!     let itself = prepared.address()?;
//!     let group = prepared.connect([&itself; 2])?;
//!     let peers = || [0, 1].map(PeerIndex).into_iter();
//!     let mut places = [Place::EMPTY; 4];
//!     let summary = group.scope(&mut places, |s| {
//!         peers().zip(tx.chunks_mut(1)).try_for_each(|(peer, buf)| s.send(peer, buf).map(drop))?;
//!         peers().zip(rx.chunks_mut(1)).try_for_each(|(peer, buf)| s.recv(peer, buf).map(drop))?;
//!         Ok::<_, loom_core::Error>(s.finish(Forever)?)
//!     })?;
//!     assert!(summary.is_complete());
//!     Ok::<_, loom_core::Error>(())
//! })?;
//! assert_eq!(&buf, b"abab");
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # Room and order
//!
//! A request that is refused for the moment (`FI_EAGAIN`, a full queue) waits in its place, with its buffer. Requests of one scope to one
//! address are posted in their order, also where that is the address of several members: receives in theirs, and all else in theirs. One that
//! waits holds up those of its order, and no other. But where the transport lends room to an endpoint, and not to each of its peers, as the software transport does, a peer that receives nothing
//! may take all of it.
//!
//! # Beside ibverbs-rs
//!
//! The model is `MultiChannel` of ibverbs-rs (0.4.1), which has a queue pair for each peer. What its types do is done so here:
//!
//! | ibverbs-rs | here | what differs |
//! |---|---|---|
//! | `MultiChannel::builder`, `build`, `ProtectionDomain::create_multi_channel` | [`Prepared::open_in`], [`Connections::open_in`] | one endpoint for all peers, or a connection for each; memory is the caller's |
//! | `PreparedMultiChannel::endpoints` | [`Prepared::address`], [`Connections::address`] | one address, which all peers use |
//! | `PreparedMultiChannel::handshake` | [`Prepared::connect`], [`Connections::join`] | a peer that fails is named, and nothing is lost |
//! | none | [`Group::set`], [`Connections::set`], [`Group::remove`] | a peer is replaced or removed while the others go on |
//! | `num_channels`, `pd` | [`Group::capacity`], [`Group::peers`], [`Group::domain`] | |
//! | `send`, `receive`, `write`, `read` | [`Cq::post`](loom_core::Cq::post) and [`Cq::finish`](loom_core::Cq::finish) with [`Group::send`] and the others | a deadline; what is refused for the moment is posted again |
//! | `unsafe send_unpolled`, `receive_unpolled`, `write_unpolled`, `read_unpolled` | [`Group::send`], [`Group::recv`], [`Group::write`], [`Group::read`] | safe: the queue keeps the buffer |
//! | `scatter_send`, `scatter_write`, `gather_receive`, `gather_read`, `multicast_send` | [`Group::scatter_send`], [`Group::scatter_write`], [`Group::gather_recv`], [`Group::gather_read`], [`Group::multicast_send`] | a deadline; one outcome for each peer instead of one error for all; as many requests as there are places, however deep the queue is |
//! | none | [`Group::exchange`] | |
//! | `scope` | [`Group::scope`] | what the scope has not waited for is cancelled; no allocation |
//! | `manual_scope` | [`Group::scope`] | it polls nothing by itself until it ends |
//! | `post_send`, `post_receive`, `post_write`, `post_read` | [`Scope::send`], [`Scope::recv`], [`Scope::write`], [`Scope::read`] | a request waits for room |
//! | `post_scatter_send` and the others | a loop around [`Scope::send`] and the others | |
//! | `unsafe scatter_send_unpolled` and the others | a loop around [`Group::send`] and the others | |
//! | `with_immediate`, `only_immediate` | [`Scope::send_data`], [`Scope::write_data`], [`Group::write_data`] | with an empty buffer for the data alone |
//! | `ScopedPendingWork::poll`, `spin_poll`, `PendingWork::poll`, `spin_poll`, `wr_id` | [`Scope::turn`] and [`Scope::outcome`], [`Scope::finish`]; [`Cq::take`](loom_core::Cq::take), [`Cq::wait`](loom_core::Cq::wait) with an [`OpKey`](loom_core::OpKey) | an error of the queue leaves the loan in the queue, which ends it |
//! | `PeerRemoteMemoryRegion::new`, `peer`, `sub_region` | [`PeerRegion::new`], [`PeerRegion::peer`], [`PeerRegion::slice`] | |
//! | `sub_region_unchecked` | none | every range is checked before it is posted |
//! | `Channel` and its builder, scopes and operations | [`Endpoint`](loom_core::Endpoint), [`MsgEndpoint`](loom_core::MsgEndpoint), or a group of one | |
//!

#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod bootstrap;
pub mod collective;
mod connections;
pub mod exchange;
mod group;
mod links;
mod many;
mod peer_index;
mod place;
mod posts;
mod region;
pub mod schedule;
mod scope;
mod verb;

pub use self::connections::Connections;
pub use self::group::{ConnectError, Group, GroupAttr, PeerError, Prepared};
pub use self::peer_index::PeerIndex;
pub use self::place::{Outcome, Place};
pub use self::region::PeerRegion;
pub use self::scope::{Request, Scope, Summary};

/// The code in the README compiles and runs.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
