//! What a run has found: as a table, as `metric` lines and as JSON.

use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::contest::{Outcome, Settings};
use crate::platform::Platform;
use crate::statistics::Summary;

/// Which way a metric is better, and what it should reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Lower is better, and this is low enough.
    AtMost(f64),
    /// Higher is better, and this is high enough.
    AtLeast(f64),
    /// Lower is better.
    Lower,
    /// Higher is better.
    Higher,
}

impl Goal {
    /// Whether lower is better.
    #[must_use]
    pub fn is_lower(self) -> bool {
        matches!(self, Goal::AtMost(_) | Goal::Lower)
    }

    /// Whether a value reaches it; `None` if there is nothing to reach.
    #[must_use]
    pub fn is_met(self, value: f64) -> Option<bool> {
        match self {
            Goal::AtMost(limit) => Some(value <= limit),
            Goal::AtLeast(limit) => Some(value >= limit),
            Goal::Lower | Goal::Higher => None,
        }
    }
}

/// The unit of ratios.
pub const RATIO: &str = "ratio";
/// The unit of what callgrind counts.
pub const INSTRUCTIONS: &str = "instructions";

/// One figure with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The set that measured it.
    pub set: String,
    /// Its name.
    pub name: String,
    /// The figure; `None` if the rounds were too noisy to tell one.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// Whether the rounds were too noisy.
    pub noisy: bool,
    /// The rounds' figures, noisy or not.
    pub summary: Summary,
    /// Which way it is better, and what it should reach.
    pub goal: Goal,
    /// The contest and its side whose figure this is.
    pub of: Option<String>,
    /// The side that a ratio is over.
    pub over: Option<String>,
    /// The contest whose sides those are.
    pub contest: Option<String>,
}

/// The times of one side of a contest, in nanoseconds for an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideTimes {
    /// The side's name.
    pub name: String,
    /// Operations in a round.
    pub count: u32,
    /// Its times.
    pub nanoseconds: Summary,
}

/// A contest and the times of its sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContestTimes {
    /// The set that ran it.
    pub set: String,
    /// The contest's name.
    pub name: String,
    /// How often its rounds were run until they were quiet, or were given up.
    pub attempts: usize,
    /// Its sides.
    pub sides: Vec<SideTimes>,
}

/// How a figure grows with a number: curves over the same axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// The set that measured it.
    pub set: String,
    /// Its name, which is also that of its file.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What has to be known to read it; may be empty.
    pub note: String,
    /// What grows.
    pub x: String,
    /// The figure, with its unit.
    pub y: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One curve of a [`Plot`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// What it is of.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// One point of a [`Curve`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// How much there is of what grows.
    pub x: u32,
    /// The figure's rounds.
    pub y: Summary,
}

/// A set that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// As the command line calls it.
    pub name: String,
    /// What it measures.
    pub about: String,
}

/// Everything that a run has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The machine and the versions.
    pub platform: Platform,
    /// The sets, in the order in which they were measured.
    pub sets: Vec<Measured>,
    /// The figures.
    pub metrics: Vec<Metric>,
    /// The times that they are made of.
    pub contests: Vec<ContestTimes>,
    /// How figures grow.
    pub plots: Vec<Plot>,
}

/// How a ratio of two sides is called.
#[derive(Clone, Copy, Debug)]
pub struct Ratio<'a> {
    /// The metric's name.
    pub name: &'a str,
    /// The side in question.
    pub of: &'a str,
    /// The side that it is measured against.
    pub over: &'a str,
    /// What the ratio should be.
    pub goal: Goal,
}

/// A run: what sets measure with, and where they leave what they find.
pub struct Run {
    /// How long is measured.
    pub settings: Settings,
    report: Report,
    set: String,
}

impl Run {
    /// A run that has found nothing yet.
    #[must_use]
    pub fn new(settings: Settings, platform: Platform) -> Run {
        let report =
            Report { platform, sets: Vec::new(), metrics: Vec::new(), contests: Vec::new(), plots: Vec::new() };
        Run { settings, report, set: String::new() }
    }

    /// Begins a set: what follows belongs to it.
    pub fn begin(&mut self, set: &str, about: &str) {
        self.set = set.to_owned();
        self.report.sets.push(Measured { name: set.into(), about: about.into() });
        println!("\n# {set}");
    }

    /// Prints a contest's times, and keeps them.
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

    /// Prints the curves of a plot, and keeps them. The plot's set is that of the run.
    pub fn plot(&mut self, plot: Plot) {
        let plot = Plot { set: self.set.clone(), ..plot };
        print!("{}", plot.table());
        self.report.plots.push(plot);
    }

    /// The ratio of the times of two sides: how much longer the first one takes.
    pub fn ratio(&mut self, outcome: &Outcome, ratio: Ratio<'_>) {
        self.put_ratio(outcome, ratio, outcome.ratio(ratio.of, ratio.over));
    }

    /// The ratio of the rates of two sides: how much faster the first one is.
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

    /// A figure of one side, which `figure` makes of nanoseconds for an operation.
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

    /// A figure that is counted and not timed, or comes from somewhere else.
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

    /// Everything that was found.
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

    /// A table of the figures with a target, and the number of metrics.
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

/// The text that a run prints.
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
    /// Returns `true` if the figure meets its target; `None` if it is noisy or has no target.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        self.goal.is_met(self.value?)
    }

    /// The figure, or `noisy`.
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
