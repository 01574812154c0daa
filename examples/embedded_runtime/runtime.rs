//! A runtime as programs have it whose latency counts: one thread that never sleeps, and asks each of its tasks in turn.
//!
//! It knows nothing of loom. All of it has its place before it begins: tasks are named, timers have so many places.

use std::error::Error;
use std::time::Instant;

use heapless::binary_heap::{BinaryHeap, Min};

/// How many timers can be set at a time.
const TIMERS: usize = 16;

/// Something that gets its turn again and again.
pub(crate) trait Task {
    /// Does what there is to do, but not for long.
    fn turn(&mut self, now: Instant) -> Result<(), Failure>;

    /// One of its timers has gone off, which was set for this time.
    fn timer(&mut self, due: Instant, now: Instant) -> Result<(), Failure>;

    /// When its next timer is to go off. Asked at the start, and after each one.
    fn next(&self) -> Option<Instant>;

    /// The time is over: nothing new is begun.
    fn stop(&mut self);

    /// Whether it has finished what it had begun.
    fn is_idle(&self) -> bool;
}

/// Why it ended before its time. A value without memory of its own: nothing is allocated for it.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) &'static str);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Failure {}

/// When, and whose; the earliest comes first.
type Timer = (Instant, usize);

/// So many tasks, and their timers.
pub(crate) struct Runtime<'t, const TASKS: usize> {
    tasks: [&'t mut dyn Task; TASKS],
    timers: BinaryHeap<Timer, Min, TIMERS>,
}

impl<'t, const TASKS: usize> Runtime<'t, TASKS> {
    pub(crate) fn new(tasks: [&'t mut dyn Task; TASKS]) -> Self {
        const { assert!(TASKS <= TIMERS, "each task has a timer") };
        Runtime { tasks, timers: BinaryHeap::new() }
    }

    /// Runs until the time is over and all tasks have finished, which they have until `at_last` for. Returns how many turns
    /// there were.
    pub(crate) fn run(&mut self, until: Instant, at_last: Instant) -> Result<u64, Failure> {
        for number in 0..TASKS {
            self.set(number)?;
        }
        let mut turns = 0;
        let mut stopped = false;
        loop {
            let now = Instant::now();
            while let Some((due, number)) = self.timers.peek().copied().filter(|(due, _)| *due <= now) {
                self.timers.pop();
                self.tasks[number].timer(due, now)?;
                self.set(number)?;
            }
            for task in &mut self.tasks {
                task.turn(now)?;
            }
            turns += 1;
            if now >= until && !stopped {
                self.tasks.iter_mut().for_each(|task| task.stop());
                self.timers.clear();
                stopped = true;
            }
            if stopped && self.tasks.iter().all(|task| task.is_idle()) {
                return Ok(turns);
            }
            if now >= at_last {
                return Err(Failure("a task did not finish"));
            }
        }
    }

    fn set(&mut self, number: usize) -> Result<(), Failure> {
        let Some(due) = self.tasks[number].next() else { return Ok(()) };
        self.timers.push((due, number)).map_err(|_| Failure("there are too many timers"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Counts its turns and timers, and is idle when it was stopped.
    struct Counting {
        next: Option<Instant>,
        turns: u32,
        timers: Vec<Instant>,
        stopped: bool,
        ever_idle: bool,
    }

    impl Counting {
        fn new(next: Option<Instant>) -> Self {
            Counting { next, turns: 0, timers: Vec::new(), stopped: false, ever_idle: true }
        }
    }

    impl Task for Counting {
        fn turn(&mut self, _: Instant) -> Result<(), Failure> {
            self.turns += 1;
            Ok(())
        }

        fn timer(&mut self, due: Instant, now: Instant) -> Result<(), Failure> {
            assert!(due <= now && !self.stopped);
            self.timers.push(due);
            self.next = Some(due + Duration::from_micros(100));
            Ok(())
        }

        fn next(&self) -> Option<Instant> {
            self.next
        }

        fn stop(&mut self) {
            self.stopped = true;
        }

        fn is_idle(&self) -> bool {
            self.stopped && self.ever_idle
        }
    }

    #[test]
    fn timers_go_off_when_they_are_due_and_every_task_has_its_turns() {
        let begin = Instant::now();
        let (mut with, mut without) = (Counting::new(Some(begin)), Counting::new(None));
        let end = begin + Duration::from_millis(2);
        let turns = Runtime::new([&mut with, &mut without]).run(end, end + Duration::from_secs(10)).expect("it ends");
        assert_eq!((u64::from(with.turns), u64::from(without.turns)), (turns, turns));
        assert!(without.timers.is_empty());
        let expected: Vec<_> = (0..u32::try_from(with.timers.len()).expect("a few"))
            .map(|n| begin + n * Duration::from_micros(100))
            .collect();
        assert_eq!(with.timers, expected, "none is left out however late it is");
        assert!(with.timers.len() >= 20);
    }

    #[test]
    fn who_does_not_finish_is_told() {
        let begin = Instant::now();
        let mut task = Counting { ever_idle: false, ..Counting::new(None) };
        let failure =
            Runtime::new([&mut task]).run(begin, begin + Duration::from_millis(1)).expect_err("it cannot end");
        assert_eq!(failure.to_string(), "a task did not finish");
    }
}
