use std::io::{self, Write};

use serde_json::{Value, json};

use crate::bench::machine;
use crate::failure::Failure;
use crate::play::row::Flow;
use crate::play::setup::Place;
use crate::plot::{self, Curve, Panel, Point};
use crate::progress::Progress;
use crate::text::{count, scaled, size_text};

pub(super) struct Row {
    pub(super) size: usize,
    pub(super) window: usize,
    pub(super) rails: usize,
    pub(super) verified: u64,
    /// Messages are pages.
    pub(super) flow: Flow,
}

impl Row {
    /// First quartile, median and third quartile of bytes a second.
    fn bandwidth(&self) -> [f64; 3] {
        [self.flow.q1, self.flow.median, self.flow.q3].map(|rate| rate * self.size as f64)
    }
}

pub(super) struct Table {
    json: bool,
    cores: Option<[usize; 2]>,
    direction: &'static str,
    transport: String,
    provider: String,
    place: &'static str,
    pub(super) progress: Progress,
    pub(super) counted: u64,
    rows: Vec<Row>,
}

const GIB: f64 = (1_u64 << 30) as f64;

impl Table {
    pub(super) fn new(json: bool, cores: Option<[usize; 2]>, reads: bool) -> Self {
        let direction = if reads { "read" } else { "write" };
        let (transport, provider, rows) = (String::new(), String::new(), Vec::new());
        Table { json, cores, direction, transport, provider, place: "", progress: Progress::new(), counted: 0, rows }
    }

    pub(super) fn begin(&mut self, transport: &str, provider: &str, place: &Place) {
        (self.transport, self.provider, self.place) = (transport.to_owned(), provider.to_owned(), place.name());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn row(&mut self, row: Row) -> Result<(), Failure> {
        self.progress.clear();
        if !self.json {
            let mut out = io::stdout().lock();
            if self.rows.is_empty() {
                let Table { direction, provider, transport, place, .. } = self;
                writeln!(out, "loom transfer: {direction}, provider {provider} ({transport}), {place}\n")?;
                writeln!(
                    out,
                    "{}",
                    line(&["size", "window", "rails", "GiB/s", "q1", "q3", "µs/page"].map(str::to_owned))
                )?;
            }
            let [q1, median, q3] = row.bandwidth().map(|rate| format!("{:.3}", rate / GIB));
            let (window, rails) = (row.window.to_string(), row.rails.to_string());
            let time = format!("{:.2}", 1e6 / row.flow.median);
            writeln!(out, "{}", line(&[size_text(row.size), window, rails, median, q1, q3, time]))?;
        }
        self.rows.push(row);
        Ok(())
    }

    pub(super) fn end(&self, interrupted: bool) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if self.json && !self.transport.is_empty() {
            let mut object = machine::members();
            let mut put = |name: &str, value| object.insert(name.to_owned(), value);
            put("version", json!(env!("CARGO_PKG_VERSION")));
            put("transport", json!(self.transport));
            put("provider", json!(self.provider));
            put("place", json!(self.place));
            put("cores", json!(self.cores));
            put("direction", json!(self.direction));
            put("interrupted", json!(interrupted));
            put("writes_counted", json!(self.counted));
            put("results", self.rows.iter().map(row_json).collect());
            writeln!(out, "{:#}", Value::Object(object))?;
        } else if !self.rows.is_empty() {
            let verified = self.rows.iter().map(|row| row.verified).sum();
            writeln!(out, "\n{} verified, no byte wrong.", count(verified, "page"))?;
            if self.counted > 0 {
                writeln!(out, "{} counted on arrival.", count(self.counted, "write"))?;
            }
        }
        Ok(out.flush()?)
    }

    pub(super) fn draw(&self) -> String {
        let mut kinds: Vec<_> = self.rows.iter().map(|row| (row.window, row.rails)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let panel = |title, y, figure: fn(&Row) -> [f64; 3]| {
            let curve = |(window, rails): &(usize, usize)| {
                let rows = self.rows.iter().filter(|row| (row.window, row.rails) == (*window, *rails));
                let points = rows.map(|row| Point { x: row.size, y: figure(row), noisy: false }).collect();
                Curve { name: format!("window {window}, {}", count(*rails as u64, "rail")), points }
            };
            let curves = kinds.iter().map(curve).collect();
            let y_text = |number| scaled(number, &["", "k", "M", "G", "T"]);
            Panel { title, x: "bytes", y, x_text: size_text, y_text, curves }
        };
        plot::curves(&[
            panel("Bytes a second", "B/s", Row::bandwidth),
            panel("Time of a page", "ns", |row| [row.flow.q3, row.flow.median, row.flow.q1].map(|rate| 1e9 / rate)),
        ])
    }
}

fn row_json(row: &Row) -> Value {
    let Flow { batches, messages, q1, median, q3 } = row.flow;
    let [low, bytes, high] = row.bandwidth().map(f64::round);
    json!({
        "size_bytes": row.size,
        "window": row.window,
        "rails": row.rails,
        "verified_pages": row.verified,
        "rounds": batches,
        "pages_of_a_round": messages,
        "pages_per_second": { "q1": q1, "median": median, "q3": q3 },
        "bytes_per_second": { "q1": low, "median": bytes, "q3": high },
        "microseconds_of_a_page": 1e6 / median,
    })
}

fn line(cells: &[String; 7]) -> String {
    cells.iter().map(|cell| format!("{cell:>10}")).collect()
}
