//! The keyed hash of the reverse index: SipHash-1-3 over the words of a key.

use super::key::Key;
use crate::siphash::SipHash;

/// The hash of a key. Its words tell where they end, so that no length has to follow.
#[inline]
pub(super) fn hash(seed: u64, key: &Key<'_>) -> u64 {
    (0..key.words()).fold(SipHash::of(seed), |state, at| state.word(key.word(at))).finish()
}
