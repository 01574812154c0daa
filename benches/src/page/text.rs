//! Numbers as the page writes them.

/// Three digits of it, as far as they stand behind the point; more than three before it are all written.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 999.5 => grouped(value.round()),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => trimmed(format!("{value:.1}")),
        size if size >= 0.0995 || size == 0.0 => trimmed(format!("{value:.2}")),
        _ => trimmed(format!("{value:.4}")),
    }
}

/// The same in a table, where numbers of one kind have as many digits.
pub(super) fn cell(value: f64) -> String {
    if value.abs() < 9.995 && value.fract() != 0.0 { format!("{value:.2}") } else { number(value) }
}

/// Without the zeros at its end.
fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// With a comma before each three digits.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// How much there is of what grows: of bytes in their units.
pub(super) fn amount(value: u32, of: &str) -> String {
    if of == "bytes" { size(&crate::sides::size_name(value as usize)) } else { grouped(value.into()) }
}

/// Units of sizes, as metrics write them, the largest first.
const UNITS: [(&str, u64); 3] = [("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// How many bytes a size has, as metrics write it: `4KiB`.
pub(super) fn bytes(size: &str) -> Option<u64> {
    let (count, factor) = UNITS.iter().find_map(|(unit, factor)| Some((size.strip_suffix(unit)?, factor)))?;
    count.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The same with a space before the unit.
pub(super) fn size(size: &str) -> String {
    let end = size.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(size.len());
    let (count, unit) = size.split_at(end);
    format!("{count} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_all_that_stand_before_the_point() {
        let written =
            [0.0, 0.0123, 0.25, 1.0, 1.049, 12.34, 99.97, 123.4, 1234.5, 1_234_567.0, -3.5, -1234.0].map(number);
        let wanted = ["0", "0.0123", "0.25", "1", "1.05", "12.3", "100", "123", "1,235", "1,234,567", "-3.5", "-1,234"];
        assert_eq!(written, wanted);
        assert_eq!([1.0, 0.9, 1.5, 250.0].map(cell), ["1", "0.90", "1.50", "250"]);
    }

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(["8B", "4KiB", "1MiB"].map(bytes), [Some(8), Some(4096), Some(1 << 20)]);
        assert_eq!(["inject", "B", "2threads"].map(bytes), [None; 3]);
        assert_eq!(size("64KiB"), "64 KiB");
        assert_eq!((amount(4096, "bytes"), amount(65_536, "peers")), ("4 KiB".into(), "65,536".into()));
    }
}
