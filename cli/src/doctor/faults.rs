//! Known faults of providers by version of libfabric, which tests check.

const TABLE: &str = include_str!("../../faults.txt");

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) crashes: bool,
    pub(super) sentence: &'static str,
}

pub(super) fn of(version: &str) -> Option<Vec<Fault>> {
    let columns = TABLE.lines().rfind(|line| line.starts_with('#'))?;
    let column = columns.split_whitespace().skip(1).position(|head| head == version)?;
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let faults = rows.filter_map(|row| {
        let (cells, sentence) = row.split_once(" | ")?;
        let mut cells = cells.split_whitespace();
        let name = cells.clone().next()?;
        let crashes = match cells.nth(column)? {
            "there" => false,
            "crash" => true,
            _ => return None,
        };
        Some(Fault { name, crashes, sentence })
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
            assert!(faults.iter().any(|fault| fault.crashes));
        }
        let both_ways = |fault: &Fault| fault.name == "shm-longer-messages-both-ways-crash";
        assert!(of("2.5").unwrap_or_default().iter().any(|fault| both_ways(fault) && fault.crashes));
        assert!(!of("1.17").unwrap_or_default().iter().any(both_ways));
        assert_eq!(of("9.9"), None);
        for row in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let (cells, sentence) = row.split_once(" | ").unwrap_or_default();
            let cells: Vec<_> = cells.split_whitespace().collect();
            let known = |cell: &&str| ["there", "crash", "gone", "no-provider"].contains(cell);
            assert!(cells.len() == 3 && cells.iter().skip(1).all(known), "{row}");
            assert!(sentence.len() > 30 && sentence.ends_with('.') && !sentence.contains(". "), "{row}");
            assert!(sentence.starts_with(|first: char| first.is_uppercase() || first == '`'), "{row}");
        }
    }
}
