//! Results of a run: as a table, as `metric` lines and as JSON.

use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::contest::{Outcome, Settings};
use crate::platform::Platform;
use crate::statistics::Summary;

/// Direction in which a metric is better, and its target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Lower is better, with this maximum.
    AtMost(f64),
    /// Higher is better, with this minimum.
    AtLeast(f64),
    /// Lower is better.
    Lower,
    /// Higher is better.
    Higher,
}

impl Goal {
    /// Returns `true` if lower is better.
    #[must_use]
    pub fn is_lower(self) -> bool {
        matches!(self, Goal::AtMost(_) | Goal::Lower)
    }

    /// Returns `true` if a value meets the target. `None` without a target.
    #[must_use]
    pub fn is_met(self, value: f64) -> Option<bool> {
        match self {
            Goal::AtMost(limit) => Some(value <= limit),
            Goal::AtLeast(limit) => Some(value >= limit),
            Goal::Lower | Goal::Higher => None,
        }
    }
}

/// Unit of ratios.
pub const RATIO: &str = "ratio";
/// Unit of callgrind's counts.
pub const INSTRUCTIONS: &str = "instructions";

/// One figure with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Set that measured it.
    pub set: String,
    /// Name.
    pub name: String,
    /// Figure. `None` if the rounds were too noisy.
    pub value: Option<f64>,
    /// Unit.
    pub unit: String,
    /// `true` if the rounds were too noisy.
    pub noisy: bool,
    /// Figures of the rounds, noisy or not.
    pub summary: Summary,
    /// Direction and target.
    pub goal: Goal,
    /// Contest and side of the figure.
    pub of: Option<String>,
    /// Side that is the denominator of a ratio.
    pub over: Option<String>,
    /// Contest of both sides.
    pub contest: Option<String>,
}

/// Times of one side of a contest, in nanoseconds per operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideTimes {
    /// Name of the side.
    pub name: String,
    /// Operations in a round.
    pub count: u32,
    /// Nanoseconds per operation.
    pub nanoseconds: Summary,
}

/// A contest and the times of its sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContestTimes {
    /// Set that ran it.
    pub set: String,
    /// Name of the contest.
    pub name: String,
    /// Number of attempts until the rounds were quiet, or were given up.
    pub attempts: usize,
    /// Sides.
    pub sides: Vec<SideTimes>,
}

/// Growth of a figure with a number: curves over the same axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Set that measured it.
    pub set: String,
    /// Name, also of its file.
    pub name: String,
    /// Title.
    pub title: String,
    /// Note for the reader. May be empty.
    pub note: String,
    /// Number on the horizontal axis.
    pub x: String,
    /// Figure, with its unit.
    pub y: String,
    /// Curves.
    pub curves: Vec<Curve>,
}

/// One curve of a [`Plot`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Points, from left to right.
    pub points: Vec<Point>,
}

/// One point of a [`Curve`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Number on the horizontal axis.
    pub x: u32,
    /// Rounds of the figure.
    pub y: Summary,
}

/// A measured set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Name on the command line.
    pub name: String,
    /// Description of the measurement.
    pub about: String,
}

/// All results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Machine and versions.
    pub platform: Platform,
    /// Sets in the order of measurement.
    pub sets: Vec<Measured>,
    /// Figures.
    pub metrics: Vec<Metric>,
    /// Times that the figures are made of.
    pub contests: Vec<ContestTimes>,
    /// Plots of growth.
    pub plots: Vec<Plot>,
}

/// Name, sides and target of a ratio.
#[derive(Clone, Copy, Debug)]
pub struct Ratio<'a> {
    /// Name of the metric.
    pub name: &'a str,
    /// Side in the numerator.
    pub of: &'a str,
    /// Side in the denominator.
    pub over: &'a str,
    /// Target.
    pub goal: Goal,
}

/// A run: the settings of its sets, and their results.
pub struct Run {
    /// Duration of a measurement.
    pub settings: Settings,
    report: Report,
    set: String,
}

impl Run {
    /// Creates a run without results.
    #[must_use]
    pub fn new(settings: Settings, platform: Platform) -> Run {
        let report =
            Report { platform, sets: Vec::new(), metrics: Vec::new(), contests: Vec::new(), plots: Vec::new() };
        Run { settings, report, set: String::new() }
    }

    /// Begins a set, which the results that follow belong to.
    pub fn begin(&mut self, set: &str, about: &str) {
        self.set = set.to_owned();
        self.report.sets.push(Measured { name: set.into(), about: about.into() });
        println!("\n# {set}");
    }

    /// Prints and stores the times of a contest.
    pub fn contest(&mut self, outcome: &Outcome) {
        let sides = outcome.sides.iter().map(|side| SideTimes {
            name: side.name.clone(),
            count: side.count,
            nanoseconds: outcome.nanoseconds(&side.name),
        });
        let times = ContestTimes {
            set: self.set.clone(),
            name: outcome.name.clone(),
            attempts: outcome.attempts,
            sides: sides.collect(),
        };
        print!("{}", times.table());
        self.report.contests.push(times);
    }

    /// Prints and stores the curves of a plot. The plot's set is that of the run.
    pub fn plot(&mut self, plot: Plot) {
        let plot = Plot { set: self.set.clone(), ..plot };
        print!("{}", plot.table());
        self.report.plots.push(plot);
    }

    /// Adds the ratio of the times of two sides: how much longer the first one takes.
    pub fn ratio(&mut self, outcome: &Outcome, ratio: Ratio<'_>) {
        self.put_ratio(outcome, ratio, outcome.ratio(ratio.of, ratio.over));
    }

    /// Adds the ratio of the rates of two sides: how much faster the first one is.
    pub fn rate_ratio(&mut self, outcome: &Outcome, ratio: Ratio<'_>) {
        self.put_ratio(outcome, ratio, outcome.ratio(ratio.over, ratio.of));
    }

    fn put_ratio(&mut self, outcome: &Outcome, ratio: Ratio<'_>, summary: Summary) {
        let metric = self.metric(ratio.name, RATIO, ratio.goal, summary);
        self.put(Metric {
            of: Some(ratio.of.into()),
            over: Some(ratio.over.into()),
            contest: Some(outcome.name.clone()),
            ..metric
        });
    }

    /// Adds a figure of one side: the result of `figure` for its nanoseconds per operation.
    pub fn figure(
        &mut self,
        outcome: &Outcome,
        (name, side): (&str, &str),
        (unit, goal): (&str, Goal),
        figure: impl Fn(f64) -> f64,
    ) {
        let metric = self.metric(name, unit, goal, outcome.figure(side, figure));
        self.put(Metric { of: Some(side.into()), contest: Some(outcome.name.clone()), ..metric });
    }

    /// Adds a figure that is counted, or has another source than a contest.
    pub fn summary(&mut self, name: &str, (unit, goal): (&str, Goal), summary: Summary) {
        let metric = self.metric(name, unit, goal, summary);
        self.put(metric);
    }

    fn metric(&self, name: &str, unit: &str, goal: Goal, summary: Summary) -> Metric {
        let noisy = summary.is_noisy();
        Metric {
            set: self.set.clone(),
            name: name.into(),
            value: (!noisy).then_some(summary.median),
            unit: unit.into(),
            noisy,
            summary,
            goal,
            of: None,
            over: None,
            contest: None,
        }
    }

    fn put(&mut self, metric: Metric) {
        println!("{}", metric.line());
        self.report.metrics.push(metric);
    }

    /// Returns the report.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl Report {
    /// Reads a report from a file of JSON.
    ///
    /// # Errors
    /// If the file cannot be read, or does not contain a report.
    pub fn read(path: &Path) -> Result<Report, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error:#}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error:#}", path.display()))
    }

    /// Returns a table of the figures with a target, and the number of metrics.
    #[must_use]
    pub fn targets(&self) -> String {
        let mut text = format!("\n{:<50} {:>9} {:>17} {:>9}\n", "targets", "value", "quartiles", "target");
        for metric in self.metrics.iter().filter(|metric| metric.goal.is_met(0.0).is_some()) {
            let limit = match metric.goal {
                Goal::AtMost(limit) => format!("<= {limit}"),
                Goal::AtLeast(limit) => format!(">= {limit}"),
                Goal::Lower | Goal::Higher => String::new(),
            };
            let verdict = match metric.is_met() {
                Some(true) => "met",
                Some(false) => "missed",
                None => "",
            };
            let quartiles = format!("{:.3}..{:.3}", metric.summary.q1, metric.summary.q3);
            let _ = writeln!(text, "{:<50} {:>9} {quartiles:>17} {limit:>9} {verdict}", metric.name, metric.text());
        }
        let noisy = self.metrics.iter().filter(|metric| metric.noisy).count();
        let _ = writeln!(text, "{} metrics, {noisy} of them noisy", self.metrics.len());
        text
    }
}

/// Text that a run prints.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.platform)?;
        for Measured { name, about } in &self.sets {
            writeln!(f, "\n# {name}: {about}")?;
            for contest in self.contests.iter().filter(|contest| contest.set == *name) {
                write!(f, "{}", contest.table())?;
            }
            for plot in self.plots.iter().filter(|plot| plot.set == *name) {
                write!(f, "{}", plot.table())?;
            }
            for metric in self.metrics.iter().filter(|metric| metric.set == *name) {
                writeln!(f, "{}", metric.line())?;
            }
        }
        f.write_str(&self.targets())
    }
}

impl Metric {
    /// Returns `true` if the figure meets its target. `None` if it is noisy or has no target.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        self.goal.is_met(self.value?)
    }

    /// Returns the figure, or `noisy`.
    #[must_use]
    pub fn text(&self) -> String {
        self.value.map_or_else(|| "noisy".into(), |value| format!("{value:.3}"))
    }

    fn line(&self) -> String {
        format!("metric {} {} {}", self.name, self.text(), self.unit)
    }
}

impl ContestTimes {
    fn table(&self) -> String {
        let mut text = format!("{:<36} {:>10} {:>10} {:>10} {:>10}  ns\n", self.name, "q1", "median", "q3", "p99");
        for SideTimes { name, nanoseconds, .. } in &self.sides {
            let Summary { q1, median, q3, p99, .. } = nanoseconds;
            let _ = writeln!(text, "  {name:<34} {q1:>10.1} {median:>10.1} {q3:>10.1} {p99:>10.1}");
        }
        text
    }
}

impl Plot {
    fn table(&self) -> String {
        let mut text = format!("{}: {} by {}. {}\n", self.title, self.y, self.x, self.note);
        for Curve { name, points } in &self.curves {
            let points: Vec<_> = points.iter().map(|Point { x, y }| format!("{x}: {:.1}", y.median)).collect();
            let _ = writeln!(text, "  {name:<34} {}", points.join("  "));
        }
        text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::contest::Contest;

    pub(crate) fn run() -> Run {
        let platform = Platform {
            date: "2000-01-01T00:00:00Z".into(),
            cpu: "a processor".into(),
            cores: 2,
            pinned: true,
            kernel: "a kernel".into(),
            loom: "0.1.0".into(),
            commit: "unknown".into(),
            libfabric: None,
            rustc: "rustc".into(),
        };
        let settings = Settings { rounds: 20, repeats: 0, round: Duration::from_micros(10), attempts: 1 };
        let mut run = Run::new(settings, platform);
        run.begin("tests", "what tests measure");
        run
    }

    fn outcome(settings: &Settings, mut nanoseconds: impl FnMut() -> u64) -> Outcome {
        Contest::new("work")
            .side_that_measures("c", |count| Duration::from_nanos(u64::from(count) * 100))
            .side_that_measures("loom", move |count| Duration::from_nanos(u64::from(count) * nanoseconds()))
            .run(settings)
    }

    const OVER_C: Ratio<'_> = Ratio { name: "loom_over_c", of: "loom", over: "c", goal: Goal::AtMost(1.05) };

    #[test]
    fn a_quiet_ratio_has_a_value_and_a_line() {
        let mut run = run();
        let outcome = outcome(&run.settings, || 150);
        run.contest(&outcome);
        run.ratio(&outcome, OVER_C);
        run.rate_ratio(&outcome, Ratio { name: "rate", goal: Goal::AtLeast(0.5), ..OVER_C });
        let [ratio, rate] = &run.report().metrics[..] else { panic!("two metrics") };
        assert_eq!(ratio.line(), "metric loom_over_c 1.500 ratio");
        assert_eq!(rate.line(), "metric rate 0.667 ratio");
        assert_eq!(ratio.goal.is_met(1.5), Some(false));
        assert_eq!(run.report().contests[0].sides[1].nanoseconds.median, 150.0);
        let text = run.report().to_string();
        assert!(text.contains("missed") && text.contains("met"), "{text}");
        assert!(text.contains("metric rate 0.667 ratio") && text.contains("  loom "), "{text}");
    }

    #[test]
    fn a_noisy_ratio_has_no_value_and_is_marked() {
        let mut run = run();
        let mut round = 0;
        let outcome = outcome(&run.settings, || {
            round += 1;
            if round % 4 < 2 { 300 } else { 100 }
        });
        run.ratio(&outcome, OVER_C);
        let [ratio] = &run.report().metrics[..] else { panic!("one metric") };
        assert_eq!(ratio.line(), "metric loom_over_c noisy ratio");
        assert_eq!((ratio.value, ratio.noisy), (None, true));
        let json = serde_json::to_string(run.report()).expect("a report is JSON");
        assert!(json.contains(r#""value":null"#) && json.contains(r#""noisy":true"#), "{json}");
        assert!(run.report().targets().contains("1 of them noisy"));
    }

    #[test]
    fn a_report_is_read_from_json_as_it_was_written() {
        let mut run = run();
        let outcome = outcome(&run.settings, || 150);
        run.contest(&outcome);
        run.ratio(&outcome, OVER_C);
        run.summary("soft.instructions", (INSTRUCTIONS, Goal::Lower), Summary::exact(703.0));
        let json = serde_json::to_string(run.report()).expect("a report is JSON");
        assert_eq!(&serde_json::from_str::<Report>(&json).expect("a report"), run.report());
    }
}
