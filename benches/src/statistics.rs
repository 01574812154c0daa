//! Medians, quartiles, ratios, and their limits of noise.

use serde::{Deserialize, Serialize};

/// Maximum interquartile range of rounds, as a part of their median. Rounds beyond it are too
/// noisy.
///
/// With 61 rounds, a range of 0.2 gives the median within about 3%.
pub const NOISE_LIMIT: f64 = 0.2;

/// Statistics of the rounds of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Half of the rounds are below.
    pub median: f64,
    /// A quarter of the rounds is below.
    pub q1: f64,
    /// Three quarters of the rounds are below.
    pub q3: f64,
    /// 99 in 100 rounds are below. With fewer than 100 rounds, the largest.
    pub p99: f64,
    /// Number of rounds.
    pub rounds: usize,
}

impl Summary {
    /// Summarizes samples in any order. Returns `None` without samples, or if one is not a finite
    /// number.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Summary> {
        if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Summary {
            median: quantile(&sorted, 0.5),
            q1: quantile(&sorted, 0.25),
            q3: quantile(&sorted, 0.75),
            p99: quantile(&sorted, 0.99),
            rounds: sorted.len(),
        })
    }

    /// Summarizes a count, which is the same in each round.
    #[must_use]
    pub fn exact(value: f64) -> Summary {
        Summary { median: value, q1: value, q3: value, p99: value, rounds: 1 }
    }

    /// Returns the interquartile range as a part of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.q3 == self.q1 { 0.0 } else { (self.q3 - self.q1) / self.median }
    }

    /// Returns `true` if the rounds scatter too far for a median ([`NOISE_LIMIT`]).
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        self.spread().is_nan() || self.spread() > NOISE_LIMIT
    }
}

/// Returns the sample at or directly above this part of the sorted samples.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len() - 1;
    sorted[((last as f64 * part).round() as usize).min(last)]
}

/// Returns the ratios of the rounds: each of one side over the other side's of the same round.
#[must_use]
pub fn ratios(of: &[f64], over: &[f64]) -> Vec<f64> {
    of.iter().zip(over).map(|(of, over)| of / over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_the_numbers_from_0_to_100_is_correct() {
        let mut samples: Vec<f64> = (0..=100).map(f64::from).collect();
        samples.reverse();
        let summary = Summary::of(&samples).expect("there are samples");
        assert_eq!(summary, Summary { median: 50.0, q1: 25.0, q3: 75.0, p99: 99.0, rounds: 101 });
        assert_eq!(summary.spread(), 1.0);
    }

    #[test]
    fn no_samples_and_samples_that_are_no_numbers_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of(&[1.0, f64::INFINITY]), None);
    }

    #[test]
    fn a_median_is_not_moved_by_a_few_rounds_which_somebody_disturbed() {
        let mut samples = vec![10.0; 50];
        samples.extend([1000.0; 10]);
        let summary = Summary::of(&samples).expect("there are samples");
        assert_eq!(summary.median, 10.0);
        assert!(!summary.is_noisy());
        assert_eq!(summary.p99, 1000.0);
    }

    #[test]
    fn rounds_that_scatter_are_noisy_and_rounds_that_do_not_are_not() {
        let scattered: Vec<f64> = (0..60).map(|round| if round % 3 == 0 { 10.0 } else { 14.0 }).collect();
        assert!(Summary::of(&scattered).expect("there are samples").is_noisy());
        let steady: Vec<f64> = (0..60).map(|round| if round % 3 == 0 { 10.0 } else { 10.5 }).collect();
        assert!(!Summary::of(&steady).expect("there are samples").is_noisy());
        assert!(!Summary::exact(7.0).is_noisy());
        assert!(Summary { median: f64::NAN, q1: 1.0, q3: 2.0, p99: 2.0, rounds: 2 }.is_noisy());
    }

    #[test]
    fn a_delay_of_both_sides_of_a_round_keeps_their_ratio() {
        let over = [10.0, 20.0, 40.0];
        let of = [5.0, 10.0, 20.0];
        assert_eq!(ratios(&of, &over), [0.5; 3]);
    }
}
