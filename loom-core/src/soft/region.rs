//! Regions of the software transport: memory that peers may reach, and how many of them are at it.

#![allow(unsafe_code, reason = "regions are reached from other threads while a count holds them open")]

use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;

use super::numbers::DRAWN_BITS;
use crate::sync::{AtomicU64, Ordering};
use crate::vocabulary::{Access, Errno, MemoryKey};

/// Set while the region is open; below it, how many operations use it; above it, what was drawn for its key.
const OPEN: u64 = 1 << 17;
const USERS: u64 = OPEN - 1;

/// Where what was drawn begins, in a region's state and in its key. The key has the region's index below it.
const DRAWN: u32 = u64::BITS - DRAWN_BITS;

const _: () = assert!(OPEN << 1 == 1 << DRAWN, "nothing lies between");
// An operation uses one region at a time, and an endpoint is in one operation at a time.
const _: () = assert!(USERS >= u16::MAX as u64, "the users are fewer than the endpoints of a network");
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
    /// ... or if it is [`NOBODY`](Self::NOBODY), the one with this fabric address.
    endpoint: AtomicU64,
}

impl Reached {
    /// Where a domain's number is; domains are counted [from one](super::numbers::Numbers::domain).
    const NOBODY: u32 = 0;

    /// By all endpoints of a domain.
    pub(super) fn through(domain: u32) -> Self {
        Reached { domain, endpoint: AtomicU64::new(u64::MAX) }
    }

    /// By none yet. (No endpoint is at the last place, so that none has such an address.)
    pub(super) fn by_nobody() -> Self {
        Reached::through(Self::NOBODY)
    }
}

/// A place for one region.
#[derive(Debug)]
pub(super) struct Region {
    state: AtomicU64,
    /// Whether a region has the place, from its opening until its last user has left; changed under the network's lock. (Of the
    /// state it could not be told: a peer with an old key counts itself there before it is refused.)
    taken: Cell<bool>,
    exposed: UnsafeCell<Option<Exposed>>,
}

// SAFETY: `exposed` is written only while the place is free, so that the region is closed and no operation uses it (`open`, under
// the network's lock), and read only by users that the state has admitted. `taken` is used under that lock.
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn new() -> Self {
        Region { state: AtomicU64::new(0), taken: Cell::new(false), exposed: UnsafeCell::new(None) }
    }

    /// Whether no region has the place. Under the network's lock.
    pub(super) fn is_free(&self) -> bool {
        !self.taken.get()
    }

    /// Frees the place of a region that has [closed](Self::close). Under the network's lock: whoever takes the place comes after
    /// what the users of this region have read.
    pub(super) fn free(&self) {
        self.taken.set(false);
    }

    /// Opens a free region, with what was drawn for its key. Under the network's lock.
    pub(super) fn open(&self, index: u16, drawn: u64, exposed: Exposed) -> MemoryKey {
        self.taken.set(true);
        // SAFETY: the place was free, so that no operation reads it: a late user finds the region closed before it looks.
        unsafe { *self.exposed.get() = Some(exposed) };
        // Release: whoever finds the region open sees what it exposes. An addition, because a late user of the region
        // before may be adding and taking back its own count at this moment.
        let before = self.state.load(Ordering::Relaxed) >> DRAWN << DRAWN;
        self.state.fetch_add((drawn << DRAWN).wrapping_sub(before).wrapping_add(OPEN), Ordering::Release);
        MemoryKey(drawn << DRAWN | u64::from(index))
    }

    /// Lets peers in through an endpoint, if the region is open for one.
    pub(super) fn enable(&self, key: MemoryKey, endpoint: u64) -> Result<(), Errno> {
        let guard = self.enter(key)?;
        // Relaxed: what the region exposes came with `open`.
        guard.exposed()?.reached.endpoint.store(endpoint, Ordering::Relaxed);
        Ok(())
    }

    /// Which place a key names.
    pub(super) fn index(key: MemoryKey) -> usize {
        usize::try_from(key.0 & ((1 << DRAWN) - 1)).unwrap_or(usize::MAX)
    }

    /// Begins to use the region; it stays open until the guard is dropped.
    #[inline]
    pub(super) fn enter(&self, key: MemoryKey) -> Result<Guard<'_>, Errno> {
        // Acquire: pairs with `open`. Counting comes first, so that `close` either sees the user or the user sees
        // that the region is closed.
        let state = self.state.fetch_add(1, Ordering::Acquire);
        let guard = Guard(self);
        if state & OPEN == 0 || state >> DRAWN != key.0 >> DRAWN { Err(Errno::ENOKEY) } else { Ok(guard) }
    }

    /// Closes the region, and waits for operations that are using it: each is one copy. Its place is to be [freed](Self::free).
    pub(super) fn close(&self) {
        self.state.fetch_and(!OPEN, Ordering::Relaxed);
        // Acquire: pairs with the guards' release, so that their copies are over.
        while self.state.load(Ordering::Acquire) & USERS != 0 {
            crate::sync::spin_loop();
        }
    }
}

/// A region in use.
#[derive(Debug)]
pub(super) struct Guard<'r>(&'r Region);

impl Guard<'_> {
    #[inline]
    fn exposed(&self) -> Result<&Exposed, Errno> {
        // SAFETY: the count keeps the region open, and an open region is not written.
        unsafe { &*self.0.exposed.get() }.as_ref().ok_or(Errno::ENOKEY)
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
    pub(super) fn count_late_user(&self) -> Guard<'_> {
        self.state.fetch_add(1, Ordering::Relaxed);
        Guard(self)
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: the copy is over before `close` sees the count fall.
        self.0.state.fetch_sub(1, Ordering::Release);
    }
}
