//! Copies: of short messages without a call, and between several ranges of memory on both sides.

#![allow(unsafe_code, reason = "copies memory")]

use core::ptr;

use crate::buffer::Lent;
use crate::transport::{Msg, Refusal};
use crate::vocabulary::Errno;

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

/// The most buffers of one operation.
pub(super) const LIMIT: usize = 4;

/// A range of memory.
pub(super) type Range = (*mut u8, usize);

/// The ranges of an offered message, in its cell; those which it does not have are empty. They are only read from.
pub(super) type List = [Range; LIMIT];

/// No bytes.
pub(super) const NOTHING: Range = (ptr::null_mut(), 0);

/// How many buffers a message can be sent out of, from cells of this eager size.
pub(super) const fn send_limit(eager_size: usize) -> usize {
    if eager_size >= size_of::<List>() { LIMIT } else { 1 }
}

/// How many buffers a message can be received into, with this number of places for receives.
pub(super) const fn receive_limit(rx_depth: u32) -> usize {
    match rx_depth {
        0..=2 => 1,
        3 => 2,
        4 => 3,
        _ => LIMIT,
    }
}

/// Copies from ranges to ranges, until one side is used up.
///
/// # Safety
/// The ranges are valid, for reads and for writes, and do not overlap.
pub(super) unsafe fn copy_ranges(mut from: impl Iterator<Item = Range>, mut into: impl Iterator<Item = Range>) {
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
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(source.0.cast_const(), target.0, len) };
        source = advanced(source, len);
        target = advanced(target, len);
    }
}

/// What is left of a range behind its first `by` bytes.
pub(super) fn advanced((ptr, len): Range, by: usize) -> Range {
    (ptr.wrapping_add(by), len - by)
}

/// What was lent with an operation.
pub(super) fn ranges<'m>(msg: &'m Msg<'_>) -> impl Iterator<Item = Range> + 'm {
    msg.pieces.iter().map(|lent| (lent.ptr().as_ptr(), lent.len()))
}

/// How many bytes that is: as much memory as there can be (C9).
pub(super) fn total(msg: &Msg<'_>) -> usize {
    msg.pieces.iter().map(Lent::len).sum()
}

/// Whether there is one at least, and no more than this: the objects have seen to it.
pub(super) fn at_most<P>(limit: usize, pieces: &[P]) -> Result<(), Refusal> {
    if (1..=limit).contains(&pieces.len()) { Ok(()) } else { Err(Refusal::Errno(Errno::EINVAL)) }
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
