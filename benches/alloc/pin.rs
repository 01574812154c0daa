//! Processor affinity of this thread (Linux).

use std::io;

/// Binds this thread to a processor.
pub(crate) fn to(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: a set of bits, for which zero is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the size of the set, checked above.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is a live local of this length. Zero is this thread.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
