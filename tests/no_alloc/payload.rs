//! What is moved: bytes that differ from round to round and from place to place.

/// Up to this length, everything is written and checked in every round.
const SHORT: usize = 64;
/// Of longer data, so much at either end.
const END: usize = 8;

/// Of which round, and whether all of it is looked at however long it is.
#[derive(Clone, Copy)]
pub struct Payload {
    pub round: u64,
    pub whole: bool,
}

impl Payload {
    #[expect(clippy::cast_possible_truncation, reason = "the low byte is enough")]
    fn byte(self, at: usize) -> u8 {
        (self.round as u8).wrapping_mul(13).wrapping_add((at % 251) as u8) ^ (self.round >> 8) as u8
    }

    /// The places that are looked at.
    pub fn places(self, len: usize) -> impl Iterator<Item = usize> {
        let (head, tail) = if self.whole || len <= SHORT { (len, len) } else { (END, len - END) };
        (0..head).chain(tail..len)
    }

    pub fn write(self, buffer: &mut [u8]) {
        for at in self.places(buffer.len()) {
            if let Some(byte) = buffer.get_mut(at) {
                *byte = self.byte(at);
            }
        }
    }

    /// So that what is there afterwards has come.
    pub fn erase(self, buffer: &mut [u8]) {
        for at in self.places(buffer.len()) {
            if let Some(byte) = buffer.get_mut(at) {
                *byte = !self.byte(at);
            }
        }
    }

    pub fn is_in(self, buffer: &[u8]) -> bool {
        self.places(buffer.len()).all(|at| buffer.get(at) == Some(&self.byte(at)))
    }
}
