use std::io::{self, Write};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::play::frame::Message;
use crate::play::link::Link;
use crate::progress::Progress;

/// Some 50 µs, much longer than a round over memory and much shorter than a time slice.
const SPINS: u64 = 4096;

const LOOK: u64 = 64;

/// One side of a game. Never waits.
pub(crate) trait Step {
    /// Returns `true` if anything happened.
    fn step(&mut self) -> Result<bool, Failure>;
}

#[inline]
fn step_all(sides: &mut [impl Step]) -> Result<bool, Failure> {
    let mut happened = false;
    for side in sides {
        happened |= side.step()?;
    }
    Ok(happened)
}

pub(crate) struct Session {
    link: Link,
    timeout: Duration,
    interrupted: Arc<AtomicBool>,
    core: Option<usize>,
    spins: u64,
    idle: u64,
    since: Instant,
    doing: String,
    beats: Arc<AtomicU64>,
}

impl Session {
    pub(crate) fn new(link: Link, timeout: Duration, interrupted: &Arc<AtomicBool>) -> Self {
        // With one processor, a side that spins keeps the other side from answering.
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Session {
            link,
            timeout,
            interrupted: Arc::clone(interrupted),
            core: None,
            spins: if processors > 1 { SPINS } else { 0 },
            idle: 0,
            since: Instant::now(),
            doing: String::new(),
            beats: Arc::default(),
        }
    }

    pub(crate) fn on_core(self, core: Option<usize>) -> Self {
        Session { core, ..self }
    }

    pub(crate) fn core(&self) -> Option<usize> {
        self.core
    }

    /// A deadline does not end a provider's waits: `shm` takes spin locks in shared memory, and a
    /// process killed while it holds one never releases it.
    pub(crate) fn guard(&self) {
        let (beats, patience) = (Arc::downgrade(&self.beats), self.timeout.max(Duration::from_secs(2)));
        thread::spawn(move || {
            let (mut last, mut since) = (0, Instant::now());
            // Ends with the session.
            while let Some(beats) = beats.upgrade().map(|beats| beats.load(Ordering::Relaxed)) {
                if beats != last {
                    (last, since) = (beats, Instant::now());
                } else if since.elapsed() >= patience {
                    let text =
                        "the provider does not return from a call; has the other side died with a lock in its hands?";
                    Progress::new().clear();
                    let _ = writeln!(io::stderr(), "loom: {text}");
                    process::exit(1);
                }
                thread::sleep(Duration::from_millis(200));
            }
        });
    }

    #[inline]
    fn beat(&self) {
        // A single thread writes.
        self.beats.store(self.beats.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn begin(&mut self, doing: String) {
        self.doing = doing;
        self.idle = 0;
    }

    #[inline]
    pub(crate) fn busy(&mut self) -> Result<(), Failure> {
        self.idle = 0;
        self.beat();
        if self.interrupted.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
    }

    /// Spins for a while, then yields, and fails after the timeout.
    #[inline]
    pub(crate) fn idle(&mut self) -> Result<(), Failure> {
        self.idle += 1;
        if self.idle <= self.spins {
            std::hint::spin_loop();
            return Ok(());
        }
        self.look_around()
    }

    #[cold]
    fn look_around(&mut self) -> Result<(), Failure> {
        self.beat();
        let looks = self.idle - self.spins;
        if looks == 1 {
            self.since = Instant::now();
        }
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        if looks.is_multiple_of(LOOK) {
            self.link.watch()?;
        }
        if self.since.elapsed() >= self.timeout {
            return Err(Failure::Timeout { doing: self.doing.clone(), waited: self.timeout });
        }
        thread::yield_now();
        Ok(())
    }

    /// Meanwhile `poll` drives the fabric. It returns `true` if anything happened.
    pub(crate) fn swap(
        &mut self,
        mine: &[u8],
        mut poll: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<Vec<u8>, Failure> {
        self.link.send(Message::Data(mine.to_vec()))?;
        self.busy()?;
        loop {
            if let Some(theirs) = self.link.receive()? {
                return Ok(theirs);
            }
            if poll()? {
                self.busy()?;
            } else {
                self.idle()?;
            }
        }
    }

    /// [`swap`](Self::swap), while the sides of this thread make progress.
    pub(crate) fn swap_beside(&mut self, mine: &[u8], sides: &mut [impl Step]) -> Result<Vec<u8>, Failure> {
        self.swap(mine, || step_all(sides))
    }

    #[inline]
    pub(crate) fn run<S: Step>(&mut self, sides: &mut [S], until: impl Fn(&S) -> bool) -> Result<(), Failure> {
        while !sides.iter().all(&until) {
            if step_all(sides)? { self.busy() } else { self.idle() }?;
        }
        Ok(())
    }

    /// An interruption, or the failure of the other side, if that may be the cause of this one.
    pub(crate) fn reason(&mut self, failure: Failure) -> Failure {
        self.busy().and_then(|()| self.link.watch()).err().unwrap_or(failure)
    }

    pub(crate) fn fail(&mut self, failure: &Failure) {
        let _ = self.link.send(Message::Failed(failure.to_string()));
    }
}
