#![allow(unsafe_code, reason = "registers memory, and closes the region")]

use core::mem::ManuallyDrop;

use super::attr::MrAttr;
use super::register::register;
use crate::buffer::{Descriptor, Lent};
use crate::domain::{Domain, DomainInner};
use crate::error::OpenError;
use crate::storage::handle::Handle;
use crate::transport::Transport;
use crate::util::debug::debug_struct;
use crate::vocabulary::{Access, Errno, MrFlags, MrMode};

/// A region for local use: posts carry its descriptor ([`Lent::descriptor`]), and peers cannot
/// reach the memory.
///
/// [`Registered`](crate::registered::Registered) is the safe form.
///
/// The provider uses the memory only for posts that name the region, so it may be unmapped and
/// mapped again meanwhile. The region is then *stale*: it refers to the old pages.
///
/// ```
/// # #![allow(unsafe_code)]
/// use loom_core::{Buffer, buffer::{Descriptor, Lent}, mr::LocalMr};
/// # use core::ptr::NonNull;
/// # use loom_core::{Domain, Forever, Source, SourceBuffer, TargetBuffer};
/// # use loom_core::soft::{Network, NetworkAttr, RequiredModes};
///
/// /// Bytes with the descriptor of the region that contains them.
/// struct Known(&'static mut [u8], Descriptor);
/// // SAFETY: the bytes are borrowed forever, and the region is open until every post has completed.
/// unsafe impl Buffer for Known {
///     fn lend(&mut self) -> Lent { Lent { descriptor: Some(self.1), ..self.0.lend() } }
/// }
/// # impl SourceBuffer for Known {}
/// # impl TargetBuffer for Known {}
/// # let network = Network::new(NetworkAttr::default())?;
/// # // As over hardware: buffers without a descriptor are refused.
/// # let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION))?;
/// # let memory = vec![7_u8; 128].leak();
/// # let lent = Lent::both(NonNull::from_mut(memory).cast(), memory.len());
/// // SAFETY: the memory stays for good, and the region is open until every post has completed.
/// let region = unsafe { LocalMr::open(&domain, &lent, 0) }?;
/// # let (message, room) = memory.split_at_mut(64);
/// # fixture::pair!(domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, Known(room, region.descriptor()))?;
/// # let sent = cq.post(Known(message, region.descriptor()), Forever, |message| alice.send(to_bob, message))?;
/// # cq.finish(sent, Forever)?.result()?;
/// cq.finish(received, Forever)?.result()?;
/// # region.close()?;
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
    /// Registers a range, with its headroom: readable memory for sends and writes, writable memory
    /// for receives and reads. `device` is the memory's device among those of its kind, zero for
    /// host memory.
    ///
    /// # Errors
    /// [`OpenError::Access`] for memory neither readable nor writable, [`OpenError::DeviceMemory`],
    /// or [`OpenError::Errno`].
    ///
    /// # Safety
    /// - During the call, the range is memory of this program, and of that device if it is device
    ///   memory.
    /// - From a post with the region's descriptor until that operation ends, the region is open,
    ///   the posted memory lies in its range, and the range has the pages of its opening.
    ///   (Unmapping, mapping over, moving or returning pages to the system changes them.)
    pub unsafe fn open(domain: &Domain<'m, T>, memory: &Lent, device: i32) -> Result<Self, OpenError> {
        let mut access = Access::empty();
        if memory.readable {
            access |= Access::SEND | Access::WRITE;
        }
        if memory.writable {
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
        // SAFETY: peers have no access. The caller guarantees that posts name the region only while
        // the memory is valid (L3, M2).
        let raw = unsafe { register(&domain, &memory.whole(), &attr, MrFlags::empty()) }?;
        let descriptor = Descriptor { raw: T::mr_descriptor(&raw), domain: domain.identity() };
        Ok(LocalMr { raw, domain, descriptor })
    }

    /// Local descriptor of the region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    /// Closes the region, as dropping it does, and returns the result.
    ///
    /// # Errors
    /// Those of the provider. The unused registration and the domain then stay open.
    pub fn close(self) -> Result<(), Errno> {
        let mut this = ManuallyDrop::new(self);
        let closed = this.deregister();
        // SAFETY: dropped once, here.
        unsafe { core::ptr::drop_in_place(&raw mut this.domain) };
        closed
    }

    /// Must be called once.
    fn deregister(&mut self) -> Result<(), Errno> {
        // SAFETY: open (H1) and closed once, here (H3).
        unsafe { T::mr_close(&self.raw) }.inspect_err(|_| self.domain.leave())
    }
}

impl<T: Transport> Drop for LocalMr<'_, T> {
    fn drop(&mut self) {
        // On failure the registration stays: posts do not name it.
        let _ = self.deregister();
    }
}

debug_struct!([T: Transport] LocalMr['_, T], |it| descriptor: it.descriptor);
