//! Of two complex numbers none is less.

use loom_core::atomic::{BaseOp, Complex, Operation};

fn main() {
    let _ = BaseOp::<Complex<f64>>::MIN.atomic();
}
