//! [`Region`]: a region with its memory, in its own block, and how it is closed.

#![allow(unsafe_code, reason = "keeps memory for as long as peers reach it")]

use core::cell::{Cell, UnsafeCell};
use core::mem::{ManuallyDrop, MaybeUninit, offset_of};
use core::ptr::NonNull;

use super::Mr;
use crate::Error;
use crate::buffer::Buffer;
use crate::domain::DomainInner;
use crate::domain::reclaim::{Link, Standstill};
use crate::domain::scope_registry::{Closing, Node, Rank, ScopeRef};
use crate::error::Rejected;
use crate::exposed::Window;
use crate::storage::handle::{Bond, Ended, Handle, HandleBlock, Object};
use crate::transport::Transport;
use crate::util::log::note;
use crate::vocabulary::{Access, Errno, MrMode};

#[repr(C)]
pub(crate) struct Region<T: Transport, M> {
    // First field: a pointer to the link is a pointer to the region.
    link: Link,
    pub(super) node: Node,
    /// Initialised once the region is open.
    raw: UnsafeCell<MaybeUninit<T::Mr>>,
    state: Cell<State>,
    pub(super) domain: Handle<'static, DomainInner<T>>,
    /// [`Mr::window`] shortens the lifetime to a borrow of the region.
    pub(super) window: Window<'static>,
    /// First byte and length, also of memory without a window.
    pub(super) range: (u64, u64),
    pub(super) access: Access,
    /// `true` if peers do not use the memory after closing returns.
    pub(super) fenced: bool,
    /// Bond of the counter, kept while peers may reach the memory.
    pub(super) counter: Cell<Option<Bond>>,
    /// Not referenced while the region is open: peers write to it, and it may lie in this block.
    pub(super) memory: UnsafeCell<ManuallyDrop<M>>,
}

#[derive(Clone, Copy)]
enum State {
    /// Closed, or not open yet.
    Closed,
    Open,
    /// The provider failed to close it, so peers may still reach the memory.
    Failed(Errno),
    /// The memory was taken.
    Over,
}

impl<T: Transport, M: Buffer + Send> Region<T, M> {
    pub(super) fn new(domain: Handle<'static, DomainInner<T>>, memory: M, fenced: bool) -> Self {
        // SAFETY: the link begins a region of this type in its block. The list owns the region and
        // its memory, which is `Send`.
        let link = unsafe { Link::new(Self::close_linked, Self::drop_linked) };
        // SAFETY: the node lies in a region of this type in its block.
        let node = unsafe { Node::new(&const { Closing { rank: Rank::Region, close: Self::close_scoped } }) };
        Region {
            link,
            node,
            raw: UnsafeCell::new(MaybeUninit::uninit()),
            state: Cell::new(State::Closed),
            domain,
            // SAFETY: the window is empty.
            window: unsafe { Window::new(NonNull::dangling(), 0, false) },
            range: (0, 0),
            access: Access::empty(),
            fenced,
            counter: Cell::new(None),
            memory: UnsafeCell::new(ManuallyDrop::new(memory)),
        }
    }

    pub(super) fn opened(&mut self, raw: T::Mr, window: Window<'static>, range: (u64, u64), access: Access) {
        self.raw.get_mut().write(raw);
        self.window = window;
        self.range = range;
        self.access = access;
        self.state.set(State::Open);
    }

    /// # Safety
    /// The region is open, and only the caller refers to the raw region.
    #[expect(clippy::mut_from_ref, reason = "others may look at the node meanwhile, and at nothing else")]
    pub(super) unsafe fn raw_mut(&self) -> &mut T::Mr {
        // SAFETY: the caller guarantees that only it refers to the raw region.
        let raw = unsafe { &mut *self.raw.get() };
        // SAFETY: the caller guarantees that the region is open, so `raw` is initialised.
        unsafe { raw.assume_init_mut() }
    }

    /// # Safety
    /// The link begins an open region that only the caller uses during this call.
    unsafe fn close_linked(link: NonNull<Link>) -> Result<(), Errno> {
        // SAFETY: the caller guarantees that the link begins a region.
        let region = unsafe { link.cast::<Self>().as_ref() };
        region.close().inspect_err(|_| region.leave_counter())
    }

    /// # Safety
    /// The link begins a region, and the caller gives up a handle of it.
    unsafe fn drop_linked(link: NonNull<Link>) {
        // SAFETY: every region lies in a `HandleBlock`.
        let place = unsafe { HandleBlock::of(link.cast::<Self>()) };
        // SAFETY: the caller gives up the handle.
        drop(unsafe { Handle::<Self>::from_raw(place) });
    }

    /// # Safety
    /// The node lies in a region that is not used any more.
    unsafe fn close_scoped(node: NonNull<Node>, scope: ScopeRef) {
        // SAFETY: the caller guarantees that the node lies in a region.
        let region = unsafe { node.cast::<u8>().sub(offset_of!(Self, node)) }.cast::<Self>();
        // SAFETY: the caller guarantees that the region exists and is not used.
        let region = unsafe { region.as_ref() };
        if !region.is_here() {
            return;
        }
        // SAFETY: moved out once: the block is leaked, so the region does not drop its handle.
        let domain = unsafe { core::ptr::read(&raw const region.domain) };
        // Without a fence, the standstill prevents new endpoints until the region is closed.
        let standstill = (!region.fenced).then(|| domain.reclaim.standstill());
        if standstill.as_ref().is_some_and(Standstill::has_endpoints) {
            crate::util::abort::abort(
                "endpoints are open at the end of a scope whose borrowed memory peers may reach through them",
            );
        }
        if region.close().is_err() {
            crate::util::abort::abort("a provider failed to close a memory region whose memory is borrowed");
        }
        drop(standstill);
        note!(warn, "left", "region of {} bytes was forgotten in a scope: its memory is leaked", region.range.1);
        if let Some(counter) = region.counter.take() {
            counter.forget();
        }
        DomainInner::after_scope(domain, scope);
    }
}

impl<T: Transport, M> Region<T, M> {
    pub(super) fn raw(&self) -> &T::Mr {
        // SAFETY: the raw region does not change once an `Mr` exists, which is open and enabled.
        let raw = unsafe { &*self.raw.get() };
        // SAFETY: the region is open, so `raw` is initialised.
        unsafe { raw.assume_init_ref() }
    }

    /// Closes the region if it is open, so that peers' operations on it cannot begin. A failed
    /// close is reported again, not retried.
    fn close(&self) -> Result<(), Errno> {
        match self.state.get() {
            State::Closed | State::Over => return Ok(()),
            State::Failed(errno) => return Err(errno),
            State::Open => {}
        }
        // SAFETY: open (H1) and closed once (H3): the state changes below, whatever the result.
        let closed = unsafe { T::mr_close(self.raw()) };
        self.state.set(closed.map_or_else(State::Failed, |()| State::Closed));
        closed
    }

    /// Returns `true` if the provider may use the region after a close during a peer's operation.
    fn is_used_when_closed(&self) -> bool {
        let info = self.domain.info();
        let bound = info.attributes().domain.mr_mode.contains(MrMode::ENDPOINT);
        !self.fenced && !bound && !T::quirks(info.raw()).mr_close
    }

    /// Leaves the counter open with the region: peers' operations may still be counted.
    fn leave_counter(&self) {
        self.counter.set(self.counter.take().inspect(Bond::leave));
    }

    fn take_memory(&self) -> Option<M> {
        if !matches!(self.state.replace(State::Over), State::Closed) {
            return None;
        }
        self.node.unregister();
        let counter = self.counter.take();
        // SAFETY: the region is closed, so the memory is not in use.
        let memory = unsafe { &mut *self.memory.get() };
        // SAFETY: taken once: the state has changed.
        let memory = unsafe { ManuallyDrop::take(memory) };
        drop(counter);
        Some(memory)
    }
}

impl<T: Transport, M> Object for Region<T, M> {
    const ONE_THREAD: bool = false;

    fn is_here(&self) -> bool {
        self.domain.is_here()
    }

    unsafe fn end(this: NonNull<Self>, _: bool) -> Ended {
        // SAFETY: `end` is called once, after the last handle has gone.
        let this = unsafe { this.as_ref() };
        if let State::Open | State::Failed(_) = this.state.get() {
            // Peers may still reach the memory.
            return Ended::Kept;
        }
        drop(this.take_memory());
        Ended::Free
    }
}

pub(super) enum Fate {
    /// Closed: peers cannot reach the memory.
    Over,
    Failed(Errno),
    /// Kept on a list of the domain.
    Kept,
}

/// Once the region is closed or kept, `released` releases the objects that it keeps open.
pub(super) fn close_dropped<T: Transport, M: Buffer + Send>(
    region: &Handle<'_, Region<T, M>>,
    released: impl FnOnce(),
) -> Fate {
    let domain = region.domain.clone();
    // Before the lock: later endpoints cannot reach the region.
    let mut closed = (!region.is_used_when_closed()).then(|| region.close());
    let mut standstill = domain.reclaim.standstill();
    let reached = standstill.has_endpoints() && !region.fenced;
    if closed.is_none() && !reached {
        closed = Some(region.close());
    }
    // On failure peers may still reach the memory, which is leaked.
    if let Some(Err(errno)) = closed {
        drop(standstill);
        region.leave_counter();
        return Fate::Failed(errno);
    }
    if !reached {
        drop(standstill);
        released();
        return Fate::Over;
    }
    // From the handle: the link's pointer covers the whole region. The counter stays with the
    // memory (N2).
    let link = region.value_ptr().cast::<Link>();
    // SAFETY: an endpoint is open, and the caller gives up the handle.
    unsafe { standstill.keep(link, closed.is_some()) };
    drop(standstill);
    released();
    Fate::Kept
}

impl<T: Transport, M: Buffer + Send, H> Mr<'_, T, M, H> {
    /// Closes the region and returns the memory.
    ///
    /// ```
    /// use loom_core::{Access, Mr, Rejected};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let region = Mr::open(&domain, vec![7; 8], Access::REMOTE_READ)?;
    /// let endpoint = cq.endpoint(&av)?;
    /// let memory = match region.close() {
    ///     Ok(memory) => memory,
    ///     // Peers may still reach the memory through the endpoint.
    ///     Err(Rejected { value: Some(region), .. }) => { drop(endpoint); region.close()? }
    ///     Err(error) => return Err(error.into()),
    /// };
    /// assert_eq!(memory, [7; 8]);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::StillReached`], with the open region, if an endpoint of the domain is open, and
    ///   the transport cannot stop peers' access through it. Software networks can, unless strict.
    ///   A region bound to an endpoint ([`EndpointMr`](super::EndpointMr)) always returns this
    ///   error: drop it with the endpoint
    /// - [`Error::Provider`], without the region, if the provider fails to close it. The memory is
    ///   then leaked, because peers may still reach it
    pub fn close(self) -> Result<M, Rejected<Option<Self>, Error>> {
        let domain = self.region.domain.clone();
        if !domain.is_here() {
            return Err(leaked(Errno::OTHER_PROCESS));
        }
        let standstill = (!self.region.fenced).then(|| domain.reclaim.standstill());
        if standstill.as_ref().is_some_and(Standstill::has_endpoints) {
            drop(standstill);
            return Err(Rejected { value: Some(self), error: Error::StillReached });
        }
        let closed = self.region.close();
        drop(standstill);
        closed.map_err(leaked)?;
        // No endpoint was open at the close, or closing is a fence.
        self.into_memory().ok_or_else(|| leaked(Errno::ENOENT))
    }

    /// Closes the region and returns the memory, even while endpoints are open.
    ///
    /// # Errors
    /// Those of the provider. The memory is then leaked.
    ///
    /// # Safety
    /// No peer operation on the region is in flight or begins: the peers' protocol ensures that all
    /// have ended.
    pub unsafe fn close_finished(self) -> Result<M, Errno> {
        self.region.close()?;
        self.into_memory().ok_or(Errno::ENOENT)
    }

    fn into_memory(self) -> Option<M> {
        let memory = self.region.take_memory();
        note!(debug, "close", "region of {} bytes is closed", self.region.range.1);
        let mut this = ManuallyDrop::new(self);
        // SAFETY: dropped once, here.
        unsafe {
            ManuallyDrop::drop(&mut this.hold);
            ManuallyDrop::drop(&mut this.region);
        }
        memory
    }
}

const fn leaked<R>(errno: Errno) -> Rejected<Option<R>, Error> {
    Rejected { value: None, error: Error::Provider(errno) }
}
