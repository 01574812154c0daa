//! Drawings: curves over logarithmic axes, and bars. The background is drawn, too, so that they can be read on any page.

use std::fmt::Write as _;

use super::text;
use crate::report::{Curve, Point};

const WIDTH: f64 = 760.0;
/// Where the drawing itself lies.
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 44.0;
/// The height of the drawing of curves.
const PLOT: f64 = 330.0;
/// A line of the legend.
const LINE: f64 = 20.0;

/// The colours of curves can be told apart by most who do not see all colours (Okabe and Ito), and on both backgrounds.
const STYLE: &str = "<style>\n\
    .back{fill:#fff}.text{fill:#1f2328}.grid{stroke:#d0d7de}.axis{stroke:#59636e}.limit{stroke:#cf222e}\n\
    .c0{color:#0072b2}.c1{color:#d55e00}.c2{color:#009e73}.c3{color:#b4589a}.c4{color:#8a6d00}.c5{color:#56a0d0}\n\
    .line{stroke:currentColor;fill:none;stroke-width:2}.dot,.bar{fill:currentColor}.noisy{stroke:currentColor;fill:none;stroke-width:2}\n\
    .spread{stroke:currentColor;stroke-width:1}\n\
    text{font:13px sans-serif}.title{font-weight:bold;font-size:14px}.end{text-anchor:end}.middle{text-anchor:middle}\n\
    @media (prefers-color-scheme:dark){.back{fill:#0d1117}.text{fill:#e6edf3}.grid{stroke:#30363d}.axis{stroke:#9198a1}\n\
    .limit{stroke:#ff7b72}.c0{color:#58a6ff}.c1{color:#f0883e}.c2{color:#3fb950}.c3{color:#db86c4}.c4{color:#d0b030}.c5{color:#9ecbff}}\n\
    </style>\n";
const COLOURS: usize = 6;

/// The drawing as it grows.
struct Svg(String);

impl Svg {
    fn new(height: f64, title: &str) -> Self {
        let title = escaped(title);
        Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\">\n\
             <title>{title}</title>\n{STYLE}<rect class=\"back\" width=\"{WIDTH}\" height=\"{height:.0}\"/>\n\
             <text class=\"text title\" x=\"12\" y=\"24\">{title}</text>\n"
        ))
    }

    fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ =
            writeln!(self.0, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }

    fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let _ = writeln!(self.0, "<text class=\"text {class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(text));
    }

    /// The label of the upright axis.
    fn upright(&mut self, y: f64, text: &str) {
        let text = escaped(text);
        let _ = writeln!(
            self.0,
            "<text class=\"text middle\" transform=\"translate(18 {y:.1}) rotate(-90)\">{text}</text>"
        );
    }

    fn legend(&mut self, top: f64, names: impl Iterator<Item = String>) {
        for (nth, name) in names.enumerate() {
            let y = top + LINE * nth as f64;
            let _ = writeln!(
                self.0,
                "<rect class=\"bar c{}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"22\" height=\"4\"/>",
                nth % COLOURS,
                y - 6.0
            );
            self.text("", (LEFT + 30.0, y), &name);
        }
    }

    fn finish(mut self) -> String {
        self.0 += "</svg>\n";
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A logarithmic axis: which number lies where.
#[derive(Clone, Copy, Debug)]
struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// From the lowest of the numbers to the highest, which lie at `start` and `end`. Numbers that have no logarithm are left out.
    fn new(numbers: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let numbers = numbers.filter(|number| *number > 0.0 && number.is_finite());
        let (from, to) =
            numbers.fold((f64::INFINITY, 0.0_f64), |(from, to), number| (from.min(number), to.max(number)));
        let (from, to) = if from > to { (1.0, 10.0) } else { (from, to) };
        Axis { from, to, start, end }
    }

    /// With ends that are 1, 2 or 5 times a power of ten, and not the same.
    fn rounded(self) -> Self {
        let from = steps(self.from / 10.0, self.from * 1.0001).last().copied().unwrap_or(self.from);
        let to = steps(self.to * 0.9999, self.to * 10.0).first().copied().unwrap_or(self.to);
        Axis { from, to: if to > from { to } else { from * 10.0 }, ..self }
    }

    fn at(&self, number: f64) -> f64 {
        if self.to <= self.from {
            return self.start;
        }
        let part = (number.clamp(self.from, self.to) / self.from).ln() / (self.to / self.from).ln();
        self.start + part * (self.end - self.start)
    }

    /// The numbers to be written along it: only powers of ten where there are many.
    fn marks(&self) -> Vec<f64> {
        let all = steps(self.from * 0.9999, self.to * 1.0001);
        if all.len() <= 8 {
            return all;
        }
        let is_power = |number: &f64| (number.log10() - number.log10().round()).abs() < 1e-6;
        all.into_iter().filter(is_power).collect()
    }
}

/// The numbers in a range that are 1, 2 or 5 times a power of ten.
fn steps(from: f64, to: f64) -> Vec<f64> {
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let numbers = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(power)));
    numbers.filter(|number| *number >= from && *number <= to).collect()
}

/// How a plot is labelled.
pub(super) struct Labels<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
}

/// Curves over two logarithmic axes. A point has a line from its first quartile to its third; that of noisy rounds is hollow.
pub(super) fn curves(labels: &Labels<'_>, curves: &[Curve]) -> String {
    let bottom = TOP + PLOT;
    let height = bottom + 58.0 + LINE * curves.len() as f64;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let across = Axis::new(points().map(|point| point.x.into()), LEFT + 12.0, RIGHT - 12.0);
    let up = Axis::new(points().flat_map(|Point { y, .. }| [y.q1, y.median, y.q3]), bottom, TOP).rounded();
    let mut svg = Svg::new(height, labels.title);
    for mark in up.marks() {
        let y = up.at(mark);
        svg.line("grid", (LEFT, y), (RIGHT, y));
        svg.text("end", (LEFT - 8.0, y + 4.0), &text::number(mark));
    }
    let mut numbers: Vec<u32> = points().map(|point| point.x).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut free = 0.0;
    for number in numbers {
        let x = across.at(number.into());
        svg.line("axis", (x, bottom), (x, bottom + 5.0));
        let label = text::amount(number, labels.x);
        let half = 4.0 * label.len() as f64;
        // Labels that would lie over each other are left out.
        if x - half >= free {
            svg.text("middle", (x, bottom + 20.0), &label);
            free = x + half + 6.0;
        }
    }
    svg.line("axis", (LEFT, bottom), (RIGHT, bottom));
    svg.line("axis", (LEFT, TOP), (LEFT, bottom));
    svg.text("middle", ((LEFT + RIGHT) / 2.0, bottom + 38.0), labels.x);
    svg.upright(TOP + PLOT / 2.0, labels.y);
    for (nth, Curve { points, .. }) in curves.iter().enumerate() {
        let colour = nth % COLOURS;
        let place = |point: &Point| (across.at(point.x.into()), up.at(point.y.median));
        let path: Vec<String> = points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg.0, "<polyline class=\"line c{colour}\" points=\"{}\"/>", path.join(" "));
        for point in points {
            let ((x, y), shape) = (place(point), if point.y.is_noisy() { "noisy" } else { "dot" });
            svg.line(&format!("spread c{colour}"), (x, up.at(point.y.q1)), (x, up.at(point.y.q3)));
            let _ = writeln!(svg.0, "<circle class=\"{shape} c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
        }
    }
    svg.legend(bottom + 64.0, curves.iter().map(|curve| curve.name.clone()));
    svg.finish()
}

/// Bars of some kinds for each of some groups.
pub(super) struct Bars<'a> {
    pub(super) title: &'a str,
    pub(super) label: &'a str,
    /// Of each group its name, and a bar or none of each kind.
    pub(super) groups: Vec<(String, Vec<Option<f64>>)>,
    /// The kinds' names.
    pub(super) kinds: Vec<String>,
    /// What the bars should not pass, or should reach.
    pub(super) limit: Option<f64>,
}

/// Bars that lie, from 0, with their figures.
pub(super) fn bars(bars: &Bars<'_>) -> String {
    const THICK: f64 = 13.0;
    let left = LEFT + 70.0;
    let group = |figures: &[Option<f64>]| THICK * figures.iter().flatten().count() as f64 + 12.0;
    let bottom = TOP + bars.groups.iter().map(|(_, figures)| group(figures)).sum::<f64>();
    let height = bottom + 58.0 + if bars.kinds.len() > 1 { LINE * bars.kinds.len() as f64 } else { 0.0 };
    let figures = bars.groups.iter().flat_map(|(_, figures)| figures.iter().flatten().copied());
    let most = figures.chain(bars.limit).fold(0.0_f64, f64::max).max(f64::MIN_POSITIVE);
    // Room for the figure behind the longest.
    let across = |figure: f64| left + figure.max(0.0) / most * (RIGHT - 50.0 - left);
    let mut svg = Svg::new(height, bars.title);
    let mut y = TOP;
    for (name, figures) in &bars.groups {
        svg.text("end", (left - 8.0, y + group(figures) / 2.0), name);
        for (kind, figure) in figures.iter().enumerate().filter_map(|(kind, figure)| Some((kind, (*figure)?))) {
            let width = across(figure) - left;
            let _ = writeln!(
                svg.0,
                "<rect class=\"bar c{}\" x=\"{left}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.0}\"/>",
                kind % COLOURS,
                THICK - 2.0
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
    svg.text("middle", ((left + RIGHT) / 2.0, bottom + 36.0), bars.label);
    if bars.kinds.len() > 1 {
        svg.legend(bottom + 64.0, bars.kinds.iter().cloned());
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Summary;

    #[test]
    fn each_decade_takes_as_much_of_an_axis() {
        let axis = Axis::new([1.0, 1000.0].into_iter(), 0.0, 300.0);
        assert_eq!([1.0, 10.0, 100.0, 1000.0].map(|number| axis.at(number).round()), [0.0, 100.0, 200.0, 300.0]);
        assert_eq!(axis.at(0.0), 0.0, "what has no logarithm lies at the start");
    }

    #[test]
    fn an_axis_ends_at_round_numbers_around_its_own() {
        let axis = Axis::new([37.0, 412.0].into_iter(), 0.0, 1.0).rounded();
        assert!((axis.from - 20.0).abs() < 1e-9 && (axis.to - 500.0).abs() < 1e-9, "{axis:?}");
        let of_one = Axis::new([100.0].into_iter(), 0.0, 1.0).rounded();
        assert!(of_one.from <= 100.0 && of_one.to >= 100.0 && of_one.to > of_one.from, "{of_one:?}");
        assert!(Axis::new([].into_iter(), 0.0, 1.0).rounded().to > 1.0, "also without numbers");
    }

    #[test]
    fn a_noisy_point_is_hollow_and_names_are_escaped() {
        let quiet = Summary::exact(5.0);
        let noisy = Summary { q1: 1.0, q3: 9.0, ..quiet };
        let curve = |y| Curve { name: "a<b".into(), points: vec![Point { x: 1, y }, Point { x: 4, y: quiet }] };
        let labels = Labels { title: "t", x: "peers", y: "ns" };
        assert!(!curves(&labels, &[curve(quiet)]).contains("noisy c0"));
        let drawn = curves(&labels, &[curve(noisy)]);
        assert!(drawn.contains("noisy c0") && drawn.contains("a&lt;b"), "{drawn}");
    }

    #[test]
    fn a_bar_is_drawn_for_each_figure_and_none_for_what_is_missing() {
        let groups = vec![("send".into(), vec![Some(1.0), None]), ("write".into(), vec![Some(0.5), Some(2.0)])];
        let kinds = vec!["8 B".into(), "64 B".into()];
        let drawn = bars(&Bars { title: "t", label: "ratio", groups, kinds, limit: Some(1.05) });
        // Two more are those of the legend.
        assert_eq!(drawn.matches("class=\"bar").count(), 3 + 2);
        assert!(drawn.contains("target 1.05"));
    }
}
