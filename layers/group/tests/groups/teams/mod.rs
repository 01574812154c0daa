//! Teams over the software transport, all members on one thread: results against a plain
//! computation, and packets and teams after failures.

mod agree;
mod awaited;
mod calls;
mod counted;
mod driven;
mod ends;
mod stories;
mod world;
