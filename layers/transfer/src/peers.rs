//! Peers of an engine: addresses on each rail, operations in flight, links.

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::storage::Array;
use loom_core::{Av, EndpointAddr, Error, Peer, Transport};

use crate::control::Control;
use crate::link::{Debt, Link, LinkState};
use crate::queue::Queue;
use crate::rail::Rail;
use crate::remote::MAX_RAILS;

/// Name of a peer of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// First word of a record of addresses: its name and version.
const VERSION: [u8; 8] = *b"loomEA\x01\0";
/// Version, number of rails, and number of control endpoints, 0 or 1.
const HEAD: usize = 10;

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
    link: Link,
    /// Generation of a peer, and the state of its link to report.
    change: Option<(u32, Result<(), Error>)>,
}

/// Address vectors of an engine.
pub(crate) struct Vectors<'e, 'm, T: Transport> {
    pub(crate) rails: &'e [Rail<'m, T>],
    pub(crate) control: Option<&'e Av<'m, T>>,
}

impl<'e, 'm, T: Transport> Vectors<'e, 'm, T> {
    pub(crate) fn of<A: Allocator>(rails: &'e [Rail<'m, T>], control: Option<&'e Control<'m, T, A>>) -> Self {
        Vectors { rails, control: control.map(|control| &control.av) }
    }

    fn remove(&self, routes: &[Option<Peer>], control: Option<Peer>) {
        let avs = self.rails.iter().map(|rail| Some(&rail.av)).zip(routes);
        for (av, route) in avs.chain([(self.control, &control)]) {
            if let (Some(av), Some(peer)) = (av, route) {
                av.remove(*peer);
            }
        }
    }
}

pub(crate) struct Peers<A: Allocator> {
    slots: Array<Slot, A>,
    changes: Queue<A>,
    /// Links may have debts, or rails without a connection.
    pub(crate) busy: bool,
}

impl<A: Allocator + Clone> Peers<A> {
    pub(crate) fn new(len: usize, number: u32, alloc: &A) -> Result<Self, OpenError> {
        u32::try_from(len).map_err(|_| OpenError::Size)?;
        let slot = |_| Slot {
            generation: number,
            state: State::Vacant,
            rails: 0,
            in_flight: 0,
            routes: [None; MAX_RAILS],
            link: Link::new(None),
            change: None,
        };
        let slots = Array::new_in(len, alloc.clone(), slot)?;
        Ok(Peers { slots, changes: Queue::new(len, alloc.clone())?, busy: false })
    }
}

impl<A: Allocator> Peers<A> {
    fn slot(&self, key: PeerKey) -> Option<&Slot> {
        let slot = self.slots.get(key.index as usize)?;
        (slot.generation == key.generation && slot.state == State::Present).then_some(slot)
    }

    /// Number of the peer's rails.
    pub(crate) fn rails(&self, key: PeerKey) -> Option<usize> {
        self.slot(key).map(|slot| slot.rails)
    }

    /// Peer of each rail, the number of operations in flight, and the link. `None` for a removed peer.
    #[inline]
    pub(crate) fn routes(&mut self, key: PeerKey) -> Option<(&[Option<Peer>; MAX_RAILS], &mut u32, &mut Link)> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        (slot.state == State::Present).then_some((&slot.routes, &mut slot.in_flight, &mut slot.link))
    }

    pub(crate) fn link(&self, key: PeerKey) -> Option<&Link> {
        self.slot(key).map(|slot| &slot.link)
    }

    pub(crate) fn link_mut(&mut self, key: PeerKey) -> Option<&mut Link> {
        self.routes(key).map(|(_, _, link)| link)
    }

    /// Key of the peer in this slot.
    pub(crate) fn at(&self, index: u32) -> Option<PeerKey> {
        let slot = self.slots.get(index as usize).filter(|slot| slot.state == State::Present)?;
        Some(PeerKey { index, generation: slot.generation })
    }

    /// Next peer from this slot on, and its successor's slot.
    pub(crate) fn next(&self, from: &mut u32) -> Option<PeerKey> {
        while (*from as usize) < self.slots.len() {
            *from += 1;
            if let Some(key) = self.at(*from - 1) {
                return Some(key);
            }
        }
        None
    }

    pub(crate) fn owe(&mut self, key: PeerKey, debt: Debt) {
        if let Some(link) = self.link_mut(key) {
            link.owe(debt);
            self.busy = true;
        }
    }

    /// Changes the state of a link, and reports it.
    pub(crate) fn change(&mut self, key: PeerKey, state: LinkState) {
        let Some(slot) = self.slots.get_mut(key.index as usize) else { return };
        let changed = slot.generation == key.generation && slot.state == State::Present && slot.link.state != state;
        if !changed {
            return;
        }
        slot.link.state = state;
        let result = match state {
            LinkState::Ready => Ok(()),
            LinkState::Failed(error) => Err(error),
            LinkState::Absent | LinkState::Greeting => return,
        };
        if slot.change.replace((key.generation, result)).is_none() {
            self.changes.push(key.index);
        }
    }

    /// Next change to report.
    pub(crate) fn next_change(&mut self) -> Option<(PeerKey, Result<(), Error>)> {
        while let Some(index) = self.changes.pop() {
            let slot = self.slots.get_mut(index as usize)?;
            let change =
                slot.change.take().filter(|change| change.0 == slot.generation && slot.state == State::Present);
            if let Some((generation, result)) = change {
                return Some((PeerKey { index, generation }, result));
            }
        }
        None
    }

    /// Returns `true` if the peer's address on a rail is that of the rail itself.
    pub(crate) fn has<T: Transport>(&self, key: PeerKey, rail: &Rail<'_, T>) -> bool {
        let route = self.slot(key).and_then(|slot| slot.routes[0]);
        let own = rail.endpoint.address().ok().and_then(|own| rail.av.find(&own));
        own.is_some() && own == route
    }

    /// Counts an operation of a peer that may have been removed.
    pub(crate) fn posted(&mut self, key: PeerKey) {
        if let Some(slot) = self.slots.get_mut(key.index as usize) {
            slot.in_flight += 1;
        }
    }

    /// Counts a completion. The addresses of a removed peer leave with its last operation.
    #[inline]
    pub(crate) fn completed<T: Transport>(&mut self, key: PeerKey, vectors: &Vectors<'_, '_, T>) {
        if let Some(slot) = self.slots.get_mut(key.index as usize) {
            slot.in_flight -= 1;
            if slot.in_flight == 0 && slot.state == State::Leaving {
                slot.leave(vectors);
            }
        }
    }

    /// Inserts a peer by its record. Returns `true` if it was not present.
    pub(crate) fn insert<T: Transport>(
        &mut self,
        record: &[u8],
        vectors: &Vectors<'_, '_, T>,
    ) -> Result<(PeerKey, bool), Error> {
        let record = Record::decode(record)?;
        let mut known = [None; MAX_RAILS];
        for (number, (rail, known)) in vectors.rails.iter().zip(&mut known).enumerate() {
            *known = rail.av.find(&record.rail(number)?);
        }
        if known.iter().any(Option::is_some) {
            let same = |slot: &Slot| slot.state != State::Vacant && slot.rails == record.rails && slot.routes == known;
            let found = self.slots.iter().position(same);
            let found = found.ok_or(Error::Invalid("an address belongs to another peer: remove that peer first"))?;
            let slot = &mut self.slots[found];
            let returns = slot.state == State::Leaving;
            if returns {
                // It has returned. Its former transfers stay stopped.
                (slot.state, slot.generation) = (State::Present, slot.generation.wrapping_add(1));
                slot.link = Link::new(slot.link.route);
            }
            return Ok((self.key(found), returns));
        }
        let vacant = self.slots.iter().position(|slot| slot.state == State::Vacant);
        let index = vacant.ok_or(Error::Full("EngineAttr::peers"))?;
        let (mut routes, mut control) = ([None; MAX_RAILS], None);
        let rails = vectors.rails.iter().map(|rail| &rail.av).zip(&mut routes).enumerate();
        let links = vectors.control.filter(|_| record.has_control).map(|av| (usize::MAX, (av, &mut control)));
        for (number, (av, route)) in rails.chain(links) {
            let address = if number == usize::MAX { record.control() } else { record.rail(number) };
            match address.and_then(|address| av.insert(&address).map_err(Error::from)) {
                Ok(peer) => *route = Some(peer),
                Err(error) => {
                    vectors.remove(&routes, control);
                    return Err(error);
                }
            }
        }
        let slot = &mut self.slots[index];
        let generation = slot.generation.wrapping_add(1);
        let (link, rails) = (Link::new(control), record.rails);
        *slot = Slot { generation, state: State::Present, rails, in_flight: 0, routes, link, change: slot.change };
        Ok((self.key(index), true))
    }

    fn key(&self, index: usize) -> PeerKey {
        #[expect(clippy::cast_possible_truncation, reason = "the number of slots is a `u32`")]
        PeerKey { index: index as u32, generation: self.slots[index].generation }
    }

    /// Removes a peer, at once or with its last operation in flight.
    pub(crate) fn remove<T: Transport>(&mut self, key: PeerKey, vectors: &Vectors<'_, '_, T>) -> bool {
        if self.slot(key).is_none() {
            return false;
        }
        let slot = &mut self.slots[key.index as usize];
        slot.state = State::Leaving;
        if slot.in_flight == 0 {
            slot.leave(vectors);
        }
        true
    }
}

impl Slot {
    fn leave<T: Transport>(&mut self, vectors: &Vectors<'_, '_, T>) {
        vectors.remove(&self.routes, self.link.route);
        self.routes = [None; MAX_RAILS];
        self.link = Link::new(None);
        self.state = State::Vacant;
    }
}

/// Record of an engine's addresses.
pub(crate) struct Record<'b> {
    rails: usize,
    has_control: bool,
    addresses: &'b [u8],
}

impl<'b> Record<'b> {
    pub(crate) fn decode(record: &'b [u8]) -> Result<Self, Error> {
        const INVALID: Error = Error::Invalid("not a record of an engine's addresses, or of another version of loom");
        let (head, addresses) = record.split_first_chunk::<HEAD>().ok_or(INVALID)?;
        let [version @ .., rails, controls] = head;
        let rails = usize::from(*rails);
        if *version != VERSION || !(1..=MAX_RAILS).contains(&rails) || *controls > 1 {
            return Err(INVALID);
        }
        let mut end = addresses;
        for _ in 0..rails + usize::from(*controls) {
            let (_, len) = EndpointAddr::decode(end)?;
            end = end.get(len..).ok_or(INVALID)?;
        }
        if !end.is_empty() {
            return Err(INVALID);
        }
        Ok(Record { rails, has_control: *controls == 1, addresses })
    }

    fn address(&self, index: usize) -> Result<EndpointAddr, Error> {
        let mut rest = self.addresses;
        for _ in 0..index {
            let (_, len) = EndpointAddr::decode(rest)?;
            rest = rest.get(len..).unwrap_or_default();
        }
        Ok(EndpointAddr::decode(rest)?.0)
    }

    /// Address that a rail of this side uses.
    fn rail(&self, number: usize) -> Result<EndpointAddr, Error> {
        self.address(number % self.rails)
    }

    /// Address of the control endpoint.
    pub(crate) fn control(&self) -> Result<EndpointAddr, Error> {
        if self.has_control {
            self.address(self.rails)
        } else {
            Err(Error::Invalid("the peer has no control messages"))
        }
    }

    /// Writes the addresses of an engine: name and version, the numbers of rails and of control
    /// endpoints as a byte each, and each address in the form of [`EndpointAddr::encode`].
    pub(crate) fn encode<T: Transport>(
        rails: &[Rail<'_, T>],
        control: Option<&EndpointAddr>,
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let mut len = HEAD;
        if let Some(head) = out.first_chunk_mut::<HEAD>() {
            head[..8].copy_from_slice(&VERSION);
            head[8] = u8::try_from(rails.len()).unwrap_or(u8::MAX);
            head[9] = control.is_some().into();
        }
        for rail in rails {
            let address = rail.endpoint.address().map_err(Error::Provider)?;
            len += address.encode(out.get_mut(len..).unwrap_or_default())?;
        }
        if let Some(control) = control {
            len += control.encode(out.get_mut(len..).unwrap_or_default())?;
        }
        Ok(len)
    }
}
