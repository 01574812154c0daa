use serde_json::{Value, json};

use crate::text::time_text;

/// Numbers of times by their length, within 3 %.
#[derive(Clone)]
struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Buckets of an octave.
    const FINE: u32 = 32;

    fn new() -> Self {
        Histogram { counts: vec![0; (64 * Self::FINE) as usize], total: 0 }
    }

    fn bucket(ns: u64) -> usize {
        let (bits, fine) = (u64::BITS - ns.leading_zeros(), Self::FINE.trailing_zeros());
        let shift = bits.saturating_sub(fine + 1);
        let part = usize::try_from(ns >> shift).unwrap_or(0);
        (shift * Self::FINE) as usize + part
    }

    /// In nanoseconds.
    fn end(bucket: usize) -> u64 {
        let (bucket, fine) = (bucket as u64, u64::from(Self::FINE));
        if bucket < 2 * fine {
            return bucket;
        }
        let shift = bucket / fine - 1;
        ((bucket % fine + fine) << shift) | ((1 << shift) - 1)
    }

    fn add(&mut self, ns: u64) {
        let bucket = Self::bucket(ns);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
            self.total += 1;
        }
    }

    /// Time in nanoseconds that this fraction of all does not exceed, rounded up.
    fn quantile(&self, fraction: f64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the total")]
        let rank = (self.total as f64 * fraction).ceil() as u64;
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += count;
            below >= rank.max(1)
        });
        bucket.map_or(0, Self::end)
    }
}

#[derive(Clone)]
pub(super) struct Figures {
    /// `video` or `audio`.
    kind: &'static str,
    /// In nanoseconds.
    period: u64,
    /// Grains or samples of one.
    unit: u64,
    complete: u64,
    /// Those with another byte than the sender's.
    pub(super) wrong: u64,
    pub(super) invalid: u64,
    /// Released before they were read.
    pub(super) lost: u64,
    /// Passed over by the sender, or failed.
    pub(super) lapped: u64,
    /// Arrived more than a period after they were due.
    late: u64,
    /// Times from due to the event at the target.
    latency: Histogram,
    /// Differences of times between arrivals from the period.
    jitter: Histogram,
    first: Option<u64>,
    last: u64,
}

impl Figures {
    pub(super) fn new(kind: &'static str, period: u64, unit: u64) -> Self {
        let (latency, jitter) = (Histogram::new(), Histogram::new());
        Figures {
            kind,
            period,
            unit,
            complete: 0,
            wrong: 0,
            invalid: 0,
            lost: 0,
            lapped: 0,
            late: 0,
            latency,
            jitter,
            first: None,
            last: 0,
        }
    }

    /// In nanoseconds.
    pub(super) fn arrived(&mut self, count: u64, now: u64, due: u64) {
        let latency = now.saturating_sub(due);
        self.complete += count;
        self.late += u64::from(latency > self.period);
        self.latency.add(latency);
        if self.first.is_some() {
            self.jitter.add(now.saturating_sub(self.last).abs_diff(self.period));
        }
        self.first.get_or_insert(now);
        self.last = now;
    }

    fn rate(&self) -> f64 {
        match self.last.saturating_sub(self.first.unwrap_or(self.last)) {
            0 => 0.0,
            time => (self.complete.saturating_sub(self.unit)) as f64 / self.unit as f64 * 1e9 / time as f64,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let quantiles = |times: &Histogram| json!({ "p50": times.quantile(0.5), "p99": times.quantile(0.99), "max": times.quantile(1.0) });
        json!({
            "kind": self.kind,
            "complete": self.complete / self.unit,
            "wrong": self.wrong,
            "invalid": self.invalid,
            "lost": self.lost.div_ceil(self.unit),
            "lapped": self.lapped.div_ceil(self.unit),
            "late": self.late,
            "rate": self.rate(),
            "latency_ns": quantiles(&self.latency),
            "jitter_ns": quantiles(&self.jitter),
        })
    }
}

pub(super) const HEADS: [&str; 12] =
    ["target", "flow", "arrived", "wrong", "lost", "lapped", "late", "rate/s", "p50", "p99", "max", "jitter p99"];

pub(super) fn row(target: &str, flow: &Value) -> Vec<String> {
    let number = |name: &str| flow[name].as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string());
    let time = |of: &str, name: &str| time_text(flow[of][name].as_f64().unwrap_or(0.0));
    let mut row = vec![target.to_owned(), flow["kind"].as_str().unwrap_or("-").to_owned()];
    row.extend(["complete", "wrong", "lost", "lapped", "late"].map(number));
    row.push(format!("{:.2}", flow["rate"].as_f64().unwrap_or(0.0)));
    row.extend(
        [("latency_ns", "p50"), ("latency_ns", "p99"), ("latency_ns", "max"), ("jitter_ns", "p99")]
            .map(|(of, name)| time(of, name)),
    );
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_within_three_percent() {
        for ns in (0..5000).chain([1 << 20, (1 << 20) - 1, 987_654_321, 1 << 40, u64::MAX]) {
            let mut times = Histogram::new();
            times.add(ns);
            let found = times.quantile(0.5);
            assert!(found >= ns && found - ns <= ns / 32, "{ns}: {found}");
        }
        let mut times = Histogram::new();
        (1..=100).for_each(|ns| times.add(ns));
        assert!(times.quantile(0.5).abs_diff(50) <= 2 && times.quantile(0.99).abs_diff(99) <= 3);
    }

    #[test]
    fn figures_count_late_arrivals() {
        let mut figures = Figures::new("video", 10, 1);
        for (now, due) in [(100, 95), (110, 105), (125, 110), (130, 125)] {
            figures.arrived(1, now, due);
        }
        let json = figures.to_json();
        assert_eq!((&json["complete"], &json["late"], &json["rate"]), (&json!(4), &json!(1), &json!(1e8)));
        assert_eq!((&json["latency_ns"]["max"], &json["jitter_ns"]["max"]), (&json!(15), &json!(5)));
        assert_eq!(row("1", &json).len(), HEADS.len());
    }
}
