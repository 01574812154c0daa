//! Measurement and output that the benchmarks share.

#![allow(dead_code, reason = "each benchmark uses some of it")]

use std::process::Command;
use std::time::Instant;

/// Nanoseconds per operation, of `count` operations.
pub(crate) fn per_operation(count: u32, run: impl FnOnce(u32)) -> f64 {
    let begin = Instant::now();
    run(count);
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

/// Instructions of the functions that match a pattern, in a run of this program with these
/// arguments under valgrind's callgrind. The figure is the same on a busy machine.
pub(crate) fn instructions(functions: &str, arguments: &[&str]) -> f64 {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", &format!("--toggle-collect={functions}")])
        .arg(program)
        .args(arguments)
        .output()
        .expect("valgrind starts");
    let log = String::from_utf8_lossy(&output.stderr);
    let collected =
        log.lines().find_map(|line| line.split_once("Collected : ")).and_then(|(_, all)| all.trim().parse().ok());
    collected.filter(|all| *all > 0.0).unwrap_or_else(|| panic!("valgrind counted nothing: {log}"))
}

pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Median of the rounds' ratios.
pub(crate) fn ratio(of: &[f64], to: &[f64]) -> f64 {
    median(&of.iter().zip(to).map(|(of, to)| of / to).collect::<Vec<_>>())
}

pub(crate) fn metric(name: &str, value: f64, unit: &str) {
    println!("metric {name} {value:.3} {unit}");
}
