//! A type that does not implement `Query`.

use loom_core::vocabulary::{Caps, EndpointType};
use loom_static::query::Query;

fn caps<Q: Query>() -> Caps {
    Q::CAPS
}

fn main() {
    assert_eq!(caps::<EndpointType>(), Caps::empty());
}
