//! [`Fabric`] and [`Domain`]: what everything else is opened on.

#![allow(unsafe_code, reason = "opens and closes raw handles")]

use core::fmt;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::error::OpenError;
use crate::objects::count::SharedCount;
use crate::objects::info::Info;
use crate::objects::lingering::Lingering;
use crate::transport::Transport;
use crate::vocabulary::{Attributes, MemoryKey, Mode, MrMode, OpFlags};

/// A physical or virtual network: the resources that domains of one provider share.
///
/// # References
/// - `man fi_fabric`
#[doc(alias = "fi_fabric")]
#[doc(alias = "fid_fabric")]
pub struct Fabric<T: Transport> {
    raw: T::Fabric,
    /// A duplicate of the info that it was opened with.
    info: Info<T>,
}

impl<T: Transport> Fabric<T> {
    /// Opens the fabric that an info names.
    ///
    /// # Errors
    /// [`OpenError::Errno`] if the provider refuses, [`OpenError::OutOfMemory`] if there is no room for a copy of the info.
    pub fn open(info: &Info<T>) -> Result<Self, OpenError> {
        let info = info.try_clone()?;
        // SAFETY: nothing is asked of the caller beyond the info, which is whole.
        let raw = unsafe { T::fabric_open(info.raw()) }?;
        Ok(Fabric { raw, info })
    }

    /// The raw handle, for calls that loom does not wrap.
    #[must_use]
    pub fn raw(&self) -> &T::Fabric {
        &self.raw
    }

    /// Opens a domain on this fabric, and gives the fabric to it.
    ///
    /// # Errors
    /// As [`Domain::open`], and [`OpenError::OtherDomain`] if the info is of another fabric; the fabric is closed.
    pub fn into_domain(self, info: &Info<T>) -> Result<Domain<T>, OpenError> {
        static IDENTITIES: AtomicU64 = AtomicU64::new(1);

        Domain::check(info)?;
        if !self.info.same_fabric(info) {
            return Err(OpenError::OtherDomain);
        }
        let info = info.try_clone()?;
        // SAFETY: the fabric is open, and the domain keeps it until it is closed itself.
        let raw = unsafe { T::domain_open(&self.raw, info.raw()) }?;
        Ok(Domain {
            raw,
            info: ManuallyDrop::new(info),
            fabric: ManuallyDrop::new(self),
            children: SharedCount::none(),
            lingering: Lingering::new(),
            keys: AtomicU64::new(1),
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
        })
    }
}

impl<T: Transport> Drop for Fabric<T> {
    fn drop(&mut self) {
        // SAFETY: a fabric is inside of its domain while that is open. A failed close is not retried: the handle is
        // gone either way, and nothing of ours depends on it.
        let _ = unsafe { T::fabric_close(&self.raw) };
    }
}

impl<T: Transport> fmt::Debug for Fabric<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fabric").finish_non_exhaustive()
    }
}

/// Access to a fabric through one device: the parent of queues, address vectors, regions and endpoints.
///
/// It owns its fabric and a duplicate of the info that it was opened with. Children borrow it. A child that was
/// forgotten (`mem::forget`) is still open underneath: a domain with such a child leaks itself instead of closing,
/// because closing a parent first is memory-unsafe in libfabric.
///
/// # References
/// - `man fi_domain`
#[doc(alias = "fi_domain")]
#[doc(alias = "fid_domain")]
pub struct Domain<T: Transport> {
    raw: T::Domain,
    info: ManuallyDrop<Info<T>>,
    fabric: ManuallyDrop<Fabric<T>>,
    /// Open children, forgotten ones too; with the regions that `lingering` keeps.
    children: SharedCount,
    lingering: Lingering,
    keys: AtomicU64,
    identity: u64,
}

/// The modes that are served: by the op table and its queue, by buffers that are to be [`Prefixed`](crate::buffer::Prefixed), and by the
/// limits of an [`Info`].
const SERVED_MODES: Mode =
    Mode::CONTEXT.union(Mode::CONTEXT2).union(Mode::MSG_PREFIX).union(Mode::ASYNC_IOV).union(Mode::RX_CQ_DATA);

/// The registration modes that are served: addresses, keys and counters are handled by [`Mr`](super::mr::Mr), regions that are
/// bound to endpoints by its builder, and local buffers and those of devices are to be
/// [`Registered`](super::registered::Registered).
///
/// Not `FI_MR_RAW`: the keys that such providers have peers map (`ucx`, `ofi_mrail`) are addresses of this side's memory, which
/// posts follow. A [`RemoteRegion`](super::mr::RemoteRegion) is what a peer says, and may say anything.
const SERVED_MR_MODES: MrMode = MrMode::BASIC
    .union(MrMode::VIRT_ADDR)
    .union(MrMode::ALLOCATED)
    .union(MrMode::PROV_KEY)
    .union(MrMode::LOCAL)
    .union(MrMode::HMEM)
    .union(MrMode::ENDPOINT)
    .union(MrMode::RMA_EVENT)
    .union(MrMode::COLLECTIVE)
    .union(MrMode::MMU_NOTIFY);

/// The default flags of receives that mean nothing else than the calls without them. `MULTI_RECV` would have a provider write
/// into a buffer that has come back.
const SERVED_RX_FLAGS: OpFlags = OpFlags::COMPLETION
    .union(OpFlags::INJECT_COMPLETE)
    .union(OpFlags::TRANSMIT_COMPLETE)
    .union(OpFlags::DELIVERY_COMPLETE)
    .union(OpFlags::COMMIT_COMPLETE)
    .union(OpFlags::MATCH_COMPLETE);

/// The same of sends, reads and writes.
const SERVED_TX_FLAGS: OpFlags = SERVED_RX_FLAGS.union(OpFlags::INJECT).union(OpFlags::FENCE);

impl<T: Transport> Domain<T> {
    /// Opens the fabric and the domain that an info names.
    ///
    /// # Errors
    /// - [`OpenError::Mode`], [`OpenError::MrMode`] if the info asks for what loom does not serve
    /// - [`OpenError::OpFlags`] if its operations do by default what loom does not serve
    /// - [`OpenError::Threading`] if the provider serialises in another way than `T` promises
    /// - [`OpenError::OutOfMemory`] if there is no room for copies of the info
    /// - [`OpenError::Errno`] if the provider refuses
    pub fn open(info: &Info<T>) -> Result<Self, OpenError> {
        Self::check(info)?;
        Fabric::open(info)?.into_domain(info)
    }

    /// Whether everything that an info asks for is served.
    pub(crate) fn check(info: &Info<T>) -> Result<(), OpenError> {
        let attributes = info.attributes();
        let asked = attributes.mode.union(attributes.tx.mode).union(attributes.rx.mode);
        let mode = asked.difference(SERVED_MODES);
        if !mode.is_empty() {
            return Err(OpenError::Mode(mode));
        }
        let mr_mode = attributes.domain.mr_mode.difference(SERVED_MR_MODES);
        if !mr_mode.is_empty() {
            return Err(OpenError::MrMode(mr_mode));
        }
        let (tx, rx) = (attributes.tx.op_flags, attributes.rx.op_flags);
        let unserved = tx.difference(SERVED_TX_FLAGS).union(rx.difference(SERVED_RX_FLAGS));
        if !unserved.is_empty() {
            return Err(OpenError::OpFlags(unserved));
        }
        if !T::serves_threading(attributes) {
            return Err(OpenError::Threading);
        }
        Ok(())
    }

    /// The info that the domain was opened with.
    #[must_use]
    pub fn info(&self) -> &Info<T> {
        &self.info
    }

    /// The info's attributes.
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        self.info.attributes()
    }

    /// The fabric underneath.
    #[must_use]
    pub fn fabric(&self) -> &Fabric<T> {
        &self.fabric
    }

    /// The raw handle, for calls that loom does not wrap.
    #[must_use]
    pub fn raw(&self) -> &T::Domain {
        &self.raw
    }

    /// Tells this domain from every other one of the program.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// The next key for a region, where the provider leaves the choice to the application.
    pub(crate) fn next_key(&self) -> MemoryKey {
        if self.attributes().domain.mr_mode.intersects(MrMode::PROV_KEY | MrMode::BASIC) {
            // There are providers that take another number for a wish.
            return MemoryKey(0);
        }
        MemoryKey(self.keys.fetch_add(1, Ordering::Relaxed))
    }

    /// Its endpoints, and the regions and memory that it keeps for as long as they may reach them.
    pub(crate) fn lingering(&self) -> &Lingering {
        &self.lingering
    }

    /// Closes and drops what it keeps, if no endpoint is open. User code runs, which may unwind.
    pub(crate) fn release(&self) {
        self.lingering.release(&self.children);
    }

    pub(crate) fn child_opened(&self) {
        self.children.add();
    }

    pub(crate) fn child_closed(&self) {
        self.children.remove();
    }
}

impl<T: Transport> Drop for Domain<T> {
    fn drop(&mut self) {
        // What is left if a destructor unwound out of the close of the last endpoint's queue.
        self.release();
        // Children borrow the domain, so that none is opened any more.
        if !self.children.is_none() {
            return;
        }
        // SAFETY: no child is open, and nobody else has the handle.
        if unsafe { T::domain_close(&self.raw) }.is_ok() {
            // SAFETY: dropped once, here; the domain above it is closed.
            unsafe { ManuallyDrop::drop(&mut self.fabric) };
        }
        // SAFETY: dropped once, here. A failed close leaks the fabric; the info is plain data.
        unsafe { ManuallyDrop::drop(&mut self.info) };
    }
}

impl<T: Transport> fmt::Debug for Domain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("info", &*self.info).field("children", &self.children).finish_non_exhaustive()
    }
}
