//! [`LocalMr`]: a region for local use, whose owner sees to the memory.

#![allow(unsafe_code, reason = "registers memory, and closes the region")]

use core::fmt;
use core::mem::ManuallyDrop;

use super::attr::MrAttr;
use super::register::register;
use crate::buffer::{Descriptor, Lent};
use crate::domain::{Domain, DomainInner};
use crate::error::OpenError;
use crate::handle::Handle;
use crate::transport::Transport;
use crate::vocabulary::{Access, Errno, MrFlags, MrMode};

/// A region for local use alone: its descriptor goes with posts
/// ([`Lent::with_descriptor`]), and peers do not reach the memory.
///
/// [`Registered`](crate::registered::Registered) is the safe form, with the buffer inside. This one is for code
/// that keeps registrations apart from the buffers that use them, as a cache does.
///
/// The provider does not look at the memory through an open region that no post names. So the memory may come and go meanwhile, and the
/// region is then *stale*: what it knows are the pages that were there when it was opened, and not those that are there now.
///
/// Dropping it closes the region; forgetting it leaves it open, and the domain.
///
/// ```
/// # #![allow(unsafe_code)]
/// # #[cfg(feature = "std")] {
/// # use core::ptr::NonNull;
/// # use loom_core::buffer::{SourceBuffer, TargetBuffer};
/// use loom_core::buffer::{Buffer, Descriptor, Lent};
/// use loom_core::mr::LocalMr;
/// use loom_core::soft::{Network, NetworkAttr, RequiredModes};
/// # use loom_core::{Av, Cq, Forever, Source};
/// use loom_core::Domain;
///
/// /// Bytes, and the descriptor of the region that contains them.
/// struct Known(&'static mut [u8], Descriptor);
///
/// // SAFETY: the bytes are borrowed for good, and the region is open until every post is over.
/// unsafe impl Buffer for Known {
///     fn lend(&mut self) -> Lent {
///         self.0.lend().with_descriptor(self.1)
///     }
/// }
/// # impl SourceBuffer for Known {}
/// # impl TargetBuffer for Known {}
///
/// # let network = Network::new(NetworkAttr::default())?;
/// // As over hardware: buffers without a descriptor are refused.
/// let domain = Domain::open(&network.info_requiring(RequiredModes::none().local_registration()))?;
/// let memory = vec![7_u8; 128].leak();
/// let lent = Lent::both(NonNull::from_mut(memory).cast(), memory.len());
/// // SAFETY: the memory stays for good, and the region is open until every post is over.
/// let region = unsafe { LocalMr::open(&domain, &lent, 0) }?;
/// // One registration for two buffers.
/// let (message, room) = memory.split_at_mut(64);
/// let [message, room] = [message, room].map(|part| Known(part, region.descriptor()));
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, room)?;
/// let sent = cq.post(message, Forever, |message| alice.send(to_bob, message))?;
/// for key in [received, sent] {
///     cq.finish(key, Forever)?.result()?;
/// }
/// region.close()?;
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_mr`, `FI_MR_LOCAL`
#[doc(alias = "fi_mr_reg")]
pub struct LocalMr<'m, T: Transport> {
    raw: T::Mr,
    domain: Handle<'m, DomainInner<T>>,
    descriptor: Descriptor,
}

impl<'m, T: Transport> LocalMr<'m, T> {
    /// Registers a range, with its headroom, for everything that can be done with it: to be sent and written from if it is
    /// readable, to be received and read into if it is writable. It needs not be initialised. Of the devices of a kind, the memory is
    /// that of the one with this number; the host's memory has none (zero).
    ///
    /// # Errors
    /// - [`OpenError::Access`] if it is neither readable nor writable
    /// - [`OpenError::DeviceMemory`] if it is a device's memory, and the info of the domain does not grant `FI_HMEM`
    /// - [`OpenError::Errno`] if the provider refuses
    ///
    /// # Safety
    /// - The range is memory of this program for the duration of the call, and that device's if it is a device's.
    /// - Whenever a post names the region's descriptor, and until that operation is over: the region is open, what is posted
    ///   lies in its range, and the same pages lie behind that as when it was opened. (They do not if it was unmapped in between,
    ///   mapped over, moved, or its pages were given back to the system.)
    pub unsafe fn open(domain: &Domain<'m, T>, memory: &Lent, device: i32) -> Result<Self, OpenError> {
        let mut access = Access::empty();
        if memory.is_readable() {
            access |= Access::SEND | Access::WRITE;
        }
        if memory.is_writable() {
            access |= Access::RECV | Access::READ;
        }
        if access.is_empty() {
            return Err(OpenError::Access);
        }
        let domain = domain.body.clone();
        if domain.attributes().domain.mr_mode.contains(MrMode::COLLECTIVE) {
            access |= Access::COLLECTIVE;
        }
        let attr = MrAttr { device, ..MrAttr::new(access) };
        // SAFETY: peers have no access, and posts name the region only while the memory is there: the caller's promise (C11, C17).
        let raw = unsafe { register(&domain, &memory.whole(), &attr, MrFlags::empty()) }?;
        let descriptor = Descriptor { raw: T::mr_descriptor(&raw), domain: domain.identity() };
        Ok(LocalMr { raw, domain, descriptor })
    }

    /// The region's local descriptor.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    /// Closes the region, as dropping it does, and says how that went.
    ///
    /// # Errors
    /// The provider's. It then keeps a registration that no post names, and the domain stays open.
    pub fn close(self) -> Result<(), Errno> {
        let mut this = ManuallyDrop::new(self);
        let closed = this.deregister();
        // SAFETY: dropped once, here.
        unsafe { core::ptr::drop_in_place(&raw mut this.domain) };
        closed
    }

    /// Called once.
    fn deregister(&mut self) -> Result<(), Errno> {
        // SAFETY: open (C1), and closed once, here (C3).
        unsafe { T::mr_close(&self.raw) }.inspect_err(|_| self.domain.leave())
    }
}

impl<T: Transport> Drop for LocalMr<'_, T> {
    fn drop(&mut self) {
        // A failure leaves a registration that no post names, which is harmless.
        let _ = self.deregister();
    }
}

impl<T: Transport> fmt::Debug for LocalMr<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalMr").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}
