//! [`pattern`]: bytes of messages.

/// Length of a row. Its bytes rise, modulo this number.
const ROW: usize = 251;

/// Difference of consecutive bytes, and its inverse, modulo `ROW`.
const STEP: usize = 31;
const INVERSE: usize = 81;
const _: () = assert!(STEP * INVERSE % ROW == 1);

/// Two rows, which contain every row as a range.
const ROWS: [u8; 2 * ROW] = {
    let mut rows = [0; 2 * ROW];
    let mut at = 0;
    while at < rows.len() {
        #[expect(clippy::cast_possible_truncation, reason = "it is below 251")]
        let byte = (at * STEP % ROW) as u8;
        rows[at] = byte;
        at += 1;
    }
    rows
};

/// Bytes that identify their message and place: each row begins with a byte one above that of the
/// row before.
///
/// The bytes are copied row by row. One by one they would take most of a test's time, in a build
/// without optimisation.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (row, bytes) in bytes.chunks_mut(ROW).enumerate() {
        let first = (row + seed * 17 + 1) * INVERSE % ROW;
        bytes.copy_from_slice(&ROWS[first..][..bytes.len()]);
    }
    bytes
}
