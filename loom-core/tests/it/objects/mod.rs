//! The objects: over the software transport, and over transports that follow a script.

mod hostile_provider;
mod collectives;
mod completions;
mod errors;
mod futures;
mod handles;
mod handles_held;
#[cfg(feature = "log")]
mod log;
mod regions;
#[cfg(feature = "serde")]
mod serde;
