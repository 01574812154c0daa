//! Regions and memory that a domain keeps while its endpoints may access them.
//!
//! Where closing a region is no fence
//! ([`MemoryRegions::MR_CLOSE_FENCES`](crate::transport::MemoryRegions::MR_CLOSE_FENCES)), earlier
//! operations of peers end for certain only with the endpoint that serves them. The domain
//! therefore keeps the memory, and regions that must not be closed before
//! ([`ProviderQuirks::mr_close`](crate::transport::ProviderQuirks::mr_close)), until none of its
//! endpoints is open.
//!
//! # Rules of the lock
//! 1. An endpoint is counted from before it is opened until it is closed or left. Counting takes
//!    the lock.
//! 2. A thread that finds no counted endpoint closes the kept regions before it releases the lock,
//!    so that no endpoint is opened meanwhile. Under the lock only the transport's `mr_close` runs,
//!    which does not call back.
//! 3. The thread then drops the memory without the lock, which runs user code that may open
//!    endpoints, drop regions, and unwind. A new endpoint does not access the memory: its region is
//!    closed, and operations of peers ended with the earlier endpoints (P2).
//! 4. A region keeps a handle of the domain. A region that fails to close keeps it for ever, and
//!    its memory is leaked.

#![allow(unsafe_code, reason = "a list of regions of many types in blocks of their own")]

use core::ptr::NonNull;

use crate::util::count::Count;
use crate::util::log::note;
use crate::util::on_drop::for_each;
use crate::vocabulary::Errno;

pub(crate) struct Link {
    next: Option<NonNull<Link>>,
    /// Runs under the lock, and only code of the transport.
    close: unsafe fn(NonNull<Link>) -> Result<(), Errno>,
    drop: unsafe fn(NonNull<Link>),
}

impl Link {
    /// # Safety
    /// While the link is on a list, `close` may be called with it once, and then `drop` once by any
    /// thread.
    pub(crate) const unsafe fn new(
        close: unsafe fn(NonNull<Link>) -> Result<(), Errno>,
        drop: unsafe fn(NonNull<Link>),
    ) -> Self {
        Link { next: None, close, drop }
    }
}

pub(crate) struct Reclaim(spin::Mutex<State>);

struct State {
    endpoints: Count,
    /// Open regions, with their memory.
    regions: List,
    /// Memory of closed regions.
    memory: List,
}

// SAFETY: any thread may drop the items that the lists own (`Link::new`).
unsafe impl Send for State {}

impl Reclaim {
    pub(crate) const fn new() -> Self {
        Reclaim(spin::Mutex::new(State { endpoints: Count::NONE, regions: List(None), memory: List(None) }))
    }

    pub(crate) fn endpoint_opened(&self) {
        let mut state = self.0.lock();
        state.endpoints = state.endpoints.one_more();
    }

    pub(crate) fn endpoint_closed(&self) {
        let mut state = self.0.lock();
        state.endpoints = state.endpoints.one_less();
    }

    /// Fixes the number of endpoints while the guard exists. The caller runs no user code
    /// meanwhile.
    pub(crate) fn standstill(&self) -> Standstill<'_> {
        Standstill(self.0.lock())
    }

    /// Runs destructors, which are user code and may unwind. The caller keeps a handle of the
    /// domain.
    pub(crate) fn release(&self) {
        // Logged without the lock.
        let (mut closed, mut failed) = (0_usize, 0_usize);
        let mut gone = {
            let mut state = self.0.lock();
            if !state.endpoints.is_none() {
                return;
            }
            while let Some(link) = state.regions.pop() {
                // SAFETY: the list owned the region, and `pop` removed it.
                let Link { close, .. } = unsafe { link.as_ref() };
                // SAFETY: removed from the list, so `close` is called once (`Link::new`).
                if unsafe { (*close)(link) }.is_ok() {
                    closed += 1;
                    // SAFETY: removed from the list, so this link alone owns the region.
                    unsafe { state.memory.push(link) };
                } else {
                    // The region stays open (rule 4).
                    failed += 1;
                }
            }
            core::mem::replace(&mut state.memory, List(None))
        };
        if closed > 0 {
            note!(debug, "close", "regions that were kept until no endpoint was open are closed: {closed}");
        }
        if failed > 0 {
            note!(
                warn,
                "left",
                "regions that the provider failed to close stay open, and their memory is leaked: {failed}"
            );
        }
        for_each(core::iter::from_fn(|| gone.pop()), |link| {
            // SAFETY: the list owned the region, and `pop` removed it.
            let Link { drop, .. } = unsafe { link.as_ref() };
            // SAFETY: removed from the list, so `drop` is called once (`Link::new`).
            unsafe { (*drop)(link) };
        });
    }
}

pub(crate) struct Standstill<'l>(spin::MutexGuard<'l, State>);

impl Standstill<'_> {
    pub(crate) fn has_endpoints(&self) -> bool {
        !self.0.endpoints.is_none()
    }

    /// # Safety
    /// An endpoint is open. From here on the list owns the region of the link, which is closed if
    /// `is_closed`.
    pub(crate) unsafe fn keep(&mut self, region: NonNull<Link>, is_closed: bool) {
        let list = if is_closed { &mut self.0.memory } else { &mut self.0.regions };
        // SAFETY: the caller gives the region to the list.
        unsafe { list.push(region) };
    }
}

/// Dropping the list leaks the regions, because a forgotten endpoint may access their memory.
struct List(Option<NonNull<Link>>);

impl List {
    /// # Safety
    /// The link begins a region that this link alone owns.
    unsafe fn push(&mut self, mut link: NonNull<Link>) {
        // SAFETY: the caller guarantees that this link alone owns the region.
        unsafe { link.as_mut() }.next = self.0;
        self.0 = Some(link);
    }

    fn pop(&mut self) -> Option<NonNull<Link>> {
        let link = self.0?;
        // SAFETY: the list owns its regions.
        self.0 = unsafe { link.as_ref() }.next;
        Some(link)
    }
}
