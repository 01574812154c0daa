//! Options of endpoints.

use loom_core::vocabulary::{EndpointOption, OptionType, OptionValue};

#[test]
fn a_value_has_the_type_of_its_option() {
    assert_eq!(OptionValue::from(5_usize), OptionValue::Size(5));
    assert_eq!(usize::of(OptionValue::Size(5)), Some(5));
    assert_eq!(usize::of(OptionValue::Int(5)), None);
    assert_eq!(bool::of(true.into()), Some(true));
    assert_eq!(EndpointOption::MIN_MULTI_RECV.as_raw(), 0);
}
