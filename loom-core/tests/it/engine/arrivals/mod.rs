//! The table of arrivals beside a model, and the cases that the model leaves out.

mod world;

use loom_core::CqError;
use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::arrivals::Arrivals;
use loom_core::error::OpenError;
use proptest::prelude::*;

use world::{END, Step, play};

fn step() -> impl Strategy<Value = Step> {
    // Includes one value that the table does not have.
    let value = 0..=END;
    prop_oneof![
        4 => value.clone().prop_map(Step::Count),
        4 => (value, 0..4_u64).prop_map(|(value, more)| Step::Wait { value, more }),
        4 => Just(Step::Poll),
        1 => any::<usize>().prop_map(Step::Take),
        1 => any::<usize>().prop_map(Step::GiveUp),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn every_wait_is_reported_once_when_enough_has_arrived(steps in prop::collection::vec(step(), 1..80)) {
        play(&steps);
    }
}

#[test]
fn values_are_reported_in_the_order_in_which_they_became_due() {
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
    assert_eq!(none.count(0), Err(CqError::NoSuchValue { values: 0 }));
    assert_eq!(Arrivals::open(1, 0).unwrap().wait_for(0, 0), Err(CqError::TooManyWaits));
}
