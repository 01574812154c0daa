//! Threads bound to cores, and the far end of a side that needs two threads.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::Scope;
use std::time::Duration;

use core_affinity::CoreId;

/// Returns the cores that this process may use, as they were before any thread was bound.
fn cores() -> &'static [CoreId] {
    static CORES: OnceLock<Vec<CoreId>> = OnceLock::new();
    CORES.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default())
}

/// Returns the number of available cores.
#[must_use]
pub fn count() -> usize {
    cores().len()
}

/// Binds this thread to a core, counted from 0. Returns `true` if that succeeded.
pub fn pin(core: usize) -> bool {
    cores().get(core).is_some_and(|core| core_affinity::set_for_current(*core))
}

/// Starts a process that may use all cores, although this thread is bound to the first one.
pub fn on_all<T>(start: impl FnOnce() -> T) -> T {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: all zeros are the empty set.
    let set = unsafe { set.assume_init_mut() };
    for core in cores() {
        // SAFETY: the core is one of the set's.
        unsafe { libc::CPU_SET(core.id, set) };
    }
    // SAFETY: reads a set of this size.
    unsafe { libc::sched_setaffinity(0, size_of_val(set), set) };
    let started = start();
    pin(0);
    started
}

/// Returns the number of preemptions of threads of this process.
#[must_use]
pub fn preemptions() -> i64 {
    usage(libc::RUSAGE_SELF).ru_nivcsw
}

/// Returns the processor time of this process.
#[must_use]
pub fn processor_time() -> Duration {
    time(&usage(libc::RUSAGE_SELF))
}

/// Returns the processor time of the processes that this one has waited for, and theirs.
#[must_use]
pub fn processor_time_of_children() -> Duration {
    time(&usage(libc::RUSAGE_CHILDREN))
}

fn time(usage: &libc::rusage) -> Duration {
    let time = |time: libc::timeval| {
        let micros = time.tv_sec * 1_000_000 + time.tv_usec;
        Duration::from_micros(micros.try_into().expect("time goes on"))
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn usage(who: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::zeroed();
    // SAFETY: room for the result. All zeros are a valid value.
    unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    // SAFETY: as above.
    unsafe { usage.assume_init() }
}

/// Returns `true` if two cores are available, and prints a message otherwise.
#[must_use]
pub fn has_two(set: &str) -> bool {
    let enough = count() >= 2;
    if !enough {
        println!("{set}: skipped, two cores are needed");
    }
    enough
}

/// The far end of a side: a thread on another core, which sleeps between the rounds of its side and
/// spins in them.
pub struct Peer {
    /// Sender of the number of operations in the next round. The thread ends when it is dropped.
    rounds: Sender<u32>,
    /// Number of rounds that the thread has begun.
    begun: Arc<AtomicU32>,
    told: u32,
}

/// Rounds of a [`Peer`], within its thread.
pub struct Rounds {
    rounds: Receiver<u32>,
    begun: Arc<AtomicU32>,
}

impl Peer {
    /// Starts a thread on a core. `play` opens its objects, and then plays its part of each round
    /// until the rounds end.
    pub fn start<'s>(scope: &'s Scope<'s, '_>, core: usize, play: impl FnOnce(Rounds) + Send + 's) -> Peer {
        let (rounds, receiver) = channel();
        let begun = Arc::new(AtomicU32::new(0));
        let theirs = Rounds { rounds: receiver, begun: Arc::clone(&begun) };
        scope.spawn(move || {
            pin(core);
            play(theirs);
        });
        Peer { rounds, begun, told: 0 }
    }

    /// Begins a round of `count` operations, and waits until the thread has begun it.
    ///
    /// # Panics
    /// If the thread has ended.
    pub fn begin(&mut self, count: u32) {
        self.told = self.told.wrapping_add(1);
        self.rounds.send(count).expect("the peer's thread lives");
        while self.begun.load(Ordering::Acquire) != self.told {
            std::hint::spin_loop();
        }
    }
}

impl Iterator for Rounds {
    /// Operations of the round.
    type Item = u32;

    /// Sleeps until the next round begins. Returns `None` after the last round.
    fn next(&mut self) -> Option<u32> {
        let count = self.rounds.recv().ok()?;
        self.begun.store(self.begun.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        Some(count)
    }
}

/// Ends the process when a thread panics, because the other thread would wait for it forever.
pub fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_plays_the_requested_rounds_and_ends() {
        let played = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let mut peer = Peer::start(scope, 1, |rounds| {
                for count in rounds {
                    played.fetch_add(count, Ordering::Relaxed);
                }
            });
            peer.begin(3);
            peer.begin(4);
        });
        assert_eq!(played.into_inner(), 7);
    }
}
