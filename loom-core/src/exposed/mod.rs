//! Memory that peers read and write at any time, and the rule for accessing it.
//!
//! **The rule.** In terms of Rust's memory model, every access to exposed memory, by loom and by
//! peers, is a sequence of relaxed atomic accesses of one byte each. Devices, the kernel and
//! libfabric's C code are outside the model, and are treated alike. References `&[u8]` and `&mut
//! [u8]` to exposed memory never exist. A race with a peer is therefore not undefined behaviour: it
//! yields a mixture of old and new bytes, and no byte that was never written. Order comes from
//! completions: a thread that has polled the completion or the remote event of a transfer sees all
//! of its bytes.
//!
//! **Elements.** Atomic operations of peers and of the owner ([`Window::element`]) access an
//! aligned element as one atomic of its size. Copies are of bytes: a copy that races with such an
//! operation sees some old and some new bytes of the element. Rust's memory model does not define
//! races of atomics of different sizes, but processors do.
//!
//! On x86-64 the bulk copies are inline assembly, equivalent to a loop of one-byte relaxed
//! accesses. Elsewhere, and with `--cfg loom_byte_copies` (for tools that cannot analyse assembly),
//! they are that loop. Besides them only [`crate::atomic`] accesses exposed memory.

#![allow(unsafe_code, reason = "the accesses that the rule is about")]

mod element;

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::util::debug::debug_struct;
use crate::vocabulary::RangeError;

pub use self::element::ExposedElement;

/// Copies bytes from or to exposed memory. Transports call this.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes, of `len` bytes each. Either or both are exposed
/// memory. If they overlap, which requires both to be exposed, the bytes of `dst` are a mixture.
#[inline(always)]
pub unsafe fn copy_exposed(src: *const u8, dst: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom_byte_copies))))]
    // SAFETY: the caller guarantees both ranges for `len` bytes.
    unsafe {
        copy(src, dst, len);
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom_byte_copies)))))]
    for at in 0..len {
        // SAFETY: `at < len`, and the caller guarantees both ranges for `len` bytes.
        let (from, to) = unsafe { (src.add(at), dst.add(at)) };
        // SAFETY: the byte is valid for reads. Other accesses, if any, are atomic.
        let byte = unsafe { &*from.cast::<AtomicU8>() }.load(Ordering::Relaxed);
        // SAFETY: the byte is valid for writes. Other accesses, if any, are atomic.
        unsafe { &*to.cast::<AtomicU8>() }.store(byte, Ordering::Relaxed);
    }
}

/// # Safety
/// The requirements of [`copy_exposed`].
#[cfg(all(target_arch = "x86_64", not(any(miri, loom_byte_copies))))]
#[inline]
unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    #[cfg(target_feature = "sse2")]
    {
        const LONG: usize = 2048;
        // On some processors (AMD EPYC), `rep movsb` is 25 times slower if the destination lies
        // less than 64 bytes above the source modulo a page.
        let aliased = (1..64).contains(&(dst.addr().wrapping_sub(src.addr()) % 4096));
        if len < LONG || aliased {
            // SAFETY: the caller guarantees both ranges for `len` bytes.
            return unsafe { copy_in_loop(src, dst, len) };
        }
    }
    // SAFETY: the caller guarantees both ranges for `len` bytes. The ABI keeps the direction flag
    // clear. In the abstract machine this is a loop of relaxed one-byte loads and stores.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") src => _,
            inout("rdi") dst => _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
/// The requirements of [`copy_exposed`].
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(any(miri, loom_byte_copies))))]
#[inline]
unsafe fn copy_in_loop(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller guarantees both ranges for `len` bytes. Copies 64 bytes at a time, then 8,
    // then one. In the abstract machine this is a loop of relaxed one-byte loads and stores.
    unsafe {
        core::arch::asm!(
            "2:",
            "cmp {len}, 64",
            "jb 3f",
            "movups {a}, [{src}]",
            "movups {b}, [{src} + 16]",
            "movups {c}, [{src} + 32]",
            "movups {d}, [{src} + 48]",
            "movups [{dst}], {a}",
            "movups [{dst} + 16], {b}",
            "movups [{dst} + 32], {c}",
            "movups [{dst} + 48], {d}",
            "add {src}, 64",
            "add {dst}, 64",
            "sub {len}, 64",
            "jmp 2b",
            "3:",
            "cmp {len}, 8",
            "jb 4f",
            "mov {word}, [{src}]",
            "mov [{dst}], {word}",
            "add {src}, 8",
            "add {dst}, 8",
            "sub {len}, 8",
            "jmp 3b",
            "4:",
            "test {len}, {len}",
            "jz 5f",
            "mov {word:l}, [{src}]",
            "mov [{dst}], {word:l}",
            "inc {src}",
            "inc {dst}",
            "dec {len}",
            "jmp 4b",
            "5:",
            len = inout(reg) len => _,
            src = inout(reg) src => _,
            dst = inout(reg) dst => _,
            word = out(reg_abcd) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// This side's view of memory that peers can reach: copies, single atomic bytes and a raw pointer.
///
/// ```
/// use loom_core::{Access, Mr};
///
/// # fixture::domain!(network, domain);
/// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ)?;
/// let window = region.window();
/// window.copy_from(8, b"for peers")?;
/// let mut bytes = [0; 9];
/// window.slice(8, 9)?.copy_to(0, &mut bytes)?;
/// assert_eq!(&bytes, b"for peers");
/// assert!(window.copy_to(60, &mut bytes).is_err(), "that is behind its end");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Window<'m> {
    ptr: NonNull<u8>,
    len: usize,
    writable: bool,
    memory: PhantomData<&'m [AtomicU8]>,
}

// SAFETY: a window acts like a shared slice of atomic bytes.
unsafe impl Send for Window<'_> {}
// SAFETY: a window acts like a shared slice of atomic bytes.
unsafe impl Sync for Window<'_> {}

impl<'m> Window<'m> {
    /// # Safety
    /// The range is valid for `'m`. During that time all accesses keep the rule of this module, and
    /// the range is not written unless `writable`.
    pub(crate) const unsafe fn new(ptr: NonNull<u8>, len: usize, writable: bool) -> Self {
        Window { ptr, len, writable, memory: PhantomData }
    }

    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length of memory, not a collection")]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Returns `true` if the bytes may be written.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.writable
    }

    /// Pointer to the first byte. Accesses through it keep the rule of the module.
    #[must_use]
    pub const fn as_ptr(self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Part of the window.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`] if the range does not lie within.
    pub fn slice(self, offset: usize, len: usize) -> Result<Self, RangeError> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(RangeError::OutOfWindow);
        }
        // SAFETY: `slice` has checked that the offset is within the window.
        let ptr = unsafe { self.ptr.add(offset) };
        Ok(Window { ptr, len, ..self })
    }

    /// Copies bytes out of the window, starting at `offset`.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`], without copying, if the range does not lie within.
    pub fn copy_to(self, offset: usize, out: &mut [u8]) -> Result<(), RangeError> {
        let part = self.slice(offset, out.len())?;
        // SAFETY: the part lies within the window, and an exclusive borrow does not overlap exposed
        // memory.
        unsafe { copy_exposed(part.ptr.as_ptr(), out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies bytes into the window, starting at `offset`.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`] if the range does not lie within, [`RangeError::ReadOnly`] if the
    /// window is not writable. No byte is copied then.
    pub fn copy_from(self, offset: usize, bytes: &[u8]) -> Result<(), RangeError> {
        let part = self.slice(offset, bytes.len())?;
        if !self.writable {
            return Err(RangeError::ReadOnly);
        }
        // SAFETY: the part lies within the writable window, and a borrow does not overlap exposed
        // memory.
        unsafe { copy_exposed(bytes.as_ptr(), part.ptr.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Loads one byte. Bytes that the peer wrote earlier may arrive later.
    ///
    /// ```
    /// use core::sync::atomic::Ordering;
    /// use loom_core::{Access, Cq, Forever, Mr};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// # let cq: Cq<'_, _, Vec<u8>> = cq;
    /// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
    /// cq.retry(Forever, || alice.inject_write(to_bob, &region.remote(), 63, &[1]))?;
    /// // The owner watches the last byte.
    /// while region.window().load(63, Ordering::Acquire)? == 0 {
    ///     cq.progress()?;
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// `Release` acts as `Relaxed`, and `AcqRel` as `Acquire`.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`] if the offset does not lie within.
    pub fn load(self, offset: usize, order: Ordering) -> Result<u8, RangeError> {
        let part = self.slice(offset, 1)?;
        let order = match order {
            Ordering::Release => Ordering::Relaxed,
            Ordering::AcqRel => Ordering::Acquire,
            order => order,
        };
        // SAFETY: the byte lies within the window, and is read as an atomic.
        Ok(unsafe { AtomicU8::from_ptr(part.ptr.as_ptr()) }.load(order))
    }
}

/// Memory for remote updates (`loom_updates`) over providers without RMA.
impl<'m> From<&'m [AtomicU64]> for Window<'m> {
    fn from(words: &'m [AtomicU64]) -> Self {
        // SAFETY: shared atomics may be changed through a shared borrow, and are valid for its
        // lifetime. Accesses through the slice are atomic, as the rule requires of elements.
        unsafe { Window::new(NonNull::from_ref(words).cast(), size_of_val(words), true) }
    }
}

debug_struct!(Window['_], |it| ptr: it.ptr, len: it.len);

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn copies_move_exactly_the_requested_bytes() {
        const EDGE: usize = 80;
        let bytes: Vec<u8> = (0..3 * 4096 + EDGE).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let lengths = (0..300).chain([511, 1024, 2047, 2048, 2049, 4096, 8191]);
        for (len, shift) in lengths.flat_map(|len| [0, 1, 7, 16, 63, 64].map(|shift| (len, shift))) {
            let mut memory = std::vec![0xee_u8; bytes.len() + EDGE];
            // SAFETY: only the window accesses the vector.
            let window = unsafe { Window::new(NonNull::from(&mut memory[..]).cast(), memory.len(), true) };
            let at = bytes.as_ptr().addr().wrapping_add(shift).wrapping_sub(window.as_ptr().addr()) % 4096;
            window.copy_from(at, &bytes[..len]).unwrap();
            let mut back = std::vec![0; len + EDGE];
            window.copy_to(at, &mut back[..len]).unwrap();
            assert_eq!(back[..len], bytes[..len], "{len} bytes, {shift}");
            assert!(back[len..].iter().all(|byte| *byte == 0), "nothing behind the destination");
            window.copy_to(at + len, &mut back[..EDGE]).unwrap();
            assert!(back[..EDGE].iter().all(|byte| *byte == 0xee), "nothing behind the window's range");
            let before = at.min(EDGE);
            window.copy_to(at - before, &mut back[..before]).unwrap();
            assert!(back[..before].iter().all(|byte| *byte == 0xee), "nothing before the window's range");
        }
    }
}
