//! What wakes up a queue's thread borrows the queue.

use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::transport::Signals;
use loom_core::vocabulary::WaitObj;

fn signals<T: Signals>(domain: &Domain<'_, T>) {
    let cq = Cq::<T, ()>::open(domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(4) }).unwrap();
    let signaller = cq.signaller().unwrap();
    drop(cq);
    signaller.signal().unwrap();
}

fn main() {}
