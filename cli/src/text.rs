pub(crate) const MAX_SIZE: usize = 1 << 30;

pub(crate) fn size_text(size: usize) -> String {
    match size {
        _ if size.is_multiple_of(1 << 30) => format!("{} GiB", size >> 30),
        _ if size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        _ if size.is_multiple_of(1 << 10) => format!("{} KiB", size >> 10),
        _ => format!("{size} B"),
    }
}

pub(crate) fn time_text(nanoseconds: f64) -> String {
    scaled(nanoseconds, &["ns", "µs", "ms", "s"])
}

pub(crate) fn rate_text(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
}

/// Three digits and a unit. Each unit is 1000 times the previous one.
pub(crate) fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    while value >= 999.5
        && let Some(larger) = units.next()
    {
        value /= 1000.0;
        unit = larger;
    }
    let digits = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

pub(crate) fn count(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

pub(crate) fn sizes(list: &str) -> Result<Vec<usize>, String> {
    const MOST: usize = 64;
    let sizes: Vec<usize> = list.split(',').map(size).collect::<Result<_, _>>()?;
    if sizes.len() > MOST { Err(format!("at most {MOST} sizes can be measured at once")) } else { Ok(sizes) }
}

fn size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let size = digits.parse::<usize>().ok().and_then(|count| count.checked_mul(unit));
    size.filter(|size| (1..=MAX_SIZE).contains(size))
        .ok_or_else(|| format!("sizes are from 1 B to {}, like 1,64,4K,1M,1G; not `{text}`", size_text(MAX_SIZE)))
}

/// Without control characters for a terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(time_text(0.5), "0.50 ns");
        assert_eq!(time_text(87.5), "87.5 ns");
        assert_eq!(time_text(999.4), "999 ns");
        assert_eq!(time_text(999.6), "1.00 µs");
        assert_eq!(time_text(123_456.0), "123 µs");
        assert_eq!(time_text(5e12), "5000 s");
        assert_eq!(rate_text(9.994e9), "9.99 GB/s");
        assert_eq!(rate_text(9.996e9), "10.0 GB/s");
        assert_eq!(size_text(1), "1 B");
        assert_eq!([0, 1, 2].map(|number| count(number, "offer")), ["0 offers", "1 offer", "2 offers"]);
        assert_eq!(size_text(1000), "1000 B");
        assert_eq!(size_text(4096), "4 KiB");
        assert_eq!(size_text(4 << 20), "4 MiB");
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(sizes("1,4K,2m,1G"), Ok(vec![1, 4096, 2 << 20, 1 << 30]));
        for wrong in ["", "0", "x", "1,,2", "2048M", "99999999999999999999", "2G", "G", "-1"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
        assert!(sizes(&vec!["1"; 65].join(",")).is_err());
    }
}
