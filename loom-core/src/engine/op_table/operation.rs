//! What the table calls an operation, and has to know of it.

use core::fmt;

use crate::transport::Context;
use crate::vocabulary::CompletionFlags;

/// The name of a posted operation.
///
/// Plain data: forgetting it loses nothing. Meaningful for the queue that the operation was posted through, until
/// its completion was taken; afterwards it is recognised as unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpKey {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl OpKey {
    pub(super) const fn word(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
    pub(super) const fn from_word(word: u64) -> Self {
        OpKey { index: word as u32, generation: (word >> 32) as u32 }
    }
}

impl fmt::Display for OpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

/// Which side of a transfer an operation is, and so which provider queue reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Sends, reads and writes.
    Transmit,
    /// Receives.
    Receive,
}

impl Direction {
    pub(super) const fn list(self) -> usize {
        match self {
            Direction::Transmit => 0,
            Direction::Receive => 1,
        }
    }
}

/// What an operation does, as far as the table has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A send or a write: the buffer is read.
    Send,
    /// A read: a transmit whose buffer is written.
    Read,
    /// A receive: the buffer is written.
    Receive,
}

impl Kind {
    /// The queue that reports it.
    #[inline]
    #[must_use]
    pub const fn direction(self) -> Direction {
        match self {
            Kind::Send | Kind::Read => Direction::Transmit,
            Kind::Receive => Direction::Receive,
        }
    }

    /// How its completion is flagged where no provider does it.
    pub(super) const fn flags(self) -> CompletionFlags {
        match self {
            Kind::Send => CompletionFlags::SEND,
            Kind::Read => CompletionFlags::READ,
            Kind::Receive => CompletionFlags::RECV,
        }
    }
}

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// What it does.
    pub kind: Kind,
    /// Bytes that it was lent.
    pub len: usize,
    /// What names it to the provider.
    pub context: Context,
}

/// What the context of an operation is; rule 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextKind {
    /// A number: the provider leaves it alone.
    Word,
    /// The address of scratch space for the provider (`FI_CONTEXT`, `FI_CONTEXT2`).
    Space,
}
