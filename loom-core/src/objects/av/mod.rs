//! [`Av`]: the address vector, where peers' addresses become handles.

#![allow(unsafe_code, reason = "opens and closes raw handles; a table in memory of the allocator")]

mod insert;
mod symmetric;

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use allocator_api2::alloc::Allocator;

pub use self::insert::InsertError;
use crate::engine::peer_table::{Entry, Peer, PeerTable};
use crate::error::OpenError;
use crate::objects::domain::Domain;
use crate::objects::users::Users;
use crate::storage::{Block, array};
use crate::transport::Transport;
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr};

/// Peers' addresses, as endpoints see them.
///
/// Reached through its owner, [`AvOwner`]. Where the transport's threading level admits it, the vector is shared
/// between threads: finding a peer takes no lock, inserting and removing take one.
///
/// # References
/// - `man fi_av`
#[doc(alias = "fid_av")]
pub struct Av<'d, T: Transport> {
    raw: T::Av,
    domain: &'d Domain<T>,
    table: PeerTable<'d>,
    users: Users,
    changing: spin::Mutex<()>,
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
        if capacity == 0 || u32::try_from(capacity).is_err() {
            return Err(OpenError::Size);
        }
        // SAFETY: the domain is open and stays so: the vector is its child.
        let places = unsafe { T::av_places(domain.raw(), capacity) };
        let block = Block::new(array::<Entry>(places)?, alloc)?;
        let entries = block.ptr().cast::<Entry>();
        for index in 0..places {
            // SAFETY: the block has room for `places` entries.
            let entry = unsafe { entries.add(index) };
            // SAFETY: as above.
            unsafe { entry.write(Entry::default()) };
        }
        // SAFETY: written above. The block is freed after the vector, in `AvOwner::drop`, and the vector is only
        // ever reached by borrowing its owner: the lifetime never leaves this file.
        let entries: &'d [Entry] = unsafe { core::slice::from_raw_parts(entries.as_ptr(), places) };
        // SAFETY: as above.
        let raw = unsafe { T::av_open(domain.raw(), capacity) }?;
        domain.child_opened();
        let av =
            Av { raw, domain, table: PeerTable::new(entries), users: Users::none(), changing: spin::Mutex::new(()) };
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

    /// Takes a peer out of the vector: from now on posts to it are refused. Returns whether it was there.
    ///
    /// What the provider keeps for the address is given back at once if no endpoint is bound to the vector, else
    /// when the vector closes: libfabric leaves it undefined what happens to operations in flight.
    #[doc(alias = "fi_av_remove")]
    pub fn remove(&self, peer: Peer) -> bool {
        let _changing = self.changing.lock();
        let Some(addr) = self.table.remove(peer) else { return false };
        if self.users.are_none() {
            // SAFETY: no endpoint is bound, and binding takes the same lock, so nothing in flight refers to it.
            let _ = unsafe { T::av_remove(&self.raw, addr) };
        }
        true
    }

    /// The address of a peer, as it was inserted; `None` if the peer was removed.
    ///
    /// # Errors
    /// The provider's, if it cannot tell.
    #[doc(alias = "fi_av_lookup")]
    pub fn address(&self, peer: Peer) -> Option<Result<EndpointAddr, Errno>> {
        let _changing = self.changing.lock();
        let addr = self.table.addr(peer)?;
        // SAFETY: the address is in the vector, and removing takes the same lock.
        Some(unsafe { T::av_lookup(&self.raw, addr) })
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

    pub(crate) fn raw(&self) -> &T::Av {
        &self.raw
    }

    pub(crate) fn domain(&self) -> &'d Domain<T> {
        self.domain
    }

    /// Counts an endpoint that is about to be opened, while nobody removes an address.
    pub(crate) fn bind(&self) -> &Users {
        let _changing = self.changing.lock();
        self.users.opened();
        &self.users
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
