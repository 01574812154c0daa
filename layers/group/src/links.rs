//! [`Links`]: how a group reaches its members.

use core::cell::{Cell, RefCell};

use allocator_api2::alloc::Allocator;
use loom_core::buffer::Buffer;
use loom_core::storage::Array;
use loom_core::vocabulary::EndpointAddr;
use loom_core::{Av, Endpoint, MsgEndpoint, Peer, Transport};

use crate::{PeerError, PeerIndex};

/// How a group reaches its members.
pub(crate) enum Links<'m, T: Transport, B: Buffer, A: Allocator> {
    /// All over one connectionless endpoint.
    One(Shared<'m, T, B, A>),
    /// Each over a connection of its own.
    Each(Array<RefCell<Option<Connection<'m, T, B>>>, A>),
}

/// One endpoint for all members.
pub(crate) struct Shared<'m, T: Transport, B: Buffer, A: Allocator> {
    pub(crate) av: Av<'m, T>,
    pub(crate) endpoint: Endpoint<'m, T, B>,
    pub(crate) members: Array<Cell<Option<Peer>>, A>,
}

/// A member's connection.
pub(crate) struct Connection<'m, T: Transport, B: Buffer> {
    pub(crate) endpoint: MsgEndpoint<'m, T, B>,
    /// No other connection of the group has it: what waits for this one does not go to one that takes its place.
    pub(crate) serial: u64,
}

/// Where a request goes: to the member that had the number when it was made.
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

    /// The endpoint of all, and the member's address there.
    #[inline]
    pub(crate) fn shared(&self, peer: PeerIndex) -> Option<(&Endpoint<'m, T, B>, Peer)> {
        let Links::One(shared) = self else { return None };
        Some((&shared.endpoint, shared.members.get(peer.place())?.get()?))
    }

    /// A handle of a member's connection: user code that runs while it is used may take the member out of the group.
    pub(crate) fn connection(&self, peer: PeerIndex) -> Option<MsgEndpoint<'m, T, B>> {
        let Links::Each(connections) = self else { return None };
        connections.get(peer.place())?.borrow().as_ref().map(|connection| connection.endpoint.clone())
    }

    /// A handle of the connection that a request was made for, if it is still there.
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

    /// Takes an address out of the vector, if it is no member's any more.
    fn forget(&self, peer: Peer) {
        if self.members.iter().all(|member| member.get() != Some(peer)) {
            self.av.remove(peer);
        }
    }
}
