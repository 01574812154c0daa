//! The engines: tables and matchers, without a transport.

mod address_table;
mod arrivals;
mod op_table;
mod peer_table;
mod tag_matcher;
