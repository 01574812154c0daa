//! [`Node`]: what a server and a client have alike: a queue, its driver, an endpoint.

use std::time::Duration;

use loom_async::tokio::Mode;
use loom_fabric::{Av, Caps, Cq, CqDriver, Domain, Endpoint, EndpointAddr, Error, Transport, Unclaimed, WaitObj};

pub(crate) type Bytes = Vec<u8>;

/// What both sides ask of a transport: messages, whom each is from, so that a reply goes there, and RMA.
pub(crate) const CAPS: Caps = Caps::MSG.union(Caps::SOURCE).union(Caps::RMA);

/// How long a peer may take to do its part.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How many operations are in flight at most.
const DEPTH: usize = 64;

/// An endpoint with a queue of its own.
pub(crate) struct Node<T: Transport + 'static> {
    pub(crate) domain: Domain<'static, T>,
    pub(crate) av: Av<'static, T>,
    pub(crate) driver: CqDriver<'static, T, Bytes>,
    pub(crate) endpoint: Endpoint<'static, T, Bytes>,
    /// Its thread sleeps while nothing happens, where the transport has descriptors to sleep on. `shm` has none: there it spins.
    pub(crate) mode: Mode,
}

impl<T: Transport + 'static> Node<T> {
    /// Opens an endpoint that talks with up to `peers` others.
    pub(crate) fn open(domain: &Domain<'static, T>, peers: usize) -> Result<Self, Error> {
        let av = Av::open(domain, peers)?;
        let cq = Cq::open_waitable(domain, DEPTH)?;
        let mode = if cq.wait_obj() == WaitObj::FD { Mode::Sleep } else { Mode::Busy };
        let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
        Ok(Node { endpoint: cq.endpoint(&av)?, domain: domain.clone(), av, driver, mode })
    }

    pub(crate) fn address(&self) -> Result<EndpointAddr, Error> {
        Ok(self.endpoint.address()?)
    }
}
