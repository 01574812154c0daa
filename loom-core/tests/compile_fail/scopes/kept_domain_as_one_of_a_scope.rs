//! A domain that is kept cannot be taken for one of a scope: it is invariant in its lifetime.

use loom_core::domain::Domain;
use loom_core::soft::Soft;

fn main() {
    fn shorter<'m>(domain: Domain<'static, Soft<'static>>) -> Domain<'m, Soft<'static>> {
        domain
    }
    let _ = shorter;
}
