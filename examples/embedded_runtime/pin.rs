//! One processor for this thread (Linux).

use std::io;

/// Binds this thread to a processor, or to the one that it is on; and returns its number.
pub(crate) fn to(core: Option<usize>) -> io::Result<usize> {
    // SAFETY: without arguments.
    let current = || usize::try_from(unsafe { libc::sched_getcpu() }).map_err(|_| io::Error::last_os_error());
    let core = core.map_or_else(current, Ok)?;
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
