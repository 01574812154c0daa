//! Ctrl-C.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{self, Failure};

/// The first Ctrl-C asks the waiting loops to end; a second one ends the process at once.
///
/// The handler replaces what was there before instead of calling it: libraries that libfabric loads (PSM) install
/// handlers which end the process, endpoints open or not.
pub(crate) fn watch() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            process::exit(failure::INTERRUPTED.into());
        }
    })
    .map_err(Failure::when("installing the signal handler"))?;
    Ok(interrupted)
}
