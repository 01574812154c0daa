use std::thread;

use crate::play::setup::Op;
use crate::text::count;

/// Ratio of the median to the shortest half round trip from which a result counts as disturbed.
const DISTURBED: f64 = 10.0;

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) op: Op,
    pub(crate) size: usize,
    pub(crate) verified: u64,
    pub(crate) rounds: usize,
    pub(crate) trip: HalfTrip,
    pub(crate) flow: Option<Flow>,
}

/// Half round trips in nanoseconds, not rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfTrip {
    pub(crate) min: f64,
    pub(crate) q1: f64,
    pub(crate) p50: f64,
    pub(crate) q3: f64,
    pub(crate) p99: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) batches: usize,
    pub(crate) messages: u64,
    pub(crate) q1: f64,
    pub(crate) median: f64,
    pub(crate) q3: f64,
}

impl Row {
    /// Samples are round trips in nanoseconds.
    pub(crate) fn new(op: Op, size: usize, verified: u64, round_trips: &mut [u64]) -> Self {
        round_trips.sort_unstable();
        let half = |percent| half(round_trips, percent);
        let trip = HalfTrip { min: half(0), q1: half(25), p50: half(50), q3: half(75), p99: half(99) };
        Row { op, size, verified, rounds: round_trips.len(), trip, flow: None }
    }

    pub(crate) fn is_disturbed(&self) -> bool {
        self.trip.p50 >= DISTURBED * self.trip.min.max(1.0)
    }

    /// Bytes a second in one direction, with one message at a time.
    pub(crate) fn bandwidth(&self) -> f64 {
        self.size as f64 / self.trip.p50.max(0.5) * 1e9
    }
}

impl Flow {
    /// Nanoseconds of each batch of `messages` messages.
    pub(crate) fn new(messages: u64, batches: &mut [u64]) -> Self {
        batches.sort_unstable();
        let rate = |percent| messages as f64 * 1e9 / (2.0 * half(batches, percent)).max(1.0);
        Flow { batches: batches.len(), messages, q1: rate(75), median: rate(50), q3: rate(25) }
    }
}

pub(crate) fn warning<'r>(rows: impl Iterator<Item = &'r Row>) -> Option<String> {
    let disturbed = rows.filter(|row| row.is_disturbed()).count() as u64;
    (disturbed > 0).then(|| {
        let processors = thread::available_parallelism().map_or(1, |it| it.get() as u64);
        format!(
            "the median of {} is {DISTURBED} times the shortest time or more. Probably the two sides share a processor, or other \
             programs keep the processors busy. This process may use {}",
            count(disturbed, "result"),
            count(processors, "processor")
        )
    })
}

/// Half of a percentile, by nearest rank.
fn half(sorted: &[u64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).map_or(0.0, |round_trip| *round_trip as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples: Vec<u64> = (1..=200).rev().collect();
        let trip = Row::new(Op::Message, 8, 1, &mut samples).trip;
        assert_eq!((trip.min, trip.q1, trip.p50, trip.q3, trip.p99), (0.5, 25.0, 50.0, 75.0, 99.0));
        let trip = Row::new(Op::Message, 8, 1, &mut [7]).trip;
        assert_eq!((trip.min, trip.p50, trip.p99), (3.5, 3.5, 3.5));
    }

    #[test]
    fn a_median_far_from_the_shortest_time_causes_a_warning() {
        let calm = Row::new(Op::Message, 8, 1, &mut [200, 1900, 1900]);
        let disturbed = Row::new(Op::Message, 8, 1, &mut [200, 2000, 2000]);
        assert!(!calm.is_disturbed() && disturbed.is_disturbed());
        assert_eq!(warning([&calm].into_iter()), None);
        let text = warning([&calm, &disturbed].into_iter()).unwrap_or_default();
        assert!(text.contains("the median of 1 result is 10 times") && text.contains("share a processor"), "{text}");
    }

    #[test]
    fn the_slowest_batches_are_the_lowest_rates() {
        let flow = Flow::new(10, &mut [1000, 500, 2000, 1000]);
        assert_eq!((flow.batches, flow.q1, flow.median, flow.q3), (4, 1e7, 1e7, 2e7));
        assert!(Flow::new(10, &mut []).median.is_finite());
    }
}
