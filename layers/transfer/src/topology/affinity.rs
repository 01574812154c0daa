use core::marker::PhantomData;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Guard of a thread's processors. Dropping it allows the earlier ones again.
#[derive(Debug)]
#[must_use = "dropping it allows the earlier processors again"]
pub struct Bound {
    before: CpuSet,
    not_send: PhantomData<*const ()>,
}

/// Restricts the calling thread to these processors, as far as it may use them now.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_transfer::topology::{SysFolder, Topology, bind_thread};
///
/// let topology = Topology::read_in(&SysFolder::default(), Global)?;
/// let node = topology.cards().first().and_then(|card| card.node).unwrap_or(0);
/// match bind_thread(topology.processors(node).flatten()) {
///     Ok(bound) => drop(bound), // Kept as long as the thread polls.
///     Err(error) => eprintln!("the thread is not bound: {error}"),
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # Errors
/// [`InvalidInput`](io::ErrorKind::InvalidInput) without a processor that it may use, and those of
/// the system call.
///
/// # References
/// - `man 2 sched_setaffinity`
pub fn bind_thread(processors: impl IntoIterator<Item = u32>) -> io::Result<Bound> {
    let before = sched_getaffinity(None)?;
    let mut chosen = CpuSet::new();
    for processor in processors.into_iter().map(|processor| processor as usize) {
        if processor < CpuSet::MAX_CPU && before.is_set(processor) {
            chosen.set(processor);
        }
    }
    if chosen.count() == 0 {
        let why = "the thread may run on none of these processors: choose others, or widen its affinity";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    sched_setaffinity(None, &chosen)?;
    Ok(Bound { before, not_send: PhantomData })
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}
