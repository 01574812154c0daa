//! [`Cursor`]: messages of a round in one direction, in pieces of at most a packet.

use crate::schedule::{Op, Part, Schedule};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Recv,
    Send,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) peer: u32,
    pub(super) part: Part,
    pub(super) number: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    direction: Direction,
    index: u32,
    left: Option<Piece>,
}

impl Cursor {
    pub(super) fn new(direction: Direction, schedule: &impl Schedule, round: u32) -> Self {
        let mut cursor = Cursor { direction, index: 0, left: None };
        cursor.next_message(schedule, round);
        cursor
    }

    pub(super) const fn none(direction: Direction) -> Self {
        Cursor { direction, index: 0, left: None }
    }

    pub(super) const fn direction(&self) -> Direction {
        self.direction
    }

    fn next_message(&mut self, schedule: &impl Schedule, round: u32) {
        let width = schedule.width(round);
        self.left = None;
        while self.index < width && self.left.is_none() {
            self.left = match (schedule.op(round, self.index), self.direction) {
                (Some(Op::Recv { peer, into: part }), Direction::Recv)
                | (Some(Op::Send { peer, from: part }), Direction::Send) => Some(Piece { peer, part, number: 0 }),
                _ => None,
            };
            self.index += 1;
        }
    }

    pub(super) fn peek(&self, most: usize) -> Option<Piece> {
        let mut piece = self.left?;
        piece.part.len = piece.part.len.min(most);
        Some(piece)
    }

    pub(super) fn pass(&mut self, most: usize, schedule: &impl Schedule, round: u32) {
        match &mut self.left {
            Some(Piece { part, number, .. }) if part.len > most => {
                *part = Part::new(part.buffer, part.start.saturating_add(most), part.len - most);
                *number = number.saturating_add(1);
            }
            _ => self.next_message(schedule, round),
        }
    }
}
