//! [`Registered`]: a buffer whose memory is registered for local use, for providers that ask for it (`FI_MR_LOCAL`).

#![allow(unsafe_code, reason = "registers the memory of a buffer, and shows it")]

use core::fmt;
use core::ops::Deref;

use crate::buffer::{Buffer, Descriptor, Lent, SourceBuffer, TargetBuffer, bytes_mut};
use crate::domain::Domain;
use crate::error::{OpenError, Rejected};
use crate::mr::LocalMr;
use crate::transport::Transport;

/// A buffer and the registration of its memory, which is posted like any other buffer and brings its descriptor along.
///
/// Providers that ask for [`MrMode::LOCAL`](crate::vocabulary::MrMode::LOCAL) take no other (but for injected bytes, and
/// messages without any): posts are then refused with
/// [`PostError::NotRegistered`](crate::error::PostError::NotRegistered). They are offered to those who say in
/// [`Hints::domain_attr`](crate::info::Hints::domain_attr) that they are ready for that. Other providers take it all the same.
/// Registering costs a system call or more: it is done once, and the buffer used again and again.
///
/// Peers do not reach the memory: that is [`Mr`](super::mr::Mr)'s. So it is bound to no endpoint where the domain binds regions
/// (`FI_MR_ENDPOINT`): `cxi`, which has that, wants it for peers' sake alone.
///
/// Dropping the buffer ends the registration; forgetting it leaks that, and the domain.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::{av::Av, cq::Cq, deadline::Forever, domain::Domain, endpoint::Source, registered::Registered};
/// use loom_core::soft::{RequiredModes, Network, NetworkAttr};
///
/// let network = Network::new(NetworkAttr::default())?;
/// // As over hardware: other buffers are refused.
/// let domain = Domain::open(&network.info_requiring(RequiredModes::none().local_registration()))?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let endpoint = cq.endpoint(&av)?;
/// let me = av.insert(&endpoint.address()?)?;
/// let [room, message] = [vec![0; 5], b"hello".to_vec()].map(|buf| Registered::new(&domain, buf));
/// endpoint.recv(Source::Any, room?)?;
/// cq.post(message?, Forever, |message| endpoint.send(me, message))?;
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_mr`, `FI_MR_LOCAL`
#[doc(alias = "fi_mr_reg")]
pub struct Registered<'m, T: Transport, B: Buffer> {
    /// First: it is closed before the buffer is dropped.
    region: LocalMr<'m, T>,
    buf: B,
}

impl<'m, T: Transport, B: Buffer> Registered<'m, T, B> {
    /// Registers the memory of a buffer for everything that can be done with that: to be sent and written from if it is
    /// initialised, to be received and read into if it may be written. Of the devices of a kind, it is the first one's.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::buffer::Buffer;
    /// use loom_core::registered::Registered;
    /// use loom_core::Domain;
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// // A pool registers its buffers once, and posts them again and again.
    /// let mut pool = Vec::new();
    /// for _ in 0..4 {
    ///     pool.push(Registered::new(&domain, vec![0; 4096])?);
    /// }
    /// assert!(pool.iter_mut().all(|buf| buf.lend().descriptor() == Some(buf.descriptor())));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The buffer comes back.
    /// - [`OpenError::Access`] if it lends nothing by itself: of an array of buffers each is registered
    /// - [`OpenError::DeviceMemory`] if it is a device's memory, and the info of the domain does not grant `FI_HMEM`
    /// - [`OpenError::Errno`] if the provider refuses
    pub fn new(domain: &Domain<'m, T>, buf: B) -> Result<Self, Rejected<B, OpenError>> {
        Self::register(domain, 0, buf)
    }

    /// Registers the memory of a device: of the one with this number, among those of its kind
    /// ([`Lent::kind`](crate::buffer::Lent::kind)). The host's memory has none.
    ///
    /// # Errors
    /// As [`Registered::new`].
    ///
    /// # Safety
    /// The memory is that device's: a provider may look the number up without a check.
    #[doc(alias = "fi_mr_regattr")]
    pub unsafe fn on_device(domain: &Domain<'m, T>, device: i32, buf: B) -> Result<Self, Rejected<B, OpenError>> {
        Self::register(domain, device, buf)
    }

    fn register(domain: &Domain<'m, T>, device: i32, mut buf: B) -> Result<Self, Rejected<B, OpenError>> {
        // SAFETY: by the contract of buffers the memory stays where it is until the buffer is dropped, which ends the
        // registration before. If that is forgotten, no post names it.
        match unsafe { LocalMr::open(domain, &buf.lend(), device) } {
            Ok(region) => Ok(Registered { region, buf }),
            Err(error) => Err(Rejected { buf, error }),
        }
    }

    /// The memory, if it is initialised, may be written, and is the host's.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::Domain;
    /// use loom_core::registered::Registered;
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// let mut message = Registered::new(&domain, vec![0; 8])?;
    /// // The program writes each message where it is registered already.
    /// let bytes = message.bytes_mut().expect("a vector is the host's, and may be written");
    /// bytes.copy_from_slice(&7_u64.to_le_bytes());
    /// assert_eq!(message.into_inner()[0], 7);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        bytes_mut(&mut self.buf)
    }

    /// The region's local descriptor.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.region.descriptor()
    }

    /// Ends the registration, and gives the buffer back.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::Domain;
    /// use loom_core::registered::Registered;
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// let mut page = Registered::new(&domain, vec![0; 4096])?;
    /// page.bytes_mut().expect("a vector is writable")[..5].copy_from_slice(b"hello");
    /// // The registration ends here.
    /// let page = page.into_inner();
    /// assert_eq!(&page[..5], b"hello");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn into_inner(self) -> B {
        let Registered { region, buf } = self;
        drop(region);
        buf
    }
}

/// The buffer, to be looked at: it cannot be changed for another.
impl<T: Transport, B: Buffer> Deref for Registered<'_, T, B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.buf
    }
}

// SAFETY: the range is the buffer's own, which does not change, and its region is open as long as this value is there.
unsafe impl<T: Transport, B: Buffer> Buffer for Registered<'_, T, B> {
    #[inline]
    fn lend(&mut self) -> Lent {
        self.buf.lend().with_descriptor(self.region.descriptor())
    }
}
impl<T: Transport, B: SourceBuffer> SourceBuffer for Registered<'_, T, B> {}
impl<T: Transport, B: TargetBuffer> TargetBuffer for Registered<'_, T, B> {}

impl<T: Transport, B: Buffer> fmt::Debug for Registered<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("descriptor", &self.region.descriptor()).finish_non_exhaustive()
    }
}
