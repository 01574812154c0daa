//! Plays the seeds, and every input that has once failed, on any compiler and without a fuzzer.

use std::fs;
use std::path::{Path, PathBuf};

use loom_fuzz::TARGETS;

/// The inputs in a folder; none if there is no such folder.
fn inputs(folder: &str, target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(target);
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.map(|entry| entry.expect("a readable folder").path());
    let hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let mut inputs: Vec<PathBuf> = entries.filter(|path| !hidden(path)).collect();
    inputs.sort();
    inputs
}

#[test]
fn every_target_plays_its_seeds_and_regressions() {
    for (target, body) in TARGETS {
        let seeds = inputs("seeds", target);
        assert!(!seeds.is_empty(), "no seeds for {target}");
        let regressions = inputs("regressions", target);
        let mut steps = 0;
        for input in seeds.iter().chain(&regressions) {
            println!("{}", input.display());
            steps += body(&fs::read(input).expect("a readable file"));
        }
        println!("{target}: {steps} steps, {} seeds, {} regressions", seeds.len(), regressions.len());
        assert!(steps > seeds.len(), "{target} played nothing");
    }
}

#[test]
fn every_target_is_listed() {
    let shells = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets")).expect("it is there");
    let mut shells: Vec<String> = shells
        .map(|shell| shell.expect("a readable folder").path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    shells.sort();
    let mut targets = TARGETS.map(|(target, _)| target);
    targets.sort();
    assert_eq!(shells, targets);
}

/// Inputs without a plan: whatever the bytes, the bodies say no more than how far they came.
#[test]
fn noise_is_a_story_too() {
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    for (target, body) in TARGETS {
        let mut steps = 0;
        for len in 0..400 {
            let noise: Vec<u8> = (0..2 * len).map(|_| next()).collect();
            steps += body(&noise);
        }
        println!("{target}: {steps} steps");
        assert!(steps > 1000);
    }
}
