//! One processor for this thread (Linux).

use std::io;

/// Binds this thread to a processor, and returns its number.
pub(crate) fn to(core: usize) -> io::Result<usize> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: a set of bits, all zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set has room for the number.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is one, of this length; zero is this thread.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(core)
}
