//! [`Tcp`], the type of this transport.

#![allow(unsafe_code, reason = "implements the unsafe traits of the boundary")]

use core::alloc::Layout;
use core::ffi::c_int;
use core::fmt;
use core::net::SocketAddr;
use core::ptr::NonNull;

use loom_core::atomic::Atomic;
use loom_core::buffer::Lent;
use loom_core::engine::tag_matcher::Want;
use loom_core::info::Nic;
use loom_core::transport::{
    AddressVectors, AtomicAttr, AtomicRanges, Atomics, AvRoom, Bindings, Closing, CompletionQueues, Context,
    CounterAttr, CounterWait, Counters, DmaBuf, EndpointError, Endpoints, Event, Fabrics, InFlight, MemoryRegions,
    Messages, MrAttr, Msg, Name, ProviderQuirks, Refusal, RemotePart, Rma, RmaTarget, Transport,
};
use loom_core::vocabulary::{
    Attributes, EndpointAddr, Errno, FabricAddr, ImmediateData, MemoryKey, MrFlags, OpFlags, OptionValue, Tag,
    TagMatch, Threading, WaitObj,
};

use crate::attr::TcpAttr;
use crate::engine::{self, Bound, Engine, Full, Loss, Post, Verb};
use crate::info::{PROVIDER, TcpInfo, attributes, resolve};
use crate::memory::{Block, Ring, Span, Spans};
use crate::wire::{Frame, FrameFlags, MAX_PARTS, Operation, RemoteRange};

/// Transport over TCP sockets: all objects of a domain stay on one thread (`FI_THREAD_DOMAIN`).
///
/// ```
/// use loom_core::{Av, Cq, Domain, Forever, Hints, Source};
/// use loom_tcp::{TcpAttr, query};
///
/// let domain = Domain::open(&query(&Hints::default(), TcpAttr::DEFAULT)?)?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
/// let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Tcp(());

/// Engine of a domain, in the domain's block.
#[derive(Clone, Copy)]
struct EngineRef(NonNull<Engine>);

impl EngineRef {
    /// # Safety
    /// The domain is open (H1), this thread uses it (T1: `Threading::DOMAIN`), and no other
    /// reference is in use.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the caller guarantees that it is the only reference")]
    unsafe fn get(&self) -> Result<&mut Engine, Errno> {
        // SAFETY: `domain_open` has written the engine, and the caller guarantees the rest.
        let engine = unsafe { &mut *self.0.as_ptr() };
        if engine.process.is_here() { Ok(engine) } else { Err(Errno::OTHER_PROCESS) }
    }
}

macro_rules! handles {
    ($($(#[$meta:meta])* $Name:ident { $($field:ident: $Field:ty),* })*) => {$(
        $(#[$meta])*
        pub struct $Name {
            engine: EngineRef,
            $($field: $Field,)*
        }

        impl fmt::Debug for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Name))$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    )*};
}
handles! {
    /// Raw domain.
    TcpDomain {}
    /// Raw address vector.
    TcpAv { index: u16 }
    /// Raw completion queue.
    TcpCq { index: u16 }
    /// Raw counter.
    TcpCounter { index: u16 }
    /// Raw endpoint.
    TcpEndpoint { index: u16, selective: bool }
    /// Raw memory region.
    TcpMr { index: Option<u16>, key: u64 }
}

// SAFETY: the objects of a domain stay on its thread, because `TcpDomain` is neither `Send` nor
// `Sync`. Counters and regions are closed there, too.
unsafe impl Send for TcpCounter {}
// SAFETY: as for counters.
unsafe impl Send for TcpMr {}

// SAFETY: the promises of `Transport`:
// - P1: `close_endpoint` drops the spans of all operations. System calls are over when they return.
// - P2: `close_region` ends the connections that transfer the region's bytes.
// - P3: each operation reports one event, and drops its spans before. Contexts are not interpreted.
// - P5: a receive reports the bytes that were written, and a read succeeds with all bytes.
// - P6: multi-receives are refused.
// - P7: spans hold lent memory, rings that of `cq_open`, and the block that of `domain_open`.
// - P8: indices come from the engine's tables, and numbers of peers are checked.
// - P20: `EngineRef::get` fails in another process.
unsafe impl Transport for Tcp {}

// SAFETY: see `Transport`.
unsafe impl Fabrics for Tcp {
    type Info = TcpInfo;
    type Fabric = ();
    type Domain = TcpDomain;

    fn duplicate(info: &TcpInfo) -> Result<TcpInfo, Errno> {
        Ok(info.clone())
    }

    fn attributes(info: &TcpInfo) -> Attributes {
        attributes(info)
    }

    fn name(_: &TcpInfo, name: Name) -> Option<&str> {
        Some(match name {
            Name::Provider => PROVIDER,
            Name::Fabric => "tcp",
            Name::Domain => "sockets",
        })
    }

    fn source_address(info: &TcpInfo) -> Option<EndpointAddr> {
        Some(info.address.into())
    }

    fn destination_address(_: &TcpInfo) -> Option<EndpointAddr> {
        None
    }

    fn nic(_: &TcpInfo) -> Option<Nic<'_>> {
        None
    }

    fn serves_threading(attributes: &Attributes) -> bool {
        attributes.domain.threading == Threading::DOMAIN
    }

    fn quirks(_: &TcpInfo) -> ProviderQuirks {
        ProviderQuirks {
            multi_recv: false,
            tagged_multi_recv: false,
            peek: false,
            claims: loom_core::transport::Claims::Not,
            discard: false,
            ..ProviderQuirks::GOOD
        }
    }

    fn exhausted(refused: Errno) -> Option<&'static str> {
        Full::attribute(refused)
    }

    unsafe fn fabric_open(_: &TcpInfo) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn fabric_close((): &()) -> Result<(), Errno> {
        Ok(())
    }

    fn domain_layout(info: &TcpInfo) -> Result<Layout, Errno> {
        let tables = engine::layout(&info.attr).ok_or(Errno::ENOMEM)?;
        Ok(Layout::new::<Engine>().extend(tables).map_err(|_| Errno::ENOMEM)?.0)
    }

    unsafe fn domain_open((): &(), info: &TcpInfo, memory: NonNull<u8>) -> Result<TcpDomain, Errno> {
        let tables = engine::layout(&info.attr).ok_or(Errno::ENOMEM)?;
        let (_, at) = Layout::new::<Engine>().extend(tables).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: the tables lie at this offset of the layout.
        let block = unsafe { memory.add(at) };
        // SAFETY: the memory has the layout of `domain_layout`, and stays with the domain (M1).
        let block = unsafe { Block::over(block, tables) };
        let engine = Engine::open(info.attr, block)?;
        let place = memory.cast::<Engine>();
        // SAFETY: the layout begins with an engine.
        unsafe { place.write(engine) };
        Ok(TcpDomain { engine: EngineRef(place) })
    }

    fn is_here(domain: &TcpDomain) -> bool {
        // SAFETY: `domain_open` has written the engine, and the field does not change.
        unsafe { (*domain.engine.0.as_ptr()).process }.is_here()
    }

    unsafe fn domain_close(domain: &TcpDomain) -> Result<(), Errno> {
        // SAFETY: the objects of the domain are closed (H2), and it is closed once (H3).
        unsafe { domain.engine.0.drop_in_place() };
        Ok(())
    }
}

// SAFETY: see `Transport`.
unsafe impl AddressVectors for Tcp {
    type Av = TcpAv;

    unsafe fn av_room(domain: &TcpDomain, _: usize) -> AvRoom {
        // SAFETY: the domain is open (H1).
        let peers = unsafe { domain.engine.get() }.map_or(0, |engine| engine.attr.peers as usize);
        AvRoom { places: peers, reused: Some(peers), limit: None }
    }

    unsafe fn av_open(domain: &TcpDomain, capacity: usize, rx_ctx_bits: u8) -> Result<TcpAv, Errno> {
        // SAFETY: the domain is open (H1).
        let engine = unsafe { domain.engine.get() }?;
        if rx_ctx_bits > 0 {
            return Err(Errno::ENOSYS);
        }
        if capacity > engine.attr.peers as usize {
            return Err(Errno::ENOSPC);
        }
        Ok(TcpAv { engine: domain.engine, index: engine.open_vector()? })
    }

    unsafe fn av_close(av: &TcpAv) -> Result<(), Errno> {
        // SAFETY: the vector is open (H1).
        unsafe { av.engine.get() }?.close_vector(av.index);
        Ok(())
    }

    unsafe fn av_insert(av: &TcpAv, address: &EndpointAddr) -> Result<FabricAddr, Errno> {
        let address = SocketAddr::try_from(address).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the vector is open (H1).
        unsafe { av.engine.get() }?.insert_peer(av.index, address).map(|peer| FabricAddr(peer.into()))
    }

    unsafe fn av_insert_service(av: &TcpAv, node: &str, service: Option<&str>) -> Result<FabricAddr, Errno> {
        let address = match service {
            Some(_) => resolve(node, service),
            None => node.parse::<EndpointAddr>().ok().and_then(|address| SocketAddr::try_from(&address).ok()),
        };
        let address = address.ok_or(Errno::EINVAL)?;
        // SAFETY: the vector is open (H1).
        unsafe { av.engine.get() }?.insert_peer(av.index, address).map(|peer| FabricAddr(peer.into()))
    }

    unsafe fn av_remove(av: &TcpAv, peer: FabricAddr) -> Result<(), Errno> {
        // SAFETY: the vector is open (H1).
        unsafe { av.engine.get() }?.remove_peer(av.index, peer.0)
    }

    unsafe fn av_lookup(av: &TcpAv, peer: FabricAddr) -> Result<EndpointAddr, Errno> {
        // SAFETY: the vector is open (H1).
        let address = unsafe { av.engine.get() }?.peer_address(av.index, peer.0).ok_or(Errno::EINVAL)?;
        Ok(address.into())
    }
}

// SAFETY: see `Transport`.
unsafe impl CompletionQueues for Tcp {
    type Cq = TcpCq;
    type Polled<'q> = Event;

    fn cq_layout(depth: usize) -> Layout {
        Ring::layout(depth)
    }

    unsafe fn cq_open(
        domain: &TcpDomain,
        depth: usize,
        _: bool,
        wait: WaitObj,
        memory: NonNull<u8>,
    ) -> Result<TcpCq, Errno> {
        let waits = match wait {
            WaitObj::NONE => false,
            WaitObj::FD | WaitObj::UNSPEC => true,
            _ => return Err(Errno::ENOSYS),
        };
        // SAFETY: the memory has the layout of the depth, and stays with the queue (M1).
        let ring = unsafe { Ring::over(memory, depth) }.ok_or(Errno::EINVAL)?;
        // SAFETY: the domain is open (H1).
        let index = unsafe { domain.engine.get() }?.open_queue(ring, waits)?;
        Ok(TcpCq { engine: domain.engine, index })
    }

    unsafe fn cq_close(cq: &TcpCq) -> Result<(), Errno> {
        // SAFETY: the queue is open (H1).
        unsafe { cq.engine.get() }?.close_queue(cq.index);
        Ok(())
    }

    #[inline]
    unsafe fn cq_poll(cq: &TcpCq) -> Result<Option<Event>, Errno> {
        // SAFETY: the queue is open (H1).
        let engine = unsafe { cq.engine.get() }?;
        engine.poll(cq.index)?;
        engine.take_success(cq.index)
    }

    unsafe fn cq_sleep(cq: &TcpCq, milliseconds: i32) -> Result<(), Errno> {
        // SAFETY: the queue is open (H1).
        let engine = unsafe { cq.engine.get() }?;
        if engine.may_sleep(cq.index)? { engine.progress(cq.index, milliseconds) } else { Ok(()) }
    }

    unsafe fn cq_wait_fd(cq: &TcpCq) -> Result<c_int, Errno> {
        // SAFETY: the queue is open (H1).
        unsafe { cq.engine.get() }?.wait_fd(cq.index)
    }

    unsafe fn cq_may_sleep(_: &TcpDomain, cq: &TcpCq) -> Result<bool, Errno> {
        // SAFETY: the queue is open (H1).
        unsafe { cq.engine.get() }?.may_sleep(cq.index)
    }

    unsafe fn cq_read_error(cq: &TcpCq) -> Result<Option<Event>, Errno> {
        // SAFETY: the queue is open (H1).
        Ok(unsafe { cq.engine.get() }?.next_event(cq.index))
    }

    unsafe fn cq_error_text(_: &TcpCq, provider_errno: i32, out: &mut [u8]) -> usize {
        let text = Loss::text(provider_errno).as_bytes();
        let len = text.len().min(out.len());
        out[..len].copy_from_slice(&text[..len]);
        len
    }
}

// SAFETY: see `Transport`.
unsafe impl Counters for Tcp {
    type Counter = TcpCounter;

    unsafe fn counter_open(domain: &TcpDomain, attr: CounterAttr) -> Result<TcpCounter, Errno> {
        if attr.wait != WaitObj::NONE {
            return Err(Errno::ENOSYS);
        }
        // SAFETY: the domain is open (H1).
        let index = unsafe { domain.engine.get() }?.open_counter()?;
        Ok(TcpCounter { engine: domain.engine, index })
    }

    unsafe fn counter_close(counter: &TcpCounter) -> Result<(), Errno> {
        // SAFETY: the counter is open (H1).
        unsafe { counter.engine.get() }?.close_counter(counter.index);
        Ok(())
    }

    unsafe fn counter_read(counter: &TcpCounter) -> Result<u64, Errno> {
        // SAFETY: the counter is open (H1).
        Ok(unsafe { counter.engine.get() }?.counter(counter.index).value)
    }

    unsafe fn counter_read_error(counter: &TcpCounter) -> Result<u64, Errno> {
        // SAFETY: the counter is open (H1).
        Ok(unsafe { counter.engine.get() }?.counter(counter.index).errors)
    }

    unsafe fn counter_add(counter: &TcpCounter, value: u64) -> Result<(), Errno> {
        // SAFETY: the counter is open (H1).
        let counter = unsafe { counter.engine.get() }?.counter(counter.index);
        counter.value = counter.value.wrapping_add(value);
        Ok(())
    }

    unsafe fn counter_add_error(counter: &TcpCounter, value: u64) -> Result<(), Errno> {
        // SAFETY: the counter is open (H1).
        let counter = unsafe { counter.engine.get() }?.counter(counter.index);
        counter.errors = counter.errors.wrapping_add(value);
        Ok(())
    }

    unsafe fn counter_set(counter: &TcpCounter, value: u64) -> Result<(), Errno> {
        // SAFETY: the counter is open (H1).
        unsafe { counter.engine.get() }?.counter(counter.index).value = value;
        Ok(())
    }

    unsafe fn counter_set_error(counter: &TcpCounter, value: u64) -> Result<(), Errno> {
        // SAFETY: the counter is open (H1).
        unsafe { counter.engine.get() }?.counter(counter.index).errors = value;
        Ok(())
    }

    unsafe fn counter_wait(_: &TcpCounter, _: u64, _: i32) -> Result<CounterWait, Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn counter_wait_fd(_: &TcpCounter) -> Result<c_int, Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn counter_may_sleep(_: &TcpDomain, _: &TcpCounter) -> Result<bool, Errno> {
        Err(Errno::ENOSYS)
    }
}

// SAFETY: see `Transport`.
unsafe impl Endpoints for Tcp {
    type Endpoint = TcpEndpoint;

    unsafe fn endpoint_open(
        domain: &TcpDomain,
        info: &TcpInfo,
        bind: Bindings<'_, Self>,
    ) -> Result<TcpEndpoint, EndpointError> {
        if !bind.options.is_empty() {
            return Err(Errno::ENOPROTOOPT.into());
        }
        let counters = bind.counters.iter().map(|(counted, counter)| (*counted, counter.index));
        let bound = Bound { tx: bind.tx.index, rx: bind.rx.index, vector: bind.av.index };
        // SAFETY: the domain is open (H1).
        let index = unsafe { domain.engine.get() }?.open_endpoint(info.address, bound, counters)?;
        Ok(TcpEndpoint { engine: domain.engine, index, selective: bind.selective })
    }

    unsafe fn endpoint_close(endpoint: &TcpEndpoint, _: InFlight) -> Result<Closing, Errno> {
        // SAFETY: the endpoint is open (H1).
        unsafe { endpoint.engine.get() }?.close_endpoint(endpoint.index);
        Ok(Closing::Closed)
    }

    unsafe fn endpoint_leave(_: &TcpEndpoint, _: bool) -> bool {
        false
    }

    unsafe fn endpoint_address(endpoint: &TcpEndpoint) -> Result<EndpointAddr, Errno> {
        // SAFETY: the endpoint is open (H1).
        Ok(unsafe { endpoint.engine.get() }?.name_of(endpoint.index).into())
    }

    unsafe fn endpoint_option(_: &TcpEndpoint, _: u32, _: OptionValue) -> Result<OptionValue, Errno> {
        Err(Errno::ENOPROTOOPT)
    }

    unsafe fn endpoint_set_option(_: &TcpEndpoint, _: u32, _: OptionValue) -> Result<(), Errno> {
        Err(Errno::ENOPROTOOPT)
    }

    unsafe fn cancel(endpoint: &TcpEndpoint, context: Context) -> Result<(), Errno> {
        // SAFETY: the endpoint is open (H1).
        unsafe { endpoint.engine.get() }?.cancel(endpoint.index, context.addr());
        Ok(())
    }
}

// SAFETY: see `Transport`.
unsafe impl MemoryRegions for Tcp {
    type Mr = TcpMr;
    const MR_CLOSE_FENCES: bool = true;

    unsafe fn mr_open(domain: &TcpDomain, memory: &Lent, attr: MrAttr) -> Result<TcpMr, Errno> {
        if attr.dmabuf.is_some_and(|DmaBuf { .. }| true) || attr.flags != MrFlags::empty() {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: the memory stays until the region is closed (M3), or is not reached (M2).
        let span = unsafe { Span::new(memory.ptr, memory.len) };
        // SAFETY: the domain is open (H1).
        let (index, key) = unsafe { domain.engine.get() }?.open_region(span, attr.access)?;
        Ok(TcpMr { engine: domain.engine, index: Some(index), key })
    }

    unsafe fn mr_bind_endpoint(_: &mut TcpMr, _: &TcpEndpoint) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }

    unsafe fn mr_bind_counter(mr: &mut TcpMr, counter: &TcpCounter) -> Result<(), Errno> {
        let Some(region) = mr.index else { return Err(Errno::EINVAL) };
        // SAFETY: the region is open (H1).
        unsafe { mr.engine.get() }?.bind_region(region, counter.index);
        Ok(())
    }

    unsafe fn mr_enable(_: &mut TcpMr) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn mr_refresh(_: &TcpMr, _: NonNull<u8>, _: usize) -> Result<(), Errno> {
        Ok(())
    }

    fn mr_key(mr: &TcpMr) -> MemoryKey {
        MemoryKey(mr.key)
    }

    fn mr_descriptor(_: &TcpMr) -> usize {
        0
    }

    unsafe fn mr_close(mr: &TcpMr) -> Result<(), Errno> {
        if let Some(region) = mr.index {
            // SAFETY: the region is open (H1).
            unsafe { mr.engine.get() }?.close_region(region);
        }
        Ok(())
    }
}

fn frame_flags(flags: OpFlags) -> FrameFlags {
    let mut wanted = FrameFlags::empty();
    wanted.set(
        FrameFlags::DELIVERY_COMPLETE,
        flags.intersects(OpFlags::DELIVERY_COMPLETE | OpFlags::TRANSMIT_COMPLETE | OpFlags::MATCH_COMPLETE),
    );
    wanted.set(FrameFlags::COMMIT_COMPLETE, flags.contains(OpFlags::COMMIT_COMPLETE));
    wanted
}

fn message(tag: Option<Tag>, data: Option<ImmediateData>) -> (Verb, Operation) {
    let data = data.map(|data| data.0);
    match tag {
        None => (Verb::Message, Operation::Message { data }),
        Some(Tag(tag)) => (Verb::Tagged, Operation::Tagged { tag, data }),
    }
}

/// # Safety
/// The memory is valid until the operation ends (L1).
unsafe fn lent(pieces: &[Lent]) -> Result<Spans, Refusal> {
    // SAFETY: the caller guarantees the memory.
    unsafe { Spans::lent(pieces) }.ok_or(Refusal::Errno(Errno::EINVAL))
}

impl TcpEndpoint {
    /// # Safety
    /// The endpoint is open (H1), and spans are valid until the operation ends (L1).
    #[inline]
    unsafe fn post(&self, post: Post<'_>) -> Result<(), Refusal> {
        // SAFETY: the caller guarantees that the endpoint is open.
        unsafe { self.engine.get() }?.post(self.index, post)
    }

    /// # Safety
    /// The requirements of [`post`](Self::post).
    unsafe fn post_msg(&self, msg: &Msg<'_>, (verb, operation): (Verb, Operation)) -> Result<(), Refusal> {
        // Everything is in order.
        let known = OpFlags::COMPLETION
            | OpFlags::MORE
            | OpFlags::INJECT
            | OpFlags::INJECT_COMPLETE
            | OpFlags::TRANSMIT_COMPLETE
            | OpFlags::DELIVERY_COMPLETE
            | OpFlags::COMMIT_COMPLETE
            | OpFlags::MATCH_COMPLETE
            | OpFlags::REMOTE_CQ_DATA
            | OpFlags::FENCE;
        if !known.contains(msg.flags) {
            return Err(Refusal::Errno(Errno::EOPNOTSUPP));
        }
        // SAFETY: the caller guarantees the memory.
        let spans = unsafe { lent(msg.pieces) }?;
        let payload = if verb == Verb::Read { 0 } else { spans.left() };
        let post = Post {
            peer: msg.address.0,
            verb,
            frame: Frame { operation, flags: frame_flags(msg.flags), payload },
            spans,
            inject: None,
            context: Some(msg.context),
            reports_success: !self.selective || msg.flags.contains(OpFlags::COMPLETION),
            more: msg.flags.contains(OpFlags::MORE),
        };
        // SAFETY: the caller guarantees the endpoint and the memory.
        unsafe { self.post(post) }
    }

    fn injected<'b>(to: FabricAddr, bytes: &'b [u8], (verb, operation): (Verb, Operation)) -> Post<'b> {
        Post {
            peer: to.0,
            verb,
            frame: Frame { operation, flags: FrameFlags::empty(), payload: bytes.len() as u64 },
            spans: Spans::default(),
            inject: Some(bytes),
            context: None,
            reports_success: false,
            more: false,
        }
    }
}

// SAFETY: see `Transport`.
unsafe impl Messages for Tcp {
    #[inline]
    unsafe fn send(
        endpoint: &TcpEndpoint,
        to: FabricAddr,
        piece: &Lent,
        tag: Option<Tag>,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        let (verb, operation) = message(tag, data);
        let post = Post {
            peer: to.0,
            verb,
            frame: Frame { operation, flags: FrameFlags::empty(), payload: piece.len as u64 },
            // SAFETY: the memory is valid until the operation ends (L1).
            spans: unsafe { lent(core::slice::from_ref(piece)) }?,
            inject: None,
            context: Some(context),
            reports_success: true,
            more: false,
        };
        // SAFETY: the endpoint is open (H1), and the memory valid (L1).
        unsafe { endpoint.post(post) }
    }

    #[inline]
    unsafe fn inject(
        endpoint: &TcpEndpoint,
        to: FabricAddr,
        bytes: &[u8],
        tag: Option<Tag>,
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        if bytes.len() > TcpAttr::INJECT_SIZE {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        // SAFETY: the endpoint is open (H1), and no memory is lent.
        unsafe { endpoint.post(TcpEndpoint::injected(to, bytes, message(tag, data))) }
    }

    #[inline]
    unsafe fn recv(
        endpoint: &TcpEndpoint,
        from: FabricAddr,
        piece: &Lent,
        tag: Option<TagMatch>,
        context: Context,
    ) -> Result<(), Refusal> {
        // SAFETY: the memory is valid until the operation ends (L1).
        let spans = unsafe { lent(core::slice::from_ref(piece)) }?;
        let (kind, want) = wanted(from, tag);
        // SAFETY: the endpoint is open (H1).
        unsafe { endpoint.engine.get() }?.post_receive(endpoint.index, kind, want, spans, context.addr())
    }

    unsafe fn sendmsg(endpoint: &TcpEndpoint, msg: &Msg<'_>, tag: Option<Tag>) -> Result<(), Refusal> {
        // SAFETY: the endpoint is open (H1), and the memory valid (L1).
        unsafe { endpoint.post_msg(msg, message(tag, msg.data)) }
    }

    unsafe fn recvmsg(endpoint: &TcpEndpoint, msg: &Msg<'_>, tag: Option<TagMatch>) -> Result<(), Refusal> {
        if !(OpFlags::COMPLETION | OpFlags::MORE).contains(msg.flags) {
            return Err(Refusal::Errno(Errno::EOPNOTSUPP));
        }
        // SAFETY: the memory is valid until the operation ends (L1).
        let spans = unsafe { lent(msg.pieces) }?;
        let (kind, want) = wanted(msg.address, tag);
        // SAFETY: the endpoint is open (H1).
        unsafe { endpoint.engine.get() }?.post_receive(endpoint.index, kind, want, spans, msg.context.addr())
    }
}

fn wanted(source: FabricAddr, tag: Option<TagMatch>) -> (usize, Want) {
    match tag {
        None => (0, Want { tag: TagMatch::ANY, source }),
        Some(tag) => (1, Want { tag, source }),
    }
}

fn one(target: RmaTarget, len: usize) -> heapless::Vec<RemoteRange, MAX_PARTS> {
    core::iter::once(RemoteRange { addr: target.addr.0, len: len as u64, key: target.key.0 }).collect()
}

fn ranges(remote: &[RemotePart]) -> Result<heapless::Vec<RemoteRange, MAX_PARTS>, Refusal> {
    let mut parts = heapless::Vec::new();
    for part in remote {
        let part = RemoteRange { addr: part.addr.0, len: part.len as u64, key: part.key.0 };
        parts.push(part).map_err(|_| Refusal::Errno(Errno::EINVAL))?;
    }
    Ok(parts)
}

// SAFETY: see `Transport`.
unsafe impl Rma for Tcp {
    unsafe fn read(endpoint: &TcpEndpoint, from: RmaTarget, piece: &Lent, context: Context) -> Result<(), Refusal> {
        let post = Post {
            peer: from.to.0,
            verb: Verb::Read,
            frame: Frame {
                operation: Operation::ReadRequest { parts: one(from, piece.len) },
                flags: FrameFlags::empty(),
                payload: 0,
            },
            // SAFETY: the memory is valid until the operation ends (L1).
            spans: unsafe { lent(core::slice::from_ref(piece)) }?,
            inject: None,
            context: Some(context),
            reports_success: true,
            more: false,
        };
        // SAFETY: the endpoint is open (H1), and the memory valid (L1).
        unsafe { endpoint.post(post) }
    }

    unsafe fn write(
        endpoint: &TcpEndpoint,
        to: RmaTarget,
        piece: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        let post = Post {
            peer: to.to.0,
            verb: Verb::Write,
            frame: Frame {
                operation: Operation::Write { data: data.map(|data| data.0), parts: one(to, piece.len) },
                flags: FrameFlags::empty(),
                payload: piece.len as u64,
            },
            // SAFETY: the memory is valid until the operation ends (L1).
            spans: unsafe { lent(core::slice::from_ref(piece)) }?,
            inject: None,
            context: Some(context),
            reports_success: true,
            more: false,
        };
        // SAFETY: the endpoint is open (H1), and the memory valid (L1).
        unsafe { endpoint.post(post) }
    }

    unsafe fn inject_write(
        endpoint: &TcpEndpoint,
        to: RmaTarget,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        if bytes.len() > TcpAttr::INJECT_SIZE {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        let operation = Operation::Write { data: data.map(|data| data.0), parts: one(to, bytes.len()) };
        // SAFETY: the endpoint is open (H1), and no memory is lent.
        unsafe { endpoint.post(TcpEndpoint::injected(to.to, bytes, (Verb::Write, operation))) }
    }

    unsafe fn readmsg(endpoint: &TcpEndpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        let operation = Operation::ReadRequest { parts: ranges(remote)? };
        // Requests for an acknowledgement would be copied into the response.
        let flags = msg.flags & (OpFlags::COMPLETION | OpFlags::MORE);
        // SAFETY: the endpoint is open (H1), and the memory valid (L1).
        unsafe { endpoint.post_msg(&Msg { flags, ..*msg }, (Verb::Read, operation)) }
    }

    unsafe fn writemsg(endpoint: &TcpEndpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal> {
        let operation = Operation::Write { data: msg.data.map(|data| data.0), parts: ranges(remote)? };
        // SAFETY: the endpoint is open (H1), and the memory valid (L1).
        unsafe { endpoint.post_msg(msg, (Verb::Write, operation)) }
    }
}

// SAFETY: see `Transport`. The protocol has no atomic operations.
unsafe impl Atomics for Tcp {
    unsafe fn query_atomic(_: &TcpDomain, _: Atomic) -> Result<AtomicAttr, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    unsafe fn atomic(_: &TcpEndpoint, _: RmaTarget, _: &Lent, _: Atomic, _: Context) -> Result<(), Refusal> {
        Err(Refusal::Errno(Errno::EOPNOTSUPP))
    }

    unsafe fn inject_atomic(_: &TcpEndpoint, _: RmaTarget, _: &[u8], _: Atomic) -> Result<(), Refusal> {
        Err(Refusal::Errno(Errno::EOPNOTSUPP))
    }

    unsafe fn fetch_atomic(
        _: &TcpEndpoint,
        _: RmaTarget,
        _: &Lent,
        _: &Lent,
        _: Atomic,
        _: Context,
    ) -> Result<(), Refusal> {
        Err(Refusal::Errno(Errno::EOPNOTSUPP))
    }

    unsafe fn compare_atomic(
        _: &TcpEndpoint,
        _: RmaTarget,
        _: [&Lent; 3],
        _: Atomic,
        _: Context,
    ) -> Result<(), Refusal> {
        Err(Refusal::Errno(Errno::EOPNOTSUPP))
    }

    unsafe fn atomicmsg(
        _: &TcpEndpoint,
        _: &Msg<'_>,
        _: AtomicRanges<'_>,
        _: &[RemotePart],
        _: Atomic,
    ) -> Result<(), Refusal> {
        Err(Refusal::Errno(Errno::EOPNOTSUPP))
    }
}
