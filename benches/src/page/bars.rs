//! Drawing of bars. [`plot`](super::plot) draws curves.

use std::fmt::Write as _;

use super::plot::{COLOURS, LEFT, LINE, RIGHT, Svg, TOP};
use super::text;

/// Groups of bars, with a bar of each kind in each group.
pub(super) struct Bars<'a> {
    pub(super) title: &'a str,
    pub(super) label: &'a str,
    /// Name of each group, and its figures in the order of the kinds.
    pub(super) groups: Vec<(&'a str, Vec<Option<f64>>)>,
    pub(super) kinds: Vec<String>,
    /// Drawn as a line.
    pub(super) limit: Option<f64>,
}

/// Returns horizontal bars from 0, each with its figure.
pub(super) fn bars(bars: &Bars<'_>) -> String {
    const THICK: f64 = 13.0;
    let left = LEFT + 70.0;
    let group = |figures: &[Option<f64>]| THICK * figures.iter().flatten().count() as f64 + 12.0;
    let bottom = TOP + bars.groups.iter().map(|(_, figures)| group(figures)).sum::<f64>();
    let figures = bars.groups.iter().flat_map(|(_, figures)| figures.iter().flatten().copied());
    let most = figures.chain(bars.limit).fold(0.0_f64, f64::max).max(f64::MIN_POSITIVE);
    // The figure stands behind its bar.
    let across = |figure: f64| left + figure.max(0.0) / most * (RIGHT - 50.0 - left);
    let mut svg = Svg::new(bottom + 58.0 + LINE * bars.kinds.len() as f64, bars.title);
    svg.text("title", (12.0, 24.0), bars.title);
    let mut y = TOP;
    for (name, figures) in &bars.groups {
        svg.text("end", (left - 8.0, y + group(figures) / 2.0), name);
        for (kind, figure) in figures.iter().enumerate().filter_map(|(kind, figure)| Some((kind, (*figure)?))) {
            let (colour, width, height) = (kind % COLOURS, across(figure) - left, THICK - 2.0);
            let _ = writeln!(
                svg.0,
                "<rect class=\"bar c{colour}\" x=\"{left}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.0}\"/>"
            );
            svg.text("", (left + width + 5.0, y + THICK - 3.0), &text::number(figure));
            y += THICK;
        }
        y += 12.0;
    }
    svg.line("axis", (left, TOP - 4.0), (left, bottom));
    if let Some(limit) = bars.limit {
        let x = across(limit);
        svg.line("limit", (x, TOP - 4.0), (x, bottom));
        svg.text("middle", (x, bottom + 16.0), &format!("target {}", text::number(limit)));
    }
    svg.text("middle", (left.midpoint(RIGHT), bottom + 36.0), bars.label);
    svg.legend(bottom + 64.0, bars.kinds.iter().map(String::as_str));
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_a_bar_and_missing_ones_have_not() {
        let groups = vec![("send", vec![Some(1.0), None]), ("write", vec![Some(0.5), Some(2.0)])];
        let kinds = vec!["8 B".into(), "64 B".into()];
        let drawn = bars(&Bars { title: "t", label: "ratio", groups, kinds, limit: Some(1.05) });
        // The legend has two more.
        assert_eq!(drawn.matches("class=\"bar").count(), 3 + 2);
        assert!(drawn.contains("target 1.05"));
    }
}
