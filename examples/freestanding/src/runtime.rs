//! Parts of the standard library: the panic handler, and functions that compiled code calls by
//! itself.

use core::fmt::Write;

use crate::world;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _ = writeln!(world::Output(2), "freestanding: {info}");
    world::exit(101)
}

/// Debug builds refer to it in tables for unwinding. Panics abort, so it is never called.
// SAFETY: no other object defines the symbol.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// String instructions, because the compiler may turn a loop that copies into a call of `memcpy`,
/// also within `memcpy`.
mod memory {
    use core::arch::asm;

    // SAFETY: no other object defines the symbol, and the function has the contract of C's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
        // SAFETY: the caller's promise: both ranges are valid. The direction flag is clear, as the
        // ABI has it.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") len => _,
                inout("rdi") to => _,
                inout("rsi") from => _,
                options(nostack, preserves_flags),
            );
        }
        to
    }

    // SAFETY: see `memcpy`.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
        if to.addr().wrapping_sub(from.addr()) >= len {
            // SAFETY: the target does not begin within the source, so copying upwards reads every
            // byte first.
            return unsafe { memcpy(to, from, len) };
        }
        // SAFETY: the caller's promise. `len` is not zero here. Copies downwards, and clears the
        // direction flag again.
        unsafe {
            asm!(
                "std",
                "rep movsb",
                "cld",
                inout("rcx") len => _,
                inout("rdi") to.wrapping_add(len - 1) => _,
                inout("rsi") from.wrapping_add(len - 1) => _,
                options(nostack),
            );
        }
        to
    }

    // SAFETY: see `memcpy`.
    #[unsafe(no_mangle)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "C says: converted to unsigned char")]
    unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
        // SAFETY: the caller's promise: the range is valid.
        unsafe {
            asm!(
                "rep stosb",
                inout("rcx") len => _,
                inout("rdi") to => _,
                in("al") byte as u8,
                options(nostack, preserves_flags),
            );
        }
        to
    }

    // SAFETY: see `memcpy`.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
        let (behind_left, behind_right): (*const u8, *const u8);
        let differs: u8;
        // SAFETY: the caller's promise: both ranges are valid. The comparison of `len` with itself
        // sets "equal" for ranges which are empty.
        unsafe {
            asm!(
                "cmp rcx, rcx",
                "repe cmpsb",
                "setne {differs}",
                inout("rcx") len => _,
                inout("rsi") left => behind_left,
                inout("rdi") right => behind_right,
                differs = out(reg_byte) differs,
                options(nostack, readonly),
            );
        }
        if differs == 0 {
            return 0;
        }
        // SAFETY: the instruction stopped one behind the bytes which differ.
        let left = unsafe { behind_left.wrapping_sub(1).read() };
        // SAFETY: the instruction stopped one behind the bytes which differ.
        let right = unsafe { behind_right.wrapping_sub(1).read() };
        i32::from(left) - i32::from(right)
    }

    // SAFETY: see `memcpy`.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { memcmp(left, right, len) }
    }
}
