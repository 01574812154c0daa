//! The system calls, with their errors.

#![allow(unsafe_code, reason = "calls of the C library")]

use core::ffi::{CStr, c_int, c_long, c_void};
use core::ptr;

use super::MapError;

/// How many nodes a mask has room for: as many as Linux can be built for.
const NODES: usize = 1024;
const WORD: usize = u64::BITS as usize;

fn failed(call: &'static CStr) -> MapError {
    // SAFETY: no arguments that could be wrong.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the C library's error number of this thread.
    MapError::new(call, unsafe { *errno })
}

fn done(result: c_int, call: &'static CStr) -> Result<(), MapError> {
    if result == 0 { Ok(()) } else { Err(failed(call)) }
}

/// The size of a page, in bytes.
pub(super) fn page_size() -> usize {
    // SAFETY: no arguments that could be wrong.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

/// Addresses that are not in use and cannot be accessed.
pub(super) fn reserve(len: usize) -> Result<*mut c_void, MapError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel chooses the addresses.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(failed(c"mmap")) } else { Ok(at) }
}

/// Memory at addresses where nothing is: of the file, or without one. `EEXIST` if something is there.
pub(super) fn map_at(at: *mut c_void, len: usize, huge: c_int, file: Option<c_int>) -> Result<(), MapError> {
    let (kind, fd) = match file {
        // The file has pages of the size that it was made with.
        Some(fd) => (libc::MAP_SHARED, fd),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | huge, -1),
    };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: it replaces nothing.
    let mapped = unsafe { libc::mmap(at, len, access, kind | libc::MAP_FIXED_NOREPLACE, fd, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(failed(c"mmap"));
    }
    if mapped != at {
        // Kernels before 4.17 take the address for a wish.
        // SAFETY: mapped just now.
        unsafe { unmap(mapped, len) };
        return Err(MapError::new(c"mmap", libc::EEXIST));
    }
    Ok(())
}

/// # Safety
/// The addresses are mapped or reserved, and are not in use any more.
pub(super) unsafe fn unmap(at: *mut c_void, len: usize) {
    if len > 0 {
        // SAFETY: the caller's promise. It fails where the process has too many mappings: then they stay.
        unsafe { libc::munmap(at, len) };
    }
}

/// # Safety
/// The range is mapped.
pub(super) unsafe fn advise(at: *mut c_void, len: usize, advice: c_int) -> Result<(), MapError> {
    // SAFETY: the caller's promise; none of the advice that is given here changes contents.
    done(unsafe { libc::madvise(at, len, advice) }, c"madvise")
}

/// # Safety
/// The range is mapped.
pub(super) unsafe fn lock(at: *mut c_void, len: usize) -> Result<(), MapError> {
    // SAFETY: the caller's promise.
    done(unsafe { libc::mlock(at, len) }, c"mlock")
}

/// Binds pages that no thread has touched to one node.
///
/// # Safety
/// The range is mapped.
pub(super) unsafe fn bind(at: *mut c_void, len: usize, node: u32) -> Result<(), MapError> {
    /// `MPOL_BIND`: from this node and no other.
    const BIND: c_long = 2;
    let mut mask = [0_u64; NODES / WORD];
    let place = node as usize;
    let Some(word) = mask.get_mut(place / WORD) else { return Err(MapError::new(c"mbind", libc::EINVAL)) };
    *word = 1 << (place % WORD);
    // SAFETY: the caller's promise; the mask has that number of bits. (The kernel looks at one less than the number says.)
    let bound = unsafe { libc::syscall(libc::SYS_mbind, at, len, BIND, mask.as_ptr(), NODES + 1, 0_usize) };
    if bound == 0 { Ok(()) } else { Err(failed(c"mbind")) }
}

/// A file in memory of `len` bytes, with pages of a size (`MFD_HUGE_…`, or zero). It keeps its size for all who have a descriptor:
/// memory that is mapped of a file which was made shorter is not there any more, and a program that touches it ends (`SIGBUS`).
pub(super) fn memory_file(len: usize, huge: u32) -> Result<c_int, MapError> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | if huge == 0 { 0 } else { libc::MFD_HUGETLB | huge };
    // SAFETY: the name is a string of C.
    let fd = unsafe { libc::memfd_create(c"loom".as_ptr(), flags) };
    if fd < 0 {
        return Err(failed(c"memfd_create"));
    }
    let sized = libc::off_t::try_from(len).map_err(|_| MapError::new(c"ftruncate", libc::EFBIG)).and_then(|len| {
        // SAFETY: the file was made just now.
        done(unsafe { libc::ftruncate(fd, len) }, c"ftruncate")?;
        // The last one: no seal is added later, such as one against writing.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: as above.
        done(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) }, c"fcntl")
    });
    match sized {
        Ok(()) => Ok(fd),
        Err(error) => {
            close(fd);
            Err(error)
        }
    }
}

/// Closes a file that was made here, and is not used any more.
pub(super) fn close(fd: c_int) {
    // SAFETY: it is this module's own. What is mapped of it stays.
    unsafe { libc::close(fd) };
}
