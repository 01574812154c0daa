//! Allocators that count: of Rust, of C, and that of the objects.

#[cfg(feature = "libfabric")]
#[cfg(target_env = "gnu")]
pub mod c_heap;
#[cfg(not(all(feature = "libfabric", target_env = "gnu")))]
pub mod c_heap {
    /// Nothing is counted.
    pub fn calls() -> Option<u64> {
        None
    }
}
pub mod gate;
mod seal;

pub use seal::Seal;
