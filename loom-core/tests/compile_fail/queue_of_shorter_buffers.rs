//! A queue for long-lived buffers is not one for buffers that end earlier: it is invariant in them.

use loom_core::objects::cq::Cq;
use loom_core::soft::Soft;

fn main() {
    fn shorter<'q, 's: 'q>(cq: &'q Cq<'q, Soft<'q>, &'static [u8]>) -> &'q Cq<'q, Soft<'q>, &'s [u8]> {
        cq
    }
    let _ = shorter;
}
