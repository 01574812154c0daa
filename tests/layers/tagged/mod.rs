//! Tagged messages over the software transport: in order and shuffled, compared with a model, and
//! with peers that break the protocol.

mod asking;
mod faulty;
mod footprint;
mod model;
mod rules;
#[cfg(feature = "serde")]
mod serde;
mod strangers;
mod world;
