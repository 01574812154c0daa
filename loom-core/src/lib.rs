//! The core of loom: fabrics in Rust, without `std`, without an allocator of its own, without FFI.
//!
//! One safe API for messages, tagged messages and remote memory access over libfabric (package
//! `loom-fabric`) and the [software transport](soft).
//!
//! # Example
//! A message from one endpoint to another, over the software transport:
//!
//! ```
//! use loom_core::{Av, Cq, Domain, Forever, Source, soft::{Network, NetworkAttr}};
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 16)?, Cq::open(&domain, 64)?);
//! let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
//! let to_bob = av.insert(&bob.address()?)?;
//! // A post takes its buffer, and the completion gives it back.
//! let received = cq.post(vec![0; 64], Forever, |room| bob.recv(Source::Any, room))?;
//! cq.post(b"hello".to_vec(), Forever, |bytes| alice.send(to_bob, bytes))?;
//! let (bytes, result) = cq.finish(received, Forever)?.into_parts();
//! assert_eq!(&bytes[..result?.len], b"hello");
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # Layers
//! A module uses modules of its own layer and of those above it (`.ci/run module_order`).
//! - [`vocabulary`]: flags, error numbers, addresses, tags, keys and attributes, with libfabric's
//!   own names and values. [`immediate`]: layouts of immediate data, as structs of bit fields.
//! - [`buffer`]: memory arguments of operations. [`exposed`]: the rule for memory that peers reach.
//! - [`transport`]: the boundary, an unsafe trait of raw verbs with its contract. [`error`]: the
//!   errors of opening, posting, polling and waiting.
//! - [`engine`]: the [op table](engine::op_table), which holds buffers while a provider uses them,
//!   the [tag matcher](engine::tag_matcher), [arrivals](engine::arrivals) of immediate data, and
//!   the [address table](engine::address_table) over the [peer table](engine::peer_table). They
//!   call no transport and use no objects.
//! - Objects, the safe API: [`Info`], [`Domain`], [`Av`], [`Mr`], [`Cq`], [`Endpoint`],
//!   [`Counter`], [`CollectiveGroup`](endpoint::CollectiveGroup), [`EventQueue`] and
//!   [`MsgEndpoint`] for connections, and [`ScalableEndpoint`](endpoint::ScalableEndpoint).
//! - [`soft`]: the software transport.
//!
//! # What it promises
//! - **No buffer is lost or used twice.** A post takes its buffer by value, and its completion
//!   returns it. A refused post returns it at once. Whatever is forgotten, dropped, cancelled or
//!   closed in the middle of a transfer, each buffer is returned or dropped once, and the provider
//!   does not write to it afterwards. If a provider cannot be stopped, the buffer waits for it or
//!   is leaked. If a borrow would end meanwhile, the process is aborted instead.
//! - **After opening, no allocation.** Objects take their memory from the caller's allocator when
//!   they open. Sending, receiving, RMA and polling do not allocate, take no lock and make no
//!   system call of loom's own.
//! - **Errors are values.** Input from providers and peers never causes a panic. A timeout is
//!   `Ok(None)`.
//!
//! # Memory and lifetimes
//! Objects are counted handles. A handle keeps its object's parents open. Dropping the last handle
//! closes the object.
//!
//! The lifetime `'m` of a handle is that of memory that the object may use: blocks of allocators,
//! posted buffers, exposed memory.
//! - [`Domain::open_in`] opens a domain with `'m` = `'static`, because a forgotten handle keeps its
//!   object open for good.
//! - [`scope()`] calls a closure with a [`Scope`]. Its objects may use memory that was declared
//!   before the call.
//!
//! The memory of a [software network](soft::Network) has its own lifetime, `'n` in the transport
//! `Soft<'n>`, which is at least `'m`.
//!
//! # Decisions
//! - Objects are counted instead of borrowing their parents, because borrows cannot express a
//!   domain, its queues and their endpoints in one struct. Posting and polling touch no count,
//!   except for a [`Piece`].
//! - Queues and endpoints stay on one thread and are counted without atomics. [`Cq::park`] hands
//!   over a queue with all of its handles at once.
//! - Peers are handles ([`Peer`]): a provider follows any address, so arbitrary numbers must not
//!   reach it from safe code.
//! - Only 64-bit targets are supported: the context of an operation is one word with a generation
//!   and an index.
//!
//! # Features
//!
//! ## `std`
//! `std::time::Instant` as a deadline, constructors that use the global allocator, `Box<[u8]>` and
//! `Vec<u8>` as buffers, and queues of the software transport to sleep on.
//!
//! ## `log`
//! Lines for the logger of the crate `log`. The targets `loom::open` and `loom::close` (debug) have
//! objects with granted names and sizes. `loom::quirk` has effects of the provider's quirks
//! ([`ProviderQuirks`](transport::ProviderQuirks)): at info for a domain, at debug for one object.
//! `loom::left` (warn) has objects that stay open or are leaked on purpose. Operations have no
//! lines, and lines contain no keys or message bytes. A logger that panics ends the process.
//!
//! ## `serde`
//! Reads and writes values with `serde` ([their form](vocabulary#the-form-of-values-with-serde)),
//! without an allocator. A configuration, converted to [`Hints`]:
//!
//! ```
//! # #[cfg(feature = "serde")] {
//! use loom_core::{Caps, CqAttr, EndpointAddr, Hints, WaitObj};
//!
//! #[derive(serde::Deserialize)]
//! struct Config { provider: String, caps: Caps, queue: CqAttr, peers: Vec<EndpointAddr> }
//!
//! let config: Config = serde_json::from_str(r#"{
//!     "provider": "tcp;ofi_rxm", "caps": "MSG | TAGGED",
//!     "queue": { "depth": 64, "wait": "WAIT_FD" }, "peers": ["10.0.0.1:7471", "fi_shm://1234"]
//! }"#)?;
//! let hints = Hints { provider: Some(&config.provider), caps: config.caps, ..Hints::default() };
//! assert_eq!(config.queue, CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) });
//! assert_eq!(config.peers[1].to_string(), "fi_shm://1234");
//! # }
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

pub use allocator_api2;

pub use any_error::Error;
pub use av::{Av, AvAttr};
pub use buffer::{Buffer, SourceBuffer, TargetBuffer};
pub use completion::{Completion, Done, RemoteEvent, Transfer};
pub use counter::{Counter, CounterAttr};
pub use cq::{Cq, CqAttr, Driving, Piece};
#[cfg(feature = "std")]
pub use deadline::Yielding;
pub use deadline::{Deadline, Forever, Spins};
pub use domain::{Domain, Scope, scope};
pub use driver::{CqDriver, RunError, Unclaimed};
pub use endpoint::{Binding, CompletionLevel, Endpoint, MsgEndpoint, SendOptions, Source, ThePeer};
pub use engine::arrivals::Arrivals;
pub use engine::op_table::{OpError, OpKey};
pub use engine::peer_table::Peer;
pub use eq::{EqAttr, EqEvent, EventQueue};
pub use error::{CqError, OpenError, PostError, Rejected};
pub use info::{Hints, Info};
pub use mr::{Mr, MrAttr, RemoteRegion};
pub use transport::Transport;
#[cfg(feature = "serde")]
#[doc(hidden)]
pub use util::serial::hexadecimal;
pub use vocabulary::{
    Access, AddressError, Caps, Counted, EndpointAddr, EndpointAttributes, EndpointType, Errno, ImmediateData,
    MsgOrder, RangeError, Tag, TagMatch, WaitObj, immediate,
};

// Tools, and plain data.
mod util;
pub mod vocabulary;

// Arguments of operations.
pub mod atomic;
pub mod buffer;
pub mod collective;
pub mod deadline;
pub mod exposed;

// The boundary to transports.
pub mod error;
pub mod transport;

// Data structures of objects, and the sum of errors.
mod any_error;
pub mod engine;
pub mod storage;

// Objects.
pub mod av;
pub mod counter;
pub mod cq;
pub mod domain;
pub mod driver;
pub mod endpoint;
pub mod eq;
pub mod info;
pub mod mr;
pub mod registered;

// Modules built on objects, and a transport.
pub mod completion;
pub mod soft;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
