//! Regressions between two reports, beyond noise.
//!
//! The comparison uses figures that do not depend on the machine: ratios of times within a run, and
//! counted instructions. Times and rates are omitted, because a busy machine changes them all.
//!
//! A ratio has changed if its median moved by more than [`CHANGE`] and the interquartile ranges of
//! the two runs do not overlap. A count has changed if it moved by more than [`COUNT_CHANGE`].

use std::fmt;

use crate::report::{INSTRUCTIONS, Metric, RATIO, Report};

/// Minimum relative change of a ratio.
pub const CHANGE: f64 = 0.03;
/// Minimum relative change of a count. The change is also at least two, because a difference of
/// counts may be close to zero.
pub const COUNT_CHANGE: f64 = 0.01;

/// Result for one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Worse beyond noise.
    Regression,
    /// Better beyond noise.
    Improvement,
    /// No change beyond noise.
    Same,
    /// Too noisy in one of the reports.
    Noisy,
    /// Not in the new report.
    Missing,
}

/// One metric of the old report, and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Name of the metric.
    pub name: String,
    /// Result.
    pub verdict: Verdict,
    /// Old value, or `noisy`.
    pub old: String,
    /// New value, `noisy`, or empty.
    pub new: String,
}

/// Compares each comparable metric of `old` with `new`.
#[must_use]
pub fn compare(old: &Report, new: &Report) -> Vec<Change> {
    let comparable = old.metrics.iter().filter(|metric| [RATIO, INSTRUCTIONS].contains(&&metric.unit[..]));
    comparable
        .map(|old| {
            let new = new.metrics.iter().find(|new| new.name == old.name && new.unit == old.unit);
            Change {
                name: old.name.clone(),
                verdict: new.map_or(Verdict::Missing, |new| verdict(old, new)),
                old: old.text(),
                new: new.map(Metric::text).unwrap_or_default(),
            }
        })
        .collect()
}

fn verdict(old: &Metric, new: &Metric) -> Verdict {
    if old.noisy || new.noisy {
        return Verdict::Noisy;
    }
    let (was, is) = (&old.summary, &new.summary);
    let size = was.median.abs();
    let least = if old.unit == INSTRUCTIONS { (COUNT_CHANGE * size).max(1.0) } else { CHANGE * size };
    let moved = (is.median - was.median).abs() > least;
    let apart = is.q1 > was.q3 || is.q3 < was.q1;
    if !(moved && apart) {
        Verdict::Same
    } else if (is.median > was.median) == old.goal.is_lower() {
        Verdict::Regression
    } else {
        Verdict::Improvement
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Regression => "REGRESSION",
            Verdict::Improvement => "improvement",
            Verdict::Same => "same",
            Verdict::Noisy => "noisy",
            Verdict::Missing => "not measured",
        };
        write!(f, "{verdict:<12} {:<50} {:>9} {:>9}", self.name, self.old, self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Goal;
    use crate::statistics::Summary;

    /// A report with one metric, with rounds that scatter by this part around the median.
    fn report(unit: &str, goal: Goal, median: f64, scatter: f64) -> Report {
        let mut run = crate::report::tests::run();
        let (q1, q3) = (median * (1.0 - scatter), median * (1.0 + scatter));
        run.summary("figure", (unit, goal), Summary { median, q1, q3, p99: q3, rounds: 61 });
        run.report().clone()
    }

    fn verdict_of(old: &Report, new: &Report) -> Verdict {
        let changes = compare(old, new);
        assert_eq!(changes.len(), 1);
        changes[0].verdict
    }

    #[test]
    fn a_planted_regression_is_named_and_an_improvement_is_not() {
        let report = |median| report(RATIO, Goal::AtMost(2.0), median, 0.02);
        let changes = compare(&report(1.0), &report(1.2));
        assert_eq!(changes[0].verdict, Verdict::Regression);
        let line = changes[0].to_string();
        assert!(line.starts_with("REGRESSION") && line.contains("figure"), "{line}");
        assert_eq!(verdict_of(&report(1.2), &report(1.0)), Verdict::Improvement);
    }

    #[test]
    fn where_higher_is_better_a_lower_figure_is_the_regression() {
        let report = |median| report(RATIO, Goal::AtLeast(0.5), median, 0.02);
        assert_eq!(verdict_of(&report(1.2), &report(1.0)), Verdict::Regression);
        assert_eq!(verdict_of(&report(1.0), &report(1.2)), Verdict::Improvement);
    }

    #[test]
    fn a_change_within_the_noise_of_the_rounds_is_ignored() {
        let report = |median, scatter| report(RATIO, Goal::Lower, median, scatter);
        assert_eq!(verdict_of(&report(1.0, 0.09), &report(1.1, 0.09)), Verdict::Same);
        assert_eq!(verdict_of(&report(1.0, 0.0), &report(1.02, 0.0)), Verdict::Same, "too small to matter");
    }

    #[test]
    fn noisy_figures_are_not_compared() {
        let report = |median, scatter| report(RATIO, Goal::Lower, median, scatter);
        assert_eq!(verdict_of(&report(1.0, 0.5), &report(9.0, 0.01)), Verdict::Noisy);
        assert_eq!(verdict_of(&report(1.0, 0.01), &report(9.0, 0.5)), Verdict::Noisy);
    }

    #[test]
    fn counts_are_compared_to_one_in_a_hundred() {
        let report = |median| report(INSTRUCTIONS, Goal::Lower, median, 0.0);
        assert_eq!(verdict_of(&report(700.0), &report(708.0)), Verdict::Regression);
        assert_eq!(verdict_of(&report(700.0), &report(706.0)), Verdict::Same);
        assert_eq!(verdict_of(&report(3.0), &report(4.0)), Verdict::Same);
        assert_eq!(verdict_of(&report(3.0), &report(5.0)), Verdict::Regression);
    }

    #[test]
    fn times_are_not_compared_and_missing_figures_are_reported() {
        let times = report("ns", Goal::Lower, 100.0, 0.0);
        assert_eq!(compare(&times, &report("ns", Goal::Lower, 900.0, 0.0)), []);
        let ratio = report(RATIO, Goal::Lower, 1.0, 0.0);
        assert_eq!(verdict_of(&ratio, &times), Verdict::Missing);
    }
}
