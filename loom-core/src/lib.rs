//! The core of loom: fabrics in Rust, without `std`, without an allocator of its own, without FFI.
//!
//! One safe API for messages, tagged messages and remote memory access over more than one transport: libfabric (in the
//! package `loom-fabric`) and the [software transport](soft), which needs nothing but memory.
//!
//! # Layers
//!
//! A layer uses only what stands above it in this list.
//!
//! - [`vocabulary`]: flags, error numbers, addresses, tags, keys and attributes, with libfabric's own names and values.
//!   Plain data; unknown numbers are kept. With it [`buffer`], [`completion`] and [`error`]: what operations take and give
//!   back.
//! - [`engine`]: the [op table](engine::op_table), where buffers are while somebody else uses them, the
//!   [tag matcher](engine::tag_matcher), and the [address table](engine::address_table) over the
//!   [peer table](engine::peer_table). Data structures that know neither transports nor objects, so that they are tested and
//!   fuzzed alone.
//! - [`transport`]: the boundary. An unsafe trait of raw verbs, with its contract in one place.
//! - [`objects`]: the safe API, written once: [`Info`](objects::info::Info), [`Domain`](objects::domain::Domain),
//!   [`Av`](objects::av::Av), [`Mr`](objects::mr::Mr), [`Cq`](objects::cq::Cq),
//!   [`Endpoint`](objects::endpoint::Endpoint), [`Counter`](objects::counter::Counter), and for connections [`Eq`](objects::eq::Eq) and
//!   [`MsgEndpoint`](objects::endpoint::MsgEndpoint); for many queues at one address
//!   [`ScalableEndpoint`](objects::endpoint::ScalableEndpoint). No object names a transport.
//! - [`tagged`]: tagged messages over objects that have none.
//! - [`soft`]: the software transport. [`exposed`] has the rule for memory that peers reach.
//!
//! # What it promises
//!
//! - **No buffer is lost, and none is used twice.** A post takes its buffer by value and its completion gives it back; a
//!   refused post gives it back at once. Whatever is forgotten, dropped in any order that compiles, cancelled or closed in
//!   the middle of a transfer: each buffer comes back or is dropped once, and nobody writes to it afterwards. Where a
//!   provider cannot be made to stop, the buffer waits for it, or is leaked; a borrow that would end meanwhile ends the
//!   process instead.
//! - **After opening, no allocation.** Objects take their memory from the caller's allocator when they open. Sending,
//!   receiving, RMA and polling allocate nothing, take no lock and make no system call of loom's own.
//! - **Errors are values.** Nothing panics on what a provider or a peer says; what does not fit is refused; what timed out
//!   is `Ok(None)`.
//!
//! # Memory and lifetimes
//!
//! A queue that may be forgotten ([`Cq::open_in`](objects::cq::CqBody::open_in)) asks for `'static` buffers and memory. For
//! everything else there is [`cq::scope_in`](objects::cq::scope_in): the closure sees the queue by reference, and
//! everything is closed before the call returns or unwinds. Regions have the same two:
//! [`Mr::open_in`](objects::mr::Mr::open_in) and [`mr::scope`](objects::mr::scope).
//!
//! The lifetime `'d` of a queue, vector or region is its domain's, and a queue is invariant in it. A software network has one
//! of its own, which is longer: functions take `&Cq<'d, Soft<'n>, B>`, with two names, or are generic over
//! [`Transport`](transport::Transport) and name only the first.
//!
//! # Decisions that a reader may wonder about
//!
//! - A [`Domain`](objects::domain::Domain) owns its fabric, so that it has no lifetime of its own and can be kept anywhere.
//! - Peers are handles ([`Peer`](engine::peer_table::Peer)) and not libfabric's addresses: a provider follows whatever
//!   number it is given, so that a number out of thin air must not reach it from safe code.
//! - The slots of the op table are an array and not a `heapless` container, because those cannot be built in place, and a
//!   deep table does not fit on a stack.
//! - A transport shows its events one by one ([`Transport::cq_poll`](transport::Transport::cq_poll)) instead of filling a
//!   batch: it saves two copies of each, and transports that read in batches keep them to themselves.
//! - Closing an endpoint can be put off ([`Closing::Retired`](transport::Closing)): there are providers which crash
//!   otherwise, and a promise of memory safety that holds except over them is none.
//! - The memory of a region has a block of its own from the caller's allocator, so that it can outlive the region: libfabric
//!   does not say when peers have stopped using a region that was closed ([`MrOwner`](objects::mr::MrOwner)).
//! - Connections are a trait of their own ([`Connected`](transport::Connected)): the software transport has none. An event
//!   queue takes no memory of the caller's, because it keeps nothing but a few passive endpoints; it closes these with
//!   itself and not before, because `tcp` uses one after its close.
//! - Scalable endpoints ([`Scalable`](transport::Scalable)) are another such trait. Their contexts are endpoints of the transport, in
//!   the records of the queue that they complete into, which closes them; an endpoint of several queues has no owner but itself.
//! - Only 64-bit targets: the context of an operation is one word that holds a generation and an index.
//!
//! # Features
//!
//! - `std`: [`Instant`](std::time::Instant) as a deadline, constructors that use the global allocator, `Box<[u8]>` and
//!   `Vec<u8>` as buffers. Off by default.

#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

pub use allocator_api2;

mod abort;
pub mod buffer;
pub mod completion;
pub mod engine;
pub mod error;
pub mod exposed;
#[cfg(test)]
mod handed_over;
pub mod objects;
mod random;
mod siphash;
pub mod soft;
mod storage;
pub mod tagged;
pub mod transport;
pub mod vocabulary;
