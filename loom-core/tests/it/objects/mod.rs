//! The objects: over the software transport, and over transports that follow a script.

mod collectives;
mod completions;
mod errors;
mod futures;
mod handles;
mod handles_held;
mod hostile_provider;
#[cfg(feature = "log")]
mod log;
mod regions;
#[cfg(feature = "serde")]
mod serde;
