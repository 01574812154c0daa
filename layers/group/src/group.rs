//! [`Group`]: peers by their numbers; and [`Prepared`], a group over one endpoint before it knows its peers.

use core::borrow::Borrow;
use core::cell::{Cell, RefCell};
use core::fmt;

use allocator_api2::alloc::Allocator;
use loom_core::av::InsertError;
use loom_core::buffer::Buffer;
use loom_core::cq::{CqAttr, CqError};
use loom_core::eq::{CmError, EqError};
use loom_core::error::OpenError;
use loom_core::storage::Array;
use loom_core::vocabulary::{EndpointAddr, Errno};
use loom_core::{Av, Cq, Domain, Endpoint, MsgEndpoint, Peer, Transport};

use crate::PeerIndex;
use crate::links::{Links, Shared, To};

/// What waits for room at an address, which may be that of several members, in one direction: in one order. What is sent does not wait for
/// receives, which may wait for it.
#[derive(Default)]
pub(crate) struct Queue {
    /// How many requests wait.
    pub(crate) waiting: Cell<u32>,
    /// The round of posting in which there was no room.
    pub(crate) refused_in: Cell<u64>,
}

/// How large a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAttr {
    /// The most members that it has at a time.
    pub capacity: usize,
    /// Number of new addresses that can take the place of others while the group is open, if the provider keeps removed addresses as long
    /// as an endpoint is open ([`AvAttr::capacity`](loom_core::AvAttr::capacity)): one at least. Otherwise members are replaced without limit.
    pub replacements: usize,
}

impl GroupAttr {
    /// A group of `capacity` members.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        GroupAttr { capacity, replacements: 0 }
    }

    /// The same, with room for that many new addresses.
    #[must_use]
    pub const fn with_replacements(self, replacements: usize) -> Self {
        GroupAttr { replacements, ..self }
    }
}

impl From<usize> for GroupAttr {
    fn from(capacity: usize) -> Self {
        GroupAttr::new(capacity)
    }
}

/// A group before it knows its peers: its endpoint is open, and has an address that they need.
///
/// ```
/// # #[cfg(feature = "std")] {
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// use loom_core::{Domain, Forever};
/// use loom_group::{PeerIndex, Prepared};
///
/// // Two members on one thread. In a cluster each has its own process, and a bootstrap brings the addresses.
/// let domain = Domain::open(&network.info())?;
/// let first = Prepared::open(&domain, 2, 16)?;
/// let second = Prepared::open(&domain, 2, 16)?;
/// let addresses = [first.address()?, second.address()?];
/// let (first, second) = (first.connect(&addresses)?, second.connect(&addresses)?);
///
/// let received = second.recv_any(vec![0; 5])?;
/// let mut message = b"hello".to_vec();
/// let sent = loop {
///     match first.send(PeerIndex(1), message) {
///         Err(refused) if refused.error.is_transient() => message = refused.buf,
///         posted => break posted?,
///     }
///     // On one thread both sides are driven until there is room.
///     first.cq().progress()?;
///     second.cq().progress()?;
/// };
/// assert_eq!(second.cq().finish(received, Forever)?.into_buf(), b"hello");
/// first.cq().finish(sent, Forever)?.result()?;
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Prepared<'m, T: Transport, B: Buffer, A: Allocator> {
    domain: Domain<'m, T>,
    cq: Cq<'m, T, B>,
    shared: Shared<'m, T, B, A>,
    /// By the place in the vector.
    queues: Array<[Queue; 2], A>,
}

/// Peers by their numbers: over one connectionless endpoint ([`Prepared`]), or over a connection for each peer
/// ([`Connections`](crate::Connections)).
///
/// Posts by a peer's number are those of [`Endpoint`], into the queue of the group ([`cq`](Self::cq)): their keys are for the program that polls it, or
/// for a [driver](loom_core::driver)'s futures. Operations on many peers are those of a [`Scope`](crate::Scope).
///
/// All peers share the domain: a region that is registered once serves with all.
pub struct Group<'m, T: Transport, B: Buffer, A: Allocator> {
    domain: Domain<'m, T>,
    cq: Cq<'m, T, B>,
    pub(crate) links: Links<'m, T, B, A>,
    /// By the place in the vector, or by the number of the member.
    queues: Array<[Queue; 2], A>,
    /// How many requests wait for room: those of all queues.
    pub(crate) waiting: Cell<usize>,
    /// The rounds of posting that there were.
    round: Cell<u64>,
    /// The numbers of teams that are taken: a bit each.
    teams: [Cell<u64>; 4],
}

/// Why a peer did not become one.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::Domain;
/// use loom_group::{PeerError, PeerIndex, Prepared};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let prepared = Prepared::open(&domain, 2, 16)?;
/// # let itself = prepared.address()?;
/// # let prepared: Prepared<'_, _, Vec<u8>, _> = prepared;
/// // Both members are this side.
/// let group = prepared.connect([&itself; 2])?;
/// // The group was opened for two members.
/// assert_eq!(group.set(PeerIndex(2), &itself), Err(PeerError::NoSuchPlace));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerError {
    /// The group has no such place: it was opened for fewer.
    NoSuchPlace,
    /// The address vector did not take the address.
    Insert(InsertError),
    /// Members of the group have connections, which [`Connections::set`](crate::Connections::set) makes; or they have none, and
    /// [`Group::set`] sets them.
    HasConnections,
    /// It has not connected, or answered, before the deadline.
    Missing,
    /// The endpoint of the connection was not opened.
    Open(OpenError),
    /// Connecting or accepting was refused on this side.
    Connect(CmError),
    /// The connection was rejected, or has ended, and there was no other before the deadline: the provider's reason.
    Failed(Errno),
    /// Another program has answered at its address.
    Stranger,
    /// The event queue has failed.
    Events(EqError),
    /// The completion queue has failed.
    Queue(CqError),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerError::NoSuchPlace => f.write_str("the group was opened for fewer peers"),
            PeerError::Insert(error) => error.fmt(f),
            PeerError::HasConnections => f.write_str("the members of this group are set in another way"),
            PeerError::Missing => f.write_str("the deadline has passed before it was connected"),
            PeerError::Open(error) => error.fmt(f),
            PeerError::Connect(error) => error.fmt(f),
            PeerError::Failed(errno) => write!(f, "the connection failed: {errno}"),
            PeerError::Stranger => f.write_str("another program has answered at its address"),
            PeerError::Events(error) => error.fmt(f),
            PeerError::Queue(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PeerError {}

/// A group that was not connected: which peer failed, and the group as it was prepared, with those that were inserted before.
pub struct ConnectError<P> {
    /// The peer.
    pub peer: PeerIndex,
    /// What failed.
    pub error: PeerError,
    /// To try again.
    pub prepared: P,
}

impl<P> fmt::Debug for ConnectError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectError").field("peer", &self.peer).field("error", &self.error).finish_non_exhaustive()
    }
}

impl<P> fmt::Display for ConnectError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.peer, self.error)
    }
}

impl<P> core::error::Error for ConnectError<P> {}

impl<P> From<ConnectError<P>> for loom_core::Error {
    fn from(error: ConnectError<P>) -> Self {
        error.error.into()
    }
}

impl From<PeerError> for loom_core::Error {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::NoSuchPlace => InsertError::Full.into(),
            PeerError::Insert(error) => error.into(),
            PeerError::HasConnections => Self::Invalid("the members of a group are set in another way"),
            PeerError::Missing => Errno::ETIMEDOUT.into(),
            PeerError::Open(error) => error.into(),
            PeerError::Connect(error) => error.into(),
            PeerError::Failed(errno) => errno.into(),
            PeerError::Stranger => Self::Invalid("another program has answered at a peer's address"),
            PeerError::Events(error) => error.into(),
            PeerError::Queue(error) => error.into(),
        }
    }
}

#[cfg(feature = "std")]
impl<'m, T: Transport, B: Buffer + 'm> Prepared<'m, T, B, allocator_api2::alloc::Global> {
    /// [`open_in`](Self::open_in), with memory of the global allocator.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in).
    pub fn open(
        domain: &Domain<'m, T>,
        attr: impl Into<GroupAttr>,
        queue: impl Into<CqAttr>,
    ) -> Result<Self, OpenError> {
        Self::open_in(domain, attr, queue, allocator_api2::alloc::Global)
    }
}

impl<'m, T: Transport, B: Buffer + 'm, A: Allocator + Clone + Send + 'm> Prepared<'m, T, B, A> {
    /// Opens what a group needs: an address vector, a queue, a connectionless endpoint, and a table of the
    /// members. All memory comes from `alloc`, now.
    ///
    /// # Errors
    /// As [`Av::open_in`], [`Cq::open_in`] and [`Cq::endpoint`].
    pub fn open_in(
        domain: &Domain<'m, T>,
        attr: impl Into<GroupAttr>,
        queue: impl Into<CqAttr>,
        alloc: A,
    ) -> Result<Self, OpenError> {
        let GroupAttr { capacity, replacements } = attr.into();
        // A member's address is removed when its successor's was inserted.
        let addresses = capacity.checked_add(replacements.max(1)).ok_or(OpenError::Size)?;
        let av = Av::open_in(domain, addresses, alloc.clone())?;
        let cq = Cq::open_in(domain, queue, alloc.clone())?;
        let endpoint = cq.endpoint(&av)?;
        let members = Array::new_in(capacity, alloc.clone(), |_| Cell::new(None))?;
        let queues = Array::new_in(av.places(), alloc, |_| <[Queue; 2]>::default())?;
        Ok(Prepared { domain: domain.clone(), cq, shared: Shared { av, endpoint, members }, queues })
    }
}

impl<'m, T: Transport, B: Buffer, A: Allocator> Prepared<'m, T, B, A> {
    /// The address that the peers need.
    ///
    /// # Errors
    /// As [`Endpoint::address`].
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        self.shared.endpoint.address()
    }

    /// The domain of the group: regions of it serve with all peers.
    #[must_use]
    pub const fn domain(&self) -> &Domain<'m, T> {
        &self.domain
    }

    /// Takes the addresses of the peers, in the order of their numbers. The group may be a peer of itself, and an address may be that of
    /// several peers.
    ///
    /// # Errors
    /// The first peer that failed, with what was prepared, to try again.
    #[expect(
        clippy::result_large_err,
        reason = "the error gives back what was prepared, which is as large as the group"
    )]
    pub fn connect(
        self,
        addresses: impl IntoIterator<Item: Borrow<EndpointAddr>>,
    ) -> Result<Group<'m, T, B, A>, ConnectError<Self>> {
        for (number, address) in (0..).zip(addresses) {
            let peer = PeerIndex(number);
            if let Err(error) = self.shared.set(peer, address.borrow()) {
                return Err(ConnectError { peer, error, prepared: self });
            }
        }
        let Prepared { domain, cq, shared, queues } = self;
        Ok(Group::new(domain, cq, Links::One(shared), queues))
    }
}

impl<'m, T: Transport, B: Buffer, A: Allocator> Group<'m, T, B, A> {
    pub(crate) const fn new(
        domain: Domain<'m, T>,
        cq: Cq<'m, T, B>,
        links: Links<'m, T, B, A>,
        queues: Array<[Queue; 2], A>,
    ) -> Self {
        Group {
            domain,
            cq,
            links,
            queues,
            waiting: Cell::new(0),
            round: Cell::new(0),
            teams: [const { Cell::new(0) }; 4],
        }
    }

    /// How many members the group can have.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.links.capacity()
    }

    /// The members that are there.
    pub fn peers(&self) -> impl Iterator<Item = PeerIndex> {
        let places = u32::try_from(self.capacity()).unwrap_or(u32::MAX);
        (0..places).map(PeerIndex).filter(|peer| self.links.to(*peer).is_some())
    }

    /// A member, as the endpoint and the address vector know it; `None` if there is none of that number, or members have connections.
    #[must_use]
    pub fn peer(&self, peer: PeerIndex) -> Option<Peer> {
        match self.links.to(peer)? {
            To::Peer(peer) => Some(peer),
            To::Connection { .. } => None,
        }
    }

    /// Puts a peer into a place: a new one, or instead of the one that was there, to which posts are refused from now on, if it has no other
    /// place. The others do not notice. Members are replaced without limit, except over providers that keep removed addresses
    /// ([`replacements`](GroupAttr::replacements)).
    ///
    /// # Errors
    /// [`PeerError`]; with [`InsertError::Full`] no replacements are left, and the former member stays. Members that have connections
    /// are set by [`Connections::set`](crate::Connections::set).
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::error::PostError;
    /// use loom_core::{Av, Cq, Domain};
    /// use loom_group::{GroupAttr, PeerIndex, Prepared};
    ///
    /// # let domain = Domain::open(&network.info())?;
    /// // Two members, of which one may be replaced by a newcomer.
    /// let prepared = Prepared::open(&domain, GroupAttr::new(2).with_replacements(1), 16)?;
    /// let itself = prepared.address()?;
    /// let group = prepared.connect([&itself; 2])?;
    /// assert!(group.remove(PeerIndex(1)));
    /// let refused = group.send(PeerIndex(1), vec![1]).expect_err("no member has the number");
    /// assert_eq!(refused.error, PostError::UnknownPeer);
    ///
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 4)?);
    /// # let newcomer = cq.endpoint(&av)?;
    /// group.set(PeerIndex(1), &newcomer.address()?)?;
    /// assert!(group.peers().eq([0, 1].map(PeerIndex)));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn set(&self, peer: PeerIndex, address: &EndpointAddr) -> Result<(), PeerError> {
        match &self.links {
            Links::One(shared) => shared.set(peer, address),
            Links::Each(_) => Err(PeerError::HasConnections),
        }
    }

    /// Takes a peer out of its place: posts to it are refused from now on. What is in flight ends by itself, or is cancelled; a connection is
    /// closed, and its operations come back as they do when an endpoint is dropped. Returns whether it was there.
    pub fn remove(&self, peer: PeerIndex) -> bool {
        match &self.links {
            Links::One(shared) => shared.remove(peer),
            Links::Each(connections) => {
                // Closed when the place is free again: that runs destructors of the program's.
                let removed = connections.get(peer.place()).and_then(RefCell::take);
                removed.is_some()
            }
        }
    }

    /// The address of this side's endpoint.
    ///
    /// # Errors
    /// As [`Endpoint::address`]. `EOPNOTSUPP` if members have connections: the address is that of
    /// [`Connections`](crate::Connections::address).
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        self.endpoint().map_or(Err(Errno::EOPNOTSUPP), Endpoint::address)
    }

    /// The domain of the group: regions of it serve with all peers.
    #[must_use]
    pub const fn domain(&self) -> &Domain<'m, T> {
        &self.domain
    }

    /// The address vector of the group; `None` if members have connections.
    #[must_use]
    pub const fn av(&self) -> Option<&Av<'m, T>> {
        match &self.links {
            Links::One(shared) => Some(&shared.av),
            Links::Each(_) => None,
        }
    }

    /// The queue of the group, which all its operations complete into.
    #[must_use]
    pub const fn cq(&self) -> &Cq<'m, T, B> {
        &self.cq
    }

    /// The endpoint of the group, for what has no form by number; `None` if members have connections.
    #[must_use]
    pub const fn endpoint(&self) -> Option<&Endpoint<'m, T, B>> {
        match &self.links {
            Links::One(shared) => Some(&shared.endpoint),
            Links::Each(_) => None,
        }
    }

    /// The connection of a member, for what has no form by number; `None` if it has none. A handle keeps it open, also when the member is removed.
    #[must_use]
    pub fn connection(&self, peer: PeerIndex) -> Option<MsgEndpoint<'m, T, B>> {
        self.links.connection(peer)
    }

    /// # Errors
    /// [`CqError::Driven`]
    pub(crate) fn is_not_driven(&self) -> Result<(), CqError> {
        if self.cq().is_driven() { Err(CqError::Driven) } else { Ok(()) }
    }

    /// What waits for room at a peer's address: receives, or all else.
    #[inline]
    pub(crate) fn queue(&self, to: To, receives: bool) -> Option<&Queue> {
        let place = match to {
            To::Peer(peer) => peer.index(),
            To::Connection { place, .. } => place,
        };
        self.queues.get(place)?.get(usize::from(receives))
    }

    /// Takes the number of a team; `false` if it is taken.
    pub(crate) fn take_team_number(&self, number: u8) -> bool {
        let Some((numbers, bit)) = self.team_number(number) else { return false };
        let before = numbers.replace(numbers.get() | bit);
        before & bit == 0
    }

    pub(crate) fn give_team_number(&self, number: u8) {
        if let Some((numbers, bit)) = self.team_number(number) {
            numbers.set(numbers.get() & !bit);
        }
    }

    /// Takes all numbers, for a team that has the connections for itself; `false` if one is taken.
    pub(crate) fn take_all_team_numbers(&self) -> bool {
        let are_free = self.teams.iter().all(|numbers| numbers.get() == 0);
        if are_free {
            self.teams.iter().for_each(|numbers| numbers.set(u64::MAX));
        }
        are_free
    }

    pub(crate) fn give_all_team_numbers(&self) {
        self.teams.iter().for_each(|numbers| numbers.set(0));
    }

    fn team_number(&self, number: u8) -> Option<(&Cell<u64>, u64)> {
        Some((self.teams.get(usize::from(number / 64))?, 1 << (number % 64)))
    }

    /// The number of a new round of posting.
    pub(crate) fn next_round(&self) -> u64 {
        self.round.set(self.round.get().wrapping_add(1));
        self.round.get()
    }
}

impl<T: Transport, B: Buffer, A: Allocator> fmt::Debug for Prepared<'_, T, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("capacity", &self.shared.members.len()).finish_non_exhaustive()
    }
}

impl<T: Transport, B: Buffer, A: Allocator> fmt::Debug for Group<'_, T, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("capacity", &self.capacity()).field("peers", &self.peers().count()).finish()
    }
}
