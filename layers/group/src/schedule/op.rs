//! What a member does in a round: [`Op`], and the buffers that it names.

use core::ops::Range;

/// A buffer of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// What the caller gives. It is never written.
    Input,
    /// What the caller gets.
    Output,
    /// Room for the algorithm. Its contents before the first round and after the last one mean nothing.
    Scratch,
}

/// A range of elements of a buffer.
///
/// ```
/// use loom_group::schedule::{Part, Which};
///
/// /// The elements that a part names, of the buffers that an executor has.
/// fn elements<'b>(part: Part, output: &'b [u64], scratch: &'b [u64]) -> Option<&'b [u64]> {
///     match part.buffer {
///         Which::Output => output.get(part.range()),
///         Which::Scratch => scratch.get(part.range()),
///         Which::Input => None,
///     }
/// }
///
/// let part = Part::new(Which::Output, 1, 2);
/// assert_eq!(elements(part, &[1, 2, 3, 4], &[]), Some(&[2, 3][..]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The buffer.
    pub buffer: Which,
    /// The first element.
    pub start: usize,
    /// How many elements.
    pub len: usize,
}

impl Part {
    /// The elements of a buffer from `start` on.
    pub const fn new(buffer: Which, start: usize, len: usize) -> Self {
        Part { buffer, start, len }
    }

    /// The elements of a buffer in a range. A range that ends before it begins is empty.
    pub(super) const fn of(buffer: Which, range: Range<usize>) -> Self {
        Part { buffer, start: range.start, len: range.end.saturating_sub(range.start) }
    }

    /// The range of its elements.
    pub const fn range(&self) -> Range<usize> {
        self.start..self.start.saturating_add(self.len)
    }
}

/// On which side of the operator the elements of `from` stand in a [`Op::Combine`].
///
/// ```
/// use loom_group::schedule::Side;
///
/// /// What an executor does for `Op::Combine`: the sides matter where the operation does not commute.
/// fn combine(from: &str, into: &mut String, side: Side) {
///     *into = match side {
///         Side::Left => format!("{from}{into}"),
///         Side::Right => format!("{into}{from}"),
///     };
/// }
///
/// let mut ranks = "1".to_string();
/// combine("0", &mut ranks, Side::Left);
/// combine("2", &mut ranks, Side::Right);
/// assert_eq!(ranks, "012");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// `into = from ⊕ into`.
    Left,
    /// `into = into ⊕ from`.
    Right,
}

/// One operation of a member in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Receives the message that member `peer` sends in the same round. It has exactly the length of `into`.
    Recv {
        /// The rank of the sender.
        peer: u32,
        /// Where the message goes.
        into: Part,
    },
    /// Sends a message to member `peer`, which receives it in the same round.
    Send {
        /// The rank of the receiver.
        peer: u32,
        /// The message.
        from: Part,
    },
    /// Combines each element of `from` with the element of `into` at the same place, and puts the result into `into`. Both have the same
    /// length, and do not overlap.
    Combine {
        /// One operand.
        from: Part,
        /// The other operand, and the result.
        into: Part,
        /// On which side of the operator `from` stands.
        side: Side,
    },
    /// Copies `from` into `into`. Both have the same length, and do not overlap.
    Copy {
        /// The source.
        from: Part,
        /// The destination.
        into: Part,
    },
}

// The constructors of schedules: an operation of no elements is left out. Both ends of a message compute the same length, so both leave it out.

pub(super) fn recv(peer: u32, into: Part) -> Option<Op> {
    (into.len > 0).then_some(Op::Recv { peer, into })
}

pub(super) fn send(peer: u32, from: Part) -> Option<Op> {
    (from.len > 0).then_some(Op::Send { peer, from })
}

pub(super) fn combine(from: Part, into: Part, side: Side) -> Option<Op> {
    (into.len > 0).then_some(Op::Combine { from, into, side })
}

pub(super) fn copy(from: Part, into: Part) -> Option<Op> {
    (into.len > 0).then_some(Op::Copy { from, into })
}
