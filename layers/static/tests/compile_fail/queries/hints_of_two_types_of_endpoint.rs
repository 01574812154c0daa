//! Hints of a query for two types of endpoint, in a constant.

use loom_core::Hints;
use loom_static::query::{Dgram, Messages, Query, Rdm};

const HINTS: Hints<'static> = <(Rdm, Messages, Dgram) as Query>::HINTS;

fn main() {
    assert!(HINTS.provider.is_none());
}
