//! [`Registered`]: a buffer registered for local use (`FI_MR_LOCAL`).

#![allow(unsafe_code, reason = "registers the memory of a buffer, and shows it")]

use core::ops::Deref;

use crate::buffer::{Buffer, Descriptor, Lent, SourceBuffer, TargetBuffer};
use crate::domain::Domain;
use crate::error::{OpenError, Rejected};
use crate::mr::LocalMr;
use crate::transport::Transport;
use crate::util::debug::debug_struct;

/// A buffer with a registration of its memory.
///
/// Providers that require [`MrMode::LOCAL`](crate::vocabulary::MrMode::LOCAL) refuse other buffers
/// with [`PostError::NotRegistered`](crate::error::PostError::NotRegistered), except injected bytes
/// and empty messages. Registering costs at least one system call, so reuse the buffer.
///
/// Peers cannot access the memory, unlike that of an [`Mr`](super::mr::Mr).
///
/// Dropping the buffer ends the registration. Forgetting it leaks the registration and the domain.
///
/// ```
/// use loom_core::{Av, Cq, Domain, Forever, Source};
/// use loom_core::{registered::Registered, soft::{Network, NetworkAttr, RequiredModes}};
///
/// let network = Network::new(NetworkAttr::default())?;
/// // As over hardware: other buffers are refused.
/// let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION))?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let endpoint = cq.endpoint(&av)?;
/// let me = av.insert(&endpoint.address()?)?;
/// let [room, message] = [vec![0; 5], b"hello".to_vec()].map(|buf| Registered::new(&domain, buf));
/// endpoint.recv(Source::Any, room?)?;
/// cq.post(message?, Forever, |message| endpoint.send(me, message))?;
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_mr`, `FI_MR_LOCAL`
#[doc(alias = "fi_mr_reg")]
pub struct Registered<'m, T: Transport, B: Buffer> {
    /// First field, so that it is closed before the buffer is dropped.
    region: LocalMr<'m, T>,
    buf: B,
}

impl<'m, T: Transport, B: Buffer> Registered<'m, T, B> {
    /// Registers initialised memory as a source, and writable memory as a target. Device memory is
    /// that of the first device of its kind.
    ///
    /// ```
    /// use loom_core::{Buffer, registered::Registered};
    ///
    /// # fixture::domain!(network, domain);
    /// // A pool registers its buffers once, and posts them again and again.
    /// let mut pool = Vec::new();
    /// for _ in 0..4 {
    ///     pool.push(Registered::new(&domain, vec![0; 4096])?);
    /// }
    /// assert!(pool.iter_mut().all(|buf| buf.lend().descriptor == Some(buf.descriptor())));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error contains the buffer.
    /// - [`OpenError::Access`] if it has no memory of its own: register each buffer of an array
    /// - [`OpenError::DeviceMemory`] if it is device memory, and the info of the domain does not
    ///   grant `FI_HMEM`
    /// - [`OpenError::Errno`] if the provider refuses
    pub fn new(domain: &Domain<'m, T>, buf: B) -> Result<Self, Rejected<B, OpenError>> {
        // SAFETY: number 0 names the first device of a kind, which exists.
        unsafe { Self::on_device(domain, 0, buf) }
    }

    /// Registers memory of the device with this number among those of its kind
    /// ([`Lent::kind`](crate::buffer::Lent::kind)). Host memory has no device.
    ///
    /// # Errors
    /// Those of [`Registered::new`].
    ///
    /// # Safety
    /// The memory belongs to that device: a provider may use the number unchecked.
    #[doc(alias = "fi_mr_regattr")]
    pub unsafe fn on_device(domain: &Domain<'m, T>, device: i32, mut buf: B) -> Result<Self, Rejected<B, OpenError>> {
        // SAFETY: by the contract of `Buffer` the memory stays in place until the buffer is
        // dropped, after the registration. A forgotten registration is not used by posts.
        match unsafe { LocalMr::open(domain, &buf.lend(), device) } {
            Ok(region) => Ok(Registered { region, buf }),
            Err(error) => Err(Rejected { value: buf, error }),
        }
    }

    /// Region's local descriptor.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.region.descriptor()
    }

    /// Ends the registration, and returns the buffer.
    ///
    /// ```
    /// use loom_core::{buffer::bytes_mut, registered::Registered};
    ///
    /// # fixture::domain!(network, domain);
    /// let mut page = Registered::new(&domain, vec![0; 4096])?;
    /// bytes_mut(&mut page).expect("a vector is writable")[..5].copy_from_slice(b"hello");
    /// // The registration ends here.
    /// let page = page.into_inner();
    /// assert_eq!(&page[..5], b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn into_inner(self) -> B {
        let Registered { region, buf } = self;
        drop(region);
        buf
    }
}

/// Read access to the buffer, which cannot be replaced.
impl<T: Transport, B: Buffer> Deref for Registered<'_, T, B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.buf
    }
}

// SAFETY: the range is the buffer's own and does not change, and its region is open as long as this
// value.
unsafe impl<T: Transport, B: Buffer> Buffer for Registered<'_, T, B> {
    #[inline]
    fn lend(&mut self) -> Lent {
        Lent { descriptor: Some(self.region.descriptor()), ..self.buf.lend() }
    }
}
impl<T: Transport, B: SourceBuffer> SourceBuffer for Registered<'_, T, B> {}
impl<T: Transport, B: TargetBuffer> TargetBuffer for Registered<'_, T, B> {}

debug_struct!([T: Transport, B: Buffer] Registered['_, T, B], |it| descriptor: it.region.descriptor());
