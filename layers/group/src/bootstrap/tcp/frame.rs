//! Wire format: an introduction, then frames of a header and optional bytes. Numbers are
//! little-endian.

use super::super::{BootstrapError, Mismatch};

pub(super) const HELLO_LEN: usize = 28;
pub(super) const HEADER_LEN: usize = 16;

const MAGIC: [u8; 4] = *b"lmbt";
const VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) job: u64,
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) limit: u32,
}

impl Hello {
    pub(super) fn to_bytes(self) -> [u8; HELLO_LEN] {
        let mut out = [0; HELLO_LEN];
        let bytes = (MAGIC.into_iter()).chain(VERSION.to_le_bytes()).chain(self.job.to_le_bytes());
        let bytes = bytes.chain([self.rank, self.size, self.limit].into_iter().flat_map(u32::to_le_bytes));
        out.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        out
    }

    /// Reads an introduction. `None` for a stranger, an error for another version.
    pub(super) fn read(bytes: &[u8]) -> Option<Result<Self, Mismatch>> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (job, rest) = rest.split_first_chunk::<8>()?;
        let (words, _) = rest.as_chunks::<4>();
        let &[rank, size, limit] = words else { return None };
        if *magic != MAGIC {
            return None;
        }
        if u32::from_le_bytes(*version) != VERSION {
            return Some(Err(Mismatch::Version));
        }
        let [rank, size, limit] = [rank, size, limit].map(u32::from_le_bytes);
        Some(Ok(Hello { job: u64::from_le_bytes(*job), rank, size, limit }))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// All ranks have joined.
    Joined,
    /// The rank is refused.
    Refused(Refusal),
    /// Rank 0 waits for this rank.
    Waiting(u32),
    /// A round or the meeting has failed.
    Failed(Failure),
    /// Bytes of a rank, `len` of which follow. `code` is the kind of the round.
    Gift { number: u32, code: u32, len: u32 },
    /// Bytes of all ranks, each after its length.
    All { number: u32, len: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Taken,
    Mismatch(Mismatch),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Missing(u32),
    OutOfStep(u32),
    Malformed(u32),
}

impl Refusal {
    const ALL: [Self; 5] = [
        Self::Taken,
        Self::Mismatch(Mismatch::Version),
        Self::Mismatch(Mismatch::Job),
        Self::Mismatch(Mismatch::Size),
        Self::Mismatch(Mismatch::Limit),
    ];

    pub(super) const fn error(self, rank: u32) -> BootstrapError {
        match self {
            Self::Taken => BootstrapError::Taken { rank },
            Self::Mismatch(what) => BootstrapError::Mismatch(what),
        }
    }
}

impl From<Failure> for BootstrapError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Missing(rank) => Self::Missing { rank },
            Failure::OutOfStep(rank) => Self::OutOfStep { rank },
            Failure::Malformed(rank) => Self::Malformed { rank },
        }
    }
}

impl Frame {
    pub(super) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let (tag, words) = match self {
            Frame::Joined => (*b"lmbj", [0; 3]),
            Frame::Refused(refusal) => {
                let code =
                    (0..).zip(Refusal::ALL).find(|&(_, each)| each == refusal).map_or(u32::MAX, |(code, _)| code);
                (*b"lmbn", [code, 0, 0])
            }
            Frame::Waiting(rank) => (*b"lmbw", [rank, 0, 0]),
            Frame::Failed(Failure::Missing(rank)) => (*b"lmbf", [0, rank, 0]),
            Frame::Failed(Failure::OutOfStep(rank)) => (*b"lmbf", [1, rank, 0]),
            Frame::Failed(Failure::Malformed(rank)) => (*b"lmbf", [2, rank, 0]),
            Frame::Gift { number, code, len } => (*b"lmbg", [number, code, len]),
            Frame::All { number, len } => {
                let [a, b, c, d, e, f, g, h] = len.to_le_bytes();
                (*b"lmba", [number, u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])])
            }
        };
        let mut out = [0; HEADER_LEN];
        let bytes = tag.into_iter().chain(words.into_iter().flat_map(u32::to_le_bytes));
        out.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        out
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first_chunk::<4>()?;
        let &[a, b, c] = rest.get(..HEADER_LEN - 4)?.as_chunks::<4>().0 else { return None };
        let [a, b, c] = [a, b, c].map(u32::from_le_bytes);
        let frame = match tag {
            b"lmbj" => Frame::Joined,
            b"lmbn" => Frame::Refused(*Refusal::ALL.get(usize::try_from(a).ok()?)?),
            b"lmbw" => Frame::Waiting(a),
            b"lmbf" => Frame::Failed(match a {
                0 => Failure::Missing(b),
                1 => Failure::OutOfStep(b),
                2 => Failure::Malformed(b),
                _ => return None,
            }),
            b"lmbg" => Frame::Gift { number: a, code: b, len: c },
            b"lmba" => Frame::All { number: a, len: u64::from(b) | u64::from(c) << 32 },
            _ => return None,
        };
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let failures = [Failure::Missing(3), Failure::OutOfStep(4), Failure::Malformed(5)].map(Frame::Failed);
        let others = [
            Frame::Joined,
            Frame::Waiting(9),
            Frame::Gift { number: 1, code: u32::MAX, len: 3 },
            Frame::All { number: 2, len: 0x1_0000_0002 },
        ];
        for frame in Refusal::ALL.map(Frame::Refused).into_iter().chain(failures).chain(others) {
            assert_eq!(Frame::read(&frame.to_bytes()), Some(frame));
        }
        assert_eq!(Frame::read(b"lmbn\x05\0\0\0\0\0\0\0\0\0\0\0"), None);
        assert_eq!(Frame::read(b"lmbf\x03\0\0\0\0\0\0\0\0\0\0\0"), None);
        assert_eq!(Frame::read(b"GET / HTTP/1.1\r\n"), None);
        assert_eq!(Frame::read(b"lmbj"), None);
    }

    #[test]
    fn introductions_are_read_as_they_were_written() {
        let hello = Hello { job: u64::MAX - 1, rank: 3, size: 4, limit: 5 };
        let mut bytes = hello.to_bytes();
        assert_eq!(Hello::read(&bytes), Some(Ok(hello)));
        assert_eq!(Hello::read(bytes.get(..27).expect("there are 28")), None);
        bytes[4] = 2;
        assert_eq!(Hello::read(&bytes), Some(Err(Mismatch::Version)));
        bytes[0] = 0;
        assert_eq!(Hello::read(&bytes), None);
    }
}
