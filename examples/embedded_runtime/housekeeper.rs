//! The housekeeper: what a program does besides, a little at a time.

use std::time::{Duration, Instant};

use crate::runtime::{Failure, Task};

/// How often there is something to do.
const EVERY: Duration = Duration::from_millis(1);

pub(crate) struct Housekeeper {
    next: Option<Instant>,
    jobs: u64,
}

impl Housekeeper {
    pub(crate) fn new() -> Self {
        Housekeeper { next: Some(Instant::now()), jobs: 0 }
    }

    pub(crate) const fn jobs(&self) -> u64 {
        self.jobs
    }
}

impl Task for Housekeeper {
    fn turn(&mut self, _: Instant) -> Result<(), Failure> {
        Ok(())
    }

    fn timer(&mut self, due: Instant, now: Instant) -> Result<(), Failure> {
        self.jobs += 1;
        // What was missed is not made up for.
        self.next = Some((due + EVERY).max(now));
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        self.next
    }

    fn stop(&mut self) {
        self.next = None;
    }

    fn is_idle(&self) -> bool {
        true
    }
}
