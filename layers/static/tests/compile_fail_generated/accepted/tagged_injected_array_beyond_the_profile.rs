//! An array of as many bytes as the provider promises to inject.

use loom_core::Tag;
use loom_core::engine::peer_table::Peer;
use loom_core::soft;
use loom_static::Profiled;
use loom_static::profiles::{Profile, Software};

fn inject(endpoint: &Profiled<'_, soft::Soft<'_>, Vec<u8>, Software>, to: Peer) {
    let bytes = [0; Software::INJECT_SIZE];
    let _ = endpoint.tagged_inject_array(to, Tag(7), &bytes);
}

fn main() {
    let _: fn(&Profiled<'_, soft::Soft<'_>, Vec<u8>, Software>, Peer) = inject;
}
