//! Figures of the page: runs, targets, tables and drawings.

use std::fmt::Write as _;

use super::bars::{Bars, bars};
use super::plot::{self, Panel};
use super::{Named, Written, text};
use crate::report::{Goal, Metric, Plot, RATIO, Report};

/// Families of ratios that are drawn, and their titles.
const BARS: [(&str, &str); 3] = [
    ("loom_over_c.shm.", "Time of loom over that of C, both over shm"),
    ("loom_over_c.tcp_rxm.", "Time of loom over that of C, both over tcp_rxm"),
    ("soft_over_c_shm.", "Time of the software transport over that of C over shm"),
];
/// Columns of the table of instructions.
const INSTRUCTIONS: [&str; 5] = ["c", "loom_minus_c", "loom_raw_minus_c", "soft", "soft_raw"];
/// Sets in the table of ratios.
const BESIDE_OTHERS: [&str; 2] = ["peers", "processes"];

/// Returns the generated part of the page, and the drawings. Tables and drawings show one run.
pub(super) fn figures(shown: &Named, runs: &[Named]) -> (String, Vec<Written>) {
    let mut text = String::from("\n## Runs\n\n");
    table_of_runs(&mut text, runs);
    text += "\n## Targets\n\n";
    table_of_targets(&mut text, runs);
    let Named { name, report } = shown;
    let _ = writeln!(text, "\n## Tables\n\nThe tables and drawings show `{name}`.");
    instructions(report).write(&mut text, "instructions");
    beside_others(report).write(&mut text, "ratio of one run");
    text += "\n## Drawings\n";
    let mut drawings = Vec::new();
    for (name, title, drawn) in drawn(report) {
        let _ = writeln!(text, "\n![{title}](performance/{name}.svg)");
        drawings.push(Written { path: format!("{}/{name}.svg", super::FOLDER), text: drawn });
    }
    text.push('\n');
    (text, drawings)
}

fn row(text: &mut String, cells: impl IntoIterator<Item = String>) {
    let cells: Vec<String> = cells.into_iter().collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// The head of a table. The columns after the first few contain numbers.
fn head(text: &mut String, words: usize, cells: impl IntoIterator<Item = String>) {
    let cells: Vec<String> = cells.into_iter().collect();
    let lines: Vec<&str> = (0..cells.len()).map(|column| if column < words { "---" } else { "---:" }).collect();
    row(text, cells);
    let _ = writeln!(text, "|{}|", lines.join("|"));
}

fn table_of_runs(text: &mut String, runs: &[Named]) {
    head(text, 6, ["run", "date", "processor", "system", "loom", "compiler"].map(str::to_owned));
    for Named { name, report } in runs {
        let it = &report.platform;
        row(
            text,
            [
                format!("`{name}`"),
                it.day().into(),
                format!("{}, {} cores{}", it.cpu, it.cores, if it.pinned { "" } else { ", threads not pinned" }),
                it.kernel.clone(),
                format!("{} ({})", it.loom, it.commit),
                it.rustc.split(" (").next().unwrap_or_default().into(),
            ],
        );
    }
}

fn table_of_targets(text: &mut String, runs: &[Named]) {
    let names = runs.iter().map(|run| format!("`{}`", run.name));
    head(text, 2, ["figure".to_owned(), "target".to_owned()].into_iter().chain(names));
    let with_target = || {
        let metrics = runs.iter().flat_map(|run| &run.report.metrics);
        metrics.filter(|metric| metric.goal.is_met(0.0).is_some())
    };
    let mut done = Vec::new();
    for group in with_target().map(target_group) {
        if done.contains(&group) {
            continue;
        }
        let of_run = |run: &Named| {
            let metrics: Vec<_> = run.report.metrics.iter().filter(|it| target_group(it) == group).collect();
            reached(&metrics)
        };
        let mut names = with_target().filter(|it| target_group(it) == group).map(|it| &it.name[..]);
        let first = names.next().unwrap_or_default();
        let name = if names.all(|name| name == first) { format!("`{first}`") } else { format!("`{}`, all", group.1) };
        row(text, [name, group.2.clone()].into_iter().chain(runs.iter().map(of_run)));
        done.push(group);
    }
}

/// A line of the targets: metrics of a set that have the same target, and names with the same first
/// two parts.
fn target_group(metric: &Metric) -> (&str, &str, String) {
    let name = metric.name.match_indices('.').nth(1).map_or(&metric.name[..], |(second, _)| &metric.name[..second]);
    (&metric.set, name, limit(metric.goal))
}

/// Target in words. Empty without a target.
pub(super) fn limit(goal: Goal) -> String {
    match goal {
        Goal::AtMost(limit) => format!("at most {}", text::number(limit)),
        Goal::AtLeast(limit) => format!("at least {}", text::number(limit)),
        Goal::Lower | Goal::Higher => String::new(),
    }
}

pub(super) fn outcome(metric: &Metric) -> String {
    match metric.value {
        Some(value) if metric.is_met() == Some(true) => format!("{}, met", text::cell(value)),
        Some(value) => format!("{}, **not met**", text::cell(value)),
        None => "noisy".into(),
    }
}

fn reached(metrics: &[&Metric]) -> String {
    let quiet: Vec<(&Metric, f64)> = metrics.iter().filter_map(|it| Some((*it, it.value?))).collect();
    let is_worse = |a: &&(&Metric, f64), b: &&(&Metric, f64)| {
        let order = a.1.total_cmp(&b.1);
        if a.0.goal.is_lower() { order } else { order.reverse() }
    };
    match (metrics, quiet.iter().max_by(is_worse)) {
        ([], _) => String::new(),
        ([metric], _) => outcome(metric),
        (_, None) => "noisy".into(),
        (_, Some((worst, value))) => {
            let met = quiet.iter().filter(|(metric, _)| metric.is_met() == Some(true)).count();
            let noisy = match metrics.len() - quiet.len() {
                0 => String::new(),
                noisy => format!(", {noisy} noisy"),
            };
            format!("{met} of {} met{noisy}, worst {} (`{}`)", metrics.len(), text::cell(*value), worst.name)
        }
    }
}

/// Metrics by row and column, both in the order of the report.
#[derive(Default)]
struct Grid<'r> {
    columns: Vec<&'r str>,
    rows: Vec<(&'r str, Vec<(&'r str, &'r Metric)>)>,
}

impl<'r> Grid<'r> {
    fn put(&mut self, row: &'r str, column: &'r str, metric: &'r Metric) {
        if !self.columns.contains(&column) {
            self.columns.push(column);
        }
        match self.rows.iter_mut().find(|(name, _)| *name == row) {
            Some((_, cells)) => cells.push((column, metric)),
            None => self.rows.push((row, vec![(column, metric)])),
        }
    }

    fn rows(&self) -> impl Iterator<Item = (&'r str, Vec<Option<&'r Metric>>)> {
        self.rows.iter().map(|(name, cells)| {
            let of = |column: &&str| cells.iter().find(|(its, _)| its == column).map(|(_, metric)| *metric);
            (*name, self.columns.iter().map(of).collect())
        })
    }

    /// Writes a table. A figure that does not meet its target is bold.
    fn write(&self, text: &mut String, unit: &str) {
        text.push('\n');
        head(text, 1, [unit].into_iter().chain(self.columns.iter().copied()).map(text::spaced));
        for (name, cells) in self.rows() {
            let cell = |metric: Option<&Metric>| match (metric, metric.and_then(|metric| metric.value)) {
                (None, _) => String::new(),
                (_, None) => "noisy".into(),
                (Some(metric), Some(value)) if metric.is_met() == Some(false) => format!("**{}**", text::cell(value)),
                (_, Some(value)) => text::cell(value),
            };
            row(text, [format!("`{name}`")].into_iter().chain(cells.into_iter().map(cell)));
        }
    }
}

/// Instructions by operation and side. Operations of one side are omitted.
fn instructions(report: &Report) -> Grid<'_> {
    let mut grid = Grid { columns: INSTRUCTIONS.to_vec(), ..Grid::default() };
    for metric in report.metrics.iter().filter(|metric| metric.set == "instructions") {
        let mut parts = metric.name.split('.');
        if let (Some(side), Some(_), Some(operation)) = (parts.next(), parts.next(), parts.next())
            && INSTRUCTIONS.contains(&side)
        {
            grid.put(operation, side, metric);
        }
    }
    grid.rows.retain(|(_, cells)| cells.len() > 1);
    grid
}

/// Ratios to other libraries, by size.
fn beside_others(report: &Report) -> Grid<'_> {
    let is_shown = |metric: &&Metric| metric.unit == RATIO && BESIDE_OTHERS.contains(&&metric.set[..]);
    by_size(report.metrics.iter().filter(is_shown).map(|metric| (&metric.name[..], metric)))
}

/// Metrics with names that end with a size.
fn by_size<'r>(metrics: impl Iterator<Item = (&'r str, &'r Metric)>) -> Grid<'r> {
    let mut grid = Grid::default();
    for (name, metric) in metrics {
        if let Some((name, size)) = name.rsplit_once('.')
            && text::is_size(size)
        {
            grid.put(name, size, metric);
        }
    }
    grid
}

/// Drawings: file name without the ending, title, text.
fn drawn(report: &Report) -> impl Iterator<Item = (String, &str, String)> {
    let ratios = BARS.iter().map(|(family, title)| {
        let of_family = |metric: &'_ Metric| metric.name.starts_with(family);
        let metrics = report.metrics.iter().filter(|metric| of_family(metric));
        let grid = by_size(metrics.map(|metric| (&metric.name[family.len()..], metric)));
        let figures = |(name, cells): (_, Vec<Option<&Metric>>)| {
            (name, cells.iter().map(|metric| metric.and_then(|metric| metric.value)).collect())
        };
        // An operation may have a target of its own.
        let limit = match grid.rows.first().and_then(|(_, cells)| cells.first()).map(|(_, metric)| metric.goal) {
            Some(Goal::AtMost(limit) | Goal::AtLeast(limit)) => Some(limit),
            Some(Goal::Lower | Goal::Higher) | None => None,
        };
        let drawn = bars(&Bars {
            title,
            label: "ratio of times",
            groups: grid.rows().map(figures).collect(),
            kinds: grid.columns.iter().map(|size| text::spaced(size)).collect(),
            limit,
        });
        (family.trim_end_matches('.').to_owned(), *title, drawn)
    });
    let plots = report.plots.iter().map(|plot| (format!("{}.{}", plot.set, plot.name), &plot.title[..], curves(plot)));
    ratios.chain(plots)
}

fn curves(plot: &Plot) -> String {
    let curve = |curve: &crate::report::Curve| plot::Curve {
        name: curve.name.clone(),
        points: curve
            .points
            .iter()
            .map(|point| plot::Point {
                x: point.x as usize,
                y: [point.y.q1, point.y.median, point.y.q3],
                noisy: point.y.is_noisy(),
            })
            .collect(),
    };
    plot::curves(&[Panel {
        title: &plot.title,
        x: &plot.x,
        y: &plot.y,
        x_text: if plot.x == "bytes" {
            |bytes| text::spaced(&crate::sides::size_name(bytes))
        } else {
            |number| text::number(number as f64)
        },
        y_text: text::number,
        curves: plot.curves.iter().map(curve).collect(),
    }])
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
        let curves = vec![Curve { name: "soft".into(), points }];
        run.plot(Plot { set: String::new(), name, title, note, x, y, curves });
        run.begin("instructions", "");
        run.summary("c.instructions.write.64B", ("instructions", Goal::Lower), Summary::exact(1234.0));
        run.summary("loom_minus_c.instructions.write", ("instructions", Goal::AtMost(25.0)), Summary::exact(82.0));
        run.begin("peers", "");
        run.summary("rate.8B", (RATIO, Goal::Higher), Summary::exact(0.5));
        run.summary("rate.1KiB", (RATIO, Goal::AtLeast(2.0)), Summary::exact(1.5));
        run
    }

    fn written() -> (String, Vec<Written>) {
        let runs = [Named { name: "here".into(), report: run().report().clone() }];
        figures(&runs[0], &runs)
    }

    #[test]
    fn targets_are_counted_and_the_worst_figure_is_named() {
        let (text, _) = written();
        assert!(
            text.contains(
                "| `loom_over_c.shm`, all | at most 1.05 | 5 of 6 met, worst 1.20 (`loom_over_c.shm.send.4KiB`) |"
            ),
            "{text}"
        );
        assert!(text.contains("| `alone` | at least 2 | noisy |"), "{text}");
    }

    #[test]
    fn tables_have_rows_and_columns_and_missed_targets_are_bold() {
        let (text, _) = written();
        assert!(text.contains("| `write` | 1,234 | **82** |  |  |  |"), "{text}");
        assert!(text.contains("| ratio of one run | 8 B | 1 KiB |"), "{text}");
        assert!(text.contains("| `rate` | 0.50 | **1.50** |"), "{text}");
    }

    #[test]
    fn families_and_plots_are_drawn() {
        let (text, drawings) = written();
        assert!(text.contains("![Messages](performance/tests.size.svg)"), "{text}");
        let drawn = |name: &str| {
            let path = format!("docs/dev/performance/{name}.svg");
            drawings.iter().find(|it| it.path == path).map(|it| &it.text[..]).expect("a drawing")
        };
        assert!(drawn("tests.size").contains("4 KiB"));
        // Six figures, and two sizes in the legend.
        assert_eq!(drawn("loom_over_c.shm").matches("class=\"bar").count(), 6 + 2);
        assert!(drawn("loom_over_c.shm").contains("target 1.05"));
    }
}
