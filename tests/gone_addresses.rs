//! Addresses of endpoints of this process that are closed, over `shm`: they are refused, and endpoints go on opening.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

use loom_core::objects::av::InsertError;
use loom_core::objects::info::Hints;
use loom_core::{Av, Caps, Cq, Domain, Errno};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};

type T = Ofi<Local>;

#[test]
fn address_of_a_closed_endpoint_is_refused_and_the_next_one_opens() {
    let hints = Hints { caps: Caps::MSG, provider: Some("shm"), ..Hints::default() };
    let info = T::query(&hints).unwrap().next().unwrap();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, 256).unwrap();
    for _ in 0..50 {
        let address = {
            let cq = Cq::<_, Vec<u8>>::open(&domain, 16).unwrap();
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.address().unwrap()
        };
        assert_eq!(av.insert(&address), Err(InsertError::Errno(Errno::EADDRNOTAVAIL)));
    }
    // One that is there is taken.
    let cq = Cq::<_, Vec<u8>>::open(&domain, 16).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    av.insert(&endpoint.address().unwrap()).unwrap();
}
