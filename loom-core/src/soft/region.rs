//! Regions of the software transport: memory that peers may reach, and how many of them are at it.

#![allow(unsafe_code, reason = "regions are reached from other threads while a count holds them open")]

use core::cell::{Cell, UnsafeCell};
use core::ptr::{self, NonNull};

use super::gate::{Gate, NUMBER_BITS, User};
use super::ids::DRAWN_BITS;
use super::peer_counts::PeerCount;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use crate::vocabulary::{Access, Errno, MemoryKey};

/// Where what was drawn begins in a region's key, which has the region's index below it.
const DRAWN: u32 = u64::BITS - DRAWN_BITS;

const _: () = assert!(DRAWN_BITS == NUMBER_BITS, "what was drawn is the number of the region's door");
const _: () = assert!((u16::MAX as u64) < 1 << DRAWN, "an index has room below what was drawn");

/// What a region exposes.
#[derive(Debug)]
pub(super) struct Exposed {
    pub(super) ptr: NonNull<u8>,
    pub(super) len: usize,
    pub(super) access: Access,
    /// The domain that it was opened in, for what is posted there.
    pub(super) domain: u32,
    /// What leads here, of what peers do.
    pub(super) reached: Reached,
}

/// What leads to a region.
#[derive(Debug)]
pub(super) struct Reached {
    /// The endpoints of this domain, ...
    domain: u32,
    /// ... or if it is [`NO_DOMAIN`](Self::NO_DOMAIN), the one with this fabric address.
    endpoint: AtomicU64,
}

impl Reached {
    /// Where a domain's number is; domains are counted [from one](super::ids::Ids::domain).
    const NO_DOMAIN: u32 = 0;

    /// By all endpoints of a domain.
    pub(super) fn through(domain: u32) -> Self {
        Reached { domain, endpoint: AtomicU64::new(u64::MAX) }
    }

    /// By none yet. (No endpoint is at the last place, so that none has such an address.)
    pub(super) fn by_none() -> Self {
        Reached::through(Self::NO_DOMAIN)
    }
}

/// A place for one region.
#[derive(Debug)]
pub(super) struct Region {
    /// Open while the region is, under what was drawn for its key.
    users: Gate,
    /// What counts peers' writes to the region, if anything does.
    counter: AtomicPtr<PeerCount>,
    /// Whether a region has the place, from its opening until its last user has left; changed under the network's lock. (Of the
    /// users it could not be told: a peer with an old key counts itself there before it is refused.)
    taken: Cell<bool>,
    exposed: UnsafeCell<Option<Exposed>>,
}

// SAFETY: `exposed` is written only while the place is free, so that the region is closed and no operation uses it (`open`, under
// the network's lock), and read only by users that were let in. `taken` is used under that lock.
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn new() -> Self {
        Region {
            users: Gate::new(),
            counter: AtomicPtr::new(ptr::null_mut()),
            taken: Cell::new(false),
            exposed: UnsafeCell::new(None),
        }
    }

    /// Whether no region has the place. Under the network's lock.
    pub(super) fn is_free(&self) -> bool {
        !self.taken.get()
    }

    /// Frees the place of a region that has [closed](Self::close). Under the network's lock: the thread that takes the place comes after
    /// what the users of this region have read.
    pub(super) fn free(&self) {
        self.taken.set(false);
    }

    /// Opens a free region, with what was drawn for its key. Under the network's lock.
    pub(super) fn open(&self, index: u16, drawn: u64, exposed: Exposed) -> MemoryKey {
        self.taken.set(true);
        // SAFETY: the place was free, so that no operation reads it: a late user finds the region closed before it looks.
        unsafe { *self.exposed.get() = Some(exposed) };
        self.counter.store(ptr::null_mut(), Ordering::Relaxed);
        self.users.open(drawn);
        MemoryKey(drawn << DRAWN | u64::from(index))
    }

    /// Lets peers in through an endpoint, if the region is open for one.
    pub(super) fn enable(&self, key: MemoryKey, endpoint: u64) -> Result<(), Errno> {
        let guard = self.enter(key)?;
        // Relaxed: what the region exposes came with `open`.
        guard.exposed()?.reached.endpoint.store(endpoint, Ordering::Relaxed);
        Ok(())
    }

    /// Counts from now on what peers write to the region.
    ///
    /// # Safety
    /// The count stays where it is until [`close`](Self::close) returns.
    pub(super) unsafe fn count_by(&self, count: &PeerCount) {
        // Release: pairs with the load of a peer, which may have guessed the key before it was told.
        self.counter.store(ptr::from_ref(count).cast_mut(), Ordering::Release);
    }

    /// Which place a key names.
    pub(super) fn index(key: MemoryKey) -> usize {
        usize::try_from(key.0 & ((1 << DRAWN) - 1)).unwrap_or(usize::MAX)
    }

    /// Begins to use the region; it stays open until the guard is dropped.
    #[inline]
    pub(super) fn enter(&self, key: MemoryKey) -> Result<Guard<'_>, Errno> {
        let user = self.users.enter(key.0 >> DRAWN).ok_or(Errno::ENOKEY)?;
        Ok(Guard { region: self, _user: user })
    }

    /// Closes the region, and waits for operations that are using it: each is one copy. Its place is to be [freed](Self::free).
    pub(super) fn close(&self) {
        self.users.close();
    }
}

/// A region in use.
#[derive(Debug)]
pub(super) struct Guard<'r> {
    region: &'r Region,
    _user: User<'r>,
}

impl Guard<'_> {
    #[inline]
    fn exposed(&self) -> Result<&Exposed, Errno> {
        // SAFETY: the count keeps the region open, and an open region is not written.
        unsafe { &*self.region.exposed.get() }.as_ref().ok_or(Errno::ENOKEY)
    }

    /// A peer has changed the memory.
    pub(super) fn count_write(&self) {
        // Acquire: pairs with `count_by`.
        let count = self.region.counter.load(Ordering::Acquire);
        // SAFETY: the count stays where it is until `close` returns (the promise of `count_by`), which waits for this user.
        if let Some(count) = unsafe { count.as_ref() } {
            count.add_one();
        }
    }

    /// Where the region's memory begins.
    pub(super) fn start(&self) -> Option<u64> {
        self.exposed().ok().map(|exposed| exposed.ptr.addr().get() as u64)
    }

    /// The address of a range for a peer, if it comes through an endpoint that leads here.
    #[inline]
    pub(super) fn remote_range(
        &self,
        offset: u64,
        len: usize,
        access: Access,
        domain: u32,
        endpoint: u64,
    ) -> Result<NonNull<u8>, Errno> {
        let exposed = self.exposed()?;
        let reached = &exposed.reached;
        if reached.domain != domain && reached.endpoint.load(Ordering::Relaxed) != endpoint {
            return Err(Errno::ENOKEY);
        }
        Self::range(exposed, offset, len, access)
    }

    /// The address of a range, if the region and its access allow it.
    #[inline]
    fn range(exposed: &Exposed, offset: u64, len: usize, access: Access) -> Result<NonNull<u8>, Errno> {
        let offset = Self::offset(exposed, offset, len, access)?;
        // SAFETY: within the region.
        Ok(unsafe { exposed.ptr.add(offset) })
    }

    /// Where a range begins, if the region and its access allow it.
    #[inline]
    fn offset(exposed: &Exposed, offset: u64, len: usize, access: Access) -> Result<usize, Errno> {
        if !exposed.access.contains(access) {
            return Err(Errno::EACCES);
        }
        let offset = usize::try_from(offset).map_err(|_| Errno::EFAULT)?;
        if offset.checked_add(len).is_none_or(|end| end > exposed.len) {
            return Err(Errno::EFAULT);
        }
        Ok(offset)
    }

    /// Whether a range of memory lies in the region, and may be used so. Of a region for local use this is all that is asked: its
    /// memory is reached through what is posted, and may be gone meanwhile.
    pub(super) fn covers(&self, ptr: NonNull<u8>, len: usize, access: Access, domain: u32) -> Result<(), Errno> {
        let exposed = self.exposed()?;
        if exposed.domain != domain {
            return Err(Errno::ENOKEY);
        }
        let offset = ptr.addr().get().checked_sub(exposed.ptr.addr().get()).ok_or(Errno::EFAULT)?;
        Self::offset(exposed, offset as u64, len, access).map(|_| ())
    }
}

#[cfg(all(test, feature = "std", not(loom_model)))]
impl Region {
    /// What a peer does between counting itself and seeing that its key is an old one.
    pub(super) fn count_late_user(&self) -> User<'_> {
        self.users.count_late_user()
    }
}
