//! The software transport: a fabric that needs nothing but memory.
//!
//! A [`Network`] is one block of memory from the caller's allocator, with places for a fixed number of endpoints. Its
//! endpoints may live on one thread or on many; each moves on when its own queue is polled, and none waits for
//! another.
//!
//! # How it works
//!
//! - A message travels in a *cell* that belongs to its sender (`soft/cell.rs`). Short messages are copied into the cell; of
//!   long ones the cell carries the address, and the receiver copies them once, straight from the sender's buffer.
//! - A sender pushes its cell onto the receiver's *inbox* with one compare-and-swap; the receiver takes the whole inbox
//!   with one swap and reverses it (`soft/list.rs`), so messages of one sender stay in order.
//! - Short messages to a peer that gets many of them go by a *lane*, a ring of cache lines for the two (`soft/lane.rs`). Messages of one
//!   sender keep their order whichever way they go.
//! - The receiver matches messages with posted receives (`soft/receive.rs`) by the [tag
//!   matcher](crate::engine::tag_matcher), at the same cost however many there are. A message that no receive was posted for stays in
//!   its cell: memory is linear in endpoints, and a sender whose cells are all away is refused with "try again". One that its
//!   sender takes back, by a cancel or a close, leaves its cell when the receiver next moves on.
//! - A poll moves messages on when its queue has no event at hand, as libfabric's software providers do: who polls once for
//!   each send and never finds the queue empty receives nothing.
//! - A short message out of several buffers is gathered into its cell; a long one's cell carries the list of them
//!   (`soft/copy.rs`). A multi-receive stays posted until little of its buffer is left; peeks look at the
//!   messages that wait, and a claim keeps one for itself (`soft/receive.rs`).
//! - RMA goes straight to the peer's memory (`soft/region.rs`); immediate data follows as a message. Keys of regions are drawn
//!   (`soft/ids.rs`).
//! - Atomic operations go straight to the peer's memory, too: the poster's processor does them (`soft/atomic.rs`).
//! - The members of a collective group note what they lend, and the one that calls last does the operation for all, in their memory
//!   (`soft/group.rs`, `soft/collective.rs`).
//! - Counters of what peers do are counted up by the peers' threads (`soft/peer_counts.rs`).
//! - With the feature `std` on a Unix system, a thread can sleep on a queue that was opened for it: whatever a peer does that makes an event
//!   of the queue wakes it up (`soft/sleeper.rs`). A post to an endpoint of any other queue pays one load for it at most.
//! - Closing an endpoint revokes what it has offered, and waits for a copy or a collective operation that is under way, and for peers
//!   that count at it, or wake its thread up, in this moment; closing a region waits for operations that are using it. No other function waits for another
//!   thread, except that opening and closing endpoints and regions, and joining and leaving groups, take a spin lock.
//!
//! # What it grants
//!
//! Messages, tagged messages with directed receive, multi-receives with tags and without, peeks, claims and discards of tagged messages,
//! RMA with 8 bytes of immediate data, atomic operations on every datatype (128 bits on x86-64 alone), collective operations, up to four
//! buffers in one operation, sources of messages, and counters, also of what peers do to an endpoint's memory and to a region. With the
//! feature `std` on a Unix system also queues to sleep on, with a file descriptor ([`WaitObj::FD`](crate::vocabulary::WaitObj::FD)) or without
//! one (`UNSPEC`), and signals to their sleepers; [`Info::can_sleep_on`](crate::Info::can_sleep_on) says which.
//! Unless it is strict, RMA is done when the post returns. Messages of one sender keep the order they were sent in.
//! It asks for nothing, unless it is to ask for what hardware does ([`RequiredModes`]): registered buffers, memory in contexts, room in
//! front of messages, receives for peers' writes (`soft/mode_checks.rs`).
//! Where things are to go wrong, an info is given a [`Plan`]: posts refused, messages delayed, writes reordered, completions
//! failed, queues overrun, peers killed, less granted (`soft/faults/`). An endpoint without one pays nothing for it.
//! Triggered operations (`FI_TRIGGER`) it has none: [`Deferred`](crate::deferred::Deferred) defers work over every transport.
//!
//! # Strict networks
//!
//! Much of that is more than libfabric's providers give. A strict network ([`NetworkAttr::strict`]; with the feature `std` the
//! environment variable `LOOM_STRICT=1` makes all networks of a program strict) behaves like the least of the providers that the
//! tests run over: `shm`, `tcp;ofi_rxm`, `net`/`tcp`, `sockets` and `udp;ofi_rxd`, of libfabric 1.17 and 2.5. A program that runs over
//! it asks for what it needs ([`Network::query`]), posts again what is refused for the moment, and polls both sides. If these have queues
//! of their own on one thread, a post or wait on one queue drives the other by [`Driving`](crate::Driving).
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Caps, Hints};
//!
//! let network = Network::new(NetworkAttr { strict: true, ..NetworkAttr::DEFAULT })?;
//! // As over a fabric: who wants to know where messages come from asks for it.
//! let hints = Hints { caps: Caps::MSG | Caps::SOURCE, ..Hints::default() };
//! let info = network.query(&hints)?;
//! assert!(info.caps().contains(Caps::SOURCE) && !network.info().caps().contains(Caps::SOURCE));
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! | what a program meets | by default | in a strict network | the least of the tested providers |
//! |---|---|---|---|
//! | capabilities | all, asked for or not | those of the hints; without any, messages, tags, RMA and multi-receives | all grant `DIRECTED_RECV` to hints with capabilities only if they have it; `tcp;ofi_rxm` also `SOURCE` (libfabric 2: all) |
//! | sources of messages and writes | told | told if asked for | `tcp;ofi_rxm`; `udp;ofi_rxd` grants none |
//! | counters of what peers do | there | there if `RMA_EVENT` is asked for | `tcp;ofi_rxm` grants none; those of `net` and `tcp` stay at zero |
//! | directed receives without tag | taken | refused | `net`, `tcp`; `shm` and `tcp;ofi_rxm` of libfabric 2 |
//! | order of reads and writes, and of messages behind them | granted | `RAR`, `RAW`, `WAW` and `SAW` if asked for; `WAR` and `SAR` never | `shm` grants `SAS` alone unless asked; `tcp;ofi_rxm`, `net` and `udp;ofi_rxd` neither `WAR` nor `SAR` |
//! | bytes of a write | in the peer's memory when the post returns | there when the peer has polled, and the writer after it | `tcp;ofi_rxm`, `shm` |
//! | a short write's completion | says that the bytes are there | comes before they are there | `tcp;ofi_rxm`, `shm` |
//! | long writes and all reads | end at once | end when both sides have polled | `udp;ofi_rxd`, `tcp;ofi_rxm` |
//! | a write that its target forbids, or with an unknown key | fails | is reported as done, and is not | `shm`, `tcp;ofi_rxm`, `net` |
//! | the event of a peer's write | has the length, and the flag `RMA` | has neither | `tcp;ofi_rxm` and `net` of libfabric 1 |
//! | addresses in regions | offsets | virtual addresses | `shm` |
//! | the first post to a peer | taken | "try again", until both sides have polled | `shm`, `tcp;ofi_rxm` |
//! | injected bytes | up to `eager_size` (1024) | 64 at most | `tcp;ofi_rxm` |
//! | closing a region with endpoints open | ends what peers do there | is put off until the last endpoint is closed | `sockets`, `shm` of libfabric 2 |
//! | borrowed memory exposed in a kept domain | taken | [`NoFence`](crate::error::OpenError::NoFence) | all |
//! | cancelling a send | ends it | does nothing | all |
//! | peeks, claims, discards | there | refused | `shm` of libfabric 1; `udp;ofi_rxd` can peek |
//! | multi-receives | safe | `multi_recv_unchecked` alone | all but `tcp` of libfabric 2 |
//! | multi-receives of tagged messages | safe | `tagged_multi_recv_unchecked` alone, if `TAGGED_MULTI_RECV` is asked for | none grants them |
//! | selective endpoints | there | refused | `net` |
//! | queues to sleep on | there, with `std` | refused | `shm` |
//!
//! A strict network also has what providers lack, where to withhold it would need more than this module has:
//!
//! | what a program meets | in any software network | the least of the tested providers |
//! |---|---|---|
//! | the end of a short send | when it is posted | when the peer has polled (`udp;ofi_rxd`) |
//! | the order of receives' completions | that of the messages | a short message may complete before a long one that was sent earlier (`tcp;ofi_rxm`) |
//! | reads and writes of hints with an order (`WAW` and others) | done when the post returns | done when the peer has polled (`tcp;ofi_rxm`) |
//! | reads and writes of several ranges | done when the post returns | done when the peer has polled (`tcp;ofi_rxm`) |
//! | atomic operations | done when the post returns | done when the peer has polled (`shm`, `tcp;ofi_rxm`) |
//! | collective operations | nine, of any length | five, of up to 16 KiB (`tcp;ofi_rxm` of libfabric 2); none (all others) |
//! | receives with ignored bits of tags | taken | refused (`shm` of libfabric 1) |
//! | a read that its target forbids | fails | never ends (`shm` of libfabric 1, `udp;ofi_rxd`) |
//! | sends to a peer that closes | fail | end with their endpoint (`tcp;ofi_rxm`, `udp;ofi_rxd`), or the peer is tried for ever |
//! | closing an endpoint | gives every buffer back | may have to wait for other endpoints of the process (`shm`) |
//!
//! What is a fault of one provider is not imitated; `docs/limits.md` has those. Where libfabric's providers give more than a network
//! (sleeping on counters, fences, keys chosen by the program, deeper queues), there is nothing to be strict about.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_core::{av::Av, cq::Cq, deadline::Forever, domain::Domain, endpoint::Source};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::vocabulary::Tag;
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
//! let to_bob = av.insert(&bob.address()?)?;
//! let received = bob.tagged_recv(Source::Any, Tag(7), vec![0; 5])?;
//! cq.post(b"hello".to_vec(), Forever, |message| alice.tagged_send(to_bob, Tag(7), message))?;
//! let done = cq.finish(received, Forever)?;
//! assert_eq!(done.result()?.len(), 5);
//! assert_eq!(done.into_buf(), b"hello");
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```

mod transport;

mod address;

mod list;

mod waker;

mod cell;

mod lane;

mod lane_routes;

mod lane_arrivals;

mod copy;

mod ids;

mod gate;

mod sleeper;

mod peer_counts;

mod region;

mod queue;

mod counter;

mod required_modes;

mod strict;

mod faults;

mod matching;

mod group;

mod endpoint_state;

mod network;

mod handles;

mod first_contact;

mod membership;

mod attributes;

mod query;

mod fabric;

mod mr;

mod lane_asking;

mod send;

mod receive;

mod delayed;

mod deliver;

mod lane_delivery;

mod sleep;

mod progress;

mod signals;

mod endpoint;

mod mode_checks;

mod message;

mod rma;

mod atomic;

mod collective_run;

mod collective;

#[cfg(all(test, loom_model))]
mod model;
#[cfg(all(test, feature = "std", not(loom_model)))]
mod tests;

pub use collective::SoftMembership;
pub use counter::SoftCounter;
pub use faults::{Every, Injected, Plan};
pub use handles::{SoftAv, SoftCq, SoftDomain, SoftEndpoint, SoftFabric, SoftInfo, SoftMr};
pub use network::{Network, NetworkAttr};
pub use query::NotOffered;
pub use required_modes::RequiredModes;
pub use signals::SoftSignal;
pub use transport::Soft;
