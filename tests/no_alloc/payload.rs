//! Data of operations: bytes that differ between rounds and places.

use std::ops::Range;

/// Maximum length of data that is written and checked entirely in every round.
const SHORT: usize = 64;
/// Number of checked bytes at each end of longer data.
const END: usize = 8;

/// Round, and `true` to check all bytes of any length.
#[derive(Clone, Copy)]
pub struct Payload {
    pub round: u64,
    pub whole: bool,
}

/// Period of the bytes.
const ROW: usize = 251;

impl Payload {
    /// Bytes of a row, which is copied. Single bytes would take most of the time in a build without
    /// optimisation.
    #[expect(clippy::cast_possible_truncation, reason = "the low byte is enough")]
    fn row(self) -> [u8; ROW] {
        std::array::from_fn(|at| (self.round as u8).wrapping_mul(13).wrapping_add(at as u8) ^ (self.round >> 8) as u8)
    }

    /// Ranges that are checked: rows, and the end.
    fn parts(self, len: usize) -> impl Iterator<Item = Range<usize>> {
        let (head, tail) = if self.whole || len <= SHORT { (len, len) } else { (END, len - END) };
        let rows = (0..head).step_by(ROW).map(move |at| at..(at + ROW).min(head));
        rows.chain((tail < len).then_some(tail..len))
    }

    fn put(self, row: [u8; ROW], buffer: &mut [u8]) {
        for part in self.parts(buffer.len()) {
            let len = part.len();
            buffer[part].copy_from_slice(&row[..len]);
        }
    }

    pub fn write(self, buffer: &mut [u8]) {
        self.put(self.row(), buffer);
    }

    /// Changes the bytes, so that later content must have arrived.
    pub fn erase(self, buffer: &mut [u8]) {
        self.put(self.row().map(|byte| !byte), buffer);
    }

    pub fn is_in(self, buffer: &[u8]) -> bool {
        let row = self.row();
        self.parts(buffer.len()).all(|part| buffer[part.clone()] == row[..part.len()])
    }
}
