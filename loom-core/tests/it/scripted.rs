//! A scripted transport. Its queues report the events of the script, true or not, and it records
//! posts.

use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::Mutex;

use loom_core::atomic::Atomic;
use loom_core::buffer::Lent;
use loom_core::info::{Info, Nic, NicLink};
use loom_core::transport::{
    AddressVectors, AtomicAttr, AtomicRanges, Atomics, AvRoom, Bindings, Closing, CompletionQueues, Context,
    CounterAttr, CounterWait, Counters, EndpointError, Endpoints, Event, Fabrics, InFlight, MemoryRegions, Messages,
    Msg, Name, ProviderQuirks, Refusal, RegionAttr, RemotePart, Rma, RmaTarget, Transport,
};
use loom_core::vocabulary::{
    AddressFormat, Attributes, EndpointAddr, Errno, FabricAddr, ImmediateData, MemoryKey, OpFlags, OptionValue, Tag,
    TagMatch, WaitObj,
};

#[derive(Clone, Copy, Debug)]
pub enum Said {
    Event(Event),
    /// Announces this event by `EAVAIL`.
    Error(Event),
    /// Returns `EAVAIL`, and then no event.
    Nothing,
    Failure(Errno),
}

#[derive(Clone, Copy, Debug)]
pub enum Noted {
    Posted { context: u64, first: usize, len: usize, refused: Option<Refusal> },
    Said(Said),
}

#[derive(Debug, Default)]
pub struct Script {
    attributes: Attributes,
    pub queues: [RefCell<VecDeque<Said>>; 2],
    opened: Cell<usize>,
    pub refusal: Cell<Option<Refusal>>,
    /// Text of the provider's errors.
    pub text: RefCell<Vec<u8>>,
    pub notes: RefCell<Vec<Noted>>,
    /// Address and flags of each post.
    pub asked: RefCell<Vec<(FabricAddr, OpFlags)>>,
    pub inserted: RefCell<Vec<EndpointAddr>>,
    pub removed: RefCell<Vec<FabricAddr>>,
    /// Room for addresses at a time, if removed addresses make room.
    pub reused: Cell<Option<usize>>,
    /// Error of the next insertion of an address.
    pub no_insertion: Cell<Option<Errno>>,
    /// Regions move from thread to thread.
    pub regions: Mutex<Regions>,
    pub closed_domains: Cell<usize>,
    /// Name that differs in infos created from now on.
    pub other: Cell<Option<Name>>,
    /// Quirks of the provider.
    pub quirks: Cell<Option<ProviderQuirks>>,
    /// Results of closing endpoints. An endpoint without an entry is closed.
    pub closings: RefCell<VecDeque<Closing>>,
    /// Operations in flight at each close of an endpoint.
    pub closed: RefCell<Vec<InFlight>>,
}

#[derive(Debug, Default)]
pub struct Regions {
    /// Room for further regions.
    pub places: usize,
    /// Error of closing a region.
    pub failure: Option<Errno>,
    opened: usize,
    pub keys: Vec<MemoryKey>,
    /// Descriptors of all regions to close, including failed closes.
    pub closings: Vec<usize>,
}

impl Script {
    pub fn new(attributes: Attributes) -> Self {
        Script { attributes, ..Script::default() }
    }

    pub fn info(&self) -> Info<Scripted<'_>> {
        self.opened.set(0);
        Info::from_raw(self)
    }

    fn poll(&self, queue: usize) -> Result<Option<Event>, Errno> {
        let mut queue = self.queues[queue].borrow_mut();
        let Some(said) = queue.front().copied() else { return Ok(None) };
        if let Said::Error(_) | Said::Nothing = said {
            return Err(Errno::EAVAIL);
        }
        queue.pop_front();
        self.notes.borrow_mut().push(Noted::Said(said));
        match said {
            Said::Failure(errno) => Err(errno),
            Said::Event(event) | Said::Error(event) => Ok(Some(event)),
            Said::Nothing => Ok(None),
        }
    }

    fn read_error(&self, queue: usize) -> Option<Event> {
        let said = self.queues[queue].borrow_mut().pop_front().expect("EAVAIL was said");
        self.notes.borrow_mut().push(Noted::Said(said));
        match said {
            Said::Error(event) => Some(event),
            _ => None,
        }
    }

    fn post(&self, context: Context, lent: &[Lent]) -> Result<(), Refusal> {
        let refused = self.refusal.take();
        let len = lent.iter().map(|piece| piece.len).sum();
        let first = lent.first().map_or(0, |first| first.ptr.addr().get());
        self.notes.borrow_mut().push(Noted::Posted { context: context.addr(), first, len, refused });
        refused.map_or(Ok(()), Err)
    }

    fn write(&self, out: &mut [u8]) -> usize {
        let text = self.text.borrow();
        let len = text.len().min(out.len());
        out[..len].copy_from_slice(&text[..len]);
        len
    }
}

pub struct Scripted<'s>(PhantomData<&'s Script>);

pub struct Queue<'s> {
    script: &'s Script,
    which: usize,
}

/// A region, by its descriptor.
pub struct Region<'s> {
    regions: &'s Mutex<Regions>,
    number: usize,
}

/// Functions without effect.
macro_rules! answers {
    ($(fn $name:ident($($of:ty),*) -> $answer:ty = $value:expr;)+) => {$(
        unsafe fn $name($(_: $of),*) -> $answer {
            $value
        }
    )+};
}

/// Posts that record the lent memory.
macro_rules! posts {
    ($(fn $name:ident($($arg:ident: $of:ty),*) = ($context:expr, $lent:expr, $address:expr, $flags:expr);)+) => {$(
        unsafe fn $name(endpoint: &Self::Endpoint, $($arg: $of),*) -> Result<(), Refusal> {
            endpoint.asked.borrow_mut().push(($address, $flags));
            endpoint.post($context, $lent)
        }
    )+};
}

const NOT_HERE: Errno = Errno::ENOSYS;
const NONE: OpFlags = OpFlags::empty();

/// File descriptor of every object that can sleep.
pub const FD: c_int = 7;

/// Replaces a removed address.
fn no_address() -> EndpointAddr {
    EndpointAddr::new(AddressFormat::UNSPEC, &[]).unwrap()
}

/// Value of every endpoint option.
pub const OPTION: usize = 16;

// SAFETY: lent memory is not accessed. Contexts are reported as the script requires, which keeps
// their contract (`World::event`). Lengths above those of the lent memory are the subject of the
// tests.
unsafe impl<'s> Transport for Scripted<'s> {}

// SAFETY: as for `Transport`.
unsafe impl<'s> Fabrics for Scripted<'s> {
    type Info = &'s Script;
    type Fabric = ();
    type Domain = &'s Script;

    fn duplicate(info: &Self::Info) -> Result<Self::Info, Errno> {
        Ok(info)
    }
    fn attributes(info: &Self::Info) -> Attributes {
        info.attributes
    }
    fn name(info: &Self::Info, name: Name) -> Option<&str> {
        Some(if info.other.get() == Some(name) { "other" } else { "script" })
    }
    fn source_address(_: &Self::Info) -> Option<EndpointAddr> {
        None
    }
    fn destination_address(_: &Self::Info) -> Option<EndpointAddr> {
        None
    }
    fn nic(_: &Self::Info) -> Option<Nic<'_>> {
        Some(Nic { link: NicLink { mtu: 9000, ..NicLink::default() }, ..Nic::default() })
    }
    fn serves_threading(_: &Attributes) -> bool {
        true
    }
    fn quirks(info: &Self::Info) -> ProviderQuirks {
        info.quirks.get().unwrap_or(ProviderQuirks::GOOD)
    }
    unsafe fn domain_open(_: &Self::Fabric, info: &Self::Info, _: NonNull<u8>) -> Result<Self::Domain, Errno> {
        Ok(info)
    }
    unsafe fn domain_close(domain: &Self::Domain) -> Result<(), Errno> {
        domain.closed_domains.set(domain.closed_domains.get() + 1);
        Ok(())
    }

    answers! {
        fn fabric_open(&Self::Info) -> Result<Self::Fabric, Errno> = Ok(());
        fn fabric_close(&Self::Fabric) -> Result<(), Errno> = Ok(());
    }
}

// SAFETY: as for `Transport`.
unsafe impl<'s> AddressVectors for Scripted<'s> {
    type Av = &'s Script;

    unsafe fn av_room(domain: &Self::Domain, capacity: usize) -> AvRoom {
        AvRoom { places: capacity, reused: domain.reused.get(), ..Default::default() }
    }
    unsafe fn av_open(domain: &Self::Domain, _: usize, _: u8) -> Result<Self::Av, Errno> {
        Ok(domain)
    }
    unsafe fn av_insert(av: &Self::Av, address: &EndpointAddr) -> Result<FabricAddr, Errno> {
        if let Some(errno) = av.no_insertion.take() {
            return Err(errno);
        }
        let mut inserted = av.inserted.borrow_mut();
        let place_of = |address: &EndpointAddr| inserted.iter().position(|other| other == address);
        let at = place_of(address).or_else(|| place_of(&no_address())).unwrap_or(inserted.len());
        if at == inserted.len() {
            inserted.push(no_address());
        }
        inserted[at] = address.clone();
        Ok(FabricAddr(at as u64))
    }
    unsafe fn av_remove(av: &Self::Av, addr: FabricAddr) -> Result<(), Errno> {
        av.removed.borrow_mut().push(addr);
        if av.reused.get().is_some() {
            let mut inserted = av.inserted.borrow_mut();
            let place = usize::try_from(addr.0).unwrap();
            assert_ne!(std::mem::replace(&mut inserted[place], no_address()), no_address(), "it was inserted");
        }
        Ok(())
    }

    answers! {
        fn av_close(&Self::Av) -> Result<(), Errno> = Ok(());
        fn av_insert_service(&Self::Av, &str, Option<&str>) -> Result<FabricAddr, Errno> = Err(NOT_HERE);
        fn av_lookup(&Self::Av, FabricAddr) -> Result<EndpointAddr, Errno> = Err(NOT_HERE);
    }
}

// SAFETY: as for `Transport`.
unsafe impl<'s> CompletionQueues for Scripted<'s> {
    type Cq = Queue<'s>;
    type Polled<'q>
        = Event
    where
        's: 'q;

    fn cq_layout(_: usize) -> Layout {
        Layout::new::<()>()
    }
    unsafe fn cq_open(domain: &Self::Domain, _: usize, _: bool, _: WaitObj, _: NonNull<u8>) -> Result<Self::Cq, Errno> {
        let which = domain.opened.get();
        domain.opened.set(which + 1);
        Ok(Queue { script: domain, which })
    }
    unsafe fn cq_poll(cq: &Self::Cq) -> Result<Option<Event>, Errno> {
        cq.script.poll(cq.which)
    }
    unsafe fn cq_read_error(cq: &Self::Cq) -> Result<Option<Event>, Errno> {
        Ok(cq.script.read_error(cq.which))
    }
    unsafe fn cq_error_text(cq: &Self::Cq, _: i32, out: &mut [u8]) -> usize {
        cq.script.write(out)
    }
    unsafe fn cq_error_data(cq: &Self::Cq, out: &mut [u8]) -> usize {
        cq.script.write(out)
    }

    answers! {
        fn cq_close(&Self::Cq) -> Result<(), Errno> = Ok(());
        fn cq_sleep(&Self::Cq, i32) -> Result<(), Errno> = Ok(());
        fn cq_wait_fd(&Self::Cq) -> Result<c_int, Errno> = Ok(FD);
        fn cq_may_sleep(&Self::Domain, &Self::Cq) -> Result<bool, Errno> = Ok(true);
    }
}

// SAFETY: as for `Transport`.
unsafe impl<'s> Counters for Scripted<'s> {
    type Counter = ();

    answers! {
        fn counter_open(&Self::Domain, CounterAttr) -> Result<Self::Counter, Errno> = Ok(());
        fn counter_close(&Self::Counter) -> Result<(), Errno> = Ok(());
        fn counter_read(&Self::Counter) -> Result<u64, Errno> = Ok(0);
        fn counter_read_error(&Self::Counter) -> Result<u64, Errno> = Ok(0);
        fn counter_add(&Self::Counter, u64) -> Result<(), Errno> = Err(NOT_HERE);
        fn counter_add_error(&Self::Counter, u64) -> Result<(), Errno> = Err(NOT_HERE);
        fn counter_set(&Self::Counter, u64) -> Result<(), Errno> = Err(NOT_HERE);
        fn counter_set_error(&Self::Counter, u64) -> Result<(), Errno> = Err(NOT_HERE);
        fn counter_wait(&Self::Counter, u64, i32) -> Result<CounterWait, Errno> = Ok(CounterWait::Reached);
        fn counter_wait_fd(&Self::Counter) -> Result<c_int, Errno> = Ok(FD);
        fn counter_may_sleep(&Self::Domain, &Self::Counter) -> Result<bool, Errno> = Ok(true);
    }
}

// SAFETY: as for `Transport`.
unsafe impl<'s> Endpoints for Scripted<'s> {
    type Endpoint = &'s Script;

    unsafe fn endpoint_open(
        domain: &Self::Domain,
        _: &Self::Info,
        _: Bindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError> {
        Ok(domain)
    }
    unsafe fn endpoint_close(endpoint: &Self::Endpoint, in_flight: InFlight) -> Result<Closing, Errno> {
        endpoint.closed.borrow_mut().push(in_flight);
        Ok(endpoint.closings.borrow_mut().pop_front().unwrap_or(Closing::Closed))
    }

    answers! {
        fn endpoint_leave(&Self::Endpoint, bool) -> bool = false;
        fn endpoint_address(&Self::Endpoint) -> Result<EndpointAddr, Errno> = Err(NOT_HERE);
        fn endpoint_option(&Self::Endpoint, u32, OptionValue) -> Result<OptionValue, Errno> = Ok(OptionValue::Size(OPTION));
        fn endpoint_set_option(&Self::Endpoint, u32, OptionValue) -> Result<(), Errno> = Ok(());
        fn cancel(&Self::Endpoint, Context) -> Result<(), Errno> = Ok(());
    }
}

// SAFETY: as for `Transport`.
unsafe impl<'s> MemoryRegions for Scripted<'s> {
    type Mr = Region<'s>;
    const MR_CLOSE_FENCES: bool = true;

    fn mr_key(_: &Self::Mr) -> MemoryKey {
        MemoryKey(0)
    }
    fn mr_descriptor(mr: &Self::Mr) -> usize {
        mr.number
    }
    unsafe fn mr_open(domain: &Self::Domain, _: &Lent, attr: RegionAttr) -> Result<Self::Mr, Errno> {
        let mut regions = domain.regions.lock().expect("nobody panics with it");
        regions.keys.push(attr.key);
        regions.places = regions.places.checked_sub(1).ok_or(Errno::ENOMR)?;
        regions.opened += 1;
        Ok(Region { regions: &domain.regions, number: regions.opened })
    }
    unsafe fn mr_close(mr: &Self::Mr) -> Result<(), Errno> {
        let mut regions = mr.regions.lock().expect("nobody panics with it");
        regions.closings.push(mr.number);
        if let Some(errno) = regions.failure {
            return Err(errno);
        }
        regions.places += 1;
        Ok(())
    }

    answers! {
        fn mr_bind_endpoint(&mut Self::Mr, &Self::Endpoint) -> Result<(), Errno> = Err(NOT_HERE);
        fn mr_bind_counter(&mut Self::Mr, &Self::Counter) -> Result<(), Errno> = Err(NOT_HERE);
        fn mr_enable(&mut Self::Mr) -> Result<(), Errno> = Err(NOT_HERE);
        fn mr_refresh(&Self::Mr, NonNull<u8>, usize) -> Result<(), Errno> = Err(NOT_HERE);
    }
}

// SAFETY: as for `Transport`.
unsafe impl<'s> Messages for Scripted<'s> {
    answers! {
        fn inject(&Self::Endpoint, FabricAddr, &[u8], Option<Tag>, Option<ImmediateData>) -> Result<(), Refusal> = Ok(());
    }

    posts! {
        fn send(to: FabricAddr, lent: &Lent, _tag: Option<Tag>, _data: Option<ImmediateData>, context: Context) =
            (context, &[*lent], to, NONE);
        fn recv(from: FabricAddr, lent: &Lent, _tag: Option<TagMatch>, context: Context) = (context, &[*lent], from, NONE);
        fn sendmsg(msg: &Msg<'_>, _tag: Option<Tag>) = (msg.context, msg.pieces, msg.address, msg.flags);
        fn recvmsg(msg: &Msg<'_>, _tag: Option<TagMatch>) = (msg.context, msg.pieces, msg.address, msg.flags);
    }
}

// SAFETY: as for `Transport`.
unsafe impl<'s> Rma for Scripted<'s> {
    answers! {
        fn inject_write(&Self::Endpoint, RmaTarget, &[u8], Option<ImmediateData>) -> Result<(), Refusal> = Ok(());
    }

    posts! {
        fn read(from: RmaTarget, lent: &Lent, context: Context) = (context, &[*lent], from.to, NONE);
        fn write(to: RmaTarget, lent: &Lent, _data: Option<ImmediateData>, context: Context) = (context, &[*lent], to.to, NONE);
        fn readmsg(msg: &Msg<'_>, _remote: &[RemotePart]) = (msg.context, msg.pieces, msg.address, msg.flags);
        fn writemsg(msg: &Msg<'_>, _remote: &[RemotePart]) = (msg.context, msg.pieces, msg.address, msg.flags);
    }
}

// SAFETY: as for `Transport`.
unsafe impl<'s> Atomics for Scripted<'s> {
    answers! {
        fn query_atomic(&Self::Domain, Atomic) -> Result<AtomicAttr, Errno> = Ok(AtomicAttr { count: 1, size: 8 });
        fn inject_atomic(&Self::Endpoint, RmaTarget, &[u8], Atomic) -> Result<(), Refusal> = Ok(());
    }

    posts! {
        fn atomic(to: RmaTarget, lent: &Lent, _atomic: Atomic, context: Context) = (context, &[*lent], to.to, NONE);
        fn fetch_atomic(to: RmaTarget, operands: &Lent, results: &Lent, _atomic: Atomic, context: Context) =
            (context, &[*operands, *results], to.to, NONE);
        fn compare_atomic(to: RmaTarget, ranges: [&Lent; 3], _atomic: Atomic, context: Context) =
            (context, &ranges.map(|lent| *lent), to.to, NONE);
        fn atomicmsg(msg: &Msg<'_>, _ranges: AtomicRanges<'_>, _remote: &[RemotePart], _atomic: Atomic) =
            (msg.context, msg.pieces, msg.address, msg.flags);
    }
}
