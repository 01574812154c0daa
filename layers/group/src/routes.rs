use core::cell::{Cell, RefCell};

use allocator_api2::alloc::Allocator;
use loom_core::buffer::Buffer;
use loom_core::storage::Array;
use loom_core::vocabulary::EndpointAddr;
use loom_core::{Av, Endpoint, MsgEndpoint, Peer, Transport};

use crate::{PeerError, PeerIndex};

pub(crate) enum Links<'m, T: Transport, B: Buffer, A: Allocator> {
    /// All members over one connectionless endpoint.
    One(Shared<'m, T, B, A>),
    Each(Array<RefCell<Option<Connection<'m, T, B>>>, A>),
}

pub(crate) struct Shared<'m, T: Transport, B: Buffer, A: Allocator> {
    pub(crate) av: Av<'m, T>,
    pub(crate) endpoint: Endpoint<'m, T, B>,
    pub(crate) members: Array<Cell<Option<Peer>>, A>,
}

pub(crate) struct Connection<'m, T: Transport, B: Buffer> {
    pub(crate) endpoint: MsgEndpoint<'m, T, B>,
    /// Unique in the group: waiting requests do not go to a successor.
    pub(crate) serial: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Peer(Peer),
    Connection { place: usize, serial: u64 },
}

impl<'m, T: Transport, B: Buffer, A: Allocator> Links<'m, T, B, A> {
    pub(crate) fn capacity(&self) -> usize {
        match self {
            Links::One(shared) => shared.members.len(),
            Links::Each(connections) => connections.len(),
        }
    }

    #[inline]
    pub(crate) fn to(&self, peer: PeerIndex) -> Option<To> {
        let place = peer.place();
        match self {
            Links::One(shared) => shared.members.get(place)?.get().map(To::Peer),
            Links::Each(connections) => {
                let serial = connections.get(place)?.borrow().as_ref()?.serial;
                Some(To::Connection { place, serial })
            }
        }
    }

    #[inline]
    pub(crate) fn shared(&self, peer: PeerIndex) -> Option<(&Endpoint<'m, T, B>, Peer)> {
        let Links::One(shared) = self else { return None };
        Some((&shared.endpoint, shared.members.get(peer.place())?.get()?))
    }

    /// Stays valid if user code removes the member meanwhile.
    pub(crate) fn connection(&self, peer: PeerIndex) -> Option<MsgEndpoint<'m, T, B>> {
        let Links::Each(connections) = self else { return None };
        connections.get(peer.place())?.borrow().as_ref().map(|connection| connection.endpoint.clone())
    }

    pub(crate) fn same_connection(&self, place: usize, serial: u64) -> Option<MsgEndpoint<'m, T, B>> {
        let Links::Each(connections) = self else { return None };
        let connection = connections.get(place)?.borrow();
        connection
            .as_ref()
            .filter(|connection| connection.serial == serial)
            .map(|connection| connection.endpoint.clone())
    }
}

impl<T: Transport, B: Buffer, A: Allocator> Shared<'_, T, B, A> {
    pub(crate) fn set(&self, peer: PeerIndex, address: &EndpointAddr) -> Result<(), PeerError> {
        let member = self.members.get(peer.place()).ok_or(PeerError::NoSuchPlace)?;
        let inserted = self.av.insert(address).map_err(PeerError::Insert)?;
        if let Some(before) = member.replace(Some(inserted)).filter(|before| *before != inserted) {
            self.forget(before);
        }
        Ok(())
    }

    pub(crate) fn remove(&self, peer: PeerIndex) -> bool {
        let removed = self.members.get(peer.place()).and_then(Cell::take);
        if let Some(removed) = removed {
            self.forget(removed);
        }
        removed.is_some()
    }

    /// Removes an address, unless another member uses it.
    fn forget(&self, peer: Peer) {
        if self.members.iter().all(|member| member.get() != Some(peer)) {
            self.av.remove(peer);
        }
    }
}
