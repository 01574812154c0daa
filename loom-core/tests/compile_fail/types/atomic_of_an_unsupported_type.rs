//! Not every byte is a `bool`.

use loom_core::atomic::{FetchOp, Operation};

fn main() {
    let _ = FetchOp::<bool>::WRITE.atomic();
}
