//! Memory of closed regions that a domain keeps for as long as one of its endpoints may reach it.
//!
//! Where closing a region is no fence ([`Transport::MR_CLOSE_FENCES`](crate::transport::Transport::MR_CLOSE_FENCES)), an
//! operation of a peer that began before goes on, and only the end of the endpoint that serves it ends it for certain. So
//! the memory is put on a list of the domain, and dropped when no endpoint of the domain is open.

#![allow(unsafe_code, reason = "a list of values of many types in blocks of their own")]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use crate::error::OpenError;
use crate::objects::count::Count;
use crate::storage::Block;

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
    /// Drops the place that the link begins, once.
    drop: unsafe fn(NonNull<Link>),
}

// SAFETY: it owns the value and the block; only these are moved to the other thread.
unsafe impl<V: Send, A: Allocator + Send> Send for Kept<V, A> {}
// SAFETY: a shared reference gives access to neither.
unsafe impl<V: Send, A: Allocator + Send> Sync for Kept<V, A> {}

impl<V, A: Allocator> Kept<V, A> {
    /// The block.
    pub(crate) const LAYOUT: Layout = Layout::new::<Place<V, A>>();

    pub(crate) fn new(value: V, alloc: A) -> Result<Self, OpenError> {
        /// # Safety
        /// `link` begins a `Place<V, A>` that nobody else owns.
        unsafe fn drop_place<V, A: Allocator>(link: NonNull<Link>) {
            drop(Kept::<V, A>(link.cast()));
        }
        let block = Block::new(Self::LAYOUT, alloc)?;
        let place = block.ptr().cast();
        let link = Link { next: None, drop: drop_place::<V, A> };
        // SAFETY: the block has room for it.
        unsafe { place.write(Place { link, value, block }) };
        Ok(Kept(place))
    }

    /// The value, which stays where it is.
    pub(crate) fn value(&mut self) -> &mut V {
        // SAFETY: written in `new`, and there until this owner is dropped.
        let value = unsafe { &raw mut (*self.0.as_ptr()).value };
        // SAFETY: as above; borrowed from this owner alone.
        unsafe { &mut *value }
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
    first: Option<NonNull<Link>>,
}

// SAFETY: what the list owns is `Send`: `Lingering::keep` asks for it.
unsafe impl Send for State {}

impl Lingering {
    pub(crate) const fn new() -> Self {
        Lingering(spin::Mutex::new(State { queues: Count::NONE, endpoints: Count::NONE, first: None }))
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

    /// Whether a queue is open.
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

    /// Whether an endpoint is open.
    pub(crate) fn has_endpoints(&self) -> bool {
        !self.0.lock().endpoints.is_none()
    }

    /// Does something while no endpoint can be opened; not if one is open.
    pub(crate) fn without_endpoints<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        let state = self.0.lock();
        state.endpoints.is_none().then(f)
    }

    /// Keeps a value until no endpoint is open, and drops it then: at once, if none is.
    ///
    /// # Safety
    /// The value can be dropped as long as the domain is there.
    pub(crate) unsafe fn keep<V: Send, A: Allocator + Send + 'static>(&self, kept: Kept<V, A>) {
        let mut state = self.0.lock();
        if state.endpoints.is_none() {
            drop(state);
            drop(kept);
            return;
        }
        let mut link = core::mem::ManuallyDrop::new(kept).0.cast::<Link>();
        // SAFETY: the list owns the place from here on, and nobody else refers to it.
        unsafe { link.as_mut() }.next = state.first;
        state.first = Some(link);
    }

    /// Drops what is kept, if no endpoint is open any more. User code runs: destructors, which may unwind.
    pub(crate) fn release(&self) {
        let taken = {
            let mut state = self.0.lock();
            if state.endpoints.is_none() { state.first.take() } else { None }
        };
        Taken(taken).run();
    }
}

/// A list taken off a domain; what a destructor that unwinds leaves is dropped too.
struct Taken(Option<NonNull<Link>>);

impl Taken {
    fn run(&mut self) {
        while let Some(link) = self.0 {
            // SAFETY: the list owns its places.
            let Link { next, drop } = unsafe { link.read() };
            self.0 = next;
            // SAFETY: taken off the list above.
            unsafe { drop(link) };
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.run();
    }
}
