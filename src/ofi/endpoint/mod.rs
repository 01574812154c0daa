#![allow(unsafe_code, reason = "calls libfabric")]

pub(crate) mod atomic;
pub(crate) mod closing;
pub(crate) mod collective;
pub(crate) mod connected;
pub(crate) mod connection;
pub(crate) mod iov;
mod message;
pub(crate) mod multicast;
pub(crate) mod option;
mod rma;
pub(crate) mod scalable;

use core::ptr::{self, NonNull};

use loom_core::transport::{Bindings, Closing, Context, CounterAttr, Counters, EndpointError, Endpoints, InFlight};
use loom_core::vocabulary::{AddressFormat, Counted, EndpointAddr, Errno, OptionValue};

use self::closing::Closable;
use self::multicast::Groups;
use self::option::endpoint_set_option;
use super::av::read_address;
use super::control::{bind, close, opened};
use super::counter::Counter;
use super::fabric::Domain;
use super::ffi::call::{done, entry, errno, other_process};
use super::info::RawInfo;
use super::process::Raw;
use super::queue::Cq;
use super::queue::event_queue::Request;
use super::quirks::av_lock::AvLock;
use super::quirks::known_behaviour::Facts;
use super::quirks::nap::Deserts;
use super::quirks::shm_registry::Group;
use super::quirks::{
    TakesOptions, are_named_by_processes, counts_writes, has_table, names_by_process, overruns, sm2_table,
    takes_options,
};
use super::sys;
use super::threading::{Handle, Level};
use super::transport::Ofi;

/// An endpoint, raw.
#[doc(alias = "fid_ep")]
#[derive(Debug)]
pub struct Endpoint<L> {
    fid: Handle<sys::fid_ep, L>,
    addr_format: AddressFormat,
    closable: Closable,
    /// `true` if its connection can be shut down.
    shuts_down: bool,
    groups: Groups<L>,
    /// `true` if sends, reads and writes report success only if flags or the default request it.
    selective: bool,
    overruns: bool,
    /// Closed after the endpoint.
    writes: Option<Counter<L>>,
    /// Closed after the endpoint.
    collectives: Option<collective::Groups<L>>,
    /// Queues and counters that are unsafe to sleep on after its close.
    deserts: Deserts,
}

impl<L> Endpoint<L> {
    pub(crate) fn of(
        domain: &Domain<L>,
        overruns: bool,
        raw: Raw<sys::fid_ep>,
        closable: Closable,
        selective: bool,
    ) -> Self {
        Endpoint {
            fid: Handle::new(raw),
            addr_format: domain.addr_format(),
            closable,
            shuts_down: domain.facts().contains(Facts::SHUTS_DOWN),
            groups: Groups::none(),
            selective,
            overruns,
            writes: None,
            collectives: None,
            deserts: Deserts::none(),
        }
    }

    #[inline]
    pub(crate) const fn raw(&self) -> Raw<sys::fid_ep> {
        self.fid.raw()
    }

    #[inline]
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.fid.fid()
    }

    pub(crate) const fn addr_format(&self) -> AddressFormat {
        self.addr_format
    }

    pub(crate) const fn is_selective(&self) -> bool {
        self.selective
    }

    #[inline]
    pub(crate) const fn overruns(&self) -> bool {
        self.overruns
    }

    pub(crate) const fn shuts_down(&self) -> bool {
        self.shuts_down
    }

    pub(crate) const fn groups(&self) -> &Groups<L> {
        &self.groups
    }

    pub(crate) const fn collectives(&self) -> Option<&collective::Groups<L>> {
        self.collectives.as_ref()
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
        let Bindings { tx, rx, av, counters, selective, options } = bind;
        // SAFETY: domain and vector are open (H1).
        let collectives = unsafe { collective::Groups::open(domain, info, av) }?;
        let to = [Some(av.fid()), collectives.as_ref().map(|groups| groups.eq().fid())];
        let bound = EndpointSetup { to, queues: (tx, rx), shared_rx: None, counters, selective, options };
        // SAFETY: domain and bound objects are open (H1).
        match unsafe { open(domain, info, av.turn(), &bound) } {
            Ok(endpoint) => Ok(Endpoint { collectives, ..endpoint }),
            Err(error) => {
                if let Some(collectives) = collectives.filter(|_| !error.left_open) {
                    // SAFETY: no endpoint uses the groups.
                    let left_open = unsafe { collectives.close() }.is_err();
                    return Err(EndpointError { left_open, ..error });
                }
                Err(error)
            }
        }
    }

    #[inline]
    unsafe fn endpoint_close(endpoint: &Endpoint<L>, in_flight: InFlight) -> Result<Closing, Errno> {
        if !endpoint.raw().is_here() {
            return Err(other_process());
        }
        // SAFETY: one thread uses the open endpoint (H1, T1).
        if unsafe { endpoint.groups.leave_all() }.is_err() {
            return Ok(Closing::Retired);
        }
        // SAFETY: the endpoint is closed once (H1, H3), and its children, the groups, are
        // closed.
        endpoint.closable.close(in_flight, endpoint.fid.fid(), || unsafe { close_counted(endpoint) })
    }

    unsafe fn endpoint_leave(endpoint: &Endpoint<L>, for_good: bool) -> bool {
        endpoint.closable.leave(endpoint.fid.fid(), for_good)
    }

    #[inline]
    unsafe fn endpoint_address(endpoint: &Endpoint<L>) -> Result<EndpointAddr, Errno> {
        let raw = endpoint.raw();
        let getname = entry!(raw, cm => getname)?;
        let fid = endpoint.fid.fid().as_ptr();
        // SAFETY: the endpoint is open (H1), and `bytes` has room for `len` bytes.
        read_address(endpoint.addr_format, |bytes, len| unsafe { getname(fid, bytes, len) })
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
        let raw = endpoint.raw();
        let cancel = entry!(raw, ops => cancel)?;
        let fid = endpoint.fid.fid().as_ptr();
        // SAFETY: the endpoint is open (H1). The provider compares the context with those of posted
        // operations, and follows it only in modes with contexts, which are valid until their event
        // (L2).
        match unsafe { cancel(fid, context.as_ptr().cast()) } {
            0 => Ok(()),
            code => Err(errno(code)),
        }
    }
}

pub(crate) struct EndpointSetup<'a, L> {
    pub(crate) to: [Option<Raw<sys::fid>>; 2],
    pub(crate) queues: (&'a Cq<L>, &'a Cq<L>),
    pub(crate) shared_rx: Option<&'a Endpoint<L>>,
    pub(crate) counters: &'a [(Counted, &'a Counter<L>)],
    pub(crate) selective: bool,
    pub(crate) options: &'a [(u32, OptionValue)],
}

pub(crate) unsafe fn open<L: Level>(
    domain: &Domain<L>,
    info: &RawInfo,
    turn: AvLock,
    bound: &EndpointSetup<'_, L>,
) -> Result<Endpoint<L>, EndpointError> {
    check(domain, bound)?;
    let copy = match are_named_by_processes(info) {
        true => Some(info.named_by_this_process()),
        false => bound.selective.then(|| info.try_clone()),
    };
    let mut changed = copy.map(|copy| copy.ok_or(Errno::ENOMEM)).transpose()?;
    if let Some(info) = changed.as_mut().filter(|_| bound.selective) {
        info.report_by_default();
    }
    let info = changed.as_ref().unwrap_or(info);
    let once = || {
        // SAFETY: domain and bound objects are open (H1).
        unsafe { open_bound(domain, info, domain.group(), || {}, bound) }
    };
    // SAFETY: `once` returns an open endpoint of the domain.
    let open = || unsafe { in_group(domain, info, once) };
    if domain.group().is_some() {
        return open();
    }
    let opened = turn.take(open)?;
    Ok(Endpoint { closable: opened.closable.in_turn(turn), ..opened })
}

fn check<L>(domain: &Domain<L>, bound: &EndpointSetup<'_, L>) -> Result<(), Errno> {
    let facts = domain.facts();
    let options = bound.options.is_empty() || takes_options(facts) != TakesOptions::Never;
    let selective = !bound.selective || facts.contains(Facts::SELECTIVE);
    if options && selective { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// Repeats `once` where another program has the name.
///
/// # Safety
/// `once` returns an open endpoint of the domain.
unsafe fn in_group<L: Level>(
    domain: &Domain<L>,
    info: &RawInfo,
    mut once: impl FnMut() -> Result<Endpoint<L>, EndpointError>,
) -> Result<Endpoint<L>, EndpointError> {
    /// More than the endpoints that one killed process had open.
    const TRIES: usize = 256;
    let mut opened = || {
        let mut tries = 1;
        loop {
            match once() {
                // A refused name must not be inserted as a peer's
                // (`shm-name-that-was-refused-crashes`): the group refuses closed names of this
                // process.
                Err(EndpointError { errno: Errno::EBUSY, left_open: false })
                    if names_by_process(info) && tries < TRIES =>
                {
                    tries += 1;
                }
                result => return result,
            }
        }
    };
    match domain.group() {
        None => opened(),
        // SAFETY: the caller guarantees that `once` returns an open endpoint.
        Some(group) => group.open(|| unsafe { with_name(opened()?) }),
    }
}

pub(crate) unsafe fn open_msg<L: Level>(
    domain: &Domain<L>,
    info: &RawInfo,
    request: &mut Option<Request>,
    bound: &EndpointSetup<'_, L>,
) -> Result<Endpoint<L>, EndpointError> {
    check(domain, bound)?;
    if domain.group().is_some() {
        // The endpoint could never be closed: the provider does not report its connections.
        return Err(Errno::EOPNOTSUPP.into());
    }
    let handle = request.as_ref().map(|request| request.0);
    let mut info = info.for_endpoint(handle, bound.shared_rx.is_some()).ok_or(Errno::ENOMEM)?;
    if bound.selective {
        info.report_by_default();
    }
    // An opened endpoint has taken over the object, even if a later step fails.
    let taken = || *request = None;
    // SAFETY: the domain is open (H1), and the handle belongs to a request that was not used up
    // (E2).
    unsafe { open_bound(domain, &info, None, taken, bound) }
}

pub(crate) unsafe fn open_shared_rx<L>(
    domain: &Domain<L>,
    info: &RawInfo,
    queue: &Cq<L>,
) -> Result<Endpoint<L>, EndpointError> {
    let raw_domain = domain.raw();
    let open = entry!(raw_domain, ops => srx_ctx)?;
    if !domain.facts().contains(Facts::SHARES_RECEIVES) {
        return Err(Errno::ENOSYS.into());
    }
    let attributes = info.fields().rx_attr;
    if attributes.is_null() {
        return Err(Errno::EINVAL.into());
    }
    let mut raw = ptr::null_mut();
    // SAFETY: the domain is open (H1), the info's attributes are only read, and `raw` receives the
    // context.
    let code = unsafe { open(raw_domain.as_ptr(), attributes, &raw mut raw, ptr::null_mut()) };
    let context = Endpoint {
        fid: Handle::new(opened(code, raw)?),
        addr_format: domain.addr_format(),
        closable: Closable::ALWAYS,
        shuts_down: false,
        groups: Groups::none(),
        selective: false,
        overruns: overruns(info),
        writes: None,
        collectives: None,
        deserts: Deserts::none(),
    };
    // The man page does not require a queue. But `tcp` and `net` report cancelled receives there,
    // and crash without it.
    // SAFETY: the context was just opened, and the queue is open (H1).
    match unsafe { bind(context.fid.fid(), queue.fid(), u64::from(sys::FI_RECV)) } {
        Ok(()) => Ok(context),
        Err(errno) => Err(undone(&context, errno)),
    }
}

unsafe fn open_bound<L: Level>(
    domain: &Domain<L>,
    info: &RawInfo,
    group: Option<Group>,
    opened_it: impl FnOnce(),
    bound: &EndpointSetup<'_, L>,
) -> Result<Endpoint<L>, EndpointError> {
    let raw_domain = domain.raw();
    let open = entry!(raw_domain, ops => endpoint)?;
    // SAFETY: the domain is open (H1).
    unsafe { sm2_table::close_unlisted(domain) }?;
    let mut raw = ptr::null_mut();
    // SAFETY: the domain is open (H1), the info only read.
    let code = unsafe { open(raw_domain.as_ptr(), info.as_ptr(), &raw mut raw, ptr::null_mut()) };
    let raw = opened(code, raw)?;
    if has_table(info) {
        // SAFETY: the domain is open (H1), and the endpoint was just opened.
        unsafe { sm2_table::reserve(domain, raw) }?;
    }
    let closable = Closable::of(domain.facts(), info, group);
    let mut endpoint = Endpoint::of(domain, overruns(info), raw, closable, bound.selective);
    opened_it();
    let takes_options = takes_options(domain.facts());
    let counted = bound.counters.iter().any(|(counted, _)| counted.contains(Counted::WRITE));
    let enabled = (|| {
        if counts_writes(info) && !counted {
            // SAFETY: the domain is open (H1).
            endpoint.writes = Some(unsafe { Ofi::counter_open(domain, CounterAttr::default()) }?);
        }
        if domain.sleeps() && !domain.facts().contains(Facts::SLEEPS_AFTER_CLOSE) {
            let (tx, rx) = bound.queues;
            endpoint.deserts.add([tx, rx].map(Cq::fid))?;
            endpoint.deserts.add(bound.counters.iter().map(|(_, counter)| counter.fid()))?;
        }
        // SAFETY: the endpoint was just opened, and the bound objects are open (H1).
        unsafe { bind_and_enable(&endpoint, takes_options, bound) }
    })();
    if let Err(errno) = enabled
        && has_table(info)
        // SAFETY: the endpoint is open (H1).
        && unsafe { enable(endpoint.fid()) }.is_err()
    {
        return Err(EndpointError { errno, left_open: true });
    }
    let enabled = enabled.and_then(|()| match takes_options {
        // SAFETY: the endpoint is open (H1).
        TakesOptions::Enabled => unsafe { set_options(&endpoint, bound) },
        TakesOptions::BeforeEnabled | TakesOptions::Never => Ok(()),
    });
    match enabled {
        Ok(()) => Ok(endpoint),
        Err(errno) => Err(undone(&endpoint, errno)),
    }
}

pub(crate) unsafe fn adopt<L: Level>(
    domain: &Domain<L>,
    info: &RawInfo,
    selective: bool,
    mut open_it: impl FnMut() -> Result<Raw<sys::fid_ep>, Errno>,
) -> Result<Endpoint<L>, EndpointError> {
    let open = || {
        Ok(Endpoint::of(
            domain,
            overruns(info),
            open_it()?,
            Closable::of(domain.facts(), info, domain.group()),
            selective,
        ))
    };
    // SAFETY: the caller guarantees that `open_it` returns an open endpoint (H1).
    unsafe { in_group(domain, info, open) }
}

/// # Safety
/// The endpoint is open.
unsafe fn with_name<L: Level>(
    endpoint: Endpoint<L>,
) -> Result<(Endpoint<L>, NonNull<sys::fid>, EndpointAddr), EndpointError> {
    // SAFETY: the caller keeps the endpoint open.
    match unsafe { Ofi::endpoint_address(&endpoint) } {
        Ok(address) => {
            let fid = endpoint.fid().pointer();
            Ok((endpoint, fid, address))
        }
        Err(errno) => Err(undone(&endpoint, errno)),
    }
}

pub(crate) fn context<L>(raw: Raw<sys::fid_ep>, addr_format: AddressFormat, closable: Closable) -> Endpoint<L> {
    Endpoint {
        fid: Handle::new(raw),
        addr_format,
        closable,
        shuts_down: false,
        groups: Groups::none(),
        selective: false,
        overruns: false,
        writes: None,
        collectives: None,
        deserts: Deserts::none(),
    }
}

pub(crate) fn undone<L>(endpoint: &Endpoint<L>, errno: Errno) -> EndpointError {
    // SAFETY: open, without children, not shared, and not used again.
    let left_open = unsafe { close_counted(endpoint) }.is_err();
    EndpointError { errno, left_open }
}

/// On a selective endpoint, flags or the default flags of `info` request an event.
unsafe fn bind_and_enable<L>(
    endpoint: &Endpoint<L>,
    takes_options: TakesOptions,
    bound: &EndpointSetup<'_, L>,
) -> Result<(), Errno> {
    let fid = endpoint.fid.fid();
    let (transmit, receive) = (u64::from(sys::FI_TRANSMIT), u64::from(sys::FI_RECV));
    let bind = |object, flags| {
        // SAFETY: all these objects are open (H1).
        unsafe { bind(fid, object, flags) }
    };
    let (tx, rx) = bound.queues;
    bound.to.iter().flatten().try_for_each(|object| bind(*object, 0))?;
    let transmit = if bound.selective { transmit | sys::FI_SELECTIVE_COMPLETION } else { transmit };
    if tx.fid() == rx.fid() && !bound.selective {
        bind(tx.fid(), transmit | receive)?;
    } else {
        bind(tx.fid(), transmit)?;
        bind(rx.fid(), receive)?;
    }
    if let Some(shared_rx) = bound.shared_rx {
        bind(shared_rx.fid.fid(), 0)?;
    }
    for (counted, counter) in bound.counters {
        bind(counter.fid(), counted.bits())?;
    }
    if let Some(writes) = &endpoint.writes {
        bind(writes.fid(), Counted::WRITE.bits())?;
    }
    if takes_options == TakesOptions::BeforeEnabled {
        // SAFETY: the endpoint is open (H1).
        unsafe { set_options(endpoint, bound) }?;
    }
    // SAFETY: the endpoint is open and bound.
    unsafe { enable(fid) }
}

unsafe fn set_options<L>(endpoint: &Endpoint<L>, bound: &EndpointSetup<'_, L>) -> Result<(), Errno> {
    // SAFETY: the endpoint is open (H1).
    bound.options.iter().try_for_each(|(option, value)| unsafe { endpoint_set_option(endpoint, *option, *value) })
}

pub(crate) unsafe fn enable(fid: Raw<sys::fid>) -> Result<(), Errno> {
    let control = entry!(fid, ops => control)?;
    // SAFETY: the object is open (H1), and the command takes no argument.
    done(unsafe { control(fid.as_ptr(), sys::FI_ENABLE.cast_signed(), ptr::null_mut()) })
}

unsafe fn close_counted<L>(endpoint: &Endpoint<L>) -> Result<(), Errno> {
    // SAFETY: the queues and counters of an open endpoint are open (H2).
    unsafe { endpoint.deserts.mark() };
    // SAFETY: the endpoint is closed once (H1–H3).
    unsafe { close(endpoint.fid.fid()) }?;
    // SAFETY: the counter is open, and its only endpoint is closed.
    endpoint.writes.as_ref().map_or(Ok(()), |writes| unsafe { close(writes.fid()) })?;
    // SAFETY: the endpoint is closed.
    endpoint.collectives.as_ref().map_or(Ok(()), |groups| unsafe { groups.close() })
}
