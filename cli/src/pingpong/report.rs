use std::io::{self, Write};

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::play::row::{self, Row};
use crate::play::setup::{Op, Place, Report};
use crate::progress::Progress;
use crate::text::{count, rate_text, size_text, time_text};

pub(crate) struct Table {
    json: bool,
    transport: String,
    provider: String,
    place: &'static str,
    cores: Option<[usize; 2]>,
    progress: Progress,
    last: Option<Op>,
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn new(json: bool, cores: Option<[usize; 2]>) -> Self {
        let (transport, provider) = (String::new(), String::new());
        Table { json, transport, provider, place: "", cores, progress: Progress::new(), last: None, rows: Vec::new() }
    }

    pub(crate) fn clear_progress(&self) {
        self.progress.clear();
    }

    pub(crate) fn end(&self, interrupted: bool) -> Result<(), Failure> {
        let warning = row::warning(self.rows.iter());
        if let Some(text) = &warning {
            let _ = writeln!(io::stderr(), "loom: warning: {text}");
        }
        let mut out = io::stdout().lock();
        if self.json && !self.transport.is_empty() {
            writeln!(out, "{:#}", self.to_json(interrupted, warning.as_deref()))?;
        } else if !self.rows.is_empty() {
            let rounds = self.rows.iter().map(|row| row.verified).sum();
            writeln!(out, "\n{} verified in both directions, no byte wrong.", count(rounds, "round"))?;
        }
        Ok(out.flush()?)
    }

    fn to_json(&self, interrupted: bool, warning: Option<&str>) -> Value {
        let results: Vec<_> = self.rows.iter().map(row_json).collect();
        json!({
            "transport": self.transport,
            "provider": self.provider,
            "place": self.place,
            "processors": self.cores,
            "interrupted": interrupted,
            "warning": warning,
            "results": results,
        })
    }
}

fn row_json(row: &Row) -> Value {
    json!({
        "op": row.op.name(),
        "size_bytes": row.size,
        "verified_rounds": row.verified,
        "rounds": row.rounds,
        "half_round_trip_ns": { "min": row.trip.min, "p50": row.trip.p50, "p99": row.trip.p99 },
        "disturbed": row.is_disturbed(),
        "bandwidth_bytes_per_second": row.bandwidth().round(),
    })
}

impl Report for Table {
    fn begin(&mut self, transport: &str, provider: &str, place: &Place) -> Result<(), Failure> {
        (self.transport, self.provider, self.place) = (transport.to_owned(), provider.to_owned(), place.name());
        Ok(())
    }

    fn next(&mut self, op: Op, size: usize) {
        self.progress.show(op.name(), size);
    }

    fn row(&mut self, row: Row) -> Result<(), Failure> {
        self.progress.clear();
        if !self.json {
            let mut out = io::stdout().lock();
            if self.rows.is_empty() {
                write!(out, "loom pingpong: {}, provider {}, {}", self.transport, self.provider, self.place)?;
                match self.cores {
                    Some([one, other]) => writeln!(out, " on the processors {one} and {other}")?,
                    None => writeln!(out)?,
                }
                writeln!(
                    out,
                    "Half round trips; bandwidth is the size by the median. In `verified` rounds every byte was checked."
                )?;
            }
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
                time_text(row.trip.min),
                time_text(row.trip.p50),
                time_text(row.trip.p99),
                rate_text(row.bandwidth()),
            )?;
            self.last = Some(row.op);
        }
        self.rows.push(row);
        Ok(())
    }
}
