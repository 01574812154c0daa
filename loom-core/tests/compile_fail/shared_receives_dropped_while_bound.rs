//! A shared receive context that ends before an endpoint which receives through it.

use loom_core::objects::cq::{Cq, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::objects::eq::{Eq, EqAttr};
use loom_core::transport::Connected;

fn early<T: Connected>(domain: &Domain<T>) {
    let eq = Eq::open(domain, EqAttr::default()).unwrap();
    let owner = Cq::<T, Box<[u8]>>::open(domain, CqAttr::<4>::new()).unwrap();
    let shared = owner.shared_rx(domain.info()).unwrap();
    let endpoint = shared.msg_endpoint(&eq, domain.info()).unwrap();
    drop(shared);
    assert!(endpoint.address().is_ok());
}

fn main() {}
