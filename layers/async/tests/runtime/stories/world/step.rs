//! Settings and steps of stories.

use arbitrary::{Arbitrary, Unstructured};
use loom_core::soft::{Every, Plan};

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    Nothing,
    /// Posts are refused with a transient error, and messages are delayed.
    Late,
    /// Operations fail or are lost.
    Failing,
    /// An endpoint dies during the story.
    Killing,
}

impl Faults {
    pub fn plan(self, seed: u64) -> Plan {
        let plan = Plan::new(seed);
        match self {
            Faults::Nothing => plan,
            Faults::Late => Plan { refuse: Every::About(3), delay: 4, ..plan },
            Faults::Failing => Plan { fail: Every::About(5), lose: Every::About(7), refuse: Every::About(4), ..plan },
            Faults::Killing => Plan { kill: Every::About(25), delay: 2, ..plan },
        }
    }

    /// Returns `true` if every operation completes eventually.
    pub fn keep_promises(self) -> bool {
        matches!(self, Faults::Nothing | Faults::Late)
    }
}

/// Properties of a whole story.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Setting {
    pub faults: Faults,
    pub seed: u8,
    /// Operations of dropped futures are kept.
    pub keeps: bool,
    /// Dropped tasks forget their keys, and unclaimed operations are not taken: the queue owns them
    /// after the driver closes.
    pub forgets: bool,
}

#[derive(Arbitrary, Clone, Debug)]
pub enum Step {
    Spawn {
        jobs: [Job; 3],
        count: u8,
    },
    /// Drops a task, from outside or within its own poll.
    Drop {
        nth: u8,
        within: bool,
    },
    /// Polls woken tasks, and takes a turn if `drives`.
    Round {
        drives: bool,
    },
    Turn {
        budget: u8,
    },
    TakeUnclaimed,
    TakeEvent,
    /// Wakes a live or ended task.
    Wake {
        nth: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Send,
    Receive,
    Write,
    Fetch,
    Peek,
    /// Waits for the next event.
    Event,
    /// Waits for the next unclaimed operation.
    Unclaimed,
    /// Waits for an operation of another task.
    Join,
}

/// Way to await an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Run,
    Finish,
    /// Waits after another action.
    FinishLater,
    /// Takes the key from the first future.
    IntoKey,
    Cancel,
    /// Waits, then cancels.
    CancelLater,
    /// Shares the wait with other tasks.
    Shared,
}

#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub what: What,
    pub way: Way,
    /// Posting endpoint. The other endpoint is its peer.
    pub side: usize,
    /// Tag of a message. `None` is an untagged message.
    pub tag: Option<u64>,
    pub len: usize,
}

/// Lengths of messages, in bytes. The first two are eager, the others wait for their receives.
const LENGTHS: [usize; 4] = [4, super::EAGER, super::EAGER + 1, super::LONGEST];

impl<'a> Arbitrary<'a> for Job {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let mut bits = u16::arbitrary(bytes)?;
        let mut take = |end: u16| {
            let taken = bits % end;
            bits /= end;
            usize::from(taken)
        };
        let what = match take(12) {
            0..3 => What::Send,
            3..6 => What::Receive,
            6 => What::Write,
            7 => What::Fetch,
            8 => What::Peek,
            9 => What::Event,
            10 => What::Unclaimed,
            _ => What::Join,
        };
        let way = [Way::Run, Way::Finish, Way::FinishLater, Way::IntoKey, Way::Cancel, Way::CancelLater, Way::Shared];
        let way = way[take(7)];
        Ok(Job { what, way, side: take(2), tag: [None, Some(1), Some(2)][take(3)], len: LENGTHS[take(4)] })
    }

    fn size_hint(_: usize) -> (usize, Option<usize>) {
        (2, Some(2))
    }
}
