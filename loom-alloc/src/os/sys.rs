#![allow(unsafe_code, reason = "calls of the C library")]

use core::ffi::{c_int, c_long, c_void};
use core::ptr;

use loom_core::Error;
use loom_core::vocabulary::Errno;

/// Maximum of Linux.
const NODES: usize = 1024;
const WORD: usize = u64::BITS as usize;

pub(super) fn page_size() -> usize {
    // SAFETY: takes a constant.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

pub(super) fn reserve(len: usize) -> Result<*mut c_void, Error> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel chooses the addresses.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(last("mmap")) } else { Ok(at) }
}

/// Fails with `EEXIST` if the addresses are in use.
pub(super) fn map_at(at: *mut c_void, len: usize, huge: c_int, file: Option<c_int>) -> Result<(), Error> {
    let (kind, fd) = match file {
        Some(fd) => (libc::MAP_SHARED, fd),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | huge, -1),
    };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: replaces no mapping.
    let mapped = unsafe { libc::mmap(at, len, access, kind | libc::MAP_FIXED_NOREPLACE, fd, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(last("mmap"));
    }
    if mapped != at {
        // Kernels before 4.17 take the address as a hint.
        // SAFETY: mapped just now.
        unsafe { unmap(mapped, len) };
        return Err(failed("mmap", libc::EEXIST));
    }
    Ok(())
}

/// # Safety
/// The addresses are mapped or reserved, and no longer in use.
pub(super) unsafe fn unmap(at: *mut c_void, len: usize) {
    if len > 0 {
        // SAFETY: the caller guarantees an unused range. With too many mappings the range stays.
        unsafe { libc::munmap(at, len) };
    }
}

/// # Safety
/// The range is mapped.
pub(super) unsafe fn advise(at: *mut c_void, len: usize, advice: c_int) -> Result<(), Error> {
    // SAFETY: the caller guarantees a mapped range. The advice used here keeps contents.
    done(unsafe { libc::madvise(at, len, advice) }, "madvise")
}

/// # Safety
/// The range is mapped.
pub(super) unsafe fn lock(at: *mut c_void, len: usize) -> Result<(), Error> {
    // SAFETY: the caller guarantees a mapped range.
    done(unsafe { libc::mlock(at, len) }, "mlock")
}

/// # Safety
/// The range is mapped.
pub(super) unsafe fn bind(at: *mut c_void, len: usize, node: u32) -> Result<(), Error> {
    /// `MPOL_BIND`: only this node.
    const BIND: c_long = 2;
    let mut mask = [0_u64; NODES / WORD];
    let place = node as usize;
    let Some(word) = mask.get_mut(place / WORD) else { return Err(failed("mbind", libc::EINVAL)) };
    *word = 1 << (place % WORD);
    // SAFETY: the caller guarantees a mapped range. The mask has `NODES` bits (the kernel reads one
    // less than the number).
    let bound = unsafe { libc::syscall(libc::SYS_mbind, at, len, BIND, mask.as_ptr(), NODES + 1, 0_usize) };
    if bound == 0 { Ok(()) } else { Err(last("mbind")) }
}

/// Seals the length: access beyond a shortened file's end ends the process (`SIGBUS`).
pub(super) fn memory_file(len: usize, huge: u32) -> Result<c_int, Error> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | if huge == 0 { 0 } else { libc::MFD_HUGETLB | huge };
    // SAFETY: passes a C string.
    let fd = unsafe { libc::memfd_create(c"loom".as_ptr(), flags) };
    if fd < 0 {
        return Err(last("memfd_create"));
    }
    let sized = libc::off_t::try_from(len).map_err(|_| failed("ftruncate", libc::EFBIG)).and_then(|len| {
        // SAFETY: created just now.
        done(unsafe { libc::ftruncate(fd, len) }, "ftruncate")?;
        // Forbids further seals.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: created just now.
        done(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) }, "fcntl")
    });
    match sized {
        Ok(()) => Ok(fd),
        Err(error) => {
            close(fd);
            Err(error)
        }
    }
}

/// New descriptor of a sealed file, and its length.
pub(super) fn shared_file(file: c_int) -> Result<(c_int, usize), Error> {
    // SAFETY: the kernel checks the descriptor.
    let fd = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 0) };
    done(fd.min(0), "fcntl")?;
    // SAFETY: opened just now.
    let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
    // SAFETY: opened just now.
    let len = unsafe { libc::lseek(fd, 0, libc::SEEK_END) };
    match usize::try_from(len) {
        Ok(len) if len > 0 && seals >= 0 && seals & libc::F_SEAL_SHRINK != 0 => Ok((fd, len)),
        _ => {
            close(fd);
            Err(failed("fcntl", libc::EINVAL))
        }
    }
}

pub(super) fn close(fd: c_int) {
    // SAFETY: this module owns the descriptor. Mappings stay.
    unsafe { libc::close(fd) };
}

pub(super) const fn failed(call: &'static str, errno: c_int) -> Error {
    Error::System { call, errno: Errno::from_raw(errno) }
}

pub(super) fn is(error: &Error, number: c_int) -> bool {
    matches!(error, Error::System { errno, .. } if errno.as_raw() == number)
}

fn last(call: &'static str) -> Error {
    // SAFETY: takes no arguments.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: address of this thread's error number.
    failed(call, unsafe { *errno })
}

fn done(result: c_int, call: &'static str) -> Result<(), Error> {
    if result == 0 { Ok(()) } else { Err(last(call)) }
}
