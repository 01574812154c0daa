//! C's allocation functions with a counter. The definitions of a program precede those of its
//! libraries.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of calls by all threads.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Number of requests for memory since the program began.
#[expect(clippy::unnecessary_wraps, reason = "there are C libraries for which this cannot be told")]
pub fn calls() -> Option<u64> {
    Some(CALLS.load(Ordering::Relaxed))
}

fn note() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// Functions of glibc, by the names that it reserves for this purpose.
mod glibc {
    use super::c_void;

    unsafe extern "C" {
        pub fn __libc_malloc(size: usize) -> *mut c_void;
        pub fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
        pub fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
        pub fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
        pub fn __libc_free(block: *mut c_void);
    }
}

// SAFETY: keeps the contract of C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    note();
    // SAFETY: the caller keeps the contract.
    unsafe { glibc::__libc_malloc(size) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    note();
    // SAFETY: the caller keeps the contract.
    unsafe { glibc::__libc_calloc(count, size) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    note();
    // SAFETY: the caller keeps the contract.
    unsafe { glibc::__libc_realloc(block, size) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    note();
    // SAFETY: the caller keeps the contract.
    unsafe { glibc::__libc_memalign(align, size) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    note();
    // SAFETY: the caller keeps the contract.
    unsafe { glibc::__libc_memalign(align, size) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    const EINVAL: c_int = 22;
    const ENOMEM: c_int = 12;
    note();
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    // SAFETY: the caller keeps the contract.
    let block = unsafe { glibc::__libc_memalign(align, size) };
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller keeps the contract.
    unsafe { out.write(block) };
    0
}

// SAFETY: as above. Not counted.
#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the caller keeps the contract.
    unsafe { glibc::__libc_free(block) }
}
