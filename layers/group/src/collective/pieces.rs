//! The messages of a round in one direction, cut into pieces of the length of a packet.

use crate::schedule::{Op, Ops, Part, Schedule};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Recv,
    Send,
}

/// A part of a message that one operation of the endpoint moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) peer: u32,
    pub(super) part: Part,
    /// Its number in the message.
    pub(super) number: u32,
}

pub(super) struct Pieces<'s, S> {
    ops: Ops<'s, S>,
    direction: Direction,
    most: usize,
    /// What is next of a message that has begun.
    next: Option<Piece>,
}

impl<'s, S: Schedule> Pieces<'s, S> {
    /// Pieces of `most` elements at most.
    pub(super) fn new(schedule: &'s S, round: u32, direction: Direction, most: usize) -> Self {
        let mut pieces = Pieces { ops: schedule.ops(round), direction, most, next: None };
        pieces.next = pieces.message();
        pieces
    }

    /// The next message, as one piece.
    fn message(&mut self) -> Option<Piece> {
        self.ops.find_map(|op| match (op, self.direction) {
            (Op::Recv { peer, into: part }, Direction::Recv) | (Op::Send { peer, from: part }, Direction::Send) => {
                Some(Piece { peer, part, number: 0 })
            }
            _ => None,
        })
    }

    /// The next piece. It stays the next until [`pass`](Self::pass).
    pub(super) fn peek(&self) -> Option<Piece> {
        let mut piece = self.next?;
        piece.part.len = piece.part.len.min(self.most);
        Some(piece)
    }

    pub(super) fn pass(&mut self) {
        let Some(Piece { peer, part, number }) = self.next else { return };
        self.next = if part.len > self.most {
            let part = Part::new(part.buffer, part.start.saturating_add(self.most), part.len - self.most);
            Some(Piece { peer, part, number: number.saturating_add(1) })
        } else {
            self.message()
        };
    }
}
