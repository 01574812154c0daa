//! Registered memory over the software transport: leases, their parts, posted data, and heaps.

mod device;
mod exposed;
mod heap;
mod random;
mod rules;
mod threads;
mod transfers;
mod world;

use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};

fn network() -> Network<'static> {
    Network::new(NetworkAttr::default()).unwrap()
}

/// Domains: one that accepts any buffer, and one that requires registered ones.
fn domains(network: &Network<'static>) -> [Domain<'static, Soft<'static>>; 2] {
    let local = network.info_requiring(RequiredModes::LOCAL_REGISTRATION);
    [network.info(), local].map(|info| Domain::open(&info).unwrap())
}
