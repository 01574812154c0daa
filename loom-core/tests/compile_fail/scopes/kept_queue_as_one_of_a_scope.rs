//! A queue that is kept cannot be taken for one of a scope, which closes what is forgotten: it is invariant in its lifetime.

use loom_core::cq::Cq;
use loom_core::soft::Soft;

fn main() {
    fn shorter<'m>(cq: Cq<'static, Soft<'static>, ()>) -> Cq<'m, Soft<'static>, ()> {
        cq
    }
    let _ = shorter;
}
