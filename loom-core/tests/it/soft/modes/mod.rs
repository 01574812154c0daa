//! The software transport where it insists on what hardware asks for.

mod arrays;
mod contexts;
mod local;
mod prefixes;
mod writes;
