//! The boundary: what a transport must provide so that the safe objects can be written once.
//!
//! [`Transport`] is the line between "safe, written once" and "raw, one per transport". Its functions open, close,
//! post, poll and control; they neither allocate through loom nor check what the objects have checked.

#![allow(unsafe_code, reason = "the unsafe trait `Transport` and its contract")]

pub mod connected;
mod event;
mod multicast;
pub mod nic;
pub mod scalable;
mod signals;
mod types;

use core::alloc::Layout;
use core::borrow::Borrow;
use core::ffi::c_int;
use core::ptr::NonNull;

pub use self::connected::Connected;
pub use self::event::{Context, Event};
pub use self::multicast::Multicast;
use self::nic::Nic;
pub use self::scalable::Scalable;
pub use self::signals::Signals;
pub use self::types::{
    Bindings, Claims, Closing, CounterAttr, CounterWait, DmaBuf, EndpointError, InFlight, MrAttr, Msg, Name,
    ProviderQuirks, Refusal, RemotePart, RmaTarget,
};
use crate::buffer::Lent;
use crate::vocabulary::{
    Attributes, EndpointAddr, Errno, FabricAddr, ImmediateData, MemoryKey, OptionValue, Tag, TagMatch, WaitObj,
};

/// A network layer underneath the safe objects.
///
/// Handles are raw: dropping one does nothing, and each is closed by exactly one call of its `*_close`.
///
/// # Contract of callers
///
/// Every `unsafe fn` here relies on the caller for the following, and names nothing else:
///
/// - a handle is used only between the success of its `*_open` and the call of its `*_close`;
/// - children are closed before parents: endpoints, queues, address vectors, counters and regions before their domain,
///   endpoints before the queues, vectors and counters they are bound to, regions before the endpoints and counters they are
///   bound to, a domain before its fabric;
/// - a close is called once, unless an endpoint's says [`Closing::Retired`]. Whatever it returns, the handle is never
///   used again; a retired endpoint's is used for cancelling and closing only;
/// - one queue and the endpoints bound to it are used by one thread at a time, and so are counters and their endpoints;
/// - a region that is bound to an endpoint is bound, enabled and closed by the endpoint's thread;
/// - a counter to which a region is bound stays open until the region is closed and, unless the transport says
///   [`MR_CLOSE_FENCES`](Transport::MR_CLOSE_FENCES), what peers have begun on it has ended;
/// - a counter to which an endpoint is bound stays where it is until the endpoint is closed, or nobody uses its queues any
///   more;
/// - memory lent with a post ([`Lent`], with the access that the operation needs) stays valid until its event was
///   polled or `endpoint_close` returned [`Closing::Closed`] or [`Closing::Left`]; so does the scratch space of its [`Context`];
/// - memory of a device is lent with the descriptor of a region, by which a provider knows whose it is;
/// - where an info asks for it ([`Mode::CONTEXT`](crate::vocabulary::Mode::CONTEXT), `CONTEXT2`), the [`Context`] of a post is the
///   address of scratch space, which nobody else writes to until then;
/// - where it asks for [`Mode::ASYNC_IOV`](crate::vocabulary::Mode::ASYNC_IOV), no operation has more than one piece or part;
/// - where it asks for [`Mode::MSG_PREFIX`](crate::vocabulary::Mode::MSG_PREFIX), on either side, what is lent with a message there
///   begins with `msg_prefix_size` bytes that the transport may write to, in the first piece; and so do the bytes of `inject` and
///   `tagged_inject`, which then may be so many more. They count in the lengths of receives' events, and towards no limit;
/// - a [`FabricAddr`] given to a post was returned by `av_insert` of the endpoint's vector and not removed since,
///   or is `UNSPEC` where a receive means any source, or is the address of a group ([`Multicast`]);
/// - memory given to `cq_open` has the layout that `cq_layout` returned and stays until the last call that names the
///   queue;
/// - memory registered with `mr_open` for local use stays the same (the same pages) from then on until the last operation is over
///   that was posted with the region's descriptor;
/// - memory registered with access for peers stays until `mr_close` returned `Ok` and, unless the transport says
///   [`MR_CLOSE_FENCES`](Transport::MR_CLOSE_FENCES), every endpoint of the domain that was open then is closed or left.
///
/// # Safety
///
/// Implementations promise:
///
/// - after `endpoint_close` returned [`Closing::Closed`] or [`Closing::Left`] nobody touches memory lent through that endpoint, or its contexts' space;
/// - after `mr_close` returned `Ok` no operation of a peer begins to use the region's memory through this transport; those
///   which had begun have ended, if [`MR_CLOSE_FENCES`](Transport::MR_CLOSE_FENCES), or else end with the endpoints of the
///   domain;
/// - a context is reported at most once per post (a multi-receive's once for each message), and a context which was posted is
///   never invented. (Contexts of
///   endpoints already closed, and values never posted, may be reported: callers recognise them);
/// - where an info asks for [`Mode::RX_CQ_DATA`](crate::vocabulary::Mode::RX_CQ_DATA), the event of a peer's write with immediate
///   data has `REMOTE_WRITE` and the context of the receive that it has used up, which is over then: nothing of what it was
///   lent is touched any more;
/// - a successful receive or read of `len` bytes has initialised the first `len` bytes of what was lent, and `len`
///   never exceeds what was lent;
/// - a receive that was posted with [`OpFlags::MULTI_RECV`](crate::vocabulary::OpFlags::MULTI_RECV) is reported once for each
///   message, whose bytes have been initialised where the event says, and are not touched again; with the event that has
///   [`CompletionFlags::MULTI_RECV`](crate::vocabulary::CompletionFlags::MULTI_RECV) nothing of what was lent is touched any
///   more. All this where its [`ProviderQuirks`] says so, or else if its caller has seen to it;
/// - no pointer into a caller's storage is kept, except to what a post lent and to what `cq_open` was given;
/// - no function unwinds.
pub unsafe trait Transport: Sized {
    /// A description of what can be opened: `fi_info`. Owned and cloneable.
    type Info: Clone;
    /// `fid_fabric`
    type Fabric;
    /// `fid_domain`. Whether it is `Sync` is the transport's threading level: where it is, queues and endpoints of it may be used by
    /// one thread after another.
    type Domain;
    /// `fid_av`
    type Av;
    /// `fid_cq`
    type Cq;
    /// `fid_mr`. Whichever thread closes the last endpoint of a domain may close it.
    type Mr: Send;
    /// `fid_cntr`
    type Counter;
    /// `fid_ep`
    type Endpoint;
    /// What a poll shows: the event itself where it is put together from something else, or a reference to where it lies.
    type Polled<'q>: Borrow<Event>
    where
        Self: 'q;

    /// Whether `mr_close` returns only when nobody uses the memory any more. The objects rely on it where
    /// [`ProviderQuirks::mr_close`] says that regions can be closed at any time.
    ///
    /// libfabric does not promise it ("active or queued operations that reference a memory region being closed may [...]
    /// result in accesses to invalid memory"), and its `tcp` provider checks a key once and fills the region over many polls.
    const MR_CLOSE_FENCES: bool;

    /// `fi_dupinfo`
    ///
    /// # Errors
    /// `ENOMEM`.
    fn duplicate(info: &Self::Info) -> Result<Self::Info, Errno>;
    /// All numbers of an info.
    fn attributes(info: &Self::Info) -> Attributes;
    /// A name in an info, if it has one.
    fn name(info: &Self::Info, name: Name) -> Option<&str>;
    /// The local address in an info, if it has one.
    fn source_address(info: &Self::Info) -> Option<EndpointAddr>;
    /// The peer's address in an info, if it has one.
    fn destination_address(info: &Self::Info) -> Option<EndpointAddr>;
    /// The network card behind an info, if the transport knows one.
    fn nic(info: &Self::Info) -> Option<Nic<'_>>;
    /// Whether a domain opened from this info is serialised as this transport type needs.
    fn serves_threading(attributes: &Attributes) -> bool;

    /// What is not to be asked of endpoints in a domain that was opened from this info, though it grants it.
    fn quirks(info: &Self::Info) -> ProviderQuirks;

    /// `fi_fabric`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn fabric_open(info: &Self::Info) -> Result<Self::Fabric, Errno>;
    /// `fi_close` of a fabric.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn fabric_close(fabric: &Self::Fabric) -> Result<(), Errno>;

    /// `fi_domain`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn domain_open(fabric: &Self::Fabric, info: &Self::Info) -> Result<Self::Domain, Errno>;
    /// `fi_close` of a domain.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn domain_close(domain: &Self::Domain) -> Result<(), Errno>;

    /// How many places a table needs for `capacity` peers: fabric addresses of the domain have smaller indices.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_places(domain: &Self::Domain, capacity: usize) -> usize;
    /// `fi_av_open` for about `capacity` peers, as a table (`FI_AV_TABLE`): the low 32 bits of the fabric addresses
    /// that it hands out are small numbers, one for each peer.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_open(domain: &Self::Domain, capacity: usize) -> Result<Self::Av, Errno>;
    /// `fi_close` of an address vector.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_close(av: &Self::Av) -> Result<(), Errno>;
    /// `fi_av_insert` of one address.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_insert(av: &Self::Av, address: &EndpointAddr) -> Result<FabricAddr, Errno>;
    /// `fi_av_insert` of many addresses: each result is what [`av_insert`](Self::av_insert) says of the address at its place. An
    /// address that is there twice is the same in both places, and one `av_remove` takes it out.
    ///
    /// # Safety
    /// The contract of callers; there are as many results as addresses.
    unsafe fn av_insert_all(av: &Self::Av, addresses: &[EndpointAddr], results: &mut [Result<FabricAddr, Errno>]) {
        for (address, result) in addresses.iter().zip(results) {
            // SAFETY: the caller's promise.
            *result = unsafe { Self::av_insert(av, address) };
        }
    }
    /// `fi_av_insertsvc`: an address by the name of its node and service, or by its own text.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_insert_service(av: &Self::Av, node: &str, service: Option<&str>) -> Result<FabricAddr, Errno>;
    /// `fi_av_remove` of one address.
    ///
    /// # Safety
    /// The contract of callers; and no operation in flight refers to the address.
    unsafe fn av_remove(av: &Self::Av, peer: FabricAddr) -> Result<(), Errno>;
    /// `fi_av_lookup`
    ///
    /// # Safety
    /// The contract of callers; `peer` was inserted and not removed.
    unsafe fn av_lookup(av: &Self::Av, peer: FabricAddr) -> Result<EndpointAddr, Errno>;

    /// What memory a queue for `depth` events needs from the caller.
    fn cq_layout(depth: usize) -> Layout;
    /// `fi_cq_open` for `depth` events; `with_source` asks for sender addresses (`fi_cq_readfrom`), and `wait` for something
    /// that `cq_sleep` and `cq_wait_fd` can use, or for nothing.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_open(
        domain: &Self::Domain,
        depth: usize,
        with_source: bool,
        wait: WaitObj,
        memory: NonNull<u8>,
    ) -> Result<Self::Cq, Errno>;
    /// `fi_close` of a completion queue.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_close(cq: &Self::Cq) -> Result<(), Errno>;
    /// The next event, after driving progress if there is none at hand; `Ok(None)` says that the queue was empty.
    ///
    /// Implementations inline what they do for an event that is at hand: the queue above then builds the completion from it
    /// without a copy in between, which is a third of the cost of a poll.
    ///
    /// # Errors
    /// `EAVAIL` if the next event is to be had from [`cq_read_error`](Self::cq_read_error); anything else is an error of the
    /// queue itself, not of an operation.
    ///
    /// # Safety
    /// The contract of callers; the event is looked at before the transport is called again.
    unsafe fn cq_poll(cq: &Self::Cq) -> Result<Option<Self::Polled<'_>>, Errno>;
    /// Sleeps until the queue may have an event for [`cq_poll`](Self::cq_poll), for so many milliseconds at most; may wake up
    /// for nothing. `fi_cq_sread`.
    ///
    /// # Errors
    /// One of the queue itself; `ENOSYS` if it was opened with nothing to sleep on.
    ///
    /// # Safety
    /// The contract of callers; `cq_poll` has just found the queue empty.
    unsafe fn cq_sleep(cq: &Self::Cq, milliseconds: i32) -> Result<(), Errno>;
    /// The file descriptor that is readable when the queue may have an event; `fi_control` with `FI_GETWAIT`.
    ///
    /// # Errors
    /// `ENOSYS` if it was opened without one.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_wait_fd(cq: &Self::Cq) -> Result<c_int, Errno>;
    /// Whether nothing is lost by sleeping on the file descriptor now; `fi_trywait`.
    ///
    /// # Errors
    /// One of the queue itself; `ENOSYS` if it was opened without a file descriptor.
    ///
    /// # Safety
    /// The contract of callers; the domain of the queue is `domain`.
    unsafe fn cq_may_sleep(domain: &Self::Domain, cq: &Self::Cq) -> Result<bool, Errno>;
    /// `fi_cq_readerr`: the event of an operation that failed, after [`cq_poll`](Self::cq_poll) said so.
    ///
    /// # Errors
    /// One of the queue itself.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_read_error(cq: &Self::Cq) -> Result<Option<Event>, Errno>;
    /// `fi_cq_strerror`: writes the provider's text for its own error number, and returns how many bytes it wrote.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_error_text(cq: &Self::Cq, provider_errno: i32, out: &mut [u8]) -> usize;
    /// Writes the data that the provider gave with the last event of [`cq_read_error`](Self::cq_read_error) (`err_data`), and returns
    /// how many bytes it wrote.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_error_data(cq: &Self::Cq, out: &mut [u8]) -> usize {
        let _ = (cq, out);
        0
    }

    /// `fi_mr_regattr`. Where the domain asks for regions that are bound (`FI_MR_ENDPOINT`, `FI_MR_RMA_EVENT`), nobody reaches the
    /// memory before [`mr_enable`](Self::mr_enable).
    ///
    /// # Errors
    /// `ENOKEY` if another region of the domain has the key.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn mr_open(domain: &Self::Domain, memory: &Lent, attr: MrAttr) -> Result<Self::Mr, Errno>;
    /// `fi_mr_bind` to an endpoint, where the domain asks for `FI_MR_ENDPOINT`.
    ///
    /// # Safety
    /// The contract of callers; both are of one domain, and the region is not enabled.
    unsafe fn mr_bind_endpoint(mr: &mut Self::Mr, endpoint: &Self::Endpoint) -> Result<(), Errno>;
    /// `fi_mr_bind` to a counter of what peers write (`FI_REMOTE_WRITE`).
    ///
    /// # Errors
    /// `ENOSYS` if there are no counters of regions.
    ///
    /// # Safety
    /// The contract of callers; both are of one domain, and the region is not enabled.
    unsafe fn mr_bind_counter(mr: &mut Self::Mr, counter: &Self::Counter) -> Result<(), Errno>;
    /// `fi_mr_enable`; the region's key may be another afterwards.
    ///
    /// # Safety
    /// The contract of callers; the domain asks for it, and the region is bound to what it needs.
    unsafe fn mr_enable(mr: &mut Self::Mr) -> Result<(), Errno>;
    /// `fi_mr_refresh` of a range.
    ///
    /// # Safety
    /// The contract of callers; the range lies within the region.
    unsafe fn mr_refresh(mr: &Self::Mr, first: NonNull<u8>, len: usize) -> Result<(), Errno>;
    /// `fi_mr_key`
    fn mr_key(mr: &Self::Mr) -> MemoryKey;
    /// `fi_mr_desc`, as a number.
    fn mr_descriptor(mr: &Self::Mr) -> usize;
    /// `fi_close` of a region: its key is not valid any more. See [`MR_CLOSE_FENCES`](Self::MR_CLOSE_FENCES).
    ///
    /// Unless closing is a fence, the objects may hold a lock that opening an endpoint of the domain takes, so that this does not wait
    /// for a thread that opens one.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn mr_close(mr: &Self::Mr) -> Result<(), Errno>;

    /// `fi_cntr_open`, at zero.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_open(domain: &Self::Domain, attr: CounterAttr) -> Result<Self::Counter, Errno>;
    /// `fi_close` of a counter.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_close(counter: &Self::Counter) -> Result<(), Errno>;
    /// `fi_cntr_read`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_read(counter: &Self::Counter) -> u64;
    /// `fi_cntr_readerr`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_read_error(counter: &Self::Counter) -> u64;
    /// `fi_cntr_add`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_add(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_adderr`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_add_error(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_set`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_set(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_seterr`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_set_error(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_wait`, for so many milliseconds at most.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// The contract of callers; the counter was opened with something to sleep on.
    unsafe fn counter_wait(counter: &Self::Counter, threshold: u64, milliseconds: i32) -> Result<CounterWait, Errno>;
    /// The file descriptor that is readable when the counter has changed; `fi_control` with `FI_GETWAIT`.
    ///
    /// # Safety
    /// The contract of callers; the counter was opened with one.
    unsafe fn counter_wait_fd(counter: &Self::Counter) -> Result<c_int, Errno>;
    /// Whether nothing is lost by sleeping on the file descriptor now; `fi_trywait`.
    ///
    /// # Safety
    /// The contract of callers; the counter was opened with one, on `domain`.
    unsafe fn counter_may_sleep(domain: &Self::Domain, counter: &Self::Counter) -> Result<bool, Errno>;

    /// `fi_endpoint`, `fi_ep_bind` and `fi_enable` in the order that they need. On error nothing is left open, or the
    /// error says so.
    ///
    /// # Safety
    /// The contract of callers; everything in `bind` belongs to `domain`.
    unsafe fn endpoint_open(
        domain: &Self::Domain,
        info: &Self::Info,
        bind: Bindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// `fi_close` of an endpoint: the point after which nothing lent through it is touched.
    ///
    /// # Safety
    /// The contract of callers; `in_flight` is true.
    unsafe fn endpoint_close(endpoint: &Self::Endpoint, in_flight: InFlight) -> Result<Closing, Errno>;
    /// The queues of a retired endpoint are not polled from now on, and nothing else drives it, such as its counters: until
    /// `endpoint_close` retires it again, or, with nothing in flight on it, for good. Returns whether the provider goes on
    /// driving it all the same, with others of its domain: then peers still reach the domain's memory through it.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn endpoint_leave(endpoint: &Self::Endpoint, for_good: bool) -> bool;
    /// `fi_getname`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn endpoint_address(endpoint: &Self::Endpoint) -> Result<EndpointAddr, Errno>;
    /// `fi_getopt`: the value of an option of this number, which has the type of `kind`.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn endpoint_option(endpoint: &Self::Endpoint, option: u32, kind: OptionValue) -> Result<OptionValue, Errno>;
    /// `fi_setopt`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn endpoint_set_option(endpoint: &Self::Endpoint, option: u32, value: OptionValue) -> Result<(), Errno>;
    /// `fi_cancel`: asks for the operation to end. Its event still comes.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cancel(endpoint: &Self::Endpoint, context: Context) -> Result<(), Errno>;

    /// `fi_send`, or `fi_senddata` with immediate data.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn send(
        endpoint: &Self::Endpoint,
        to: FabricAddr,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_inject`, or `fi_injectdata`: `bytes` may be reused at once, and no event reports success.
    ///
    /// # Safety
    /// The contract of callers; `bytes` is not longer than `inject_size`, and a prefix.
    unsafe fn inject(
        endpoint: &Self::Endpoint,
        to: FabricAddr,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal>;
    /// `fi_recv`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn recv(endpoint: &Self::Endpoint, from: FabricAddr, lent: &Lent, context: Context) -> Result<(), Refusal>;

    /// `fi_tsend`, or `fi_tsenddata` with immediate data.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn tagged_send(
        endpoint: &Self::Endpoint,
        to: FabricAddr,
        lent: &Lent,
        data: Option<ImmediateData>,
        tag: Tag,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_tinject`, or `fi_tinjectdata`.
    ///
    /// # Safety
    /// The contract of callers; `bytes` is not longer than `inject_size`, and a prefix.
    unsafe fn tagged_inject(
        endpoint: &Self::Endpoint,
        to: FabricAddr,
        bytes: &[u8],
        data: Option<ImmediateData>,
        tag: Tag,
    ) -> Result<(), Refusal>;
    /// `fi_trecv`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn tagged_recv(
        endpoint: &Self::Endpoint,
        from: FabricAddr,
        lent: &Lent,
        tag: TagMatch,
        context: Context,
    ) -> Result<(), Refusal>;

    /// `fi_read`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn read(endpoint: &Self::Endpoint, from: RmaTarget, lent: &Lent, context: Context) -> Result<(), Refusal>;
    /// `fi_write`, or `fi_writedata` with immediate data.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn write(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_inject_write`, or `fi_inject_writedata`.
    ///
    /// # Safety
    /// The contract of callers; `bytes` is not longer than `inject_size`.
    unsafe fn inject_write(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal>;

    /// `fi_sendmsg`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn sendmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>) -> Result<(), Refusal>;
    /// `fi_recvmsg`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn recvmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>) -> Result<(), Refusal>;
    /// `fi_tsendmsg`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn tagged_sendmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, tag: Tag) -> Result<(), Refusal>;
    /// `fi_trecvmsg`, which is also that by which messages are looked for, claimed and discarded:
    ///
    /// - With `PEEK` there are no pieces, and nothing is received. One event tells of the oldest message that would be, with its
    ///   whole length, or fails with `ENOMSG`. With `CLAIM` besides, nobody else receives that message any more; with `DISCARD`
    ///   it is gone.
    /// - With `CLAIM` alone, the message is received that was claimed under the same context; with `CLAIM` and `DISCARD` it is
    ///   thrown away, there are no pieces, and one event says so.
    ///
    /// All this where its [`ProviderQuirks`] says so: the caller asks for nothing else. A claim is fetched or discarded once, if it was
    /// made; until then, or until the endpoint is closed, the context's space stays as it is.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn tagged_recvmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, tag: TagMatch) -> Result<(), Refusal>;
    /// `fi_readmsg`: the parts are as long together as the pieces.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn readmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal>;
    /// `fi_writemsg`: the parts are as long together as the pieces.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn writemsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal>;
}
