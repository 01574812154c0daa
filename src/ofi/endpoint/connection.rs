#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ptr;

use loom_core::transport::EndpointError;
use loom_core::transport::connected::Fid;
use loom_core::vocabulary::{AddressFormat, EndpointAddr, EndpointOption, Errno, OptionValue};

use super::Endpoint;
use super::option;
use crate::ofi::av::{Padded, read_address, takes};
use crate::ofi::control::{bind, close, opened};
use crate::ofi::fabric::Domain;
use crate::ofi::ffi::call::{done, entry};
use crate::ofi::info::RawInfo;
use crate::ofi::queue::event_queue::{Eq, Request, named};
use crate::ofi::quirks::known_behaviour::Facts;
use crate::ofi::raw::Raw;
use crate::ofi::sys;
use crate::ofi::threading::Handle;

/// A passive endpoint, raw.
#[doc(alias = "fid_pep")]
#[derive(Debug)]
pub struct PassiveEndpoint<L> {
    fid: Handle<sys::fid_pep, L>,
    addr_format: AddressFormat,
    /// Copy that lives as long as the endpoint: `sockets` keeps pointers into it.
    info: ManuallyDrop<RawInfo>,
    closes: bool,
}

impl<L> PassiveEndpoint<L> {
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.fid.fid()
    }
}

pub(crate) unsafe fn listen<L>(
    domain: &Domain<L>,
    info: &RawInfo,
    eq: &Eq<L>,
) -> Result<PassiveEndpoint<L>, EndpointError> {
    let fabric = domain.fabric();
    let open = entry!(fabric, ops => passive_ep)?;
    let info = info.try_clone().ok_or(Errno::ENOMEM)?;
    let mut raw = ptr::null_mut();
    // SAFETY: open (H1), the info only read.
    let code = unsafe { open(fabric.as_ptr(), info.as_ptr(), &raw mut raw, ptr::null_mut()) };
    let passive = PassiveEndpoint {
        fid: Handle::new(opened(code, raw)?),
        addr_format: domain.addr_format(),
        info: ManuallyDrop::new(info),
        closes: domain.facts().contains(Facts::CLOSES_LISTENERS),
    };
    // SAFETY: the endpoint was just opened, and the queue is open (H1).
    let listening = unsafe { bind(passive.fid.fid(), eq.fid(), 0) }.and_then(|()| {
        let raw = passive.fid.raw();
        let listen = entry!(raw, cm => listen)?;
        // SAFETY: the endpoint was just opened, and is bound.
        done(unsafe { listen(raw.as_ptr()) })
    });
    match listening {
        Ok(()) => Ok(passive),
        Err(errno) => {
            // SAFETY: open, not shared, and not used again, without connections.
            let left_open = unsafe { close_and_free(&passive) }.is_err();
            Err(EndpointError { errno, left_open })
        }
    }
}

pub(crate) unsafe fn passive_close<L>(passive: &PassiveEndpoint<L>) -> Result<(), Errno> {
    if !passive.closes {
        return Err(Errno::EBUSY);
    }
    // SAFETY: the endpoint is closed once (H1, H3).
    unsafe { close_and_free(passive) }
}

/// # Safety
/// Contract of callers. The endpoint is not used again, whatever this returns.
unsafe fn close_and_free<L>(passive: &PassiveEndpoint<L>) -> Result<(), Errno> {
    // SAFETY: the endpoint is closed once (H1, H3).
    unsafe { close(passive.fid.fid()) }?;
    // SAFETY: freed once, here: the endpoint is not used again.
    drop(unsafe { ptr::read(&raw const *passive.info) });
    Ok(())
}

pub(crate) fn passive_fid<L>(passive: &PassiveEndpoint<L>) -> Fid {
    named(passive.fid.fid().as_ptr())
}

pub(crate) unsafe fn passive_address<L>(passive: &PassiveEndpoint<L>) -> Result<EndpointAddr, Errno> {
    let raw = passive.fid.raw();
    let getname = entry!(raw, cm => getname)?;
    let fid = passive.fid.fid().as_ptr();
    // SAFETY: open (H1), and `bytes` has room for `len` bytes.
    read_address(passive.addr_format, |bytes, len| unsafe { getname(fid, bytes, len) })
}

pub(crate) unsafe fn passive_cm_data_size<L>(passive: &PassiveEndpoint<L>) -> Result<usize, Errno> {
    let raw = passive.fid.raw();
    let getopt = entry!(raw, ops => getopt)?;
    let option = EndpointOption::CM_DATA_SIZE.as_raw();
    // SAFETY: open (H1).
    match unsafe { option::get(passive.fid.fid(), getopt, option, OptionValue::Size(0)) }? {
        OptionValue::Size(size) => Ok(size),
        _ => Err(Errno::EOTHER),
    }
}

fn lent(data: &[u8]) -> (*const c_void, usize) {
    if data.is_empty() { (ptr::null(), 0) } else { (data.as_ptr().cast(), data.len()) }
}

pub(crate) unsafe fn reject<L>(passive: &PassiveEndpoint<L>, request: &Request, data: &[u8]) -> Result<(), Errno> {
    let raw = passive.fid.raw();
    let reject = entry!(raw, cm => reject)?;
    let (data, len) = lent(data);
    // SAFETY: the endpoint is open (H1), and the request was made to it and not used up (E2).
    done(unsafe { reject(raw.as_ptr(), request.0.as_ptr(), data, len) })
}

pub(crate) unsafe fn connect<L>(endpoint: &Endpoint<L>, to: &EndpointAddr, data: &[u8]) -> Result<(), Errno> {
    if !takes(endpoint.addr_format(), to) {
        return Err(Errno::EINVAL);
    }
    let padded = Padded::new(to);
    let raw = endpoint.raw();
    let connect = entry!(raw, cm => connect)?;
    let (data, len) = lent(data);
    // SAFETY: open (H1). The address has enough memory, and is copied.
    done(unsafe { connect(raw.as_ptr(), (&raw const padded).cast(), data, len) })
}

pub(crate) unsafe fn accept<L>(endpoint: &Endpoint<L>, data: &[u8]) -> Result<(), Errno> {
    let raw = endpoint.raw();
    let accept = entry!(raw, cm => accept)?;
    let (data, len) = lent(data);
    // SAFETY: the endpoint is open (H1), and the caller guarantees that it was opened for a
    // request.
    done(unsafe { accept(raw.as_ptr(), data, len) })
}

pub(crate) unsafe fn shutdown<L>(endpoint: &Endpoint<L>) -> Result<(), Errno> {
    if !endpoint.shuts_down() {
        return Err(Errno::EOPNOTSUPP);
    }
    let raw = endpoint.raw();
    let shutdown = entry!(raw, cm => shutdown)?;
    // SAFETY: the endpoint is open (H1), and the caller guarantees that it was connected. No flags
    // are defined.
    done(unsafe { shutdown(raw.as_ptr(), 0) })
}

pub(crate) unsafe fn peer_address<L>(endpoint: &Endpoint<L>) -> Result<EndpointAddr, Errno> {
    let raw = endpoint.raw();
    let getpeer = entry!(raw, cm => getpeer)?;
    // SAFETY: open (H1), and `bytes` has room for `len` bytes.
    read_address(endpoint.addr_format(), |bytes, len| unsafe { getpeer(raw.as_ptr(), bytes, len) })
}
