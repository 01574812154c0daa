//! [`Av`]: address vector, which converts peers' addresses to handles.

#![allow(unsafe_code, reason = "opens and closes raw handles; a table in memory of the allocator")]

mod attr;
mod insert;
mod remove;
mod retired;

use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

pub use self::attr::AvAttr;
use self::retired::{Addresses, Removed, Room};
use crate::domain::{Domain, DomainInner};
use crate::engine::address_table::{AddressSet, AddressTable};
use crate::engine::peer_table::RxPeer;
use crate::engine::peer_table::{Peer, Peers};
use crate::error::{OpenError, PostError};
use crate::storage::Part;
use crate::storage::handle::{Bond, CrossesThreads, Ended, Handle, Object, Plan, Unfilled};
use crate::transport::Transport;
use crate::util::clone::clone_struct;
use crate::util::debug::debug_struct;
use crate::util::log::note;
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr};

/// Peers' addresses.
///
/// A counted handle, which threads share if the transport's threading level allows. Conversions
/// between peers and fabric addresses take no lock.
///
/// ```
/// use loom_core::{Av, Cq};
///
/// # fixture::domain!(network, domain);
/// let (av, cq) = (Av::open(&domain, 16)?, Cq::<_, Vec<u8>>::open(&domain, 64)?);
/// // An address comes from the peer. It is plain bytes.
/// let address = cq.endpoint(&av)?.address()?;
/// let peer = av.insert(&address)?;
/// assert_eq!(av.find(&address), Some(peer));
/// assert!(av.remove(peer));
/// assert_eq!(av.find(&address), None);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_av`
#[doc(alias = "fid_av")]
pub struct Av<'m, T: Transport> {
    body: Handle<'m, AvInner<T>>,
}

pub(crate) struct AvInner<T: Transport> {
    raw: T::Av,
    domain: Handle<'static, DomainInner<T>>,
    table: Peers<'static>,
    addresses: spin::Mutex<Addresses>,
    rx_ctx_bits: u8,
    limit: Option<usize>,
}

impl<'m, T: Transport> Av<'m, T> {
    /// Opens a vector for [`AvAttr::capacity`] peers at a time, in memory of `alloc`.
    ///
    /// # Errors
    /// [`OpenError::Size`] for a capacity of zero or beyond memory or more than
    /// [`AvAttr::MAX_RX_CTX_BITS`], [`OpenError::TooManyPeers`],
    /// [`OpenError::OutOfMemory`] or [`OpenError::Errno`].
    #[doc(alias = "fi_av_open")]
    pub fn open_in<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        attr: impl Into<AvAttr>,
        alloc: A,
    ) -> Result<Self, OpenError> {
        let attr = attr.into();
        let room = attr.room(domain)?;
        let table = attr.table(domain, room)?.plan()?;
        let mut plan = Plan::of::<AvInner<T>, A>()?;
        let table_at = plan.add(table.layout)?;
        let links = Part::of(&mut plan.layout, AvAttr::links(room))?;
        let block = Unfilled::new(plan, alloc)?;
        // SAFETY: `table_at` is the plan's offset of the table.
        let memory = unsafe { block.at(table_at) };
        // SAFETY: the plan reserves the table's layout. The block outlives the vector, which alone
        // reaches the table, and the lifetime never leaves this file.
        let addresses: AddressTable<'static> = unsafe { table.table(memory) };
        // SAFETY: the plan reserves space for the links. The block outlives the vector, which alone
        // reaches them.
        let removed = Removed::new(unsafe { links.slice(block.ptr(), |_| Removed::LINK) });
        // SAFETY: the vector keeps the domain open (H1, H2).
        let raw = unsafe { T::av_open(domain.raw(), attr.capacity, attr.rx_ctx_bits) };
        let raw = raw.map_err(|errno| match room.limit {
            Some(limit) if attr.capacity > limit => OpenError::TooManyPeers { limit },
            _ => OpenError::refused::<T>(errno),
        })?;
        // SAFETY: the vector's handles live for `'m`.
        let domain = unsafe { domain.body.for_child() };
        let table = addresses.peers();
        let places = table.places();
        note!(debug, "open", "address vector for {} peers is open on {}: {places} places", attr.capacity, *domain);
        let reused = room.reused.map(|addresses| Room { peers: attr.capacity, addresses });
        let addresses = spin::Mutex::new(Addresses::new(addresses, removed, reused));
        let body = AvInner { raw, domain, table, addresses, rx_ctx_bits: attr.rx_ctx_bits, limit: room.limit };
        Ok(Av { body: block.fill(body) })
    }

    /// [`Av::open_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn open(domain: &Domain<'m, T>, attr: impl Into<AvAttr>) -> Result<Self, OpenError> {
        Self::open_in(domain, attr, allocator_api2::alloc::Global)
    }
}

impl<T: Transport> Av<'_, T> {
    /// Returns a peer's address in its [canonical form](crate::engine::address_table), or `None` if
    /// the peer was removed.
    ///
    /// ```
    /// use loom_core::Cq;
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// # let cq: Cq<'_, _, Vec<u8>> = cq;
    /// assert_eq!(av.address(to_bob), Some(Ok(bob.address()?)));
    /// av.remove(to_bob);
    /// assert_eq!(av.address(to_bob), None);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the provider, which is called only for some peers inserted by name.
    #[doc(alias = "fi_av_lookup")]
    pub fn address(&self, peer: Peer) -> Option<Result<EndpointAddr, Errno>> {
        let addresses = match self.body.addresses() {
            Ok(addresses) => addresses,
            Err(errno) => return Some(Err(errno)),
        };
        let addr = self.body.table.addr(peer)?;
        Some(match addresses.table.address(peer) {
            Some(address) => Ok(address),
            // SAFETY: open (H1) and contains the address: removal takes the same lock.
            None => unsafe { T::av_lookup(&self.body.raw, addr) },
        })
    }

    /// Finds the peer with an address.
    ///
    /// Waits for an inserting thread.
    ///
    /// ```
    /// use loom_core::Cq;
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// # let cq: Cq<'_, _, Vec<u8>> = cq;
    /// assert_eq!(av.find(&bob.address()?), Some(to_bob));
    /// assert_eq!(av.find(&alice.address()?), None, "it was not inserted");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn find(&self, address: &EndpointAddr) -> Option<Peer> {
        self.body.addresses().ok()?.table.find(address)
    }

    /// Creates an empty set of up to `count` peers of this vector, in memory of `alloc`.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// # let _: &loom_core::Endpoint<'_, _, Vec<u8>> = &alice;
    /// let to_alice = av.insert(&alice.address()?)?;
    /// // The members of a collective group, in the order of their ranks.
    /// let mut members = av.set_in(2, Global)?;
    /// members.insert(to_bob)?;
    /// members.insert(to_alice)?;
    /// assert_eq!(members.len(), 2);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`AddressSet::new_in`].
    #[doc(alias = "fi_av_set")]
    pub fn set_in<A: Allocator + Clone>(&self, count: usize, alloc: A) -> Result<AddressSet<A>, OpenError> {
        AddressSet::new_in(self.body.table.places(), count, alloc)
    }

    /// Read-only table of the vector's peers and their fabric addresses.
    #[inline]
    #[must_use]
    pub fn peer_table(&self) -> Peers<'_> {
        self.body.table
    }

    /// Finds the peer of a completion's source.
    ///
    /// ```
    /// use loom_core::{Caps, Forever, Source};
    ///
    /// # fixture::queue!(network, domain, av, cq; Caps::MSG | Caps::SOURCE);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// let [to_alice, to_bob] = [av.insert(&alice.address()?)?, av.insert(&bob.address()?)?];
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// let source = cq.finish(received, Forever)?.result()?.source;
    /// assert_eq!(source.and_then(|source| av.peer(source)), Some(to_alice));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn peer(&self, source: FabricAddr) -> Option<Peer> {
        self.body.table.peer(source)
    }

    /// Fabric address of a peer's receive context.
    ///
    /// # Errors
    /// [`PostError::UnknownPeer`] or [`PostError::BeyondContexts`]
    #[doc(alias = "fi_rx_addr")]
    #[inline]
    pub(crate) fn rx_addr(&self, to: RxPeer) -> Result<FabricAddr, PostError> {
        let addr = self.body.table.addr(to.peer).ok_or(PostError::UnknownPeer)?;
        let beyond = PostError::BeyondContexts { limit: 1 << self.body.rx_ctx_bits };
        addr.rx_context(to.index, self.body.rx_ctx_bits).ok_or(beyond)
    }

    /// Raw handle.
    #[must_use]
    pub fn raw(&self) -> &T::Av {
        &self.body.raw
    }

    pub(crate) fn domain(&self) -> &Handle<'static, DomainInner<T>> {
        &self.body.domain
    }

    /// The lock prevents removals during the call. Returns `None` if a peer is not in the vector.
    pub(crate) fn with_addrs<'p, R>(&'p self, peers: &'p [Peer], with: impl FnOnce(FabricAddrs<'p>) -> R) -> Option<R> {
        let _addresses = self.body.addresses().ok()?;
        let addrs = FabricAddrs { table: self.body.table, peers: peers.iter() };
        (addrs.clone().count() == peers.len()).then(|| with(addrs))
    }

    /// Taken under the lock, so that no address is removed meanwhile.
    pub(crate) fn bond(&self) -> Bond {
        let _addresses = self.body.addresses.lock();
        self.body.bond()
    }
}

impl<T: Transport> AvInner<T> {
    /// Fails with `OTHER_PROCESS` in a forked child, if a thread of its parent held the lock.
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

impl<T: Transport> Object for AvInner<T> {
    const ONE_THREAD: bool = false;

    fn is_here(&self) -> bool {
        self.domain.is_here()
    }

    unsafe fn end(this: NonNull<Self>, left: bool) -> Ended {
        // SAFETY: `end` is called once, after the last handle has gone.
        let this = unsafe { this.as_ref() };
        // SAFETY: bound endpoints hold a handle of the vector, and the last handle has gone (H2). A
        // failed close is not retried (H3).
        if left || unsafe { T::av_close(&this.raw) }.is_err() {
            this.domain.leave();
            note!(warn, "left", "address vector of {} places stays open on {}", this.table.places(), *this.domain);
        } else {
            note!(debug, "close", "address vector of {} places is closed on {}", this.table.places(), *this.domain);
        }
        Ended::Free
    }
}

clone_struct!([T: Transport] Av['_, T], body);

debug_struct!([T: Transport] Av['_, T], |it| bound: it.body.is_bound());
