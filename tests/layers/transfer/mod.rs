//! Transfers over the software transport, also with faults, and over providers of libfabric.

mod ends;
mod faults;
mod moving;
mod sides;
