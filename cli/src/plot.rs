//! SVG drawings: curves by size over logarithmic axes, one panel below the other.

use std::fmt::Write as _;

use crate::text::size_text;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 24.0;
const PANEL: f64 = 300.0;
const PLOT: f64 = 220.0;

/// Colours that most colour-blind people can distinguish (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#b4589a", "#8a6d00", "#56a0d0"];

pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

pub(crate) struct Point {
    pub(crate) x: usize,
    pub(crate) y: [f64; 3],
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn at(number: f64, (low, high): (f64, f64), (start, end): (f64, f64)) -> f64 {
    let part = (number.max(low) / low).ln() / (high / low).ln();
    start + part.min(1.0) * (end - start)
}

fn decades(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let numbers = numbers.filter(|number| *number > 0.0 && number.is_finite());
    let (low, high) = numbers.fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
    if low > high {
        return (1.0, 10.0);
    }
    let low = 10_f64.powf(low.log10().floor());
    (low, 10_f64.powf(high.log10().ceil()).max(low * 10.0))
}

pub(crate) fn page(panels: &[(&str, Vec<Curve>)]) -> String {
    let names: Vec<_> = panels.first().iter().flat_map(|(_, curves)| curves.iter().map(|it| it.name.clone())).collect();
    let height = PANEL * panels.len() as f64 + 20.0 * names.len() as f64 + 20.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>loom bench</title>\n<rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#fff\"/>\n"
    );
    for (nth, (title, curves)) in panels.iter().enumerate() {
        panel(&mut svg, PANEL * nth as f64 + 40.0, title, curves);
    }
    for (nth, name) in names.iter().enumerate() {
        let (y, colour) = (PANEL * panels.len() as f64 + 20.0 * nth as f64 + 10.0, COLOURS[nth % COLOURS.len()]);
        let _ = writeln!(svg, "<rect x=\"{LEFT}\" y=\"{:.0}\" width=\"22\" height=\"4\" fill=\"{colour}\"/>", y - 6.0);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{y:.0}\">{}</text>", LEFT + 30.0, escaped(name));
    }
    svg + "</svg>\n"
}

fn panel(svg: &mut String, top: f64, title: &str, curves: &[Curve]) {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let bottom = top + PLOT;
    let sizes = points().map(|point| point.x).fold((usize::MAX, 0), |(low, high), x| (low.min(x), high.max(x)));
    let across = (sizes.0.min(sizes.1).max(1) as f64, (sizes.1 as f64).max(2.0 * sizes.0.min(sizes.1).max(1) as f64));
    let up = decades(points().flat_map(|point| point.y));
    let x = |size: usize| at(size as f64, across, (LEFT + 12.0, RIGHT - 12.0));
    let y = |number: f64| at(number, up, (bottom, top));
    let _ = writeln!(svg, "<text x=\"12\" y=\"{:.0}\" font-weight=\"bold\">{}</text>", top - 14.0, escaped(title));
    let mut mark = up.0;
    while mark <= up.1 * 1.001 {
        let line = y(mark);
        let _ =
            writeln!(svg, "<line x1=\"{LEFT}\" y1=\"{line:.1}\" x2=\"{RIGHT}\" y2=\"{line:.1}\" stroke=\"#d0d7de\"/>");
        let label = crate::text::scaled(mark, &["", "k", "M", "G", "T"]);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0, line + 4.0);
        mark *= 10.0;
    }
    let mut free = 0.0;
    let mut labels: Vec<_> = points().map(|point| point.x).collect();
    labels.sort_unstable();
    labels.dedup();
    for size in labels {
        if x(size) >= free {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                x(size),
                bottom + 20.0,
                size_text(size)
            );
            free = x(size) + 60.0;
        }
    }
    for (nth, curve) in curves.iter().enumerate() {
        let colour = COLOURS[nth % COLOURS.len()];
        let path: Vec<_> = curve.points.iter().map(|it| format!("{:.1},{:.1}", x(it.x), y(it.y[1]))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for Point { x: size, y: [q1, median, q3] } in &curve.points {
            let (x, median) = (x(*size), y(*median));
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
                y(*q1),
                y(*q3)
            );
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{median:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_between_the_ends_of_their_axis() {
        assert_eq!(
            [0.0, 1.0, 10.0, 100.0, 1e9].map(|number| at(number, (1.0, 100.0), (0.0, 200.0))),
            [0.0, 0.0, 100.0, 200.0, 200.0]
        );
        assert_eq!(decades([37.0, 412.0].into_iter()), (10.0, 1000.0));
        assert_eq!(decades([f64::NAN, 0.0].into_iter()), (1.0, 10.0));
    }

    #[test]
    fn drawing_has_each_curve_and_survives_none() {
        let curve = || Curve {
            name: "a<b".into(),
            points: vec![Point { x: 8, y: [1.0, 2.0, 3.0] }, Point { x: 64, y: [2.0; 3] }],
        };
        let drawn = page(&[("one", vec![curve(), curve()]), ("two", vec![])]);
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert!(drawn.contains("a&lt;b") && !drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
