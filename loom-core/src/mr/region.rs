//! [`Region`]: an open region with its memory, in a block of its own, and how it is closed.

#![allow(unsafe_code, reason = "keeps memory for as long as peers reach it")]

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit, offset_of};
use core::ptr::NonNull;

use super::Mr;
use crate::buffer::Buffer;
use crate::domain::DomainInner;
use crate::exposed::Window;
use crate::handle::{Bond, Ended, Handle, HandleBlock, Head, Object};
use crate::notes::note;
use crate::reclaim::{Link, Standstill};
use crate::scope_registry::{Closing, Node, Rank, ScopeRef};
use crate::transport::Transport;
use crate::vocabulary::{Access, Errno, MrMode};

/// A region and the memory that it registers.
#[repr(C)]
pub(crate) struct Region<T: Transport, M> {
    // First: a pointer to the link is one to the region.
    link: Link,
    pub(super) node: Node,
    /// Written when it is open.
    raw: UnsafeCell<MaybeUninit<T::Mr>>,
    state: Cell<State>,
    pub(super) domain: Handle<'static, DomainInner<T>>,
    /// The memory, for as long as the region is open: [`Mr::window`] shortens the lifetime to a borrow of the region.
    pub(super) window: Window<'static>,
    /// First byte and length, also of memory that no window shows.
    pub(super) range: (u64, u64),
    pub(super) access: Access,
    /// Peers do not use the memory any more when closing the region returns.
    pub(super) fenced: bool,
    /// Of what counts peers' writes: for as long as they may reach the memory.
    counter: Cell<Option<Bond>>,
    /// Not referred to while the region is open: peers write to it, and it may lie in here.
    memory: UnsafeCell<ManuallyDrop<M>>,
}

#[derive(Clone, Copy)]
enum State {
    /// Or not open yet.
    Closed,
    Open,
    /// The provider failed to close it: peers may still reach the memory.
    Failed(Errno),
    /// The memory was taken.
    Over,
}

impl<T: Transport, M: Buffer + Send> Region<T, M> {
    /// One that is to be opened.
    pub(super) fn new(domain: Handle<'static, DomainInner<T>>, memory: M, fenced: bool) -> Self {
        // SAFETY: the link and the node begin, and lie in, a region of this type in its block. The list owns what it drops, whose
        // memory is `Send`.
        let link = unsafe { Link::new(Self::close_linked, Self::drop_linked) };
        // SAFETY: as above.
        let node = unsafe { Node::new(&const { Closing { rank: Rank::Region, close: Self::close_scoped } }) };
        Region {
            link,
            node,
            raw: UnsafeCell::new(MaybeUninit::uninit()),
            state: Cell::new(State::Closed),
            domain,
            // SAFETY: of nothing.
            window: unsafe { Window::new(NonNull::dangling(), 0, false) },
            range: (0, 0),
            access: Access::empty(),
            fenced,
            counter: Cell::new(None),
            memory: UnsafeCell::new(ManuallyDrop::new(memory)),
        }
    }

    /// The memory, before the region is open.
    pub(super) fn memory(&mut self) -> &mut M {
        self.memory.get_mut()
    }

    /// Notes that the region is open.
    pub(super) fn opened(&mut self, raw: T::Mr, window: Window<'static>, range: (u64, u64), access: Access) {
        self.raw.get_mut().write(raw);
        self.window = window;
        self.range = range;
        self.access = access;
        self.state.set(State::Open);
    }

    /// The raw region, to be bound and enabled before peers reach the memory.
    ///
    /// # Safety
    /// It is open, and the caller alone refers to it.
    #[expect(clippy::mut_from_ref, reason = "others may look at the node meanwhile, and at nothing else")]
    pub(super) unsafe fn raw_mut(&self) -> &mut T::Mr {
        // SAFETY: the caller's promise.
        let raw = unsafe { &mut *self.raw.get() };
        // SAFETY: as above.
        unsafe { raw.assume_init_mut() }
    }

    pub(super) fn count_by(&self, counter: Bond) {
        self.counter.set(Some(counter));
    }

    /// # Safety
    /// The link begins an open region, which the caller alone uses meanwhile.
    unsafe fn close_linked(link: NonNull<Link>) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let region = unsafe { link.cast::<Self>().as_ref() };
        region.close().inspect_err(|_| region.leave_counter())
    }

    /// # Safety
    /// The link begins a region whose handle is given up.
    unsafe fn drop_linked(link: NonNull<Link>) {
        // SAFETY: a region lies in its place.
        let place = unsafe { HandleBlock::of(link.cast::<Self>()) };
        // SAFETY: the caller's promise.
        drop(unsafe { Handle::<Self>::from_raw(place) });
    }

    /// At the end of its scope: the region was forgotten, or an endpoint is left by which peers reach it.
    ///
    /// # Safety
    /// The node lies in a region, which is not used any more.
    unsafe fn close_scoped(node: NonNull<Node>, scope: ScopeRef) {
        // SAFETY: the caller's promise.
        let region = unsafe { node.cast::<u8>().sub(offset_of!(Self, node)) }.cast::<Self>();
        // SAFETY: as above.
        let region = unsafe { region.as_ref() };
        if !region.is_here() {
            return;
        }
        // SAFETY: the region's own, which gives it up with this: the block stays.
        let domain = unsafe { core::ptr::read(&raw const region.domain) };
        // Where closing is no fence, no endpoint is open now, and none is opened before the region is closed.
        let standstill = (!region.fenced).then(|| domain.deferred_close().standstill());
        if standstill.as_ref().is_some_and(Standstill::has_endpoints) {
            crate::abort::abort(
                "endpoints are open at the end of a scope whose borrowed memory peers may reach through them",
            );
        }
        if region.close().is_err() {
            crate::abort::abort("a provider failed to close a memory region whose memory is borrowed");
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
    /// The raw region, which is open.
    pub(super) fn raw(&self) -> &T::Mr {
        // SAFETY: it does not change any more: an `Mr` is given out when its region is open and enabled.
        let raw = unsafe { &*self.raw.get() };
        // SAFETY: as above.
        unsafe { raw.assume_init_ref() }
    }

    /// Closes the region, if it is open: no operation of a peer on it begins any more. A close that failed is reported again, and not
    /// retried.
    fn close(&self) -> Result<(), Errno> {
        match self.state.get() {
            State::Closed | State::Over => return Ok(()),
            State::Failed(errno) => return Err(errno),
            State::Open => {}
        }
        // SAFETY: the region is open (C1), and closed once (C3): the state changes below whatever comes back.
        let closed = unsafe { T::mr_close(self.raw()) };
        self.state.set(closed.map_or_else(State::Failed, |()| State::Closed));
        closed
    }

    /// Whether the provider may go on looking at the region when it is closed in the middle of a peer's operation. (One that is
    /// bound to an endpoint is closed before it in any case.)
    fn is_used_when_closed(&self) -> bool {
        let info = self.domain.info();
        let bound = info.attributes().domain.mr_mode.contains(MrMode::ENDPOINT);
        !self.fenced && !bound && !T::quirks(info.raw()).mr_close
    }

    /// The region stays open for good, and so does its counter, where it is: what peers do may still be counted.
    fn leave_counter(&self) {
        self.counter.set(self.counter.take().inspect(Bond::leave));
    }

    /// The memory of a region that is closed, which peers do not reach any more.
    fn take_memory(&self) -> Option<M> {
        if !matches!(self.state.replace(State::Over), State::Closed) {
            return None;
        }
        self.node.unregister();
        let counter = self.counter.take();
        // SAFETY: closed, so that it is not in use; taken once: the state has changed.
        let memory = unsafe { &mut *self.memory.get() };
        // SAFETY: as above.
        let memory = unsafe { ManuallyDrop::take(memory) };
        drop(counter);
        Some(memory)
    }
}

// SAFETY: a place begins with its head.
unsafe impl<T: Transport, M> Object for Region<T, M> {
    const ONE_THREAD: bool = false;

    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>> {
        head.cast()
    }

    fn is_here(&self) -> bool {
        self.domain.is_here()
    }

    unsafe fn end(this: NonNull<Self>, _: bool) -> Ended {
        // SAFETY: the caller's promise.
        let this = unsafe { this.as_ref() };
        if let State::Open | State::Failed(_) = this.state.get() {
            // Peers may still reach the memory, which may lie in the block.
            return Ended::Kept;
        }
        // User code.
        drop(this.take_memory());
        Ended::Free
    }
}

/// What becomes of a region whose handle goes.
pub(super) enum Fate {
    /// No peer reaches the memory.
    Over,
    /// The provider failed to close it.
    Failed(Errno),
    /// A list of the domain has it.
    Kept,
}

/// Closes a region that is dropped, or puts it on a list of its domain (`deferred_close`). `released` ends what the region keeps
/// open, as soon as it is closed or kept.
pub(super) fn close_dropped<T: Transport, M: Buffer + Send>(
    region: &Handle<'_, Region<T, M>>,
    released: impl FnOnce(),
) -> Fate {
    let domain = region.domain.clone();
    // A provider that can close regions at any time closes this one before the lock is taken: what peers have begun on it ends with
    // the endpoints that are open now, and through those that are opened from now on they do not reach it.
    let mut closed = (!region.is_used_when_closed()).then(|| region.close());
    let mut standstill = domain.deferred_close().standstill();
    let reached = standstill.has_endpoints() && !region.fenced;
    if closed.is_none() && !reached {
        closed = Some(region.close());
    }
    // If it failed, the region stays open, and its memory is leaked, which peers may still reach.
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
    // Of the handle: the link is that of the whole region. Its counter stays with the memory (C8).
    let link = region.value_ptr().cast::<Link>();
    if closed.is_some() {
        // SAFETY: an endpoint is open. The handle is given up by the caller.
        unsafe { standstill.keep_memory(link) };
    } else {
        // SAFETY: as above.
        unsafe { standstill.keep_region(link) };
    }
    drop(standstill);
    released();
    Fate::Kept
}

impl<T: Transport, M: Buffer + Send, H> Mr<'_, T, M, H> {
    /// Closes the region and gives the memory back.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::mr::CloseError;
    /// use loom_core::{Access, Av, Cq, Domain, Mr};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// let region = Mr::open(&domain, vec![7; 8], Access::REMOTE_READ)?;
    /// let endpoint = cq.endpoint(&av)?;
    /// let memory = match region.close() {
    ///     Ok(memory) => memory,
    ///     // Peers may still reach the memory through the endpoint.
    ///     Err(CloseError::EndpointsOpen(region)) => {
    ///         drop(endpoint);
    ///         region.close()?
    ///     }
    ///     Err(error) => return Err(error.into()),
    /// };
    /// assert_eq!(memory, [7; 8]);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`CloseError::EndpointsOpen`] if an endpoint of the domain is open, through which peers may still reach the memory;
    ///   never over a software network that is not strict. The region is as it was.
    /// - [`CloseError::Errno`] if the provider fails to close it: the memory is then leaked, because peers may still reach
    ///   it.
    pub fn close(self) -> Result<M, CloseError<Self>> {
        let domain = self.region.domain.clone();
        if !domain.is_here() {
            return Err(CloseError::Errno(Errno::OTHER_PROCESS));
        }
        // Where closing is no fence, no endpoint is open now, and none is opened before the region is closed.
        let standstill = (!self.region.fenced).then(|| domain.deferred_close().standstill());
        if standstill.as_ref().is_some_and(Standstill::has_endpoints) {
            drop(standstill);
            return Err(CloseError::EndpointsOpen(self));
        }
        let closed = self.region.close();
        drop(standstill);
        closed.map_err(CloseError::Errno)?;
        // Peers do not reach the memory any more: no endpoint was open when the region was closed, or closing is a fence.
        self.into_memory().ok_or(CloseError::Errno(Errno::ENOENT))
    }

    /// Closes the region and gives the memory back, while endpoints are open.
    ///
    /// # Errors
    /// The provider's, if it fails to close it: the memory is then leaked.
    ///
    /// # Safety
    /// No operation of a peer on the region is under way: the peers' protocol says that all have ended, and that none
    /// begins.
    pub unsafe fn close_finished(self) -> Result<M, Errno> {
        self.region.close()?;
        // Peers have finished, says the caller.
        self.into_memory().ok_or(Errno::ENOENT)
    }

    /// The memory of a region that is closed, and which no peer reaches.
    fn into_memory(self) -> Option<M> {
        let memory = self.region.take_memory();
        note!(debug, "close", "region of {} bytes is closed", self.region.range.1);
        let mut this = ManuallyDrop::new(self);
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut this.hold) };
        // SAFETY: as above.
        unsafe { ManuallyDrop::drop(&mut this.region) };
        memory
    }
}

/// Why a region did not give its memory back.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::mr::CloseError;
/// use loom_core::{Access, Domain, Mr};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// /// Takes exposed memory back, or leaves it exposed for the time of the process.
/// fn take_back<R, M>(closed: Result<M, CloseError<R>>) -> Option<M> {
///     match closed {
///         Ok(memory) => Some(memory),
///         Err(CloseError::EndpointsOpen(region)) => {
///             core::mem::forget(region);
///             None
///         }
///         // The memory is leaked already.
///         Err(CloseError::Errno(_)) => None,
///     }
/// }
///
/// let region = Mr::open(&domain, vec![7; 8], Access::REMOTE_READ)?;
/// assert_eq!(take_back(region.close()), Some(vec![7; 8]));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub enum CloseError<R> {
    /// An endpoint of the domain is open, and the transport cannot stop what peers do through it. Here is the region, still
    /// open. One that is bound to an endpoint ([`EndpointMr`](super::EndpointMr)) keeps that open itself, and always comes back here: drop it
    /// with the endpoint, and the memory is dropped when no endpoint is left.
    EndpointsOpen(R),
    /// The provider failed. The memory is leaked.
    Errno(Errno),
}

impl<R> fmt::Debug for CloseError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseError::EndpointsOpen(_) => f.write_str("EndpointsOpen"),
            CloseError::Errno(errno) => f.debug_tuple("Errno").field(errno).finish(),
        }
    }
}

impl<R> fmt::Display for CloseError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseError::EndpointsOpen(_) => {
                f.write_str("peers may reach the memory while endpoints of the domain are open")
            }
            CloseError::Errno(errno) => write!(f, "the provider failed to close the region: {errno}"),
        }
    }
}

impl<R> core::error::Error for CloseError<R> {}
