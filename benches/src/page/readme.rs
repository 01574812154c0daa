//! Figures of the README: three lines.

use super::document::{limit, outcome};
use super::text;
use crate::report::Report;
use crate::statistics::Summary;

pub(super) fn figures(report: &Report) -> String {
    let over_c = report.metrics.iter().filter(|metric| metric.name.starts_with("loom_over_c.shm."));
    let over_c: Vec<_> = over_c.filter_map(|metric| Some((metric, metric.value?))).collect();
    let figures: Vec<f64> = over_c.iter().map(|(_, figure)| *figure).collect();
    let shm = Summary::of(&figures).map_or_else(
        || "not measured".into(),
        |Summary { median, .. }| {
            let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
            let most = figures.iter().copied().fold(0.0, f64::max);
            let [least, median, most] = [least, median, most].map(text::cell);
            let met = over_c.iter().filter(|(metric, _)| metric.is_met() == Some(true)).count();
            format!("{least} to {most}, median {median} ({met} of {} meet their target)", figures.len())
        },
    );
    let of = |name: &str| {
        let metric = report.metrics.iter().find(|metric| metric.name == name);
        let text = metric.map(|metric| format!("{} (target: {})", outcome(metric), limit(metric.goal)));
        text.unwrap_or_else(|| "not measured".into())
    };
    let platform = &report.platform;
    format!(
        "- Time of loom over that of C, both over libfabric's `shm`: {shm}.\n\
         - Software transport, tagged message of 64 B on one thread, over C with `shm`: {}. Half a round trip of 8 B between two threads over a bare cache line: {}.\n\
         - Medians of {}, {}, {} cores, libfabric {}.\n",
        of("soft_over_c_shm.tagged.64B"),
        of("soft_half_rtt_over_cacheline.8B"),
        platform.day(),
        platform.cpu,
        platform.cores,
        platform.libfabric.as_deref().unwrap_or("none"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Goal, RATIO};

    #[test]
    fn each_figure_has_its_target() {
        let mut run = crate::report::tests::run();
        assert!(figures(run.report()).contains("`shm`: not measured."));
        run.summary("soft_half_rtt_over_cacheline.8B", (RATIO, Goal::AtMost(1.5)), Summary::exact(1.25));
        for (size, figure) in [("8B", 0.75), ("64B", 1.0), ("4KiB", 1.5)] {
            run.summary(&format!("loom_over_c.shm.write.{size}"), (RATIO, Goal::AtMost(1.05)), Summary::exact(figure));
        }
        let text = figures(run.report());
        assert!(text.contains("a bare cache line: 1.25, met (target: at most 1.5)"), "{text}");
        assert!(text.contains("0.75 to 1.50, median 1 (2 of 3 meet their target)"), "{text}");
        assert_eq!(text.lines().count(), 3);
    }
}
