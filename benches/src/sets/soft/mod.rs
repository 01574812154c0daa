//! The software transport, compared with the machine and with alternatives without matching.

pub(crate) mod atomics;
pub(crate) mod one_thread;
pub(crate) mod threads;
