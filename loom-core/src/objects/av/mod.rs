//! [`Av`]: the address vector, where peers' addresses become handles.

#![allow(unsafe_code, reason = "opens and closes raw handles; a table in memory of the allocator")]

mod attr;
mod insert;

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use allocator_api2::alloc::Allocator;

pub use self::attr::AvAttr;
pub use self::insert::InsertError;
use crate::engine::address_table::{AddressSet, AddressTable};
use crate::engine::peer_table::RxPeer;
use crate::engine::peer_table::{Peer, Peers};
use crate::error::{OpenError, PostError};
use crate::objects::domain::Domain;
use crate::objects::users::Users;
use crate::storage::Block;
use crate::transport::{Scalable, Transport};
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr};

/// Peers' addresses, as endpoints see them.
///
/// Reached through its owner, [`AvOwner`]. Where the transport's threading level admits it, the vector is shared
/// between threads: finding the fabric address of a peer takes no lock, and neither does finding a peer by that; inserting,
/// removing, and whatever reads addresses take one.
///
/// The addresses are in an [address table](crate::engine::address_table) of the vector's own: an address that was inserted is one
/// peer, over every provider, and is found again without asking the provider.
///
/// # References
/// - `man fi_av`
#[doc(alias = "fid_av")]
pub struct Av<'d, T: Transport> {
    raw: T::Av,
    domain: &'d Domain<T>,
    table: Peers<'d>,
    /// The addresses, with the same peers. In the owner's block: the lifetime is shorter than it says.
    addresses: spin::Mutex<AddressTable<'static>>,
    users: Users,
    /// Of each address, for the number of a receive context.
    rx_ctx_bits: u8,
}

impl<'d, T: Transport> Av<'d, T> {
    /// Opens a vector with places for `capacity` peers, in memory of `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::Size`] if `capacity` is zero or does not fit into memory
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_av_open")]
    pub fn open_in<A: Allocator>(
        domain: &'d Domain<T>,
        capacity: usize,
        alloc: A,
    ) -> Result<AvOwner<'d, T, A>, OpenError> {
        Self::open_with_in(domain, AvAttr::new(capacity), alloc)
    }

    /// As [`open_in`](Self::open_in), with attributes: how much memory there is for addresses, and the seed of their hash
    /// function.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in).
    #[doc(alias = "fi_av_attr")]
    pub fn open_with_in<A: Allocator>(
        domain: &'d Domain<T>,
        attr: AvAttr,
        alloc: A,
    ) -> Result<AvOwner<'d, T, A>, OpenError> {
        Self::open_as(domain, attr, alloc, 0, |raw| {
            // SAFETY: the domain is open and stays so: the vector is its child.
            unsafe { T::av_open(raw, attr.capacity) }
        })
    }

    /// `open` opens the raw vector, with so many bits for receive contexts.
    fn open_as<A: Allocator>(
        domain: &'d Domain<T>,
        attr: AvAttr,
        alloc: A,
        rx_ctx_bits: u8,
        open: impl FnOnce(&T::Domain) -> Result<T::Av, Errno>,
    ) -> Result<AvOwner<'d, T, A>, OpenError> {
        let plan = attr.table(domain)?.plan()?;
        let block = Block::new(plan.layout, alloc)?;
        // SAFETY: the block has the layout of the plan. It is freed after the vector, in `AvOwner::drop`, and the vector is only
        // ever reached by borrowing its owner: the lifetime never leaves this file.
        let addresses: AddressTable<'static> = unsafe { plan.table(block.ptr()) };
        let raw = open(domain.raw())?;
        domain.child_opened();
        let table = addresses.peers();
        let av = Av { raw, domain, table, addresses: spin::Mutex::new(addresses), users: Users::none(), rx_ctx_bits };
        Ok(AvOwner { av, block: ManuallyDrop::new(block) })
    }

    /// [`Av::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Av::open_in`].
    #[cfg(feature = "std")]
    pub fn open(
        domain: &'d Domain<T>,
        capacity: usize,
    ) -> Result<AvOwner<'d, T, allocator_api2::alloc::Global>, OpenError> {
        Self::open_in(domain, capacity, allocator_api2::alloc::Global)
    }

    /// [`Av::open_with_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Av::open_with_in`].
    #[cfg(feature = "std")]
    pub fn open_with(
        domain: &'d Domain<T>,
        attr: AvAttr,
    ) -> Result<AvOwner<'d, T, allocator_api2::alloc::Global>, OpenError> {
        Self::open_with_in(domain, attr, allocator_api2::alloc::Global)
    }

    /// Takes a peer out of the vector: from now on posts to it are refused. Returns whether it was there.
    ///
    /// What the provider keeps for the address is given back at once if no endpoint is bound to the vector, else
    /// when the vector closes: libfabric leaves it undefined what happens to operations in flight.
    #[doc(alias = "fi_av_remove")]
    pub fn remove(&self, peer: Peer) -> bool {
        let mut addresses = self.addresses.lock();
        let Some(addr) = addresses.remove(peer) else { return false };
        if self.users.are_none() {
            // SAFETY: no endpoint is bound, and binding takes the same lock, so nothing in flight refers to it.
            let _ = unsafe { T::av_remove(&self.raw, addr) };
        }
        true
    }

    /// The address of a peer, as it was inserted (in its [canonical form](crate::engine::address_table)); `None` if the peer was
    /// removed.
    ///
    /// # Errors
    /// The provider's, if it cannot tell. It is asked for peers that were inserted by name and that it could not tell then,
    /// either.
    #[doc(alias = "fi_av_lookup")]
    pub fn address(&self, peer: Peer) -> Option<Result<EndpointAddr, Errno>> {
        let addresses = self.addresses.lock();
        let addr = self.table.addr(peer)?;
        Some(match addresses.address(peer) {
            Some(address) => Ok(address),
            // SAFETY: the address is in the vector, and removing takes the same lock.
            None => unsafe { T::av_lookup(&self.raw, addr) },
        })
    }

    /// The peer that has an address, if it is in the vector: the reverse of [`address`](Self::address).
    ///
    /// Takes as long however many peers there are, and waits for whoever is inserting.
    #[must_use]
    pub fn find(&self, address: &EndpointAddr) -> Option<Peer> {
        self.addresses.lock().find(address)
    }

    /// An empty set of up to `count` peers of this vector, in memory of `alloc`.
    ///
    /// # Errors
    /// As [`AddressSet::new_in`].
    #[doc(alias = "fi_av_set")]
    pub fn set_in<A: Allocator>(&self, count: usize, alloc: A) -> Result<AddressSet<A>, OpenError> {
        AddressSet::new_in(self.table.places(), count, alloc)
    }

    /// The peers by their handles and fabric addresses, to read only, for [`AddressSet::insert_range`].
    #[must_use]
    pub fn peer_table(&self) -> Peers<'_> {
        self.table
    }

    /// The peer that a completion names as its source, if it is in the vector.
    #[inline]
    #[must_use]
    pub fn peer(&self, source: FabricAddr) -> Option<Peer> {
        self.table.peer(source)
    }

    /// The fabric address of a peer, unless it was removed.
    #[inline]
    #[must_use]
    pub fn fabric_addr(&self, peer: Peer) -> Option<FabricAddr> {
        self.table.addr(peer)
    }

    /// The peers in the vector.
    pub fn peers(&self) -> impl Iterator<Item = Peer> + '_ {
        self.table.iter()
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
        let beyond = PostError::BeyondContexts { limit: 1 << self.rx_ctx_bits };
        addr.rx_context(to.index(), self.rx_ctx_bits).ok_or(beyond)
    }

    /// The raw handle, for calls that loom does not wrap.
    #[must_use]
    pub fn raw(&self) -> &T::Av {
        &self.raw
    }

    pub(crate) fn domain(&self) -> &'d Domain<T> {
        self.domain
    }

    /// Counts an endpoint that is about to be opened, while nobody removes an address.
    pub(crate) fn bind(&self) -> &Users {
        let _addresses = self.addresses.lock();
        self.users.opened();
        &self.users
    }

    /// The end of what `bind` has counted.
    pub(crate) fn unbind(&self) {
        self.users.closed();
    }
}

impl<'d, T: Scalable> Av<'d, T> {
    /// The most bits of an address that can be for the number of a receive context. (`sockets` would take more, and sends the
    /// number in one byte.)
    pub const MAX_RX_CTX_BITS: u8 = 8;

    /// Opens a vector as [`open_in`](Self::open_in) does, whose peers can have up to 2 to the power of `rx_ctx_bits` receive
    /// contexts.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in); [`OpenError::Size`] for more bits than [`MAX_RX_CTX_BITS`](Self::MAX_RX_CTX_BITS).
    #[doc(alias = "rx_ctx_bits")]
    pub fn open_for_contexts_in<A: Allocator>(
        domain: &'d Domain<T>,
        capacity: usize,
        rx_ctx_bits: u8,
        alloc: A,
    ) -> Result<AvOwner<'d, T, A>, OpenError> {
        if rx_ctx_bits > Self::MAX_RX_CTX_BITS {
            return Err(OpenError::Size);
        }
        Self::open_as(domain, AvAttr::new(capacity), alloc, rx_ctx_bits, |raw| {
            // SAFETY: the domain is open and stays so: the vector is its child.
            unsafe { T::av_open_for_contexts(raw, capacity, rx_ctx_bits) }
        })
    }

    /// [`Av::open_for_contexts_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Av::open_for_contexts_in`].
    #[cfg(feature = "std")]
    pub fn open_for_contexts(
        domain: &'d Domain<T>,
        capacity: usize,
        rx_ctx_bits: u8,
    ) -> Result<AvOwner<'d, T, allocator_api2::alloc::Global>, OpenError> {
        Self::open_for_contexts_in(domain, capacity, rx_ctx_bits, allocator_api2::alloc::Global)
    }
}

impl<T: Transport> fmt::Debug for Av<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Av").field("users", &self.users).finish_non_exhaustive()
    }
}

/// Owns an address vector and the memory of its table.
///
/// Closed on drop. If an endpoint that was forgotten is still bound, the provider's vector is left open (its table,
/// which nothing can reach any more, is freed).
pub struct AvOwner<'d, T: Transport, A: Allocator> {
    av: Av<'d, T>,
    block: ManuallyDrop<Block<A>>,
}

impl<'d, T: Transport, A: Allocator> Deref for AvOwner<'d, T, A> {
    type Target = Av<'d, T>;

    fn deref(&self) -> &Av<'d, T> {
        &self.av
    }
}

impl<T: Transport, A: Allocator> fmt::Debug for AvOwner<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.av.fmt(f)
    }
}

impl<T: Transport, A: Allocator> Drop for AvOwner<'_, T, A> {
    fn drop(&mut self) {
        if self.av.users.are_none() {
            // SAFETY: no endpoint is bound and nobody borrows the vector. A failed close is not retried: the domain
            // then has a child for ever, and leaks itself.
            if unsafe { T::av_close(&self.av.raw) }.is_ok() {
                self.av.domain.child_closed();
            }
        }
        // SAFETY: dropped once, here. The table is reached through the vector alone, which nobody borrows.
        unsafe { ManuallyDrop::drop(&mut self.block) };
    }
}
