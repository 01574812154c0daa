//! Tagged messages over plain ones: over the software transport, in order and out of it, beside a model, and with peers that keep
//! to no rules.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

mod asking;
mod faulty;
mod footprint;
mod model;
mod rules;
#[cfg(feature = "serde")]
mod serde;
mod strangers;
mod world;

use world::nodes;
