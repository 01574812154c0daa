#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Responder,
}

impl Role {
    pub(crate) fn other(self) -> Self {
        match self {
            Role::Initiator => Role::Responder,
            Role::Responder => Role::Initiator,
        }
    }
}

pub(crate) type Buffer = Box<[u8]>;

#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) outbox: Buffer,
    pub(crate) inbox: Buffer,
}

/// A buffer returns with the length that it was posted with, so every size has its own buffers.
pub(crate) struct Memory {
    pub(crate) buffers: Vec<Buffers>,
    pub(crate) window: Option<Buffer>,
}

impl Memory {
    pub(crate) fn new(sizes: &[usize], with_window: bool) -> Self {
        let buffer = |size| vec![0; size].into_boxed_slice();
        let longest = sizes.iter().copied().max().unwrap_or(0);
        Memory {
            buffers: sizes.iter().map(|size| Buffers { outbox: buffer(*size), inbox: buffer(*size) }).collect(),
            window: with_window.then(|| buffer(longest)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) offset: usize,
    pub(crate) got: u8,
    pub(crate) expected: u8,
}

/// Pattern that differs by size, round and direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern(u64);

impl Pattern {
    pub(crate) fn new(size: usize, round: u64, sender: Role) -> Self {
        Pattern(mix(mix(size as u64) ^ mix(round << 1 | u64::from(sender == Role::Responder))))
    }

    /// Eight bytes at a time, so that checking is not slower than moving.
    fn words(self) -> impl Iterator<Item = [u8; 8]> {
        (self.0..=u64::MAX).chain(0..).map(|word| mix(word).to_le_bytes())
    }

    pub(crate) fn fill(self, bytes: &mut [u8]) {
        for (place, word) in bytes.chunks_mut(8).zip(self.words()) {
            place.copy_from_slice(&word[..place.len()]);
        }
    }

    pub(crate) fn check(self, bytes: &[u8]) -> Result<(), Mismatch> {
        for ((index, place), word) in bytes.chunks(8).enumerate().zip(self.words()) {
            if *place != word[..place.len()] {
                let differ = place.iter().zip(word).enumerate().find(|(_, (got, expected))| **got != *expected);
                return differ.map_or(Ok(()), |(at, (got, expected))| {
                    Err(Mismatch { offset: 8 * index + at, got: *got, expected })
                });
            }
        }
        Ok(())
    }
}

/// Finaliser of SplitMix64.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_byte_is_found() {
        let pattern = Pattern::new(21, 3, Role::Responder);
        let mut bytes = [0; 21];
        pattern.fill(&mut bytes);
        assert_eq!(pattern.check(&bytes), Ok(()));
        for offset in 0..bytes.len() {
            let expected = bytes[offset];
            let got = expected ^ 0x10;
            bytes[offset] = got;
            assert_eq!(pattern.check(&bytes), Err(Mismatch { offset, got, expected }));
            bytes[offset] = expected;
        }
    }

    #[test]
    fn sizes_rounds_and_directions_differ() {
        let mut bytes = [0; 64];
        Pattern::new(64, 1, Role::Initiator).fill(&mut bytes);
        for other in [
            Pattern::new(64, 2, Role::Initiator),
            Pattern::new(64, 1, Role::Responder),
            Pattern::new(128, 1, Role::Initiator),
        ] {
            assert!(other.check(&bytes).is_err());
        }
    }

    #[test]
    fn the_pattern_goes_on_at_the_end_of_the_numbers() {
        let mut bytes = [0; 32];
        Pattern(u64::MAX - 1).fill(&mut bytes);
        assert_eq!(Pattern(u64::MAX - 1).check(&bytes), Ok(()));
        assert_ne!(bytes[16..24], [0; 8]);
    }

    #[test]
    fn every_size_has_its_buffers() {
        let Memory { buffers, window } = Memory::new(&[1, 64, 3], true);
        assert_eq!(buffers.iter().map(|pair| pair.outbox.len()).collect::<Vec<_>>(), [1, 64, 3]);
        assert_eq!(buffers.iter().map(|pair| pair.inbox.len()).collect::<Vec<_>>(), [1, 64, 3]);
        assert_eq!(window.map(|window| window.len()), Some(64));
    }
}
