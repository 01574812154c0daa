//! The figures of the README: what stands between two marks.

use std::fmt::Write as _;

use super::document::{limit, verdict};
use super::text;
use crate::report::{Metric, Report};
use crate::sets::Failure;
use crate::statistics::Summary;

const BEGIN: &str = "<!-- Figures: written by `measure page` out of docs/performance. -->\n";
const END: &str = "<!-- End of the figures. -->\n";

/// The figures that matter most: what they are of, and their metric.
const FIGURES: [(&str, &str); 4] = [
    (
        "latency between two threads over the software transport, half a round trip of a tagged message of 8 B, over that of a bare cache line",
        "soft_half_rtt_over_cacheline.8B",
    ),
    (
        "software transport over C with libfabric's `shm`, one thread, 64 B: tagged send, receive, both completions",
        "soft_over_c_shm.tagged.64B",
    ),
    ("loom over C, both with libfabric's `shm`, the same work", "loom_over_c.shm.tagged.64B"),
    (
        "messages a second between two threads, tagged, 8 B, over those of crossbeam's bounded channel, which matches nothing",
        "soft_rate_over_crossbeam.8B",
    ),
];

/// The README with the figures of that report.
pub(super) fn with_figures(readme: &str, report: &Report) -> Result<String, Failure> {
    let marked = readme.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = marked.ok_or("the README has no marks for its figures")?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", figures(report)))
}

fn figures(report: &Report) -> String {
    let mut text = String::from("| times in one run, as ratios | figure | target |\n|---|---:|---|\n");
    for (of, name) in FIGURES {
        let metric = report.metrics.iter().find(|metric| metric.name == name);
        let figure = metric.map_or_else(|| "not measured".into(), figure);
        let target =
            metric.map(|metric| format!("{}{}", limit(metric.goal), comma(verdict(metric)))).unwrap_or_default();
        let _ = writeln!(text, "| {of} | {figure} | {target} |");
    }
    let platform = &report.platform;
    let libfabric = platform.libfabric.as_deref().unwrap_or("none");
    let day = platform.date.split('T').next().unwrap_or_default();
    let _ = writeln!(
        text,
        "\nMedians of {day}, {}, {} cores, {}, libfabric {libfabric}.",
        platform.cpu, platform.cores, platform.kernel
    );
    let all: Vec<f64> = of_shm(report).collect();
    if let Some(Summary { median, .. }) = Summary::of(&all) {
        let (least, most) =
            all.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), it| (least.min(*it), most.max(*it)));
        let [least, median, most] = [least, median, most].map(text::cell);
        let _ = writeln!(
            text,
            "Over all {} operations and sizes that were measured over `shm`, loom takes {least} to {most} of C's time, half of them at most {median}.",
            all.len()
        );
    }
    text
}

/// loom's times over C's, over `shm`, of all operations whose rounds were quiet.
fn of_shm(report: &Report) -> impl Iterator<Item = f64> {
    report.metrics.iter().filter(|metric| metric.name.starts_with("loom_over_c.shm.")).filter_map(|metric| metric.value)
}

fn figure(metric: &Metric) -> String {
    metric.value.map_or_else(|| "noisy".into(), text::cell)
}

fn comma(verdict: &str) -> String {
    if verdict.is_empty() { String::new() } else { format!(", {verdict}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Goal, RATIO};

    #[test]
    fn what_is_between_the_marks_is_replaced_and_the_rest_stays() {
        let mut run = crate::report::tests::run();
        run.summary("soft_half_rtt_over_cacheline.8B", (RATIO, Goal::AtMost(1.5)), Summary::exact(1.25));
        let readme = format!("before\n{BEGIN}stale\n{END}after\n");
        let written = with_figures(&readme, run.report()).expect("there are marks");
        assert!(written.starts_with("before\n") && written.ends_with("after\n") && !written.contains("stale"));
        assert!(written.contains("| 1.25 | at most 1.5, met |"), "{written}");
        assert!(written.contains("| not measured |"), "{written}");
        assert_eq!(with_figures(&written, run.report()).expect("marks"), written, "writing it again changes nothing");
        assert!(with_figures("no marks", run.report()).is_err());
    }
}
