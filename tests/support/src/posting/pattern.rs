//! [`pattern`]: what is moved.

/// How many bytes go up, modulo as many, before they begin anew.
const ROW: usize = 251;

/// By how much one byte is above the one before; and what that is to be multiplied with to be one.
const STEP: usize = 31;
const INVERSE: usize = 81;
const _: () = assert!(STEP * INVERSE % ROW == 1);

/// Two rows, of which each row is a part.
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

/// Bytes that tell where they belong, by message and place: each row begins with a byte one above that of the row before.
///
/// They are copied row by row. One by one they would take most of a test's time, in a build without optimisation.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (row, bytes) in bytes.chunks_mut(ROW).enumerate() {
        let first = (row + seed * 17 + 1) * INVERSE % ROW;
        bytes.copy_from_slice(&ROWS[first..][..bytes.len()]);
    }
    bytes
}
