//! [`Buffers`]: input, output and scratch of a collective, with the local operations.

use super::{Combine, Element};
use crate::schedule::{Part, Side, Which};

pub(super) struct Buffers<'b, E> {
    pub(super) input: &'b [E],
    pub(super) output: &'b mut [E],
    pub(super) scratch: &'b mut [E],
}

impl<E: Element> Buffers<'_, E> {
    pub(super) fn part(&self, part: Part) -> Option<&[E]> {
        match part.buffer {
            Which::Input => self.input,
            Which::Output => &*self.output,
            Which::Scratch => &*self.scratch,
        }
        .get(part.range())
    }

    pub(super) fn part_mut(&mut self, part: Part) -> Option<&mut [E]> {
        match part.buffer {
            Which::Input => None,
            Which::Output => self.output.get_mut(part.range()),
            Which::Scratch => self.scratch.get_mut(part.range()),
        }
    }

    /// Source and destination must not overlap.
    fn pair(&mut self, from: Part, into: Part) -> Option<(&[E], &mut [E])> {
        let buffer = match (from.buffer, into.buffer) {
            (_, Which::Input) => return None,
            (Which::Output, Which::Output) => &mut *self.output,
            (Which::Scratch, Which::Scratch) => &mut *self.scratch,
            (Which::Input, Which::Output) => {
                return Some((self.input.get(from.range())?, self.output.get_mut(into.range())?));
            }
            (Which::Input, Which::Scratch) => {
                return Some((self.input.get(from.range())?, self.scratch.get_mut(into.range())?));
            }
            (Which::Output, Which::Scratch) => {
                return Some((self.output.get(from.range())?, self.scratch.get_mut(into.range())?));
            }
            (Which::Scratch, Which::Output) => {
                return Some((self.scratch.get(from.range())?, self.output.get_mut(into.range())?));
            }
        };
        if from.start < into.start {
            let (first, second) = buffer.split_at_mut_checked(into.start)?;
            Some((first.get(from.range())?, second.get_mut(..into.len)?))
        } else {
            let (first, second) = buffer.split_at_mut_checked(from.start)?;
            Some((second.get(..from.len)?, first.get_mut(into.range())?))
        }
    }

    pub(super) fn copy(&mut self, from: Part, into: Part) -> Option<()> {
        let (from, into) = self.pair(from, into)?;
        (from.len() == into.len()).then(|| into.copy_from_slice(from))
    }

    pub(super) fn combine(&mut self, from: Part, into: Part, side: Side, op: &impl Combine<E>) -> Option<()> {
        let (from, into) = self.pair(from, into)?;
        for (to, from) in into.iter_mut().zip(from) {
            *to = match side {
                Side::Left => op.combine(*from, *to),
                Side::Right => op.combine(*to, *from),
            };
        }
        Some(())
    }
}
