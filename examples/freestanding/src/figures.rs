use core::fmt::{self, Write};

use crate::histogram::Histogram;
use crate::processor::{Timer, is_emulated, now};

/// Operations between two reads of the counter.
const ROW: u64 = 32;
const WARM_UP: u32 = 1000;

/// Percentiles, in millionths.
const PERCENTILES: [(&str, u64); 6] = [
    ("p50", 500_000),
    ("p90", 900_000),
    ("p99", 990_000),
    ("p99.9", 999_000),
    ("p99.99", 999_900),
    ("p99.999", 999_990),
];

pub struct Measure {
    timer: Timer,
    samples: u32,
}

impl Measure {
    pub fn new() -> Self {
        let real = !cfg!(debug_assertions) && !is_emulated();
        Measure { timer: Timer::calibrated(), samples: if real { 1_000_000 } else { 10_000 } }
    }

    pub fn head(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "{}", self.timer)?;
        if cfg!(debug_assertions) || is_emulated() {
            writeln!(out, "the cycles are meaningless: the build is not optimised, or emulated")?;
        }
        writeln!(
            out,
            "cycles: median of rows of {ROW} operations; percentiles of {} operations one at a time",
            self.samples
        )?;
        write!(out, "{:16} {:>8}", "", "row")?;
        for (name, _) in PERCENTILES {
            write!(out, " {name:>8}")?;
        }
        writeln!(out, " {:>8}", "max")
    }

    /// Runs an operation in rows, then one at a time, with `prepare` and `check` outside of the
    /// measured time.
    pub fn run<S, E>(
        &self,
        name: &'static str,
        state: &mut S,
        prepare: impl Fn(&mut S, u64) -> Result<(), E>,
        operation: impl Fn(&mut S) -> Result<(), E>,
        check: impl Fn(&mut S, u64) -> Result<(), E>,
    ) -> Result<Figures, E> {
        let mut number = 0;
        let mut sample = |calls: u64| {
            number += 1;
            prepare(state, number)?;
            let begin = now();
            for _ in 0..calls {
                operation(state)?;
            }
            let cycles = self.timer.since(begin) / calls;
            check(state, number)?;
            Ok(cycles)
        };
        let (mut rows, mut alone) = (Histogram::new(), Histogram::new());
        for _ in 0..WARM_UP {
            sample(1)?;
        }
        for _ in 0..self.samples / 100 {
            rows.record(sample(ROW)?);
        }
        for _ in 0..self.samples {
            alone.record(sample(1)?);
        }
        let percentile = |(_, of_million)| {
            // With fewer samples the percentile is the maximum.
            let enough = u64::from(self.samples) * (1_000_000 - of_million) >= 1_000_000;
            enough.then(|| alone.quantile(of_million))
        };
        Ok(Figures { name, row: rows.quantile(500_000), percentiles: PERCENTILES.map(percentile), max: alone.longest })
    }
}

pub struct Figures {
    name: &'static str,
    /// Median of the cycles of a row, by operation.
    row: u64,
    /// Cycles of single operations.
    percentiles: [Option<u64>; PERCENTILES.len()],
    max: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:16} {:>8}", self.name, self.row)?;
        for cycles in self.percentiles {
            match cycles {
                Some(cycles) => write!(f, " {cycles:>8}")?,
                None => write!(f, " {:>8}", "-")?,
            }
        }
        write!(f, " {:>8}", self.max)
    }
}
