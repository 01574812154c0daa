//! The core of loom: fabrics in Rust, without `std`, without an allocator of its own, without FFI.
//!
//! One safe API for messages, tagged messages and remote memory access over more than one transport: libfabric (in the
//! package `loom-fabric`) and the [software transport](soft), which needs nothing but memory.
//!
//! # Example
//!
//! A message from one endpoint to another, over the software transport:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Av, Cq, Domain, Forever, Source};
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 16)?, Cq::open(&domain, 64)?);
//! let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
//! let to_bob = av.insert(&bob.address()?)?;
//!
//! // A post takes its buffer, and the completion gives it back.
//! let received = cq.post(vec![0; 64], Forever, |room| bob.recv(Source::Any, room))?;
//! let sent = cq.post(b"hello".to_vec(), Forever, |bytes| alice.send(to_bob, bytes))?;
//! let (bytes, result) = cq.finish(received, Forever)?.into_parts();
//! assert_eq!(&bytes[..result?.len()], b"hello");
//! cq.finish(sent, Forever)?.result()?;
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # Layers
//!
//! A layer uses only modules that stand above it in this list (`.ci/run layers`).
//!
//! - [`vocabulary`]: flags, error numbers, addresses, tags, keys and attributes, with libfabric's own names and values.
//!   Plain data; unknown numbers are kept. With it [`buffer`]: what operations take.
//! - [`transport`]: the boundary. An unsafe trait of raw verbs, with its contract in one place. [`error`] has what posting and opening
//!   may be refused with.
//! - [`immediate`]: layouts of immediate data, as structs of bit fields. [`profiles`]: what can be relied on about a provider at compile
//!   time.
//! - [`engine`]: the [op table](engine::op_table), where buffers are while a provider uses them, the
//!   [tag matcher](engine::tag_matcher), the [work table](engine::work_table), [arrivals](engine::arrivals) of immediate data, and the
//!   [address table](engine::address_table) over the [peer table](engine::peer_table). Data structures that call no transport and know no objects, so that they are tested and
//!   fuzzed alone.
//! - Objects, the safe API, written once: [`Info`], [`Domain`], [`Av`], [`Mr`], [`Cq`], [`Endpoint`], [`Counter`], for work that
//!   starts by itself [`Deferred`](deferred::Deferred), for endpoints that act together
//!   [`CollectiveGroup`](endpoint::CollectiveGroup), and for connections
//!   [`Eq`](struct@Eq) and [`MsgEndpoint`]; for many queues at one address [`ScalableEndpoint`](endpoint::ScalableEndpoint). No
//!   object names a transport. A [`query`] says at compile time what an endpoint is for, and the endpoint has these operations alone.
//! - [`tagged`]: tagged messages over objects that have none. [`updates`]: read-modify-write of a peer's memory where the provider has no
//!   atomic operations.
//! - [`protocol`]: traits for code that is generic in the kind of endpoint, or in a protocol of the program's own.
//! - [`soft`]: the software transport. [`exposed`] has the rule for memory that peers reach.
//!
//! [`completion`] names what a queue gives back, from wherever that is.
//!
//! # What it promises
//!
//! - **No buffer is lost, and none is used twice.** A post takes its buffer by value and its completion gives it back; a
//!   refused post gives it back at once. Whatever is forgotten, dropped in any order, cancelled or closed in
//!   the middle of a transfer: each buffer comes back or is dropped once, and the provider does not write to it afterwards. Where a
//!   provider cannot be made to stop, the buffer waits for it, or is leaked; a borrow that would end meanwhile ends the
//!   process instead.
//! - **After opening, no allocation.** Objects take their memory from the caller's allocator when they open. Sending,
//!   receiving, RMA and polling allocate nothing, take no lock and make no system call of loom's own.
//! - **Errors are values.** Nothing panics on what a provider or a peer says; what does not fit is refused; what timed out
//!   is `Ok(None)`.
//!
//! # Memory and lifetimes
//!
//! Objects are counted handles. A handle keeps open what its object was opened from: an endpoint keeps its queue and its address
//! vector, and both keep the domain. The last handle closes the object. So handles can be kept in one struct, returned from functions
//! and dropped in any order.
//!
//! Each object takes one block of memory from its allocator when it is opened. The block holds the object, its counts and the allocator
//! itself, so that handles do not name the type of the allocator.
//!
//! The lifetime `'m` of a handle says how long memory lives that the object may use: blocks of allocators, buffers that are posted,
//! memory that is exposed. There are two ways to open a domain, and they decide what `'m` is:
//!
//! - [`Domain::open_in`] opens a domain that is kept. Here `'m` is `'static`, because a handle may be forgotten, and a forgotten handle
//!   keeps its object open for good.
//! - [`scope()`] calls a closure. What is opened in there by way of the [`Scope`] cannot leave the closure, and may use memory that was
//!   declared before the call. Queues and regions that are still open when the closure returns or unwinds are closed then.
//!   [`Scope::domain`] lends a domain that is kept, and its address vectors can be used with queues of the scope.
//!
//! A queue of a scope is never taken for one that is kept, nor the other way round: `Domain<'m, _>` and `Cq<'m, _, _>` are invariant in
//! `'m`.
//!
//! The memory of a [software network](soft::Network) has a lifetime of its own, `'n` in the transport `Soft<'n>`. It is at least `'m`: a
//! network in borrowed memory is for domains of a scope.
//!
//! # Decisions that a reader may wonder about
//!
//! - A [`Domain`] owns its fabric, so that there is one handle less to keep.
//! - Objects are counted, and do not borrow what they were opened from: a program keeps a domain, its queues and their endpoints in one
//!   struct, which borrows cannot express. Posting and polling touch no count, except that a [`Piece`] is a handle of its queue.
//! - A handle that was forgotten keeps its object open. So borrowed memory can only be lent where something else closes the object
//!   before the borrow ends: that is what a [`scope()`] is for.
//! - Queues and endpoints stay on one thread and are counted without atomics. [`Cq::park`] hands over a queue with
//!   all of its handles at once.
//! - Peers are handles ([`Peer`]) and not libfabric's addresses: a provider follows whatever
//!   number it is given, so that a number out of thin air must not reach it from safe code.
//! - The slots of the op table are an array and not a `heapless` container, because those cannot be built in place, and a
//!   deep table does not fit on a stack.
//! - A transport shows its events one by one ([`CompletionQueues::cq_poll`](transport::CompletionQueues::cq_poll)) instead of filling a
//!   batch: it saves two copies of each, and transports that read in batches keep them to themselves.
//! - Closing an endpoint can be put off ([`Closing::Retired`](transport::Closing)): there are providers which crash
//!   otherwise, and a promise of memory safety that holds except over them is none.
//! - The block of a region owns the registered memory, and can outlive the region: libfabric does not say when peers have stopped using
//!   a region that was closed ([`Mr`]).
//! - Connections are a trait of their own ([`Connected`](transport::Connected)): the software transport has none. An event
//!   queue closes its passive endpoints with itself and not before, because `tcp` uses one after its close.
//! - Scalable endpoints ([`Scalable`](transport::Scalable)) are another such trait. Their contexts are endpoints of the transport, in
//!   the slots of the queue that they complete into, which closes them; an endpoint of several queues has no owner but itself.
//! - Collective operations ([`Collectives`](transport::Collectives)) are a trait beside `Transport`, so that a transport without groups needs
//!   no stubs. Joining has no event of its own: operations are refused with "try again" until every member is there.
//! - Only 64-bit targets: the context of an operation is one word that holds a generation and an index.
//!
//! # Features
//!
//! - `std`: `std::time::Instant` as a deadline, constructors that use the global allocator, `Box<[u8]>` and
//!   `Vec<u8>` as buffers, and queues of the software transport to sleep on. Off by default.
//! - `log`: lines for the logger of the crate `log`. Off by default. Their targets are `loom::open` and `loom::close`, at the level debug, for
//!   domains with their fabrics, address vectors, queues, endpoints and regions, with the names and sizes that were granted; `loom::quirk`,
//!   at info, for what the provider's quirks decide for a domain ([`ProviderQuirks`](transport::ProviderQuirks)), and, at debug, for one object: an
//!   address that is refused, an endpoint whose closing is put off; and `loom::left`, at warn, for what stays open or is leaked on purpose. No
//!   operation, poll or wait has a line, and no line has a key or a message's bytes. A logger that panics ends the process.
//! - `serde`: addresses, remote regions, tags, flags, enumerations and attributes are read and written by way of `serde`
//!   ([their form](vocabulary#the-form-of-values-with-serde)), without an allocator. Off by default.
//!
//! A program reads its configuration with `serde`, and makes [`Hints`] of it:
//!
//! ```
//! # #[cfg(feature = "serde")] {
//! use loom_core::soft::NetworkAttr;
//! use loom_core::{Caps, CqAttr, EndpointAddr, Hints};
//!
//! #[derive(serde::Deserialize)]
//! struct Config {
//!     provider: String,
//!     caps: Caps,
//!     queue: CqAttr,
//!     network: NetworkAttr,
//!     peers: Vec<EndpointAddr>,
//! }
//!
//! let config: Config = serde_json::from_str(
//!     r#"{
//!         "provider": "tcp;ofi_rxm",
//!         "caps": "MSG | TAGGED",
//!         "queue": { "depth": 64, "wait": "WAIT_FD" },
//!         "network": { "endpoints": 4 },
//!         "peers": ["10.0.0.1:7471", "fi_shm://1234"]
//!     }"#,
//! )?;
//! let hints = Hints { provider: Some(&config.provider), caps: config.caps, ..Hints::default() };
//! assert_eq!(config.queue, CqAttr::new(64).with_fd());
//! assert_eq!(config.network, NetworkAttr { endpoints: 4, ..NetworkAttr::default() });
//! assert_eq!(config.peers[1].to_string(), "fi_shm://1234");
//! // An address of which a part is missing is an error.
//! assert!(serde_json::from_str::<EndpointAddr>(r#""10.0.0.1""#).is_err());
//! # }
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```

#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

pub use allocator_api2;

// What a program of any transport needs, without the way to it.
pub use any_error::Error;
pub use av::{Av, AvAttr, InsertError};
pub use buffer::{Buffer, SourceBuffer, TargetBuffer};
pub use completion::{Completion, Done, RemoteEvent, Transfer};
pub use counter::{Counter, CounterAttr};
pub use cq::{Cq, CqAttr, CqError, Driving, Piece};
#[cfg(feature = "std")]
pub use deadline::Yielding;
pub use deadline::{Deadline, Forever, Spins};
pub use domain::Domain;
pub use driver::{CqDriver, RunError, Unclaimed};
pub use endpoint::{Binding, Endpoint, MsgEndpoint, Source, ThePeer};
pub use engine::arrivals::Arrivals;
pub use engine::op_table::{OpError, OpKey};
pub use engine::peer_table::Peer;
pub use eq::{Eq, EqAttr, EqEvent};
pub use error::{OpenError, PostError, Rejected};
pub use info::{Hints, Info};
pub use mr::{Mr, MrAttr, RemoteRegion};
pub use options::{CompletionLevel, SendOptions};
pub use scope::{Scope, scope};
pub use transport::Transport;
pub use vocabulary::{
    Access, Caps, Counted, EndpointAddr, EndpointAttributes, EndpointType, Errno, ImmediateData, MsgOrder, Tag,
    TagMatch, WaitObj,
};

// A module uses modules of its group and of the groups above it, and no modules use each other: `.ci/run layers`.

// Tools, and plain data.
mod abort;
mod count;
#[cfg(test)]
mod handed_over;
mod notes;
mod random;
#[cfg(feature = "serde")]
mod serial;
mod siphash;
mod sync;
pub mod vocabulary;

// Arguments of operations.
pub mod atomic;
pub mod buffer;
pub mod collective;
pub mod deadline;
pub mod exposed;
pub mod immediate;
pub mod options;
pub mod profiles;
mod remote_region;

// The boundary to transports.
pub mod error;
pub mod transport;

// Data structures of objects.
mod block_slice;
pub mod engine;
mod handle;
pub mod storage;

// Objects.
pub mod av;
pub mod counter;
pub mod cq;
pub mod deferred;
pub mod domain;
pub mod driver;
pub mod endpoint;
pub mod eq;
pub mod granted;
pub mod info;
pub mod mr;
pub mod query;
mod reclaim;
pub mod registered;
pub mod scope;
mod scope_registry;

// Built on objects, and a transport.
mod any_error;
pub mod completion;
pub mod protocol;
pub mod soft;
pub mod tagged;
pub mod updates;

/// The code in the README compiles and runs.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
