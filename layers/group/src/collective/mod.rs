//! Collectives of the members of a group, over tagged messages: [`Team`].
//!
//! A team is all or some members of a [`Group`](crate::Group). Its [table](crate::schedule::Table)
//! chooses algorithms of [`schedule`](crate::schedule).
//!
//! ```
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
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # Packets and scratch
//! Half of the team's packets are for receives, half for sends.
//!
//! Collectives in flight share the endpoint's room for sends. If the transport limits it by sender
//! and not by peer (`tx_depth` of the software transport), it must have room for the packets of all
//! collectives in flight: otherwise sends to slow peers may block a collective that they wait for.
//!
//! # Tags
//! From the highest bit: 8 bits team, 8 collective, 16 rank of the sender, 17 round, 15 piece. A
//! team has at most 2^16 members, a message at most 2^15 pieces. A barrier precedes the 64th
//! collective that runs a schedule and every 63rd after it, so members that run ahead do not reuse
//! numbers. The program must not receive with the team's tags, or masks that accept them. Over one
//! endpoint, a receive accepts its tag from any sender.
//!
//! Over connections without tagged messages (`tcp`, `net`) a receive takes the next message of its
//! connection.
//! - All members request the same capabilities, or messages do not match.
//! - The provider must guarantee message order
//!   ([`MsgOrder::SAS`](loom_core::vocabulary::MsgOrder::SAS)).
//! - A group has one team with one collective at a time, and sends no other messages meanwhile.
//! - Only message lengths reveal different collectives on the members.
//! - After a failed or abandoned collective, the group cannot open another team, because of late
//!   messages.
//!
//! - Before a member closes its group, it must drive its queue, or call the next collective, until
//!   all others have left the collective.
//!
//! # Provider collectives
//! [`Team::with_provider`] lets the provider run the collectives that it supports.
//!
//! ```
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
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! The software transport supports all except scan. `tcp;ofi_rxm` of libfabric 2 grants collectives
//! or tagged messages, not both. With collectives, it runs barriers, broadcasts, all-reduces,
//! all-gathers and scatters within its limits, and schedules fail with
//! [`PostError::NotGranted`](loom_core::error::PostError::NotGranted).
//!
//! # Errors
//! If a member dies, a collective on the others ends with the error of a message, or at the
//! deadline of [`Running::wait`]. After an error or an early drop, the team [has
//! ended](crate::CollectiveError::Over): messages in flight are cancelled, or the group's queue
//! returns their packets later. The number stays taken. Replacing a member of the group ends its
//! teams' collectives.

mod buffers;
mod combine;
mod cursor;
mod element;
mod lane;
mod operations;
mod provider;
mod provider_calls;
mod running;
mod team;

pub use bytemuck;

pub use self::combine::{Associative, BitAnd, BitOr, BitXor, Combine, Commutative, Max, Min, Product, Sum};
pub use self::element::{Element, Packet};
pub use self::operations::Moves;
pub use self::provider::ProviderGroup;
pub use self::running::Running;
pub use self::team::{Team, TeamAttr};

const MOST_PACKETS: usize = 32;
