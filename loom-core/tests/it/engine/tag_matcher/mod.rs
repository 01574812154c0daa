//! The tag matcher alone, beside lists that are searched from their start.

mod random;
mod rules;
mod world;
