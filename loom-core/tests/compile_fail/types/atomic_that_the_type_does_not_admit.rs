//! Floats have no bits to operate on.

use loom_core::atomic::{FetchOp, Operation};

fn main() {
    let _ = FetchOp::<f64>::BOR.atomic();
}
