//! How long requests took.

use std::fmt;
use std::time::Duration;

use crate::histogram::Histogram;

/// Times in nanoseconds.
pub(crate) struct Times(Histogram);

impl Times {
    pub(crate) const fn new() -> Self {
        Times(Histogram::new())
    }

    pub(crate) fn record(&mut self, time: Duration) {
        self.0.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from due to answered, in us:")?;
        for (name, of_million) in
            [("p50", 500_000), ("p90", 900_000), ("p99", 990_000), ("p99.9", 999_000), ("p99.99", 999_900)]
        {
            let nanos = self.0.quantile(of_million);
            write!(f, "  {name} {}.{:02}", nanos / 1000, nanos % 1000 / 10)?;
        }
        let longest = self.0.longest();
        write!(f, "  longest {}.{:02}", longest / 1000, longest % 1000 / 10)
    }
}
