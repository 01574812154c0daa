//! Tagged messages where the endpoint has none (`FI_TAGGED`): over links that carry plain messages.
//!
//! A [`TaggedEndpoint`] has links to peers that have one, too. What carries a link is a [`Carrier`]: a connected
//! [`MsgEndpoint`](crate::endpoint::MsgEndpoint), as of `tcp`, `net` or hardware with reliable connections, or a
//! connectionless endpoint and one peer of its ([`WithPeer`]), where receives can be directed. Messages have 64-bit tags and 8 bytes of
//! immediate data, whatever the carrier has, and are matched by the [tag matcher](crate::engine::tag_matcher): as
//! `man fi_tagged` says, at the same cost however many there are.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_core::deadline::Spins;
//! use loom_core::{av::Av, cq::Cq, domain::Domain};
//! use loom_core::soft::{Network, NetworkAttr, Soft};
//! use loom_core::tagged::{Packet, Source, TaggedAttr, TaggedEndpoint, WithPeer};
//! use loom_core::vocabulary::{Tag, TagMatch};
//!
//! // Buffers of messages are never lent to anybody else, and may be borrowed.
//! let (mut message, mut room) = (vec![7; 100_000], vec![0; 100_000]);
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let av = Av::open(&domain, 2)?;
//! // Each side has a queue, which carries its packets and nothing else.
//! let [alice, bob] = [(), ()].map(|()| Cq::<Soft<'_>, Packet<Vec<u8>>>::open(&domain, 128));
//! let (alice, bob) = (alice?, bob?);
//! let (at_alice, at_bob) = (alice.endpoint(&av)?, bob.endpoint(&av)?);
//! let (to_alice, to_bob) = (av.insert(&at_alice.address()?)?, av.insert(&at_bob.address()?)?);
//!
//! let attr = TaggedAttr::DEFAULT;
//! let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
//! let mut a = TaggedEndpoint::open(alice, attr)?;
//! let mut b = TaggedEndpoint::open(bob, attr)?;
//! let link = a.add_link(WithPeer::new(&at_alice, to_bob), packets())?;
//! b.add_link(WithPeer::new(&at_bob, to_alice), packets())?;
//! while !a.is_up(link) {
//!     assert_eq!(a.link_error(link), None, "as where receives cannot be directed");
//!     a.progress()?;
//!     b.progress()?;
//! }
//!
//! a.tagged_send(link, Tag(0x21), &mut message[..])?;
//! let received = b.tagged_recv(Source::Any, TagMatch::masked(Tag(0x20), 0xf), &mut room[..])?;
//! let done = loop {
//!     a.progress()?;
//!     if let Some(done) = b.wait(received, Spins(1))? {
//!         break done;
//!     }
//! };
//! assert_eq!((done.result()?.tag(), done.result()?.len()), (Some(Tag(0x21)), 100_000));
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # How it works
//!
//! Everything goes in *packets*: buffers of one size, which are given to the endpoint with a link, and stay its own. Messages are
//! copied into them and out of them. ([`Registered`](crate::registered::Registered) buffers and those with room for a
//! [prefix](crate::buffer::Prefixed) do as packets where the provider asks for that.)
//!
//! - A message that fits into a packet goes at once ([eager](TaggedEndpoint::eager_size)). If no receive is there, it waits in
//!   its packet.
//! - A longer one is announced by a request, which is matched as the message would be. When a receive has it, the sender is
//!   told how much there is room for, and sends that, segment by segment; the rest of a message that is too long is not sent at all.
//! - Receives of a link are posted beforehand, and the peer knows how many: it has *credit*. Without credit, a send is
//!   [refused for the moment](crate::error::PostError::Again), so that nothing grows while nothing is received. Packets that need not
//!   wait for a receive (segments, answers) have a credit of their own, which comes back by itself: what is under way goes on
//!   however many messages wait.
//! - Packets have sequence numbers, and are handled in their order, whatever order they come in: the carrier need not grant
//!   [`SAS`](crate::vocabulary::MsgOrder::SAS). Those that come early are kept, which are never more than there is credit for.
//! - A peer that does not keep to that, or sends what is no [packet](wire), ends its link, and no other: its operations end with
//!   an error, and [an event](TaggedEvent::LinkFailed) says why. So does a carrier that fails.
//!
//! # What it costs
//!
//! - Two copies of each message, one on either side, and [64 bytes](wire::HEADER_LEN) in front of each packet.
//! - A long message waits for one answer before it begins. Then [`TaggedAttr::control`] packets are under way at a time.
//! - For each link [as many packets](TaggedAttr::packets_per_link) as messages may wait and packets may be under way. All memory is
//!   taken when the endpoint is opened; afterwards nothing is allocated.
//! - Progress is the caller's: long messages and credits move when either side [polls](TaggedEndpoint::poll) or waits.
//!
//! # Limits
//!
//! - An endpoint with tags and its links are on one thread, as its queue is. The queue must have as many operations as there are packets.
//! - The carrier delivers every packet once, and keeps one until a receive is posted for it (as providers with `FI_RM_ENABLED`
//!   do): there are no acknowledgements, and datagrams will not do.
//! - A message has one buffer, in the memory of the host.
//! - Links are added and end; a new connection to the same peer is a new link, and an endpoint has
//!   [a number](TaggedAttr::links) of them in its life. Without connections, a new link to the same peer takes
//!   [a new endpoint](WithPeer::new) below.
//! - A peer can keep its packets' worth of messages waiting, and hold up what it has announced; it cannot make this side use
//!   more memory than that.
//!
//! # References
//! - `man fi_tagged`

mod arrive;
mod attr;
mod carrier;
mod credit;
mod endpoint;
mod link;
mod operation;
mod packet;
mod post;
mod sequence;
mod slab;
pub mod wire;

pub use self::attr::TaggedAttr;
pub use self::carrier::{Carrier, Ended, WithPeer};
pub use self::credit::CreditError;
pub use self::endpoint::{AddLinkError, TaggedEndpoint};
pub use self::link::{LinkError, LinkId};
pub use self::operation::{Source, TaggedClaim, TaggedDone, TaggedEvent, TaggedFound, TaggedKey};
pub use self::packet::Packet;
pub use self::sequence::SequenceError;
