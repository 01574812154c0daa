//! The results: a table, one JSON object, a drawing.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::thread;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::play::row::Row;
use crate::play::setup::{Op, Place, Report};
use crate::plot::{self, Curve, Point};
use crate::text::{rate_text, scaled, size_text, time_text};

/// What was measured over one provider.
struct Part {
    transport: String,
    provider: String,
    place: &'static str,
    rows: Vec<Row>,
}

/// All results.
pub(super) struct Bench {
    json: bool,
    /// Whether someone looks at the standard error.
    shows_progress: bool,
    parts: Vec<Part>,
}

impl Bench {
    pub(super) fn new(json: bool) -> Self {
        Bench { json, shows_progress: io::stderr().is_terminal(), parts: Vec::new() }
    }

    pub(super) fn clear_progress(&self) {
        if self.shows_progress {
            // Progress that cannot be shown is no failure.
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Everything is measured, or as much as there was until it ended.
    pub(super) fn end(&self, interrupted: bool, failure: Option<&Failure>) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if self.json {
            let parts: Vec<_> = self.parts.iter().map(part_json).collect();
            let object = json!({
                "version": env!("CARGO_PKG_VERSION"),
                "processors": thread::available_parallelism().map_or(1, usize::from),
                "interrupted": interrupted,
                "failure": failure.map(ToString::to_string),
                "providers": parts,
            });
            writeln!(out, "{object:#}")?;
        } else {
            let verified: u64 = self.parts.iter().flat_map(|part| &part.rows).map(|row| row.verified).sum();
            writeln!(out, "\n{verified} messages verified, no byte wrong.")?;
        }
        Ok(out.flush()?)
    }

    /// Draws what there is.
    pub(super) fn draw(&self, file: &Path) -> Result<(), Failure> {
        let curves = |y: fn(&Row) -> Option<[f64; 3]>| -> Vec<Curve> {
            let points =
                |part: &Part| part.rows.iter().filter_map(|row| Some(Point { x: row.size, y: y(row)? })).collect();
            self.parts.iter().map(|part| Curve { name: part.provider.clone(), points: points(part) }).collect()
        };
        let drawing = plot::page(&[
            ("Half a round trip, ns", curves(|row| Some([row.trip.q1, row.trip.p50, row.trip.q3]))),
            ("Messages a second", curves(|row| row.flow.map(|flow| [flow.q1, flow.median, flow.q3]))),
            (
                "Bytes a second",
                curves(|row| row.flow.map(|flow| [flow.q1, flow.median, flow.q3].map(|rate| rate * row.size as f64))),
            ),
        ]);
        fs::write(file, drawing)
            .map_err(|error| Failure::Unavailable(format!("cannot write the drawing to {}: {error}", file.display())))
    }
}

fn part_json(part: &Part) -> Value {
    let rows: Vec<_> = part.rows.iter().map(row_json).collect();
    json!({ "transport": part.transport, "provider": part.provider, "place": part.place, "results": rows })
}

fn row_json(row: &Row) -> Value {
    let flow = row.flow.map(|flow| {
        let bytes = |rate: f64| (rate * row.size as f64).round();
        json!({
            "batches": flow.batches,
            "messages_of_a_batch": flow.messages,
            "messages_per_second": { "q1": flow.q1.round(), "median": flow.median.round(), "q3": flow.q3.round() },
            "bytes_per_second": { "q1": bytes(flow.q1), "median": bytes(flow.median), "q3": bytes(flow.q3) },
        })
    });
    let trip = row.trip;
    json!({
        "size_bytes": row.size,
        "verified_messages": row.verified,
        "rounds": row.rounds,
        "half_round_trip_ns":
            { "min": trip.min, "q1": trip.q1, "median": trip.p50, "q3": trip.q3, "p99": trip.p99 },
        "flow": flow,
    })
}

impl Report for Bench {
    fn begin(&mut self, transport: &str, provider: &str, place: &Place) -> Result<(), Failure> {
        self.parts.push(Part {
            transport: transport.to_owned(),
            provider: provider.to_owned(),
            place: place.name(),
            rows: Vec::new(),
        });
        if self.json {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        writeln!(out, "\n{provider} ({transport}), {}", place.name())?;
        let heads = ["size", "half trip", "q1", "q3", "p99", "messages/s", "bandwidth", "q1", "q3"];
        Ok(writeln!(out, "{}", line(&heads.map(str::to_owned)))?)
    }

    fn next(&mut self, _: Op, size: usize) {
        if self.shows_progress
            && let Some(part) = self.parts.last()
        {
            let _ = write!(io::stderr(), "\r\x1b[K{}: {} ...", part.provider, size_text(size));
        }
    }

    fn row(&mut self, row: Row) -> Result<(), Failure> {
        self.clear_progress();
        if !self.json {
            let trip = row.trip;
            let flow = row.flow.map(|flow| [flow.median, flow.q1, flow.q3]).unwrap_or_default();
            let [bytes, q1, q3] = flow.map(|rate| rate_text(rate * row.size as f64));
            let times = [trip.p50, trip.q1, trip.q3, trip.p99].map(time_text);
            let [half, first, third, p99] = times;
            let rate = scaled(flow[0], &["", "k", "M", "G"]);
            writeln!(io::stdout(), "{}", line(&[size_text(row.size), half, first, third, p99, rate, bytes, q1, q3]))?;
        }
        if let Some(part) = self.parts.last_mut() {
            part.rows.push(row);
        }
        Ok(())
    }
}

/// Cells to the right.
fn line(cells: &[String; 9]) -> String {
    cells.iter().map(|cell| format!("{cell:>11}")).collect()
}
