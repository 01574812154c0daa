//! Regions and memory that a domain keeps for as long as one of its endpoints may reach them.
//!
//! Where closing a region is no fence ([`MemoryRegions::MR_CLOSE_FENCES`](crate::transport::MemoryRegions::MR_CLOSE_FENCES)), an
//! operation of a peer that began before goes on, and only the end of the endpoint that serves it ends it for certain. So
//! the memory is put on a list of the domain, and dropped when no endpoint of the domain is open. Where a region must not be closed
//! while an endpoint is open ([`ProviderQuirks::mr_close`](crate::transport::ProviderQuirks::mr_close)), it is put on another list with its memory,
//! and closed then.
//!
//! # What is decided under the lock
//!
//! 1. An endpoint is counted before it is opened, and until it is closed or left; counting takes the lock.
//! 2. The thread that finds no endpoint counted closes the kept regions before it releases the lock, so that no endpoint is opened
//!    meanwhile. Under the lock only the transport's `mr_close` runs, which does not come back here.
//! 3. The thread drops the memory afterwards, without the lock: that is user code, which may open endpoints, drop regions, and unwind.
//!    An endpoint that is opened in between does not reach the memory: its region is closed, and what peers had begun through earlier
//!    endpoints has ended with these (P2).
//! 4. A region keeps a handle of the domain. A region that fails to close keeps it for ever, and its memory is leaked.

#![allow(unsafe_code, reason = "a list of regions of many types in blocks of their own")]

use core::ptr::NonNull;

use crate::count::Count;
use crate::notes::note;
use crate::vocabulary::Errno;

/// What can be kept begins with this: a region that is open, or its memory.
pub(crate) struct Link {
    next: Option<NonNull<Link>>,
    /// Closes the region that the link begins. Runs under the lock: this is the transport's code alone.
    close: unsafe fn(NonNull<Link>) -> Result<(), Errno>,
    /// Drops the region that the link begins, once, with its memory.
    drop: unsafe fn(NonNull<Link>),
}

impl Link {
    /// # Safety
    /// The functions can be called with the link as long as it is on a list: `close` once, and then `drop`, once and by any thread.
    pub(crate) const unsafe fn new(
        close: unsafe fn(NonNull<Link>) -> Result<(), Errno>,
        drop: unsafe fn(NonNull<Link>),
    ) -> Self {
        Link { next: None, close, drop }
    }
}

/// How many endpoints of a domain are open, and what is kept until they are closed.
pub(crate) struct DeferredClose(spin::Mutex<State>);

struct State {
    /// Endpoints that are open.
    endpoints: Count,
    /// Regions that are open, with their memory.
    regions: List,
    /// Memory of regions that are closed.
    memory: List,
}

// SAFETY: what the lists own can be dropped by any thread (`Link::new`).
unsafe impl Send for State {}

impl DeferredClose {
    pub(crate) const fn new() -> Self {
        DeferredClose(spin::Mutex::new(State { endpoints: Count::NONE, regions: List(None), memory: List(None) }))
    }

    /// Before an endpoint is opened.
    pub(crate) fn endpoint_opened(&self) {
        let mut state = self.0.lock();
        state.endpoints = state.endpoints.one_more();
    }

    /// After an endpoint was closed, or left for good. [`release`](Self::release) follows, where user code may run.
    pub(crate) fn endpoint_closed(&self) {
        let mut state = self.0.lock();
        state.endpoints = state.endpoints.one_less();
    }

    /// Keeps endpoints from being opened, and from counting as closed, for as long as the value is there. The caller runs no user code
    /// meanwhile.
    pub(crate) fn standstill(&self) -> Standstill<'_> {
        Standstill(self.0.lock())
    }

    /// Closes what is kept and drops it, if no endpoint is open any more. User code runs: destructors, which may unwind. The caller
    /// keeps a handle of the domain meanwhile.
    pub(crate) fn release(&self) {
        // Told of when the lock is released.
        let (mut closed, mut failed) = (0_usize, 0_usize);
        let gone = {
            let mut state = self.0.lock();
            if !state.endpoints.is_none() {
                return;
            }
            while let Some(link) = state.regions.pop() {
                // SAFETY: the lists own their regions, and this one is on none now.
                let Link { close, .. } = unsafe { link.as_ref() };
                // SAFETY: as above.
                if unsafe { (*close)(link) }.is_ok() {
                    closed += 1;
                    // SAFETY: as above.
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
        Gone(gone).run();
    }
}

/// The lock: the number of the domain's endpoints is what it is for as long as this is there.
pub(crate) struct Standstill<'l>(spin::MutexGuard<'l, State>);

impl Standstill<'_> {
    /// Whether an endpoint is open.
    pub(crate) fn has_endpoints(&self) -> bool {
        !self.0.endpoints.is_none()
    }

    /// Keeps an open region with its memory, until no endpoint is open: then the region is closed, and the memory dropped.
    ///
    /// # Safety
    /// An endpoint is open. The list owns the region that the link begins from here on.
    pub(crate) unsafe fn keep_region(&mut self, region: NonNull<Link>) {
        // SAFETY: the list owns the region from here on.
        unsafe { self.0.regions.push(region) };
    }

    /// Keeps the memory of a region that is closed, until no endpoint is open, and drops it then.
    ///
    /// # Safety
    /// As of [`keep_region`](Self::keep_region).
    pub(crate) unsafe fn keep_memory(&mut self, region: NonNull<Link>) {
        // SAFETY: as above.
        unsafe { self.0.memory.push(region) };
    }
}

/// Regions that are kept. Dropping the list leaks them: an endpoint that was forgotten may reach their memory.
struct List(Option<NonNull<Link>>);

impl List {
    /// # Safety
    /// The link begins a region that this link alone owns.
    unsafe fn push(&mut self, mut link: NonNull<Link>) {
        // SAFETY: the caller's promise.
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

/// A list taken off a domain; what a destructor that unwinds leaves is dropped too.
struct Gone(List);

impl Gone {
    fn run(&mut self) {
        while let Some(link) = self.0.pop() {
            // SAFETY: taken off the list, which owned it.
            let Link { drop, .. } = unsafe { link.as_ref() };
            // SAFETY: as above.
            unsafe { (*drop)(link) };
        }
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.run();
    }
}
