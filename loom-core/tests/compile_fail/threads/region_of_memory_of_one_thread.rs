//! A region over memory that must not be dropped by another thread, which closes the domain's last endpoint.

use loom_core::buffer::{Buffer, Lent};
use loom_core::domain::Domain;
use loom_core::mr::Mr;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Access;

struct Here(Vec<u8>, *const ());

unsafe impl Buffer for Here {
    fn lend(&mut self) -> Lent {
        self.0.lend()
    }
}

fn main() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let region = Mr::open(&domain, Here(vec![0; 8], core::ptr::null()), Access::REMOTE_WRITE).unwrap();
    drop(region);
}
