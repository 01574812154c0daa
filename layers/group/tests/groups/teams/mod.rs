//! Teams over the software transport, all members on one thread.

mod agree;
mod awaited;
mod calls;
mod counted;
mod driven;
mod ends;
mod stories;
mod world;
