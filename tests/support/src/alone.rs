//! Tests of a whole process: its open files, its memory.

use std::process::Command;

/// Set in the process of such a test.
const ALONE: &str = "LOOM_TEST_ALONE";

/// Runs the test of this name again, in a process of its own. Returns `true` in that process.
///
/// # Panics
/// The test fails there, or does not run.
#[must_use]
pub fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("this program");
    let ended =
        Command::new(program).args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().expect("it starts");
    let printed = String::from_utf8_lossy(&ended.stdout);
    println!("{printed}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && printed.contains("1 passed"), "{test}, alone: {}", ended.status);
    false
}
