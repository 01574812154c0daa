//! Arrivals of immediate data against their oracle.

use arbitrary::Arbitrary;

use crate::arriving::{self, END};
use crate::steps;

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Count(u8),
    Wait { value: u8, more: u8 },
    Poll,
    Take(u8),
    GiveUp(u8),
}

impl From<Step> for arriving::Step {
    fn from(step: Step) -> Self {
        // One value is outside the table.
        let value = |value: u8| u64::from(value) % (END + 1);
        match step {
            Step::Count(of) => arriving::Step::Count(value(of)),
            Step::Wait { value: of, more } => arriving::Step::Wait { value: value(of), more: u64::from(more % 5) },
            Step::Poll => arriving::Step::Poll,
            Step::Take(nth) => arriving::Step::Take(nth.into()),
            Step::GiveUp(nth) => arriving::Step::GiveUp(nth.into()),
        }
    }
}

/// Plays arrivals of values, and waiters that may give up.
pub fn arrivals(data: &[u8]) -> usize {
    let steps: Vec<_> = steps::<Step>(data).map(Into::into).collect();
    arriving::play(&steps);
    steps.len()
}
