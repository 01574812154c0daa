//! The results: a table for people, or one JSON object.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::options::{Op, Place};

/// Half round trips of one operation and size.
pub(crate) struct Row {
    op: Op,
    size: usize,
    verified: u64,
    rounds: usize,
    /// Nanoseconds; halves are kept.
    min: f64,
    p50: f64,
    p99: f64,
}

impl Row {
    /// Sorts the samples: round trips in nanoseconds.
    pub(crate) fn new(op: Op, size: usize, verified: u64, round_trips: &mut [u64]) -> Self {
        round_trips.sort_unstable();
        Row {
            op,
            size,
            verified,
            rounds: round_trips.len(),
            min: half(round_trips, 0),
            p50: half(round_trips, 50),
            p99: half(round_trips, 99),
        }
    }

    /// Bytes per second in one direction.
    fn bandwidth(&self) -> f64 {
        self.size as f64 / self.p50.max(0.5) * 1e9
    }

    fn to_json(&self) -> Value {
        json!({
            "op": self.op.name(),
            "size_bytes": self.size,
            "verified_rounds": self.verified,
            "rounds": self.rounds,
            "half_round_trip_ns": { "min": self.min, "p50": self.p50, "p99": self.p99 },
            "bandwidth_bytes_per_second": self.bandwidth().round(),
        })
    }
}

/// Half of the sample which at most so many percent are below of.
fn half(sorted: &[u64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).map_or(0.0, |round_trip| *round_trip as f64 / 2.0)
}

pub(crate) struct Report {
    json: bool,
    transport: String,
    provider: String,
    place: &'static str,
    last: Option<Op>,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        let (transport, provider) = (String::new(), String::new());
        Report { json, transport, provider, place: "", last: None, rows: Vec::new() }
    }

    pub(crate) fn begin(&mut self, transport: &str, provider: &str, place: &Place) -> Result<(), Failure> {
        (self.transport, self.provider) = (transport.to_owned(), provider.to_owned());
        self.place = match place {
            Place::OneThread => "one thread",
            Place::TwoThreads => "two threads",
            Place::Listen(_) | Place::Connect(_) => "two processes",
        };
        if self.json {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        writeln!(out, "loom pingpong: {transport}, provider {provider}, {}", self.place)?;
        Ok(writeln!(
            out,
            "Half round trips; bandwidth is the size by the median. In `verified` rounds every byte was checked."
        )?)
    }

    /// Prints a row as soon as it is known.
    pub(crate) fn row(&mut self, row: Row) -> Result<(), Failure> {
        if !self.json {
            let mut out = io::stdout().lock();
            if self.last != Some(row.op) {
                let (op, size, min, p50, p99) = (row.op.name(), "size", "min", "p50", "p99");
                writeln!(
                    out,
                    "\n{op:<8}{size:>9}{:>10}{:>9}{min:>11}{p50:>11}{p99:>11}{:>13}",
                    "verified", "rounds", "bandwidth"
                )?;
            }
            writeln!(
                out,
                "{:17}{:>10}{:>9}{:>11}{:>11}{:>11}{:>13}",
                format!("{:>17}", size_text(row.size)),
                row.verified,
                row.rounds,
                time_text(row.min),
                time_text(row.p50),
                time_text(row.p99),
                rate_text(row.bandwidth()),
            )?;
            self.last = Some(row.op);
        }
        self.rows.push(row);
        Ok(())
    }

    /// Everything is measured.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if self.rows.is_empty() {
            return Ok(());
        }
        if self.json {
            writeln!(out, "{:#}", self.to_json())?;
        } else {
            let rounds: u64 = self.rows.iter().map(|row| row.verified).sum();
            writeln!(out, "\n{rounds} rounds verified in both directions, no byte wrong.")?;
        }
        Ok(out.flush()?)
    }

    fn to_json(&self) -> Value {
        let results: Vec<_> = self.rows.iter().map(Row::to_json).collect();
        json!({ "transport": self.transport, "provider": self.provider, "place": self.place, "results": results })
    }
}

/// `64 B`, `4 KiB`, `1 MiB`; `1000 B` where it does not come out even.
pub(crate) fn size_text(size: usize) -> String {
    match size {
        _ if size.is_multiple_of(1 << 30) => format!("{} GiB", size >> 30),
        _ if size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        _ if size.is_multiple_of(1 << 10) => format!("{} KiB", size >> 10),
        _ => format!("{size} B"),
    }
}

fn time_text(nanoseconds: f64) -> String {
    scaled(nanoseconds, &["ns", "µs", "ms", "s"])
}

fn rate_text(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
}

/// Three digits and a unit; the units are a thousandfold apart.
fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    while value >= 999.5
        && let Some(larger) = units.next()
    {
        value /= 1000.0;
        unit = larger;
    }
    let digits = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(time_text(0.5), "0.50 ns");
        assert_eq!(time_text(87.5), "87.5 ns");
        assert_eq!(time_text(999.4), "999 ns");
        assert_eq!(time_text(999.6), "1.00 µs");
        assert_eq!(time_text(123_456.0), "123 µs");
        assert_eq!(time_text(5e12), "5000 s");
        assert_eq!(rate_text(9.994e9), "9.99 GB/s");
        assert_eq!(rate_text(9.996e9), "10.0 GB/s");
        assert_eq!(size_text(1), "1 B");
        assert_eq!(size_text(1000), "1000 B");
        assert_eq!(size_text(4096), "4 KiB");
        assert_eq!(size_text(4 << 20), "4 MiB");
    }

    #[test]
    fn percentiles_are_samples() {
        let mut samples: Vec<u64> = (1..=200).rev().collect();
        let row = Row::new(Op::Message, 8, 1, &mut samples);
        assert_eq!((row.min, row.p50, row.p99), (0.5, 50.0, 99.0));
        let row = Row::new(Op::Message, 8, 1, &mut [7]);
        assert_eq!((row.min, row.p50, row.p99), (3.5, 3.5, 3.5));
    }
}
