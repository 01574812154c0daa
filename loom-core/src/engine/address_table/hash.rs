//! The keyed hash of the reverse index: SipHash-1-3 over the words of a key.

use super::key::Key;
use crate::util::siphash::SipHash;

pub(super) fn hash(seed: u64, key: &Key<'_>) -> u64 {
    (0..key.words()).fold(SipHash::of(seed), |state, at| state.word(key.word(at))).finish()
}

#[inline]
pub(super) fn hash_v4(seed: u64, ip: u32, port: u16) -> u64 {
    SipHash::of(seed).word(Key::V4 { ip, port }.word(0)).finish()
}

#[cfg(test)]
#[test]
fn hash_of_an_ipv4_socket_is_that_of_its_key() {
    for (seed, ip, port) in [(0, 0, 0), (1, 0x0a00_0001, 7471), (u64::MAX, u32::MAX, u16::MAX)] {
        assert_eq!(hash_v4(seed, ip, port), hash(seed, &Key::V4 { ip, port }));
    }
}
