use core::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use core::fmt;

/// Reads the counter after all previous instructions, and before all later ones.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _mm_lfence() };
    // SAFETY: every x86-64 processor has the instruction. Linux permits its use.
    let now = unsafe { _rdtsc() };
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _mm_lfence() };
    now
}

/// Timer without the least cycles between two reads.
pub struct Timer(u64);

impl Timer {
    pub fn calibrated() -> Self {
        Timer((0..10_000).map(|_| now().abs_diff(now())).min().unwrap_or(0))
    }

    /// Cycles since `begin`, minus those of reading the counter.
    #[inline(always)]
    pub fn since(&self, begin: u64) -> u64 {
        now().saturating_sub(begin).saturating_sub(self.0)
    }
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reading the counter takes {} cycles, subtracted", self.0)
    }
}

/// `None` on a processor that is not virtual.
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

/// Returns `true` if QEMU translates the instructions, so that cycles are meaningless.
pub fn is_emulated() -> bool {
    hypervisor().is_some_and(|name| name == *b"TCGTCGTCGTCG")
}
