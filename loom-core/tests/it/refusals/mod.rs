//! Code that the types refuse. Beside each case is an accepted twin that differs in one respect
//! only.
//!
//! The cases are in `compile_fail/`, and their messages are those of Rust 1.95. Another compiler
//! words them differently, so there only the twins run. To renew the messages, run
//! `TRYBUILD=overwrite cargo test --features std --test it refusals`, then read each message.

#![allow(clippy::needless_borrows_for_generic_args, reason = "borrowed memory is what the cases are about")]

/// Declares the twins and counts them.
macro_rules! twins {
    ($($(#[$doc:meta])* fn $name:ident() $body:block)*) => {
        pub(crate) const CASES: usize = [$(stringify!($name)),*].len();
        mod twin {
            use super::*;
            $($(#[$doc])* #[test] fn $name() $body)*
        }
    };
}

mod connections;
mod lifetimes;
mod threads;
mod values;

use std::path::Path;

/// Compiler with the pinned messages.
const PINNED: &str = "1.95.";

#[test]
fn cases_are_refused() {
    let folder = |path: &Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let topics = folder(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compile_fail")));
    let count =
        topics.flat_map(|topic| folder(&topic)).filter(|case| case.extension().is_some_and(|end| end == "rs")).count();
    let twins = connections::CASES + lifetimes::CASES + threads::CASES + values::CASES;
    assert_eq!(count, twins, "each case has a twin, and the other way round");
    let version = std::process::Command::new(env!("CARGO")).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(&format!("cargo {PINNED}")) {
        println!("SKIPPED: the messages are pinned to {PINNED}x, and this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*/*.rs");
}
