//! The software transport with the requirements of hardware.

mod arrays;
mod contexts;
mod local;
mod prefixes;
mod writes;
