//! Cycles of an operation, by the time stamp counter: the median of many rounds.

use core::arch::x86_64::{_mm_lfence, _rdtsc};
use core::fmt;

/// How many rounds are measured.
const ROUNDS: usize = 2001;
/// How many run before.
const WARM_UP: usize = 20;
/// How many calls are in a round: the counter of many processors moves in steps of dozens.
const CALLS: u64 = 32;

/// Reads the counter after everything before is done, and before anything behind begins.
fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
    unsafe { _mm_lfence() };
    // SAFETY: as above.
    let now = unsafe { _rdtsc() };
    // SAFETY: as above.
    unsafe { _mm_lfence() };
    now
}

/// The median of the measured rounds, the fastest and the slowest of the middle nine tenths.
pub struct Figures {
    median: u64,
    low: u64,
    high: u64,
}

/// Runs the rounds; there are so many operations in each call.
pub fn measure<E>(operations: u64, mut call: impl FnMut(u64) -> Result<(), E>) -> Result<Figures, E> {
    let mut cycles = [0; ROUNDS];
    let mut number = 0;
    let mut round = || {
        for _ in 0..CALLS {
            call(number)?;
            number += 1;
        }
        Ok(())
    };
    for _ in 0..WARM_UP {
        round()?;
    }
    for slot in &mut cycles {
        let begin = now();
        round()?;
        *slot = now().saturating_sub(begin) / (CALLS * operations);
    }
    cycles.sort_unstable();
    Ok(Figures { median: cycles[ROUNDS / 2], low: cycles[ROUNDS / 20], high: cycles[ROUNDS - 1 - ROUNDS / 20] })
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "median {:>6} cycles, {:>6} to {:>6} in nine of ten rounds", self.median, self.low, self.high)
    }
}
