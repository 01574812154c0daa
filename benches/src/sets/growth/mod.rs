//! Cost of an operation as numbers grow: endpoints, peers, posted receives, operations in flight,
//! bytes, senders. Also their memory.

#[cfg(feature = "libfabric")]
mod datagrams;
mod endpoints;
mod memory;
mod messages;
mod peers;
mod posted;

use std::time::Duration;

use loom_core::completion::Completion;
use loom_core::cq::Cq;
use loom_core::transport::Transport;
use loom_core::vocabulary::Tag;

use crate::Failure;
use crate::contest::{Contest, Outcome};
use crate::report::{Curve, Goal, Plot, Point, Ratio, Run};
use crate::statistics::Summary;

type Buffer = Box<[u8]>;

const TAG: Tag = Tag(7);

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    endpoints::measure(run)?;
    endpoints::measure_senders(run)?;
    peers::measure(run)?;
    #[cfg(feature = "libfabric")]
    datagrams::measure(run)?;
    #[cfg(not(feature = "libfabric"))]
    println!("datagrams to many peers: skipped, the feature `libfabric` is off");
    posted::measure(run)?;
    messages::measure_in_flight(run)?;
    messages::measure_sizes(run)?;
    memory::measure(run)
}

/// A contest with the points of curves as sides.
struct Growth<'a> {
    contest: Contest<'a>,
    /// Curve and number of each side.
    points: Vec<(String, u32)>,
}

#[derive(Clone, Copy)]
struct Labels<'a> {
    name: &'a str,
    title: &'a str,
    note: &'a str,
    x: &'a str,
    y: &'a str,
}

impl<'a> Growth<'a> {
    /// Creates a contest with the name of its plot.
    fn new(name: &str) -> Self {
        Growth { contest: Contest::new(format!("growth.{name}")), points: Vec::new() }
    }

    fn side(curve: &str, x: u32) -> String {
        format!("{curve}: {x}")
    }

    /// Adds a point. `run` does the operation a number of times, and returns the duration.
    fn point(mut self, curve: &str, x: u32, run: impl FnMut(u32) -> Duration + 'a) -> Self {
        self.points.push((curve.into(), x));
        self.contest = self.contest.side_that_measures(Self::side(curve, x), run);
        self
    }

    fn run(self, run: &mut Run, labels: Labels<'_>) -> Outcome {
        let outcome = self.contest.run(&run.settings);
        let mut curves: Vec<Curve> = Vec::new();
        for (name, x) in self.points {
            let y = outcome.nanoseconds(&Self::side(&name, x));
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.points.push(Point { x, y }),
                None => curves.push(Curve { name, points: vec![Point { x, y }] }),
            }
        }
        run.plot(labels.plot(curves));
        outcome
    }
}

impl Labels<'_> {
    fn plot(self, curves: Vec<Curve>) -> Plot {
        let Labels { name, title, note, x, y } = self;
        let own = str::to_owned;
        Plot { set: String::new(), name: own(name), title: own(title), note: own(note), x: own(x), y: own(y), curves }
    }
}

/// Adds the ratio of the times of two points of a curve: how much longer the operation takes.
fn ratio(run: &mut Run, outcome: &Outcome, name: &str, (curve, of, over): (&str, u32, u32), goal: Goal) {
    let (of, over) = (Growth::side(curve, of), Growth::side(curve, over));
    run.ratio(outcome, Ratio { name, of: &of, over: &over, goal });
}

/// Adds the ratio of the rates of two points: the part of the smaller number's rate that the larger
/// one keeps.
fn rate_ratio(run: &mut Run, outcome: &Outcome, name: &str, (curve, of, over): (&str, u32, u32), goal: Goal) {
    let (of, over) = (Growth::side(curve, of), Growth::side(curve, over));
    run.rate_ratio(outcome, Ratio { name, of: &of, over: &over, goal });
}

/// Returns a point that is counted instead of timed.
fn exact(x: u32, value: f64) -> Point {
    Point { x, y: Summary::exact(value) }
}

#[inline]
fn completed<T: Transport>(cq: &Cq<'static, T, Buffer>) -> Buffer {
    loop {
        if let Some(Completion::Op(done)) = cq.poll().expect("the queue works") {
            done.result().expect("the operation succeeds");
            return done.into_buf();
        }
    }
}

/// Reproducible numbers in an order that the caches do not predict.
struct Random(u64);

impl Random {
    const fn new() -> Self {
        Random(1)
    }

    #[inline]
    const fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * bound as u64) >> 32) as u32
    }
}
