//! Entries of endpoints in the table of `sm2`, which a user's processes share.
//!
//! Without an entry, an enabled endpoint crashes the process
//! (`sm2-closing-what-was-not-enabled-crashes`). So a vector reserves the entry, by the name,
//! before the endpoint is bound. If the table is full, the endpoint is closed once there is room.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use loom_core::transport::AddressVectors;
use loom_core::vocabulary::{CqFormat, Errno, WaitObj};

use super::removal;
use crate::ofi::av::{Av, Padded, read_address};
use crate::ofi::control::{bind, close};
use crate::ofi::endpoint::open::enable;
use crate::ofi::fabric::Domain;
use crate::ofi::ffi::call::entry;
use crate::ofi::queue::{self, Cq};
use crate::ofi::raw::Raw;
use crate::ofi::sys;
use crate::ofi::threading::Level;
use crate::ofi::transport::Ofi;

/// `EUSERS`, which providers do not return: the table is full.
pub(crate) const FULL: Errno = Errno::from_raw(87);

#[derive(Debug)]
pub(crate) struct Unlisted {
    endpoint: AtomicPtr<sys::fid_ep>,
    /// An object was leaked, so that the domain stays open.
    leaked: AtomicBool,
}

impl Unlisted {
    pub(crate) const fn none() -> Self {
        Unlisted { endpoint: AtomicPtr::new(ptr::null_mut()), leaked: AtomicBool::new(false) }
    }

    /// Another one, of a concurrent thread, is leaked.
    fn keep(&self, endpoint: Raw<sys::fid_ep>) {
        if !self.endpoint.swap(endpoint.as_ptr(), Ordering::AcqRel).is_null() {
            self.leak();
        }
    }

    fn leak(&self) {
        self.leaked.store(true, Ordering::Release);
    }

    pub(crate) fn has_leaked(&self) -> bool {
        self.leaked.load(Ordering::Acquire)
    }
}

/// If this fails, the endpoint is not used again.
pub(crate) unsafe fn reserve<L: Level>(domain: &Domain<L>, endpoint: Raw<sys::fid_ep>) -> Result<(), Errno> {
    // SAFETY: open (H1).
    let reserved = unsafe { reserving(domain, endpoint) }.and_then(|av| {
        // SAFETY: the vector is open, without endpoints.
        unsafe { close_av(domain, &av) }
    });
    reserved.inspect_err(|_| domain.unlisted().keep(endpoint))
}

/// Returns the vector with the name.
unsafe fn reserving<L: Level>(domain: &Domain<L>, endpoint: Raw<sys::fid_ep>) -> Result<Av<L>, Errno> {
    let getname = entry!(endpoint, cm => getname)?;
    let fid = endpoint.as_ptr().cast();
    // SAFETY: open (H1), and `bytes` has room for `len` bytes.
    let name = read_address(domain.addr_format(), |bytes, len| unsafe { getname(fid, bytes, len) })?;
    // SAFETY: open (H1).
    let av = unsafe { Ofi::av_open(domain, 1, 0) }?;
    // SAFETY: the vector is open. `sm2` reads names in place.
    if unsafe { removal::insert(&av, &Padded::new(&name)) }.is_ok() {
        return Ok(av);
    }
    // SAFETY: the vector is open, without endpoints.
    unsafe { close_av(domain, &av) }.and(Err(FULL))
}

/// # Safety
/// The vector is open, without endpoints, and not used again.
unsafe fn close_av<L: Level>(domain: &Domain<L>, av: &Av<L>) -> Result<(), Errno> {
    // SAFETY: the caller guarantees that the vector is open, without endpoints.
    unsafe { close(av.fid()) }.inspect_err(|_| domain.unlisted().leak())
}

/// Closes the endpoint without an entry, if the table has room now.
pub(crate) unsafe fn close_unlisted<L: Level>(domain: &Domain<L>) -> Result<(), Errno> {
    let unlisted = domain.unlisted();
    let endpoint = unlisted.endpoint.swap(ptr::null_mut(), Ordering::AcqRel);
    let Some(endpoint) = NonNull::new(endpoint).map(Raw::opened) else { return Ok(()) };
    // SAFETY: open (H1). After the swap, this is the only user.
    let (av, cq) = unsafe { enable_it(domain, endpoint) }.inspect_err(|_| unlisted.keep(endpoint))?;
    // SAFETY: the endpoint is closed once (H3).
    let closed = unsafe { close(endpoint.cast()) }.and_then(|()| {
        // SAFETY: the queue's endpoint is closed.
        let cq = unsafe { close(cq.fid()) };
        // SAFETY: the vector's endpoint is closed.
        cq.and(unsafe { close(av.fid()) })
    });
    closed.inspect_err(|_| unlisted.leak())
}

/// Returns the endpoint's vector and queue.
unsafe fn enable_it<L: Level>(domain: &Domain<L>, endpoint: Raw<sys::fid_ep>) -> Result<(Av<L>, Cq<L>), Errno> {
    let fid = endpoint.cast();
    // SAFETY: open (H1).
    let av = unsafe { reserving(domain, endpoint) }?;
    // SAFETY: open (H1).
    let cq = unsafe { queue::open_as(domain, 1, CqFormat::CONTEXT, WaitObj::NONE) }.inspect_err(|_| {
        // SAFETY: the vector is open, without endpoints.
        let _ = unsafe { close_av(domain, &av) };
    })?;
    let bind = |object, flags| {
        // SAFETY: open (H1).
        unsafe { bind(fid, object, flags) }
    };
    let bound = bind(av.fid(), 0).and_then(|()| bind(cq.fid(), u64::from(sys::FI_TRANSMIT | sys::FI_RECV)));
    // SAFETY: open and bound.
    let enabled = bound.and_then(|()| unsafe { enable(fid) });
    // The endpoint may be bound to them.
    enabled.inspect_err(|_| domain.unlisted().leak())?;
    Ok((av, cq))
}
