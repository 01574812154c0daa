//! [`Soft`]: the software network as a [`Transport`].

#![allow(unsafe_code, reason = "implements the unsafe trait `Transport`")]

use core::alloc::Layout;
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;

use heapless::Vec;

use super::addr_parts;
use super::address::{parse_address, parse_text, write_address};
use super::attributes::{PROVIDER, attributes};
use super::counter::SoftCounter;
use super::handles::{SoftAv, SoftCq, SoftDomain, SoftEndpoint, SoftFabric, SoftInfo, SoftMr};
use super::msg::{piece, room_of, wanted};
use super::network::Net;
use super::queue::Queue;
use super::receive::RecvBuffer;
use super::region::{Exposed, Reached};
use super::send::Outgoing;
use super::strict;
use crate::buffer::Lent;
use crate::engine::tag_matcher::Want;
use crate::objects::info::Nic;
use crate::transport::{
    Bindings, Closing, Context, CounterAttr, CounterWait, EndpointError, Event, InFlight, MrAttr, Msg, Name,
    ProviderQuirks, Refusal, RemotePart, RmaTarget, Transport,
};
use crate::vocabulary::{
    Access, Attributes, CompletionFlags, EndpointAddr, EndpointOption, Errno, FabricAddr, HmemIface, ImmediateData,
    MemoryKey, MrMode, OpFlags, OptionValue, Tag, TagMatch, WaitObj,
};

/// The software transport over a [`Network`](super::Network).
///
/// Its domains, address vectors and regions can be shared between threads; each queue and its endpoints stay on one.
#[derive(Debug)]
pub struct Soft<'n>(PhantomData<&'n Net>);

// SAFETY: the promises of `Transport`, one by one:
// - `close_port` revokes what the endpoint has offered and waits for copies under way; receives are reached by the
//   endpoint's own thread only;
// - `Region::close` waits for operations that use the region, and lets none in afterwards;
// - an event is pushed once for each operation, where it ends; contexts are carried, not interpreted;
// - a receive copies `min(message, lent)` bytes and reports that many; a read copies all that was lent or fails;
// - of a caller's storage only what a post lent and the queue's memory are kept;
// - no function panics: indices come from the network's own lists, and numbers from outside are checked.
unsafe impl<'n> Transport for Soft<'n> {
    type Info = SoftInfo<'n>;
    type Fabric = SoftFabric<'n>;
    type Domain = SoftDomain<'n>;
    type Av = SoftAv<'n>;
    type Cq = SoftCq<'n>;
    type Mr = SoftMr<'n>;
    type Counter = SoftCounter;
    type Endpoint = SoftEndpoint<'n>;
    type Polled<'q>
        = &'q Event
    where
        'n: 'q;

    const MR_CLOSE_FENCES: bool = true;

    fn duplicate(info: &Self::Info) -> Result<Self::Info, Errno> {
        Ok(info.clone())
    }

    fn attributes(info: &Self::Info) -> Attributes {
        let (mut attributes, modes) = (attributes(&info.net.attr), info.plan.modes());
        attributes.domain.mr_mode |= modes.mr_mode;
        attributes.endpoint.msg_prefix_size = modes.prefix();
        attributes.mode |= modes.mode;
        attributes.tx.mode |= modes.mode;
        attributes.rx.mode |= modes.mode;
        info.plan.take_from(&mut attributes);
        attributes
    }

    fn name(info: &Self::Info, name: Name) -> Option<&str> {
        Some(match name {
            Name::Provider | Name::Fabric => PROVIDER,
            Name::Domain if info.plan.strict.is_some() => "strict",
            Name::Domain => "memory",
        })
    }

    fn source_address(_: &Self::Info) -> Option<EndpointAddr> {
        None
    }

    fn destination_address(_: &Self::Info) -> Option<EndpointAddr> {
        None
    }

    fn nic(_: &Self::Info) -> Option<Nic<'_>> {
        None
    }

    fn serves_threading(_: &Attributes) -> bool {
        true
    }

    fn quirks(info: &Self::Info) -> ProviderQuirks {
        if info.plan.strict.is_some() { strict::QUIRKS } else { ProviderQuirks::GOOD }
    }

    unsafe fn fabric_open(info: &Self::Info) -> Result<Self::Fabric, Errno> {
        Ok(SoftFabric { net: info.network() })
    }

    unsafe fn fabric_close(_: &Self::Fabric) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn domain_open(fabric: &Self::Fabric, info: &Self::Info) -> Result<Self::Domain, Errno> {
        let net = fabric.net;
        if !core::ptr::eq(&*net, &*info.net) {
            return Err(Errno::EINVAL);
        }
        let number = net.opening.lock().domain()?;
        Ok(SoftDomain { net, number, modes: info.plan.modes() })
    }

    unsafe fn domain_close(_: &Self::Domain) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn av_places(domain: &Self::Domain, _: usize) -> usize {
        domain.net.attr.endpoints.into()
    }

    unsafe fn av_open(domain: &Self::Domain, _: usize) -> Result<Self::Av, Errno> {
        Ok(SoftAv { net: domain.net })
    }

    unsafe fn av_close(_: &Self::Av) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn av_insert(av: &Self::Av, address: &EndpointAddr) -> Result<FabricAddr, Errno> {
        parse_address(av.net.identity, av.net.attr.endpoints, address).ok_or(Errno::EINVAL)
    }

    /// There are no services: the node is the text of an address.
    unsafe fn av_insert_service(av: &Self::Av, node: &str, service: Option<&str>) -> Result<FabricAddr, Errno> {
        match service {
            None => parse_text(av.net.identity, av.net.attr.endpoints, node).ok_or(Errno::EINVAL),
            Some(_) => Err(Errno::EINVAL),
        }
    }

    unsafe fn av_remove(_: &Self::Av, _: FabricAddr) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn av_lookup(av: &Self::Av, peer: FabricAddr) -> Result<EndpointAddr, Errno> {
        write_address(av.net.identity, peer.0)
    }

    fn cq_layout(depth: usize) -> Layout {
        Queue::layout(depth)
    }

    unsafe fn cq_open(
        domain: &Self::Domain,
        depth: usize,
        _: bool,
        wait: WaitObj,
        memory: NonNull<u8>,
    ) -> Result<Self::Cq, Errno> {
        if wait != WaitObj::NONE {
            // There is nobody to wake one up: no operating system is needed.
            return Err(Errno::ENOSYS);
        }
        // SAFETY: the caller's contract: the memory has the layout of the depth.
        let queue = unsafe { Queue::build(memory, depth) }.ok_or(Errno::EINVAL)?;
        Ok(SoftCq { net: domain.net, queue })
    }

    unsafe fn cq_close(_: &Self::Cq) -> Result<(), Errno> {
        Ok(())
    }

    // Always: a completion is built in place then, instead of being copied from one return value to the next.
    #[inline(always)]
    unsafe fn cq_poll(cq: &Self::Cq) -> Result<Option<&Event>, Errno> {
        // SAFETY: built by `cq_open`, in memory that stays until the queue is closed.
        let queue = unsafe { cq.queue.as_ref() };
        if queue.is_empty() {
            cq.net.advance(queue);
        }
        Ok(queue.pop())
    }

    unsafe fn cq_sleep(_: &Self::Cq, _: i32) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn cq_wait_fd(_: &Self::Cq) -> Result<c_int, Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn cq_may_sleep(_: &Self::Domain, _: &Self::Cq) -> Result<bool, Errno> {
        Err(Errno::ENOSYS)
    }

    /// Failed operations are events like all others, and so is a queue that was overrun.
    unsafe fn cq_read_error(_: &Self::Cq) -> Result<Option<Event>, Errno> {
        Ok(None)
    }

    unsafe fn cq_error_text(_: &Self::Cq, provider_errno: i32, out: &mut [u8]) -> usize {
        let text = Errno::from_raw(provider_errno).text().as_bytes();
        out.iter_mut().zip(text).map(|(to, from)| *to = *from).count()
    }

    unsafe fn mr_open(domain: &Self::Domain, memory: &Lent, attr: MrAttr) -> Result<Self::Mr, Errno> {
        if memory.kind() != HmemIface::SYSTEM || !attr.flags.is_empty() || attr.dmabuf.is_some() {
            return Err(Errno::EOPNOTSUPP);
        }
        let (net, access) = (domain.net, attr.access);
        let of_endpoint = domain.modes.mr_mode.contains(MrMode::ENDPOINT);
        let reached = if of_endpoint { Reached::by_nobody() } else { Reached::through(domain.number) };
        let exposed = Exposed { ptr: memory.ptr(), len: memory.len(), access, domain: domain.number, reached };
        let mut numbers = net.opening.lock();
        let (index, region) = (0u16..).zip(net.regions()).find(|(_, region)| region.is_free()).ok_or(Errno::ENOMR)?;
        Ok(SoftMr { net, key: region.open(index, numbers.key(), exposed), endpoint: None })
    }

    unsafe fn mr_bind_endpoint(mr: &mut Self::Mr, endpoint: &Self::Endpoint) -> Result<(), Errno> {
        if mr.endpoint.is_some() || !core::ptr::eq(&*mr.net, &*endpoint.net) {
            return Err(Errno::EINVAL);
        }
        let own = endpoint.port().own();
        own.regions.set(own.regions.get() + 1);
        mr.endpoint = Some(own.addr.get());
        Ok(())
    }

    /// Peers' writes are copies by their own threads, which nothing here counts.
    unsafe fn mr_bind_counter(_: &mut Self::Mr, _: &SoftCounter) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn mr_enable(mr: &mut Self::Mr) -> Result<(), Errno> {
        let endpoint = mr.endpoint.ok_or(Errno::EINVAL)?;
        mr.net.region(mr.key).ok_or(Errno::EINVAL)?.enable(mr.key, endpoint)
    }

    /// There are no tables of pages to be told.
    unsafe fn mr_refresh(_: &Self::Mr, _: NonNull<u8>, _: usize) -> Result<(), Errno> {
        Ok(())
    }

    fn mr_key(mr: &Self::Mr) -> MemoryKey {
        mr.key
    }

    fn mr_descriptor(mr: &Self::Mr) -> usize {
        const { assert!(usize::BITS == 64, "a key is a descriptor") };
        #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
        {
            mr.key.0 as usize
        }
    }

    unsafe fn mr_close(mr: &Self::Mr) -> Result<(), Errno> {
        let region = mr.net.region(mr.key).ok_or(Errno::EINVAL)?;
        region.close();
        let opening = mr.net.opening.lock();
        region.free();
        drop(opening);
        if let Some(endpoint) = mr.endpoint {
            // The endpoint is open, and this is its thread: the contract of callers.
            let regions = &mr.net.port(addr_parts(endpoint).0).own().regions;
            regions.set(regions.get() - 1);
        }
        Ok(())
    }

    unsafe fn counter_open(_: &Self::Domain, attr: CounterAttr) -> Result<SoftCounter, Errno> {
        if attr.wait != WaitObj::NONE {
            // There is nobody to wake one up.
            return Err(Errno::ENOSYS);
        }
        Ok(SoftCounter::new())
    }

    unsafe fn counter_close(_: &SoftCounter) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn counter_read(counter: &SoftCounter) -> u64 {
        counter.value.get()
    }

    unsafe fn counter_read_error(counter: &SoftCounter) -> u64 {
        counter.errors.get()
    }

    unsafe fn counter_add(counter: &SoftCounter, value: u64) -> Result<(), Errno> {
        counter.value.set(counter.value.get().wrapping_add(value));
        Ok(())
    }

    unsafe fn counter_add_error(counter: &SoftCounter, value: u64) -> Result<(), Errno> {
        counter.errors.set(counter.errors.get().wrapping_add(value));
        Ok(())
    }

    unsafe fn counter_set(counter: &SoftCounter, value: u64) -> Result<(), Errno> {
        counter.value.set(value);
        Ok(())
    }

    unsafe fn counter_set_error(counter: &SoftCounter, value: u64) -> Result<(), Errno> {
        counter.errors.set(value);
        Ok(())
    }

    unsafe fn counter_wait(_: &SoftCounter, _: u64, _: i32) -> Result<CounterWait, Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn counter_wait_fd(_: &SoftCounter) -> Result<c_int, Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn counter_may_sleep(_: &Self::Domain, _: &SoftCounter) -> Result<bool, Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn endpoint_open(
        domain: &Self::Domain,
        info: &Self::Info,
        bind: Bindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError> {
        let net = domain.net;
        if !core::ptr::eq(&*net, &*info.net) {
            return Err(Errno::EINVAL.into());
        }
        if bind.selective && info.plan.strict.is_some() {
            // As `net`.
            return Err(Errno::EOPNOTSUPP.into());
        }
        // SAFETY: the caller's contract: queues are closed after their endpoints, counters stay where they are, and this
        // thread uses all of them.
        let opened = unsafe {
            net.open_port((domain.number, domain.modes, info.plan), bind.tx.queue, bind.rx.queue, bind.counters)
        };
        let extra_checks = domain.modes.any() || info.plan.strikes();
        let endpoint = SoftEndpoint {
            net,
            port: opened?.into(),
            extra_checks,
            selective: bind.selective,
            one_thread: PhantomData,
        };
        for (option, value) in bind.options {
            // SAFETY: just opened.
            if let Err(errno) = unsafe { Self::endpoint_set_option(&endpoint, *option, *value) } {
                net.close_port(endpoint.port());
                return Err(errno.into());
            }
        }
        Ok(endpoint)
    }

    unsafe fn endpoint_close(endpoint: &Self::Endpoint, _: InFlight) -> Result<Closing, Errno> {
        if endpoint.port().own().regions.get() > 0 {
            // As providers that bind regions to endpoints say it.
            return Err(Errno::EBUSY);
        }
        endpoint.net.close_port(endpoint.port());
        Ok(Closing::Closed)
    }

    // No endpoint is ever retired.
    unsafe fn endpoint_leave(_: &Self::Endpoint, _: bool) -> bool {
        false
    }

    unsafe fn endpoint_address(endpoint: &Self::Endpoint) -> Result<EndpointAddr, Errno> {
        write_address(endpoint.net.identity, endpoint.port().own().addr.get())
    }

    unsafe fn endpoint_option(endpoint: &Self::Endpoint, option: u32, _: OptionValue) -> Result<OptionValue, Errno> {
        if option != EndpointOption::MIN_MULTI_RECV.as_raw() {
            return Err(Errno::ENOPROTOOPT);
        }
        Ok(endpoint.port().own().min_left.get().into())
    }

    unsafe fn endpoint_set_option(endpoint: &Self::Endpoint, option: u32, value: OptionValue) -> Result<(), Errno> {
        match value {
            // A buffer of which nothing is left does not go on.
            OptionValue::Size(size) if option == EndpointOption::MIN_MULTI_RECV.as_raw() => {
                endpoint.port().own().min_left.set(size.clamp(1, RecvBuffer::MOST_LEFT));
                Ok(())
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    unsafe fn cancel(endpoint: &Self::Endpoint, context: Context) -> Result<(), Errno> {
        endpoint.net.cancel(endpoint.port(), context.addr());
        Ok(())
    }

    #[inline]
    unsafe fn send(
        endpoint: &Self::Endpoint,
        to: FabricAddr,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: as below.
            return unsafe { endpoint.send_checked(to, (None, data), lent, context) };
        }
        let outgoing = Outgoing::of(to, (None, data), lent, context);
        // SAFETY: the caller's contract: what is lent stays until its event or the endpoint's close.
        unsafe { endpoint.net.send(endpoint.port(), outgoing) }
    }

    #[inline]
    unsafe fn inject(
        endpoint: &Self::Endpoint,
        to: FabricAddr,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: as below.
            return unsafe { endpoint.inject_checked(to, (None, data), bytes) };
        }
        let outgoing = Outgoing::injected(to, (None, data), bytes);
        // SAFETY: the caller's contract: not longer than `inject_size`, which is the eager size.
        unsafe { endpoint.net.send(endpoint.port(), outgoing) }
    }

    #[inline]
    unsafe fn recv(endpoint: &Self::Endpoint, from: FabricAddr, lent: &Lent, context: Context) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: as below.
            return unsafe { endpoint.recv_checked(CompletionFlags::MSG, (from, TagMatch::any()), lent, context) };
        }
        let (want, room) = (Want { tag: TagMatch::any(), source: from }, RecvBuffer::of(lent, context));
        // SAFETY: the caller's contract: what is lent stays until its event or the endpoint's close.
        unsafe { endpoint.net.post_receive(endpoint.port(), CompletionFlags::MSG, want, room) }
    }

    #[inline]
    unsafe fn tagged_send(
        endpoint: &Self::Endpoint,
        to: FabricAddr,
        lent: &Lent,
        data: Option<ImmediateData>,
        tag: Tag,
        context: Context,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: as below.
            return unsafe { endpoint.send_checked(to, (Some(tag), data), lent, context) };
        }
        let outgoing = Outgoing::of(to, (Some(tag), data), lent, context);
        // SAFETY: the caller's contract: what is lent stays until its event or the endpoint's close.
        unsafe { endpoint.net.send(endpoint.port(), outgoing) }
    }

    #[inline]
    unsafe fn tagged_inject(
        endpoint: &Self::Endpoint,
        to: FabricAddr,
        bytes: &[u8],
        data: Option<ImmediateData>,
        tag: Tag,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: as below.
            return unsafe { endpoint.inject_checked(to, (Some(tag), data), bytes) };
        }
        let outgoing = Outgoing::injected(to, (Some(tag), data), bytes);
        // SAFETY: the caller's contract: not longer than `inject_size`, which is the eager size.
        unsafe { endpoint.net.send(endpoint.port(), outgoing) }
    }

    #[inline]
    unsafe fn tagged_recv(
        endpoint: &Self::Endpoint,
        from: FabricAddr,
        lent: &Lent,
        tag: TagMatch,
        context: Context,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: as below.
            return unsafe { endpoint.recv_checked(CompletionFlags::TAGGED, (from, tag), lent, context) };
        }
        let (want, room) = (Want { tag, source: from }, RecvBuffer::of(lent, context));
        // SAFETY: the caller's contract: what is lent stays until its event or the endpoint's close.
        unsafe { endpoint.net.post_receive(endpoint.port(), CompletionFlags::TAGGED, want, room) }
    }

    #[inline]
    unsafe fn read(endpoint: &Self::Endpoint, from: RmaTarget, lent: &Lent, context: Context) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: the caller's contract: what is lent stays until its event or the endpoint's close.
            return unsafe { endpoint.read_checked(from, lent, context) };
        }
        // SAFETY: the caller's contract: what is lent is writable.
        unsafe { endpoint.net.read(endpoint.port(), &from, lent.ptr().as_ptr(), lent.len(), context.addr()) }
    }

    // Never: then what posts it is small enough to be compiled into its caller, and its arguments go through registers.
    #[inline(never)]
    unsafe fn write(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: the caller's contract: what is lent stays until its event or the endpoint's close.
            return unsafe { endpoint.write_checked(to, lent, data, context) };
        }
        let bytes = (lent.ptr().as_ptr().cast_const(), lent.len());
        // SAFETY: the caller's contract: what is lent is readable.
        unsafe { endpoint.net.write(endpoint.port(), &to, bytes, data, (Some(context.addr()), None)) }
    }

    #[inline]
    unsafe fn inject_write(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        let bytes = (bytes.as_ptr(), bytes.len());
        if endpoint.extra_checks {
            endpoint.meets(to.to)?;
            endpoint.gate()?;
            let to = endpoint.aim(to);
            // SAFETY: the caller's contract: not longer than `inject_size`, which is the eager size.
            return unsafe { endpoint.write_amid_faults(to, bytes, data, None) };
        }
        // SAFETY: a borrow is readable.
        unsafe { endpoint.net.write(endpoint.port(), &to, bytes, data, (None, None)) }
    }

    unsafe fn sendmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>) -> Result<(), Refusal> {
        let mut room = Vec::new();
        let msg = &endpoint.pieces(msg, Access::SEND, &mut room)?;
        // SAFETY: the caller's contract: what is lent stays until its event or the endpoint's close.
        unsafe { endpoint.net.send_msg(endpoint.port(), msg, None, endpoint.report(msg)) }
    }

    unsafe fn recvmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>) -> Result<(), Refusal> {
        let mut room = Vec::new();
        let msg = &endpoint.pieces(msg, Access::RECV, &mut room)?;
        let (own, multi) = (endpoint.port().own(), msg.flags.contains(OpFlags::MULTI_RECV));
        let modes = own.modes.get();
        if multi && (modes.prefix() > 0 || modes.consumes_receives()) {
            // There is one prefix, and there are many messages; and nobody says what a write uses up.
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        let min_left = if multi { own.min_left.get() } else { 0 };
        // SAFETY: the caller's contract: what is lent stays until its last event or the endpoint's close.
        unsafe { endpoint.net.receive_msg(endpoint.port(), CompletionFlags::MSG, msg, TagMatch::any(), min_left) }
    }

    unsafe fn tagged_sendmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, tag: Tag) -> Result<(), Refusal> {
        let mut room = Vec::new();
        let msg = &endpoint.pieces(msg, Access::SEND, &mut room)?;
        // SAFETY: the caller's contract: what is lent stays until its event or the endpoint's close.
        unsafe { endpoint.net.send_msg(endpoint.port(), msg, Some(tag), endpoint.report(msg)) }
    }

    unsafe fn tagged_recvmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, tag: TagMatch) -> Result<(), Refusal> {
        let mut room = Vec::new();
        let msg = &endpoint.pieces(msg, Access::RECV, &mut room)?;
        let (net, port, flags) = (endpoint.net, endpoint.port(), msg.flags);
        if flags.contains(OpFlags::PEEK) {
            net.peek(port, &wanted(msg, tag), msg.context.addr(), flags)
        } else if flags.contains(OpFlags::DISCARD) {
            net.discard_claimed(port, msg.context.addr())
        } else if flags.contains(OpFlags::CLAIM) {
            piece(msg)?;
            // SAFETY: the caller's contract.
            unsafe { net.fetch_claimed(port, &room_of(msg, 0)) }
        } else {
            // SAFETY: the caller's contract.
            unsafe { net.receive_msg(port, CompletionFlags::TAGGED, msg, tag, 0) }
        }
    }

    unsafe fn readmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        let mut room = Vec::new();
        let msg = &endpoint.pieces(msg, Access::READ, &mut room)?;
        let mut aimed = Vec::new();
        let remote = endpoint.aim_parts(msg.address, remote, &mut aimed);
        // SAFETY: the caller's contract.
        unsafe { endpoint.net.rma_pieces(endpoint.port(), msg, remote, Access::REMOTE_READ, endpoint.report(msg)) }
    }

    /// It has arrived when this returns, which is as late as any level asks for.
    unsafe fn writemsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        let mut room = Vec::new();
        let msg = &endpoint.pieces(msg, Access::WRITE, &mut room)?;
        let mut aimed = Vec::new();
        let remote = endpoint.aim_parts(msg.address, remote, &mut aimed);
        // SAFETY: the caller's contract.
        unsafe { endpoint.net.rma_pieces(endpoint.port(), msg, remote, Access::REMOTE_WRITE, endpoint.report(msg)) }
    }
}
