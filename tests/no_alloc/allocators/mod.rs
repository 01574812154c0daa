//! Allocators that count: Rust's, C's, and that of loom's objects.

#[cfg(feature = "libfabric")]
#[cfg(target_env = "gnu")]
pub mod c_heap;
#[cfg(not(all(feature = "libfabric", target_env = "gnu")))]
pub mod c_heap {
    /// Returns `None`, because calls are not counted.
    pub fn calls() -> Option<u64> {
        None
    }
}
pub mod gate;
mod seal;

pub use seal::Seal;
