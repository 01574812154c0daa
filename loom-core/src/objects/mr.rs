//! [`Mr`]: memory that peers may reach, and [`RemoteRegion`], what they need for it.

#![allow(unsafe_code, reason = "registers memory and keeps it until it is deregistered")]

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use allocator_api2::alloc::Allocator;

use crate::buffer::{Buffer, Descriptor, Lent};
use crate::error::OpenError;
use crate::exposed::Window;
use crate::objects::domain::Domain;
use crate::objects::lingering::Kept;
use crate::transport::{RemotePart, Transport};
use crate::vocabulary::{Access, Errno, HmemIface, MemoryKey, MrMode, RemoteAddr};

/// What a peer needs to reach a region: plain data, to be sent to it.
///
/// Whether the provider counts from the region's begin or by virtual address (`FI_MR_VIRT_ADDR`) is settled here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_rma_iov")]
pub struct RemoteRegion {
    base: RemoteAddr,
    len: u64,
    key: MemoryKey,
}

impl RemoteRegion {
    /// How many bytes [`to_bytes`](Self::to_bytes) makes.
    pub const WIRE_LEN: usize = 24;

    /// From the parts that a peer told in another way.
    #[must_use]
    pub const fn new(base: RemoteAddr, len: u64, key: MemoryKey) -> Self {
        RemoteRegion { base, len, key }
    }

    /// The address of the region's first byte, as the peer's domain counts.
    #[must_use]
    pub const fn base(&self) -> RemoteAddr {
        self.base
    }

    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length of memory, not a collection")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// The region's key.
    #[must_use]
    pub const fn key(&self) -> MemoryKey {
        self.key
    }

    /// The remote address of a range, if it lies within the region.
    #[inline]
    pub(crate) fn range(&self, offset: u64, len: usize) -> Option<RemoteAddr> {
        let end = offset.checked_add(u64::try_from(len).ok()?)?;
        if end > self.len {
            return None;
        }
        self.base.checked_add(offset)
    }

    /// A part of the region, for operations that take several; `None` if it does not lie within.
    #[must_use]
    pub fn part(&self, offset: u64, len: usize) -> Option<RemotePart> {
        Some(RemotePart { addr: self.range(offset, len)?, len, key: self.key })
    }

    /// Base, length and key, each as eight little-endian bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::WIRE_LEN] {
        let mut out = [0; Self::WIRE_LEN];
        let words = [self.base.0, self.len, self.key.0];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// What [`to_bytes`](Self::to_bytes) made. Any bytes are a region; whether it exists, its owner decides.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::WIRE_LEN]) -> Self {
        let mut words = [0; 3];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut le = [0; 8];
            le.copy_from_slice(chunk);
            *word = u64::from_le_bytes(le);
        }
        let [base, len, key] = words;
        RemoteRegion { base: RemoteAddr(base), len, key: MemoryKey(key) }
    }
}

/// A registered memory region.
///
/// While it is open, this side sees the memory through a [`Window`] only.
///
/// # References
/// - `man fi_mr`
#[doc(alias = "fid_mr")]
pub struct Mr<'d, T: Transport> {
    raw: T::Mr,
    domain: &'d Domain<T>,
    /// The memory, for as long as the region is open: [`Mr::window`] shortens the lifetime to a borrow of the region.
    window: Window<'static>,
    /// Nobody uses the memory any more when closing the region returns.
    fenced: bool,
}

/// Registers memory, under a key that nobody else has where the application chooses.
///
/// # Safety
/// What is lent stays valid for what `access` says until the region is closed.
pub(super) unsafe fn register<T: Transport>(
    domain: &Domain<T>,
    lent: &Lent,
    access: Access,
) -> Result<T::Mr, OpenError> {
    /// How many keys to try where the application chooses and others choose too.
    const TRIES: usize = 16;
    if lent.kind() != HmemIface::SYSTEM {
        // Windows and slices are for the host.
        return Err(Errno::EOPNOTSUPP.into());
    }
    let mut tries = 0;
    loop {
        tries += 1;
        // SAFETY: the caller's promise.
        match unsafe { T::mr_open(domain.raw(), lent, access, domain.next_key()) } {
            Err(Errno::ENOKEY) if tries < TRIES => {}
            result => return Ok(result?),
        }
    }
}

impl<'d, T: Transport> Mr<'d, T> {
    /// Registers memory for as long as the region is open. What the region itself needs, it takes from `alloc`.
    ///
    /// `'static`, because the region may be forgotten, and then peers can reach the memory for ever. For borrowed
    /// memory there is [`scope`]. `Send`, because the memory is dropped by whichever thread closes the domain's last
    /// endpoint, if that comes after the region (see [`MrOwner`]).
    ///
    /// # Errors
    /// - [`OpenError::Access`] if the memory is not initialised, or peers may write and it may not be written
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_mr_reg")]
    pub fn open_in<M: Buffer + Send + 'static, A: Allocator + Send + 'static>(
        domain: &'d Domain<T>,
        memory: M,
        access: Access,
        alloc: A,
    ) -> Result<MrOwner<'d, T, M, A>, OpenError> {
        let mut memory = Kept::new(memory, alloc)?;
        let lent = memory.value().lend();
        // SAFETY: the memory stays in its place until the region is closed and no endpoint can reach it: `MrOwner`.
        let mr = unsafe { Self::register(domain, &lent, access) }?;
        Ok(MrOwner { mr, memory: ManuallyDrop::new(memory) })
    }

    /// [`Mr::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Mr::open_in`].
    #[cfg(feature = "std")]
    pub fn open<M: Buffer + Send + 'static>(
        domain: &'d Domain<T>,
        memory: M,
        access: Access,
    ) -> Result<MrOwner<'d, T, M, allocator_api2::alloc::Global>, OpenError> {
        Self::open_in(domain, memory, access, allocator_api2::alloc::Global)
    }

    /// # Safety
    /// What is lent stays valid, and nobody but peers and windows accesses it, until [`deregister`](Self::deregister)
    /// succeeded and no endpoint can reach it any more.
    unsafe fn register(domain: &'d Domain<T>, lent: &Lent, access: Access) -> Result<Self, OpenError> {
        // Windows read, so that memory which is not initialised cannot be exposed.
        let written = access.intersects(Access::REMOTE_WRITE | Access::RECV | Access::READ);
        if !lent.is_readable() || (written && !lent.is_writable()) {
            return Err(OpenError::Access);
        }
        // SAFETY: the caller's promise.
        let raw = unsafe { register(domain, lent, access) }?;
        domain.child_opened();
        // SAFETY: the caller's promise.
        let window = unsafe { Window::new(lent.ptr(), lent.len(), lent.is_writable()) };
        Ok(Mr { raw, domain, window, fenced: Self::is_fenced(access) })
    }

    /// Whether closing a region with this access ends all use of its memory: by what the transport does, or because no peer
    /// can reach it.
    fn is_fenced(access: Access) -> bool {
        T::MR_CLOSE_FENCES || !access.intersects(Access::REMOTE_READ | Access::REMOTE_WRITE)
    }

    /// This side's view of the memory.
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        self.window
    }

    /// What a peer needs to reach the memory.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        let mode = self.domain.attributes().domain.mr_mode;
        let base = if mode.intersects(MrMode::VIRT_ADDR | MrMode::BASIC) { self.window.as_ptr().addr() } else { 0 };
        RemoteRegion { base: RemoteAddr(base as u64), len: self.window.len() as u64, key: self.key() }
    }

    /// The region's key.
    #[doc(alias = "fi_mr_key")]
    #[must_use]
    pub fn key(&self) -> MemoryKey {
        T::mr_key(&self.raw)
    }

    /// The region's local descriptor.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub fn descriptor(&self) -> Descriptor {
        Descriptor { raw: T::mr_descriptor(&self.raw), domain: self.domain.identity() }
    }

    /// Closes the region: no operation of a peer on it begins any more.
    ///
    /// # Safety
    /// Called once; the region is not used after this, whatever comes back.
    unsafe fn deregister(&self) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { T::mr_close(&self.raw) }?;
        self.domain.child_closed();
        Ok(())
    }
}

impl<T: Transport> fmt::Debug for Mr<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mr").field("len", &self.window.len()).field("key", &self.key()).finish_non_exhaustive()
    }
}

/// Owns a region and the memory that it registers.
///
/// Dropping it closes the region: peers' operations on it are refused from then on. The memory is dropped as soon as
/// nobody can reach it. Over the software transport that is at once. Over libfabric an operation that began before goes on,
/// so the domain keeps the memory until none of its endpoints is open, and drops it then. A program that closes regions
/// while endpoints stay open for long, and knows from its protocol when its peers have finished, gets the memory back with
/// [`close_finished`](Self::close_finished).
pub struct MrOwner<'d, T: Transport, M: Buffer + Send + 'static, A: Allocator + Send + 'static> {
    mr: Mr<'d, T>,
    memory: ManuallyDrop<Kept<M, A>>,
}

impl<T: Transport, M: Buffer + Send + 'static, A: Allocator + Send + 'static> MrOwner<'_, T, M, A> {
    /// Closes the region and gives the memory back.
    ///
    /// # Errors
    /// - [`CloseError::EndpointsOpen`] if an endpoint of the domain is open, through which peers may still reach the memory;
    ///   never over the software transport. The region is as it was.
    /// - [`CloseError::Errno`] if the provider fails to close it: the memory is then leaked, because peers may still reach
    ///   it.
    pub fn close(self) -> Result<M, CloseError<Self>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: called once, on an owner that ends here unless this is not called.
        let close = || unsafe { this.mr.deregister() };
        let closed = if this.mr.fenced { Some(close()) } else { this.mr.domain.lingering().without_endpoints(close) };
        match closed {
            // SAFETY: taken once: the owner ends here. Nobody can reach the memory any more.
            Some(Ok(())) => Ok(unsafe { this.take_memory() }.into_value()),
            Some(Err(errno)) => Err(CloseError::Errno(errno)),
            None => Err(CloseError::EndpointsOpen(ManuallyDrop::into_inner(this))),
        }
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
        let this = ManuallyDrop::new(self);
        // SAFETY: called once: the owner ends here.
        unsafe { this.mr.deregister() }?;
        // SAFETY: as above; peers have finished, says the caller.
        Ok(unsafe { this.take_memory() }.into_value())
    }

    /// # Safety
    /// Called once, on an owner that is not dropped.
    unsafe fn take_memory(&self) -> Kept<M, A> {
        // SAFETY: the caller's promise: this copy is the only one that is used.
        ManuallyDrop::into_inner(unsafe { core::ptr::read(&raw const self.memory) })
    }
}

impl<'d, T: Transport, M: Buffer + Send + 'static, A: Allocator + Send + 'static> Deref for MrOwner<'d, T, M, A> {
    type Target = Mr<'d, T>;

    fn deref(&self) -> &Mr<'d, T> {
        &self.mr
    }
}

impl<T: Transport, M: Buffer + Send + 'static, A: Allocator + Send + 'static> Drop for MrOwner<'_, T, M, A> {
    fn drop(&mut self) {
        // SAFETY: called once, here. If it fails, peers may still reach the memory, which is leaked then.
        if unsafe { self.mr.deregister() }.is_err() {
            return;
        }
        // SAFETY: taken once, here.
        let memory = unsafe { self.take_memory() };
        if self.mr.fenced {
            drop(memory);
        } else {
            self.mr.domain.lingering().keep(memory);
        }
    }
}

impl<T: Transport, M: Buffer + Send + 'static, A: Allocator + Send + 'static> fmt::Debug for MrOwner<'_, T, M, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.mr, f)
    }
}

/// Why a region did not give its memory back.
pub enum CloseError<R> {
    /// An endpoint of the domain is open, and the transport cannot stop what peers do through it. Here is the region, still
    /// open.
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

/// Registers memory of any lifetime for the time of a call.
///
/// The closure gets the region by reference, so it cannot forget it. Before this function returns or unwinds, the
/// region is closed; if the provider fails to, the process is aborted.
///
/// Over libfabric, where closing a region does not stop what peers have begun, the scope has to be around the queues of the
/// domain: it is refused if one is open when it begins, and the process is aborted if an endpoint is open when it ends.
///
/// # Errors
/// - [`OpenError::Access`] if the memory is not initialised, or peers may write and it may not be written
/// - [`OpenError::QueueOpen`] over libfabric, if a queue of the domain is open
/// - [`OpenError::Errno`] if the provider refuses
#[doc(alias = "fi_mr_reg")]
pub fn scope<'d, T: Transport, M: Buffer, R>(
    domain: &'d Domain<T>,
    mut memory: M,
    access: Access,
    f: impl FnOnce(&Mr<'d, T>) -> R,
) -> Result<R, OpenError> {
    if !Mr::<T>::is_fenced(access) && domain.lingering().has_queues() {
        return Err(OpenError::QueueOpen);
    }
    let lent = memory.lend();
    // SAFETY: the memory is not touched here until `Scoped` is dropped, which comes before its own end, also when `f`
    // unwinds; that ends the process if peers might still reach the memory.
    let mr = unsafe { Mr::register(domain, &lent, access) }?;
    let scoped = Scoped { mr };
    Ok(f(&scoped.mr))
}

/// A region of borrowed memory.
struct Scoped<'d, T: Transport> {
    mr: Mr<'d, T>,
}

impl<T: Transport> Drop for Scoped<'_, T> {
    fn drop(&mut self) {
        // SAFETY: called once, here.
        if unsafe { self.mr.deregister() }.is_err() {
            crate::abort::abort("a provider failed to close a memory region whose memory is borrowed");
        }
        if !self.mr.fenced && self.mr.domain.lingering().has_endpoints() {
            crate::abort::abort(
                "endpoints are open at the end of a scope whose borrowed memory peers may reach through them",
            );
        }
    }
}
