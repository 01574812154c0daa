//! The libfabric transport: [`Ofi`].
//!
//! Start with [`Ofi::query`], then use the safe objects of `loom_core`.
//!
//! # Connections
//! A server and a client over `tcp`, with hints for [`MSG`](loom_core::EndpointType::MSG)
//! endpoints:
//!
//! ```
//! use loom_fabric::ofi::{Local, Ofi};
//! use loom_fabric::{EqEvent, Hints};
//! # use loom_fabric::loom_core::vocabulary::EndpointAttributes;
//! # use loom_fabric::{Caps, Cq, Domain, EndpointType, EventQueue, EqAttr, ThePeer};
//! # use std::time::{Duration, Instant};
//! # let hints = || Hints {
//! #     caps: Caps::MSG,
//! #     endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
//! #     ..Hints::local("tcp")
//! # };
//! # let limit = Duration::from_secs(10);
//! # let (sender, receiver) = std::sync::mpsc::channel();
//! # let serve = move || {
//! #     let info = Ofi::<Local>::query(&hints())?.next().ok_or("no connections over tcp here")?;
//! #     let domain = Domain::open(&info)?;
//! #     let (cq, eq) = (Cq::open(&domain, 16)?, EventQueue::open(&domain, EqAttr::default())?);
//!
//! // The server:
//! let address = eq.listen(&info)?.address()?;
//! #     sender.send(address)?;
//! let Some(EqEvent::Request(request)) = eq.poll_for(limit)? else { return Err("no request".into()) };
//! #     assert_eq!(*request.data, *b"let me in");
//! let accepting = request.endpoint(&cq, &eq)?.accept(b"welcome")?;
//! let Some(EqEvent::Connected(event)) = eq.poll_for(limit)? else { return Err("no connection".into()) };
//! let endpoint = accepting.established(&event).map_err(|_| "event of another endpoint")?;
//! #     let received = endpoint.recv(ThePeer, vec![0; 5])?;
//! #     assert_eq!(cq.finish(received, Instant::now() + limit)?.into_buf(), b"hello");
//! #     Ok::<_, Box<dyn std::error::Error>>(())
//! # };
//! # let server = std::thread::spawn(move || serve().map_err(|error| error.to_string()));
//! # let (address, hints) = (receiver.recv()?, hints());
//!
//! // The client:
//! let hints = Hints { node: None, listen: false, destination: Some(&address), ..hints };
//! let info = Ofi::<Local>::query(&hints)?.next().ok_or("no route to the server")?;
//! # let domain = Domain::open(&info)?;
//! # let (cq, eq) = (Cq::open(&domain, 16)?, EventQueue::open(&domain, EqAttr::default())?);
//! let connecting = cq.msg_endpoint(&eq, &info)?.connect(&address, b"let me in")?;
//! let Some(EqEvent::Connected(event)) = eq.poll_for(limit)? else { return Err("no connection".into()) };
//! let endpoint = connecting.established(&event).map_err(|_| "event of another endpoint")?;
//! # let sent = endpoint.send(ThePeer, b"hello".to_vec())?;
//! # cq.finish(sent, Instant::now() + limit)?.result()?;
//! # server.join().expect("no panic")?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Multicast
//! One message to every member of a group, over `udp`. The hints require
//! [`Caps::MULTICAST`](loom_core::Caps::MULTICAST), and the group's port (`service`) at every
//! address (`node` is `0.0.0.0`):
//!
//! ```no_run
//! use loom_fabric::{EqEvent, SendOptions, Source};
//! # use std::net::SocketAddr;
//! # use std::time::{Duration, Instant};
//! # use loom_fabric::loom_core::vocabulary::EndpointAttributes;
//! # use loom_fabric::ofi::{Local, Ofi};
//! # use loom_fabric::{Av, Caps, Cq, Domain, EndpointType, EventQueue, EqAttr, Hints};
//! # let hints = Hints {
//! #     caps: Caps::MSG | Caps::MULTICAST,
//! #     endpoint_attr: EndpointAttributes::of(EndpointType::DGRAM),
//! #     service: Some("4000"),
//! #     ..Hints::at("udp", "0.0.0.0")
//! # };
//! # let info = Ofi::<Local>::query(&hints)?.next().ok_or("no datagrams here")?;
//! # let domain = Domain::open(&info)?;
//! # let (av, cq) = (Av::open(&domain, 1)?, Cq::open(&domain, 16)?);
//! # let eq = EventQueue::open(&domain, EqAttr::default())?;
//!
//! let endpoint = cq.multicast_endpoint(&av, &eq)?;
//! let address: SocketAddr = "239.1.2.3:4000".parse()?;
//! let joining = endpoint.join(&address.into())?;
//! let Some(EqEvent::Joined(event)) = eq.poll_for(Duration::from_secs(10))? else {
//!     return Err("not in the group".into());
//! };
//! let group = joining.joined(&event).map_err(|_| "event of another join")?;
//!
//! let received = endpoint.recv(Source::Any, vec![0; 64])?;
//! group.send_with(SendOptions::default(), b"to all".to_vec())?;
//! let (bytes, result) = cq.finish(received, Instant::now() + Duration::from_secs(10))?.into_parts();
//! println!("{:?}", &bytes[..result?.len]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Scalable endpoints
//! Two threads at one address over `sockets`, each with its own queue and contexts:
//!
//! ```
//! use loom_fabric::loom_core::endpoint::{Contexts, ScalableEndpoint};
//! use loom_fabric::{Av, AvAttr, Cq, Source};
//! # use std::time::{Duration, Instant};
//! # use loom_fabric::loom_core::vocabulary::EndpointAttributes;
//! # use loom_fabric::ofi::{Ofi, Shared};
//! # use loom_fabric::{Caps, Domain, EndpointType, Error, Hints};
//! # let hints = Hints {
//! #     caps: Caps::MSG | Caps::NAMED_RX_CTX,
//! #     endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
//! #     ..Hints::local("sockets")
//! # };
//! # let info = Ofi::<Shared>::query(&hints)?.next().ok_or("no sockets here")?;
//! # let domain = &Domain::open(&info)?;
//! # let deadline = Instant::now() + Duration::from_secs(10);
//!
//! // One bit of an address selects the receive context.
//! let av = Av::open(domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(16) })?;
//! let endpoint = &ScalableEndpoint::open(&av, &info, Contexts { tx: 2, rx: 2 })?;
//! let itself = av.insert(&endpoint.address()?)?;
//! # std::thread::scope(|scope| {
//! #     let threads = [0, 1].map(|index| scope.spawn(move || {
//! // On the thread of each context. It sends to its own context.
//! let cq = Cq::open(domain, 16)?;
//! let rx = cq.rx_context(endpoint, index)?;
//! let tx = cq.tx_context(endpoint, index)?;
//! let received = rx.recv(Source::Any, vec![0; 5])?;
//! tx.send(itself.rx_context(index), b"hello".to_vec())?;
//! assert_eq!(cq.finish(received, deadline)?.into_buf(), b"hello");
//! #         Ok::<_, Error>(())
//! #     }));
//! #     threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Providers that are not tested
//! loom relies only on provider behaviour that its tests have shown: for libfabric 1.17.0 and
//! 2.5.1, and the providers of `docs/providers`. Over others:
//! - An endpoint is closed only without operations in flight, and if no message was longer than its
//!   receive. Without a socket address, it also stays open beside another untested endpoint, and
//!   for good once an address was inserted. If dropped earlier, its queue takes it with the buffers
//!   of its cancelled operations. They leak if the queue is dropped before they complete, but a
//!   scope aborts the process.
//! - Regions are closed with the last endpoint of their domain, or before the endpoint that they
//!   are bound to (`FI_MR_ENDPOINT`). Passive endpoints stay open. Connections require socket
//!   addresses.
//! - Sleeping on event queues, and options of enabled endpoints, are left to the provider.
//! - Refused as not granted or with `EOPNOTSUPP`: multi-receives, directed untagged receives,
//!   peeks, claims, discards, unsignaled operations, options at the opening of endpoints, sleeping
//!   on queues and counters, tags of connections, shared receives, shutdowns, scalable endpoints
//!   and multicast groups.
//!
//! [`RawInfo::is_tested`] and the command `loom info` report the status. With feature `std`,
//! `LOOM_UNTESTED=1` in the environment makes every provider untested, and so does `FI_HOOK`.
//!
//! # Functions without a wrapper
//! A raw handle (`raw` of an object) gives access to its C object (`as_ptr`), with the types of
//! [`sys`]. A query for atomic sums of 64-bit numbers:
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
//! `from_ptr` (for endpoints [`Endpoint::from_fn`]) turns an object of the program into a raw
//! handle for [`Transport`](loom_core::transport::Transport). The caller guarantees:
//! - The program has opened the object with the given domain or fabric, and makes one handle of it.
//! - The object is used under the contract of `Transport`: by the permitted threads, and closed
//!   between its children and its parents.
//! - The function for its kind closes the object, once. Dropping a handle does not close it.
//!
//! Each function documents further rules. Passive and scalable endpoints and multicast groups
//! cannot be adopted. An address vector that maps addresses:
//!
//! ```
//! # #![allow(unsafe_code)]
//! use std::ptr::{NonNull, null_mut};
//!
//! use loom_fabric::ofi::{Av, sys};
//! # use std::time::{Duration, Instant};
//! # use loom_fabric::loom_core::buffer::Lent;
//! # use loom_fabric::loom_core::transport::{
//! #     AddressVectors, Bindings, Context, Endpoints, InFlight, Messages, Refusal,
//! # };
//! # use loom_fabric::loom_core::vocabulary::{CqMsgEntry, EndpointAttributes, FabricAddr, WaitObj};
//! # use loom_fabric::ofi::{EntryCq, Local, Ofi};
//! # use loom_fabric::{Caps, Domain, EndpointType, Hints};
//! # type T = Ofi<Local>;
//! # let hints = Hints {
//! #     caps: Caps::MSG,
//! #     endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
//! #     ..Hints::local("tcp;ofi_rxm")
//! # };
//! # let info = T::query(&hints)?.next().ok_or("no messages over tcp here")?;
//! # let domain = Domain::open(&info)?;
//! # let domain = domain.raw();
//!
//! let mut map = null_mut();
//! let mut attr = sys::fi_av_attr { type_: sys::FI_AV_MAP, count: 8, ..Default::default() };
//! // SAFETY: the domain is open, and the call writes `map`.
//! let code = unsafe {
//!     let open = (*(*domain.as_ptr()).ops).av_open.ok_or("no vectors")?;
//!     open(domain.as_ptr(), &raw mut attr, &raw mut map, null_mut())
//! };
//! let map = NonNull::new(map).filter(|_| code == 0).ok_or("no maps")?;
//! // SAFETY: the vector was opened in this domain. This thread uses it, and closes it below.
//! let av = unsafe { Av::from_ptr(domain, map) };
//! # // SAFETY: the domain is open. Here and below, this thread uses the objects of the domain and closes them in order.
//! # let cq = unsafe { EntryCq::<CqMsgEntry, Local>::open(domain, 16, WaitObj::NONE)? };
//! # // SAFETY: the queue is used in bindings only.
//! # let queue = unsafe { cq.for_bindings() };
//! # let bind = Bindings { tx: queue, rx: queue, av: &av, counters: &[], selective: false, options: &[] };
//! # // SAFETY: as above.
//! # let endpoint = unsafe { T::endpoint_open(domain, info.raw(), bind) }.map_err(|error| error.errno)?;
//! # // SAFETY: as above.
//! # let itself = unsafe { T::av_insert(&av, &T::endpoint_address(&endpoint)?)? };
//! #
//! # let (sent, mut received) = (*b"hello", [0; 5]);
//! # let (from, into) = (Lent::source(NonNull::from_ref(&sent).cast(), 5), Lent::target(NonNull::from_mut(&mut received).cast(), 5));
//! # // SAFETY: the buffers stay until the events are read.
//! # let mut posted = unsafe { T::recv(&endpoint, FabricAddr::UNSPEC, &into, None, Context::word(1)) };
//! # assert_eq!(posted, Ok(()));
//! # posted = Err(Refusal::Again);
//! # let (mut events, deadline) = (0, Instant::now() + Duration::from_secs(10));
//! # while events < 2 {
//! #     if posted == Err(Refusal::Again) {
//! #         // SAFETY: as above; the vector has the address.
//! #         posted = unsafe { T::send(&endpoint, itself, &from, None, None, Context::word(2)) };
//! #     }
//! #     // SAFETY: as above.
//! #     events += unsafe { cq.read(&mut [CqMsgEntry::default(); 2])? };
//! #     assert!(Instant::now() < deadline, "{events} events, {posted:?}");
//! # }
//! # assert_eq!(received, sent);
//! # // SAFETY: no operation is in flight.
//! # let _closed = unsafe { T::endpoint_close(&endpoint, InFlight::NOTHING)? };
//! # // SAFETY: the endpoint is closed.
//! # unsafe { cq.close()? };
//! // SAFETY: no endpoint is bound to the vector.
//! unsafe { T::av_close(&av)? };
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Features without a safe form, for reasons that runs with libfabric 1.17 and 2.5.1 or its source
//! have shown (`tests/libfabric/raw/adopted`):
//!
//! - Maps (`FI_AV_MAP`): every provider has tables, with the same numbers.
//! - Insertion through event queues (`FI_EVENT`): 1.17 writes the events inside the call, and `shm`
//!   never does. libfabric 2 binds vectors only over `sockets`.
//! - Address vectors that are shared by name: only `sockets`, where readers do not notice growth.
//! - User ids (`FI_AV_USER_ID`): only libfabric 2, over `shm`, `tcp;ofi_rxm` and `tcp`. Completions
//!   report the id, which other calls take for an address.
//! - Address vector sets (`fi_av_set`): only `tcp;ofi_rxm` with collectives. 1.17 reads before an
//!   array, 2.5 computes wrong differences and intersections.
//!   [`AddressSet`](loom_core::engine::address_table::AddressSet) is loom's own.
//! - Aliases (`fi_ep_alias`): only `sockets`, which never frees one.
//! - Shared transmit contexts: only `sockets`. Shared receives without connections: `sockets`, and
//!   `shm` of 1.17, which crashes when such a context is closed without a queue.
//! - Several ranges in a region (`fi_mr_regv`): `sockets` and `shm` accept two, and peers reach the
//!   first.
//! - Raw keys (`FI_MR_RAW`): no tested provider has them, and posts follow a mapped key as an
//!   address.
//! - Buffered receives (`FI_BUFFERED_RECV`): only `ofi_rxm`. 2.5 never reports claimed messages.
//! - Wait sets with counters and event queues: libfabric 2 deprecates sets.
//!
//! # How it calls libfabric
//! Like libfabric's inline C functions, this module calls through an object's operation tables
//! (`ep->msg->send(...)`): a post is one indirect call. A missing table or entry is `ENOSYS`. Every
//! `unsafe fn` relies on the [contract of callers](loom_core::transport#contract-of-callers).

mod av;
mod control;
mod counter;
mod endpoint;
mod fabric;
mod ffi;
mod fork;
mod info;
mod library;
mod queue;
mod quirks;
mod raw;
mod region;
pub mod sys;
mod threading;
mod transport;

pub use av::Av;
pub use counter::Counter;
pub use endpoint::Endpoint;
pub use endpoint::collective::CollectiveGroup;
pub use endpoint::connection::PassiveEndpoint;
pub use endpoint::multicast::Group;
pub use endpoint::scalable::ScalableEndpoint;
pub use fabric::{Domain, Fabric};
pub use info::RawInfo;
pub use info::list::InfoList;
pub use info::params::{Param, Params, params};
pub use info::providers::{Provider, Providers, providers};
pub use info::query::{QueryError, TextField, headers_version};
pub use library::Library;
pub use queue::entry_queue::{EntryCq, QueueEntry};
pub use queue::event_queue::{Eq, Request};
#[cfg(all(libfabric_has_poll_open, libfabric_has_wait_open))]
pub use queue::sets::{PollSet, PollSetMember, WaitSet};
pub use queue::{Cq, Signal};
pub use region::Mr;
pub use threading::{Level, Local, Shared};
pub use transport::Ofi;
