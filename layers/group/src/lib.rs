//! One object that talks to many peers.
//!
//! A [`Group`] is peers by their numbers, over one endpoint of [`loom_core`], on either transport. It is opened in two steps:
//! [`Prepared`] has an address, which the peers need, and [`connect`](Prepared::connect) takes theirs. All memory is taken when it is
//! opened.
//!
//! Operations have three levels of control:
//! - *posted*: [`Group::send`] and the others by a peer's number return a key, for whoever polls the queue. Under a
//!   [driver](loom_core::objects::driver) of the queue they are awaited as futures;
//! - *scoped*: [`Group::scope`] has requests in places of the caller's, which are looked at one by one, and leaves none behind;
//! - *waiting*: [`scatter_send`](Group::scatter_send), [`gather_recv`](Group::gather_recv), [`scatter_write`](Group::scatter_write),
//!   [`gather_read`](Group::gather_read), [`multicast_send`](Group::multicast_send) and [`exchange`](Group::exchange) end when all of their
//!   requests are over, or the deadline has passed.
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

#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

mod group;
mod many;
mod peer_index;
mod place;
mod posts;
mod region;
mod scope;

pub use self::group::{ConnectError, Group, PeerError, Prepared};
pub use self::peer_index::PeerIndex;
pub use self::place::{Outcome, Place};
pub use self::region::PeerRegion;
pub use self::scope::{Request, Scope, Summary};
