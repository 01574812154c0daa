//! Entries of endpoints in the table of `sm2`, which a user's processes share.
//!
//! Without an entry, an enabled endpoint crashes calls of its queue and vector, and its close
//! (`sm2-closing-what-was-not-enabled-crashes`). So a vector reserves the entry, by the name,
//! before the endpoint is bound. If the table is full, the endpoint is closed once there is room.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use loom_core::vocabulary::{CqFormat, Errno, WaitObj};

use super::removal;
use crate::ofi::control::{Av, Domain, Padded, av_close, av_open, bind, close, read_address};
use crate::ofi::endpoint::enable;
use crate::ofi::ffi::call::entry;
use crate::ofi::process::Raw;
use crate::ofi::{queue, sys};

/// `EUSERS`, which providers do not return: the table is full.
pub(crate) const FULL: Errno = Errno::from_raw(87);

#[derive(Debug)]
pub(crate) struct Unlisted(AtomicPtr<sys::fid_ep>);

impl Unlisted {
    pub(crate) const fn none() -> Self {
        Unlisted(AtomicPtr::new(ptr::null_mut()))
    }

    /// Another one, of a concurrent thread, is leaked.
    fn keep(&self, endpoint: Raw<sys::fid_ep>) {
        self.0.store(endpoint.as_ptr(), Ordering::Release);
    }
}

/// If this fails, the endpoint is not used again.
pub(crate) unsafe fn reserve<L>(domain: &Domain<L>, endpoint: Raw<sys::fid_ep>) -> Result<(), Errno> {
    // SAFETY: both are open (H1).
    let reserved = unsafe { reserving(domain, endpoint) }.inspect_err(|_| domain.unlisted().keep(endpoint))?;
    // SAFETY: the vector is open, without endpoints.
    unsafe { av_close(&reserved) }
}

/// Returns the vector with the name.
unsafe fn reserving<L>(domain: &Domain<L>, endpoint: Raw<sys::fid_ep>) -> Result<Av<L>, Errno> {
    let getname = entry!(endpoint, cm => getname)?;
    let fid = endpoint.as_ptr().cast();
    // SAFETY: the endpoint is open (H1), and `bytes` has room for `len` bytes.
    let name = read_address(domain.addr_format(), |bytes, len| unsafe { getname(fid, bytes, len) })?;
    // SAFETY: the domain is open (H1).
    let av = unsafe { av_open(domain, 1, 0) }?;
    // SAFETY: the vector is open. `sm2` reads names in place.
    if unsafe { removal::insert(&av, &Padded::new(&name)) }.is_ok() {
        return Ok(av);
    }
    // SAFETY: the vector is open, without endpoints.
    unsafe { av_close(&av) }.and(Err(FULL))
}

/// Closes the endpoint that has no entry, if the table has room now.
pub(crate) unsafe fn close_unlisted<L>(domain: &Domain<L>) -> Result<(), Errno> {
    let endpoint = domain.unlisted().0.swap(ptr::null_mut(), Ordering::Acquire);
    let Some(endpoint) = NonNull::new(endpoint).map(Raw::opened) else { return Ok(()) };
    // SAFETY: the domain is open (H1). After the swap, this is the only user.
    unsafe { enable_and_close(domain, endpoint) }.inspect_err(|_| domain.unlisted().keep(endpoint))
}

unsafe fn enable_and_close<L>(domain: &Domain<L>, endpoint: Raw<sys::fid_ep>) -> Result<(), Errno> {
    let fid = endpoint.cast();
    // SAFETY: both are open (H1).
    let av = unsafe { reserving(domain, endpoint) }?;
    // SAFETY: the domain is open (H1).
    let cq = unsafe { queue::open_as(domain, 1, CqFormat::CONTEXT, WaitObj::NONE) }?;
    // SAFETY: both are open (H1).
    unsafe { bind(fid, av.fid(), 0) }?;
    // SAFETY: both are open (H1).
    unsafe { bind(fid, cq.fid(), u64::from(sys::FI_TRANSMIT | sys::FI_RECV)) }?;
    // SAFETY: the endpoint is open and bound.
    unsafe { enable(fid) }?;
    // SAFETY: the endpoint is closed once (H3).
    unsafe { close(fid) }?;
    // SAFETY: the queue's endpoint is closed.
    unsafe { queue::cq_close(&cq) }?;
    // SAFETY: the vector's endpoint is closed.
    unsafe { av_close(&av) }
}
