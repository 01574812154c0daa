//! SVG drawings: curves over logarithmic axes, one panel below the other. The package in `benches/`
//! includes this file.

use std::fmt::Write as _;

pub(crate) const WIDTH: f64 = 760.0;
/// Edges of the area within the axes.
pub(crate) const LEFT: f64 = 84.0;
pub(crate) const RIGHT: f64 = WIDTH - 24.0;
pub(crate) const TOP: f64 = 44.0;
/// Height of that area, and of a panel with its labels.
const PLOT: f64 = 260.0;
const PANEL: f64 = TOP + PLOT + 50.0;
pub(crate) const LINE: f64 = 20.0;

/// Colours that most colour-blind people can distinguish (Okabe and Ito), on both backgrounds.
const STYLE: &str = "<style>\n\
    .back{fill:#fff}.text{fill:#1f2328}.grid{stroke:#d0d7de}.axis{stroke:#59636e}.limit{stroke:#cf222e}\n\
    .c0{color:#0072b2}.c1{color:#d55e00}.c2{color:#009e73}.c3{color:#b4589a}.c4{color:#8a6d00}.c5{color:#56a0d0}\n\
    .line{stroke:currentColor;fill:none;stroke-width:2}.dot,.bar{fill:currentColor}.noisy{stroke:currentColor;fill:none;stroke-width:2}\n\
    .spread{stroke:currentColor;stroke-width:1}\n\
    text{font:13px sans-serif}.title{font-weight:bold;font-size:14px}.end{text-anchor:end}.middle{text-anchor:middle}\n\
    @media (prefers-color-scheme:dark){.back{fill:#0d1117}.text{fill:#e6edf3}.grid{stroke:#30363d}.axis{stroke:#9198a1}\n\
    .limit{stroke:#ff7b72}.c0{color:#58a6ff}.c1{color:#f0883e}.c2{color:#3fb950}.c3{color:#db86c4}.c4{color:#d0b030}.c5{color:#9ecbff}}\n\
    </style>\n";
pub(crate) const COLOURS: usize = 6;

pub(crate) struct Panel<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    pub(crate) x_text: fn(usize) -> String,
    pub(crate) y_text: fn(f64) -> String,
    pub(crate) curves: Vec<Curve>,
}

pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

pub(crate) struct Point {
    pub(crate) x: usize,
    /// First quartile, median and third quartile.
    pub(crate) y: [f64; 3],
    /// Drawn hollow.
    pub(crate) noisy: bool,
}

pub(crate) struct Svg(pub(crate) String);

impl Svg {
    pub(crate) fn new(height: f64, title: &str) -> Self {
        Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\">\n\
             <title>{}</title>\n{STYLE}<rect class=\"back\" width=\"{WIDTH}\" height=\"{height:.0}\"/>\n",
            escaped(title)
        ))
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ =
            writeln!(self.0, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }

    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let _ = writeln!(self.0, "<text class=\"text {class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(text));
    }

    pub(crate) fn legend<'n>(&mut self, top: f64, names: impl Iterator<Item = &'n str>) {
        let mut y = top;
        for (nth, name) in names.enumerate() {
            let (colour, bar) = (nth % COLOURS, y - 6.0);
            let _ = writeln!(
                self.0,
                "<rect class=\"bar c{colour}\" x=\"{LEFT}\" y=\"{bar:.1}\" width=\"22\" height=\"4\"/>"
            );
            self.text("", (LEFT + 30.0, y), name);
            y += LINE;
        }
    }

    pub(crate) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Logarithmic axis: `from` lies at `start`, `to` at `end`.
#[derive(Clone, Copy, Debug)]
struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// Numbers without a logarithm are omitted.
    fn new(numbers: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let numbers = numbers.filter(|number| *number > 0.0 && number.is_finite());
        let (from, to) =
            numbers.fold((f64::INFINITY, 0.0_f64), |(from, to), number| (from.min(number), to.max(number)));
        let (from, to) = if from > to { (1.0, 10.0) } else { (from, to) };
        Axis { from, to, start, end }
    }

    /// Axis with two different ends that are 1, 2 or 5 times a power of ten.
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

    /// Numbers to be written along the axis: at most 8, or powers of ten alone.
    fn marks(&self) -> Vec<f64> {
        let all = steps(self.from * 0.9999, self.to * 1.0001);
        if all.len() <= 8 {
            return all;
        }
        let is_power = |number: &f64| (number.log10() - number.log10().round()).abs() < 1e-6;
        all.into_iter().filter(is_power).collect()
    }
}

fn steps(from: f64, to: f64) -> Vec<f64> {
    let first = 10_f64.powf(from.log10().floor());
    let powers = core::iter::successors(Some(first), |power| Some(power * 10.0)).take_while(|power| *power <= to);
    let numbers = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * power));
    numbers.filter(|number| *number >= from && *number <= to).collect()
}

pub(crate) fn curves(panels: &[Panel<'_>]) -> String {
    let names = || panels.first().into_iter().flat_map(|panel| panel.curves.iter().map(|curve| &curve.name[..]));
    let bottom = PANEL * panels.len() as f64;
    let title = panels.first().map_or("", |panel| panel.title);
    let mut svg = Svg::new(bottom + 10.0 + LINE * names().count() as f64, title);
    for (nth, panel) in panels.iter().enumerate() {
        draw(&mut svg, PANEL * nth as f64, panel);
    }
    svg.legend(bottom + 14.0, names());
    svg.finish()
}

fn draw(svg: &mut Svg, top: f64, panel: &Panel<'_>) {
    let (top, bottom) = (top + TOP, top + TOP + PLOT);
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let across = Axis::new(points().map(|point| point.x as f64), LEFT + 12.0, RIGHT - 12.0);
    let up = Axis::new(points().flat_map(|point| point.y), bottom, top).rounded();
    svg.text("title", (12.0, top - 20.0), panel.title);
    for mark in up.marks() {
        let y = up.at(mark);
        svg.line("grid", (LEFT, y), (RIGHT, y));
        svg.text("end", (LEFT - 8.0, y + 4.0), &(panel.y_text)(mark));
    }
    let mut numbers: Vec<usize> = points().map(|point| point.x).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut free = 0.0;
    for number in numbers {
        let x = across.at(number as f64);
        svg.line("axis", (x, bottom), (x, bottom + 5.0));
        let label = (panel.x_text)(number);
        let half = 4.0 * label.len() as f64;
        // Labels that would overlap are omitted.
        if x - half >= free {
            svg.text("middle", (x, bottom + 20.0), &label);
            free = x + half + 6.0;
        }
    }
    svg.line("axis", (LEFT, bottom), (RIGHT, bottom));
    svg.line("axis", (LEFT, top), (LEFT, bottom));
    svg.text("middle", (LEFT.midpoint(RIGHT), bottom + 38.0), panel.x);
    let (middle, label) = (top.midpoint(bottom), escaped(panel.y));
    let _ = writeln!(
        svg.0,
        "<text class=\"text middle\" transform=\"translate(18 {middle:.1}) rotate(-90)\">{label}</text>"
    );
    for (nth, Curve { points, .. }) in panel.curves.iter().enumerate() {
        let colour = nth % COLOURS;
        let place = |point: &Point| (across.at(point.x as f64), up.at(point.y[1]));
        let path: Vec<String> = points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg.0, "<polyline class=\"line c{colour}\" points=\"{}\"/>", path.join(" "));
        for point in points {
            let ((x, y), shape) = (place(point), if point.noisy { "noisy" } else { "dot" });
            svg.line(&format!("spread c{colour}"), (x, up.at(point.y[0])), (x, up.at(point.y[2])));
            let _ = writeln!(svg.0, "<circle class=\"{shape} c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decade_of_an_axis_has_the_same_length() {
        let axis = Axis::new([1.0, 1000.0].into_iter(), 0.0, 300.0);
        assert_eq!([1.0, 10.0, 100.0, 1000.0].map(|number| axis.at(number).round()), [0.0, 100.0, 200.0, 300.0]);
        assert_eq!([0.0, 1e9].map(|number| axis.at(number)), [0.0, 300.0], "numbers beyond the ends lie at the ends");
    }

    #[test]
    fn axis_ends_at_round_numbers_around_its_own() {
        let axis = Axis::new([37.0, 412.0].into_iter(), 0.0, 1.0).rounded();
        assert!((axis.from - 20.0).abs() < 1e-9 && (axis.to - 500.0).abs() < 1e-9, "{axis:?}");
        let of_one = Axis::new([100.0].into_iter(), 0.0, 1.0).rounded();
        assert!(of_one.from <= 100.0 && of_one.to >= 100.0 && of_one.to > of_one.from, "{of_one:?}");
        assert!(Axis::new([f64::NAN, 0.0].into_iter(), 0.0, 1.0).rounded().to > 1.0, "also without numbers");
    }

    #[test]
    fn drawing_has_each_curve_and_tolerates_empty_panels() {
        let curve = |noisy| Curve {
            name: "a<b".into(),
            points: vec![Point { x: 8, y: [1.0, 2.0, 3.0], noisy }, Point { x: 64, y: [2.0; 3], noisy: false }],
        };
        let panel = |curves| Panel {
            title: "t",
            x: "bytes",
            y: "ns",
            x_text: |number| format!("{number} B"),
            y_text: |number| format!("{number}"),
            curves,
        };
        let drawn = curves(&[panel(vec![curve(false), curve(true)]), panel(vec![])]);
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert!(drawn.contains("a&lt;b") && !drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert!(drawn.contains("noisy c1") && !drawn.contains("noisy c0"), "{drawn}");
    }
}
