//! [`copy_message`]: copies of short messages without a call.

#![allow(unsafe_code, reason = "copies memory")]

use core::ptr;

/// Copies a message's bytes.
///
/// Most are short, and for those a call costs more than the copy: it makes its caller give up every register.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes of `len` bytes, and they do not overlap.
#[inline]
pub(super) unsafe fn copy_message(src: *const u8, dst: *mut u8, len: usize) {
    if !(8..=64).contains(&len) {
        // SAFETY: the caller's promise.
        unsafe { copy_by_call(src, dst, len) };
    } else if len >= 32 {
        // SAFETY: the caller's promise, and 32 to 64 bytes.
        unsafe { copy_ends::<32>(src, dst, len) };
    } else if len >= 16 {
        // SAFETY: the caller's promise, and 16 to 31 bytes.
        unsafe { copy_ends::<16>(src, dst, len) };
    } else {
        // SAFETY: the caller's promise, and 8 to 15 bytes.
        unsafe { copy_ends::<8>(src, dst, len) };
    }
}

/// Copies the first and the last `N` bytes, which may be partly the same.
///
/// # Safety
/// As [`copy_message`], and `len` is `N` at least and not more than twice as much.
#[inline(always)]
unsafe fn copy_ends<const N: usize>(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller's promise. A few instructions: the length is constant.
    unsafe { ptr::copy_nonoverlapping(src, dst, N) };
    // SAFETY: the last `N` bytes lie within.
    let src = unsafe { src.add(len - N) };
    // SAFETY: as above.
    let dst = unsafe { dst.add(len - N) };
    // SAFETY: as above.
    unsafe { ptr::copy_nonoverlapping(src, dst, N) };
}

/// # Safety
/// As [`copy_message`].
#[inline(never)]
unsafe fn copy_by_call(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(src, dst, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_and_nothing_beyond() {
        let from: [u8; 200] = core::array::from_fn(|at| u8::try_from(at + 1).unwrap_or(u8::MAX));
        for len in 0..150 {
            let mut into = [0; 200];
            // SAFETY: both arrays are longer.
            unsafe { copy_message(from.as_ptr(), into.as_mut_ptr(), len) };
            let (copied, beyond) = into.split_at(len);
            assert_eq!(copied, &from[..len]);
            assert!(beyond.iter().all(|byte| *byte == 0), "{len} bytes");
        }
    }
}
