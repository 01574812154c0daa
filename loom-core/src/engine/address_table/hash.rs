//! The keyed hash of the reverse index: SipHash-1-3 over the words of a key.

use super::key::Key;
use crate::util::siphash::SipHash;

#[inline]
pub(super) fn hash(seed: u64, key: &Key<'_>) -> u64 {
    (0..key.words()).fold(SipHash::of(seed), |state, at| state.word(key.word(at))).finish()
}
