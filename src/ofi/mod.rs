//! The libfabric transport: [`Ofi`].
//!
//! [`Ofi<Local>`] and [`Ofi<Shared>`] implement [`Transport`](loom_core::transport::Transport) over every libfabric
//! provider. Start with [`Ofi::query`]; everything else is done with the safe objects of `loom_core`.
//!
//! # Connections
//!
//! A server and a client in one thread, over `tcp`:
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use loom_fabric::loom_core::{cq::Cq, domain::Domain, endpoint::ThePeer, eq::{Eq, EqAttr, EqEvent}, info::Hints};
//! use loom_fabric::loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
//! use loom_fabric::ofi::{Local, Ofi};
//!
//! let hints = Hints {
//!     caps: Caps::MSG,
//!     endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
//!     provider: Some("tcp"),
//!     node: Some("127.0.0.1"),
//!     listen: true,
//!     ..Hints::default()
//! };
//! let info = Ofi::<Local>::query(&hints)?.next().ok_or("no connections over tcp here")?;
//! let domain = Domain::open(&info)?;
//! let eq = Eq::open(&domain, EqAttr::default())?;
//! let address = eq.listen(&info)?.address()?;
//! let hints = Hints { node: None, listen: false, destination: Some(&address), ..hints };
//! let info = Ofi::<Local>::query(&hints)?.next().ok_or("no way to the server")?;
//!
//! let cq = Cq::open(&domain, 16)?;
//! let mut connecting = Some(cq.msg_endpoint(&eq, &info)?.connect(&address, b"let me in")?);
//! let (mut accepting, mut client, mut server) = (None, None, None);
//! let deadline = Instant::now() + Duration::from_secs(10);
//! while client.is_none() || server.is_none() {
//!     match eq.poll_for(deadline.duration_since(Instant::now()))? {
//!         Some(EqEvent::Request(request)) => {
//!             assert_eq!(request.data(), b"let me in");
//!             accepting = Some(request.endpoint(&cq, &eq)?.accept(b"welcome")?);
//!         }
//!         Some(EqEvent::Connected(event)) => {
//!             // Which of the two it is, the event says.
//!             match connecting.take().map(|endpoint| endpoint.established(&event)) {
//!                 Some(Ok(connected)) => client = Some(connected),
//!                 other => {
//!                     connecting = other.and_then(Result::err);
//!                     server = accepting.take().and_then(|endpoint| endpoint.established(&event).ok());
//!                 }
//!             }
//!         }
//!         Some(other) => return Err(format!("not expected: {other:?}").into()),
//!         None if Instant::now() > deadline => return Err("no connection in time".into()),
//!         None => {}
//!     }
//! }
//! let (client, server) = (client.ok_or("no client")?, server.ok_or("no server")?);
//! let received = server.recv(ThePeer, vec![0; 64])?;
//! client.send(ThePeer, b"hello".to_vec())?;
//! let (bytes, result) = cq.finish(received, deadline)?.into_parts();
//! assert_eq!(&bytes[..result?.len()], b"hello");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Multicast
//!
//! One message to every member of a group, over `udp`:
//!
//! ```no_run
//! use std::net::SocketAddr;
//! use std::time::{Duration, Instant};
//!
//! use loom_fabric::loom_core::{av::Av, cq::Cq, domain::Domain, endpoint::Source, eq::{Eq, EqAttr, EqEvent}, info::Hints};
//! use loom_fabric::loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
//! use loom_fabric::ofi::{Local, Ofi};
//!
//! let group: SocketAddr = "239.1.2.3:4000".parse()?;
//! let hints = Hints {
//!     caps: Caps::MSG | Caps::MULTICAST,
//!     endpoint_attr: EndpointAttributes::of(EndpointType::DGRAM),
//!     provider: Some("udp"),
//!     // What is sent to the group arrives at its port, at every address.
//!     node: Some("0.0.0.0"),
//!     service: Some("4000"),
//!     listen: true,
//!     ..Hints::default()
//! };
//! let info = Ofi::<Local>::query(&hints)?.next().ok_or("no datagrams here")?;
//! let domain = Domain::open(&info)?;
//! let (av, cq) = (Av::open(&domain, 1)?, Cq::open(&domain, 16)?);
//! let eq = Eq::open(&domain, EqAttr::default())?;
//! let endpoint = cq.multicast_endpoint(&av, &eq)?;
//! let joining = endpoint.join(&group.into())?;
//! let group = match eq.poll_for(Duration::from_secs(10))? {
//!     Some(EqEvent::Joined(event)) => joining.joined(&event).map_err(|_| "the event of another join")?,
//!     other => return Err(format!("not in the group: {other:?}").into()),
//! };
//! let received = endpoint.recv(Source::Any, vec![0; 64])?;
//! group.send(b"to all".to_vec())?;
//! let (bytes, result) = cq.finish(received, Instant::now() + Duration::from_secs(10))?.into_parts();
//! println!("{:?}", &bytes[..result?.len()]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Scalable endpoints
//!
//! Two threads, each with a queue and contexts of its own, at one address, over `sockets`:
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use loom_fabric::loom_core::{av::Av, cq::Cq, domain::Domain, endpoint::Source, info::Hints};
//! use loom_fabric::loom_core::endpoint::{Contexts, ScalableEndpoint};
//! use loom_fabric::loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
//! use loom_fabric::ofi::{Ofi, Shared};
//!
//! let hints = Hints {
//!     caps: Caps::MSG | Caps::NAMED_RX_CTX,
//!     endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
//!     provider: Some("sockets"),
//!     node: Some("127.0.0.1"),
//!     listen: true,
//!     ..Hints::default()
//! };
//! let info = Ofi::<Shared>::query(&hints)?.next().ok_or("no sockets here")?;
//! let domain = &Domain::open(&info)?;
//! // One bit of an address tells two receive contexts apart.
//! let av = Av::open_for_contexts(domain, 16, 1)?;
//! let endpoint = &ScalableEndpoint::open(&av, &info, Contexts { tx: 2, rx: 2 })?;
//! let itself = av.insert(&endpoint.address()?)?;
//! std::thread::scope(|scope| {
//!     for index in 0..2 {
//!         scope.spawn(move || {
//!             let cq = Cq::open(domain, 16).expect("a queue");
//!             let rx = cq.rx_context(endpoint, index).expect("a receive context");
//!             let tx = cq.tx_context(endpoint, index).expect("a transmit context");
//!             // Here to its own context.
//!             let received = rx.recv(Source::Any, vec![0; 5]).expect("posted");
//!             let sent = tx.send(itself.rx_context(index), b"hello".to_vec()).expect("posted");
//!             let deadline = Instant::now() + Duration::from_secs(10);
//!             for key in [received, sent] {
//!                 let done = cq.wait(key, deadline).expect("the queue works").expect("in time");
//!                 assert_eq!(done.into_buf(), b"hello");
//!             }
//!         });
//!     }
//! });
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Providers that are not tested
//!
//! Where providers are known to differ from the manual pages in a way that endangers memory, loom relies on what its tests have
//! shown of a provider in one version of libfabric: 1.17.0 and 2.5.1, and the providers of `docs/behaviours.md`. Over another
//! provider, or another version, it relies on nothing of that kind:
//!
//! - An endpoint is closed when nothing is in flight on it, and when no message was longer than its receive. Unless endpoints
//!   have socket addresses, it is also not closed while another endpoint of an untested provider is open in the process, nor ever when
//!   an address was inserted into a vector of one: how such a provider spells its addresses is not known. Before it can be closed,
//!   dropping it asks for its operations to be cancelled, and leaves it to its queue with their buffers. What still goes on when the
//!   queue is dropped leaks with the queue; a scope aborts the process.
//! - Regions are closed with the last endpoint of their domain, unless they are bound to an endpoint (`FI_MR_ENDPOINT`), before which they
//!   are closed; and passive endpoints stay open. Connections are closed beside each other, and are refused where endpoints have no
//!   socket addresses.
//! - Event queues are slept on, and options of an endpoint that is enabled are set, as the provider says.
//! - Refused are multi-receives, directed receives of messages without tag, peeks, claims, discards, unsignaled operations,
//!   options of endpoints that are opened with them, sleeping on queues and counters, tags of connections, shared receives, shutting
//!   a connection down, scalable endpoints and multicast groups. Each refusal is the error that says "not granted" or `EOPNOTSUPP`.
//!
//! [`RawInfo::is_tested`] and the example `info` tell. With `LOOM_UNTESTED=1` in its environment, a program treats every provider
//! like that: for a run beside a known one, or with a library that was changed. So it does where `FI_HOOK` puts libfabric's hooks before
//! providers, which no info tells. (Feature `std`.)
//!
//! # What is not wrapped
//!
//! What has no safe form is still there. Raw handles (`raw` of an object) have the C object behind them (`as_ptr`), through which
//! can be called what loom does not wrap, as libfabric's static inline functions do it, with the types of [`sys`]. Whether atomic
//! sums of 64-bit numbers are possible:
//!
//! ```
//! # #![allow(unsafe_code)]
//! use loom_fabric::loom_core::{domain::Domain, info::Hints};
//! use loom_fabric::loom_core::vocabulary::Caps;
//! use loom_fabric::ofi::{Local, Ofi, sys};
//!
//! let hints = Hints { caps: Caps::MSG | Caps::ATOMIC, provider: Some("shm"), ..Hints::default() };
//! let info = Ofi::<Local>::query(&hints)?.next().ok_or("no atomics here")?;
//! let domain = Domain::open(&info)?;
//! let (raw, mut attr) = (domain.raw().as_ptr(), sys::fi_atomic_attr::default());
//! // SAFETY: the domain is open, its table is there as long, and the attributes are written during the call.
//! let code = unsafe {
//!     let query = (*(*raw).ops).query_atomic.ok_or("no way to ask")?;
//!     query(raw, sys::FI_UINT64, sys::FI_SUM, &raw mut attr, 0)
//! };
//! assert_eq!((code, attr.size), (0, 8));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Adopting
//!
//! What a program has opened that way becomes a raw handle again (`from_ptr`; for endpoints [`Endpoint::from_fn`]), on which the
//! functions of [`Transport`](loom_core::transport::Transport) work. All of these rely on their caller for the same:
//!
//! - the object is open, of the kind that the pointer says, and of the domain that is named, or its fabric; the program has opened
//!   it, and makes one handle of it;
//! - from then on it is used as the contract of `Transport` says of what `Transport` has opened: by the threads that may, and closed
//!   after its children and before its parents;
//! - it is closed once: by the function of the trait, or of the handle, that closes its kind, and not by the program. Dropping a
//!   handle does nothing.
//!
//! What else a kind asks for stands with its function. Passive and scalable endpoints and multicast groups are not adopted: what
//! posts is, as contexts of scalable endpoints. A message by the address of a map:
//!
//! ```
//! # #![allow(unsafe_code)]
//! use std::ptr::{NonNull, null_mut};
//! use std::time::{Duration, Instant};
//!
//! use loom_fabric::loom_core::buffer::Lent;
//! use loom_fabric::loom_core::{domain::Domain, info::Hints};
//! use loom_fabric::loom_core::transport::{
//!     AddressVectors, Bindings, Context, Endpoints, InFlight, Messages, Refusal,
//! };
//! use loom_fabric::loom_core::vocabulary::{Caps, CqMsgEntry, EndpointAttributes, EndpointType, FabricAddr, WaitObj};
//! use loom_fabric::ofi::{Av, EntryCq, Local, Ofi, sys};
//!
//! type T = Ofi<Local>;
//!
//! let hints = Hints {
//!     caps: Caps::MSG,
//!     endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
//!     provider: Some("tcp;ofi_rxm"),
//!     node: Some("127.0.0.1"),
//!     listen: true,
//!     ..Hints::default()
//! };
//! let info = T::query(&hints)?.next().ok_or("no messages over tcp here")?;
//! let domain = Domain::open(&info)?;
//! let (domain, mut map) = (domain.raw(), null_mut());
//! let mut attr = sys::fi_av_attr { type_: sys::FI_AV_MAP, count: 8, ..Default::default() };
//! // SAFETY: the domain is open; `map` is where the vector goes.
//! let code = unsafe {
//!     let open = (*(*domain.as_ptr()).ops).av_open.ok_or("no vectors")?;
//!     open(domain.as_ptr(), &raw mut attr, &raw mut map, null_mut())
//! };
//! let map = NonNull::new(map).filter(|_| code == 0).ok_or("no maps")?;
//! // SAFETY: just opened in this domain, used by this thread, and closed below.
//! let av = unsafe { Av::from_ptr(domain, map) };
//! // SAFETY: the domain is open. Here and below: all is of this domain, used by this thread, and closed in order.
//! let cq = unsafe { EntryCq::<CqMsgEntry, Local>::open(domain, 16, WaitObj::NONE)? };
//! // SAFETY: named in bindings.
//! let queue = unsafe { cq.for_bindings() };
//! let bind = Bindings { tx: queue, rx: queue, av: &av, counters: &[], selective: false, options: &[] };
//! // SAFETY: as above.
//! let endpoint = unsafe { T::endpoint_open(domain, info.raw(), bind) }.map_err(|error| error.errno)?;
//! // SAFETY: as above.
//! let itself = unsafe { T::av_insert(&av, &T::endpoint_address(&endpoint)?)? };
//!
//! let (sent, mut received) = (*b"hello", [0; 5]);
//! let (from, into) = (Lent::source(NonNull::from_ref(&sent).cast(), 5), Lent::target(NonNull::from_mut(&mut received).cast(), 5));
//! // SAFETY: what is lent stays until the events are read.
//! let mut posted = unsafe { T::recv(&endpoint, FabricAddr::UNSPEC, &into, Context::word(1)) };
//! assert_eq!(posted, Ok(()));
//! posted = Err(Refusal::Again);
//! let (mut events, deadline) = (0, Instant::now() + Duration::from_secs(10));
//! while events < 2 {
//!     if posted == Err(Refusal::Again) {
//!         // SAFETY: as above; the vector has the address.
//!         posted = unsafe { T::send(&endpoint, itself, &from, None, Context::word(2)) };
//!     }
//!     // SAFETY: as above.
//!     events += unsafe { cq.read(&mut [CqMsgEntry::default(); 2])? };
//!     assert!(Instant::now() < deadline, "{events} events, {posted:?}");
//! }
//! assert_eq!(received, sent);
//!
//! // SAFETY: nothing is in flight.
//! unsafe {
//!     let _closed = T::endpoint_close(&endpoint, InFlight::NOTHING)?;
//!     cq.close()?;
//!     T::av_close(&av)?;
//! }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! What is reached like this, and why it has no safe form, by runs with libfabric 1.17 and 2.5.1 or by their source. Examples of
//! each, over every provider that has it, are the tests in `tests/ofi_raw/adopted`:
//!
//! - Maps (`FI_AV_MAP`): tables are what every provider has, and what handles of peers are checked by. Libfabric hands out the same
//!   numbers for both.
//! - Insertion through event queues (`FI_EVENT`): in 1.17 the events are written inside of the call, by `shm` never; 2 refuses to
//!   bind vectors but for `sockets`.
//! - Address vectors that are shared by name: `sockets` alone, whose readers do not notice when the vector grows.
//! - User ids (`FI_AV_USER_ID`): 2 alone, over `shm`, `tcp;ofi_rxm` and `tcp`; an id stands in completions where the address stood,
//!   which other calls then take for one. Where there are none, `sockets` and `shm` of 1.17 take the flag all the same.
//! - Address vector sets (`fi_av_set`): `tcp;ofi_rxm` with collectives alone. 1.17 makes no empty one, and reads before the begin of
//!   an array; differences and intersections of 2.5 have the wrong members, and nothing reads a set back. An
//!   [`AddressSet`](loom_core::engine::address_table::AddressSet) is loom's own; libfabric gets a set of its members when they join.
//! - Aliases (`fi_ep_alias`): `sockets` alone, which never frees one. Flags are said by each operation.
//! - Shared transmit contexts: `sockets` alone. Shared receives without connections: `sockets`, and `shm` of 1.17, which crashes when
//!   such a context is closed that has no queue.
//! - Several ranges in a region (`fi_mr_regv`): two are taken by `sockets` and `shm`, and peers reach the first.
//! - Raw keys (`FI_MR_RAW`): no provider here has them. What peers get for one is an address that posts follow, and a number can
//!   come from anybody.
//! - Buffered receives (`FI_BUFFERED_RECV`): `ofi_rxm` alone. That of 2.5 never reports what was claimed, and the sender of a long
//!   message that is discarded is not told. Peeks and claims do it over more.
//! - Wait sets that counters and event queues are in: sets are for users of the raw layer altogether, and libfabric 2 deprecates
//!   them.
//!
//! # How it calls libfabric
//!
//! Most of libfabric's API is static inline C, which calls through an object's operation tables
//! (`ep->msg->send(...)`). This module calls through the same tables, from Rust: no C is compiled, and a post inlines
//! down to one indirect call. Where a provider has no table, or no entry in it, the answer is `ENOSYS`. Only the few
//! symbols which libfabric exports are linked: `fi_getinfo`, `fi_freeinfo`, `fi_dupinfo`, `fi_fabric`, `fi_version`,
//! `fi_tostr_r`, `fi_getparams`, `fi_freeparams`.
//!
//! # Files
//!
//! | file | what it holds |
//! |---|---|
//! | `sys`, `pointers` | the generated bindings; from raw handles to C objects and back, for what is not wrapped |
//! | `call` | calling through operation tables; return values |
//! | `process` | pointers with the process that opened their object; forked children |
//! | `threading` | threading levels; the handle type with the only `unsafe impl Send` and `Sync` of objects |
//! | `info`, `decode`, `nic` | one `fi_info`: ownership; reading it |
//! | `query`, `request`, `encode`, `info_list` | `fi_getinfo`: hints in, infos out |
//! | `providers`, `params` | which providers there are; the environment variables that they read |
//! | `text` | C strings without an allocator |
//! | `av_lock` | one at a time: who inserts into an address vector, and who opens or closes its endpoints |
//! | `control`, `region` | fabric, domain, address vector; memory regions |
//! | `queue`, `counter` | completion queues; counters |
//! | `nap` | polling once a millisecond, where the provider's wait calls are not safe any more |
//! | `entry_queue` | completion queues whose entries the user reads, in any format |
//! | `sets` | poll sets and wait sets, where the headers have them |
//! | `endpoint`, `post`, `post_msg` | endpoints; posting operations |
//! | `scalable` | scalable endpoints and their contexts, and the implementation of their trait |
//! | `event_queue`, `connection` | event queues; connecting endpoints |
//! | `multicast` | multicast groups |
//! | `known_behaviour`, `quirks` | what the tests have shown of providers, by version; what is made of that, and what providers need |
//! | `closing`, `shm_registry` | when an endpoint can be closed; endpoints that reach into each other's memory |
//! | `transport`, `connected`, `signals` | the implementations of the traits, which name all of the above |

mod atomic;
mod av_lock;
mod call;
mod closing;
mod collective;
mod connected;
mod connection;
mod control;
mod counter;
mod decode;
mod encode;
mod endpoint;
mod entry_queue;
mod event_queue;
mod info;
mod info_list;
mod known_behaviour;
mod multicast;
mod names;
mod nap;
mod nic;
mod option;
mod overrun;
mod params;
mod pointers;
mod post;
mod post_msg;
mod process;
mod providers;
mod query;
mod queue;
mod quirks;
mod region;
mod removal;
mod request;
mod scalable;
#[cfg(all(libfabric_has_poll_open, libfabric_has_wait_open))]
mod sets;
mod shm_registry;
mod signals;
pub mod sys;
mod text;
mod threading;
mod transport;

pub use collective::CollectiveGroup;
pub use connection::PassiveEndpoint;
pub use control::{Av, Domain, Fabric};
pub use counter::Counter;
pub use endpoint::Endpoint;
pub use entry_queue::{EntryCq, QueueEntry};
pub use event_queue::{Eq, Request};
pub use info::RawInfo;
pub use info_list::InfoList;
pub use multicast::Group;
pub use params::{Param, Params, params};
pub use providers::{Provider, Providers, providers};
pub use query::{QueryError, TextField, headers_version, library_version};
pub use queue::{Cq, Signal};
pub use region::Mr;
pub use scalable::ScalableEndpoint;
#[cfg(all(libfabric_has_poll_open, libfabric_has_wait_open))]
pub use sets::{PollSet, PollSetMember, WaitSet};
pub use threading::{Level, Local, Shared};
pub use transport::Ofi;
