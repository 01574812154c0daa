//! Removal of the names that endpoints of `shm` leave in the file system, if they were forgotten on
//! purpose, or left open.

#![allow(unsafe_code, reason = "registers a function for the end of the process")]

use std::sync::Once;

/// Removes the names of this process when it ends.
pub fn remove_at_exit() {
    extern "C" fn remove() {
        remove_names_of(std::process::id());
    }
    unsafe extern "C" {
        /// `man atexit`
        fn atexit(function: extern "C" fn()) -> i32;
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function does not unwind, and uses no state that has ended by then.
        let _ = unsafe { atexit(remove) };
    });
}

/// Removes the names of a process: `123:0:1` is of the process 123.
pub fn remove_names_of(process: u32) {
    let own = format!("{process}:");
    for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&own) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
