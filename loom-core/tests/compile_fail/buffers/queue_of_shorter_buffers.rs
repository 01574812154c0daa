//! A queue for long-lived buffers is not one for buffers that end earlier: it is invariant in them.

use loom_core::cq::Cq;
use loom_core::soft::Soft;

fn main() {
    fn shorter<'m, 's: 'm>(cq: Cq<'m, Soft<'m>, &'static [u8]>) -> Cq<'m, Soft<'m>, &'s [u8]> {
        cq
    }
    let _ = shorter;
}
