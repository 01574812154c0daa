//! Sides that do the same work, measured in short rounds that alternate.

use std::time::{Duration, Instant};

use crate::cores;
use crate::statistics::{Summary, ratios};

/// Duration of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Rounds of each side.
    pub rounds: usize,
    /// Maximum number of rounds of each side that are repeated because a thread was preempted in
    /// them.
    pub repeats: usize,
    /// Approximate duration of a round of a side.
    pub round: Duration,
    /// Maximum number of attempts of a contest with noisy ratios, before the report marks it as
    /// noisy.
    pub attempts: usize,
}

impl Settings {
    /// Settings of published figures.
    pub const FULL: Settings = Settings { rounds: 61, repeats: 61, round: Duration::from_micros(1000), attempts: 3 };
    /// Settings that show that everything runs, with unreliable figures.
    pub const QUICK: Settings = Settings { rounds: 7, repeats: 7, round: Duration::from_micros(200), attempts: 1 };

    /// Returns a part of the rounds, for sides that are opened several times ([`Outcome::join`]).
    #[must_use]
    pub fn shared_by(self, openings: usize) -> Settings {
        let (rounds, repeats) = (self.rounds.div_ceil(openings), self.repeats.div_ceil(openings));
        Settings { rounds, repeats, ..self }
    }
}

/// Does an operation this many times, and returns the duration.
type Round<'a> = Box<dyn FnMut(u32) -> Duration + 'a>;

struct Side<'a> {
    name: String,
    run: Round<'a>,
}

/// Several sides to compare.
pub struct Contest<'a> {
    name: String,
    sides: Vec<Side<'a>>,
}

impl<'a> Contest<'a> {
    /// Creates a contest without sides. The name describes the work.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Contest { name: name.into(), sides: Vec::new() }
    }

    /// Adds a side. `run` repeats the operation. The reference side comes first.
    #[must_use]
    pub fn side(self, name: impl Into<String>, mut run: impl FnMut(u32) + 'a) -> Self {
        self.side_that_measures(name, move |count| {
            let begin = Instant::now();
            run(count);
            begin.elapsed()
        })
    }

    /// Adds a side that measures its rounds itself, because it prepares each of them.
    #[must_use]
    pub fn side_that_measures(mut self, name: impl Into<String>, run: impl FnMut(u32) -> Duration + 'a) -> Self {
        self.sides.push(Side { name: name.into(), run: Box::new(run) });
        self
    }

    /// Runs the rounds, and repeats them while ratios to the first side are noisy. The quietest
    /// attempt counts, whatever its figures.
    #[must_use]
    pub fn run(mut self, settings: &Settings) -> Outcome {
        let counts: Vec<u32> = self.sides.iter_mut().map(|side| calibrate(&mut side.run, settings.round)).collect();
        let mut best: Option<Outcome> = None;
        for attempt in 1..=settings.attempts.max(1) {
            let mut outcome = self.rounds(&counts, settings);
            let is_better = best.as_ref().is_none_or(|best| outcome.worst_spread() < best.worst_spread());
            if !is_better {
                outcome = best.take().unwrap_or(outcome);
            }
            outcome.attempts = attempt;
            let is_quiet = !outcome.is_noisy();
            best = Some(outcome);
            if is_quiet {
                break;
            }
        }
        best.expect("there is one attempt or more")
    }

    fn rounds(&mut self, counts: &[u32], settings: &Settings) -> Outcome {
        let named = self.sides.iter().zip(counts);
        let mut measured: Vec<Measured> = named
            .map(|(side, count)| Measured { name: side.name.clone(), count: *count, rounds: Vec::new() })
            .collect();
        let mut spare = settings.repeats * self.sides.len();
        for round in 0..settings.rounds.max(1) {
            // The order rotates, so that no side always follows the same other side.
            for turn in 0..self.sides.len() {
                let index = (round + turn) % self.sides.len();
                let count = counts[index];
                let took = undisturbed(&mut self.sides[index].run, count, &mut spare);
                measured[index].rounds.push(took.as_secs_f64() * 1e9 / f64::from(count));
            }
        }
        Outcome { name: self.name.clone(), sides: measured, attempts: 1 }
    }
}

/// Returns the number of operations that take about `round`. This is also the warm-up.
fn calibrate(run: &mut Round<'_>, round: Duration) -> u32 {
    const MOST: u32 = 1 << 24;
    // A peer may still be opening its objects.
    run(1);
    let mut count = 1_u32;
    loop {
        // A disturbed run is long with a few operations already, so it is repeated.
        let mut took = run(count);
        for _ in 0..4 {
            if took >= round / 2 {
                took = took.min(run(count));
            }
        }
        if took >= round / 2 || count >= MOST {
            let scale = round.as_secs_f64() / took.as_secs_f64().max(1e-9);
            return ((f64::from(count) * scale) as u32).clamp(1, MOST);
        }
        count *= 2;
    }
}

/// Runs a round until no thread of the process was preempted in it, or until `spare` repeats are
/// used up.
fn undisturbed(run: &mut Round<'_>, count: u32, spare: &mut usize) -> Duration {
    loop {
        // Refills the caches after the other sides.
        run((count / 8).max(1));
        let before = cores::preemptions();
        let took = run(count);
        if *spare == 0 || cores::preemptions() == before {
            return took;
        }
        *spare -= 1;
    }
}

/// Rounds of one side.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Name of the side.
    pub name: String,
    /// Operations in a round.
    pub count: u32,
    /// Nanoseconds per operation, in each round.
    pub rounds: Vec<f64>,
}

/// Result of a contest.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the contest.
    pub name: String,
    /// Sides in the order in which they were added.
    pub sides: Vec<Measured>,
    /// Number of attempts.
    pub attempts: usize,
}

impl Outcome {
    /// Adds the rounds of the same contest between sides that were opened again.
    ///
    /// The placement of memory and the state of a connection are constant while a side is open, and
    /// can make one side slower. Over several openings they are noise, and visible as such.
    ///
    /// # Panics
    /// If it is another contest.
    pub fn join(&mut self, other: Outcome) {
        assert_eq!(self.name, other.name, "the same contest");
        self.attempts = self.attempts.max(other.attempts);
        for (side, more) in self.sides.iter_mut().zip(other.sides) {
            assert_eq!(side.name, more.name, "the same sides");
            side.rounds.extend(more.rounds);
        }
    }

    fn rounds_of(&self, side: &str) -> &[f64] {
        let found = self.sides.iter().find(|measured| measured.name == side);
        &found.unwrap_or_else(|| panic!("the contest {} has no side {side}", self.name)).rounds
    }

    /// Returns the nanoseconds per operation of a side.
    ///
    /// # Panics
    /// If the side does not exist, or measured no number.
    #[must_use]
    pub fn nanoseconds(&self, side: &str) -> Summary {
        Summary::of(self.rounds_of(side)).expect("times are numbers")
    }

    /// Returns a side's figure of each round: the result of `figure` for its nanoseconds.
    ///
    /// # Panics
    /// If the side does not exist, or a figure is not a number.
    #[must_use]
    pub fn figure(&self, side: &str, figure: impl Fn(f64) -> f64) -> Summary {
        let figures: Vec<f64> = self.rounds_of(side).iter().map(|nanoseconds| figure(*nanoseconds)).collect();
        Summary::of(&figures).expect("figures are numbers")
    }

    /// Returns the ratio of the times of two sides.
    ///
    /// # Panics
    /// If a side does not exist, or took no time.
    #[must_use]
    pub fn ratio(&self, of: &str, over: &str) -> Summary {
        Summary::of(&ratios(self.rounds_of(of), self.rounds_of(over))).expect("each side takes some time")
    }

    /// Returns the largest spread of the ratios to the first side. A side that is alone is judged
    /// by its times.
    fn worst_spread(&self) -> f64 {
        let Some((first, others)) = self.sides.split_first() else { return 0.0 };
        let spread = |samples: &[f64]| Summary::of(samples).map_or(f64::INFINITY, |summary| summary.spread());
        if others.is_empty() {
            return spread(&first.rounds);
        }
        others.iter().map(|other| spread(&ratios(&other.rounds, &first.rounds))).fold(0.0, f64::max)
    }

    fn is_noisy(&self) -> bool {
        self.worst_spread() > crate::statistics::NOISE_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const SETTINGS: Settings = Settings { rounds: 12, repeats: 0, round: Duration::from_micros(10), attempts: 3 };

    fn nanoseconds(count: u32, each: u64) -> Duration {
        Duration::from_nanos(u64::from(count) * each)
    }

    #[test]
    fn a_ratio_is_that_of_the_sides() {
        let outcome = Contest::new("work")
            .side_that_measures("c", |count| nanoseconds(count, 100))
            .side_that_measures("loom", |count| nanoseconds(count, 150))
            .run(&SETTINGS);
        assert_eq!(outcome.ratio("loom", "c").median, 1.5);
        assert_eq!(outcome.nanoseconds("loom").median, 150.0);
        assert_eq!(outcome.figure("c", |nanoseconds| 1000.0 / nanoseconds).median, 10.0);
        assert_eq!((outcome.attempts, outcome.sides[0].rounds.len()), (1, 12));
    }

    #[test]
    fn a_round_takes_about_as_long_as_it_should() {
        let outcome = Contest::new("work").side_that_measures("c", |count| nanoseconds(count, 100)).run(&SETTINGS);
        assert_eq!(outcome.sides[0].count, 100);
        let slow = Contest::new("work").side_that_measures("c", |_| Duration::from_secs(1)).run(&SETTINGS);
        assert_eq!(slow.sides[0].count, 1);
    }

    #[test]
    fn a_disturbance_of_the_warm_up_does_not_make_rounds_short() {
        let calls = Cell::new(0);
        let outcome = Contest::new("work")
            .side_that_measures("c", |count| {
                calls.set(calls.get() + 1);
                nanoseconds(count, 100) + Duration::from_millis(if calls.get() % 4 == 1 { 5 } else { 0 })
            })
            .run(&SETTINGS);
        assert_eq!(outcome.sides[0].count, 100);
    }

    #[test]
    fn sides_alternate_and_each_comes_first_in_turn() {
        let order = RefCell::new(String::new());
        let enter = |name, count| {
            if count == 100 {
                order.borrow_mut().push(name);
            }
            nanoseconds(count, 100)
        };
        let contest = Contest::new("work")
            .side_that_measures("a", |count| enter('a', count))
            .side_that_measures("b", |count| enter('b', count));
        let _ = contest.run(&Settings { rounds: 4, ..SETTINGS });
        assert_eq!(*order.borrow(), "abbaabba");
    }

    #[test]
    fn a_noisy_contest_is_run_again_and_the_quietest_attempt_counts() {
        // The first attempt, of 24 calls after the warm-up, is noisy. The next one is quiet.
        let rounds = Cell::new(0);
        let outcome = Contest::new("work")
            .side_that_measures("c", |count| nanoseconds(count, 100))
            .side_that_measures("loom", |count| {
                rounds.set(rounds.get() + 1);
                nanoseconds(count, if rounds.get() < 32 && rounds.get() % 4 < 2 { 400 } else { 150 })
            })
            .run(&SETTINGS);
        assert_eq!(outcome.attempts, 2);
        assert_eq!(outcome.ratio("loom", "c").median, 1.5);
    }

    #[test]
    fn sides_that_differ_from_one_opening_to_the_next_are_noisy() {
        let opened = |each| {
            Contest::new("work")
                .side_that_measures("c", |count| nanoseconds(count, 100))
                .side_that_measures("loom", move |count| nanoseconds(count, each))
                .run(&SETTINGS.shared_by(2))
        };
        let (mut outcome, other) = (opened(100), opened(200));
        assert!(!outcome.ratio("loom", "c").is_noisy() && !other.ratio("loom", "c").is_noisy());
        outcome.join(other);
        assert_eq!(outcome.sides[1].rounds.len(), 12);
        assert!(outcome.ratio("loom", "c").is_noisy());
    }

    #[test]
    fn a_contest_that_stays_noisy_is_marked_noisy() {
        let rounds = Cell::new(0);
        let outcome = Contest::new("work")
            .side_that_measures("c", |count| nanoseconds(count, 100))
            .side_that_measures("loom", |count| {
                rounds.set(rounds.get() + 1);
                nanoseconds(count, if rounds.get() % 4 < 2 { 400 } else { 150 })
            })
            .run(&SETTINGS);
        assert_eq!(outcome.attempts, SETTINGS.attempts);
        assert!(outcome.ratio("loom", "c").is_noisy());
    }
}
