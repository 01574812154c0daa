//! A queue on its way to another thread, with buffers that must not be dropped there.

use loom_core::buffer::{Buffer, Lent};
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr};

struct Here(Vec<u8>, *const ());

unsafe impl Buffer for Here {
    fn lend(&mut self) -> Lent {
        self.0.lend()
    }
}

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let cq = Cq::<_, Here>::open(&domain, 4).unwrap();
    let parked = cq.park([]).unwrap();
    std::thread::spawn(move || parked.unpark().0.in_flight());
}
