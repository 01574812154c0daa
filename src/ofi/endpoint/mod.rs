#![allow(unsafe_code, reason = "calls libfabric")]

pub(crate) mod atomic;
pub(crate) mod closing;
pub(crate) mod collective;
pub(crate) mod connected;
pub(crate) mod connection;
pub(crate) mod iov;
mod message;
pub(crate) mod multicast;
pub(crate) mod open;
pub(crate) mod option;
mod rma;
pub(crate) mod scalable;

use loom_core::transport::{Bindings, Closing, Context, EndpointError, Endpoints, InFlight};
use loom_core::vocabulary::{AddressFormat, EndpointAddr, Errno, OptionValue};

use self::closing::Closable;
use self::multicast::Groups;
use super::av::read_address;
use super::control::close;
use super::counter::Counter;
use super::fabric::Domain;
use super::ffi::call::{entry, errno, other_process};
use super::info::RawInfo;
use super::quirks::known_behaviour::Facts;
use super::quirks::nap::Deserts;
use super::raw::Raw;
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
    /// Receives have a last piece for the rest of longer messages
    /// ([`overrun`](super::quirks::overrun)).
    overruns: bool,
    /// Counter that `ofi_rxm` requires for injected writes. Closed after the endpoint.
    writes: Option<Counter<L>>,
    /// Groups of collective operations. Closed after the endpoint.
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
            shuts_down: domain.facts().contains(Facts::SHUTS_DOWN),
            selective,
            overruns,
            ..Endpoint::bare(raw, domain.addr_format(), closable)
        }
    }

    pub(crate) fn bare(raw: Raw<sys::fid_ep>, addr_format: AddressFormat, closable: Closable) -> Self {
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
        // SAFETY: open (H1).
        let collectives = unsafe { collective::Groups::open(domain, info, av) }?;
        let vector_and_events = [Some(av.fid()), collectives.as_ref().map(|groups| groups.eq().fid())];
        let bound =
            open::EndpointSetup { vector_and_events, queues: (tx, rx), shared_rx: None, counters, selective, options };
        // SAFETY: open (H1).
        match unsafe { open::open(domain, info, av.turn(), &bound) } {
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
        // SAFETY: open (H1), and `bytes` has room for `len` bytes.
        read_address(endpoint.addr_format, |bytes, len| unsafe { getname(fid, bytes, len) })
    }

    unsafe fn endpoint_option(endpoint: &Endpoint<L>, option: u32, kind: OptionValue) -> Result<OptionValue, Errno> {
        // SAFETY: open (H1).
        unsafe { option::endpoint_option(endpoint, option, kind) }
    }

    unsafe fn endpoint_set_option(endpoint: &Endpoint<L>, option: u32, value: OptionValue) -> Result<(), Errno> {
        // SAFETY: open (H1).
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
