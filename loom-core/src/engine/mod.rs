//! Plain data structures, independent of transports and objects, so that they can be fuzzed and
//! tested alone.

pub mod address_table;
pub mod arrivals;
pub mod op_table;
pub mod peer_table;
pub mod tag_matcher;
