//! Tagged messages (`FI_TAGGED`) over links that carry plain messages.
//!
//! A [`TaggedEndpoint`] has links to peers with this layer. A [`Carrier`] carries each link: a
//! connected [`MsgEndpoint`](loom_core::endpoint::MsgEndpoint) (`tcp`, `net`, hardware with
//! reliable connections), or one peer of a connectionless endpoint with directed receives
//! ([`WithPeer`]).
//!
//! ```
//! use loom_core::deadline::Spins;
//! use loom_core::{Tag, TagMatch};
//! use loom_tagged::{Source, TaggedEndpoint, WithPeer};
//! # use loom_core::{Av, Cq, Domain};
//! # use loom_core::soft::{Network, NetworkAttr, Soft};
//! # use loom_tagged::{Packet, TaggedAttr};
//! # let (mut message, mut room) = (vec![7; 100_000], vec![0; 100_000]);
//! # let network = Network::new(NetworkAttr::default())?;
//! # let domain = Domain::open(&network.info())?;
//! # let av = Av::open(&domain, 2)?;
//! # let [alice, bob] = [Cq::<Soft<'_>, Packet<Vec<u8>>>::open(&domain, 128)?, Cq::open(&domain, 128)?];
//! # let (at_alice, at_bob) = (alice.endpoint(&av)?, bob.endpoint(&av)?);
//! # let (to_alice, to_bob) = (av.insert(&at_alice.address()?)?, av.insert(&at_bob.address()?)?);
//! # let attr = TaggedAttr::DEFAULT;
//! # let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
//!
//! let (mut a, mut b) = (TaggedEndpoint::open(alice, attr)?, TaggedEndpoint::open(bob, attr)?);
//! let link = a.add_link(WithPeer::new(&at_alice, to_bob), packets())?;
//! b.add_link(WithPeer::new(&at_bob, to_alice), packets())?;
//! # while !a.is_up(link) {
//! #     assert_eq!(a.link_error(link), None, "as where receives cannot be directed");
//! #     a.progress()?;
//! #     b.progress()?;
//! # }
//!
//! a.tagged_send(link, Tag(0x21), &mut message[..])?;
//! let received = b.tagged_recv(Source::Any, TagMatch { tag: Tag(0x20), ignore: 0xf }, &mut room[..])?;
//! let done = loop {
//!     a.progress()?;
//!     if let Some(done) = b.wait(received, Spins(1))? {
//!         break done;
//!     }
//! };
//! assert_eq!((done.result()?.tag, done.result()?.len), (Some(Tag(0x21)), 100_000));
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # How it works
//!
//! Data is copied through *packets*: buffers of one size that come with a link. They can be
//! [`Registered`](loom_core::registered::Registered) or have room for a
//! [prefix](loom_core::buffer::Prefixed) if the provider requires it.
//!
//! - A message that fits into a packet is sent at once ([eager](TaggedEndpoint::eager_size)), and
//!   waits there until a receive matches.
//! - A longer message is announced by a request. The matching receive answers with its capacity,
//!   and the sender sends at most that many bytes in segments.
//! - A peer has *credit* for the posted receives of a link. Without credit, a send fails with the
//!   transient error [`PostError::Again`](loom_core::error::PostError::Again), so memory use is
//!   bounded. Packets that never wait for a receive (segments, answers) have separate credit that
//!   returns by itself, so waiting messages do not block transfers in flight.
//! - Packets are handled in the order of their sequence numbers, so the carrier need not grant
//!   [`SAS`](loom_core::vocabulary::MsgOrder::SAS).
//! - A failed carrier, a violation of the protocol, or bytes that are no [packet](wire) end this
//!   link only: its operations complete with an error, and [an event](TaggedEvent::LinkFailed)
//!   reports the cause.
//!
//! # Cost
//!
//! - Two copies of each message, and [64 bytes](wire::HEADER_LEN) before each packet.
//! - One round trip before a long message, then at most [`TaggedAttr::control`] packets in flight.
//! - [Packets](TaggedAttr::packets_per_link) for all waiting messages and packets in flight of each
//!   link, allocated at opening.
//! # Limits
//!
//! - A tagged endpoint stays on the thread of its queue, which needs a slot for each packet.
//! - Providers with `FI_RM_ENABLED` suffice for a [`Carrier`], unacknowledged datagrams do not.
//! - A message has one buffer, in host memory.
//! - A new connection to the same peer is a new link, of [a fixed number](TaggedAttr::links) in an
//!   endpoint's life. Without connections, it needs [a new endpoint](WithPeer::new) below.
//!
//! # Features
//!
//! ## `std`
//! Constructor with the global allocator (`TaggedEndpoint::open`).
//!
//! ## `serde`
//! Reads and writes [`TaggedAttr`] with `serde`.
//!
//! # References
//! - `man fi_tagged`

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

mod arrive;
mod attr;
mod carrier;
mod credit;
mod endpoint;
mod error;
mod link;
mod operation;
mod packet;
mod post;
mod protocol;
mod sequence;
mod slab;
pub mod wire;

pub use self::attr::TaggedAttr;
pub use self::carrier::{Carrier, Ended, WithPeer};
pub use self::endpoint::TaggedEndpoint;
pub use self::error::{LinkError, Violation};
pub use self::operation::{Source, TaggedClaim, TaggedDone, TaggedEvent, TaggedFound, TaggedKey};
pub use self::packet::{LinkId, Packet};

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
