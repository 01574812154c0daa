//! Regions and memory that a domain keeps for as long as one of its endpoints may reach them.
//!
//! Where closing a region is no fence ([`Transport::MR_CLOSE_FENCES`](crate::transport::Transport::MR_CLOSE_FENCES)), an
//! operation of a peer that began before goes on, and only the end of the endpoint that serves it ends it for certain. So
//! the memory is put on a list of the domain, and dropped when no endpoint of the domain is open. Where a region must not be closed
//! while an endpoint is open ([`Conduct::mr_close`](crate::transport::Conduct::mr_close)), it is put on another list with its memory,
//! and closed then.
//!
//! # What is decided under the lock
//!
//! 1. An endpoint is counted before it is opened, and until it is closed or left; counting takes the lock.
//! 2. The thread that finds no endpoint counted closes the kept regions before it releases the lock, so that no endpoint is opened
//!    meanwhile. Under the lock only the transport's `mr_close` runs, which does not come back here.
//! 3. The thread drops the memory afterwards, without the lock: that is user code, which may open endpoints, drop regions, and unwind.
//!    An endpoint that is opened in between does not reach the memory: its region is closed, and what peers had begun through earlier
//!    endpoints has ended with these (contract of `Transport`).
//! 4. A region is a child of the domain until it is closed. A region that fails to close stays a child for ever, and its memory is
//!    leaked.

#![allow(unsafe_code, reason = "a list of values of many types in blocks of their own")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use crate::error::OpenError;
use crate::objects::count::{Count, SharedCount};
use crate::storage::Block;
use crate::vocabulary::Errno;

/// What can be kept: memory, with an open region or without.
pub(crate) trait Lingers: Send {
    /// Closes the region. Runs under the lock, so that this is the transport's code alone.
    fn close(&mut self) -> Result<(), Errno>;
}

/// A value in a block of memory from `A`, which can outlive the name of its type.
pub(crate) struct Kept<V, A: Allocator>(NonNull<Place<V, A>>);

/// What lies in the block.
#[repr(C)]
struct Place<V, A: Allocator> {
    // First: a pointer to the link is one to the place.
    link: Link,
    value: V,
    // Last, so that it is dropped after the value, also if that unwinds.
    block: Block<A>,
}

struct Link {
    next: Option<NonNull<Link>>,
    /// Closes the region of the place that the link begins.
    close: unsafe fn(NonNull<Link>) -> Result<(), Errno>,
    /// Drops the place that the link begins, once.
    drop: unsafe fn(NonNull<Link>),
}

// SAFETY: it owns the value and the block; only these are moved to the other thread.
unsafe impl<V: Send, A: Allocator + Send> Send for Kept<V, A> {}
// SAFETY: a shared reference gives access to neither.
unsafe impl<V: Send, A: Allocator + Send> Sync for Kept<V, A> {}

impl<V: Lingers, A: Allocator> Kept<V, A> {
    pub(crate) fn new(value: V, alloc: A) -> Result<Self, OpenError> {
        /// # Safety
        /// `link` begins a `Place<V, A>`, which this call alone refers to.
        unsafe fn close_place<V: Lingers, A: Allocator>(link: NonNull<Link>) -> Result<(), Errno> {
            let place = link.cast::<Place<V, A>>().as_ptr();
            // SAFETY: the caller's promise.
            let value = unsafe { &mut (*place).value };
            value.close()
        }
        /// # Safety
        /// `link` begins a `Place<V, A>` that nobody else owns.
        unsafe fn drop_place<V, A: Allocator>(link: NonNull<Link>) {
            drop(Kept::<V, A>(link.cast()));
        }
        let block = Block::new(Self::LAYOUT, alloc)?;
        let place = block.ptr().cast();
        let link = Link { next: None, close: close_place::<V, A>, drop: drop_place::<V, A> };
        // SAFETY: the block has room for it.
        unsafe { place.write(Place { link, value, block }) };
        Ok(Kept(place))
    }
}

impl<V, A: Allocator> Kept<V, A> {
    /// The block.
    pub(crate) const LAYOUT: Layout = Layout::new::<Place<V, A>>();

    /// The value, which stays where it is.
    pub(crate) fn value(&mut self) -> &mut V {
        // SAFETY: written in `new`, and there until this owner is dropped.
        let value = unsafe { &raw mut (*self.0.as_ptr()).value };
        // SAFETY: as above; borrowed from this owner alone.
        unsafe { &mut *value }
    }

    /// The link, which owns the place from here on.
    fn into_link(self) -> NonNull<Link> {
        core::mem::ManuallyDrop::new(self).0.cast()
    }

    /// Takes the value out of the block.
    pub(crate) fn into_value(self) -> V {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: as above; this owner ends here.
        let Place { value, .. } = unsafe { this.0.read() };
        value
    }
}

impl<V, A: Allocator> Drop for Kept<V, A> {
    fn drop(&mut self) {
        // SAFETY: written in `new` and taken once, here. The place is read out of the block before the block goes.
        drop(unsafe { self.0.read() });
    }
}

/// The queues and endpoints of a domain, and what is kept until the endpoints are closed.
pub(crate) struct Lingering(spin::Mutex<State>);

struct State {
    /// Queues that are open.
    queues: Count,
    /// Endpoints that are open.
    endpoints: Count,
    /// Regions that are open, with their memory.
    regions: List,
    /// Memory of regions that are closed.
    memory: List,
}

// SAFETY: what the lists own is `Send`: `Standstill::keep` asks for it.
unsafe impl Send for State {}

impl Lingering {
    pub(crate) const fn new() -> Self {
        Lingering(spin::Mutex::new(State {
            queues: Count::NONE,
            endpoints: Count::NONE,
            regions: List(None),
            memory: List(None),
        }))
    }

    /// A queue was opened.
    pub(crate) fn queue_opened(&self) {
        let mut state = self.0.lock();
        state.queues = state.queues.one_more();
    }

    /// A queue was closed, or is not polled any more.
    pub(crate) fn queue_closed(&self) {
        let mut state = self.0.lock();
        state.queues = state.queues.one_less();
    }

    /// Whether a queue is open. Another thread may open one as soon as this returns.
    pub(crate) fn has_queues(&self) -> bool {
        !self.0.lock().queues.is_none()
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

    /// Closes what is kept and drops it, if no endpoint is open any more. `children` are those of the domain. User code runs:
    /// destructors, which may unwind.
    pub(crate) fn release(&self, children: &SharedCount) {
        let gone = {
            let mut state = self.0.lock();
            if !state.endpoints.is_none() {
                return;
            }
            while let Some(link) = state.regions.pop() {
                // SAFETY: the lists own their places, and this one is on none now.
                let Link { close, .. } = unsafe { link.read() };
                // SAFETY: as above.
                if unsafe { close(link) }.is_ok() {
                    children.remove();
                    // SAFETY: as above.
                    unsafe { state.memory.push(link) };
                }
                // Otherwise the region stays open (rule 4).
            }
            core::mem::replace(&mut state.memory, List(None))
        };
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
    /// An endpoint is open. The region can be closed as long as the domain is there, of whose children it is one.
    pub(crate) unsafe fn keep_region<V: Lingers, A: Allocator + Send + 'static>(&mut self, kept: Kept<V, A>) {
        // SAFETY: the list owns the place from here on.
        unsafe { self.0.regions.push(kept.into_link()) };
    }

    /// Keeps the memory of a region that is closed, until no endpoint is open, and drops it then.
    ///
    /// # Safety
    /// An endpoint is open.
    pub(crate) unsafe fn keep_memory<V: Lingers, A: Allocator + Send + 'static>(&mut self, kept: Kept<V, A>) {
        // SAFETY: as above.
        unsafe { self.0.memory.push(kept.into_link()) };
    }
}

/// Places that are kept. Dropping the list leaks them: an endpoint that was forgotten may reach their memory.
struct List(Option<NonNull<Link>>);

impl List {
    /// # Safety
    /// The link begins a place that nobody else owns.
    unsafe fn push(&mut self, mut link: NonNull<Link>) {
        // SAFETY: the caller's promise.
        unsafe { link.as_mut() }.next = self.0;
        self.0 = Some(link);
    }

    fn pop(&mut self) -> Option<NonNull<Link>> {
        let link = self.0?;
        // SAFETY: the list owns its places.
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
            let Link { drop, .. } = unsafe { link.read() };
            // SAFETY: as above.
            unsafe { drop(link) };
        }
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.run();
    }
}
