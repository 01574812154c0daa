//! Collective operations over the software transport.

mod leaving;
mod objects;
mod reference;
mod rules;
mod threads;
mod world;
