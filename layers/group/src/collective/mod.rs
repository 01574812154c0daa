//! Collectives of the members of a group, over tagged messages, on any transport: [`Team`].
//!
//! A team is all members of a [`Group`](crate::Group), or some. Its collectives run the algorithms of [`schedule`](crate::schedule), which its
//! [table](crate::schedule::Table) chooses by the number of bytes and of members. A collective is a [`Running`] value: it is waited for, looked at
//! between other work, or awaited under a [driver](loom_core::driver). Several may be under way at a time.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Domain, Forever};
//! use loom_group::collective::{Sum, Team, TeamAttr};
//! use loom_group::{PeerIndex, Prepared};
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let prepared = Prepared::open(&domain, 1, 32)?;
//! // A group of one: itself. Mostly each member is a process or a thread of its own.
//! let itself = prepared.address()?;
//! let group = prepared.connect([&itself])?;
//! let packets = std::iter::repeat_with(|| Vec::with_capacity(4096));
//! let team = Team::open(&group, TeamAttr::new(1), (0..1).map(PeerIndex), 0, packets)?;
//!
//! let mut sums = [0; 3];
//! team.all_reduce(Sum, &[1_u64, 2, 3], &mut sums)?.wait(Forever)?;
//! assert_eq!(sums, [1, 2, 3]);
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # Packets and scratch
//!
//! Messages go through packets, buffers of a fixed capacity that the team was opened with, in pieces: elements are copied into packets and out of them.
//! Half of the packets of a collective are for what it receives and half for what it sends. The messages of a round are in flight together as far as
//! there are packets. Nothing is allocated after the team was opened.
//!
//! Collectives that are under way together share the room that the endpoint has for what it sends. Where the transport lends that by sender and not by peer, as
//! the software transport does (`tx_depth`), a member that sends much to peers which are behind may have none left for another collective that they wait
//! for: the room has to be as large as the packets of all that are under way.
//!
//! # Tags
//!
//! Tags are used whole, so receives need no order of messages and no directed receive. From the highest bit on: 8 bits for the number of the team, 8 for that of
//! the collective, 16 for the rank of the sender, 17 for the round, 15 for the piece. So a team has at most 2^16 members, and a message at most 2^15
//! pieces. Before the 64th collective that runs a schedule, and each 63rd after it, there is a barrier, so members that run ahead cannot use a number twice.
//! The program must not receive with tags of the team on the same group, nor with masks that accept them. Over one endpoint for all members, a
//! receive takes a message by its tag from any sender: an endpoint that is none of the team, and sends with its tags, is taken for a member.
//!
//! Over connections without tagged messages (`tcp`, `net`) a receive takes the next message of its connection: messages of two members follow each
//! other as the collectives do. All members ask for the same
//! capabilities, or none of these messages is matched. The provider has to promise that order ([`MsgOrder::SAS`](loom_core::vocabulary::MsgOrder::SAS)). A group has one team
//! there, with one collective under way at a time, and the program sends no messages of its own on these connections while the team is open.
//! Messages of members that do not call the same collectives are noticed by their lengths alone. After a collective has failed or was given up, the
//! group has no further team: messages of the first may still come.
//!
//! What a member has sent goes out as its queue is driven: a member that has left a collective drives its queue, or calls the next one, until the
//! others have left it, too, before it closes its group.
//!
//! # Collectives of the provider's own
//!
//! Where the provider has collectives, the program joins its group of the same members, and hands that to the team ([`Team::with_provider`]). The same
//! calls leave to the provider what it has, and run their schedules for all else.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! # use loom_core::soft::{Network, NetworkAttr};
//! # use loom_core::{allocator_api2::alloc::Global, Caps, Domain, Forever, Hints};
//! # use loom_group::collective::{Sum, Team, TeamAttr};
//! # use loom_group::{PeerIndex, Prepared};
//! # let network = Network::new(NetworkAttr::default())?;
//! let hints = Hints { caps: Caps::MSG | Caps::TAGGED | Caps::COLLECTIVE, ..Hints::default() };
//! # let domain = Domain::open(&network.query(&hints)?)?;
//! # let prepared = Prepared::open(&domain, 1, 32)?;
//! # let itself = prepared.address()?;
//! # let group = prepared.connect([&itself])?;
//! // A group that was prepared on a domain of such an info, and connected.
//! let mut set = group.av().expect("it has one endpoint").set_in(group.capacity(), Global)?;
//! for member in group.peers().filter_map(|peer| group.peer(peer)) {
//!     set.insert(member)?;
//! }
//! let mut joined = group.endpoint().expect("it has one endpoint").join_collective(&set)?;
//! let packets = std::iter::repeat_with(|| Vec::with_capacity(4096));
//! let team = Team::open(&group, TeamAttr::new(1), (0..1).map(PeerIndex), 0, packets)?.with_provider(&mut joined)?;
//!
//! let mut sums = [0; 3];
//! team.all_reduce(Sum, &[1_u64, 2, 3], &mut sums)?.wait(Forever)?;
//! # assert_eq!(sums, [1, 2, 3]);
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! The software transport has all of them but the scan. `tcp;ofi_rxm` of libfabric 2 grants collectives or tagged messages, not both: a team over
//! the former has barriers, broadcasts, all-reduces, all-gathers and scatters within the provider's limits, and what is left to schedules fails there with
//! [`PostError::NotGranted`](loom_core::error::PostError::NotGranted). That provider does not tell
//! when a member has gone: a collective then never ends, and the deadline of [`Running::wait`] is what ends it, or it may end as if it had succeeded.
//!
//! # Errors
//!
//! A member that dies ends the collective on the others: by the error of a message, which names it, where the provider tells, or by the deadline of
//! [`Running::wait`]. After an error the members do not know of each other how far they are, so the team is
//! [over](CollectiveError::Over). So it is when a collective is dropped before it is over. Messages that are still in flight are cancelled. Those that the
//! provider does not cancel in time come out of the group's queue, with their packets. Late messages of the team may still come, so its number stays taken:
//! a team in its place has another. A member whose place in the group is taken by another ends the collectives of its teams: the newcomer opens a team of
//! another number with the others.

mod buffers;
mod combine;
mod cursor;
mod element;
mod error;
mod lane;
mod operations;
mod provider;
mod running;
mod team;

pub use bytemuck;

pub use self::combine::{Associative, BitAnd, BitOr, BitXor, Combine, Commutative, Max, Min, Product, Sum};
pub use self::element::{Element, Packet};
pub use self::error::CollectiveError;
pub use self::operations::Moves;
pub use self::provider::ProviderGroup;
pub use self::running::Running;
pub use self::team::{Team, TeamAttr};

/// The most packets of a collective.
const MOST_PACKETS: usize = 32;
