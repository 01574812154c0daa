//! A transport in place of a profile.

use loom_core::soft::Soft;
use loom_static::profiles::Profile;

fn main() {
    let _ = <Soft<'static> as Profile>::hints();
}
