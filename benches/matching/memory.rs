//! Cost of access to uncached memory.

use crate::cases::Random;

/// A cache line with the position of the next one.
#[repr(align(64))]
struct Line(u32);

/// Lines that each lead to another, in a pseudorandom order.
pub(crate) struct Lines {
    lines: Vec<Line>,
    at: u32,
}

impl Lines {
    /// Lines of this number of bytes in total.
    pub(crate) fn new(bytes: usize) -> Self {
        let count = u32::try_from(bytes / size_of::<Line>()).expect("there are not so many");
        let mut order: Vec<u32> = (0..count).collect();
        let mut random = Random::new();
        for last in (1..count).rev() {
            order.swap(last as usize, random.below(last + 1) as usize);
        }
        let mut lines: Vec<Line> = (0..count).map(Line).collect();
        for (at, line) in order.iter().enumerate() {
            lines[*line as usize].0 = order[(at + 1) % order.len()];
        }
        Lines { lines, at: 0 }
    }

    /// Visits `count` lines, each after the one before.
    pub(crate) fn chase(&mut self, count: u32) {
        for _ in 0..count {
            self.at = std::hint::black_box(self.lines[self.at as usize].0);
        }
    }
}
