//! What the test programs share.

#![allow(missing_docs, missing_debug_implementations, reason = "its users are the tests beside it")]
#![allow(clippy::too_long_first_doc_paragraph, clippy::new_without_default, reason = "as above")]

pub mod alone;
pub mod behaviours;
pub mod memory;
pub mod posting;
pub mod report;
#[cfg(feature = "libfabric")]
pub mod shared_memory;

/// Version of the libfabric of this process.
#[cfg(feature = "libfabric")]
pub fn library_version() -> loom_core::vocabulary::Version {
    match loom_fabric::ofi::Library::get() {
        Ok(library) => library.version(),
        Err(error) => panic!("{error}"),
    }
}
