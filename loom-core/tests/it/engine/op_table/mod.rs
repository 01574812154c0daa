//! The op table alone: each rule of its module documentation, every short sequence of actions, then
//! long random ones.

mod explore;
mod random;
mod rules;
mod several;
mod world;
