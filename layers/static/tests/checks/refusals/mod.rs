//! Refusals of queries and profiles, each beside an accepted twin without other differences.
//!
//! The cases are in `compile_fail/`, with the messages of Rust 1.95. To renew them:
//! `TRYBUILD=overwrite cargo test --features std --test checks refusals`.

macro_rules! twins {
    ($($(#[$doc:meta])* fn $name:ident() $body:block)*) => {
        pub(crate) const CASES: usize = [$(stringify!($name)),*].len();
        mod twin {
            use super::*;
            $($(#[$doc])* #[test] fn $name() $body)*
        }
    };
}

mod profiles;
mod queries;

use std::collections::BTreeSet;
use std::path::Path;

const PINNED: &str = "1.95.";

#[test]
fn cases_are_refused() {
    let folder = |path: &Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let topics = folder(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compile_fail")));
    let count =
        topics.flat_map(|topic| folder(&topic)).filter(|case| case.extension().is_some_and(|end| end == "rs")).count();
    let twins = profiles::CASES + queries::CASES + queries::CONNECTED;
    assert_eq!(count, twins, "each case has a twin, and the other way round");
    let version = std::process::Command::new(env!("CARGO")).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(&format!("cargo {PINNED}")) {
        println!("SKIPPED: the messages are pinned to {PINNED}x, and this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*/*.rs");
}

/// Constants of type parameters are refused only on generating code.
#[test]
fn cases_are_refused_when_code_is_generated() {
    let names = |folder: &str| {
        let folder = format!("{}/tests/compile_fail_generated{folder}", env!("CARGO_MANIFEST_DIR"));
        let paths = std::fs::read_dir(folder).unwrap().map(|case| case.unwrap().path());
        paths
            .filter(|path| path.extension().is_some_and(|end| end == "rs"))
            .map(|path| path.file_name().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(names(""), names("/accepted"), "each case has a twin, and the other way round");
    let version = std::process::Command::new(env!("CARGO")).arg("--version").output().unwrap();
    let pinned = String::from_utf8(version.stdout).unwrap().starts_with(&format!("cargo {PINNED}"));
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail_generated/accepted/*.rs");
    if pinned {
        cases.compile_fail("tests/compile_fail_generated/*.rs");
    } else {
        println!("SKIPPED but for the twins: the messages are pinned to {PINNED}x");
    }
}
