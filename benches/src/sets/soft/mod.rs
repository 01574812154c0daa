//! The software transport, beside the machine and beside what matches nothing.

pub(crate) mod atomics;
pub(crate) mod one_thread;
pub(crate) mod threads;
