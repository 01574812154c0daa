//! Boundary between the safe objects and the raw functions of a transport.
//!
//! Optional functions form separate traits: [`Connected`], [`Multicast`], [`Scalable`],
//! [`Signals`], [`Collectives`].
//!
//! # Contract of callers
//!
//! Every `unsafe fn` of these traits requires these rules and its own.
//!
//! Raw handles (dropping one has no effect):
//!
//! - **H1.** A handle is used only between its successful opening and the call that closes it.
//! - **H2.** Children are closed before their parents: endpoints, queues, address vectors, counters
//!   and regions before their domain, a domain before its fabric, endpoints before the queues,
//!   vectors and counters, and regions before the endpoints and counters, that they are bound to.
//! - **H3.** A handle is closed once and not used afterwards, whatever the call returned. After
//!   [`Closing::Retired`], it is used for [`cancel`](Endpoints::cancel),
//!   [`endpoint_leave`](Endpoints::endpoint_leave) and
//!   [`endpoint_close`](Endpoints::endpoint_close) only.
//! - **H4.** The objects of one call belong to one domain, or are the domain or its fabric. An info
//!   given with them is of the same provider, fabric and domain.
//!
//! Threads, beyond `Send` and `Sync` of the handles:
//!
//! - **T1.** One thread at a time uses a queue or counter and the endpoints bound to it.
//! - **T2.** The thread of an endpoint binds, enables and closes the regions bound to it.
//! - **T3.** One thread at a time uses an event queue and the passive endpoints and endpoints
//!   bound to it.
//! - **T4.** One thread at a time uses a context and its queue. Threads may use different contexts
//!   of one scalable endpoint.
//!
//! Counters:
//!
//! - **N1.** A counter with a bound endpoint stays at its address until `endpoint_close` returned
//!   [`Closing::Closed`] or [`Closing::Left`], or [`endpoint_leave`](Endpoints::endpoint_leave)
//!   left the endpoint for good.
//! - **N2.** A counter with a bound region stays at its address until `mr_close` returned, and open
//!   until then and, unless [`MR_CLOSE_FENCES`](MemoryRegions::MR_CLOSE_FENCES), until operations
//!   of peers on the region have ended.
//!
//! Memory lent with a post, until its event was polled or `endpoint_close` returned
//! [`Closing::Closed`] or [`Closing::Left`]:
//!
//! - **L1.** The memory of each [`Lent`](crate::buffer::Lent) is valid for the operation's access.
//! - **L2.** If an info requires [`Mode::CONTEXT`](crate::vocabulary::Mode::CONTEXT) or `CONTEXT2`,
//!   the [`Context`] of a post is the address of scratch space that only the transport writes. A
//!   claim's stays as it is until the claim is fetched or discarded.
//! - **L3.** A descriptor belongs to an open region of the endpoint's domain that covers the
//!   memory. Device memory has a descriptor, by which a provider identifies the owner.
//! - **L4.** If an info requires [`Mode::MSG_PREFIX`](crate::vocabulary::Mode::MSG_PREFIX) on one
//!   side, the first piece of memory lent with a message there begins with `msg_prefix_size` bytes
//!   that the transport may write. So do the bytes of `inject`, which may be longer by them.
//!   Lengths of receive events include the prefix, limits do not.
//!
//! Posts:
//!
//! - **O1.** A [`FabricAddr`](crate::vocabulary::FabricAddr) given to a post was returned by
//!   `av_insert` or `av_insert_service` of the endpoint's vector and not removed since (in a vector
//!   for contexts, the upper bits are the number of a receive context), or is `UNSPEC`, in a
//!   receive from any source and in every post of a connected endpoint, or the address of a group
//!   ([`Multicast`]). An address given to [`av_remove`](AddressVectors::av_remove) was returned by
//!   an insertion into it and not removed since. No operation in flight refers to it, unless the
//!   vector's [`AvRoom::reused`] is `Some`.
//! - **O2.** If an info requires [`Mode::ASYNC_IOV`](crate::vocabulary::Mode::ASYNC_IOV), an
//!   operation has at most one piece and one part.
//! - **O3.** Operations that the [`ProviderQuirks`] of the endpoint's info deny are not posted,
//!   except multi-receives of callers that keep P6 themselves (`multi_recv_unchecked`). A claim is
//!   fetched or discarded once.
//! - **O4.** An atomic operation is granted by `query_atomic` of the endpoint's domain, with at
//!   least one element and at most the granted number. Operands, results, compared values and parts
//!   of the peer's memory have equal numbers of elements. Each range and part is a multiple of the
//!   element size.
//!
//! Memory of domains, queues and regions:
//!
//! - **M1.** Memory of [`cq_open`](CompletionQueues::cq_open) has the layout of `cq_layout` for the
//!   depth, and stays until the last call that names the queue. Memory of
//!   [`domain_open`](Fabrics::domain_open) has that of `domain_layout` for the info, and stays
//!   until the last call that names the domain or its objects.
//! - **M2.** Memory registered with [`mr_open`](MemoryRegions::mr_open) for local use keeps its
//!   pages until the last operation posted with the region's descriptor has completed.
//! - **M3.** Memory registered with access for peers stays until `mr_close` returned `Ok` and,
//!   unless [`MR_CLOSE_FENCES`](MemoryRegions::MR_CLOSE_FENCES), every endpoint of the domain open
//!   at that time is closed or left.
//!
//! For [`Connected`]:
//!
//! - **E1.** An event queue is a child of its domain, a passive endpoint of its event queue, and
//!   an endpoint of the event queue and shared receive context that it is bound to.
//! - **E2.** A request is used while the event queue that reported it is open, and consumed once.
//!
//! For [`Multicast`]:
//!
//! - **G1.** Endpoints that join were opened with
//!   [`multicast_endpoint_open`](Multicast::multicast_endpoint_open), and are children of the event
//!   queue given to it.
//! - **G2.** A group is used between its join and the call of [`leave`](Multicast::leave), or of
//!   `endpoint_close`.
//! - **G3.** An address returned by [`group_address`](Multicast::group_address) is used only with
//!   its group, for `sendmsg` on the group's endpoint with
//!   [`OpFlags::MULTICAST`](crate::vocabulary::OpFlags::MULTICAST). No other address is used with
//!   that flag.
//!
//! For [`Scalable`]:
//!
//! - **S1.** A scalable endpoint is a child of its domain and address vector, and a context of its
//!   scalable endpoint and queue.
//! - **S2.** A scalable endpoint stays at its address while one of its contexts is open, or left
//!   open.
//!
//! For [`Collectives`]:
//!
//! - **K1.** A group is used on the endpoint that joined it, between the join and the call of
//!   [`leave_collective`](Collectives::leave_collective), or of `endpoint_close`.
//! - **K2.** Operands and results are initialised, and have the number of bytes that the operation
//!   and `count` require of this member: one part, or one per member. The root is the rank of a
//!   member. Ranges that members lend do not overlap, except that the two of a broadcast may be
//!   one.
//!
//! # Promises of implementations
//!
//! Every `unsafe impl` of these traits keeps these promises.
//!
//! - **P1.** After `endpoint_close` returned [`Closing::Closed`] or [`Closing::Left`], the
//!   transport and its peers do not touch memory lent through that endpoint, or the scratch space
//!   of its contexts.
//! - **P2.** After `mr_close` returned `Ok`, no operation of a peer begins to use the region's
//!   memory through this transport. Operations that had begun have ended, if
//!   [`MR_CLOSE_FENCES`](MemoryRegions::MR_CLOSE_FENCES), or else end with the endpoints of the
//!   domain.
//! - **P3.** A posted context is never invented, and reported at most once per post (per message
//!   for a multi-receive). From its event on (a multi-receive's last one), the transport and its
//!   peers do not touch the memory lent with it. Contexts of closed endpoints and values never
//!   posted may be reported.
//! - **P4.** If an info requires [`Mode::RX_CQ_DATA`](crate::vocabulary::Mode::RX_CQ_DATA), the
//!   event of a peer's write with immediate data has `REMOTE_WRITE` and the context of the receive
//!   that it consumed. That receive has completed: its memory is not touched any more.
//! - **P5.** A successful receive or read of `len` bytes has initialised the first `len` bytes of
//!   the lent memory. If `len` of a receive exceeds the lent memory, the message was truncated, and
//!   no byte beyond the lent memory was written.
//! - **P6.** A receive posted with [`OpFlags::MULTI_RECV`](crate::vocabulary::OpFlags::MULTI_RECV)
//!   is reported once for each message. The message's bytes, at the place in the event, are
//!   initialised and not touched again. From the event with
//!   [`CompletionFlags::MULTI_RECV`](crate::vocabulary::CompletionFlags::MULTI_RECV) on, the lent
//!   memory is not touched. P6 holds if the [`ProviderQuirks`] grant it or the caller ensures it.
//! - **P7.** The transport keeps no pointer to a caller's memory, except memory lent with a post or
//!   given to `cq_open` or `domain_open`.
//! - **P8.** No function unwinds.
//! - **P9.** If [`Fabrics::Domain`] is `Sync`, a queue and the endpoints bound to it may be used
//!   by one thread after another.
//!
//! For [`Connected`]:
//!
//! - **P10.** A notice of a request, or of a connected endpoint, reports a real event.
//! - **P11.** Posts on an endpoint that is no longer connected, and receives on one that never
//!   connects, fail or are cancelled, and do not touch memory afterwards.
//!
//! For [`Multicast`]:
//!
//! - **P12.** `endpoint_close` leaves the endpoint's groups.
//! - **P13.** The transport does not read a group's address after the call that posted a send to it
//!   has returned. The group may be left while the send is in flight.
//! - **P14.** The event of a join carries the context given to the join.
//!
//! For [`Scalable`]:
//!
//! - **P15.** If the type is `Sync`, threads may at the same time call the functions of a scalable
//!   endpoint, and `endpoint_close` of its contexts.
//! - **P16.** After `endpoint_close` of a context returned [`Closing::Closed`], the transport and
//!   its peers do not touch memory lent through it, whichever other contexts of its endpoint are
//!   open.
//!
//! For [`Signals`]:
//!
//! - **P17.** Any number of threads may call [`cq_signal`](Signals::cq_signal) at any time, while
//!   the queue's thread uses it or sleeps. T1 does not apply.
//!
//! For [`Collectives`]:
//!
//! - **P18.** `endpoint_close` leaves the endpoint's groups, and a member that is gone has left its
//!   groups. Operations of others do not touch its memory afterwards.
//! - **P19.** [`collective`](Collectives::collective) refuses operations that
//!   [`query_collective`](Collectives::query_collective) denies.
//!
//! Forked children:
//!
//! - **P20.** In a process where [`Fabrics::is_here`] is `false` for a domain, memory lent through
//!   the domain's objects is not touched, and each function that can fail does so with
//!   [`Errno::OTHER_PROCESS`](crate::vocabulary::Errno::OTHER_PROCESS). H2 and H3 do not hold
//!   there: objects are leaked.

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
pub use self::message::{Messages, Msg, Refusal};
pub use self::mr::{DmaBuf, MemoryRegions, RegionAttr};
pub use self::multicast::Multicast;
pub use self::rma::{RemotePart, Rma, RmaTarget};
pub use self::scalable::Scalable;
pub use self::signals::Signals;

/// Network layer below the safe objects: the sum of the traits of a transport.
///
/// ```
/// use loom_core::{Endpoint, Error, Forever, Peer, Source, Transport};
///
/// /// Sends a message over any transport, and returns its buffer.
/// fn send<T: Transport>(from: &Endpoint<'_, T, Vec<u8>>, to: Peer, message: Vec<u8>) -> Result<Vec<u8>, Error> {
///     let sent = from.cq().post(message, Forever, |message| from.send(to, message))?;
///     Ok(from.cq().finish(sent, Forever)?.into_result()?.0)
/// }
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// assert_eq!(send(&alice, to_bob, b"hello".to_vec())?, b"hello");
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # Contract of callers
///
/// [H1 to H4, T1, T2, N1, N2, L1 to L4, O1 to O4, M1 to M3](self#contract-of-callers).
///
/// # Safety
///
/// Implementations of this trait and its supertraits promise [P1 to P9 and
/// P20](self#promises-of-implementations).
pub unsafe trait Transport: MemoryRegions + Messages + Rma + Atomics {}
