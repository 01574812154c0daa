//! The software transport: a fabric that needs nothing but memory.
//!
//! A [`Network`] is one block of memory from the caller's allocator, with places for a fixed number of endpoints. Its
//! endpoints may live on one thread or on many; each moves on when its own queue is polled, and nobody waits for
//! anybody else.
//!
//! # How it works
//!
//! - A message travels in a *cell* that belongs to its sender (`soft/cell.rs`). Short messages are copied into the cell; of
//!   long ones the cell carries the address, and the receiver copies them once, straight from the sender's buffer.
//! - A sender pushes its cell onto the receiver's *inbox* with one compare-and-swap; the receiver takes the whole inbox
//!   with one swap and reverses it (`soft/list.rs`), so messages of one sender stay in order.
//! - The receiver matches messages with posted receives (`soft/receive.rs`) by the [tag
//!   matcher](crate::engine::tag_matcher), at the same cost however many there are. A message that no receive was posted for stays in
//!   its cell: memory is linear in endpoints, and a sender whose cells are all away is told to try again. One that its
//!   sender takes back, by a cancel or a close, leaves its cell when the receiver next moves on.
//! - A poll moves messages on when its queue has no event at hand, as libfabric's software providers do: who polls once for
//!   each send and never finds the queue empty receives nothing.
//! - A short message out of several buffers is gathered into its cell; a long one's cell carries the list of them
//!   (`soft/copy.rs`). A multi-receive stays posted until little of its buffer is left ; peeks look at the
//!   messages that wait, and a claim keeps one for itself (`soft/receive.rs`).
//! - RMA goes straight to the peer's memory (`soft/region.rs`); immediate data follows as a message. Keys of regions are drawn
//!   (`soft/numbers.rs`).
//! - Closing an endpoint revokes what it has offered, and waits for a copy that is under way; closing a region waits for
//!   operations that are using it. No other function waits for another thread, except that opening and closing
//!   endpoints and regions take a spin lock.
//!
//! # What it grants
//!
//! Messages, tagged messages with directed receive, multi-receives, peeks, claims and discards of tagged messages, RMA with 8
//! bytes of immediate data, up to four buffers in one operation, sources of messages, and counters.
//! RMA is done when the post returns, and messages of one sender keep the order they were sent in.
//! It asks for nothing, unless it is to ask for what hardware does ([`RequiredModes`]): registered buffers, memory in contexts, room in
//! front of messages, receives for peers' writes (`soft/mode_checks.rs`).
//! Where things are to go wrong, an info is given a [`Plan`]: posts refused, messages delayed, writes reordered, completions
//! failed, queues overrun, peers killed, less granted (`soft/faults/`). An endpoint without one pays nothing for it.
//! Not there yet: atomics, counters of what peers do, and triggered operations.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_core::objects::{av::Av, cq::Cq, deadline::Forever, domain::Domain, endpoint::Source};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::vocabulary::Tag;
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let (alice, bob) = (cq.endpoint(&av).open()?, cq.endpoint(&av).open()?);
//! let to_bob = av.insert(&bob.address()?)?;
//! let received = bob.tagged_recv(Source::Any, Tag(7), vec![0; 5])?;
//! alice.tagged_send(to_bob, Tag(7), b"hello".to_vec())?;
//! let done = cq.finish(received, Forever)?;
//! assert_eq!(done.result()?.len(), 5);
//! assert_eq!(done.into_buf(), b"hello");
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```

mod transport;

mod address;

mod list;

mod cell;

mod copy;

mod numbers;

mod region;

mod queue;

mod counter;

mod required_modes;

mod faults;

mod matching;

mod endpoint_state;

mod network;

mod handles;

mod attributes;

mod query;

mod fabric;

mod mr;

mod send;

mod receive;

mod late;

mod progress;

mod endpoint;

mod mode_checks;

mod message;

mod rma;

#[cfg(all(test, loom_model))]
mod model;
#[cfg(all(test, feature = "std", not(loom_model)))]
mod tests;

pub use counter::SoftCounter;
pub use faults::{Every, Injected, Plan};
pub use handles::{SoftAv, SoftCq, SoftDomain, SoftEndpoint, SoftFabric, SoftInfo, SoftMr};
pub use network::{Network, NetworkAttr};
pub use required_modes::RequiredModes;
pub use transport::Soft;
