//! The work table of deferred work against its oracle.

use arbitrary::Arbitrary;

use crate::steps;
use crate::works::{self, Then};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Add { counter: u8, threshold: u8 },
    Count { counter: u8, by: u8 },
    PutBack { list: u8 },
    Start { list: u8 },
    GiveUp { list: u8 },
    EndTaken { list: u8 },
    End(u8),
    Cancel(u8),
    Flush(Option<u8>),
    TakeReturned,
}

impl From<Step> for works::Step {
    fn from(step: Step) -> Self {
        let counter = |counter: u8| usize::from(counter % 3);
        let attempt = |list: u8, then| works::Step::Try { list: u32::from(list % 6), then };
        match step {
            Step::Add { counter: of, threshold } => {
                works::Step::Add { counter: counter(of), threshold: u64::from(threshold % 8) }
            }
            Step::Count { counter: of, by } => works::Step::Count { counter: counter(of), by: u64::from(by % 3) },
            Step::PutBack { list } => attempt(list, Then::PutBack),
            Step::Start { list } => attempt(list, Then::Start),
            Step::GiveUp { list } => attempt(list, Then::GiveUp),
            Step::EndTaken { list } => attempt(list, Then::End),
            Step::End(count) => works::Step::End(usize::from(count % 8)),
            Step::Cancel(count) => works::Step::Cancel(usize::from(count % 8)),
            Step::Flush(of) => works::Step::Flush(of.map(counter)),
            Step::TakeReturned => works::Step::TakeReturned,
        }
    }
}

/// Plays work that is added, counted, tried, started, ended, cancelled, flushed and returned.
pub fn work_table(data: &[u8]) -> usize {
    let steps: Vec<_> = steps::<Step>(data).map(Into::into).collect();
    works::play(&steps);
    steps.len()
}
