//! Leases of registered slabs against their oracle.

/// Plays leases of one to three slabs, for one thread or several: taken, split, rejoined, written,
/// read, posted, dropped and forgotten.
pub fn registered(data: &[u8]) -> usize {
    crate::leases::play(data, |_| {})
}
