//! The address table alone, beside a list of who is there.

mod memory;
mod random;
mod rules;
mod world;
