//! Software transport: a fabric that requires only memory.
//!
//! A [`Network`] is one block of the caller's allocator, for a fixed number of endpoints on any
//! threads.
//!
//! # How it works
//!
//! - A message travels in a *cell* of its sender (`soft/shared/cell.rs`): a copy of a short
//!   message, or the address of a long one, which the receiver copies once from the sender's
//!   buffer.
//! - Unexpected messages stay in their cells, so memory is linear in endpoints, and a sender
//!   without a free cell is refused with "try again".
//! - A poll advances messages only if its queue is empty, like libfabric's software providers.
//! - Closing an endpoint revokes its offers, and waits for copies and collectives in progress.
//!   Closing a region waits for operations that use it. Otherwise, only opening, closing, joining
//!   and leaving wait for other threads.
//!
//! # Features
//!
//! Messages, tagged messages with directed receive, multi-receives with and without tags, peeks,
//! claims and discards of tagged messages, RMA with 8 bytes of immediate data, atomic operations on
//! every datatype (128 bits only on x86-64), collective operations, up to four buffers in one
//! operation, sources of messages, and counters, also of remote operations on an endpoint's memory
//! and on a region. With the feature `std` on a Unix system, also queues to sleep on, with a file
//! descriptor ([`WaitObj::FD`](crate::vocabulary::WaitObj::FD)) or without (`UNSPEC`), and signals
//! to their sleepers. Counters cannot be slept on. Messages of one sender keep their order.
//!
//! [`RequiredModes`] adds requirements of hardware: registered buffers, memory in contexts, room in
//! front of messages, receives for peers' writes (`soft/post_checks.rs`). A [`Plan`] in an info
//! injects faults (`soft/faults/`) at no cost to other endpoints. Triggered operations
//! (`FI_TRIGGER`) are not supported: use the package `loom-fabric-deferred`.
//!
//! # Strict networks
//!
//! A strict network ([`NetworkAttr::strict`]) behaves like the least of the tested providers:
//! `shm`, `tcp;ofi_rxm`, `net`/`tcp`, `sockets` and `udp;ofi_rxd`, of libfabric 1.17 and 2.5. With
//! the feature `std`, the environment variable `LOOM_STRICT=1` makes all networks strict. A program
//! requests the features that it needs ([`Network::query`]), repeats posts after transient errors,
//! and polls both sides. If these have queues of their own on one thread, use
//! [`Driving`](crate::Driving).
//!
//! ```
//! use loom_core::{Caps, Hints, soft::{Network, NetworkAttr}};
//!
//! let network = Network::new(NetworkAttr { strict: true, ..NetworkAttr::DEFAULT })?;
//! let hints = Hints { caps: Caps::MSG | Caps::SOURCE, ..Hints::default() };
//! let info = network.query(&hints)?;
//! assert!(info.caps().contains(Caps::SOURCE) && !network.info().caps().contains(Caps::SOURCE));
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! | feature | by default | in a strict network | tested providers with this limit |
//! |---|---|---|---|
//! | capabilities | all, requested or not | those of the hints (without any: messages, tags, RMA and multi-receives) | all grant `DIRECTED_RECV` to hints with capabilities only on request, `tcp;ofi_rxm` also `SOURCE` (libfabric 2: all) |
//! | sources of messages and writes | reported | reported on request | `tcp;ofi_rxm` (`udp;ofi_rxd` does not grant them) |
//! | counters of remote operations | granted | granted if `RMA_EVENT` is requested | absent in `tcp;ofi_rxm`, always zero in `net` and `tcp` |
//! | directed receives without tag | accepted | refused | `net`, `tcp`, and `shm` and `tcp;ofi_rxm` of libfabric 2 |
//! | order of reads and writes, and of messages behind them | granted | `RAR`, `RAW`, `WAW` and `SAW` on request, never `WAR` and `SAR` | `shm` grants only `SAS` without a request, `tcp;ofi_rxm`, `net` and `udp;ofi_rxd` grant neither `WAR` nor `SAR` |
//! | bytes of a write | arrive before the post returns | arrive when the peer, and then the writer, has polled | `tcp;ofi_rxm`, `shm` |
//! | completion of a short write | after the bytes arrive | before the bytes arrive | `tcp;ofi_rxm`, `shm` |
//! | long writes and all reads | complete at once | complete when both sides have polled | `udp;ofi_rxd`, `tcp;ofi_rxm` |
//! | a write that its target forbids, or with an unknown key | fails | is reported as done without being done | `shm`, `tcp;ofi_rxm`, `net` |
//! | event of a peer's write | has the length, and the flag `RMA` | has neither | `tcp;ofi_rxm` and `net` of libfabric 1 |
//! | addresses in regions | offsets | virtual addresses | `shm` |
//! | first post to a peer | accepted | "try again" until both sides have polled | `shm`, `tcp;ofi_rxm` |
//! | injected bytes | up to `eager_size` (1024) | at most 64 | `tcp;ofi_rxm` |
//! | closing a region with open endpoints | ends remote access | is deferred until the last endpoint is closed | `sockets`, `shm` of libfabric 2 |
//! | borrowed memory exposed in a kept domain | accepted | [`NoFence`](crate::error::OpenError::NoFence) | all |
//! | cancelling a send | ends it | has no effect | all |
//! | peeks, claims, discards | granted | refused | `shm` of libfabric 1 (`udp;ofi_rxd` can peek) |
//! | multi-receives | safe | only `multi_recv_unchecked` | all but `tcp` of libfabric 2 |
//! | multi-receives of tagged messages | safe | only `multi_recv_unchecked`, if `TAGGED_MULTI_RECV` is requested | not granted by any |
//! | selective endpoints | granted | refused | `net` |
//! | queues to sleep on | granted, with `std` | refused | `shm` |
//!
//! A strict network cannot withhold these features:
//!
//! | feature | in any software network | least of the tested providers |
//! |---|---|---|
//! | completion of a short send | at its post | after the peer has polled (`udp;ofi_rxd`) |
//! | order of receives' completions | that of the messages | a short message may complete before an earlier long message (`tcp;ofi_rxm`) |
//! | reads and writes of several ranges, or of hints with an order (`WAW` and others) | done when the post returns | done when the peer has polled (`tcp;ofi_rxm`) |
//! | atomic operations | done when the post returns | done when the peer has polled (`shm`, `tcp;ofi_rxm`) |
//! | collective operations | nine, of any length | five, of up to 16 KiB (`tcp;ofi_rxm` of libfabric 2), zero (all others) |
//! | receives with ignored bits of tags | accepted | refused (`shm` of libfabric 1) |
//! | a read that its target forbids | fails | never completes (`shm` of libfabric 1, `udp;ofi_rxd`) |
//! | sends to a peer that closes | fail | end with their endpoint (`tcp;ofi_rxm`, `udp;ofi_rxd`), or the peer is tried for ever |
//! | closing an endpoint | returns every buffer | may have to wait for other endpoints of the process (`shm`) |
//!
//! ```
//! use loom_core::{Av, Cq, Domain, Forever, Source, Tag, soft::{Network, NetworkAttr}};
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
//! let to_bob = av.insert(&bob.address()?)?;
//! let received = bob.tagged_recv(Source::Any, Tag(7), vec![0; 5])?;
//! cq.post(b"hello".to_vec(), Forever, |message| alice.tagged_send(to_bob, Tag(7), message))?;
//! let done = cq.finish(received, Forever)?;
//! assert_eq!(done.result()?.len, 5);
//! assert_eq!(done.into_buf(), b"hello");
//! # Ok::<_, loom_core::Error>(())
//! ```

mod transport;

mod shared;

mod lane;

mod faults;

mod network;

mod handles;

mod strict_posts;

mod fabric;

mod mr;

mod signals;

mod delivery;

mod collective;

mod rma;

mod progress;

mod endpoint;

mod post_checks;

mod message;

#[cfg(all(test, loom_model))]
#[path = "../../tests/models/soft/mod.rs"]
mod model;
#[cfg(all(test, feature = "std", not(loom_model)))]
#[path = "../../tests/models/soft_cells.rs"]
mod tests;

pub use collective::SoftMembership;
pub use faults::required_modes::RequiredModes;
pub use faults::{Every, Injected, Plan};
pub use handles::{SoftAv, SoftCq, SoftDomain, SoftEndpoint, SoftFabric, SoftInfo, SoftMr};
pub use network::counter::SoftCounter;
pub use network::{Network, NetworkAttr};
pub use signals::SoftSignal;
pub use transport::Soft;
