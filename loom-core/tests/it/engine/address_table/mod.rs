//! The address table alone, compared with a list of its peers.

mod memory;
mod random;
mod rules;
mod world;
