//! [`Word`]: integers that the processor changes in one step.

#![allow(unsafe_code, reason = "memory that others change meanwhile")]

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A thread that sees a change sees all writes before it, as between threads.
const ORDER: Ordering = Ordering::AcqRel;

pub(crate) trait Word: Copy + PartialEq {
    const ZERO: Self;

    #[inline]
    fn is_atomic() -> bool {
        true
    }

    /// Loads the value.
    ///
    /// # Safety
    /// `at` is valid and aligned for an atomic of this size, and writable for `u128`. All other
    /// accesses keep the rule of `exposed`. [`is_atomic`](Self::is_atomic) is `true`.
    unsafe fn load(at: *mut Self) -> Self;

    /// # Safety
    /// The rules of [`load`](Self::load), for writable memory.
    unsafe fn compare_exchange(at: *mut Self, old: Self, new: Self) -> Result<(), Self>;

    /// Applies `change` until it succeeds or returns `None`. Returns the previous value.
    ///
    /// # Safety
    /// The rules of [`compare_exchange`](Self::compare_exchange).
    #[inline]
    unsafe fn update(at: *mut Self, change: impl Fn(Self) -> Option<Self>) -> Self {
        // SAFETY: the caller keeps the rules of `load`.
        let mut old = unsafe { Self::load(at) };
        loop {
            let Some(new) = change(old) else { return old };
            // SAFETY: the caller keeps the rules of `compare_exchange`.
            match unsafe { Self::compare_exchange(at, old, new) } {
                Ok(()) => return old,
                Err(other) => old = other,
            }
        }
    }

    /// # Safety
    /// The rules of [`compare_exchange`](Self::compare_exchange).
    unsafe fn fetch_add(at: *mut Self, operand: Self) -> Self;

    /// # Safety
    /// The rules of [`compare_exchange`](Self::compare_exchange).
    unsafe fn swap(at: *mut Self, new: Self) -> Self;
}

macro_rules! words {
    ($($Type:ty, $Atomic:ident;)+) => {$(
        impl Word for $Type {
            const ZERO: Self = 0;

            #[inline]
            unsafe fn load(at: *mut Self) -> Self {
                // SAFETY: the caller guarantees an aligned, valid atomic.
                unsafe { $Atomic::from_ptr(at) }.load(Ordering::Acquire)
            }

            #[inline]
            unsafe fn compare_exchange(at: *mut Self, old: Self, new: Self) -> Result<(), Self> {
                // SAFETY: the caller guarantees an aligned, writable atomic.
                unsafe { $Atomic::from_ptr(at) }.compare_exchange(old, new, ORDER, Ordering::Acquire).map(|_| ())
            }

            #[inline]
            unsafe fn fetch_add(at: *mut Self, operand: Self) -> Self {
                // SAFETY: the caller guarantees an aligned, writable atomic.
                unsafe { $Atomic::from_ptr(at) }.fetch_add(operand, ORDER)
            }

            #[inline]
            unsafe fn swap(at: *mut Self, new: Self) -> Self {
                // SAFETY: the caller guarantees an aligned, writable atomic.
                unsafe { $Atomic::from_ptr(at) }.swap(new, ORDER)
            }
        }
    )+};
}

words! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

impl Word for u128 {
    const ZERO: Self = 0;

    #[inline]
    fn is_atomic() -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            const UNKNOWN: u8 = 2;
            static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
            match ANSWER.load(Ordering::Relaxed) {
                UNKNOWN => {
                    let answer = core::arch::x86_64::__cpuid(1).ecx & (1 << 13) != 0;
                    ANSWER.store(answer.into(), Ordering::Relaxed);
                    answer
                }
                known => known != 0,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    #[inline]
    unsafe fn load(at: *mut Self) -> Self {
        // SAFETY: `load` requires writable memory for `u128`. The exchange replaces at most zero by
        // zero.
        match unsafe { Self::compare_exchange(at, 0, 0) } {
            Ok(()) => 0,
            Err(other) => other,
        }
    }

    #[inline]
    unsafe fn compare_exchange(at: *mut Self, old: Self, new: Self) -> Result<(), Self> {
        #[cfg(target_arch = "x86_64")]
        {
            #[expect(clippy::cast_possible_truncation, reason = "halves")]
            let halves = |value: u128| (value as u64, (value >> 64) as u64);
            let ((mut low, mut high), (new_low, new_high)) = (halves(old), halves(new));
            // Assembly, because without optimisation the intrinsic calls a library that a
            // freestanding program lacks.
            // SAFETY: the caller guarantees an aligned, writable atomic. The code restores `rbx`,
            // which the compiler reserves. The lock prefix makes the exchange sequentially
            // consistent.
            unsafe {
                core::arch::asm!(
                    "xchg {new}, rbx",
                    "lock cmpxchg16b [rdi]",
                    "mov rbx, {new}",
                    new = inout(reg) new_low => _,
                    in("rcx") new_high,
                    inout("rax") low,
                    inout("rdx") high,
                    in("rdi") at,
                    options(nostack),
                );
            }
            let found = u128::from(high) << 64 | u128::from(low);
            if found == old { Ok(()) } else { Err(found) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let (_, _) = (at, new);
            Err(old)
        }
    }

    #[inline]
    unsafe fn fetch_add(at: *mut Self, operand: Self) -> Self {
        // SAFETY: the caller keeps the rules of `update`.
        unsafe { Self::update(at, |old| Some(old.wrapping_add(operand))) }
    }

    #[inline]
    unsafe fn swap(at: *mut Self, new: Self) -> Self {
        // SAFETY: the caller keeps the rules of `update`.
        unsafe { Self::update(at, |_| Some(new)) }
    }
}

#[cfg(test)]
mod tests {
    use super::Word;

    fn interrupted<W: Word + From<u8>>(add: impl Fn(W) -> W) -> (W, W) {
        let mut word = W::from(5);
        let at = &raw mut word;
        let change = |old| {
            if old == W::from(5) {
                // SAFETY: only this pointer accesses the local word.
                unsafe { W::swap(at, W::from(9)) };
            }
            Some(add(old))
        };
        // SAFETY: only this pointer accesses the local word.
        let before = unsafe { W::update(at, change) };
        (before, word)
    }

    #[test]
    fn update_begins_anew_with_the_value_that_was_written_meanwhile() {
        assert_eq!(interrupted(|word: u8| word + 1), (9, 10));
        assert_eq!(interrupted(|word: u64| word + 1), (9, 10));
        if u128::is_atomic() {
            assert_eq!(interrupted(|word: u128| word + 1), (9, 10));
        }
    }
}
