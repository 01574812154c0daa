//! `udp` has no atomic operations, and neither has its profile.

use loom_static::profiles::{NativeAtomics, Udp};

fn counts_with_atomics<P: NativeAtomics>() {}

fn main() {
    counts_with_atomics::<Udp>();
}
