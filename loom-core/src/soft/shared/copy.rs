#![allow(unsafe_code, reason = "copies memory")]

use core::ptr;

use crate::transport::{Msg, Refusal};
use crate::vocabulary::Errno;

/// # Safety
/// `src` is valid for reads and `dst` for writes of `len` bytes, and they do not overlap.
#[inline]
pub(crate) unsafe fn copy_message(src: *const u8, dst: *mut u8, len: usize) {
    if !(8..=64).contains(&len) {
        // SAFETY: the caller guarantees both ranges.
        unsafe { copy_by_call(src, dst, len) };
    } else if len >= 32 {
        // SAFETY: the caller guarantees both ranges, and `len` is 32 to 64.
        unsafe { copy_ends::<32>(src, dst, len) };
    } else if len >= 16 {
        // SAFETY: the caller guarantees both ranges, and `len` is 16 to 31.
        unsafe { copy_ends::<16>(src, dst, len) };
    } else {
        // SAFETY: the caller guarantees both ranges, and `len` is 8 to 15.
        unsafe { copy_ends::<8>(src, dst, len) };
    }
}

/// # Safety
/// The requirements of [`copy_message`], and `len` is `N` to `2 * N`.
#[inline(always)]
unsafe fn copy_ends<const N: usize>(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller guarantees `N` bytes. Few instructions: the length is constant.
    unsafe { ptr::copy_nonoverlapping(src, dst, N) };
    // SAFETY: the last `N` bytes lie within.
    let src = unsafe { src.add(len - N) };
    // SAFETY: the last `N` bytes lie within.
    let dst = unsafe { dst.add(len - N) };
    // SAFETY: the caller guarantees both ranges.
    unsafe { ptr::copy_nonoverlapping(src, dst, N) };
}

/// # Safety
/// The requirements of [`copy_message`].
#[inline(never)]
unsafe fn copy_by_call(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller guarantees both ranges.
    unsafe { ptr::copy_nonoverlapping(src, dst, len) };
}

pub(crate) const LIMIT: usize = 4;

/// Address, and length in bytes.
pub(crate) type Range = (*mut u8, usize);

/// Ranges of an offered message, stored in its cell and only read. Unused ranges are empty.
pub(crate) type List = [Range; LIMIT];

pub(crate) const NOTHING: Range = (ptr::null_mut(), 0);

pub(crate) const fn send_limit(eager_size: usize) -> usize {
    if eager_size >= size_of::<List>() { LIMIT } else { 1 }
}

pub(crate) const fn receive_limit(rx_depth: u32) -> usize {
    match rx_depth {
        0..=2 => 1,
        3 => 2,
        4 => 3,
        _ => LIMIT,
    }
}

/// # Safety
/// The ranges are valid, for reads and for writes, and do not overlap.
pub(crate) unsafe fn copy_ranges(mut from: impl Iterator<Item = Range>, mut into: impl Iterator<Item = Range>) {
    let (mut source, mut target) = (NOTHING, NOTHING);
    loop {
        while source.1 == 0 {
            let Some(next) = from.next() else { return };
            source = next;
        }
        while target.1 == 0 {
            let Some(next) = into.next() else { return };
            target = next;
        }
        let len = source.1.min(target.1);
        // SAFETY: the caller guarantees the ranges.
        unsafe { ptr::copy_nonoverlapping(source.0.cast_const(), target.0, len) };
        source = advanced(source, len);
        target = advanced(target, len);
    }
}

pub(crate) fn advanced((ptr, len): Range, by: usize) -> Range {
    (ptr.wrapping_add(by), len - by)
}

pub(crate) fn ranges<'m>(msg: &'m Msg<'_>) -> impl Iterator<Item = Range> + 'm {
    msg.pieces.iter().map(|lent| (lent.ptr.as_ptr(), lent.len))
}

pub(crate) fn total(msg: &Msg<'_>) -> usize {
    msg.pieces.iter().map(|piece| piece.len).sum()
}

pub(crate) fn at_most<P>(limit: usize, pieces: &[P]) -> Result<(), Refusal> {
    if (1..=limit).contains(&pieces.len()) { Ok(()) } else { Err(Refusal::Errno(Errno::EINVAL)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_and_no_byte_beyond() {
        let from: [u8; 200] = core::array::from_fn(|at| u8::try_from(at + 1).unwrap_or(u8::MAX));
        for len in 0..150 {
            let mut into = [0; 200];
            // SAFETY: both arrays are longer than `len`.
            unsafe { copy_message(from.as_ptr(), into.as_mut_ptr(), len) };
            let (copied, beyond) = into.split_at(len);
            assert_eq!(copied, &from[..len]);
            assert!(beyond.iter().all(|byte| *byte == 0), "{len} bytes");
        }
    }
}
