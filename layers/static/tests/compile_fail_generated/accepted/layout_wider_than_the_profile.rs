//! Immediate data of 32 bits, over a provider that carries 4 bytes.

use loom_core::soft;
use loom_static::Profiled;
use loom_static::profiles::Opx;

loom_core::data_layout! {
    struct Part {
        transfer: u32 = 20,
        index: u16 = 12,
    }
}

fn encode(endpoint: &Profiled<'_, soft::Soft<'_>, Vec<u8>, Opx>) {
    let _ = endpoint.encode(Part { transfer: 1, index: 2 });
}

fn main() {
    let _: fn(&Profiled<'_, soft::Soft<'_>, Vec<u8>, Opx>) = encode;
}
