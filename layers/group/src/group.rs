use core::borrow::Borrow;
use core::cell::{Cell, RefCell};
use core::fmt;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::Buffer;
use loom_core::cq::{CqAttr, CqError};
use loom_core::error::{OpenError, Rejected};
use loom_core::storage::Array;
use loom_core::vocabulary::{EndpointAddr, Errno};
use loom_core::{Av, Cq, Domain, Endpoint, Error, MsgEndpoint, Peer, Transport};

use crate::routes::{Links, Shared, To};
use crate::{PeerError, PeerIndex};

/// Size of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAttr {
    /// Maximum number of members at a time.
    pub capacity: usize,
    /// Number of later addresses, at least one, over providers that keep removed addresses
    /// ([`AvAttr::capacity`](loom_core::AvAttr::capacity)).
    pub replacements: usize,
}

impl GroupAttr {
    /// Group of `capacity` members.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        GroupAttr { capacity, replacements: 0 }
    }

    /// Sets the number of replacements.
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

/// Group without peers, with an open endpoint and its address.
///
/// ```
/// use loom_core::{Domain, Forever};
/// use loom_group::{PeerIndex, Prepared};
/// # fixture::domain!(network, domain);
///
/// // Two members on one thread. In a cluster, a bootstrap exchanges the addresses between processes.
/// let first = Prepared::open(&domain, 2, 16)?;
/// let second = Prepared::open(&domain, 2, 16)?;
/// let addresses = [first.address()?, second.address()?];
/// let (first, second) = (first.connect(&addresses)?, second.connect(&addresses)?);
///
/// // A fabric may refuse the first message until both sides have made progress.
/// # second.recv_any(Vec::new())?;
/// # while let Err(refused) = first.send(PeerIndex(1), Vec::new()) {
/// #     assert!(refused.error.is_transient());
/// #     first.cq().progress()?;
/// #     second.cq().progress()?;
/// # }
/// let received = second.recv_any(vec![0; 5])?;
/// first.send(PeerIndex(1), b"hello".to_vec())?;
/// assert_eq!(second.cq().finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Prepared<'m, T: Transport, B: Buffer, A: Allocator> {
    domain: Domain<'m, T>,
    cq: Cq<'m, T, B>,
    shared: Shared<'m, T, B, A>,
    /// Queues by place in the vector.
    queues: Array<[Queue; 2], A>,
}

/// Peers by number, over one connectionless endpoint ([`Prepared`]) or a connection for each peer
/// ([`Connections`](crate::Connections)).
pub struct Group<'m, T: Transport, B: Buffer, A: Allocator> {
    domain: Domain<'m, T>,
    cq: Cq<'m, T, B>,
    pub(crate) links: Links<'m, T, B, A>,
    /// Queues by place in the vector, or by member number.
    queues: Array<[Queue; 2], A>,
    pub(crate) waiting: Cell<usize>,
    round: Cell<u64>,
    teams: [Cell<u64>; 4],
}

#[cfg(feature = "std")]
impl<'m, T: Transport, B: Buffer + 'm> Prepared<'m, T, B, allocator_api2::alloc::Global> {
    /// [`open_in`](Self::open_in) with the global allocator.
    pub fn open(
        domain: &Domain<'m, T>,
        attr: impl Into<GroupAttr>,
        queue: impl Into<CqAttr>,
    ) -> Result<Self, OpenError> {
        Self::open_in(domain, attr, queue, allocator_api2::alloc::Global)
    }
}

impl<'m, T: Transport, B: Buffer + 'm, A: Allocator + Clone + Send + 'm> Prepared<'m, T, B, A> {
    /// Opens an address vector, a queue, an endpoint, and a table of members, all in memory of
    /// `alloc`.
    ///
    /// # Errors
    /// See [`Av::open_in`], [`Cq::open_in`] and [`Cq::endpoint`].
    pub fn open_in(
        domain: &Domain<'m, T>,
        attr: impl Into<GroupAttr>,
        queue: impl Into<CqAttr>,
        alloc: A,
    ) -> Result<Self, OpenError> {
        let GroupAttr { capacity, replacements } = attr.into();
        // A member's address is removed after its successor's insertion.
        let addresses = capacity.checked_add(replacements.max(1)).ok_or(OpenError::Size)?;
        let av = Av::open_in(domain, addresses, alloc.clone())?;
        let cq = Cq::open_in(domain, queue, alloc.clone())?;
        let endpoint = cq.endpoint(&av)?;
        let members = Array::new_in(capacity, alloc.clone(), |_| Cell::new(None))?;
        let queues = Array::new_in(av.peer_table().places(), alloc, |_| <[Queue; 2]>::default())?;
        Ok(Prepared { domain: domain.clone(), cq, shared: Shared { av, endpoint, members }, queues })
    }
}

impl<'m, T: Transport, B: Buffer, A: Allocator> Prepared<'m, T, B, A> {
    /// Address for the peers.
    ///
    /// # Errors
    /// See [`Endpoint::address`].
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        self.shared.endpoint.address()
    }

    /// Domain.
    #[must_use]
    pub const fn domain(&self) -> &Domain<'m, T> {
        &self.domain
    }

    /// Inserts the addresses of the peers, in order of number. They may repeat, and include this
    /// side.
    ///
    /// # Errors
    /// The first peer that failed, with the prepared group of the peers before:
    /// [`PeerError::NoSuchPlace`] or [`PeerError::Insert`].
    #[expect(
        clippy::result_large_err,
        reason = "the error gives back what was prepared, which is as large as the group"
    )]
    pub fn connect(
        self,
        addresses: impl IntoIterator<Item: Borrow<EndpointAddr>>,
    ) -> Result<Group<'m, T, B, A>, Rejected<Self, ConnectError>> {
        for (number, address) in (0..).zip(addresses) {
            let peer = PeerIndex(number);
            if let Err(error) = self.shared.set(peer, address.borrow()) {
                return Err(Rejected { value: self, error: ConnectError { peer, error } });
            }
        }
        let Prepared { domain, cq, shared, queues } = self;
        Ok(Group::new(domain, cq, Links::One(shared), queues))
    }
}

impl<'m, T: Transport, B: Buffer, A: Allocator> Group<'m, T, B, A> {
    /// Maximum number of members.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.links.capacity()
    }

    /// Present members.
    pub fn peers(&self) -> impl Iterator<Item = PeerIndex> {
        let places = u32::try_from(self.capacity()).unwrap_or(u32::MAX);
        (0..places).map(PeerIndex).filter(|peer| self.links.to(*peer).is_some())
    }

    /// Address handle of a member. `None` if the member is absent or members have connections.
    #[must_use]
    pub fn peer(&self, peer: PeerIndex) -> Option<Peer> {
        match self.links.to(peer)? {
            To::Peer(peer) => Some(peer),
            To::Connection { .. } => None,
        }
    }

    /// Puts a peer into a place. Posts to a replaced peer without another place are refused.
    ///
    /// # Errors
    /// - [`PeerError::NoSuchPlace`].
    /// - [`PeerError::Insert`]. With [`AddressError::Full`](loom_core::AddressError::Full) no
    ///   [`replacements`](GroupAttr::replacements) are left and the former member stays.
    /// - [`PeerError::HasConnections`]: call [`Connections::set`](crate::Connections::set).
    ///
    /// ```
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
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn set(&self, peer: PeerIndex, address: &EndpointAddr) -> Result<(), PeerError> {
        match &self.links {
            Links::One(shared) => shared.set(peer, address),
            Links::Each(_) => Err(PeerError::HasConnections),
        }
    }

    /// Removes a peer. Later posts to it are refused, those in flight complete or are cancelled.
    /// Returns `true` if the peer was present.
    pub fn remove(&self, peer: PeerIndex) -> bool {
        match &self.links {
            Links::One(shared) => shared.remove(peer),
            Links::Each(connections) => {
                // Drop it after the place is free: that runs user destructors.
                let removed = connections.get(peer.place()).and_then(RefCell::take);
                removed.is_some()
            }
        }
    }

    /// Address of the endpoint.
    ///
    /// # Errors
    /// See [`Endpoint::address`]. `EOPNOTSUPP` over connections: use
    /// [`Connections::address`](crate::Connections::address).
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        self.endpoint().map_or(Err(Errno::EOPNOTSUPP), Endpoint::address)
    }

    /// Domain.
    #[must_use]
    pub const fn domain(&self) -> &Domain<'m, T> {
        &self.domain
    }

    /// Address vector, or `None` if members have connections.
    #[must_use]
    pub const fn av(&self) -> Option<&Av<'m, T>> {
        match &self.links {
            Links::One(shared) => Some(&shared.av),
            Links::Each(_) => None,
        }
    }

    /// Completion queue of all operations.
    #[must_use]
    pub const fn cq(&self) -> &Cq<'m, T, B> {
        &self.cq
    }

    /// Endpoint, for operations without a peer number. `None` if members have connections.
    #[must_use]
    pub const fn endpoint(&self) -> Option<&Endpoint<'m, T, B>> {
        match &self.links {
            Links::One(shared) => Some(&shared.endpoint),
            Links::Each(_) => None,
        }
    }

    /// Connection of a member, for operations without a peer number. It stays open after the
    /// member's removal.
    #[must_use]
    pub fn connection(&self, peer: PeerIndex) -> Option<MsgEndpoint<'m, T, B>> {
        self.links.connection(peer)
    }

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

    /// # Errors
    /// [`CqError::Driven`]
    pub(crate) fn is_not_driven(&self) -> Result<(), CqError> {
        if self.cq().is_driven() { Err(CqError::Driven) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn queue(&self, to: To, receives: bool) -> Option<&Queue> {
        let place = match to {
            To::Peer(peer) => peer.index(),
            To::Connection { place, .. } => place,
        };
        self.queues.get(place)?.get(usize::from(receives))
    }

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

    pub(crate) fn next_round(&self) -> u64 {
        self.round.set(self.round.get().wrapping_add(1));
        self.round.get()
    }

    fn team_number(&self, number: u8) -> Option<(&Cell<u64>, u64)> {
        Some((self.teams.get(usize::from(number / 64))?, 1 << (number % 64)))
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

/// Failure to connect a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectError {
    /// Peer that failed.
    pub peer: PeerIndex,
    /// Cause.
    pub error: PeerError,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::error::with(f, format_args!("{}", self.peer), &self.error)
    }
}

impl core::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        error.error.into()
    }
}

/// Receives wait separately, because they may depend on sends.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) waiting: Cell<u32>,
    pub(crate) refused_in: Cell<u64>,
}
