//! What is known to be wrong in the providers of a version of libfabric: the table that the tests of the faults are compared with.

const TABLE: &str = include_str!("../../faults.txt");

/// The faults of a version, each with whether it ends the process; `None` if nothing is known of the version.
pub(super) fn of(version: &str) -> Option<Vec<(&'static str, bool)>> {
    let columns = TABLE.lines().rfind(|line| line.starts_with('#'))?;
    let column = columns.split_whitespace().skip(1).position(|head| head == version)?;
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let faults = rows.filter_map(|row| {
        let mut cells = row.split_whitespace();
        let name = cells.clone().next()?;
        match cells.nth(column)? {
            "there" => Some((name, false)),
            "crash" => Some((name, true)),
            _ => None,
        }
    });
    Some(faults.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        for version in ["1.17", "2.5"] {
            let faults = of(version).unwrap_or_default();
            assert!(faults.len() > 40, "{version}: {}", faults.len());
            assert!(faults.iter().any(|(_, crashes)| *crashes));
        }
        assert!(of("2.5").unwrap_or_default().contains(&("shm-longer-messages-both-ways-crash", true)));
        assert!(!of("1.17").unwrap_or_default().iter().any(|(name, _)| *name == "shm-longer-messages-both-ways-crash"));
        assert_eq!(of("9.9"), None);
        for row in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<_> = row.split_whitespace().collect();
            let known = |cell: &&str| ["there", "crash", "gone", "no-provider"].contains(cell);
            assert!(cells.len() == 3 && cells.iter().skip(1).all(known), "{row}");
        }
    }
}
