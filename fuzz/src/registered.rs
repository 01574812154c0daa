//! Leases of registered slabs against their oracle.

/// Leases of one to three slabs, for one thread or for many: taken, split, rejoined, written to and read from, posted, dropped, forgotten.
pub fn registered(data: &[u8]) -> usize {
    crate::leases::play(data, |_| {})
}
