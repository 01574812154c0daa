//! Endpoints of `shm` that were forgotten on purpose, or left open, leave their names behind in the file system.

#![allow(unsafe_code, reason = "registers a function for the end of the process")]

use std::sync::Once;

/// Removes what this process leaves behind, when it ends.
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
        // SAFETY: the function neither unwinds nor relies on anything that is gone by then.
        let _ = unsafe { atexit(remove) };
    });
}

/// Removes what a process has left behind: `123:0:1` is of the process 123.
pub fn remove_names_of(process: u32) {
    let own = format!("{process}:");
    for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&own) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
