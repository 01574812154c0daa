//! A transport for which closing a region is no fence. It moves no bytes, and records the order of
//! closing.

use core::alloc::Layout;
use core::ffi::c_int;
use core::ptr::NonNull;
use std::collections::BTreeSet;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use loom_core::atomic::Atomic;
use loom_core::buffer::{Buffer, Lent};
use loom_core::info::{Info, Nic};
use loom_core::transport::{
    AddressVectors, AtomicAttr, AtomicRanges, Atomics, AvRoom, Bindings, Closing, CompletionQueues, Context,
    CounterAttr, CounterWait, Counters, EndpointError, Endpoints, Event, Fabrics, InFlight, MemoryRegions, Messages,
    Msg, Name, ProviderQuirks, Refusal, RegionAttr, RemotePart, Rma, RmaTarget, Transport,
};
use loom_core::vocabulary::{
    Attributes, Caps, EndpointAddr, EndpointType, Errno, FabricAddr, ImmediateData, MemoryKey, OptionValue, Tag,
    TagMatch, WaitObj,
};
// Not that of `std`, which ThreadSanitizer sees in part.
use spin::Mutex;

#[derive(Default)]
pub(crate) struct World {
    attributes: Attributes,
    /// The provider lets regions be closed at any time ([`ProviderQuirks::mr_close`]).
    closes_at_any_time: bool,
    endpoints: AtomicUsize,
    counters_closed: AtomicUsize,
    vectors_closed: AtomicUsize,
    queues_closed: AtomicUsize,
    domains_closed: AtomicUsize,
    /// Start of the memory of each open region.
    regions: Mutex<BTreeSet<usize>>,
    closings: AtomicUsize,
    /// Closing a region fails from now on.
    fails: AtomicBool,
    /// Error of opening an endpoint from now on.
    opening: Mutex<Option<EndpointError>>,
    /// Endpoints are not closed from now on.
    leaves: AtomicBool,
    wrongs: Mutex<Vec<&'static str>>,
    memories_dropped: AtomicUsize,
    while_closing: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl World {
    /// A provider that only lets regions be closed without open endpoints.
    pub(crate) fn strict() -> &'static Self {
        Self::of(false)
    }

    /// A provider that lets regions be closed at any time.
    pub(crate) fn lenient() -> &'static Self {
        Self::of(true)
    }

    fn of(closes_at_any_time: bool) -> &'static Self {
        let mut attributes = Attributes { caps: Caps::RMA | Caps::RMA_EVENT, ..Attributes::default() };
        attributes.endpoint.kind = EndpointType::RDM;
        Box::leak(Box::new(World { attributes, closes_at_any_time, ..World::default() }))
    }

    pub(crate) fn info(&'static self) -> Info<Watched> {
        Info::from_raw(self)
    }

    pub(crate) fn while_closing(&self, what: impl FnMut() + Send + 'static) {
        *self.while_closing.lock() = Some(Box::new(what));
    }

    pub(crate) fn fail_to_close(&self) {
        self.fails.store(true, Ordering::SeqCst);
    }

    pub(crate) fn fail_to_open(&self, error: EndpointError) {
        *self.opening.lock() = Some(error);
    }

    /// Keeps endpoints open from now on. They are driven with others of their domain.
    pub(crate) fn leave_endpoints(&self) {
        self.leaves.store(true, Ordering::SeqCst);
    }

    pub(crate) fn endpoints(&self) -> usize {
        self.endpoints.load(Ordering::SeqCst)
    }

    pub(crate) fn open_regions(&self) -> usize {
        self.regions.lock().len()
    }

    /// Number of closes of regions, including failed ones.
    pub(crate) fn closings(&self) -> usize {
        self.closings.load(Ordering::SeqCst)
    }

    pub(crate) fn counters_closed(&self) -> usize {
        self.counters_closed.load(Ordering::SeqCst)
    }

    pub(crate) fn vectors_closed(&self) -> usize {
        self.vectors_closed.load(Ordering::SeqCst)
    }

    pub(crate) fn queues_closed(&self) -> usize {
        self.queues_closed.load(Ordering::SeqCst)
    }

    pub(crate) fn domains_closed(&self) -> usize {
        self.domains_closed.load(Ordering::SeqCst)
    }

    pub(crate) fn memories_dropped(&self) -> usize {
        self.memories_dropped.load(Ordering::SeqCst)
    }

    pub(crate) fn wrongs(&self) -> Vec<&'static str> {
        self.wrongs.lock().clone()
    }

    pub(crate) fn wrong(&self, what: &'static str) {
        // For tests that end the process.
        eprintln!("wrong: {what}");
        self.wrongs.lock().push(what);
    }

    fn close_region(&self, region: usize) -> Result<(), Errno> {
        let closed_under = |world: &Self| {
            if !world.closes_at_any_time && world.endpoints() > 0 {
                world.wrong("a region is closed while an endpoint is open");
            }
        };
        self.closings.fetch_add(1, Ordering::SeqCst);
        closed_under(self);
        if let Some(what) = &mut *self.while_closing.lock() {
            what();
        }
        closed_under(self);
        if self.fails.load(Ordering::SeqCst) {
            return Err(Errno::EBUSY);
        }
        assert!(self.regions.lock().remove(&region), "a region is closed once");
        Ok(())
    }
}

/// Memory of regions. Its drop is recorded, and can call back.
pub(crate) struct Memory {
    bytes: Box<[u8]>,
    world: &'static World,
    on_drop: Option<Box<dyn FnOnce() + Send>>,
}

impl Memory {
    pub(crate) fn of(world: &'static World) -> Self {
        Memory { bytes: vec![0; 8].into(), world, on_drop: None }
    }

    pub(crate) fn that_drops(world: &'static World, on_drop: impl FnOnce() + Send + 'static) -> Self {
        Memory { bytes: vec![0; 8].into(), world, on_drop: Some(Box::new(on_drop)) }
    }
}

// SAFETY: the box owns its bytes, wherever it is moved.
unsafe impl Buffer for Memory {
    fn lend(&mut self) -> Lent {
        self.bytes.lend()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let region = self.bytes.as_ptr().addr();
        if self.world.regions.lock().contains(&region) {
            self.world.wrong("memory is dropped while its region is open");
        }
        self.world.memories_dropped.fetch_add(1, Ordering::SeqCst);
        if let Some(on_drop) = self.on_drop.take() {
            on_drop();
        }
    }
}

pub(crate) struct Watched;

pub(crate) struct Region {
    world: &'static World,
    at: usize,
}

/// Functions without effect.
macro_rules! answers {
    ($(fn $name:ident($($of:ty),*) -> $answer:ty = $value:expr;)+) => {$(
        unsafe fn $name($(_: $of),*) -> $answer {
            $value
        }
    )+};
}

const NOT_HERE: Errno = Errno::ENOSYS;
const NO_POSTS: Refusal = Refusal::Errno(Errno::ENOSYS);

// SAFETY: lent memory is not accessed. No operation is posted, so no events exist.
unsafe impl Transport for Watched {}

// SAFETY: as for `Transport`.
unsafe impl Fabrics for Watched {
    type Info = &'static World;
    type Fabric = ();
    type Domain = &'static World;

    fn duplicate(info: &Self::Info) -> Result<Self::Info, Errno> {
        Ok(info)
    }
    fn attributes(info: &Self::Info) -> Attributes {
        info.attributes
    }
    fn name(_: &Self::Info, _: Name) -> Option<&str> {
        Some("watched")
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
        ProviderQuirks { mr_close: info.closes_at_any_time, ..ProviderQuirks::GOOD }
    }
    unsafe fn domain_open(_: &Self::Fabric, info: &Self::Info, _: NonNull<u8>) -> Result<Self::Domain, Errno> {
        Ok(info)
    }
    unsafe fn domain_close(domain: &Self::Domain) -> Result<(), Errno> {
        if domain.open_regions() > 0 {
            domain.wrong("the domain is closed while a region is open");
        }
        domain.domains_closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    answers! {
        fn fabric_open(&Self::Info) -> Result<Self::Fabric, Errno> = Ok(());
        fn fabric_close(&Self::Fabric) -> Result<(), Errno> = Ok(());
    }
}

// SAFETY: as for `Transport`.
unsafe impl AddressVectors for Watched {
    type Av = &'static World;

    unsafe fn av_open(domain: &Self::Domain, _: usize, _: u8) -> Result<Self::Av, Errno> {
        Ok(domain)
    }
    unsafe fn av_close(av: &Self::Av) -> Result<(), Errno> {
        av.vectors_closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    answers! {
        fn av_room(&Self::Domain, usize) -> AvRoom = AvRoom { places: 1, ..Default::default() };
        fn av_insert(&Self::Av, &EndpointAddr) -> Result<FabricAddr, Errno> = Err(NOT_HERE);
        fn av_insert_service(&Self::Av, &str, Option<&str>) -> Result<FabricAddr, Errno> = Err(NOT_HERE);
        fn av_remove(&Self::Av, FabricAddr) -> Result<(), Errno> = Ok(());
        fn av_lookup(&Self::Av, FabricAddr) -> Result<EndpointAddr, Errno> = Err(NOT_HERE);
    }
}

// SAFETY: as for `Transport`.
unsafe impl CompletionQueues for Watched {
    type Cq = &'static World;
    type Polled<'q> = Event;

    fn cq_layout(_: usize) -> Layout {
        Layout::new::<()>()
    }
    unsafe fn cq_open(domain: &Self::Domain, _: usize, _: bool, _: WaitObj, _: NonNull<u8>) -> Result<Self::Cq, Errno> {
        Ok(domain)
    }
    unsafe fn cq_close(cq: &Self::Cq) -> Result<(), Errno> {
        cq.queues_closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    answers! {
        fn cq_poll(&Self::Cq) -> Result<Option<Event>, Errno> = Ok(None);
        fn cq_sleep(&Self::Cq, i32) -> Result<(), Errno> = Err(NOT_HERE);
        fn cq_wait_fd(&Self::Cq) -> Result<c_int, Errno> = Err(NOT_HERE);
        fn cq_may_sleep(&Self::Domain, &Self::Cq) -> Result<bool, Errno> = Err(NOT_HERE);
        fn cq_read_error(&Self::Cq) -> Result<Option<Event>, Errno> = Ok(None);
        fn cq_error_text(&Self::Cq, i32, &mut [u8]) -> usize = 0;
    }
}

// SAFETY: as for `Transport`.
unsafe impl Counters for Watched {
    type Counter = &'static World;

    unsafe fn counter_open(domain: &Self::Domain, _: CounterAttr) -> Result<Self::Counter, Errno> {
        Ok(domain)
    }
    unsafe fn counter_close(counter: &Self::Counter) -> Result<(), Errno> {
        counter.counters_closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    answers! {
        fn counter_read(&Self::Counter) -> Result<u64, Errno> = Ok(0);
        fn counter_read_error(&Self::Counter) -> Result<u64, Errno> = Ok(0);
        fn counter_add(&Self::Counter, u64) -> Result<(), Errno> = Err(NOT_HERE);
        fn counter_add_error(&Self::Counter, u64) -> Result<(), Errno> = Err(NOT_HERE);
        fn counter_set(&Self::Counter, u64) -> Result<(), Errno> = Err(NOT_HERE);
        fn counter_set_error(&Self::Counter, u64) -> Result<(), Errno> = Err(NOT_HERE);
        fn counter_wait(&Self::Counter, u64, i32) -> Result<CounterWait, Errno> = Err(NOT_HERE);
        fn counter_wait_fd(&Self::Counter) -> Result<c_int, Errno> = Err(NOT_HERE);
        fn counter_may_sleep(&Self::Domain, &Self::Counter) -> Result<bool, Errno> = Err(NOT_HERE);
    }
}

// SAFETY: as for `Transport`.
unsafe impl Endpoints for Watched {
    type Endpoint = &'static World;

    unsafe fn endpoint_open(
        domain: &Self::Domain,
        _: &Self::Info,
        _: Bindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError> {
        if let Some(error) = *domain.opening.lock() {
            return Err(error);
        }
        domain.endpoints.fetch_add(1, Ordering::SeqCst);
        Ok(domain)
    }
    unsafe fn endpoint_close(endpoint: &Self::Endpoint, _: InFlight) -> Result<Closing, Errno> {
        if endpoint.leaves.load(Ordering::SeqCst) {
            return Ok(Closing::Retired);
        }
        endpoint.endpoints.fetch_sub(1, Ordering::SeqCst);
        Ok(Closing::Closed)
    }
    unsafe fn endpoint_leave(endpoint: &Self::Endpoint, _: bool) -> bool {
        endpoint.leaves.load(Ordering::SeqCst)
    }

    answers! {
        fn endpoint_address(&Self::Endpoint) -> Result<EndpointAddr, Errno> = Err(NOT_HERE);
        fn endpoint_option(&Self::Endpoint, u32, OptionValue) -> Result<OptionValue, Errno> = Err(NOT_HERE);
        fn endpoint_set_option(&Self::Endpoint, u32, OptionValue) -> Result<(), Errno> = Err(NOT_HERE);
        fn cancel(&Self::Endpoint, Context) -> Result<(), Errno> = Err(NOT_HERE);
    }
}

// SAFETY: as for `Transport`.
unsafe impl MemoryRegions for Watched {
    type Mr = Region;
    const MR_CLOSE_FENCES: bool = false;

    fn mr_key(_: &Self::Mr) -> MemoryKey {
        MemoryKey(0)
    }
    fn mr_descriptor(_: &Self::Mr) -> usize {
        0
    }
    unsafe fn mr_open(domain: &Self::Domain, lent: &Lent, _: RegionAttr) -> Result<Self::Mr, Errno> {
        let at = lent.ptr.addr().get();
        assert!(domain.regions.lock().insert(at), "each region has memory of its own");
        Ok(Region { world: domain, at })
    }
    unsafe fn mr_close(mr: &Self::Mr) -> Result<(), Errno> {
        mr.world.close_region(mr.at)
    }

    answers! {
        fn mr_bind_endpoint(&mut Self::Mr, &Self::Endpoint) -> Result<(), Errno> = Err(NOT_HERE);
        fn mr_bind_counter(&mut Self::Mr, &Self::Counter) -> Result<(), Errno> = Ok(());
        fn mr_enable(&mut Self::Mr) -> Result<(), Errno> = Err(NOT_HERE);
        fn mr_refresh(&Self::Mr, NonNull<u8>, usize) -> Result<(), Errno> = Err(NOT_HERE);
    }
}

// SAFETY: as for `Transport`.
unsafe impl Messages for Watched {
    answers! {
        fn send(&Self::Endpoint, FabricAddr, &Lent, Option<Tag>, Option<ImmediateData>, Context) -> Result<(), Refusal> =
            Err(NO_POSTS);
        fn recv(&Self::Endpoint, FabricAddr, &Lent, Option<TagMatch>, Context) -> Result<(), Refusal> = Err(NO_POSTS);
        fn sendmsg(&Self::Endpoint, &Msg<'_>, Option<Tag>) -> Result<(), Refusal> = Err(NO_POSTS);
        fn recvmsg(&Self::Endpoint, &Msg<'_>, Option<TagMatch>) -> Result<(), Refusal> = Err(NO_POSTS);
        fn inject(&Self::Endpoint, FabricAddr, &[u8], Option<Tag>, Option<ImmediateData>) -> Result<(), Refusal> =
            Err(NO_POSTS);
    }
}

// SAFETY: as for `Transport`.
unsafe impl Rma for Watched {
    answers! {
        fn read(&Self::Endpoint, RmaTarget, &Lent, Context) -> Result<(), Refusal> = Err(NO_POSTS);
        fn write(&Self::Endpoint, RmaTarget, &Lent, Option<ImmediateData>, Context) -> Result<(), Refusal> = Err(NO_POSTS);
        fn readmsg(&Self::Endpoint, &Msg<'_>, &[RemotePart]) -> Result<(), Refusal> = Err(NO_POSTS);
        fn writemsg(&Self::Endpoint, &Msg<'_>, &[RemotePart]) -> Result<(), Refusal> = Err(NO_POSTS);
        fn inject_write(&Self::Endpoint, RmaTarget, &[u8], Option<ImmediateData>) -> Result<(), Refusal> = Err(NO_POSTS);
    }
}

// SAFETY: as for `Transport`.
unsafe impl Atomics for Watched {
    answers! {
        fn query_atomic(&Self::Domain, Atomic) -> Result<AtomicAttr, Errno> = Err(NOT_HERE);
        fn atomic(&Self::Endpoint, RmaTarget, &Lent, Atomic, Context) -> Result<(), Refusal> = Err(NO_POSTS);
        fn inject_atomic(&Self::Endpoint, RmaTarget, &[u8], Atomic) -> Result<(), Refusal> = Err(NO_POSTS);
        fn fetch_atomic(&Self::Endpoint, RmaTarget, &Lent, &Lent, Atomic, Context) -> Result<(), Refusal> =
            Err(NO_POSTS);
        fn compare_atomic(&Self::Endpoint, RmaTarget, [&Lent; 3], Atomic, Context) -> Result<(), Refusal> =
            Err(NO_POSTS);
        fn atomicmsg(&Self::Endpoint, &Msg<'_>, AtomicRanges<'_>, &[RemotePart], Atomic) -> Result<(), Refusal> =
            Err(NO_POSTS);
    }
}
