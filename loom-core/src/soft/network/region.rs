//! Registered memory, open while a count holds it.

#![allow(unsafe_code, reason = "regions are reached from other threads while a count holds them open")]

use core::cell::{Cell, UnsafeCell};
use core::ptr::{self, NonNull};

use crate::soft::shared::gate::{Gate, NUMBER_BITS, User};
use crate::soft::shared::ids::DRAWN_BITS;
use crate::soft::shared::peer_counts::PeerCount;
use crate::util::sync::{AtomicPtr, AtomicU64, Ordering};
use crate::vocabulary::{Access, Errno, MemoryKey};

/// Position of the drawn number in a region's key, above the region's index.
const DRAWN: u32 = u64::BITS - DRAWN_BITS;

const _: () = assert!(DRAWN_BITS == NUMBER_BITS, "what was drawn is the number of the region's door");
const _: () = assert!((u16::MAX as u64) < 1 << DRAWN, "an index has room below what was drawn");

#[derive(Debug)]
pub(crate) struct Exposed {
    pub(crate) ptr: NonNull<u8>,
    pub(crate) len: usize,
    pub(crate) access: Access,
    /// Domain of the region, for operations that are posted there.
    pub(crate) domain: u32,
    /// Domain with endpoints by which peers reach the region, or [`NO_DOMAIN`].
    pub(crate) reached_in: u32,
    /// Fabric address of the only endpoint by which peers reach the region, without such a domain.
    pub(crate) endpoint: AtomicU64,
}

pub(crate) const NO_DOMAIN: u32 = 0;

#[derive(Debug)]
pub(crate) struct Region {
    /// Open while the region is open, under the drawn number of its key.
    users: Gate,
    /// Counter of peers' writes to the region, or null.
    counter: AtomicPtr<PeerCount>,
    /// `true` from the opening until the last user has left, under the network's lock.
    pub(crate) taken: Cell<bool>,
    exposed: UnsafeCell<Option<Exposed>>,
}

// SAFETY: `exposed` is written only while the place is free and unused (`open`, under the network's
// lock), and read only by admitted users. `taken` is used under that lock.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn new() -> Self {
        Region {
            users: Gate::new(),
            counter: AtomicPtr::new(ptr::null_mut()),
            taken: Cell::new(false),
            exposed: UnsafeCell::new(None),
        }
    }

    /// Under the network's lock.
    pub(crate) fn open(&self, index: u16, drawn: u64, exposed: Exposed) -> MemoryKey {
        self.taken.set(true);
        // SAFETY: the place was free, so no operation reads it. A late user finds the region closed
        // first.
        unsafe { *self.exposed.get() = Some(exposed) };
        self.counter.store(ptr::null_mut(), Ordering::Relaxed);
        self.users.open(drawn);
        MemoryKey(drawn << DRAWN | u64::from(index))
    }

    pub(crate) fn enable(&self, key: MemoryKey, endpoint: u64) -> Result<(), Errno> {
        let guard = self.enter(key)?;
        // Relaxed: `open` has published the exposed memory.
        guard.exposed()?.endpoint.store(endpoint, Ordering::Relaxed);
        Ok(())
    }

    /// # Safety
    /// The count stays in place until [`close`](Self::close) returns.
    pub(crate) unsafe fn count_by(&self, count: &PeerCount) {
        // Release: pairs with the load of a peer, which may have guessed the key.
        self.counter.store(ptr::from_ref(count).cast_mut(), Ordering::Release);
    }

    pub(crate) fn index(key: MemoryKey) -> usize {
        usize::try_from(key.0 & ((1 << DRAWN) - 1)).unwrap_or(usize::MAX)
    }

    #[inline]
    pub(crate) fn enter(&self, key: MemoryKey) -> Result<Guard<'_>, Errno> {
        let user = self.users.enter(key.0 >> DRAWN).ok_or(Errno::ENOKEY)?;
        Ok(Guard { region: self, _user: user })
    }

    /// Closes the region, and waits for operations that use it: each is one copy.
    pub(crate) fn close(&self) {
        self.users.close();
    }
}

#[derive(Debug)]
pub(crate) struct Guard<'r> {
    region: &'r Region,
    _user: User<'r>,
}

impl Guard<'_> {
    #[inline]
    fn exposed(&self) -> Result<&Exposed, Errno> {
        // SAFETY: the count keeps the region open, and an open region is not written.
        unsafe { &*self.region.exposed.get() }.as_ref().ok_or(Errno::ENOKEY)
    }

    pub(crate) fn count_write(&self) {
        // Acquire: pairs with `count_by`.
        let count = self.region.counter.load(Ordering::Acquire);
        // SAFETY: the caller of `count_by` keeps the count in place until `close` returns, which
        // waits for this user.
        if let Some(count) = unsafe { count.as_ref() } {
            count.add_one();
        }
    }

    pub(crate) fn start(&self) -> Option<u64> {
        self.exposed().ok().map(|exposed| exposed.ptr.addr().get() as u64)
    }

    #[inline]
    pub(crate) fn remote_range(
        &self,
        offset: u64,
        len: usize,
        access: Access,
        domain: u32,
        endpoint: u64,
    ) -> Result<NonNull<u8>, Errno> {
        let exposed = self.exposed()?;
        if exposed.reached_in != domain && exposed.endpoint.load(Ordering::Relaxed) != endpoint {
            return Err(Errno::ENOKEY);
        }
        let offset = Self::offset(exposed, offset, len, access)?;
        // SAFETY: `offset` is within the region, checked above.
        Ok(unsafe { exposed.ptr.add(offset) })
    }

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

    pub(crate) fn covers(&self, ptr: NonNull<u8>, len: usize, access: Access, domain: u32) -> Result<(), Errno> {
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
    pub(crate) fn count_late_user(&self) -> User<'_> {
        self.users.count_late_user()
    }
}
