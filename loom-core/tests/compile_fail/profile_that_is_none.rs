//! A transport is no profile.

use loom_core::Hints;
use loom_core::soft::Soft;

fn main() {
    let _ = Hints::of_profile::<Soft<'static>>();
}
