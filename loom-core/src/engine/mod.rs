//! Plain data structures, independent of transports and objects.

pub mod address_table;
pub mod arrivals;
pub mod op_table;
pub mod peer_table;
pub mod tag_matcher;
