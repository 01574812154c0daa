use core::borrow::Borrow;
use core::cell::{Cell, RefCell};
use core::fmt;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::Buffer;
use loom_core::cq::CqAttr;
use loom_core::deadline::Deadline;
use loom_core::endpoint::{Connecting, MsgEndpoint};
use loom_core::eq::{ConnectionRequest, EndpointId, EqAttr, EqEvent, EventQueue, PassiveEndpoint};
use loom_core::error::OpenError;
use loom_core::storage::Array;
use loom_core::transport::Connected;
use loom_core::vocabulary::{EndpointAddr, Errno};
use loom_core::{Cq, Domain};

use crate::group::Queue;
use crate::routes::{Connection, Links};
use crate::{ConnectError, Group, PeerError, PeerIndex};

const GREETING: [u8; 8] = *b"loomgrp\x01";

const SPARE: usize = 4;

const MOST_EVENTS: u32 = 256;

/// Connects the members of a [`Group`] pairwise, over providers with only connected endpoints
/// (`FI_EP_MSG`).
///
/// # Connection setup
/// The lower rank of a pair connects. Requests are not authenticated. Failed attempts are repeated
/// until the deadline.
///
/// Posts to this side's own number are refused. Keep connections open until all members have
/// joined.
///
/// # Restrictions
/// [`Group::recv`] works without directed receives, and [`Group::recv_any`] is refused. Without
/// tagged messages, which only `sockets` has there, connections allow [one
/// team](crate::collective#tags).
pub struct Connections<'m, T: Connected, B: Buffer, A: Allocator> {
    places: Array<Place<'m, T, B>, A>,
    rank: Cell<PeerIndex>,
    serial: Cell<u64>,
    listener: PassiveEndpoint<'m, T>,
    eq: EventQueue<'m, T>,
    cq: Cq<'m, T, B>,
    domain: Domain<'m, T>,
    alloc: A,
}

#[cfg(feature = "std")]
impl<'m, T: Connected, B: Buffer + 'm> Connections<'m, T, B, allocator_api2::alloc::Global> {
    /// [`open_in`](Self::open_in) with the global allocator.
    pub fn open(domain: &Domain<'m, T>, capacity: u16, queue: impl Into<CqAttr>) -> Result<Self, OpenError> {
        Self::open_in(domain, capacity, queue, allocator_api2::alloc::Global)
    }
}

impl<'m, T: Connected, B: Buffer + 'm, A: Allocator + Clone + Send + 'm> Connections<'m, T, B, A> {
    /// Opens an event queue, a listener, a completion queue, and a table of `capacity` members, all
    /// in memory of `alloc`.
    ///
    /// # Errors
    /// See [`EventQueue::open_in`], [`EventQueue::listen`] and [`Cq::open_in`].
    pub fn open_in(
        domain: &Domain<'m, T>,
        capacity: u16,
        queue: impl Into<CqAttr>,
        alloc: A,
    ) -> Result<Self, OpenError> {
        let places = usize::from(capacity);
        let endpoints = u16::try_from(places + SPARE).map_err(|_| OpenError::Size)?;
        let eq = EventQueue::open_in(domain, EqAttr::default(), alloc.clone())?;
        let listener = eq.listen(domain.info())?;
        let cq = Cq::open_in(domain, CqAttr { endpoints, ..queue.into() }, alloc.clone())?;
        let place = |_| Place {
            pending: RefCell::default(),
            address: RefCell::default(),
            error: Cell::new(PeerError::Missing),
            ended: Cell::new(false),
        };
        let places = Array::new_in(places, alloc.clone(), place)?;
        let (rank, serial, domain) = (Cell::new(PeerIndex(0)), Cell::new(0), domain.clone());
        Ok(Connections { places, rank, serial, listener, eq, cq, domain, alloc })
    }
}

impl<'m, T: Connected, B: Buffer, A: Allocator> Connections<'m, T, B, A> {
    /// Address for the peers.
    ///
    /// # Errors
    /// See [`PassiveEndpoint::address`].
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        self.listener.address()
    }

    /// Domain.
    #[must_use]
    pub const fn domain(&self) -> &Domain<'m, T> {
        &self.domain
    }

    /// Connects to every peer before the deadline. `addresses` is in rank order and includes this
    /// side. The queue is polled meanwhile. No other group of this value may be open.
    ///
    /// ```
    /// use core::time::Duration;
    /// use std::time::Instant;
    ///
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_core::transport::Connected;
    /// use loom_core::{Domain, EndpointAddr, Error};
    /// use loom_group::{Connections, Group, PeerIndex};
    ///
    /// type Bytes = Vec<u8>;
    ///
    /// /// Connects the member `rank` with all others. `exchange` gives the addresses of all, in the order of their ranks, for that of this side.
    /// fn connect<T: Connected>(
    ///     connections: &Connections<'static, T, Bytes, Global>,
    ///     rank: u32,
    ///     exchange: impl FnOnce(EndpointAddr) -> Vec<EndpointAddr>,
    /// ) -> Result<Group<'static, T, Bytes, Global>, Error> {
    ///     let addresses = exchange(connections.address()?);
    ///     let until = Instant::now() + Duration::from_secs(10);
    ///     Ok(connections.join(PeerIndex(rank), addresses, until)?)
    /// }
    /// ```
    ///
    /// # Errors
    /// The lowest unconnected rank, and the reason. All connections close, and `join` can be
    /// repeated.
    pub fn join(
        &self,
        rank: PeerIndex,
        addresses: impl IntoIterator<Item: Borrow<EndpointAddr>>,
        mut until: impl Deadline,
    ) -> Result<Group<'m, T, B, A>, ConnectError>
    where
        A: Clone,
    {
        let failed = |peer, error| ConnectError { peer, error };
        let links = Array::new_in(self.places.len(), self.alloc.clone(), |_| RefCell::new(None));
        let queues = Array::new_in(self.places.len(), self.alloc.clone(), |_| <[Queue; 2]>::default());
        let links = links.map_err(|error| failed(rank, PeerError::Open(error)))?;
        let queues = queues.map_err(|error| failed(rank, PeerError::Open(error)))?;
        let group = Group::new(self.domain.clone(), self.cq.clone(), Links::Each(links), queues);
        self.forget_all();
        self.rank.set(rank);
        let joined = self.connect_all(&group, rank, addresses, &mut until);
        joined.map(|()| group).map_err(|(peer, error)| {
            self.forget_all();
            failed(peer, error)
        })
    }

    /// Puts a peer into a place, and closes a former connection. The new peer must also call this
    /// function or [`join`](Self::join).
    ///
    /// It rejects other peers meanwhile, so members must set several peers in the same order, or
    /// they wait until their deadlines.
    ///
    /// # Errors
    /// - [`PeerError::HasConnections`] if the group belongs to another value.
    /// - [`PeerError::NoSuchPlace`].
    /// - [`PeerError::Missing`], [`PeerError::Open`], [`PeerError::Connect`],
    ///   [`PeerError::Failed`], [`PeerError::Stranger`], [`PeerError::Events`],
    ///   [`PeerError::Queue`]: the peer is not connected, and the place is free.
    pub fn set(
        &self,
        group: &Group<'m, T, B, A>,
        peer: PeerIndex,
        address: &EndpointAddr,
        mut until: impl Deadline,
    ) -> Result<(), PeerError> {
        self.is_of(group)?;
        let place = self.places.get(peer.place()).filter(|_| peer != self.rank.get()).ok_or(PeerError::NoSuchPlace)?;
        group.remove(peer);
        // Drain the former connection's events: the next endpoint may have its address.
        for _ in 0..MOST_EVENTS {
            let Some(event) = self.eq.poll().map_err(PeerError::Events)? else { break };
            if let Some(ended) = self.event(group, event) {
                self.has_ended(group, ended, false);
            }
        }
        self.want(peer, place, address);
        let connected = self.connect(group, || core::iter::once(peer), &mut until);
        connected.map_err(|(_, error)| {
            drop(place.pending.take());
            error
        })
    }

    /// Reads events, and returns a peer if its connection has ended. Posts to it fail or are
    /// refused until it is [removed](Group::remove) or [set](Self::set).
    ///
    /// # Errors
    /// [`PeerError::Events`], or [`PeerError::HasConnections`] if the group belongs to
    /// another value.
    pub fn ended(&self, group: &Group<'m, T, B, A>) -> Result<Option<PeerIndex>, PeerError> {
        self.is_of(group)?;
        if let Some((peer, _)) = (0..).map(PeerIndex).zip(self.places.iter()).find(|(_, place)| place.ended.take()) {
            return Ok(Some(peer));
        }
        for _ in 0..MOST_EVENTS {
            let Some(event) = self.eq.poll().map_err(PeerError::Events)? else { break };
            if let Some(ended) = self.event(group, event) {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    fn connect_all(
        &self,
        group: &Group<'m, T, B, A>,
        rank: PeerIndex,
        addresses: impl IntoIterator<Item: Borrow<EndpointAddr>>,
        until: &mut impl Deadline,
    ) -> Result<(), (PeerIndex, PeerError)> {
        let mut members = 0;
        for address in addresses {
            let peer = PeerIndex(members);
            let place = self.places.get(peer.place()).ok_or((peer, PeerError::NoSuchPlace))?;
            if peer != rank {
                self.want(peer, place, address.borrow());
            }
            members += 1;
        }
        if rank.0 >= members {
            return Err((rank, PeerError::NoSuchPlace));
        }
        self.connect(group, || (0..members).map(PeerIndex).filter(|peer| *peer != rank), until)
    }

    fn forget_all(&self) {
        for place in self.places.iter() {
            drop(place.pending.take());
            place.ended.set(false);
        }
    }

    fn is_of(&self, group: &Group<'m, T, B, A>) -> Result<(), PeerError> {
        if *group.cq() == self.cq { Ok(()) } else { Err(PeerError::HasConnections) }
    }

    fn want(&self, peer: PeerIndex, place: &Place<'m, T, B>, address: &EndpointAddr) {
        place.address.replace(Some(address.clone()));
        place.error.set(PeerError::Missing);
        place.ended.set(false);
        drop(place.pending.replace(Pending::Awaits));
        if self.rank.get() < peer {
            self.connect_place(place);
        }
    }

    fn connect_place(&self, place: &Place<'m, T, B>) {
        let Some(address) = place.address.borrow().clone() else { return };
        let idle = self.cq.msg_endpoint(&self.eq, self.domain.info()).map_err(PeerError::Open);
        let connecting = idle.and_then(|idle| {
            let connected = idle.connect(&address, &greeting(self.rank.get()));
            connected.map_err(|refused| PeerError::Connect(refused.error))
        });
        match connecting {
            Ok(connecting) => drop(place.pending.replace(Pending::Connects(connecting))),
            Err(error) => place.error.set(error),
        }
    }

    fn connect<I: Iterator<Item = PeerIndex>>(
        &self,
        group: &Group<'m, T, B, A>,
        wanted: impl Fn() -> I,
        until: &mut impl Deadline,
    ) -> Result<(), (PeerIndex, PeerError)> {
        let mut events = 0_u32;
        while let Some(peer) = wanted().find(|peer| group.links.to(*peer).is_none()) {
            let event = self.eq.poll().map_err(|error| (peer, PeerError::Events(error)))?;
            if let Some(event) = event {
                if let Some(ended) = self.event(group, event) {
                    self.has_ended(group, ended, wanted().any(|peer| peer == ended));
                }
                events = events.wrapping_add(1);
                // Strangers may send requests without end.
                if !events.is_multiple_of(MOST_EVENTS) {
                    continue;
                }
            }
            self.cq.progress().map_err(|error| (peer, PeerError::Queue(error)))?;
            if until.passed() && group.links.to(peer).is_none() {
                let error = self.places.get(peer.place()).map_or(PeerError::NoSuchPlace, |place| place.error.get());
                return Err((peer, error));
            }
            for place in wanted().filter(|peer| self.rank.get() < *peer).filter_map(|it| self.places.get(it.place())) {
                if matches!(*place.pending.borrow(), Pending::Awaits) {
                    self.connect_place(place);
                }
            }
        }
        Ok(())
    }

    fn has_ended(&self, group: &Group<'m, T, B, A>, peer: PeerIndex, wanted: bool) {
        let Some(place) = self.places.get(peer.place()) else { return };
        if wanted {
            group.remove(peer);
            drop(place.pending.replace(Pending::Awaits));
        } else {
            place.ended.set(true);
        }
    }

    fn event(&self, group: &Group<'m, T, B, A>, event: EqEvent<'m, T>) -> Option<PeerIndex> {
        match event {
            EqEvent::Request(request) => self.request(request),
            EqEvent::Connected(event) => {
                let (peer, place) = self.connecting(|id| event.is_of(id))?;
                let Pending::Connects(connecting) = place.pending.take() else { return None };
                if self.rank.get() < peer && greeted(connecting.answer(&event)) != Some(peer) {
                    place.error.set(PeerError::Stranger);
                    drop(place.pending.replace(Pending::Awaits));
                    return None;
                }
                match connecting.established(&event) {
                    Err(connecting) => drop(place.pending.replace(Pending::Connects(connecting))),
                    Ok(endpoint) => {
                        self.serial.set(self.serial.get() + 1);
                        let connection = Connection { endpoint, serial: self.serial.get() };
                        if let Links::Each(links) = &group.links
                            && let Some(link) = links.get(peer.place())
                        {
                            drop(link.replace(Some(connection)));
                        }
                    }
                }
                None
            }
            EqEvent::Shutdown(event) => self.ends(group, |id| event.is_of(id), Errno::ENOTCONN),
            EqEvent::Failed(failure) => self.ends(group, |id| failure.is_of(id), failure.fault.errno),
            _ => None,
        }
    }

    /// Dropping the request rejects other peers.
    fn request(&self, request: ConnectionRequest<'m, T>) -> Option<PeerIndex> {
        let peer = greeted(&request.data).filter(|peer| *peer < self.rank.get())?;
        let place = self.places.get(peer.place())?;
        if !matches!(*place.pending.borrow(), Pending::Awaits) {
            return None;
        }
        let requested = request.endpoint(&self.cq, &self.eq).map_err(PeerError::Open);
        let accepted = requested.and_then(|requested| {
            let accepted = requested.accept(&greeting(self.rank.get()));
            accepted.map_err(|refused| PeerError::Connect(refused.error))
        });
        match accepted {
            Ok(connecting) => drop(place.pending.replace(Pending::Connects(connecting))),
            Err(error) => place.error.set(error),
        }
        None
    }

    fn connecting(&self, is_it: impl Fn(EndpointId) -> bool) -> Option<(PeerIndex, &Place<'m, T, B>)> {
        let is = |place: &Place<'m, T, B>| match &*RefCell::borrow(&place.pending) {
            Pending::Connects(connecting) => is_it(connecting.id()),
            Pending::Nothing | Pending::Awaits => false,
        };
        (0..).map(PeerIndex).zip(self.places.iter()).find(|(_, place)| is(place))
    }

    fn ends(&self, group: &Group<'m, T, B, A>, is_it: impl Fn(EndpointId) -> bool, errno: Errno) -> Option<PeerIndex> {
        let Some((_, place)) = self.connecting(&is_it) else { return member(group, is_it) };
        place.error.set(PeerError::Failed(errno));
        drop(place.pending.replace(Pending::Awaits));
        None
    }
}

impl<T: Connected, B: Buffer, A: Allocator> fmt::Debug for Connections<'_, T, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("capacity", &self.places.len())
            .field("rank", &self.rank.get())
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
enum Pending<'m, T: Connected, B: Buffer> {
    #[default]
    Nothing,
    /// The peer must connect, or this side must retry.
    Awaits,
    Connects(MsgEndpoint<'m, T, B, Connecting>),
}

/// Do not open or drop endpoints while a cell is borrowed: that runs user code.
struct Place<'m, T: Connected, B: Buffer> {
    pending: RefCell<Pending<'m, T, B>>,
    address: RefCell<Option<EndpointAddr>>,
    error: Cell<PeerError>,
    /// Not yet reported.
    ended: Cell<bool>,
}

fn member<T: Connected, B: Buffer, A: Allocator>(
    group: &Group<'_, T, B, A>,
    is_it: impl Fn(EndpointId) -> bool,
) -> Option<PeerIndex> {
    let Links::Each(links) = &group.links else { return None };
    let is = |link: &RefCell<Option<Connection<'_, T, B>>>| {
        RefCell::borrow(link).as_ref().is_some_and(|connection| is_it(connection.endpoint.id()))
    };
    (0..).map(PeerIndex).zip(links.iter()).find(|(_, link)| is(link)).map(|(peer, _)| peer)
}

fn greeting(rank: PeerIndex) -> [u8; 12] {
    let mut bytes = [0; 12];
    let (form, number) = bytes.split_at_mut(GREETING.len());
    form.copy_from_slice(&GREETING);
    number.copy_from_slice(&rank.0.to_le_bytes());
    bytes
}

/// Providers may append bytes.
fn greeted(bytes: &[u8]) -> Option<PeerIndex> {
    let number = bytes.strip_prefix(&GREETING)?.first_chunk()?;
    Some(PeerIndex(u32::from_le_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greeting_names_the_rank_and_its_version() {
        let mut bytes = std::vec::Vec::from(greeting(PeerIndex(0x0102_0304)));
        assert_eq!(bytes, b"loomgrp\x01\x04\x03\x02\x01");
        bytes.push(9);
        assert_eq!(greeted(&bytes), Some(PeerIndex(0x0102_0304)));
        assert_eq!(greeted(&bytes[..11]), None);
        bytes[7] = 2;
        assert_eq!(greeted(&bytes), None);
    }
}
