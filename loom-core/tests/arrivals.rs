//! The table of arrivals beside a model: totals, and a list of those who wait.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::arrivals::{ArrivalKey, Arrivals, ArrivalsError};
use loom_core::error::OpenError;
use proptest::prelude::*;

const VALUES: usize = 3;
/// The same, as values are.
const END: u64 = VALUES as u64;
const WAITERS: usize = 4;

fn index(value: u64) -> usize {
    usize::try_from(value).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Count(u64),
    /// Until so many more have come than now.
    Wait {
        value: u64,
        more: u64,
    },
    Poll,
    /// Of those who wait, or have waited.
    Take(usize),
    GiveUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    // One value that the table does not have.
    let value = 0..=END;
    prop_oneof![
        4 => value.clone().prop_map(Step::Count),
        4 => (value, 0..4_u64).prop_map(|(value, more)| Step::Wait { value, more }),
        4 => Just(Step::Poll),
        1 => any::<usize>().prop_map(Step::Take),
        1 => any::<usize>().prop_map(Step::GiveUp),
    ]
}

/// Somebody who waits, in the order in which they began.
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

    /// Who is told first of a value: the first of the lowest threshold, if that is reached.
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn everybody_who_waits_is_told_once_when_enough_has_come(steps in prop::collection::vec(step(), 1..80)) {
        let arrivals = Arrivals::open(VALUES, WAITERS).unwrap();
        let mut model = Model::default();
        let no_such_value = ArrivalsError::NoSuchValue { values: END };
        for step in steps {
            match step {
                Step::Count(value) => {
                    let counted = arrivals.count(value);
                    match model.totals.get_mut(index(value)) {
                        Some(total) => {
                            *total += 1;
                            prop_assert_eq!(counted, Ok(()));
                        }
                        None => prop_assert_eq!(counted, Err(no_such_value)),
                    }
                }
                Step::Wait { value, more } => match model.total(value) {
                    None => prop_assert_eq!(arrivals.wait_for(value, more), Err(no_such_value)),
                    Some(_) if model.waiting.len() == WAITERS => {
                        prop_assert_eq!(arrivals.wait_for(value, more), Err(ArrivalsError::Full));
                    }
                    Some(total) => {
                        let threshold = total + more;
                        let key = arrivals.wait_for(value, threshold).unwrap();
                        prop_assert!(model.waiting.iter().all(|other| other.key != key) && !model.over.contains(&key));
                        model.waiting.push(Waits { key, value, threshold });
                    }
                },
                Step::Poll => match arrivals.poll() {
                    Some(told) => {
                        let first = model.first(told.value).expect("enough has come");
                        prop_assert_eq!((told.key, told.threshold), (first.key, first.threshold));
                        model.end(told.key);
                    }
                    None => prop_assert!((0..END).all(|value| model.first(value).is_none())),
                },
                Step::Take(nth) => if let Some(key) = model.nth(nth) {
                    let known = model.waiting.iter().find(|waits| waits.key == key).copied();
                    let expected = known.map(|waits| waits.threshold <= model.totals[index(waits.value)]);
                    prop_assert_eq!(arrivals.take(key), expected.ok_or(ArrivalsError::UnknownKey));
                    if expected == Some(true) {
                        model.end(key);
                    }
                },
                Step::GiveUp(nth) => if let Some(key) = model.nth(nth) {
                    let known = model.waiting.iter().any(|waits| waits.key == key);
                    prop_assert_eq!(arrivals.give_up(key), if known { Ok(()) } else { Err(ArrivalsError::UnknownKey) });
                    if known {
                        model.end(key);
                    }
                },
            }
            for value in 0..END {
                prop_assert_eq!(arrivals.total(value).ok(), model.total(value));
            }
        }
        // In the end everybody can be told.
        for value in 0..END {
            for _ in 0..4 {
                arrivals.count(value).unwrap();
                model.totals[index(value)] += 1;
            }
        }
        while let Some(told) = arrivals.poll() {
            model.end(told.key);
        }
        prop_assert!(model.waiting.is_empty());
    }
}

#[test]
fn values_are_told_in_the_order_in_which_they_became_due() {
    let arrivals = Arrivals::open(8, 8).unwrap();
    for value in 0..8 {
        arrivals.wait_for(value, 1).unwrap();
    }
    for value in [5, 1, 7, 0] {
        arrivals.count(value).unwrap();
    }
    let told: Vec<u64> = core::iter::from_fn(|| arrivals.poll()).map(|told| told.value).collect();
    assert_eq!(told, [5, 1, 7, 0]);
}

#[test]
fn a_table_that_is_too_large_for_its_numbers_is_refused() {
    for (values, waiters) in [(usize::MAX, 1), (1, u32::MAX as usize)] {
        assert_eq!(Arrivals::open_in(values, waiters, Global).err(), Some(OpenError::Size));
    }
    let none = Arrivals::open(0, 0).unwrap();
    assert_eq!(none.count(0), Err(ArrivalsError::NoSuchValue { values: 0 }));
    assert_eq!(Arrivals::open(1, 0).unwrap().wait_for(0, 0), Err(ArrivalsError::Full));
}
