use core::ops::Range;

/// Buffer of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// Caller's elements. Never written.
    Input,
    /// Result for the caller.
    Output,
    /// Room for the algorithm, with unspecified contents before and after.
    Scratch,
}

/// Range of elements of a buffer.
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
    /// Buffer.
    pub buffer: Which,
    /// First element.
    pub start: usize,
    /// Number of elements.
    pub len: usize,
}

impl Part {
    /// Elements of a buffer from `start` on.
    pub const fn new(buffer: Which, start: usize, len: usize) -> Self {
        Part { buffer, start, len }
    }

    /// A reversed range is empty.
    pub(super) const fn of(buffer: Which, range: Range<usize>) -> Self {
        Part { buffer, start: range.start, len: range.end.saturating_sub(range.start) }
    }

    /// Range of the elements.
    pub const fn range(&self) -> Range<usize> {
        self.start..self.start.saturating_add(self.len)
    }
}

/// Side of the operator for `from` in an [`Op::Combine`].
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

/// Operation of a member in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Receives the message of `peer` in the same round, as long as `into`.
    Recv {
        /// Rank of the sender.
        peer: u32,
        /// Target.
        into: Part,
    },
    /// Sends a message to `peer` in the same round.
    Send {
        /// Rank of the receiver.
        peer: u32,
        /// Message.
        from: Part,
    },
    /// Combines `from` and `into` element by element into `into`. They have equal length, and do
    /// not overlap.
    Combine {
        /// Operand.
        from: Part,
        /// Operand and result.
        into: Part,
        /// Side of `from`.
        side: Side,
    },
    /// Copies `from` into `into`, of equal length without overlap.
    Copy {
        /// Source.
        from: Part,
        /// Destination.
        into: Part,
    },
}

// Constructors that omit empty operations. Both ends of a message compute the same length.

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
