//! What the benchmarks measure and say alike.

#![allow(dead_code, reason = "each benchmark uses some of it")]

use std::time::Instant;

/// Nanoseconds of each of `count` operations.
pub(crate) fn per_operation(count: u32, run: impl FnOnce(u32)) -> f64 {
    let begin = Instant::now();
    run(count);
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median of the rounds' ratios.
pub(crate) fn ratio(of: &[f64], to: &[f64]) -> f64 {
    median(&of.iter().zip(to).map(|(of, to)| of / to).collect::<Vec<_>>())
}

pub(crate) fn metric(name: &str, value: f64, unit: &str) {
    println!("metric {name} {value:.3} {unit}");
}
