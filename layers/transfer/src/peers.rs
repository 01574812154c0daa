use allocator_api2::alloc::Allocator;
use loom_core::error::{OpenError, PostError};
use loom_core::storage::Array;
use loom_core::{AddressError, Av, EndpointAddr, Error, Peer, Transport};

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

struct PeerSlot {
    generation: u32,
    state: State,
    rails: usize,
    /// Operations, and messages in the outbox.
    in_flight: u32,
    /// Last use, counted over all peers.
    used: u64,
    /// The addresses are in the vectors.
    placed: bool,
    /// Peer of each rail of this side, if placed.
    routes: [Option<Peer>; MAX_RAILS],
    link: Link,
    /// Generation of a peer, and the state of its link to report.
    change: Option<(u32, Result<(), Error>)>,
}

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
    slots: Array<PeerSlot, A>,
    /// Addresses of each peer: for the rails of this side, then that of its control endpoint.
    addresses: Array<Option<EndpointAddr>, A>,
    rails: usize,
    uses: u64,
    changes: Queue<A>,
    /// Links may have debts, or rails without a connection.
    pub(crate) busy: bool,
}

impl<A: Allocator + Clone> Peers<A> {
    pub(crate) fn new(len: usize, rails: usize, number: u32, alloc: &A) -> Result<Self, OpenError> {
        u32::try_from(len).map_err(|_| OpenError::Size)?;
        let slot = |_| PeerSlot {
            generation: number,
            state: State::Vacant,
            rails: 0,
            in_flight: 0,
            used: 0,
            placed: false,
            routes: [None; MAX_RAILS],
            link: Link::new(LinkState::Absent),
            change: None,
        };
        let slots = Array::new_in(len, alloc.clone(), slot)?;
        let addresses = len.checked_mul(rails + 1).ok_or(OpenError::Size)?;
        let addresses = Array::new_in(addresses, alloc.clone(), |_| None)?;
        Ok(Peers { slots, addresses, rails, uses: 0, changes: Queue::new(len, alloc.clone())?, busy: false })
    }
}

impl<A: Allocator> Peers<A> {
    fn slot(&self, key: PeerKey) -> Option<&PeerSlot> {
        let slot = self.slots.get(key.index as usize)?;
        (slot.generation == key.generation && slot.state == State::Present).then_some(slot)
    }

    pub(crate) fn rails(&self, key: PeerKey) -> Option<usize> {
        self.slot(key).map(|slot| slot.rails)
    }

    #[inline]
    pub(crate) fn routes(&mut self, key: PeerKey) -> Option<(&[Option<Peer>; MAX_RAILS], &mut u32, &mut Link)> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        (slot.state == State::Present).then_some((&slot.routes, &mut slot.in_flight, &mut slot.link))
    }

    pub(crate) fn link(&self, key: PeerKey) -> Option<&Link> {
        self.slot(key).map(|slot| &slot.link)
    }

    pub(crate) fn talks_by(&self, route: Peer) -> bool {
        self.slots.iter().any(|slot| slot.link.route == Some(route))
    }

    pub(crate) fn link_mut(&mut self, key: PeerKey) -> Option<&mut Link> {
        self.routes(key).map(|(_, _, link)| link)
    }

    pub(crate) fn at(&self, index: u32) -> Option<PeerKey> {
        let slot = self.slots.get(index as usize).filter(|slot| slot.state == State::Present)?;
        Some(PeerKey { index, generation: slot.generation })
    }

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

    /// Informs the peer once that the engine waits for room.
    pub(crate) fn wait_for_room(&mut self, key: PeerKey) {
        if let Some(link) = self.link_mut(key).filter(|link| !link.waits) {
            link.waits = true;
            self.owe(key, Debt::Wait);
        }
    }

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

    pub(crate) fn is_own<T: Transport>(&self, key: PeerKey, vectors: &Vectors<'_, '_, T>) -> bool {
        let own = vectors.rails.first().and_then(|rail| rail.endpoint.address().ok());
        own.is_some() && self.addresses(key.index as usize).first() == Some(&own)
    }

    pub(crate) fn posted(&mut self, key: PeerKey, count: u32) {
        if let Some(slot) = self.slots.get_mut(key.index as usize) {
            slot.in_flight += count;
        }
    }

    /// Counts completions. The addresses of a removed peer leave with its last operation.
    pub(crate) fn completed<T: Transport>(&mut self, key: PeerKey, count: u32, vectors: &Vectors<'_, '_, T>) {
        if let Some(slot) = self.slots.get_mut(key.index as usize) {
            slot.in_flight -= count;
            if slot.in_flight == 0 && slot.state == State::Leaving {
                self.leave(key.index as usize, vectors);
            }
        }
    }

    pub(crate) fn insert<T: Transport>(
        &mut self,
        record: &[u8],
        vectors: &Vectors<'_, '_, T>,
    ) -> Result<(PeerKey, bool), Error> {
        let record = Record::decode(record)?;
        let mut addresses = [const { None }; MAX_RAILS + 1];
        for (number, address) in addresses.iter_mut().enumerate().take(self.rails) {
            *address = Some(record.rail(number)?);
        }
        if record.has_control && vectors.control.is_some() {
            addresses[self.rails] = Some(record.control()?);
        }
        self.insert_at(&addresses[..=self.rails], record.rails, vectors)
    }

    pub(crate) fn insert_greeting<T: Transport>(
        &mut self,
        control: &EndpointAddr,
        rails: usize,
        vectors: &Vectors<'_, '_, T>,
    ) -> Result<(PeerKey, bool), Error> {
        let mut addresses = [const { None }; MAX_RAILS + 1];
        addresses[self.rails] = Some(control.clone());
        self.insert_at(&addresses[..=self.rails], rails, vectors)
    }

    fn insert_at<T: Transport>(
        &mut self,
        addresses: &[Option<EndpointAddr>],
        rails: usize,
        vectors: &Vectors<'_, '_, T>,
    ) -> Result<(PeerKey, bool), Error> {
        let mut vacant = None;
        let mut found = None;
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if slot.state == State::Vacant {
                vacant = vacant.or(Some(index));
                continue;
            }
            let pairs = || self.addresses(index).iter().zip(addresses);
            if pairs().any(|(known, address)| known.is_some() && known == address) {
                let same = slot.rails == rails
                    && self.addresses(index)[self.rails] == addresses[self.rails]
                    && pairs().all(|(known, address)| known.is_none() || address.is_none() || known == address);
                if !same || found.is_some() {
                    return Err(Error::Invalid("an address belongs to another peer: remove that peer first"));
                }
                found = Some(index);
            }
        }
        let index = found.or(vacant).ok_or(Error::Full("EngineAttr::peers"))?;
        let has_link = addresses[self.rails].is_some();
        let slot = &mut self.slots[index];
        let is_new = slot.state != State::Present;
        if is_new {
            slot.generation = slot.generation.wrapping_add(1);
            let route = slot.link.route;
            slot.link = Link::new(LinkState::of(has_link));
            slot.link.route = route;
        }
        // A peer that is leaving returns. Its former transfers stay stopped.
        (slot.state, slot.rails, slot.placed) = (State::Present, rails, false);
        let place = index * (self.rails + 1)..(index + 1) * (self.rails + 1);
        for (known, address) in self.addresses[place].iter_mut().zip(addresses) {
            if known.is_none() {
                known.clone_from(address);
            }
        }
        let key = self.key(index);
        match self.place(key, vectors) {
            Ok(()) => {}
            // Placed with the next use, when others have completed operations.
            Err(Error::Address(AddressError::Full))
                if self.slots.iter().any(|slot| slot.placed && slot.in_flight > 0) => {}
            Err(error) => {
                if found.is_none() {
                    self.leave(index, vectors);
                }
                return Err(error);
            }
        }
        Ok((key, is_new))
    }

    pub(crate) fn describe(&mut self, key: PeerKey, rail: usize, address: &EndpointAddr) -> Result<(), Error> {
        let count = self.rails(key).ok_or(PostError::UnknownPeer)?;
        for number in (0..self.rails).filter(|number| number % count == rail) {
            for index in 0..self.slots.len() {
                let known = self.addresses(index).get(number).and_then(Option::as_ref);
                let is_peer = index == key.index as usize;
                if known.is_some_and(|known| is_peer != (known == address)) {
                    return Err(Error::Invalid(
                        "the peer's engine has an address of another peer, or two for one rail: remove both peers",
                    ));
                }
            }
            let at = key.index as usize * (self.rails + 1) + number;
            self.addresses[at] = Some(address.clone());
        }
        self.slots[key.index as usize].placed = false;
        Ok(())
    }

    fn addresses(&self, index: usize) -> &[Option<EndpointAddr>] {
        self.addresses.get(index * (self.rails + 1)..).and_then(|rest| rest.get(..=self.rails)).unwrap_or_default()
    }

    /// Inserts the addresses of a peer into the vectors, for which the least recently used peer may
    /// leave them.
    ///
    /// # Errors
    /// [`PostError::UnknownPeer`], or [`AddressError::Full`] while all others have operations in
    /// flight.
    #[inline]
    pub(crate) fn place<T: Transport>(&mut self, key: PeerKey, vectors: &Vectors<'_, '_, T>) -> Result<(), Error> {
        self.uses += 1;
        let uses = self.uses;
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation);
        let slot = slot.filter(|slot| slot.state == State::Present).ok_or(PostError::UnknownPeer)?;
        slot.used = uses;
        if slot.placed { Ok(()) } else { self.place_again(key.index as usize, vectors) }
    }

    #[cold]
    fn place_again<T: Transport>(&mut self, index: usize, vectors: &Vectors<'_, '_, T>) -> Result<(), Error> {
        for number in 0..=self.rails {
            let slot = &self.slots[index];
            let is_control = number == self.rails;
            let route = if is_control { slot.link.route } else { slot.routes[number] };
            let av = if is_control { vectors.control } else { vectors.rails.get(number).map(|rail| &rail.av) };
            let address = self.addresses(index).get(number).cloned().flatten();
            let (Some(av), Some(address), None) = (av, address, route) else { continue };
            let route = loop {
                match av.insert(&address) {
                    Err(AddressError::Full) if self.evict(index, vectors) => {}
                    inserted => break inserted?,
                }
            };
            let slot = &mut self.slots[index];
            *(if is_control { &mut slot.link.route } else { &mut slot.routes[number] }) = Some(route);
        }
        self.slots[index].placed = true;
        Ok(())
    }

    fn evict<T: Transport>(&mut self, except: usize, vectors: &Vectors<'_, '_, T>) -> bool {
        let idle = |(index, slot): &(usize, &mut PeerSlot)| {
            *index != except && slot.state == State::Present && slot.placed && slot.in_flight == 0
        };
        let oldest = self.slots.iter_mut().enumerate().filter(idle).min_by_key(|(_, slot)| slot.used);
        if let Some((_, slot)) = oldest {
            slot.displace(vectors);
            return true;
        }
        false
    }

    fn key(&self, index: usize) -> PeerKey {
        #[expect(clippy::cast_possible_truncation, reason = "the number of slots is a `u32`")]
        PeerKey { index: index as u32, generation: self.slots[index].generation }
    }

    /// At once, or with the last operation in flight.
    pub(crate) fn remove<T: Transport>(&mut self, key: PeerKey, vectors: &Vectors<'_, '_, T>) -> bool {
        if self.slot(key).is_none() {
            return false;
        }
        let slot = &mut self.slots[key.index as usize];
        slot.state = State::Leaving;
        if slot.in_flight == 0 {
            self.leave(key.index as usize, vectors);
        }
        true
    }

    fn leave<T: Transport>(&mut self, index: usize, vectors: &Vectors<'_, '_, T>) {
        let slot = &mut self.slots[index];
        slot.displace(vectors);
        (slot.link, slot.state) = (Link::new(LinkState::Absent), State::Vacant);
        let place = index * (self.rails + 1)..(index + 1) * (self.rails + 1);
        self.addresses[place].fill(None);
    }
}

impl PeerSlot {
    fn displace<T: Transport>(&mut self, vectors: &Vectors<'_, '_, T>) {
        vectors.remove(&self.routes, self.link.route.take());
        self.routes = [None; MAX_RAILS];
        self.placed = false;
    }
}

pub(crate) struct Record<'b> {
    rails: usize,
    has_control: bool,
    addresses: &'b [u8],
}

impl<'b> Record<'b> {
    pub(crate) fn decode(record: &'b [u8]) -> Result<Self, Error> {
        const INVALID: Error =
            Error::Invalid("not a record of addresses of this version of loom: run one version on both sides");
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

    fn rail(&self, number: usize) -> Result<EndpointAddr, Error> {
        self.address(number % self.rails)
    }

    pub(crate) fn control(&self) -> Result<EndpointAddr, Error> {
        if self.has_control {
            self.address(self.rails)
        } else {
            Err(Error::Invalid("the peer has no control messages: set its `EngineAttr::message`"))
        }
    }

    /// Writes name and version, the numbers of rails and of control endpoints as a byte each, and
    /// the addresses ([`EndpointAddr::encode`]).
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
