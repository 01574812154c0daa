//! A scalable endpoint that ends before one of its contexts.

use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::{Contexts, ScalableEndpoint};
use loom_core::transport::Scalable;

fn early<T: Scalable>(domain: &Domain<T>) {
    let av = Av::open(domain, 2).unwrap();
    let endpoint = ScalableEndpoint::open(&av, domain.info(), Contexts { tx: 1, rx: 1 }).unwrap();
    let owner = Cq::<T, Box<[u8]>>::open(domain, CqAttr::<4>::new()).unwrap();
    let context = owner.rx_context(&endpoint, 0).unwrap();
    drop(endpoint);
    drop(context);
}

fn main() {}
