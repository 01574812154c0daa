//! A connection request that is rejected after its event queue was closed.

use loom_core::objects::domain::Domain;
use loom_core::objects::eq::{Eq, EqAttr, EqEvent};
use loom_core::transport::Connected;

fn late<T: Connected>(domain: &Domain<T>) {
    let eq = Eq::open(domain, EqAttr::default()).unwrap();
    if let Some(EqEvent::Request(request)) = eq.poll().unwrap() {
        drop(eq);
        request.reject(b"no").unwrap();
    }
}

fn main() {}
