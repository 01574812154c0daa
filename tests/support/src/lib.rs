//! Parts that the test programs share.

#![allow(missing_docs, missing_debug_implementations, reason = "its users are the tests beside it")]
#![allow(clippy::too_long_first_doc_paragraph, clippy::new_without_default, reason = "as above")]

pub mod alone;
pub mod behaviours;
pub mod memory;
pub mod posting;
pub mod report;
#[cfg(feature = "libfabric")]
pub mod shared_memory;
pub mod tcp;

/// Returns the error of loading if `LOOM_LIBFABRIC` names a missing library, for a run of the
/// transports that do not require it.
#[cfg(feature = "libfabric")]
pub fn without_library() -> Option<String> {
    std::env::var_os("LOOM_LIBFABRIC")?;
    loom_fabric::ofi::Library::get().err().map(|error| error.to_string())
}

/// Version of the libfabric of this process, or 0.0 in a run without it.
#[cfg(feature = "libfabric")]
pub fn library_version() -> loom_core::vocabulary::Version {
    match loom_fabric::ofi::Library::get() {
        Ok(library) => library.version(),
        Err(_) if without_library().is_some() => loom_core::vocabulary::Version::new(0, 0),
        Err(error) => panic!("{error}"),
    }
}
