//! Connectionless endpoints (`FI_EP_RDM`), with addresses of peers.

use std::vec::Vec;

use loom_core::error::PostError;
use loom_core::{
    Av, Binding, Buffer, Cq, Domain, Endpoint, EndpointAddr, Error, Peer, RemoteRegion, SendOptions, Transport,
};

use super::{Change, Incoming, Outcome, Outgoing, Part};

/// One for each target: closing it ends no other operations.
pub(super) struct Endpoints<'m, T: Transport, M: Buffer + Send> {
    routes: Vec<Option<Route<'m, T, M>>>,
    cq: Cq<'m, T, Part<'m, T, M>>,
    domain: Domain<'m, T>,
}

struct Route<'m, T: Transport, M: Buffer + Send> {
    endpoint: Endpoint<'m, T, Part<'m, T, M>>,
    /// `None` between two targets: `shm` cannot close endpoints with peers in the process.
    peer: Option<Peer>,
}

/// Addresses, with removed ones: at most 256 over `shm`.
const ADDRESSES: usize = 128;

impl<'m, T: Transport, M: Buffer + Send> Endpoints<'m, T, M> {
    pub(super) fn new(domain: &Domain<'m, T>, cq: &Cq<'m, T, Part<'m, T, M>>, targets: u16) -> Self {
        let routes = (0..targets).map(|_| None).collect();
        Endpoints { routes, cq: cq.clone(), domain: domain.clone() }
    }
}

impl<'m, T: Transport, M: Buffer + Send> Outgoing<'m, T, M> for Endpoints<'m, T, M> {
    fn open(&mut self, index: usize, to: &EndpointAddr) -> Result<bool, Error> {
        let Some(slot) = self.routes.get_mut(index) else { return Err(PostError::UnknownPeer.into()) };
        if let Some(Route { endpoint, peer: peer @ None }) = slot
            && let Ok(inserted) = endpoint.av().insert(to)
        {
            *peer = Some(inserted);
            return Ok(true);
        }
        let av = Av::open(&self.domain, ADDRESSES)?;
        let peer = Some(av.insert(to)?);
        *slot = Some(Route { endpoint: self.cq.endpoint(&av)?, peer });
        Ok(true)
    }

    fn close(&mut self, index: usize) {
        if let Some(slot) = self.routes.get_mut(index) {
            *slot = None;
        }
    }

    fn release(&mut self, index: usize) {
        if let Some(Some(Route { endpoint, peer })) = self.routes.get_mut(index) {
            peer.take_if(|peer| endpoint.av().remove(*peer));
        }
    }

    fn next(&mut self) -> Result<Option<Outcome>, Error> {
        Ok(None)
    }

    fn write(
        &self,
        index: usize,
        to: &RemoteRegion,
        options: SendOptions,
        part: Part<'m, T, M>,
    ) -> Result<(), PostError> {
        let Some(Some(Route { endpoint, peer: Some(peer) })) = self.routes.get(index) else {
            return Err(PostError::UnknownPeer);
        };
        endpoint.write_with(*peer, &[*to], options, part).map(|_| ()).map_err(|rejected| rejected.error)
    }
}

pub(super) struct Receiver<'m, T: Transport> {
    endpoint: Endpoint<'m, T, Vec<u8>>,
    begins_anew: bool,
}

impl<'m, T: Transport> Receiver<'m, T> {
    pub(super) fn open(domain: &Domain<'m, T>, cq: &Cq<'m, T, Vec<u8>>, writes: u16) -> Result<Self, Error> {
        let av = Av::open(domain, 1)?;
        Ok(Receiver { endpoint: cq.endpoint(Binding::to(&av).remote_writes(writes))?, begins_anew: false })
    }
}

impl<T: Transport> Incoming for Receiver<'_, T> {
    fn address(&self) -> Result<EndpointAddr, Error> {
        self.endpoint.address().map_err(Error::Provider)
    }

    fn is_open(&self) -> bool {
        true
    }

    fn next(&mut self) -> Result<Option<Change>, Error> {
        Ok(core::mem::take(&mut self.begins_anew).then_some(Change::Requested))
    }

    fn accept(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self) -> bool {
        self.begins_anew = true;
        true
    }
}
