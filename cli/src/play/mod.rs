//! Two sides that exchange messages, verify them, and measure, over any transport.
//!
//! | file | what it holds |
//! |---|---|
//! | `setup` | what is to be played, and where |
//! | `soft`, `libfabric` | opening a domain of each transport |
//! | `open` | from a domain to sides: registered memory, queue, endpoint, the peer's address |
//! | `side`, `hold` | one side of a ping-pong: what it posts, and what it does with completions; where its buffers are |
//! | `flow` | one side of messages that follow each other |
//! | `game`, `bout`, `row` | verification, warm-up, measurement; what both sides know of them; what came out |
//! | `cores` | two processors for two threads |
//! | `payload` | buffers, and the pattern in them |
//! | `session`, `link`, `bootstrap`, `frame` | waiting; talking to the other side through a channel or TCP |

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

/// How to build the command with libfabric.
#[cfg(not(feature = "libfabric"))]
pub(crate) const WITH_LIBFABRIC: &str = "this program was built without libfabric: build it again with the feature `libfabric` \
     (`cargo install --path cli --features libfabric`, or `--features libfabric` after `cargo run`)";

/// Plays over the software transport.
pub(crate) fn over_soft(setup: &Setup, interrupted: &Arc<AtomicBool>, report: &mut dyn Report) -> Result<(), Failure> {
    soft::run(setup, interrupted, report)
}

/// The advice for `QueryError::ChosenName`: `--node` where libfabric has nothing but endpoints in shared memory.
#[cfg(feature = "libfabric")]
pub(crate) const NO_ADDRESS: &str = "--node: endpoints over shm and sm2 have no address to choose; leave --node out";

/// The providers of libfabric that `loom bench` measures unless told otherwise, as far as they are here.
///
/// Two processes need at least one; one process has the software transport.
#[cfg(feature = "libfabric")]
pub(crate) fn usual_providers(one_process: bool) -> Result<Vec<&'static str>, Failure> {
    libfabric::usual(one_process)
}

/// The providers of libfabric that `loom bench` measures unless told otherwise: none in this build.
#[cfg(not(feature = "libfabric"))]
pub(crate) fn usual_providers(one_process: bool) -> Result<Vec<&'static str>, Failure> {
    if one_process { Ok(Vec::new()) } else { Err(setup::usage(WITH_LIBFABRIC)) }
}

/// The version of libfabric, if this program has one.
pub(crate) fn library() -> Option<String> {
    #[cfg(feature = "libfabric")]
    return Some(loom_fabric::ofi::library_version().to_string());
    #[cfg(not(feature = "libfabric"))]
    None
}

/// Plays over a provider of libfabric.
#[cfg(feature = "libfabric")]
pub(crate) fn over_libfabric(
    setup: &Setup,
    interrupted: &Arc<AtomicBool>,
    report: &mut dyn Report,
) -> Result<(), Failure> {
    libfabric::run(setup, interrupted, report)
}

/// Plays over a provider of libfabric: not in this build.
#[cfg(not(feature = "libfabric"))]
pub(crate) fn over_libfabric(_: &Setup, _: &Arc<AtomicBool>, _: &mut dyn Report) -> Result<(), Failure> {
    Err(setup::usage(WITH_LIBFABRIC))
}
