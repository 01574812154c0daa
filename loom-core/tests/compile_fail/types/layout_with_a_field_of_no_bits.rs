//! A field has bits.

loom_core::data_layout! {
    struct Part {
        transfer: u32 = 20,
        nothing: u8 = 0,
    }
}

fn main() {}
