//! Metrics that differ in their size only, or in operation and size: what tables and drawings put together.

use std::collections::BTreeSet;

use super::text;
use crate::report::Metric;

/// The name of a metric without its size, and the size if there is one.
fn without_size(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((rest, size)) if text::bytes(size).is_some() => (rest, Some(size)),
        _ => (name, None),
    }
}

/// A row of a table: metrics that differ in their size only.
pub(super) struct Row<'r> {
    /// Their name, without the size.
    pub(super) name: &'r str,
    /// Each with its size.
    pub(super) metrics: Vec<(&'r str, &'r Metric)>,
}

impl Row<'_> {
    pub(super) fn of(&self, size: &str) -> Option<&Metric> {
        self.metrics.iter().find(|(its, _)| *its == size).map(|(_, metric)| *metric)
    }
}

/// Rows whose name is the same up to their last part, which names an operation.
pub(super) struct Family<'r> {
    /// What the names begin with.
    pub(super) name: &'r str,
    /// A row for each operation.
    pub(super) rows: Vec<Row<'r>>,
    /// All sizes, the smallest first.
    pub(super) sizes: Vec<&'r str>,
}

/// The families among metrics, and the metrics that are in none. A family has rows of several sizes.
pub(super) fn families<'r>(metrics: &[&'r Metric]) -> (Vec<Family<'r>>, Vec<&'r Metric>) {
    let mut families: Vec<Family<'r>> = Vec::new();
    for metric in metrics {
        let (name, Some(size)) = without_size(&metric.name) else { continue };
        let (family, _) = name.rsplit_once('.').unwrap_or((name, ""));
        let at = families.iter().position(|known| known.name == family).unwrap_or_else(|| {
            families.push(Family { name: family, rows: Vec::new(), sizes: Vec::new() });
            families.len() - 1
        });
        let rows = &mut families[at].rows;
        match rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.metrics.push((size, metric)),
            None => rows.push(Row { name, metrics: vec![(size, metric)] }),
        }
    }
    families.retain(|family| family.rows.len() > 1 && family.rows.iter().any(|row| row.metrics.len() > 1));
    for family in &mut families {
        let sizes = family.rows.iter().flat_map(|row| row.metrics.iter().map(|(size, _)| *size));
        let in_order: BTreeSet<_> = sizes.map(|size| (text::bytes(size), size)).collect();
        family.sizes = in_order.into_iter().map(|(_, size)| size).collect();
    }
    let is_in_family = |metric: &&Metric| {
        let (name, size) = without_size(&metric.name);
        size.is_some() && families.iter().any(|family| family.rows.iter().any(|row| row.name == name))
    };
    let alone = metrics.iter().copied().filter(|metric| !is_in_family(metric)).collect();
    (families, alone)
}
