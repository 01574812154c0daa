//! The processor: its time stamp counter, and whether it is one.

use core::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use core::fmt;

/// Reads the counter after everything before is done, and before anything behind begins.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _mm_lfence() };
    // SAFETY: every x86-64 processor has the instruction; Linux lets programs use it, and a processor without a system, too.
    let now = unsafe { _rdtsc() };
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _mm_lfence() };
    now
}

/// How exact the counter is.
pub struct Timer {
    /// Cycles between two reads with nothing in between, the least of many.
    pub overhead: u64,
    /// The greatest step of which all differences are multiples.
    step: u64,
}

impl Timer {
    /// Measures it.
    pub fn calibrated() -> Self {
        let mut timer = Timer { overhead: u64::MAX, step: 0 };
        for _ in 0..10_000 {
            let begin = now();
            let between = now().saturating_sub(begin);
            timer.overhead = timer.overhead.min(between);
            timer.step = common_divisor(timer.step, between);
        }
        timer
    }

    /// Cycles since `begin`, less what reading the counter takes.
    #[inline(always)]
    pub fn since(&self, begin: u64) -> u64 {
        now().saturating_sub(begin).saturating_sub(self.overhead)
    }
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the counter moves in steps of {}; reading it takes {} cycles, subtracted", self.step, self.overhead)
    }
}

const fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The twelve bytes by which a hypervisor or emulator names itself; none on a processor that is not virtual.
pub fn hypervisor() -> Option<[u8; 12]> {
    const PRESENT: u32 = 1 << 31;
    if __cpuid(1).ecx & PRESENT == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let mut name = [0; 12];
    for (bytes, register) in name.as_chunks_mut().0.iter_mut().zip([leaf.ebx, leaf.ecx, leaf.edx]) {
        *bytes = register.to_le_bytes();
    }
    Some(name)
}

/// Whether instructions are translated by QEMU: its cycles are none of any processor.
pub fn is_emulated() -> bool {
    hypervisor().is_some_and(|name| name == *b"TCGTCGTCGTCG")
}
