//! The page: what was measured where, targets, tables and drawings of each set.

use std::fmt::Write as _;

use super::family::{Family, families};
use super::svg::{self, Bars};
use super::{Named, Written, text};
use crate::report::{Goal, Measured, Metric, Plot, RATIO};
use crate::statistics::NOISE_LIMIT;

/// What a metric should reach, in words; nothing if there is no such thing.
pub(super) fn limit(goal: Goal) -> String {
    match goal {
        Goal::AtMost(limit) => format!("at most {}", text::number(limit)),
        Goal::AtLeast(limit) => format!("at least {}", text::number(limit)),
        Goal::Lower | Goal::Higher => String::new(),
    }
}

/// Whether it reaches it; nothing if it is noisy or has no target.
pub(super) fn verdict(metric: &Metric) -> &'static str {
    match metric.value.and_then(|value| metric.goal.is_met(value)) {
        Some(true) => "met",
        Some(false) => "**not met**",
        None => "",
    }
}

/// The page as it grows, and its drawings.
struct Page {
    text: String,
    drawings: Vec<Written>,
}

impl Page {
    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(self.text, "| {} |", cells.join(" | "));
    }

    /// The head of a table, whose columns but the first few hold numbers.
    fn head(&mut self, words: usize, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        let lines = (0..cells.len()).map(|column| if column < words { "---" } else { "---:" });
        let lines: Vec<&str> = lines.collect();
        self.row(cells);
        let _ = writeln!(self.text, "|{}|", lines.join("|"));
    }

    fn drawing(&mut self, name: &str, title: &str, drawn: String) {
        let file = format!("{name}.svg");
        let _ = writeln!(self.text, "\n![{title}](performance/{file})\n");
        self.drawings.push(Written { path: format!("{}/{file}", super::FOLDER), text: drawn });
    }
}

const PROGRAM: &str = "cargo run --release --manifest-path benches/Cargo.toml --";

pub(super) fn page(runs: &[Named]) -> Vec<Written> {
    let mut page = Page { text: String::new(), drawings: Vec::new() };
    page.introduction();
    page.runs(runs);
    page.targets(runs);
    let mut done: Vec<&str> = Vec::new();
    for set in runs.iter().flat_map(|run| &run.report.sets) {
        if !done.contains(&&set.name[..]) {
            done.push(&set.name);
            page.set(set, runs);
        }
    }
    let mut written = vec![Written { path: super::PAGE.into(), text: page.text }];
    written.append(&mut page.drawings);
    written
}

impl Page {
    fn introduction(&mut self) {
        let noise = text::number(NOISE_LIMIT);
        let _ = write!(
            self.text,
            "# Performance\n\n\
             `measure page` writes this page out of the reports in [performance](performance); nothing in it is written by hand. `.ci/run report`\n\
             measures everything again and writes it anew.\n\n\
             - What is compared runs in one process, in short rounds that alternate. A figure is the median of the rounds; a ratio is the median of\n  \
               the rounds' ratios.\n\
             - A figure is `noisy`, and not given, if the interquartile range of its rounds is above {noise} of it. In drawings, the line through a\n  \
               point is that range, and the point of noisy rounds is hollow.\n\
             - A busy machine, or cores that are farther apart, change times and rates. Ratios and counted instructions can be compared between runs,\n  \
               times cannot. Between two threads nothing but ratios within one run says anything.\n\
             - [costs.md](costs.md) says what stands behind the targets that are not met.\n\
             - `soft` is the software transport. Names of metrics are those that the program prints; sizes are those of messages.\n",
        );
    }

    fn runs(&mut self, runs: &[Named]) {
        self.text += "\n## Runs\n\n";
        self.head(
            9,
            ["run", "date", "processor", "cores", "threads", "system", "loom", "libfabric", "compiler"]
                .map(str::to_owned),
        );
        for Named { name, report } in runs {
            let it = &report.platform;
            let threads = if it.pinned { "kept on a core each" } else { "not kept on cores" };
            let libfabric = it.libfabric.clone().unwrap_or_else(|| "none".into());
            let loom = format!("{} ({})", it.loom, it.commit);
            let (date, cores) = (it.date.clone(), it.cores.to_string());
            self.row([
                format!("`{name}`"),
                date,
                it.cpu.clone(),
                cores,
                threads.into(),
                it.kernel.clone(),
                loom,
                libfabric,
                it.rustc.clone(),
            ]);
        }
    }

    fn targets(&mut self, runs: &[Named]) {
        self.text += "\n## Targets\n\n";
        let names = runs.iter().map(|run| format!("`{}`", run.name));
        self.head(2, ["figure".to_owned(), "target".to_owned()].into_iter().chain(names));
        let with_target = || {
            let metrics = runs.iter().flat_map(|run| &run.report.metrics);
            metrics.filter(|metric| metric.goal.is_met(0.0).is_some())
        };
        let mut done = Vec::new();
        for group in with_target().map(target_group) {
            if done.contains(&group) {
                continue;
            }
            let name = one(with_target().filter(|it| target_group(it) == group).map(|it| &it.name[..]));
            let of_run = |run: &Named| {
                let metrics: Vec<_> = run.report.metrics.iter().filter(|it| target_group(it) == group).collect();
                reached(&metrics)
            };
            let name = name.map_or_else(|| format!("`{}`, all", group.1), |name| format!("`{name}`"));
            self.row([name, group.2.clone()].into_iter().chain(runs.iter().map(of_run)));
            done.push(group);
        }
    }

    fn set(&mut self, set: &Measured, runs: &[Named]) {
        let _ = write!(self.text, "\n## {}: {}\n\n`{PROGRAM} {}`\n", set.name, set.about, set.name);
        for run in runs {
            let of_set: Vec<&Metric> = run.report.metrics.iter().filter(|metric| metric.set == set.name).collect();
            let plots = run.report.plots.iter().filter(|plot| plot.set == set.name);
            if !run.report.sets.iter().any(|it| it.name == set.name) {
                continue;
            }
            if runs.len() > 1 {
                let _ = writeln!(self.text, "\n### {}, `{}`", set.name, run.name);
            }
            let (families, alone) = families(&of_set);
            self.metrics(&alone);
            for family in &families {
                self.family(family, &run.name);
            }
            for plot in plots {
                self.plot(plot, &run.name);
            }
            self.times(&set.name, run);
        }
    }

    fn metrics(&mut self, metrics: &[&Metric]) {
        if metrics.is_empty() {
            return;
        }
        self.text.push('\n');
        self.head(2, ["figure", "target", "median", "quartiles", "unit"].map(str::to_owned));
        for metric in metrics {
            let target = match (limit(metric.goal), verdict(metric)) {
                (limit, "") => limit,
                (limit, verdict) => format!("{limit}: {verdict}"),
            };
            let value = metric.value.map_or_else(|| "noisy".into(), text::cell);
            let quartiles = match metric.summary.rounds {
                1 => "counted".into(),
                _ => format!("{} to {}", text::cell(metric.summary.q1), text::cell(metric.summary.q3)),
            };
            self.row([format!("`{}`", metric.name), target, value, quartiles, metric.unit.clone()]);
        }
    }

    /// Operations by sizes. What misses its target is bold.
    fn family(&mut self, family: &Family<'_>, run: &str) {
        let metrics = || family.rows.iter().flat_map(|row| row.metrics.iter().map(|(_, metric)| *metric));
        let unit = metrics().next().map_or(RATIO, |metric| &metric.unit);
        let goals = one(metrics().map(|metric| metric.goal));
        let target = match goals.map(limit) {
            Some(limit) if !limit.is_empty() => format!(", {limit}: what is above it is bold"),
            _ => String::new(),
        };
        let _ = writeln!(self.text, "\n`{}` ({unit}{target})\n", family.name);
        self.head(1, [String::new()].into_iter().chain(family.sizes.iter().map(|size| text::size(size))));
        let operation = |name: &str| name.rsplit_once('.').map_or_else(|| name.to_owned(), |(_, last)| last.to_owned());
        for row in &family.rows {
            let cells = family.sizes.iter().map(|size| row.of(size).map(cell).unwrap_or_default());
            self.row([operation(row.name)].into_iter().chain(cells));
        }
        if unit == RATIO && family.rows.len() > 2 {
            let figures = |row: &super::family::Row<'_>| {
                family.sizes.iter().map(|size| row.of(size).and_then(|metric| metric.value)).collect()
            };
            let limit = goals.and_then(|goal| match goal {
                Goal::AtMost(limit) | Goal::AtLeast(limit) => Some(limit),
                Goal::Lower | Goal::Higher => None,
            });
            let bars = Bars {
                title: &format!("{}, {run}", family.name),
                label: "ratio of times",
                groups: family.rows.iter().map(|row| (operation(row.name), figures(row))).collect(),
                kinds: family.sizes.iter().map(|size| text::size(size)).collect(),
                limit,
            };
            self.drawing(
                &format!("{}.{run}", family.name),
                &format!("{} by operation and size", family.name),
                svg::bars(&bars),
            );
        }
    }

    fn plot(&mut self, plot: &Plot, run: &str) {
        let Plot { name, title, note, x, y, curves, .. } = plot;
        let _ = writeln!(self.text, "\n**{title}.** {note}");
        let drawn = svg::curves(&svg::Labels { title, x, y }, curves);
        self.drawing(&format!("{}.{name}.{run}", plot.set), title, drawn);
        let mut numbers: Vec<u32> = curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.x)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.head(1, [format!("{y}, by {x}")].into_iter().chain(numbers.iter().map(|number| text::amount(*number, x))));
        for curve in curves {
            let cells = numbers.iter().map(|number| match curve.points.iter().find(|point| point.x == *number) {
                Some(point) if point.y.is_noisy() => "noisy".into(),
                Some(point) => text::cell(point.y.median),
                None => String::new(),
            });
            self.row([curve.name.clone()].into_iter().chain(cells));
        }
    }

    /// The times that the figures are made of, but for those of curves.
    fn times(&mut self, set: &str, run: &Named) {
        let contests: Vec<_> = run.report.contests.iter().filter(|contest| contest.set == set).collect();
        let is_drawn = run.report.plots.iter().any(|plot| plot.set == set);
        if contests.is_empty() || is_drawn {
            return;
        }
        self.text += "\n<details><summary>Times</summary>\n\n";
        self.head(2, ["work", "side", "median, ns", "quartiles, ns", "rounds' 99th percentile, ns"].map(str::to_owned));
        for contest in contests {
            for side in &contest.sides {
                let it = &side.nanoseconds;
                let quartiles = format!("{} to {}", text::cell(it.q1), text::cell(it.q3));
                self.row([
                    contest.name.clone(),
                    side.name.clone(),
                    text::cell(it.median),
                    quartiles,
                    text::cell(it.p99),
                ]);
            }
        }
        self.text += "\n</details>\n";
    }
}

/// What is a line of the targets: metrics of a set that differ in what follows the second part of their names, and have the same
/// target.
fn target_group(metric: &Metric) -> (&str, &str, String) {
    let name = metric.name.match_indices('.').nth(1).map_or(&metric.name[..], |(second, _)| &metric.name[..second]);
    (&metric.set, name, limit(metric.goal))
}

/// What became of some metrics with the same target.
fn reached(metrics: &[&Metric]) -> String {
    match metrics {
        [] => String::new(),
        [metric] => match (metric.value, verdict(metric)) {
            (Some(value), verdict) => format!("{}, {verdict}", text::cell(value)),
            (None, _) => "noisy".into(),
        },
        metrics => {
            let quiet: Vec<(&Metric, f64)> = metrics.iter().filter_map(|it| Some((*it, it.value?))).collect();
            let met = quiet.iter().filter(|(metric, value)| metric.goal.is_met(*value) == Some(true)).count();
            let is_worse = |a: &(&Metric, f64), b: &(&Metric, f64)| {
                let order = a.1.total_cmp(&b.1);
                if a.0.goal.is_lower() { order } else { order.reverse() }
            };
            let worst = quiet.iter().copied().max_by(is_worse);
            let worst = worst.map(|(metric, value)| format!("; worst {} (`{}`)", text::cell(value), metric.name));
            let noisy = match metrics.len() - quiet.len() {
                0 => String::new(),
                noisy => format!(", {noisy} noisy"),
            };
            format!("{met} of {} met{noisy}{}", metrics.len(), worst.unwrap_or_default())
        }
    }
}

/// A figure in a table of many.
fn cell(metric: &Metric) -> String {
    match metric.value {
        None => "noisy".into(),
        Some(value) if metric.goal.is_met(value) == Some(false) => format!("**{}**", text::cell(value)),
        Some(value) => text::cell(value),
    }
}

/// What all of them are, if they are all the same.
fn one<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Curve, Point, Run};
    use crate::statistics::Summary;

    fn run() -> Run {
        let mut run = crate::report::tests::run();
        let target = (RATIO, Goal::AtMost(1.05));
        for (operation, figures) in [("send", [1.0, 1.2]), ("write", [0.9, 1.01]), ("read", [0.9, 1.0])] {
            for (size, figure) in ["8B", "4KiB"].iter().zip(figures) {
                run.summary(&format!("loom_over_c.shm.{operation}.{size}"), target, Summary::exact(figure));
            }
        }
        run.summary("alone", (RATIO, Goal::AtLeast(2.0)), Summary { q1: 1.0, q3: 9.0, ..Summary::exact(3.0) });
        let points = vec![Point { x: 8, y: Summary::exact(10.0) }, Point { x: 4096, y: Summary::exact(1234.0) }];
        let [name, title, note, x, y] = ["size", "Messages", "A note.", "bytes", "ns"].map(str::to_owned);
        run.plot(Plot {
            set: String::new(),
            name,
            title,
            note,
            x,
            y,
            curves: vec![Curve { name: "soft".into(), points }],
        });
        run
    }

    fn written() -> Vec<Written> {
        page(&[Named { name: "here".into(), report: run().report().clone() }])
    }

    #[test]
    fn targets_are_summed_up_and_what_misses_them_is_named() {
        let text = &written()[0].text;
        assert!(
            text.contains(
                "| `loom_over_c.shm`, all | at most 1.05 | 5 of 6 met; worst 1.20 (`loom_over_c.shm.send.4KiB`) |"
            ),
            "{text}"
        );
        assert!(text.contains("| `alone` | at least 2 | noisy |"), "{text}");
    }

    #[test]
    fn operations_have_a_row_and_sizes_a_column() {
        let text = &written()[0].text;
        assert!(text.contains("|  | 8 B | 4 KiB |"), "{text}");
        assert!(text.contains("| send | 1 | **1.20** |"), "{text}");
        assert!(text.contains("| `alone` | at least 2 | noisy | counted | ratio |"), "{text}");
    }

    #[test]
    fn a_plot_is_a_drawing_and_a_table() {
        let written = written();
        let text = &written[0].text;
        assert!(
            text.contains("![Messages](performance/tests.size.here.svg)") && text.contains("| soft | 10 | 1,234 |"),
            "{text}"
        );
        let paths: Vec<&str> = written.iter().map(|it| &it.path[..]).collect();
        assert_eq!(paths[1..], ["docs/performance/loom_over_c.shm.here.svg", "docs/performance/tests.size.here.svg"]);
        assert!(written[2].text.contains("4 KiB"));
    }
}
