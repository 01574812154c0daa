//! Opening of endpoints.
//!
//! [`in_group`] takes the lock of the group, or [`open`] that of the address vector, and opens again
//! where the name is taken. A failed step closes the endpoint. If that fails, too, the error has
//! `left_open`.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ptr::{self, NonNull};

use loom_core::transport::{CounterAttr, Counters, EndpointError, Endpoints};
use loom_core::vocabulary::{Counted, EndpointAddr, Errno, OptionValue};

use super::closing::Closable;
use super::option::endpoint_set_option;
use super::{Endpoint, close_counted};
use crate::ofi::control::{bind, opened};
use crate::ofi::counter::Counter;
use crate::ofi::fabric::Domain;
use crate::ofi::ffi::call::{done, entry};
use crate::ofi::info::RawInfo;
use crate::ofi::queue::Cq;
use crate::ofi::queue::event_queue::Request;
use crate::ofi::quirks::av_lock::AvLock;
use crate::ofi::quirks::known_behaviour::Facts;
use crate::ofi::quirks::shm_registry::Group;
use crate::ofi::quirks::{
    TakesOptions, are_named_by_processes, counts_writes, has_table, names_by_process, overruns, sm2_table,
    takes_options,
};
use crate::ofi::raw::Raw;
use crate::ofi::sys;
use crate::ofi::threading::Level;
use crate::ofi::transport::Ofi;

/// Objects to bind an endpoint to, and its options.
pub(crate) struct EndpointSetup<'a, L> {
    pub(crate) vector_and_events: [Option<Raw<sys::fid>>; 2],
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
    refuse_unsupported(domain, bound)?;
    let copy = match are_named_by_processes(info) {
        true => Some(info.named_by_this_process()),
        false => bound.selective.then(|| info.try_clone()),
    };
    let mut changed = copy.map(|copy| copy.ok_or(Errno::ENOMEM)).transpose()?;
    if let Some(info) = changed.as_mut().filter(|_| bound.selective) {
        info.report_by_default();
    }
    let info = changed.as_ref().unwrap_or(info);
    let try_open = || {
        // SAFETY: open (H1).
        unsafe { open_bound(domain, info, domain.group(), || {}, bound) }
    };
    // SAFETY: `try_open` returns an open endpoint of the domain.
    let open_in_group = || unsafe { in_group(domain, info, try_open) };
    if domain.group().is_some() {
        return open_in_group();
    }
    let endpoint = turn.take(open_in_group)?;
    Ok(Endpoint { closable: endpoint.closable.in_turn(turn), ..endpoint })
}

fn refuse_unsupported<L>(domain: &Domain<L>, bound: &EndpointSetup<'_, L>) -> Result<(), Errno> {
    let facts = domain.facts();
    let options_work = bound.options.is_empty() || takes_options(facts) != TakesOptions::Never;
    let selective_works = !bound.selective || facts.contains(Facts::SELECTIVE);
    if options_work && selective_works { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// Opens under the lock of the domain's group, if it has one. Repeats `try_open` where another
/// program has the name.
///
/// # Safety
/// `try_open` returns an open endpoint of the domain.
unsafe fn in_group<L: Level>(
    domain: &Domain<L>,
    info: &RawInfo,
    mut try_open: impl FnMut() -> Result<Endpoint<L>, EndpointError>,
) -> Result<Endpoint<L>, EndpointError> {
    /// More than the endpoints that one killed process had open.
    const TRIES: usize = 256;
    let mut open_retrying = || {
        let mut tries = 1;
        loop {
            match try_open() {
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
        None => open_retrying(),
        // SAFETY: the caller guarantees that `try_open` returns an open endpoint.
        Some(group) => group.open(|| unsafe { with_name(open_retrying()?) }),
    }
}

pub(crate) unsafe fn open_msg<L: Level>(
    domain: &Domain<L>,
    info: &RawInfo,
    request: &mut Option<Request>,
    bound: &EndpointSetup<'_, L>,
) -> Result<Endpoint<L>, EndpointError> {
    refuse_unsupported(domain, bound)?;
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
    // SAFETY: open (H1), the info's attributes are only read, and `raw` receives the context.
    let code = unsafe { open(raw_domain.as_ptr(), attributes, &raw mut raw, ptr::null_mut()) };
    let bare = Endpoint::bare(opened(code, raw)?, domain.addr_format(), Closable::ALWAYS);
    let context = Endpoint { overruns: overruns(info), ..bare };
    // The man page does not require a queue. But `tcp` and `net` report cancelled receives there,
    // and crash without it.
    // SAFETY: the context was just opened, and the queue is open (H1).
    match unsafe { bind(context.fid.fid(), queue.fid(), u64::from(sys::FI_RECV)) } {
        Ok(()) => Ok(context),
        // SAFETY: open, without children.
        Err(errno) => Err(unsafe { close_after_failure(context, errno) }),
    }
}

unsafe fn open_bound<L: Level>(
    domain: &Domain<L>,
    info: &RawInfo,
    group: Option<Group>,
    on_opened: impl FnOnce(),
    bound: &EndpointSetup<'_, L>,
) -> Result<Endpoint<L>, EndpointError> {
    let raw_domain = domain.raw();
    let open = entry!(raw_domain, ops => endpoint)?;
    // SAFETY: open (H1).
    unsafe { sm2_table::close_unlisted(domain) }?;
    let mut raw = ptr::null_mut();
    // SAFETY: open (H1), the info only read.
    let code = unsafe { open(raw_domain.as_ptr(), info.as_ptr(), &raw mut raw, ptr::null_mut()) };
    let raw = opened(code, raw)?;
    if has_table(info) {
        // SAFETY: the domain is open (H1), and the endpoint was just opened.
        unsafe { sm2_table::reserve(domain, raw) }?;
    }
    let closable = Closable::of(domain.facts(), info, group);
    let mut endpoint = Endpoint::of(domain, overruns(info), raw, closable, bound.selective);
    on_opened();
    let takes_options = takes_options(domain.facts());
    let counted = bound.counters.iter().any(|(counted, _)| counted.contains(Counted::WRITE));
    let enabled = (|| {
        if counts_writes(info) && !counted {
            // SAFETY: open (H1).
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
    // An endpoint of `sm2` that was never enabled crashes when it closes
    // (`sm2-closing-what-was-not-enabled-crashes`). So it is enabled first, or stays open.
    if let Err(errno) = enabled
        && has_table(info)
        // SAFETY: open (H1).
        && unsafe { enable(endpoint.fid()) }.is_err()
    {
        return Err(EndpointError { errno, left_open: true });
    }
    let enabled = enabled.and_then(|()| match takes_options {
        // SAFETY: open (H1).
        TakesOptions::Enabled => unsafe { set_options(&endpoint, bound) },
        TakesOptions::BeforeEnabled | TakesOptions::Never => Ok(()),
    });
    match enabled {
        Ok(()) => Ok(endpoint),
        // SAFETY: open, without children.
        Err(errno) => Err(unsafe { close_after_failure(endpoint, errno) }),
    }
}

pub(crate) unsafe fn adopt<L: Level>(
    domain: &Domain<L>,
    info: &RawInfo,
    selective: bool,
    mut fi_endpoint: impl FnMut() -> Result<Raw<sys::fid_ep>, Errno>,
) -> Result<Endpoint<L>, EndpointError> {
    let open = || {
        Ok(Endpoint::of(
            domain,
            overruns(info),
            fi_endpoint()?,
            Closable::of(domain.facts(), info, domain.group()),
            selective,
        ))
    };
    // SAFETY: the caller guarantees that `fi_endpoint` returns an open endpoint (H1).
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
        // SAFETY: open, without children.
        Err(errno) => Err(unsafe { close_after_failure(endpoint, errno) }),
    }
}

/// Closes an endpoint whose opening failed.
///
/// # Safety
/// The endpoint is open, without children.
pub(crate) unsafe fn close_after_failure<L>(endpoint: Endpoint<L>, errno: Errno) -> EndpointError {
    // SAFETY: open, without children (H1, H2), and owned, so it is not used again (H3).
    let left_open = unsafe { close_counted(&endpoint) }.is_err();
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
        // SAFETY: open (H1).
        unsafe { bind(fid, object, flags) }
    };
    let (tx, rx) = bound.queues;
    bound.vector_and_events.iter().flatten().try_for_each(|object| bind(*object, 0))?;
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
        // SAFETY: open (H1).
        unsafe { set_options(endpoint, bound) }?;
    }
    // SAFETY: open and bound.
    unsafe { enable(fid) }
}

unsafe fn set_options<L>(endpoint: &Endpoint<L>, bound: &EndpointSetup<'_, L>) -> Result<(), Errno> {
    // SAFETY: open (H1).
    bound.options.iter().try_for_each(|(option, value)| unsafe { endpoint_set_option(endpoint, *option, *value) })
}

pub(crate) unsafe fn enable(fid: Raw<sys::fid>) -> Result<(), Errno> {
    let control = entry!(fid, ops => control)?;
    // SAFETY: open (H1), and the command takes no argument.
    done(unsafe { control(fid.as_ptr(), sys::FI_ENABLE.cast_signed(), ptr::null_mut()) })
}
