//! [`Backlog`]: parts that a target has no room for yet.

use heapless::Deque;

use crate::layout::FlowLayout;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Slices { index: u64, start: u16, end: u16, invalid: bool },
    Samples { start: u64, count: u32 },
}

impl Part {
    pub(crate) const fn range(&self) -> (u64, u64) {
        match *self {
            Part::Slices { index, .. } => (index, index.saturating_add(1)),
            Part::Samples { start, count } => (start, start.saturating_add(count as u64)),
        }
    }

    /// Exclusive end of the grains or samples that the part completes.
    pub(crate) fn end(&self, layout: &FlowLayout) -> u64 {
        match (*self, layout) {
            (Part::Slices { index, end, invalid: false, .. }, FlowLayout::Grains(layout, _)) if end < layout.slices => {
                index
            }
            _ => self.range().1,
        }
    }

    /// Beginning of the part, below a limit.
    pub(crate) fn below(self, limit: u64) -> Option<Self> {
        match self {
            Part::Slices { index, .. } => (index < limit).then_some(self),
            Part::Samples { start, count } => {
                let room = limit.saturating_sub(start).min(count.into());
                u32::try_from(room).ok().filter(|count| *count > 0).map(|count| Part::Samples { start, count })
            }
        }
    }

    /// Returns `false` if the part does not follow.
    fn join(&mut self, next: &Part) -> bool {
        match (self, *next) {
            (
                Part::Slices { index, end, invalid: false, .. },
                Part::Slices { index: of, start, end: to, invalid: false },
            ) if *index == of && *end == start => {
                *end = to;
                true
            }
            (Part::Samples { start, count }, Part::Samples { start: from, count: more })
                if *start + u64::from(*count) == from && *count <= u32::MAX - more =>
            {
                *count += more;
                true
            }
            _ => false,
        }
    }
}

/// Parts in their order. The oldest ones make room.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    parts: Deque<Part, 16>,
    /// Given up, and not reported.
    passed: Option<(u64, u64)>,
}

impl Backlog {
    pub(crate) fn push(&mut self, part: Part) {
        if self.parts.back_mut().is_some_and(|last| last.join(&part)) {
            return;
        }
        if self.parts.is_full() {
            self.pass();
        }
        let _ = self.parts.push_back(part);
    }

    pub(crate) fn first(&self) -> Option<Part> {
        self.parts.front().copied()
    }

    /// Removes the first part, or its beginning.
    pub(crate) fn remove(&mut self, part: Part) {
        match (self.parts.front_mut(), part) {
            (Some(Part::Samples { start, count }), Part::Samples { count: removed, .. }) if removed < *count => {
                (*start, *count) = (*start + u64::from(removed), *count - removed);
            }
            _ => {
                self.parts.pop_front();
            }
        }
    }

    pub(crate) fn pass(&mut self) {
        if let Some(part) = self.first() {
            self.give_up(part);
        }
    }

    fn give_up(&mut self, part: Part) {
        let (from, to) = part.range();
        self.passed = Some(self.passed.map_or((from, to), |(first, end)| (first.min(from), end.max(to))));
        self.remove(part);
    }

    pub(crate) fn pass_below(&mut self, number: u64) {
        while let Some(part) = self.first().and_then(|part| part.below(number)) {
            self.give_up(part);
        }
    }

    pub(crate) fn pass_all(&mut self) {
        self.pass_below(u64::MAX);
    }

    pub(crate) const fn take_passed(&mut self) -> Option<(u64, u64)> {
        self.passed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_follow_each_other_join() {
        let mut backlog = Backlog::default();
        let slices = |index, start, end| Part::Slices { index, start, end, invalid: false };
        for part in [slices(1, 0, 4), slices(1, 4, 9), slices(1, 12, 13), slices(2, 0, 4)] {
            backlog.push(part);
        }
        assert_eq!(
            backlog.parts.iter().copied().collect::<std::vec::Vec<_>>(),
            [slices(1, 0, 9), slices(1, 12, 13), slices(2, 0, 4)]
        );
        let mut backlog = Backlog::default();
        for (start, count) in [(0, 48), (48, 48), (100, 1)] {
            backlog.push(Part::Samples { start, count });
        }
        assert_eq!(backlog.first(), Some(Part::Samples { start: 0, count: 96 }));
        backlog.pass_below(50);
        assert_eq!(
            (backlog.first(), backlog.take_passed()),
            (Some(Part::Samples { start: 50, count: 46 }), Some((0, 50)))
        );
    }

    #[test]
    fn the_oldest_parts_make_room() {
        let mut backlog = Backlog::default();
        for index in 0..20 {
            backlog.push(Part::Slices { index, start: 0, end: 1, invalid: false });
        }
        assert_eq!((backlog.first().map(|part| part.range().0), backlog.take_passed()), (Some(4), Some((0, 4))));
        backlog.pass_all();
        assert_eq!((backlog.first(), backlog.take_passed(), backlog.take_passed()), (None, Some((4, 20)), None));
    }
}
