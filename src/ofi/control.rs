#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::c_int;
use core::ptr::NonNull;

use loom_core::vocabulary::Errno;

use super::fabric::Domain;
use super::ffi::call::{done, entry};
use super::raw::Raw;
use super::sys;

/// `fi_close`
///
/// # Safety
/// Contract of callers. The object is not used again, whatever this returns.
pub(crate) unsafe fn close(fid: Raw<sys::fid>) -> Result<(), Errno> {
    let close = entry!(fid, ops => close)?;
    // SAFETY: open, without open children (H2), and closed once (H3).
    done(unsafe { close(fid.as_ptr()) })
}

/// `fi_ep_bind`, `fi_pep_bind`
///
/// # Safety
/// Contract of callers: both objects are open.
pub(crate) unsafe fn bind(fid: Raw<sys::fid>, object: Raw<sys::fid>, flags: u64) -> Result<(), Errno> {
    let bind = entry!(fid, ops => bind)?;
    // SAFETY: open (H1).
    done(unsafe { bind(fid.as_ptr(), object.as_ptr(), flags) })
}

/// `fi_control` with `FI_GETWAIT`. Returns `ENOSYS` for wait objects of other kinds.
///
/// # Safety
/// Contract of callers: the object is open.
pub(crate) unsafe fn wait_fd(fid: Raw<sys::fid>) -> Result<c_int, Errno> {
    let control = entry!(fid, ops => control)?;
    #[repr(C)]
    struct Wait {
        fd: c_int,
        room: [u64; 8],
    }
    let mut wait = Wait { fd: -1, room: [0; 8] };
    // SAFETY: open (H1), and `wait` has room for wait objects of every kind.
    done(unsafe { control(fid.as_ptr(), sys::FI_GETWAIT.cast_signed(), (&raw mut wait).cast()) })?;
    if wait.fd < 0 || wait.room != [0; 8] { Err(Errno::ENOSYS) } else { Ok(wait.fd) }
}

/// `fi_trywait` of one object.
///
/// # Safety
/// Contract of callers. The object belongs to this domain or its fabric.
pub(crate) unsafe fn try_wait<L>(domain: &Domain<L>, fid: Raw<sys::fid>) -> Result<bool, Errno> {
    let fabric = domain.fabric();
    let try_wait = entry!(fabric, ops => trywait)?;
    let mut fid = fid.as_ptr();
    // SAFETY: fabric and object are open (H1), and the count is that of the pointers.
    match done(unsafe { try_wait(fabric.as_ptr(), &raw mut fid, 1) }) {
        Ok(()) => Ok(true),
        Err(Errno::EAGAIN) => Ok(false),
        Err(errno) => Err(errno),
    }
}

pub(crate) fn opened<F>(code: i32, raw: *mut F) -> Result<Raw<F>, Errno> {
    done(code)?;
    NonNull::new(raw).map(Raw::opened).ok_or(Errno::EOTHER)
}
