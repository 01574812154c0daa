//! Texts of numbers and sizes.

/// Three digits, or all digits before the point.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 999.5 => grouped(value.round()),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => trimmed(format!("{value:.1}")),
        size if size >= 0.0995 || size == 0.0 => trimmed(format!("{value:.2}")),
        _ => trimmed(format!("{value:.4}")),
    }
}

/// Text in a table, where numbers below 10 have two decimals.
pub(super) fn cell(value: f64) -> String {
    if value.abs() < 9.995 && value.fract() != 0.0 { format!("{value:.2}") } else { number(value) }
}

/// Removes zeros at the end.
fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// Digits with a comma before each three.
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

/// Returns `true` for a size as metrics write it: `4KiB`.
pub(super) fn is_size(text: &str) -> bool {
    text.strip_suffix("MiB")
        .or_else(|| text.strip_suffix("KiB"))
        .or_else(|| text.strip_suffix('B'))
        .is_some_and(|count| !count.is_empty() && count.bytes().all(|it| it.is_ascii_digit()))
}

/// A size with a space before its unit. Other text is not changed.
pub(super) fn spaced(text: &str) -> String {
    match text.find(|letter: char| !letter.is_ascii_digit()) {
        Some(unit) if is_size(text) => format!("{} {}", &text[..unit], &text[unit..]),
        _ => text.to_owned(),
    }
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
    fn sizes_are_recognised_and_have_a_space() {
        assert_eq!(
            ["8B", "4KiB", "1MiB", "inject", "B", "2threads"].map(is_size),
            [true, true, true, false, false, false]
        );
        assert_eq!(["64KiB", "16", "c"].map(spaced), ["64 KiB", "16", "c"]);
    }
}
