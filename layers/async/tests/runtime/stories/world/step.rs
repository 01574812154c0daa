//! What stories are made of.

use arbitrary::{Arbitrary, Unstructured};
use loom_core::soft::{Every, Plan};

/// What goes wrong.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    Nothing,
    /// Posts are refused for the moment, and messages arrive later.
    Late,
    /// Operations fail, or are lost.
    Failing,
    /// An endpoint is gone in the middle of it.
    Killing,
}

impl Faults {
    pub fn plan(self, seed: u64) -> Plan {
        let plan = Plan::new(seed);
        match self {
            Faults::Nothing => plan,
            Faults::Late => plan.refuse(Every::About(3)).delay(4),
            Faults::Failing => plan.fail(Every::About(5)).lose(Every::About(7)).refuse(Every::About(4)),
            Faults::Killing => plan.kill(Every::About(25)).delay(2),
        }
    }

    /// Whether each operation does what it says, sooner or later.
    pub fn keep_promises(self) -> bool {
        matches!(self, Faults::Nothing | Faults::Late)
    }
}

/// What holds for a whole story.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Setting {
    pub faults: Faults,
    pub seed: u8,
    /// Operations whose futures were dropped are kept.
    pub keeps: bool,
    /// Keys that a task has when it is dropped are forgotten, and what was given up is not taken back: it is the queue's when the driver has gone.
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
    /// Polls the tasks that were woken, and takes a turn if it `drives`.
    Round {
        drives: bool,
    },
    Turn {
        budget: u8,
    },
    TakeUnclaimed,
    TakeEvent,
    /// Wakes a task that is there or not any more.
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
    /// Waits for the next operation that was given up.
    Unclaimed,
    /// Waits for the operation of another task.
    Join,
}

/// How an operation is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Run,
    Finish,
    /// The task does something else between the post and the wait.
    FinishLater,
    /// The first future gives its key back.
    IntoKey,
    Cancel,
    /// It is waited for before it is cancelled.
    CancelLater,
    /// Others may wait for it, too.
    Shared,
}

/// One operation of a task.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub what: What,
    pub way: Way,
    /// Which endpoint posts it; peers are each other's.
    pub side: usize,
    /// Of a message; without one it is an untagged one.
    pub tag: Option<u64>,
    pub len: usize,
}

/// Of messages. The first two go out at once, the others wait for their receives.
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
