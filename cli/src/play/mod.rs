//! Two sides that exchange messages, verify them, and measure, over any transport.
//!
//! | file | content |
//! |---|---|
//! | `setup` | game and place |
//! | `soft`, `libfabric` | opening a domain of each transport |
//! | `open` | from a domain to sides: registered memory, queue, endpoint, the peer's address |
//! | `side`, `hold` | one side of a ping-pong: posts, completions, location of its buffers |
//! | `flow` | one side of a message stream |
//! | `game`, `bout`, `row` | verification, warm-up, measurement, their shared parameters, results |
//! | `cores` | two processors for two threads |
//! | `payload` | buffers, and the pattern in them |
//! | `session`, `link`, `bootstrap`, `frame` | waiting, and messages to the other side through a channel or TCP |

#[cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "two processes need libfabric"))]
pub(crate) mod bootstrap;
mod bout;
mod cores;
mod flow;
mod frame;
mod game;
mod hold;
#[cfg(feature = "libfabric")]
mod libfabric;
mod link;
mod open;
mod payload;
pub(crate) mod row;
mod session;
pub(crate) mod setup;
mod side;
mod soft;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;
use setup::{Report, Setup};

#[cfg(not(feature = "libfabric"))]
pub(crate) const WITH_LIBFABRIC: &str = "this program was built without libfabric: build it again with the feature `libfabric` \
     (`cargo install --path cli --features libfabric`, or `--features libfabric` after `cargo run`)";

pub(crate) fn over_soft(setup: &Setup, interrupted: &Arc<AtomicBool>, report: &mut dyn Report) -> Result<(), Failure> {
    soft::run(setup, interrupted, report)
}

/// Libfabric offers only endpoints in shared memory.
#[cfg(feature = "libfabric")]
pub(crate) const NO_ADDRESS: &str = "--node: endpoints over shm and sm2 have no address to choose; leave --node out";

/// Default providers of libfabric for `loom bench`, as far as this machine has them.
///
/// Two processes need at least one. One process has the software transport.
#[cfg(feature = "libfabric")]
pub(crate) fn usual_providers(one_process: bool) -> Result<Vec<&'static str>, Failure> {
    libfabric::usual(one_process)
}

#[cfg(not(feature = "libfabric"))]
pub(crate) fn usual_providers(one_process: bool) -> Result<Vec<&'static str>, Failure> {
    if one_process { Ok(Vec::new()) } else { Err(setup::usage(WITH_LIBFABRIC)) }
}

pub(crate) fn library() -> Option<String> {
    #[cfg(feature = "libfabric")]
    return Some(loom_fabric::ofi::library_version().to_string());
    #[cfg(not(feature = "libfabric"))]
    None
}

#[cfg(feature = "libfabric")]
pub(crate) fn over_libfabric(
    setup: &Setup,
    interrupted: &Arc<AtomicBool>,
    report: &mut dyn Report,
) -> Result<(), Failure> {
    libfabric::run(setup, interrupted, report)
}

#[cfg(not(feature = "libfabric"))]
pub(crate) fn over_libfabric(_: &Setup, _: &Arc<AtomicBool>, _: &mut dyn Report) -> Result<(), Failure> {
    Err(setup::usage(WITH_LIBFABRIC))
}
