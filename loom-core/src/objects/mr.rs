//! [`Mr`]: memory that peers may reach, and [`RemoteRegion`], what they need for it.

#![allow(unsafe_code, reason = "registers memory and keeps it until it is deregistered")]

use core::fmt;
use core::mem::MaybeUninit;

use crate::abort::OnFailedClose;
use crate::buffer::{Buffer, Descriptor};
use crate::error::OpenError;
use crate::exposed::Window;
use crate::objects::domain::Domain;
use crate::transport::Transport;
use crate::vocabulary::{Access, Errno, MemoryKey, MrMode, RemoteAddr};

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

/// A registered memory region, with the memory that it registers.
///
/// While it is open, this side sees the memory through a [`Window`] only. Closing (dropping) it ends the access of
/// peers and gives the memory back. Over providers that let a peer's process write without asking this side's (`shm`
/// with cross-memory attach), closing does not stop a transfer which is under way in that process: let peers finish
/// before.
///
/// # References
/// - `man fi_mr`
#[doc(alias = "fid_mr")]
pub struct Mr<'d, T: Transport, M: Buffer> {
    raw: T::Mr,
    domain: &'d Domain<T>,
    /// Initialised while the region is open. In `MaybeUninit`, because moving a `&mut` or a `Box` as such would claim the
    /// memory for it alone.
    memory: MaybeUninit<M>,
    /// The memory, for as long as the region keeps it.
    window: Window<'static>,
    state: State,
    on_failed_close: OnFailedClose,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Closed,
}

impl<'d, T: Transport, M: Buffer> Mr<'d, T, M> {
    /// Registers memory for as long as the region is open.
    ///
    /// `'static`, because the region may be forgotten, and then peers can reach the memory for ever. For borrowed
    /// memory there is [`scope`].
    ///
    /// # Errors
    /// - [`OpenError::Access`] if the memory is not initialised, or peers may write and it may not be written
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_mr_reg")]
    pub fn open(domain: &'d Domain<T>, memory: M, access: Access) -> Result<Self, OpenError>
    where
        M: 'static,
    {
        // SAFETY: forgetting the region leaks its memory.
        unsafe { Self::register(domain, memory, access, OnFailedClose::Leak) }
    }

    /// # Safety
    /// The region is dropped before the memory's lifetime ends, or that is `'static`.
    unsafe fn register(
        domain: &'d Domain<T>,
        memory: M,
        access: Access,
        on_failed_close: OnFailedClose,
    ) -> Result<Self, OpenError> {
        /// How many keys to try where the application chooses and others choose too.
        const TRIES: usize = 16;
        let mut memory = MaybeUninit::new(memory);
        // SAFETY: just written.
        let lent = unsafe { memory.assume_init_mut() }.lend();
        let register = || {
            // Windows read, so that memory which is not initialised cannot be exposed.
            let written = access.intersects(Access::REMOTE_WRITE | Access::RECV | Access::READ);
            if !lent.is_readable() || (written && !lent.is_writable()) {
                return Err(OpenError::Access);
            }
            let mut tries = 0;
            loop {
                tries += 1;
                // SAFETY: the memory is kept until the region is closed.
                match unsafe { T::mr_open(domain.raw(), &lent, access, domain.next_key()) } {
                    Err(Errno::ENOKEY) if tries < TRIES => {}
                    result => return Ok(result?),
                }
            }
        };
        let raw = match register() {
            Ok(raw) => raw,
            Err(error) => {
                // SAFETY: written above, and not registered.
                unsafe { memory.assume_init_drop() };
                return Err(error);
            }
        };
        domain.child_opened();
        // SAFETY: the region keeps the memory until it is closed, and from now on nobody has access but peers and windows;
        // `Mr::window` shortens the lifetime to a borrow of the region.
        let window = unsafe { Window::new(lent.ptr(), lent.len(), lent.is_writable()) };
        Ok(Mr { raw, domain, memory, window, state: State::Open, on_failed_close })
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

    /// Ends the access of peers and gives the memory back.
    ///
    /// # Errors
    /// The provider's, if it fails to close: the memory is then leaked, because peers may still reach it.
    pub fn close(mut self) -> Result<M, Errno> {
        self.deregister()?;
        // SAFETY: taken once: the state is `Closed`, so dropping `self` leaves it alone.
        Ok(unsafe { self.memory.assume_init_read() })
    }

    fn deregister(&mut self) -> Result<(), Errno> {
        // Whatever comes back, the close is not retried.
        self.state = State::Closed;
        // SAFETY: open until now, and nobody borrows the region.
        let closed = unsafe { T::mr_close(&self.raw) };
        match closed {
            Ok(()) => self.domain.child_closed(),
            Err(_) if self.on_failed_close == OnFailedClose::Leak => {}
            Err(_) => crate::abort::abort("a provider failed to close a memory region whose memory is borrowed"),
        }
        closed
    }
}

impl<T: Transport, M: Buffer> Drop for Mr<'_, T, M> {
    fn drop(&mut self) {
        if self.state == State::Open && self.deregister().is_ok() {
            // SAFETY: dropped once, here; peers have no access any more.
            unsafe { self.memory.assume_init_drop() };
        }
    }
}

impl<T: Transport, M: Buffer> fmt::Debug for Mr<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mr").field("len", &self.window.len()).field("key", &self.key()).finish_non_exhaustive()
    }
}

/// Registers memory of any lifetime for the time of a call.
///
/// The closure gets the region by reference, so it cannot forget it. Before this function returns or unwinds, the
/// region is closed; if the provider fails to, the process is aborted.
///
/// # Errors
/// - [`OpenError::Access`] if the memory is not initialised, or peers may write and it may not be written
/// - [`OpenError::Errno`] if the provider refuses
#[doc(alias = "fi_mr_reg")]
pub fn scope<'d, T: Transport, M: Buffer, R>(
    domain: &'d Domain<T>,
    memory: M,
    access: Access,
    f: impl FnOnce(&Mr<'d, T, M>) -> R,
) -> Result<R, OpenError> {
    // SAFETY: dropped at the end of this function, also when `f` unwinds.
    let mr = unsafe { Mr::register(domain, memory, access, OnFailedClose::Abort) }?;
    Ok(f(&mr))
}
