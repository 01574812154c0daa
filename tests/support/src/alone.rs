//! Tests of a whole process: its open files, its memory.

use std::process::Command;

use libtest_mimic::{Failed, Trial};

/// Environment variable of the process of such a test.
const ALONE: &str = "LOOM_TEST_ALONE";

/// Returns `true` in the process of such a test.
#[must_use]
pub fn is_child() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs the test of this name again, in a separate process. Returns `true` in that process.
///
/// Its blocks of 1 MiB and more are mappings, which leave the resident memory when they are freed.
/// By default, glibc places later blocks in its heap once it has freed a large one.
///
/// # Panics
/// The test fails there, or does not run.
#[must_use]
pub fn is_alone(test: &str) -> bool {
    is_alone_with(test, &[])
}

/// Like [`is_alone`], with environment variables.
///
/// # Panics
/// Those of [`is_alone`].
#[must_use]
pub fn is_alone_with(test: &str, variables: &[(&str, &str)]) -> bool {
    if is_child() {
        return true;
    }
    let program = std::env::current_exe().expect("this program");
    let ended = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .env("MALLOC_MMAP_THRESHOLD_", "1048576")
        .envs(variables.iter().copied())
        .output()
        .expect("it starts");
    let printed = String::from_utf8_lossy(&ended.stdout);
    println!("{printed}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && printed.contains("1 passed"), "{test}, alone: {}", ended.status);
    false
}

/// Trial that runs in a separate process, as its only test, on the main thread.
pub fn trial(name: String, run: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Trial {
    let test = name.clone();
    Trial::test(name, move || if is_alone(&test) { run() } else { Ok(()) })
}
