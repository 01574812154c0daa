//! [`Av`]: the address vector, where peers' addresses become handles.

#![allow(unsafe_code, reason = "opens and closes raw handles; a table in memory of the allocator")]

mod attr;
mod insert;
mod removed;

use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

pub use self::attr::AvAttr;
pub use self::insert::InsertError;
use self::removed::{Addresses, Removed, Room};
use crate::domain::{Domain, DomainInner};
use crate::engine::address_table::{AddressSet, AddressTable, fill};
use crate::engine::peer_table::RxPeer;
use crate::engine::peer_table::{Peer, Peers};
use crate::error::{OpenError, PostError};
use crate::handle::{Bond, CrossesThreads, Ended, Handle, HandleBlock, Head, Object, Plan, Unfilled};
use crate::notes::note;
use crate::storage::array;
use crate::transport::{Scalable, Transport};
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr};

/// Peers' addresses, as endpoints see them.
///
/// A counted handle: clones are the same vector, which is closed when the last of them and every endpoint that is bound to it is
/// gone. Where the transport's threading level admits it, the vector is shared between threads: finding the fabric address of a
/// peer takes no lock, and neither does finding a peer by that; inserting, removing, and whatever reads addresses take one.
///
/// The addresses are in an [address table](crate::engine::address_table) of the vector's own: an address that was inserted is one
/// peer, over every provider, and is found again without asking the provider.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let (av, cq) = (Av::open(&domain, 16)?, Cq::<_, Vec<u8>>::open(&domain, 64)?);
/// // An address comes from the peer. It is plain bytes.
/// let address = cq.endpoint(&av)?.address()?;
/// let peer = av.insert(&address)?;
/// assert_eq!(av.find(&address), Some(peer));
/// assert!(av.remove(peer));
/// assert_eq!(av.find(&address), None);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_av`
#[doc(alias = "fid_av")]
pub struct Av<'m, T: Transport> {
    body: Handle<'m, AvInner<T>>,
}

/// What there is one of, however many handles there are.
pub(crate) struct AvInner<T: Transport> {
    raw: T::Av,
    domain: Handle<'static, DomainInner<T>>,
    table: Peers<'static>,
    /// The addresses, with the same peers. In the vector's own block: the lifetime is shorter than it says.
    addresses: spin::Mutex<Addresses>,
    /// Of each address, for the number of a receive context.
    rx_ctx_bits: u8,
    /// Maximum number of addresses in the lifetime of the vector.
    limit: Option<usize>,
}

impl<'m, T: Transport> Av<'m, T> {
    /// Opens a vector for [`AvAttr::capacity`] peers at a time, in memory of `alloc`.
    ///
    /// The places of [removed](Self::remove) peers return. Over providers that cannot remove an address while endpoints are open, the
    /// capacity, or the provider's bound if it has one, counts for the lifetime of the vector ([`AvAttr::capacity`]).
    ///
    /// # Errors
    /// - [`OpenError::Size`] if the capacity is zero or does not fit into memory
    /// - [`OpenError::TooManyPeers`] if the provider's vectors have fewer places than the capacity
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_av_open")]
    pub fn open_in<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        attr: impl Into<AvAttr>,
        alloc: A,
    ) -> Result<Self, OpenError> {
        let attr = attr.into();
        Self::open_as(domain, attr, alloc, 0, |raw| {
            // SAFETY: the domain is open and stays so: the vector keeps it (C1, C2).
            unsafe { T::av_open(raw, attr.capacity) }
        })
    }

    /// `open` opens the raw vector, with `rx_ctx_bits` bits of each address for the number of a receive context.
    fn open_as<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        attr: AvAttr,
        alloc: A,
        rx_ctx_bits: u8,
        open: impl FnOnce(&T::Domain) -> Result<T::Av, Errno>,
    ) -> Result<Self, OpenError> {
        let room = attr.room(domain)?;
        let table = attr.table(domain, room)?.plan()?;
        let mut plan = Plan::of::<AvInner<T>, A>()?;
        let table_at = plan.add(table.layout)?;
        let links = AvAttr::links(room);
        let links_at = plan.add(array::<u32>(links)?)?;
        let block = Unfilled::new(plan, alloc)?;
        // SAFETY: the place of the table in the block.
        let memory = unsafe { block.at(table_at) };
        // SAFETY: there is room for it. It is given back after the vector, by which alone the table is reached: the lifetime never
        // leaves this file.
        let addresses: AddressTable<'static> = unsafe { table.table(memory) };
        // SAFETY: the place of the links in the block.
        let memory = unsafe { block.at(links_at) };
        // SAFETY: there is room for that many links, which are the vector's as the table is.
        let removed = Removed::new(unsafe { fill(memory, links, || Removed::LINK) });
        let raw = open(domain.raw()).map_err(|errno| match room.limit {
            Some(limit) if attr.capacity > limit => OpenError::TooManyPeers { limit },
            _ => OpenError::refused::<T>(errno),
        })?;
        // SAFETY: the vector's handles live for 'm.
        let domain = unsafe { domain.body.for_child() };
        let table = addresses.peers();
        let places = table.places();
        note!(debug, "open", "address vector for {} peers is open on {}: {places} places", attr.capacity, *domain);
        let reused = room.reused.map(|addresses| Room { peers: attr.capacity, addresses });
        let addresses = spin::Mutex::new(Addresses::new(addresses, removed, reused));
        let body = AvInner { raw, domain, table, addresses, rx_ctx_bits, limit: room.limit };
        Ok(Av { body: block.fill(body) })
    }

    /// [`Av::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Av::open_in`].
    #[cfg(feature = "std")]
    pub fn open(domain: &Domain<'m, T>, attr: impl Into<AvAttr>) -> Result<Self, OpenError> {
        Self::open_in(domain, attr, allocator_api2::alloc::Global)
    }
}

impl<T: Transport> Av<'_, T> {
    /// Removes a peer from the vector: from now on posts to it are refused. Returns `true` if it was in the vector.
    ///
    /// The peer's place returns to the vector. Places return in the order of the removals, and no earlier than the vector needs
    /// them: it has up to 16 places more than its capacity for this. Until then a message of the removed peer has a
    /// [source](crate::Transfer::source) that is no peer, whether it came before the removal or comes later. A
    /// message that comes after that names no other peer either. Two things must not wait so long: looking up the source of a completion, and
    /// cancelling a receive for the removed peer alone, which would take a later peer's messages.
    ///
    /// Where a provider cannot remove an address while an endpoint is bound to the vector, the place returns only if no
    /// endpoint is bound ([`AvAttr::capacity`]). The place of a member of a [range](Self::insert_symmetric) returns at once.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::error::PostError;
    /// use loom_core::{Av, Cq, Domain};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// assert!(av.remove(to_bob));
    /// let refused = alice.send(to_bob, b"hello".to_vec()).unwrap_err();
    /// assert_eq!((refused.error, &refused.buf[..]), (PostError::UnknownPeer, &b"hello"[..]));
    /// // Inserting the address again makes a new peer.
    /// assert_ne!(av.insert(&bob.address()?)?, to_bob);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_av_remove")]
    pub fn remove(&self, peer: Peer) -> bool {
        let Ok(mut addresses) = self.body.addresses() else { return false };
        let are_removed = addresses.are_removed();
        if are_removed && let Some(place) = addresses.table.retire(peer) {
            addresses.push(place);
            return true;
        }
        let Some(addr) = addresses.table.remove(peer) else { return false };
        if are_removed || !self.body.is_bound() {
            // SAFETY: the vector is open (C1); the transport admits it, or no endpoint is bound, and binding takes the same lock, so
            // that no operation in flight refers to the address (C13).
            let _ = unsafe { T::av_remove(&self.body.raw, addr) };
        }
        true
    }

    /// How many places the vector has, which is at least as many as it was opened for: [`Peer::index`] is below that.
    #[must_use]
    pub fn places(&self) -> usize {
        self.body.table.places()
    }

    /// The address of a peer, as it was inserted (in its [canonical form](crate::engine::address_table)); `None` if the peer was
    /// removed.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Av, Cq, Domain};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// # let cq: Cq<'_, _, Vec<u8>> = cq;
    /// assert_eq!(av.address(to_bob), Some(Ok(bob.address()?)));
    /// av.remove(to_bob);
    /// assert_eq!(av.address(to_bob), None);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The provider's, if it cannot tell. It is asked for peers that were inserted by name and that it could not tell then,
    /// either.
    #[doc(alias = "fi_av_lookup")]
    pub fn address(&self, peer: Peer) -> Option<Result<EndpointAddr, Errno>> {
        let addresses = match self.body.addresses() {
            Ok(addresses) => addresses,
            Err(errno) => return Some(Err(errno)),
        };
        let addr = self.body.table.addr(peer)?;
        Some(match addresses.table.address(peer) {
            Some(address) => Ok(address),
            // SAFETY: the vector is open (C1); the address is in it, and removing takes the same lock.
            None => unsafe { T::av_lookup(&self.body.raw, addr) },
        })
    }

    /// The peer that has an address, if it is in the vector: the reverse of [`address`](Self::address).
    ///
    /// Takes constant time, and waits for a thread that is inserting.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Av, Cq, Domain};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// # let cq: Cq<'_, _, Vec<u8>> = cq;
    /// assert_eq!(av.find(&bob.address()?), Some(to_bob));
    /// assert_eq!(av.find(&alice.address()?), None, "it was not inserted");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn find(&self, address: &EndpointAddr) -> Option<Peer> {
        self.body.addresses().ok()?.table.find(address)
    }

    /// An empty set of up to `count` peers of this vector, in memory of `alloc`.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_core::{Av, Cq, Domain};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// # let _: &loom_core::Endpoint<'_, _, Vec<u8>> = &alice;
    /// let to_alice = av.insert(&alice.address()?)?;
    /// // The members of a collective group, in the order of their ranks.
    /// let mut members = av.set_in(2, Global)?;
    /// members.insert(to_bob)?;
    /// members.insert(to_alice)?;
    /// assert_eq!(members.len(), 2);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`AddressSet::new_in`].
    #[doc(alias = "fi_av_set")]
    pub fn set_in<A: Allocator>(&self, count: usize, alloc: A) -> Result<AddressSet<A>, OpenError> {
        AddressSet::new_in(self.body.table.places(), count, alloc)
    }

    /// The peers by their handles and fabric addresses, to read only, for [`AddressSet::insert_range`].
    #[must_use]
    pub fn peer_table(&self) -> Peers<'_> {
        self.body.table
    }

    /// The peer that a completion names as its source, if it is in the vector.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Av, Caps, Cq, Domain, Forever, Hints, Source};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// let hints = Hints { caps: Caps::MSG | Caps::SOURCE, ..Hints::default() };
    /// let domain = Domain::open(&network.query(&hints)?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// let [to_alice, to_bob] = [av.insert(&alice.address()?)?, av.insert(&bob.address()?)?];
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// let source = cq.finish(received, Forever)?.result()?.source();
    /// assert_eq!(source.and_then(|source| av.peer(source)), Some(to_alice));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn peer(&self, source: FabricAddr) -> Option<Peer> {
        self.body.table.peer(source)
    }

    /// The fabric address of a peer, unless it was removed.
    #[inline]
    #[must_use]
    pub fn fabric_addr(&self, peer: Peer) -> Option<FabricAddr> {
        self.body.table.addr(peer)
    }

    /// The peers in the vector.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Av, Cq, Domain, Forever};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let to_alice = av.insert(&alice.address()?)?;
    /// // Each peer that is in the vector has a message.
    /// let mut told = 0;
    /// for peer in av.peers() {
    ///     cq.post(b"hello".to_vec(), Forever, |message| alice.send(peer, message))?;
    ///     told += 1;
    /// }
    /// assert_eq!(told, 2);
    /// av.remove(to_alice);
    /// assert_eq!(av.peers().collect::<Vec<_>>(), [to_bob]);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn peers(&self) -> impl Iterator<Item = Peer> + '_ {
        self.body.table.iter()
    }

    /// The fabric address of a peer's receive context.
    ///
    /// # Errors
    /// - [`PostError::UnknownPeer`] if the peer was removed
    /// - [`PostError::BeyondContexts`] if the vector was not opened for contexts of so high a number
    #[doc(alias = "fi_rx_addr")]
    #[inline]
    pub fn rx_addr(&self, to: RxPeer) -> Result<FabricAddr, PostError> {
        let addr = self.fabric_addr(to.peer()).ok_or(PostError::UnknownPeer)?;
        let beyond = PostError::BeyondContexts { limit: 1 << self.body.rx_ctx_bits };
        addr.rx_context(to.index(), self.body.rx_ctx_bits).ok_or(beyond)
    }

    /// The raw handle, for calls that loom does not wrap.
    #[must_use]
    pub fn raw(&self) -> &T::Av {
        &self.body.raw
    }

    pub(crate) fn domain(&self) -> &Handle<'static, DomainInner<T>> {
        &self.body.domain
    }

    /// The fabric addresses of some peers, for `with`: the same each time that they are iterated, because no peer is removed meanwhile. `None` if
    /// one of them is not in the vector.
    pub(crate) fn with_addrs<'p, R>(&'p self, peers: &'p [Peer], with: impl FnOnce(FabricAddrs<'p>) -> R) -> Option<R> {
        let _addresses = self.body.addresses().ok()?;
        let addrs = FabricAddrs { table: self.body.table, peers: peers.iter() };
        (addrs.clone().count() == peers.len()).then(|| with(addrs))
    }

    /// For an endpoint that is about to be opened. No address is removed meanwhile.
    pub(crate) fn bond(&self) -> Bond {
        let _addresses = self.body.addresses.lock();
        self.body.bond()
    }
}

impl<T: Transport> AvInner<T> {
    /// The addresses, under their lock.
    ///
    /// # Errors
    /// `OTHER_PROCESS` if this is a forked child, and a thread of its parent held the lock.
    pub(super) fn addresses(&self) -> Result<spin::MutexGuard<'_, Addresses>, Errno> {
        loop {
            match self.addresses.try_lock() {
                Some(addresses) => return Ok(addresses),
                None if self.is_here() => core::hint::spin_loop(),
                None => return Err(Errno::OTHER_PROCESS),
            }
        }
    }
}

/// The fabric addresses of peers.
#[derive(Clone)]
pub(crate) struct FabricAddrs<'p> {
    table: Peers<'p>,
    peers: core::slice::Iter<'p, Peer>,
}

impl Iterator for FabricAddrs<'_> {
    type Item = FabricAddr;

    fn next(&mut self) -> Option<FabricAddr> {
        self.table.addr(*self.peers.next()?)
    }
}

impl<T: Transport> CrossesThreads for AvInner<T> where Self: Send + Sync {}

// SAFETY: a place begins with its head.
unsafe impl<T: Transport> Object for AvInner<T> {
    const ONE_THREAD: bool = false;

    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>> {
        head.cast()
    }

    fn is_here(&self) -> bool {
        self.domain.is_here()
    }

    unsafe fn end(this: NonNull<Self>, left: bool) -> Ended {
        // SAFETY: the caller's promise.
        let this = unsafe { this.as_ref() };
        // SAFETY: bound endpoints held a handle of it, and there is none left (C2). A failed close is not retried (C3).
        if left || unsafe { T::av_close(&this.raw) }.is_err() {
            this.domain.leave();
            note!(warn, "left", "address vector of {} places stays open on {}", this.table.places(), *this.domain);
        } else {
            note!(debug, "close", "address vector of {} places is closed on {}", this.table.places(), *this.domain);
        }
        Ended::Free
    }
}

impl<T: Transport> Clone for Av<'_, T> {
    fn clone(&self) -> Self {
        Av { body: self.body.clone() }
    }
}

impl<'m, T: Scalable> Av<'m, T> {
    /// The most bits of an address that can be for the number of a receive context. (`sockets` would take more, and sends the
    /// number in one byte.)
    pub const MAX_RX_CTX_BITS: u8 = 8;

    /// Opens a vector as [`open_in`](Self::open_in) does, whose peers can have up to 2 to the power of `rx_ctx_bits` receive
    /// contexts.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in); [`OpenError::Size`] for more bits than [`MAX_RX_CTX_BITS`](Self::MAX_RX_CTX_BITS).
    #[doc(alias = "rx_ctx_bits")]
    pub fn open_for_contexts_in<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        capacity: usize,
        rx_ctx_bits: u8,
        alloc: A,
    ) -> Result<Self, OpenError> {
        if rx_ctx_bits > Self::MAX_RX_CTX_BITS {
            return Err(OpenError::Size);
        }
        Self::open_as(domain, AvAttr::new(capacity), alloc, rx_ctx_bits, |raw| {
            // SAFETY: the domain is open and stays so: the vector keeps it (C1, C2).
            unsafe { T::av_open_for_contexts(raw, capacity, rx_ctx_bits) }
        })
    }

    /// [`Av::open_for_contexts_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Av::open_for_contexts_in`].
    #[cfg(feature = "std")]
    pub fn open_for_contexts(domain: &Domain<'m, T>, capacity: usize, rx_ctx_bits: u8) -> Result<Self, OpenError> {
        Self::open_for_contexts_in(domain, capacity, rx_ctx_bits, allocator_api2::alloc::Global)
    }
}

impl<T: Transport> fmt::Debug for Av<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Av").field("bound", &self.body.is_bound()).finish_non_exhaustive()
    }
}
