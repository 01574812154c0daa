//! The boundary: what a transport must provide so that the safe objects can be written once.
//!
//! [`Transport`] is the line between "safe, written once" and "raw, one per transport". Its functions open, close,
//! post, poll and control; they neither allocate through loom nor check what the objects have checked.
//!
//! It is the sum of a trait for each subject, as libfabric has a table of operations for each: users write
//! `T: Transport` and call `T::send`. The software transport implements each trait beside what serves it; that over libfabric, whose
//! functions forward to C, in one file. Groups of functions that one of the transports lacks
//! are traits beside it: [`Connected`], [`Multicast`], [`Scalable`], [`Signals`], [`Collectives`].
//!
//! A trait uses only what stands above it in the list of this file; `.ci/run layers` looks.
//!
//! # Contract of callers
//!
//! Every `unsafe fn` of these traits relies on its caller for the following, and for what its own documentation says. Safety comments cite it by
//! number.
//!
//! Handles, which are raw: dropping one does nothing.
//!
//! - **C1.** A handle is used only between the success of the function that opens it and the call of the one that closes it.
//! - **C2.** Children are closed before their parents: endpoints, queues, address vectors, counters and regions before their domain; endpoints
//!   before the queues, vectors and counters that they are bound to; regions before the endpoints and counters that they are bound to;
//!   a domain before its fabric.
//! - **C3.** A handle is closed once, unless its `endpoint_close` returned [`Closing::Retired`]. Whatever the call returned, the handle must not be
//!   used again; a retired endpoint's is used for [`cancel`](Endpoints::cancel), [`endpoint_leave`](Endpoints::endpoint_leave) and
//!   [`endpoint_close`](Endpoints::endpoint_close) only.
//! - **C4.** What one call names belongs to one domain, or is the domain or its fabric. An info that is named with a fabric or a domain is one of
//!   the same provider, fabric and domain.
//!
//! Threads, beside what `Send` and `Sync` of the handles say:
//!
//! - **C5.** One thread at a time uses a queue and the endpoints that are bound to it; and a counter and the endpoints that are bound to it.
//! - **C6.** The thread of an endpoint binds, enables and closes the regions that are bound to it.
//!
//! Counters:
//!
//! - **C7.** A counter to which an endpoint is bound stays at its address until `endpoint_close` returned [`Closing::Closed`] or
//!   [`Closing::Left`], or [`endpoint_leave`](Endpoints::endpoint_leave) left the endpoint for good.
//! - **C8.** A counter to which a region is bound stays at its address until `mr_close` returned. It stays open until the region is closed
//!   and, unless the transport says [`MR_CLOSE_FENCES`](MemoryRegions::MR_CLOSE_FENCES), what peers have begun on it has ended.
//!
//! What is lent with a post, until its event was polled or `endpoint_close` returned [`Closing::Closed`] or [`Closing::Left`]:
//!
//! - **C9.** The memory of each [`Lent`](crate::buffer::Lent) is valid for the access that the operation needs.
//! - **C10.** Where an info asks for it ([`Mode::CONTEXT`](crate::vocabulary::Mode::CONTEXT), `CONTEXT2`), the [`Context`] of a post is the
//!   address of scratch space, which the transport alone writes to. A claim's stays as it is until the claim is fetched or discarded.
//! - **C11.** A descriptor is that of an open region of the endpoint's domain which covers the memory. Memory of a device has one: by it a
//!   provider knows whose memory it is.
//! - **C12.** Where an info asks for [`Mode::MSG_PREFIX`](crate::vocabulary::Mode::MSG_PREFIX), on either side, what is lent with a message there
//!   begins with `msg_prefix_size` bytes that the transport may write to, in the first piece; and so do the bytes of `inject` and
//!   `tagged_inject`, which then may be as many more. They count in the lengths of receives' events, and towards no limit.
//!
//! Posts:
//!
//! - **C13.** A [`FabricAddr`](crate::vocabulary::FabricAddr) that is given to a post was returned by `av_insert` or `av_insert_service` of
//!   the endpoint's vector and not removed since, with the number of a receive context in its upper bits where the vector was opened
//!   for contexts; or is `UNSPEC` where a receive means any source, and in every post of a connected endpoint; or is the address of a
//!   group ([`Multicast`]). An address that is given to [`av_remove`](AddressVectors::av_remove) was returned by an insertion into that
//!   vector and not removed since. No operation in flight refers to it, unless the vector's [`AvRoom::reused`] is given.
//! - **C14.** Where an info asks for [`Mode::ASYNC_IOV`](crate::vocabulary::Mode::ASYNC_IOV), no operation has more than one piece or part.
//! - **C15.** What the [`ProviderQuirks`] of the endpoint's info deny is not asked for, but for multi-receives of callers that keep to P6
//!   themselves (`multi_recv_unchecked`, `tagged_multi_recv_unchecked`). A claim is fetched or discarded once, if it was made.
//!
//! - **C28.** An atomic operation is one that `query_atomic` of the endpoint's domain grants, of one element at least and of no more than that
//!   says. Operands, results, what is compared, and the parts of the peer's memory have the same number of elements, and each range and
//!   part is a multiple of their size.
//!
//! Memory of queues and regions:
//!
//! - **C16.** Memory given to [`cq_open`](CompletionQueues::cq_open) has the layout that `cq_layout` returned for the depth, and stays until the last
//!   call that names the queue.
//! - **C17.** Memory registered with [`mr_open`](MemoryRegions::mr_open) for local use stays the same (the same pages) from then on until the last operation is
//!   over that was posted with the region's descriptor.
//! - **C18.** Memory registered with access for peers stays until `mr_close` returned `Ok` and, unless the transport says
//!   [`MR_CLOSE_FENCES`](MemoryRegions::MR_CLOSE_FENCES), every endpoint of the domain that was open then is closed or left.
//!
//! For [`Connected`]:
//!
//! - **C19.** Event queues are children of their domain, passive endpoints of their event queue, endpoints of the event queue and of the shared
//!   receive context that they are bound to.
//! - **C20.** One thread at a time uses an event queue, and the passive endpoints and endpoints that are bound to it.
//! - **C21.** A request is used with the event queue open that reported it, and used up once.
//!
//! For [`Multicast`]:
//!
//! - **C22.** Endpoints that join were opened with [`multicast_endpoint_open`](Multicast::multicast_endpoint_open), and are children of the
//!   event queue that they were given.
//! - **C23.** A group is used between its join and the call of [`leave`](Multicast::leave), or of its endpoint's `endpoint_close`.
//! - **C24.** An address that [`group_address`](Multicast::group_address) has given is used with this group only, for `sendmsg` on its
//!   endpoint and with [`OpFlags::MULTICAST`](crate::vocabulary::OpFlags::MULTICAST), which no other address is used with.
//!
//! For [`Scalable`]:
//!
//! - **C25.** Scalable endpoints are children of their domain and address vector, contexts of their scalable endpoint and the queue
//!   that they complete into.
//! - **C26.** A scalable endpoint stays at its address as long as one of its contexts is open, or is left open for good.
//! - **C27.** One thread at a time uses a context together with its queue; the contexts of one scalable endpoint are used by as many threads as
//!   have them.
//!
//! For [`Collectives`]:
//!
//! - **C29.** A group is used on the endpoint that has joined it, between its join and the call of
//!   [`leave_collective`](Collectives::leave_collective), or of its endpoint's `endpoint_close`.
//! - **C30.** Operands and results have the number of bytes that the operation and `count` say for this member: of one part, or of as many
//!   parts as the group has members. The root is the rank of a member. Operands are initialised, and so are results. What members lend
//!   does not overlap, but for the two ranges of a broadcast, which may be one.
//!
//! # Promises of implementations
//!
//! What `unsafe impl` of these traits promises. Safety comments cite it by number.
//!
//! - **P1.** After `endpoint_close` returned [`Closing::Closed`] or [`Closing::Left`] the transport and its peers do not touch memory lent through that endpoint, or the scratch
//!   space of its contexts.
//! - **P2.** After `mr_close` returned `Ok` no operation of a peer begins to use the region's memory through this transport; those
//!   which had begun have ended, if [`MR_CLOSE_FENCES`](MemoryRegions::MR_CLOSE_FENCES), or else end with the endpoints of the
//!   domain.
//! - **P3.** A context is reported at most once per post (a multi-receive's once for each message), and a context which was posted is never
//!   invented. From its event on (a multi-receive's last one) the transport and its peers do not touch what was lent with it. (Contexts of endpoints already closed, and
//!   values never posted, may be reported: callers recognise them.)
//! - **P4.** Where an info asks for [`Mode::RX_CQ_DATA`](crate::vocabulary::Mode::RX_CQ_DATA), the event of a peer's write with immediate
//!   data has `REMOTE_WRITE` and the context of the receive that it has used up, which is over then: nothing of what it was
//!   lent is touched any more.
//! - **P5.** A successful receive or read of `len` bytes has initialised the first `len` bytes of what was lent. A receive whose `len` exceeds
//!   what was lent is one of a truncated message, and nothing beyond what was lent was written.
//! - **P6.** A receive that was posted with [`OpFlags::MULTI_RECV`](crate::vocabulary::OpFlags::MULTI_RECV) is reported once for each
//!   message, whose bytes have been initialised where the event says, and are not touched again; with the event that has
//!   [`CompletionFlags::MULTI_RECV`](crate::vocabulary::CompletionFlags::MULTI_RECV) nothing of what was lent is touched any
//!   more. All this where its [`ProviderQuirks`] says so, or else if its caller has seen to it.
//! - **P7.** No pointer into a caller's storage is kept, except to what a post lent and to what `cq_open` was given.
//! - **P8.** No function unwinds.
//!
//! For [`Connected`]:
//!
//! - **P9.** A notice of a request, or of an endpoint that is connected, is reported for what has happened and never invented.
//! - **P10.** Posts on an endpoint that was connected and is not any more fail, or are cancelled, and touch nothing afterwards; so do
//!   receives on an endpoint that never is.
//!
//! For [`Multicast`]:
//!
//! - **P11.** `endpoint_close` leaves the groups that the endpoint is still in.
//! - **P12.** A group's address is not looked at any more when the call has returned that posted a send to it: the group may be left
//!   while the send is in flight.
//! - **P13.** An event of a join carries the context that it was given.
//!
//! For [`Scalable`]:
//!
//! - **P14.** The functions that take a scalable endpoint, and `endpoint_close` of its contexts, may be called by several threads at the
//!   same time, where the type is `Sync`.
//! - **P15.** After `endpoint_close` of a context returned [`Closing::Closed`] the transport and its peers do not touch memory lent
//!   through it, whichever other contexts of its endpoint are open.
//!
//! For [`Signals`]:
//!
//! - **P16.** [`cq_signal`](Signals::cq_signal) may be called by any thread at any time, also by several, while
//!   the queue's own thread uses the queue or sleeps on it: C5 is not about it.
//!
//! For [`Collectives`]:
//!
//! - **P18.** `endpoint_close` leaves the groups that the endpoint is still in, and so do members that go: none of their memory is touched
//!   by an operation of the others afterwards.
//! - **P19.** [`collective`](Collectives::collective) refuses what [`query_collective`](Collectives::query_collective) denies.
//!
//! Forked children:
//!
//! - **P20.** In a process where [`Fabrics::is_here`] is `false` for a domain, memory lent through the domain's objects is not touched, and each
//!   function that can fail does so with [`Errno::OTHER_PROCESS`](crate::vocabulary::Errno::OTHER_PROCESS). C2 and C3 do not hold there: objects are leaked.
//!
//! Threads:
//!
//! - **P17.** Where [`Fabrics::Domain`] is `Sync`, a queue and the endpoints that are bound to it may be used by one thread after another.

#![allow(unsafe_code, reason = "the unsafe traits of the boundary, and their contract")]

mod event;

pub mod nic;

mod fabric;

mod av;

mod cq;

mod counter;

mod endpoint;

mod mr;

mod message;

mod rma;

mod atomics;

mod sum;

mod signals;

pub mod connected;

mod multicast;

pub mod scalable;

mod collectives;

pub use self::atomics::{AtomicAttr, AtomicRanges, Atomics};
pub use self::av::{AddressVectors, AvRoom};
pub use self::collectives::{CollectiveAttr, CollectiveCall, Collectives};
pub use self::connected::Connected;
pub use self::counter::{CounterAttr, CounterWait, Counters};
pub use self::cq::CompletionQueues;
pub use self::endpoint::{Bindings, Closing, EndpointError, Endpoints, InFlight};
pub use self::event::{Context, Event};
pub use self::fabric::{Claims, Fabrics, Name, ProviderQuirks};
pub use self::message::{Messages, Msg, Refusal, TaggedMessages};
pub use self::mr::{DmaBuf, MemoryRegions, MrAttr};
pub use self::multicast::Multicast;
pub use self::rma::{RemotePart, Rma, RmaTarget};
pub use self::scalable::Scalable;
pub use self::signals::Signals;
pub use self::sum::Transport;
