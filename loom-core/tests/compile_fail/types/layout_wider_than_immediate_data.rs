//! Immediate data has 64 bits.

loom_core::data_layout! {
    struct Part {
        transfer: u64 = 60,
        index: u8 = 5,
    }
}

fn main() {}
