//! Stories of arrivals, and their oracle: totals, and a list of waiters.

use loom_core::CqError;
use loom_core::engine::arrivals::{ArrivalKey, Arrivals};

pub const VALUES: usize = 3;
/// `VALUES` as a value.
pub const END: u64 = VALUES as u64;
const WAITERS: usize = 4;

fn index(value: u64) -> usize {
    usize::try_from(value).unwrap()
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Count(u64),
    /// Waits until the value has arrived `more` more times.
    Wait {
        value: u64,
        more: u64,
    },
    Poll,
    /// Index into current and former waiters.
    Take(usize),
    GiveUp(usize),
}

/// A waiter. The model lists waiters in the order of their start.
#[derive(Clone, Copy, Debug)]
struct Waits {
    key: ArrivalKey,
    value: u64,
    threshold: u64,
}

#[derive(Default)]
struct Model {
    totals: [u64; VALUES],
    waiting: Vec<Waits>,
    over: Vec<ArrivalKey>,
}

impl Model {
    fn total(&self, value: u64) -> Option<u64> {
        self.totals.get(index(value)).copied()
    }

    /// Returns the next waiter that a value wakes: the oldest of the lowest threshold, if the total
    /// reaches it.
    fn first(&self, value: u64) -> Option<Waits> {
        let of = self.waiting.iter().filter(|waits| waits.value == value);
        of.min_by_key(|waits| waits.threshold).copied().filter(|first| first.threshold <= self.totals[index(value)])
    }

    fn end(&mut self, key: ArrivalKey) -> Waits {
        self.over.push(key);
        let at = self.waiting.iter().position(|waits| waits.key == key).expect("it waits");
        self.waiting.remove(at)
    }

    fn nth(&self, nth: usize) -> Option<ArrivalKey> {
        let keys: Vec<_> = self.waiting.iter().map(|waits| waits.key).chain(self.over.iter().copied()).collect();
        keys.get(nth.checked_rem(keys.len())?).copied()
    }
}

/// Plays a story. Each waiter is notified once, after enough arrivals.
pub fn play(steps: &[Step]) {
    let arrivals = Arrivals::open(VALUES, WAITERS).unwrap();
    let mut model = Model::default();
    let no_such_value = CqError::NoSuchValue { values: END };
    for step in steps {
        match *step {
            Step::Count(value) => {
                let counted = arrivals.count(value);
                match model.totals.get_mut(index(value)) {
                    Some(total) => {
                        *total += 1;
                        assert_eq!(counted, Ok(()));
                    }
                    None => assert_eq!(counted, Err(no_such_value)),
                }
            }
            Step::Wait { value, more } => match model.total(value) {
                None => assert_eq!(arrivals.wait_for(value, more), Err(no_such_value)),
                Some(_) if model.waiting.len() == WAITERS => {
                    assert_eq!(arrivals.wait_for(value, more), Err(CqError::TooManyWaits));
                }
                Some(total) => {
                    let threshold = total + more;
                    let key = arrivals.wait_for(value, threshold).unwrap();
                    assert!(model.waiting.iter().all(|other| other.key != key) && !model.over.contains(&key));
                    model.waiting.push(Waits { key, value, threshold });
                }
            },
            Step::Poll => match arrivals.poll() {
                Some(told) => {
                    let first = model.first(told.value).expect("enough has come");
                    assert_eq!((told.key, told.threshold), (first.key, first.threshold));
                    model.end(told.key);
                }
                None => assert!((0..END).all(|value| model.first(value).is_none())),
            },
            Step::Take(nth) => {
                if let Some(key) = model.nth(nth) {
                    let known = model.waiting.iter().find(|waits| waits.key == key).copied();
                    let expected = known.map(|waits| waits.threshold <= model.totals[index(waits.value)]);
                    assert_eq!(arrivals.take(key), expected.ok_or(CqError::UnknownKey));
                    if expected == Some(true) {
                        model.end(key);
                    }
                }
            }
            Step::GiveUp(nth) => {
                if let Some(key) = model.nth(nth) {
                    let known = model.waiting.iter().any(|waits| waits.key == key);
                    assert_eq!(arrivals.give_up(key), if known { Ok(()) } else { Err(CqError::UnknownKey) });
                    if known {
                        model.end(key);
                    }
                }
            }
        }
        for value in 0..END {
            assert_eq!(arrivals.total(value).ok(), model.total(value));
        }
    }
    // At the end, every waiter can be notified.
    for value in 0..END {
        for _ in 0..4 {
            arrivals.count(value).unwrap();
            model.totals[index(value)] += 1;
        }
    }
    while let Some(told) = arrivals.poll() {
        model.end(told.key);
    }
    assert!(model.waiting.is_empty());
}
