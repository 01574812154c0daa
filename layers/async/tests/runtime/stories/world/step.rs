use arbitrary::{Arbitrary, Unstructured};
use loom_core::soft::{Every, Plan};

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    Nothing,
    Late,
    Failing,
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

    pub fn keep_promises(self) -> bool {
        matches!(self, Faults::Nothing | Faults::Late)
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Setting {
    pub faults: Faults,
    pub seed: u8,
    pub keeps: bool,
    /// Dropped tasks forget their keys, and the queue owns unclaimed operations in the end.
    pub forgets: bool,
}

#[derive(Arbitrary, Clone, Debug)]
pub enum Step {
    Spawn {
        jobs: [Job; 3],
        count: u8,
    },
    /// Drops a task from outside or within its own poll.
    Drop {
        nth: u8,
        within: bool,
    },
    /// Takes a turn if `drives`.
    Round {
        drives: bool,
    },
    Turn {
        budget: u8,
    },
    TakeUnclaimed,
    TakeEvent,
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
    Event,
    Unclaimed,
    Join,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Run,
    Finish,
    /// Finishes, and waits after another action.
    FinishLater,
    IntoKey,
    Cancel,
    CancelLater,
    /// Finishes, and shares the wait with other tasks.
    Shared,
}

#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub what: What,
    pub way: Way,
    pub side: usize,
    /// Tag. `None` is untagged.
    pub tag: Option<u64>,
    pub len: usize,
}

/// Lengths: two eager ones, and two of messages that wait for their receives.
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
