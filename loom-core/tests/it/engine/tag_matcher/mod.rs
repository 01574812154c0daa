//! The tag matcher alone, beside lists that are walked from their beginning.

mod random;
mod rules;
mod world;
