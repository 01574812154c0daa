//! Endpoints: opening, closing, their address, cancelling.
//!
//! Every `unsafe fn` here relies on the [contract of callers](loom_core::transport#contract-of-callers).

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ptr::{self, NonNull};

use loom_core::transport::{Bindings, Closing, Context, CounterAttr, EndpointError, InFlight};
use loom_core::vocabulary::{AddressFormat, Counted, EndpointAddr, Errno, OptionValue};

use super::av_lock::AvLock;
use super::call::{done, entry, errno, other_process};
use super::closing::Closable;
use super::collective;
use super::control::{Domain, bind, close, opened, read_address};
use super::counter::{self, Counter};
use super::event_queue::Request;
use super::info::RawInfo;
use super::known_behaviour::Facts;
use super::multicast::Groups;
use super::nap::Deserts;
use super::option::endpoint_set_option;
use super::process::Raw;
use super::queue::Cq;
use super::quirks::{TakesOptions, are_named_by_processes, counts_writes, names_by_process, overruns, takes_options};
use super::shm_registry::Group;
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
    /// Whether its connection can be shut down before it is closed.
    shuts_down: bool,
    groups: Groups<L>,
    /// Whether sends, reads and writes report their success only where flags or the default ask for it.
    selective: bool,
    /// Whether its receives have a last piece for the rest of messages that are too long.
    overruns: bool,
    /// What counts its writes, where it needs that and the program does not: closed after it.
    writes: Option<Counter<L>>,
    /// For its collective groups, if it can have any: closed after it.
    collectives: Option<collective::Groups<L>>,
    /// Queues and counters that closing it leaves unsafe to sleep on.
    deserts: Deserts,
}

impl<L> Endpoint<L> {
    /// Of this domain, in no group.
    pub(super) fn of(
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
    pub(super) const fn raw(&self) -> Raw<sys::fid_ep> {
        self.fid.raw()
    }

    #[inline]
    pub(super) const fn fid(&self) -> Raw<sys::fid> {
        self.fid.fid()
    }

    pub(super) const fn addr_format(&self) -> AddressFormat {
        self.addr_format
    }

    pub(super) const fn is_selective(&self) -> bool {
        self.selective
    }

    #[inline]
    pub(super) const fn overruns(&self) -> bool {
        self.overruns
    }

    pub(super) const fn shuts_down(&self) -> bool {
        self.shuts_down
    }

    pub(super) const fn groups(&self) -> &Groups<L> {
        &self.groups
    }

    pub(super) const fn collectives(&self) -> Option<&collective::Groups<L>> {
        self.collectives.as_ref()
    }
}

/// What an endpoint is bound to, and set to, before it is enabled.
pub(super) struct EndpointSetup<'a, L> {
    /// An address vector, an event queue, or both.
    pub(super) to: [Option<Raw<sys::fid>>; 2],
    /// Of transmits and of receives; they may be one.
    pub(super) queues: (&'a Cq<L>, &'a Cq<L>),
    /// What it receives through, if not by itself.
    pub(super) shared_rx: Option<&'a Endpoint<L>>,
    pub(super) counters: &'a [(Counted, &'a Counter<L>)],
    /// Whether sends, reads and writes need not report their success.
    pub(super) selective: bool,
    pub(super) options: &'a [(u32, OptionValue)],
}

/// A connectionless endpoint.
pub(super) unsafe fn open_connectionless<L>(
    domain: &Domain<L>,
    info: &RawInfo,
    bind: Bindings<'_, Ofi<L>>,
) -> Result<Endpoint<L>, EndpointError>
where
    L: Level,
{
    let Bindings { tx, rx, av, counters, selective, options } = bind;
    // SAFETY: the contract of callers.
    let collectives = unsafe { collective::Groups::open(domain, info, av) }?;
    let to = [Some(av.fid()), collectives.as_ref().map(|groups| groups.eq().fid())];
    let bound = EndpointSetup { to, queues: (tx, rx), shared_rx: None, counters, selective, options };
    // SAFETY: as above.
    match unsafe { open(domain, info, av.turn(), &bound) } {
        Ok(endpoint) => Ok(Endpoint { collectives, ..endpoint }),
        Err(error) => {
            if let Some(collectives) = collectives.filter(|_| !error.left_open) {
                // SAFETY: there is no endpoint.
                let left_open = unsafe { collectives.close() }.is_err();
                return Err(EndpointError { left_open, ..error });
            }
            Err(error)
        }
    }
}

pub(super) unsafe fn open<L>(
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
        // SAFETY: the contract of callers.
        unsafe { open_bound(domain, info, domain.group(), || {}, bound) }
    };
    // SAFETY: what it opens is open.
    let open = || unsafe { in_group(domain, info, once) };
    if domain.group().is_some() {
        return open();
    }
    let opened = turn.take(open)?;
    Ok(Endpoint { closable: opened.closable.in_turn(turn), ..opened })
}

/// Whether the provider is known to do what the endpoint is asked for.
fn check<L>(domain: &Domain<L>, bound: &EndpointSetup<'_, L>) -> Result<(), Errno> {
    let facts = domain.facts();
    let options = bound.options.is_empty() || takes_options(facts) != TakesOptions::Never;
    let selective = !bound.selective || facts.contains(Facts::SELECTIVE);
    if options && selective { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// Opens an endpoint by `once`, which may be called again where names are somebody else's, as one of the domain's group.
///
/// # Safety
/// What `once` opens is open, and of the domain.
unsafe fn in_group<L>(
    domain: &Domain<L>,
    info: &RawInfo,
    mut once: impl FnMut() -> Result<Endpoint<L>, EndpointError>,
) -> Result<Endpoint<L>, EndpointError> {
    /// How many names to pass over that another program has: more than the endpoints that one killed process had open.
    const TRIES: usize = 256;
    let mut opened = || {
        let mut tries = 1;
        loop {
            match once() {
                // Each endpoint's name has the next number. What was refused must not be inserted as a peer's
                // (`shm-name-that-was-refused-crashes`): it begins with this process's number, and the group refuses those that are not open.
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
        // SAFETY: the caller's promise.
        Some(group) => group.open(|| unsafe { with_name(opened()?) }),
    }
}

/// An endpoint that is to be connected: by asking for it, or by accepting a request.
pub(super) unsafe fn open_msg<L>(
    domain: &Domain<L>,
    info: &RawInfo,
    request: &mut Option<Request>,
    bound: &EndpointSetup<'_, L>,
) -> Result<Endpoint<L>, EndpointError> {
    check(domain, bound)?;
    if domain.group().is_some() {
        // The provider does not say which endpoints it is connected with: it could never be closed.
        return Err(Errno::EOPNOTSUPP.into());
    }
    let handle = request.as_ref().map(|request| request.0);
    let mut info = info.for_endpoint(handle, bound.shared_rx.is_some()).ok_or(Errno::ENOMEM)?;
    if bound.selective {
        info.report_by_default();
    }
    // Opened, the endpoint has taken over what the handle names, whatever becomes of it.
    let taken = || *request = None;
    // SAFETY: the handle is that of a request which was not used up (C21).
    unsafe { open_bound(domain, &info, None, taken, bound) }
}

/// A shared receive context.
pub(super) unsafe fn open_shared_rx<L>(
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
    // SAFETY: the domain is open (C1); the attributes belong to the info and are read only; `raw` is where
    // the context goes.
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
    // The man page does not ask for a queue. But that is where `tcp` and `net` report what was cancelled, and they crash
    // without.
    // SAFETY: just opened; the queue is open (C1).
    match unsafe { bind(context.fid.fid(), queue.fid(), u64::from(sys::FI_RECV)) } {
        Ok(()) => Ok(context),
        Err(errno) => Err(undone(&context, errno)),
    }
}

/// Opens an endpoint that is going to be of a group, calls `opened_it`, binds the endpoint and enables it.
unsafe fn open_bound<L>(
    domain: &Domain<L>,
    info: &RawInfo,
    group: Option<Group>,
    opened_it: impl FnOnce(),
    bound: &EndpointSetup<'_, L>,
) -> Result<Endpoint<L>, EndpointError> {
    let raw_domain = domain.raw();
    let open = entry!(raw_domain, ops => endpoint)?;
    let mut raw = ptr::null_mut();
    // SAFETY: the domain is open (C1); the info is read only; `raw` is where the endpoint goes.
    let code = unsafe { open(raw_domain.as_ptr(), info.as_ptr(), &raw mut raw, ptr::null_mut()) };
    let closable = Closable::of(domain.facts(), info, group);
    let mut endpoint = Endpoint::of(domain, overruns(info), opened(code, raw)?, closable, bound.selective);
    opened_it();
    let counted = bound.counters.iter().any(|(counted, _)| counted.contains(Counted::WRITE));
    let enabled = (|| {
        if counts_writes(info) && !counted {
            // SAFETY: the domain is open (C1).
            endpoint.writes = Some(unsafe { counter::open(domain, CounterAttr::default()) }?);
        }
        if domain.sleeps() && !domain.facts().contains(Facts::SLEEPS_AFTER_CLOSE) {
            let (tx, rx) = bound.queues;
            endpoint.deserts.add([tx, rx].map(Cq::fid))?;
            endpoint.deserts.add(bound.counters.iter().map(|(_, counter)| counter.fid()))?;
        }
        // SAFETY: just opened; the others are open (C1).
        unsafe { bind_and_enable(&endpoint, takes_options(domain.facts()), bound) }
    })();
    match enabled {
        Ok(()) => Ok(endpoint),
        Err(errno) => Err(undone(&endpoint, errno)),
    }
}

/// What `open_it` opens, bound and enabled.
pub(super) unsafe fn adopt<L>(
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
    // SAFETY: what it opens is open (C1).
    unsafe { in_group(domain, info, open) }
}

/// What a group wants to know of an endpoint that was just opened.
///
/// # Safety
/// The endpoint is open.
unsafe fn with_name<L>(endpoint: Endpoint<L>) -> Result<(Endpoint<L>, NonNull<sys::fid>, EndpointAddr), EndpointError> {
    // SAFETY: the caller's promise.
    match unsafe { address(&endpoint) } {
        Ok(address) => {
            let fid = endpoint.fid().pointer();
            Ok((endpoint, fid, address))
        }
        Err(errno) => Err(undone(&endpoint, errno)),
    }
}

/// A context of a scalable endpoint that was just opened.
pub(super) fn context<L>(raw: Raw<sys::fid_ep>, addr_format: AddressFormat, closable: Closable) -> Endpoint<L> {
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

/// Closes what was just opened, because of an error.
pub(super) fn undone<L>(endpoint: &Endpoint<L>, errno: Errno) -> EndpointError {
    // SAFETY: open, without children, unknown to anybody, and not used again. A failed close is not retried.
    let left_open = unsafe { close_counted(endpoint) }.is_err();
    EndpointError { errno, left_open }
}

/// Unless it is to be selective, binds without `FI_SELECTIVE_COMPLETION`: every post except inject is answered by an event. If
/// it is, the default flags of `info` see to the same, and calls with flags say for themselves.
unsafe fn bind_and_enable<L>(
    endpoint: &Endpoint<L>,
    takes_options: TakesOptions,
    bound: &EndpointSetup<'_, L>,
) -> Result<(), Errno> {
    let fid = endpoint.fid.fid();
    let (transmit, receive) = (u64::from(sys::FI_TRANSMIT), u64::from(sys::FI_RECV));
    let bind = |object, flags| {
        // SAFETY: all these objects are open (C1).
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
    let set_options = || {
        // SAFETY: the contract of callers.
        bound.options.iter().try_for_each(|(option, value)| unsafe { endpoint_set_option(endpoint, *option, *value) })
    };
    if takes_options == TakesOptions::BeforeEnabled {
        set_options()?;
    }
    let control = entry!(fid, ops => control)?;
    let enable = i32::try_from(sys::FI_ENABLE).map_err(|_| Errno::EOTHER)?;
    // SAFETY: the endpoint is open and has what it needs; the command takes no argument.
    done(unsafe { control(fid.as_ptr(), enable, ptr::null_mut()) })?;
    if takes_options == TakesOptions::Enabled { set_options() } else { Ok(()) }
}

pub(super) unsafe fn endpoint_close<L>(endpoint: &Endpoint<L>, in_flight: InFlight) -> Result<Closing, Errno> {
    if !endpoint.raw().is_here() {
        return Err(other_process());
    }
    // SAFETY: the contract of callers.
    if unsafe { endpoint.groups.leave_all() }.is_err() {
        // No interface leads to a group for now; its children keep the endpoint open.
        return Ok(Closing::Retired);
    }
    // SAFETY: as above; its groups, the endpoint's children, are closed.
    endpoint.closable.close(in_flight, endpoint.fid.fid(), || unsafe { close_counted(endpoint) })
}

/// Closes an endpoint, and what is its own: what counts its writes, and its collective groups.
///
/// # Safety
/// The contract of callers.
unsafe fn close_counted<L>(endpoint: &Endpoint<L>) -> Result<(), Errno> {
    // SAFETY: the queues and counters of an open endpoint are open (C2).
    unsafe { endpoint.deserts.mark() };
    // SAFETY: the contract of callers.
    unsafe { close(endpoint.fid.fid()) }?;
    // SAFETY: as above; nothing else is bound to it.
    endpoint.writes.as_ref().map_or(Ok(()), |writes| unsafe { counter::counter_close(writes) })?;
    // SAFETY: the endpoint is closed.
    endpoint.collectives.as_ref().map_or(Ok(()), |groups| unsafe { groups.close() })
}

pub(super) fn endpoint_leave<L>(endpoint: &Endpoint<L>, for_good: bool) -> bool {
    endpoint.closable.leave(endpoint.fid.fid(), for_good)
}

pub(super) unsafe fn address<L>(endpoint: &Endpoint<L>) -> Result<EndpointAddr, Errno> {
    let raw = endpoint.raw();
    let getname = entry!(raw, cm => getname)?;
    let fid = endpoint.fid.fid().as_ptr();
    // SAFETY: the endpoint is open (C1); there is as much room as the length says.
    read_address(endpoint.addr_format, |bytes, len| unsafe { getname(fid, bytes, len) })
}

pub(super) unsafe fn cancel<L>(endpoint: &Endpoint<L>, context: Context) -> Result<(), Errno> {
    let raw = endpoint.raw();
    let cancel = entry!(raw, ops => cancel)?;
    let fid = endpoint.fid.fid().as_ptr();
    // SAFETY: the endpoint is open (C1). The context is compared with those of posted operations, and
    // is followed only where the provider asks for contexts, which are then valid until their event.
    match unsafe { cancel(fid, context.as_ptr().cast()) } {
        0 => Ok(()),
        code => Err(errno(code)),
    }
}
