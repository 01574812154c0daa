//! [`Domain`]: the parent of all other objects.

#![allow(unsafe_code, reason = "opens and closes raw handles")]

pub(crate) mod reclaim;
mod scope;
pub(crate) mod scope_registry;

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use allocator_api2::alloc::Allocator;

use self::reclaim::Reclaim;
pub use self::scope::{Scope, scope};
use self::scope_registry::ScopeRef;
use crate::error::OpenError;
use crate::info::Info;
use crate::storage::handle::{CrossesThreads, Ended, Handle, Object, Plan, Unfilled};
use crate::transport::Transport;
use crate::util::clone::clone_struct;
use crate::util::debug::debug_struct;
use crate::util::log::{self, note};
use crate::vocabulary::{Attributes, Caps, EndpointType, MemoryKey, Mode, MrMode, OpFlags};

/// Access to a fabric through one device: the parent of queues, address vectors, regions and
/// endpoints.
///
/// A counted handle, which owns its fabric. The domain closes with its last clone and the last of
/// its objects.
///
/// [`'m`](crate#memory-and-lifetimes) is `'static`, except in a [`scope`](scope()).
///
/// ```
/// use loom_core::{Av, Cq, Domain, soft::{Network, NetworkAttr}};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let av = Av::open(&domain, 16)?;
/// let cq = Cq::<_, Vec<u8>>::open(&domain, 64)?;
/// // The handle may go: what was opened on the domain keeps it.
/// drop(domain);
/// let endpoint = cq.endpoint(&av)?;
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_domain`, `man fi_fabric`
#[doc(alias = "fi_domain")]
#[doc(alias = "fid_domain")]
#[doc(alias = "fi_fabric")]
#[doc(alias = "fid_fabric")]
pub struct Domain<'m, T: Transport> {
    pub(crate) body: Handle<'m, DomainInner<T>>,
    pub(crate) scope: Option<ScopeRef>,
    /// Invariant in `'m`: shorter-lived memory cannot be used.
    lives: Brand<'m>,
}

pub(crate) type Brand<'m> = PhantomData<fn(&'m ()) -> &'m ()>;

pub(crate) struct DomainInner<T: Transport> {
    raw: T::Domain,
    info: Info<T>,
    fabric: T::Fabric,
    pub(crate) reclaim: Reclaim,
    keys: AtomicU64,
    identity: u64,
    home: Option<ScopeRef>,
}

const SERVED_MODES: Mode =
    Mode::CONTEXT.union(Mode::CONTEXT2).union(Mode::MSG_PREFIX).union(Mode::ASYNC_IOV).union(Mode::RX_CQ_DATA);

/// Supported registration modes.
///
/// Excludes `FI_MR_RAW`: mapped keys of such providers (`ucx`, `ofi_mrail`) are addresses that
/// posts dereference, and a peer may send any value.
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

/// Receive flags that do not change the meaning of calls. With `MULTI_RECV`, a provider would write
/// into a returned buffer.
const SERVED_RX_FLAGS: OpFlags = OpFlags::COMPLETION
    .union(OpFlags::INJECT_COMPLETE)
    .union(OpFlags::TRANSMIT_COMPLETE)
    .union(OpFlags::DELIVERY_COMPLETE)
    .union(OpFlags::COMMIT_COMPLETE)
    .union(OpFlags::MATCH_COMPLETE);

const SERVED_TX_FLAGS: OpFlags = SERVED_RX_FLAGS.union(OpFlags::INJECT).union(OpFlags::FENCE);

impl<T: Transport + 'static> Domain<'static, T> {
    /// Opens the fabric and the domain that an info names, in memory from `alloc`.
    ///
    /// ```
    /// use loom_core::{Av, Cq, Domain, allocator_api2::alloc::Global, soft::{Network, NetworkAttr}};
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// // Without `std` each object takes its memory from an allocator of the program's.
    /// let domain = Domain::open_in(&network.info(), Global)?;
    /// let av = Av::open_in(&domain, 2, Global)?;
    /// let cq = Cq::<_, &mut [u8]>::open_in(&domain, 16, Global)?;
    /// let endpoint = cq.endpoint(&av)?;
    /// assert_eq!(av.find(&endpoint.address()?), None);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`OpenError::Mode`], [`OpenError::MrMode`], [`OpenError::OpFlags`] if the info requires
    ///   unsupported modes or default flags
    /// - [`OpenError::Threading`] if the provider does not serialise access as `T` promises
    /// - [`OpenError::OutOfMemory`], or the info cannot be copied
    /// - [`OpenError::Errno`] if the provider refuses
    pub fn open_in<A: Allocator + Send + 'static>(info: &Info<T>, alloc: A) -> Result<Self, OpenError> {
        Self::open_for(info, alloc, None)
    }

    /// [`Domain::open_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn open(info: &Info<T>) -> Result<Self, OpenError> {
        Self::open_in(info, allocator_api2::alloc::Global)
    }
}

impl<'m, T: Transport> Domain<'m, T> {
    pub(super) fn open_for<A: Allocator + Send + 'm>(
        info: &Info<T>,
        alloc: A,
        scope: Option<ScopeRef>,
    ) -> Result<Self, OpenError>
    where
        T: 'm,
    {
        static IDENTITIES: AtomicU64 = AtomicU64::new(1);

        DomainInner::check(info)?;
        let info = info.try_clone()?;
        let (plan, memory) = DomainInner::plan::<A>(&info)?;
        let block = Unfilled::new(plan, alloc)?;
        // SAFETY: `memory` is an offset of the plan.
        let memory = unsafe { block.at(memory) };
        // SAFETY: loom built `info` from the transport's data.
        let fabric = unsafe { T::fabric_open(info.raw()) }?;
        // SAFETY: the fabric is open (H1), belongs to this info (H4), and stays open until the
        // domain is closed (H2: `end`). The block has the memory, and is freed afterwards (M1).
        let raw = match unsafe { T::domain_open(&fabric, info.raw(), memory) } {
            Ok(raw) => raw,
            Err(errno) => {
                // SAFETY: the fabric was opened above and has no open children (H2), and a failed
                // close is not retried (H3).
                let _ = unsafe { T::fabric_close(&fabric) };
                return Err(errno.into());
            }
        };
        let body = block.fill(DomainInner {
            raw,
            info,
            fabric,
            reclaim: Reclaim::new(),
            keys: AtomicU64::new(1),
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            home: scope,
        });
        body.note_opened();
        Ok(Domain { body, scope, lives: PhantomData })
    }

    pub(super) fn within<'s>(&self, scope: ScopeRef) -> Domain<'s, T>
    where
        'm: 's,
    {
        Domain { body: self.body.clone(), scope: Some(scope), lives: PhantomData }
    }

    /// Layout of a domain's block in an `A`.
    ///
    /// ```
    /// use loom_core::{AvAttr, CqAttr, Domain, allocator_api2::alloc::Global, soft::Soft};
    ///
    /// # fixture::domain!(network, domain);
    /// // An arena for a domain, a vector of 16 peers and a queue needs at least this.
    /// let blocks = [
    ///     Domain::layout::<Global>(&network.info())?,
    ///     AvAttr::new(16).layout::<_, Global>(&domain)?,
    ///     CqAttr::new(64).layout::<Soft<'_>, &[u8], Global>()?,
    /// ];
    /// let bytes: usize = blocks.iter().map(|block| block.size()).sum();
    /// assert!(bytes > 64 * size_of::<&[u8]>());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError::Size`].
    pub fn layout<A: Allocator>(info: &Info<T>) -> Result<Layout, OpenError> {
        Ok(DomainInner::plan::<A>(info)?.0.layout())
    }

    /// Info that the domain was opened with.
    #[must_use]
    pub fn info(&self) -> &Info<T> {
        self.body.info()
    }

    /// Raw handle.
    #[must_use]
    pub fn raw(&self) -> &T::Domain {
        self.body.raw()
    }
}

impl<T: Transport> DomainInner<T> {
    /// Layout, and offset of the transport's memory.
    fn plan<A: Allocator>(info: &Info<T>) -> Result<(Plan, usize), OpenError> {
        let mut plan = Plan::of::<Self, A>()?;
        let memory = plan.add(T::domain_layout(info.raw())?)?;
        Ok((plan, memory))
    }

    pub(crate) fn check(info: &Info<T>) -> Result<(), OpenError> {
        let attributes = info.attributes();
        let requested = attributes.mode.union(attributes.tx.mode).union(attributes.rx.mode);
        let mode = requested.difference(SERVED_MODES);
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

    /// Providers open only the resources that the domain's own info requests. For more, `ofi_rxm`
    /// reads from null with collectives, and `tcp` of libfabric 2.5 with a shared context on a
    /// domain of endpoints without connections.
    pub(crate) fn admits(&self, info: &Info<T>, kinds: &[EndpointType]) -> Result<(), OpenError> {
        if !info.same_domain(&self.info) {
            return Err(OpenError::OtherDomain);
        }
        self.serves(info, kinds)
    }

    pub(crate) fn serves(&self, info: &Info<T>, kinds: &[EndpointType]) -> Result<(), OpenError> {
        if !self.is_here() {
            return Err(OpenError::OtherProcess);
        }
        DomainInner::check(info)?;
        let (kind, of_domain) = (info.attributes().endpoint.kind, self.attributes().endpoint.kind);
        if !kinds.contains(&kind) {
            return Err(OpenError::EndpointType(kind));
        }
        if kind != of_domain {
            return Err(OpenError::EndpointType(of_domain));
        }
        let missing = (Caps::COLLECTIVE | Caps::HMEM).intersection(info.caps()).difference(self.info.caps());
        if missing.is_empty() { Ok(()) } else { Err(OpenError::NotGranted(missing)) }
    }

    fn note_opened(&self) {
        let Attributes { caps, endpoint, tx, rx, domain, .. } = self.attributes();
        note!(debug, "open", "{self} of fabric {:?} is open: {}, {caps}", self.info.fabric(), endpoint.kind);
        note!(
            debug,
            "open",
            "{self} grants {}, {}, mr_mode {}, messages of {} bytes, injects of {}, {} transmits, {} receives, immediate data of {} bytes",
            domain.threading,
            domain.data_progress,
            domain.mr_mode,
            endpoint.max_msg_size,
            tx.inject_size,
            tx.size,
            rx.size,
            domain.cq_data_size
        );
        if log::ON {
            let raw = self.info.raw();
            for decision in T::quirks(raw).denied().chain(T::workarounds(raw)) {
                note!(info, "quirk", "{self}: {decision}");
            }
        }
    }

    pub(crate) fn info(&self) -> &Info<T> {
        &self.info
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        self.info.attributes()
    }

    pub(crate) fn raw(&self) -> &T::Domain {
        &self.raw
    }

    /// A domain that the scope opened is leaked, because memory that it keeps may have handles of
    /// the scope.
    pub(crate) fn after_scope(this: Handle<'static, Self>, scope: ScopeRef) {
        if this.is_of(Some(scope)) {
            let _ = ManuallyDrop::new(this);
        } else {
            this.release();
        }
    }

    /// The transport may use its memory in the block (M1).
    fn left_open(&self) -> Ended {
        let has_memory = T::domain_layout(self.info.raw()).is_ok_and(|layout| layout.size() > 0);
        if has_memory { Ended::Kept } else { Ended::Free }
    }

    pub(crate) fn is_of(&self, scope: Option<ScopeRef>) -> bool {
        self.home == scope
    }

    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    pub(crate) fn next_key(&self) -> MemoryKey {
        if self.attributes().domain.mr_mode.intersects(MrMode::PROV_KEY | MrMode::BASIC) {
            // Some providers take any other number for a requested key.
            return MemoryKey(0);
        }
        MemoryKey(self.keys.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs user code, which may unwind.
    pub(crate) fn release(&self) {
        self.reclaim.release();
    }
}

impl<T: Transport> CrossesThreads for DomainInner<T> where Self: Send + Sync {}

impl<T: Transport> Object for DomainInner<T> {
    const ONE_THREAD: bool = false;

    fn is_here(&self) -> bool {
        T::is_here(&self.raw)
    }

    unsafe fn end(this: NonNull<Self>, left: bool) -> Ended {
        // SAFETY: the caller guarantees a valid object.
        let this = unsafe { this.as_ref() };
        if left {
            note!(
                warn,
                "left",
                "{this} stays open, and so does its fabric: something that was opened on it could not be closed"
            );
            return this.left_open();
        }
        // SAFETY: the domain's objects held handles, which are dropped (H2; rule 2 of `handle`).
        let closed = unsafe { T::domain_close(&this.raw) }.and_then(|()| {
            // SAFETY: the fabric's domain is closed (H2); otherwise the fabric stays open. A failed
            // close is not retried (H3).
            unsafe { T::fabric_close(&this.fabric) }
        });
        match closed {
            Ok(()) => {
                note!(debug, "close", "{this} and its fabric are closed");
                Ended::Free
            }
            Err(errno) => {
                note!(warn, "left", "{this} or its fabric stays open: closing failed: {errno}");
                this.left_open()
            }
        }
    }
}

impl<T: Transport> fmt::Display for DomainInner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "domain {} ({:?} of {})", self.identity, self.info.domain(), self.info.provider())
    }
}

clone_struct!([T: Transport] Domain['_, T], body, scope, lives);

debug_struct!([T: Transport] Domain['_, T], |it| info: it.info());
