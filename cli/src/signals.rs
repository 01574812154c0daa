use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom_fabric::ofi::Library;

use crate::failure::{self, Failure};

/// Installs the handler: the first Ctrl-C ends the waiting loops, the second ends the process.
///
/// Loads libfabric first. Libraries that it loads (PSM) install handlers that end the process even
/// with open endpoints, and earlier handlers are not called.
pub(crate) fn watch() -> Result<Arc<AtomicBool>, Failure> {
    let _ = Library::get();
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
