//! Peers of an engine: addresses on each rail, and operations in flight.

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::storage::Array;
use loom_core::{EndpointAddr, Error, Peer, Transport};

use crate::rail::Rail;
use crate::remote::MAX_RAILS;

/// Name of a peer of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerKey {
    index: u32,
    generation: u32,
}

/// First word of a record of addresses: its name and version.
const VERSION: [u8; 8] = *b"loomEA\x01\0";

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Vacant,
    Present,
    /// Removed, with operations in flight.
    Leaving,
}

struct Slot {
    generation: u32,
    state: State,
    rails: usize,
    in_flight: u32,
    /// Peer of each rail of this side.
    routes: [Option<Peer>; MAX_RAILS],
}

pub(crate) struct Peers<A: Allocator>(Array<Slot, A>);

impl<A: Allocator> Peers<A> {
    pub(crate) fn new(len: usize, alloc: A) -> Result<Self, OpenError> {
        u32::try_from(len).map_err(|_| OpenError::Size)?;
        let slot = |_| Slot { generation: 0, state: State::Vacant, rails: 0, in_flight: 0, routes: [None; MAX_RAILS] };
        Ok(Peers(Array::new_in(len, alloc, slot)?))
    }

    fn slot(&self, key: PeerKey) -> Option<&Slot> {
        self.0.get(key.index as usize).filter(|slot| slot.generation == key.generation)
    }

    /// Number of the peer's rails.
    pub(crate) fn rails(&self, key: PeerKey) -> Option<usize> {
        self.slot(key).filter(|slot| slot.state == State::Present).map(|slot| slot.rails)
    }

    /// Peer of each rail, and the number of operations in flight. `None` for a removed peer.
    #[inline]
    pub(crate) fn routes(&mut self, key: PeerKey) -> Option<(&[Option<Peer>; MAX_RAILS], &mut u32)> {
        let slot = self.0.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        (slot.state == State::Present).then_some((&slot.routes, &mut slot.in_flight))
    }

    /// Counts an operation of a peer that may have been removed.
    pub(crate) fn posted(&mut self, key: PeerKey) {
        if let Some(slot) = self.0.get_mut(key.index as usize) {
            slot.in_flight += 1;
        }
    }

    /// Counts a completion. The addresses of a removed peer leave with its last operation.
    #[inline]
    pub(crate) fn completed<T: Transport>(&mut self, key: PeerKey, rails: &[Rail<'_, T>]) {
        if let Some(slot) = self.0.get_mut(key.index as usize) {
            slot.in_flight -= 1;
            if slot.in_flight == 0 && slot.state == State::Leaving {
                slot.leave(rails);
            }
        }
    }

    pub(crate) fn insert<T: Transport>(&mut self, record: &[u8], rails: &[Rail<'_, T>]) -> Result<PeerKey, Error> {
        const INVALID: Error = Error::Invalid("not a record of an engine's addresses, or of another version of loom");
        let (head, rest) = record.split_first_chunk::<9>().ok_or(INVALID)?;
        let [version @ .., count] = head;
        let count = usize::from(*count);
        if *version != VERSION || !(1..=MAX_RAILS).contains(&count) {
            return Err(INVALID);
        }
        // The record is checked before an address is inserted.
        let mut end = rest;
        for _ in 0..count {
            let (_, len) = EndpointAddr::decode(end)?;
            end = end.get(len..).ok_or(INVALID)?;
        }
        if !end.is_empty() {
            return Err(INVALID);
        }
        let address = |rail: usize| {
            let mut rest = rest;
            for _ in 0..rail % count {
                let (_, len) = EndpointAddr::decode(rest)?;
                rest = rest.get(len..).unwrap_or_default();
            }
            EndpointAddr::decode(rest).map(|(address, _)| address)
        };
        let mut known = [None; MAX_RAILS];
        for (number, (rail, known)) in rails.iter().zip(&mut known).enumerate() {
            *known = rail.av.find(&address(number)?);
        }
        if known.iter().any(Option::is_some) {
            let same = |slot: &Slot| slot.state != State::Vacant && slot.rails == count && slot.routes == known;
            let found = self.0.iter().position(same);
            let found = found.ok_or(Error::Invalid("an address belongs to another peer: remove that peer first"))?;
            let slot = &mut self.0[found];
            if slot.state == State::Leaving {
                // It has returned. Its former transfers stay stopped.
                (slot.state, slot.generation) = (State::Present, slot.generation.wrapping_add(1));
            }
            return Ok(self.key(found));
        }
        let vacant = self.0.iter().position(|slot| slot.state == State::Vacant);
        let index = vacant.ok_or(Error::Full("EngineAttr::peers"))?;
        let mut routes = [None; MAX_RAILS];
        for (number, (rail, route)) in rails.iter().zip(&mut routes).enumerate() {
            let inserted = address(number).and_then(|address| rail.av.insert(&address));
            match inserted {
                Ok(peer) => *route = Some(peer),
                Err(error) => {
                    remove(&routes, rails);
                    return Err(error.into());
                }
            }
        }
        let slot = &mut self.0[index];
        let generation = slot.generation.wrapping_add(1);
        *slot = Slot { generation, state: State::Present, rails: count, in_flight: 0, routes };
        Ok(self.key(index))
    }

    fn key(&self, index: usize) -> PeerKey {
        #[expect(clippy::cast_possible_truncation, reason = "the number of slots is a `u32`")]
        PeerKey { index: index as u32, generation: self.0[index].generation }
    }

    /// Removes a peer, at once or with its last operation in flight.
    pub(crate) fn remove<T: Transport>(&mut self, key: PeerKey, rails: &[Rail<'_, T>]) -> bool {
        if self.rails(key).is_none() {
            return false;
        }
        let slot = &mut self.0[key.index as usize];
        slot.state = State::Leaving;
        if slot.in_flight == 0 {
            slot.leave(rails);
        }
        true
    }
}

impl Slot {
    fn leave<T: Transport>(&mut self, rails: &[Rail<'_, T>]) {
        remove(&self.routes, rails);
        self.routes = [None; MAX_RAILS];
        self.state = State::Vacant;
    }
}

fn remove<T: Transport>(routes: &[Option<Peer>], rails: &[Rail<'_, T>]) {
    for (rail, route) in rails.iter().zip(routes) {
        if let Some(peer) = route {
            rail.av.remove(*peer);
        }
    }
}

/// Writes the addresses of all rails: name and version, their number as a byte, and each address in
/// the form of [`EndpointAddr::encode`].
pub(crate) fn encode<T: Transport>(rails: &[Rail<'_, T>], out: &mut [u8]) -> Result<usize, Error> {
    let mut len = 9;
    if let Some(head) = out.first_chunk_mut::<9>() {
        head[..8].copy_from_slice(&VERSION);
        head[8] = u8::try_from(rails.len()).unwrap_or(u8::MAX);
    }
    for rail in rails {
        let address = rail.endpoint.address().map_err(Error::Provider)?;
        len += address.encode(out.get_mut(len..).unwrap_or_default())?;
    }
    Ok(len)
}
