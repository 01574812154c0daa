//! [`Ofi`], and its implementation of [`Transport`], except posts.

#![allow(unsafe_code, reason = "implements the unsafe trait `Transport`")]

use core::alloc::Layout;
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;

use loom_core::buffer::Lent;
use loom_core::info::Nic;
use loom_core::transport::{
    AddressVectors, AvRoom, Bindings, Closing, CompletionQueues, Context, CounterAttr, CounterWait, Counters,
    EndpointError, Endpoints, Event, Fabrics, InFlight, MemoryRegions, MrAttr, Name, ProviderQuirks, Transport,
};
use loom_core::vocabulary::{Attributes, EndpointAddr, Errno, FabricAddr, MemoryKey, OptionValue, WaitObj};

use super::control::{self, Av, Domain, Fabric};
use super::counter::{self, Counter};
use super::endpoint::option;
use super::endpoint::{self, Endpoint};
use super::info::RawInfo;
use super::info::nic;
use super::process;
use super::queue::{self, Cq};
use super::quirks;
use super::quirks::nap;
use super::quirks::removal;
use super::quirks::table_entry;
use super::region::{self, Mr};
use super::threading::Level;

/// The libfabric transport at a threading level: `Ofi<Local>` or `Ofi<Shared>`, without values.
#[derive(Debug)]
pub struct Ofi<L: Level>(PhantomData<L>);

// SAFETY: libfabric keeps the promises, and this implementation passes them on:
// - P1, P2: closing an endpoint or a region is where the provider stops touching memory
//   (`man fi_endpoint`, `fi_mr`).
// - P3, P4, P6: the provider returns contexts as they were posted. An error entry is reported as an
//   error, whatever its fields, and a read without an entry reports no event (`queue`).
// - P5: lengths are the provider's. The rest of a longer message goes to memory that is never read
//   (`overrun`).
// - P7: only posts, and the batch in the memory of `cq_open`, keep pointers. Others are passed in
//   memory of the call.
// - P8: this code does not panic, and C does not call back.
// - P9: domains are `Sync` at level `Shared` only, with a model that serialises by queue and not
//   by thread (`threading`).
unsafe impl<L: Level> Transport for Ofi<L> {}

// SAFETY: see `Transport`.
unsafe impl<L: Level> Fabrics for Ofi<L> {
    type Info = RawInfo;
    type Fabric = Fabric<L>;
    type Domain = Domain<L>;

    fn duplicate(info: &RawInfo) -> Result<RawInfo, Errno> {
        info.try_clone().ok_or(Errno::ENOMEM)
    }

    fn attributes(info: &RawInfo) -> Attributes {
        info.attributes()
    }

    fn name(info: &RawInfo, name: Name) -> Option<&str> {
        info.name(name)
    }

    fn source_address(info: &RawInfo) -> Option<EndpointAddr> {
        info.source_address()
    }

    fn destination_address(info: &RawInfo) -> Option<EndpointAddr> {
        info.destination_address()
    }

    fn nic(info: &RawInfo) -> Option<Nic<'_>> {
        nic::nic(info)
    }

    fn serves_threading(attributes: &Attributes) -> bool {
        L::is_served_by(attributes.domain.threading)
    }

    fn quirks(info: &RawInfo) -> ProviderQuirks {
        quirks::quirks(info)
    }

    fn workarounds(info: &RawInfo) -> impl Iterator<Item = &'static str> {
        quirks::workarounds(info)
    }

    fn exhausted(refused: Errno) -> Option<&'static str> {
        (refused == table_entry::FULL).then_some("/dev/shm/fi_sm2_mmaps")
    }

    #[inline]
    unsafe fn fabric_open(info: &RawInfo) -> Result<Fabric<L>, Errno> {
        // SAFETY: the info outlives the call.
        unsafe { control::fabric_open(info) }
    }

    #[inline]
    unsafe fn fabric_close(fabric: &Fabric<L>) -> Result<(), Errno> {
        // SAFETY: the fabric is closed once (H1–H3).
        unsafe { control::fabric_close(fabric) }
    }

    #[inline]
    unsafe fn domain_open(fabric: &Fabric<L>, info: &RawInfo, _: NonNull<u8>) -> Result<Domain<L>, Errno> {
        // SAFETY: the fabric is open, and the info belongs to it (H1, H4).
        unsafe { control::domain_open(fabric, info) }
    }

    fn is_here(domain: &Domain<L>) -> bool {
        process::notice_fork();
        domain.raw().is_here()
    }

    #[inline]
    unsafe fn domain_close(domain: &Domain<L>) -> Result<(), Errno> {
        // SAFETY: the domain is closed once (H1–H3).
        unsafe { control::domain_close(domain) }
    }
}

// SAFETY: see `Transport`.
unsafe impl<L: Level> AddressVectors for Ofi<L> {
    type Av = Av<L>;

    unsafe fn av_room(domain: &Domain<L>, capacity: usize) -> AvRoom {
        // Vectors are tables (`FI_AV_TABLE`): providers return the lowest free index.
        domain.removal().room(capacity)
    }

    #[inline]
    unsafe fn av_open(domain: &Domain<L>, capacity: usize, rx_ctx_bits: u8) -> Result<Av<L>, Errno> {
        // SAFETY: the domain is open (H1).
        unsafe { control::av_open(domain, capacity, rx_ctx_bits) }
    }

    #[inline]
    unsafe fn av_close(av: &Av<L>) -> Result<(), Errno> {
        // SAFETY: the vector is closed once (H1–H3).
        unsafe { control::av_close(av) }
    }

    #[inline]
    unsafe fn av_insert(av: &Av<L>, address: &EndpointAddr) -> Result<FabricAddr, Errno> {
        // SAFETY: the vector is open (H1).
        unsafe { control::av_insert(av, address) }
    }

    unsafe fn av_insert_service(av: &Av<L>, node: &str, service: Option<&str>) -> Result<FabricAddr, Errno> {
        // SAFETY: the vector is open (H1).
        unsafe { control::av_insert_service(av, node, service) }
    }

    #[inline]
    unsafe fn av_remove(av: &Av<L>, peer: FabricAddr) -> Result<(), Errno> {
        // SAFETY: the vector is open and has the address (H1, O1).
        unsafe { control::av_remove(av, peer) }
    }

    #[inline]
    unsafe fn av_lookup(av: &Av<L>, peer: FabricAddr) -> Result<EndpointAddr, Errno> {
        // SAFETY: the vector is open (H1), and the caller guarantees that it has the address.
        unsafe { removal::lookup(av, peer) }
    }
}

// SAFETY: see `Transport`.
unsafe impl<L: Level> CompletionQueues for Ofi<L> {
    type Cq = Cq<L>;
    type Polled<'q>
        = Event
    where
        Self: 'q;

    fn cq_layout(_depth: usize) -> Layout {
        queue::layout()
    }

    #[inline]
    unsafe fn cq_open(
        domain: &Domain<L>,
        depth: usize,
        with_source: bool,
        wait: WaitObj,
        memory: NonNull<u8>,
    ) -> Result<Cq<L>, Errno> {
        // SAFETY: the domain is open, and the memory outlives the queue (H1, M1).
        unsafe { queue::open(domain, depth, with_source, wait, memory) }
    }

    #[inline]
    unsafe fn cq_close(cq: &Cq<L>) -> Result<(), Errno> {
        // SAFETY: the queue is closed once (H1–H3).
        unsafe { queue::cq_close(cq) }
    }

    unsafe fn cq_sleep(cq: &Cq<L>, milliseconds: i32) -> Result<(), Errno> {
        // SAFETY: one thread uses the open queue (H1, T1).
        unsafe { queue::sleep(cq, milliseconds) }
    }

    unsafe fn cq_wait_fd(cq: &Cq<L>) -> Result<c_int, Errno> {
        // SAFETY: the queue is open (H1).
        unsafe { control::wait_fd(cq.fid()) }
    }

    unsafe fn cq_may_sleep(domain: &Domain<L>, cq: &Cq<L>) -> Result<bool, Errno> {
        // SAFETY: one thread uses the open queue (H1, T1).
        unsafe { queue::may_sleep(domain, cq) }
    }

    unsafe fn cq_naps(cq: &Cq<L>) -> bool {
        // SAFETY: the queue is open (H1).
        unsafe { queue::naps(cq) }
    }

    #[inline(always)]
    unsafe fn cq_poll(cq: &Cq<L>) -> Result<Option<Event>, Errno> {
        // SAFETY: one thread uses the open queue (H1, T1).
        unsafe { queue::poll(cq) }
    }

    #[inline]
    unsafe fn cq_read_error(cq: &Cq<L>) -> Result<Option<Event>, Errno> {
        // SAFETY: one thread uses the open queue (H1, T1).
        unsafe { queue::read_error(cq) }
    }

    unsafe fn cq_error_text(cq: &Cq<L>, provider_errno: i32, out: &mut [u8]) -> usize {
        // SAFETY: one thread uses the open queue (H1, T1).
        unsafe { queue::error_text(cq, provider_errno, out) }
    }

    unsafe fn cq_error_data(cq: &Cq<L>, out: &mut [u8]) -> usize {
        // SAFETY: one thread uses the open queue (H1, T1).
        unsafe { queue::error_data(cq, out) }
    }
}

// SAFETY: see `Transport`.
unsafe impl<L: Level> Counters for Ofi<L> {
    type Counter = Counter<L>;

    unsafe fn counter_open(domain: &Domain<L>, attr: CounterAttr) -> Result<Counter<L>, Errno> {
        // SAFETY: the domain is open (H1).
        unsafe { counter::open(domain, attr) }
    }

    unsafe fn counter_close(counter: &Counter<L>) -> Result<(), Errno> {
        // SAFETY: the counter is closed once (H1–H3).
        unsafe { counter::counter_close(counter) }
    }

    unsafe fn counter_read(counter: &Counter<L>) -> Result<u64, Errno> {
        // SAFETY: the counter is open (H1).
        unsafe { counter::read(counter) }
    }

    unsafe fn counter_read_error(counter: &Counter<L>) -> Result<u64, Errno> {
        // SAFETY: the counter is open (H1).
        unsafe { counter::read_error(counter) }
    }

    unsafe fn counter_add(counter: &Counter<L>, value: u64) -> Result<(), Errno> {
        // SAFETY: the counter is open (H1).
        unsafe { counter::add(counter, value) }
    }

    unsafe fn counter_add_error(counter: &Counter<L>, value: u64) -> Result<(), Errno> {
        // SAFETY: the counter is open (H1).
        unsafe { counter::adderr(counter, value) }
    }

    unsafe fn counter_set(counter: &Counter<L>, value: u64) -> Result<(), Errno> {
        // SAFETY: the counter is open (H1).
        unsafe { counter::set(counter, value) }
    }

    unsafe fn counter_set_error(counter: &Counter<L>, value: u64) -> Result<(), Errno> {
        // SAFETY: the counter is open (H1).
        unsafe { counter::seterr(counter, value) }
    }

    unsafe fn counter_wait(counter: &Counter<L>, threshold: u64, milliseconds: i32) -> Result<CounterWait, Errno> {
        // SAFETY: the counter is open (H1), with a wait object.
        unsafe { counter::wait(counter, threshold, milliseconds) }
    }

    unsafe fn counter_wait_fd(counter: &Counter<L>) -> Result<c_int, Errno> {
        // SAFETY: the counter is open (H1), with a file descriptor.
        unsafe { counter::counter_wait_fd(counter) }
    }

    unsafe fn counter_may_sleep(domain: &Domain<L>, counter: &Counter<L>) -> Result<bool, Errno> {
        // SAFETY: the counter is open (H1), with a file descriptor.
        unsafe { counter::may_sleep(domain, counter) }
    }

    unsafe fn counter_naps(counter: &Counter<L>) -> bool {
        // SAFETY: the counter is open (H1).
        unsafe { nap::is_deserted(counter.fid()) }
    }
}

// SAFETY: see `Transport`.
unsafe impl<L: Level> Endpoints for Ofi<L> {
    type Endpoint = Endpoint<L>;

    #[inline]
    unsafe fn endpoint_open(
        domain: &Domain<L>,
        info: &RawInfo,
        bind: Bindings<'_, Self>,
    ) -> Result<Endpoint<L>, EndpointError> {
        // SAFETY: domain and bound objects are open (H1).
        unsafe { endpoint::open_connectionless(domain, info, bind) }
    }

    #[inline]
    unsafe fn endpoint_close(endpoint: &Endpoint<L>, in_flight: InFlight) -> Result<Closing, Errno> {
        // SAFETY: the endpoint is closed once (H1–H3).
        unsafe { endpoint::endpoint_close(endpoint, in_flight) }
    }

    unsafe fn endpoint_leave(endpoint: &Endpoint<L>, for_good: bool) -> bool {
        endpoint::endpoint_leave(endpoint, for_good)
    }

    #[inline]
    unsafe fn endpoint_address(endpoint: &Endpoint<L>) -> Result<EndpointAddr, Errno> {
        // SAFETY: the endpoint is open (H1).
        unsafe { endpoint::address(endpoint) }
    }

    unsafe fn endpoint_option(endpoint: &Endpoint<L>, option: u32, kind: OptionValue) -> Result<OptionValue, Errno> {
        // SAFETY: the endpoint is open (H1).
        unsafe { option::endpoint_option(endpoint, option, kind) }
    }

    unsafe fn endpoint_set_option(endpoint: &Endpoint<L>, option: u32, value: OptionValue) -> Result<(), Errno> {
        // SAFETY: the endpoint is open (H1).
        unsafe { option::endpoint_set_option(endpoint, option, value) }
    }

    #[inline]
    unsafe fn cancel(endpoint: &Endpoint<L>, context: Context) -> Result<(), Errno> {
        // SAFETY: the endpoint is open (H1).
        unsafe { endpoint::cancel(endpoint, context) }
    }
}

// SAFETY: see `Transport`.
unsafe impl<L: Level> MemoryRegions for Ofi<L> {
    type Mr = Mr<L>;

    const MR_CLOSE_FENCES: bool = false;

    #[inline]
    unsafe fn mr_open(domain: &Domain<L>, memory: &Lent, attr: MrAttr) -> Result<Mr<L>, Errno> {
        // SAFETY: the domain is open, and the memory is kept (H1, M2, M3).
        unsafe { region::mr_open(domain, memory, attr) }
    }

    unsafe fn mr_bind_endpoint(mr: &mut Mr<L>, endpoint: &Endpoint<L>) -> Result<(), Errno> {
        // SAFETY: region and endpoint are open, on their thread (H1, T2).
        unsafe { region::mr_bind_endpoint(mr, endpoint) }
    }

    unsafe fn mr_bind_counter(mr: &mut Mr<L>, counter: &Counter<L>) -> Result<(), Errno> {
        // SAFETY: region and counter are open (H1).
        unsafe { region::mr_bind_counter(mr, counter) }
    }

    unsafe fn mr_enable(mr: &mut Mr<L>) -> Result<(), Errno> {
        // SAFETY: the region is open (H1).
        unsafe { region::mr_enable(mr) }
    }

    unsafe fn mr_refresh(mr: &Mr<L>, first: NonNull<u8>, len: usize) -> Result<(), Errno> {
        // SAFETY: the region is open (H1), and has this range.
        unsafe { region::mr_refresh(mr, first, len) }
    }

    fn mr_key(mr: &Mr<L>) -> MemoryKey {
        mr.key()
    }

    fn mr_descriptor(mr: &Mr<L>) -> usize {
        mr.descriptor()
    }

    #[inline]
    unsafe fn mr_close(mr: &Mr<L>) -> Result<(), Errno> {
        // SAFETY: the region is closed once (H1–H3).
        unsafe { region::mr_close(mr) }
    }
}
