//! The work table beside a model of its semantics: a list in the order of addition.

mod world;

use loom_deferred::work_table::{Interest, Place, WorkTable};
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
    fn work_table_agrees_with_its_model(steps in proptest::collection::vec(step(), 0..80)) {
        play(&steps);
    }
}

#[test]
fn abandoned_work_is_found_among_returned_work_oldest_first() {
    let mut places = [0, 1, 2].map(|number| Place::free(number, 3));
    let mut table = WorkTable::new(&mut places[..]);
    assert_eq!(table.abandoned_returned(), None);
    let work = ["kept", "first", "second"];
    let keys = work.map(|work| table.vacant().unwrap().add((0, 1), i32::eq, work));
    for key in keys {
        table.cancel(key, |_| ()).unwrap();
    }
    for at in [2, 1] {
        table.set_interest(keys[at], Interest::Abandoned);
    }
    for at in [1, 2] {
        assert_eq!(table.abandoned_returned(), Some(keys[at]));
        assert_eq!(table.take_returned_of(keys[at]), Some(work[at]));
    }
    assert_eq!(table.abandoned_returned(), None);
    assert_eq!(table.take_returned(), Some((keys[0], "kept")));
}
