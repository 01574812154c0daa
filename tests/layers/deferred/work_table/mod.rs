//! The work table beside a model of its semantics: a list in the order in which work was added.

mod world;

use proptest::prelude::*;

use world::{Step, Then, play};

fn step() -> impl Strategy<Value = Step> {
    let then = prop_oneof![Just(Then::PutBack), Just(Then::Start), Just(Then::GiveUp), Just(Then::End)];
    prop_oneof![
        4 => (0..3_usize, 0..5_u64).prop_map(|(counter, threshold)| Step::Add { counter, threshold }),
        2 => (0..3_usize, 0..3_u64).prop_map(|(counter, by)| Step::Count { counter, by }),
        4 => (0..4_u32, then).prop_map(|(list, then)| Step::Try { list, then }),
        2 => (0..8_usize).prop_map(Step::End),
        1 => (0..8_usize).prop_map(Step::Cancel),
        1 => proptest::option::of(0..3_usize).prop_map(Step::Flush),
        2 => Just(Step::TakeReturned),
        2 => (0..8_usize).prop_map(Step::TakeReturnedOf),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn work_table_does_what_its_model_does(steps in proptest::collection::vec(step(), 0..80)) {
        play(&steps);
    }
}
