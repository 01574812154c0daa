//! A queue cannot be taken for one of a shorter-lived parent: it is invariant in the parent's lifetime.

use loom_core::objects::cq::Cq;
use loom_core::soft::Soft;

fn main() {
    fn shorter<'q, 'd: 'q>(cq: &'q Cq<'static, Soft<'static>, ()>) -> &'q Cq<'d, Soft<'static>, ()> {
        cq
    }
    let _ = shorter;
}
