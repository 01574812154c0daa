use std::io::{self, Write};

use serde_json::{Value, json};

use super::machine;
use crate::failure::Failure;
use crate::play::row::{self, Row};
use crate::play::setup::{Op, Place, Report};
use crate::plot::{self, Curve, Panel, Point};
use crate::progress::Progress;
use crate::text::{count, rate_text, scaled, size_text, time_text};

struct Part {
    transport: String,
    provider: String,
    place: &'static str,
    rows: Vec<Row>,
}

pub(super) struct Bench {
    json: bool,
    pub(super) progress: Progress,
    parts: Vec<Part>,
}

impl Bench {
    pub(super) fn new(json: bool) -> Self {
        Bench { json, progress: Progress::new(), parts: Vec::new() }
    }

    pub(super) fn end(&self, interrupted: bool, failure: Option<&Failure>) -> Result<(), Failure> {
        let rows = || self.parts.iter().flat_map(|part| &part.rows);
        let warning = row::warning(rows());
        if let Some(text) = &warning {
            let _ = writeln!(io::stderr(), "loom: warning: {text}");
        }
        let mut out = io::stdout().lock();
        if self.json {
            let parts: Vec<_> = self.parts.iter().map(part_json).collect();
            let mut object = machine::members();
            object.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
            object.insert("interrupted".to_owned(), json!(interrupted));
            object.insert("failure".to_owned(), json!(failure.map(ToString::to_string)));
            object.insert("warning".to_owned(), json!(warning));
            object.insert("providers".to_owned(), json!(parts));
            writeln!(out, "{:#}", Value::Object(object))?;
        } else if !self.is_empty() {
            let verified = rows().map(|row| row.verified).sum();
            writeln!(out, "\n{} verified, no byte wrong.", count(verified, "message"))?;
        }
        Ok(out.flush()?)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.rows.is_empty())
    }

    pub(super) fn draw(&self) -> String {
        let panel = |title, y, figure: fn(&Row) -> Option<[f64; 3]>| {
            let point = |row: &Row| Some(Point { x: row.size, y: figure(row)?, noisy: row.is_disturbed() });
            let curve = |part: &Part| Curve {
                name: part.provider.clone(),
                points: part.rows.iter().filter_map(point).collect(),
            };
            Panel {
                title,
                x: "bytes",
                y,
                x_text: size_text,
                y_text: |number| scaled(number, &["", "k", "M", "G", "T"]),
                curves: self.parts.iter().map(curve).collect(),
            }
        };
        plot::curves(&[
            panel("Half a round trip", "ns", |row| Some([row.trip.q1, row.trip.p50, row.trip.q3])),
            panel("Messages a second", "1/s", |row| row.flow.map(|flow| [flow.q1, flow.median, flow.q3])),
            panel("Bytes a second", "B/s", |row| {
                row.flow.map(|flow| [flow.q1, flow.median, flow.q3].map(|rate| rate * row.size as f64))
            }),
        ])
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
        "disturbed": row.is_disturbed(),
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
        Ok(())
    }

    fn next(&mut self, _: Op, size: usize) {
        if let Some(part) = self.parts.last() {
            self.progress.show(&part.provider, size);
        }
    }

    fn row(&mut self, row: Row) -> Result<(), Failure> {
        self.progress.clear();
        let Some(part) = self.parts.last_mut() else { return Ok(()) };
        if !self.json {
            let mut out = io::stdout().lock();
            if part.rows.is_empty() {
                writeln!(out, "\n{} ({}), {}", part.provider, part.transport, part.place)?;
                let heads = ["size", "half trip", "q1", "q3", "p99", "messages/s", "bandwidth", "q1", "q3"];
                writeln!(out, "{}", line(&heads.map(str::to_owned)))?;
            }
            let trip = row.trip;
            let flow = row.flow.map(|flow| [flow.median, flow.q1, flow.q3]).unwrap_or_default();
            let [bytes, q1, q3] = flow.map(|rate| rate_text(rate * row.size as f64));
            let times = [trip.p50, trip.q1, trip.q3, trip.p99].map(time_text);
            let [half, first, third, p99] = times;
            let rate = scaled(flow[0], &["", "k", "M", "G"]);
            writeln!(out, "{}", line(&[size_text(row.size), half, first, third, p99, rate, bytes, q1, q3]))?;
        }
        part.rows.push(row);
        Ok(())
    }
}

fn line(cells: &[String; 9]) -> String {
    cells.iter().map(|cell| format!("{cell:>11}")).collect()
}
