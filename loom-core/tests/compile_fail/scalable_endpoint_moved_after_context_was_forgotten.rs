//! A scalable endpoint that moves while the queue is there which closes a forgotten context of it.

use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::{Contexts, ScalableEndpoint};
use loom_core::transport::Scalable;

fn elsewhere<T: Scalable>(domain: &Domain<T>) {
    let av = Av::open(domain, 2).unwrap();
    let endpoint = ScalableEndpoint::open(&av, domain.info(), Contexts { tx: 1, rx: 1 }).unwrap();
    let owner = Cq::<T, Box<[u8]>>::open(domain, CqAttr::<4>::new()).unwrap();
    std::mem::forget(owner.tx_context(&endpoint, 0).unwrap());
    let elsewhere = Box::new(endpoint);
    drop(owner);
    drop(elsewhere);
}

fn main() {}
